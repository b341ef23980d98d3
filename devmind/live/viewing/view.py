"""The view of one tick for a page: plain numbers, lists and small pictures, ready for JSON.

The view never shows as known what is not: overlays come with their confidence on this stream, and without a drawing
when it is too low; a direction is None where it cannot be told; a sense that is absent is not in the view.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from devmind.acting.confidence import SENSE, Confidence, Overlays, overlay_head
from devmind.agent.agent import Agent
from devmind.agent.attention import ReadoutAttention
from devmind.agent.tracker import Beliefs, project
from devmind.live.loop import Tick
from devmind.live.viewing.drawing import draw_overlays, jpeg
from devmind.live.viewing.hearing import view_sound
from devmind.live.viewing.overlay_confidence import OverlayConfidence
from devmind.live.viewing.planned import view_plan
from devmind.memory import Named
from devmind.sessions.pictures import WIDE_HALF_DEG
from devmind.worlds.room import Room, reasons, sensor_health

SURE = 0.7
UNMEASURED = (
    "How far its overlays can be trusted was never measured, so none is shown; "
    "'python -m devmind.acting.confidence FOLDER' measures the agent saved in FOLDER."
)
MOVES = 0.04
"""Least change of brightness, 0..1, that counts as movement, in a part of a sixteenth of the frame's width and height:
a camera's noise averages out to 0.01 and less."""


class View:
    """Makes the views of one agent.

    Args:
        sure: confidence from which an overlay is shown.
        measured: how far this agent's overlays can be trusted, as it is kept with it.

    Attributes:
        fault: why no overlay is ever shown, a sentence; '' when all is well.
    """

    def __init__(self, agent: Agent, sure: float = SURE, measured: Confidence | None = None) -> None:
        self.agent, self.sure = agent, sure
        head = overlay_head(agent) if SENSE in agent.encoders else None
        self._overlays = OverlayConfidence(agent, head, measured) if head else None
        self.fault = UNMEASURED if head and measured is None and agent.config.stages else ""
        self._arcs = {
            name for effector in agent.effectors for name in agent.heads_of(effector, standby=True)
            if not agent.tap_of(name).on_trunk
        }  # fmt: skip
        self._attention = ReadoutAttention(agent)

    def close(self) -> None:
        """Release the agent: its attention is no longer noted."""
        self._attention.close()

    @torch.no_grad()
    def of(
        self,
        tick: Tick,
        room: Room,
        names: Mapping[str, Named] | None = None,
        surprise: Mapping[str, float] | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """The view of a tick, to be made before the next step.

        Args:
            names: answers of `Names.ask` by sense.
            surprise: by sense, prediction error; 1 is the error of predicting no change.
            extra: further keys, which replace these.
        """
        sound = tick.moment.senses.get("sound")
        view: dict[str, Any] = {
            "type": "tick",
            "tick": room.health.ticks + room.health.skipped,
            "time_s": round(tick.moment.time_s, 3),
            "work_ms": round(1e3 * tick.work_s, 1),
            "skipped": room.health.skipped,
            "missing": dict(room.health.missing),
            **(gaze(room) if SENSE in tick.moment.senses else {}),
            "follows": follows(tick.moment.senses.get("periphery"), room),
            **who_answered(tick, self._arcs),
            "attention": self._attended(tick),
            "overlays": self._overlaid(tick),
            "beliefs": self._believed(tick, room),
            "plan": view_plan(tick.output, *room.frame.shape[:2]) if room.frame is not None else None,
            "sound": None if sound is None else view_sound(np.asarray(sound)),
            "says": spoken_words(tick.action.effectors["say"]) if "say" in tick.action.effectors else None,
            "words": tick.moment.senses.get("words"),
            "page": tick.moment.senses.get("text"),
            "names": {sense: as_known(named) for sense, named in (names or {}).items()},
            "surprise": {sense: number(value) for sense, value in (surprise or {}).items()},
            "health": sensor_health(room.sensors.values()),
            "absent": reasons(room.sensors, tick.moment.senses),
        }
        return {key: value for key, value in view.items() if value is not None and value != {}} | dict(extra or {})

    jpeg = staticmethod(jpeg)

    def _attended(self, tick: Tick) -> list[list[float]] | None:
        shares = self._attention.over(SENSE, tick.percepts)
        side = math.isqrt(shares.shape[1]) if shares is not None else 0
        if shares is None or side * side != shares.shape[1]:
            return None
        return [[round(share, 4) for share in row] for row in shares[0].reshape(side, side).tolist()]

    def _believed(self, tick: Tick, room: Room) -> list[dict[str, Any]] | None:
        """Where the agent believes things to be; empty without a frame to draw them in."""
        tracker = self.agent.tracker
        if room.frame is None or tracker is None:
            return None
        return view_beliefs(tick.output.beliefs, self.agent.labels_of(tracker.detects), *room.frame.shape[:2])

    def _overlaid(self, tick: Tick) -> dict[str, Any] | None:
        eye, of = tick.percepts.encoded.get(SENSE), self._overlays
        if of is None or eye is None or not bool(eye.present.any()):
            return None
        output = tick.output.outputs.get(of.head) or self.agent.run_heads([of.head], tick.percepts.seen)[of.head]
        seen: Overlays = output.overlays()
        return draw_overlays(seen, of.see(tick, seen), self.sure)


def gaze(room: Room) -> dict[str, Any]:
    """The square of the fovea in the frame, as fractions of it, and its direction; empty without a frame."""
    if room.frame is None:
        return {}
    height, width = room.frame.shape[:2]
    top, left, side = room.fovea.box(height, width)
    box = {"x": left / width, "y": top / height, "w": side / width, "h": side / height}
    return {
        "fovea": {name: round(value, 4) for name, value in box.items()},
        "gaze": {"pan_deg": round(room.fovea.pan_deg, 1), "tilt_deg": round(room.fovea.tilt_deg, 1)},
    }


def follows(change: Any, room: Room) -> bool | None:
    """Whether the fovea lies on what changes most in the frame; None where nothing moves.

    Args:
        change: the sense `periphery`, float32 [1, R, C], or None.
    """
    if room.frame is None or not isinstance(change, np.ndarray) or change.max() < MOVES:
        return None
    height, width = room.frame.shape[:2]
    top, left, side = room.fovea.box(height, width)
    row, column = np.unravel_index(int(change[0].argmax()), change[0].shape)
    x, y = (column + 0.5) / change.shape[2] * width, height / 2 + ((row + 0.5) / change.shape[1] - 0.5) * width
    return bool(top <= y <= top + side and left <= x <= left + side)


def who_answered(tick: Tick, arcs: set[str]) -> dict[str, Any]:
    """By effector the head that decided; those of `arcs` that did; and the gaze."""
    answered = dict(tick.output.decided())
    look = tick.action.effectors.get("look")
    return {
        "answered": answered,
        "arcs": sorted(arcs & set(answered.values())),
        "look": None if look is None else [round(float(value), 3) for value in look],
    }


def spoken_words(value: np.ndarray) -> str:
    """The words of an action `say`: UTF-8, one number for each byte, encoded as the sense `words`; zeros end them."""
    codes = np.asarray(value).reshape(-1)
    return bytes(int(code) & 0xFF for code in codes).partition(b"\0")[0].decode(errors="ignore")


def as_known(named: Named) -> dict[str, Any]:
    """An answer of memory."""
    return {"name": named.name, "nearest": named.nearest, "confidence": round(named.confidence, 3)} | {
        "shares": {name: round(share, 3) for name, share in named.shares.items()}
    }


def number(value: float) -> float | None:
    """A number for JSON: None for a non-finite one."""
    return round(float(value), 3) if math.isfinite(value) else None


TOLD = 0.2
"""Share of belief, of being there or elsewhere, below which a thing counts as forgotten."""
LOST = 0.5
"""Share of belief that a thing is elsewhere from which it counts as lost."""


def view_beliefs(
    beliefs: Beliefs | None, labels: Sequence[str], height: int, width: int
) -> list[dict[str, Any]] | None:
    """The beliefs of one agent, those seen last first; None where it keeps none.

    Each has its class's `name`, `x` and `y` as fractions of a frame of this size (a thing beyond the frame is drawn at
    its edge, with `beyond` true), the `radius` of its uncertainty as a fraction of the width, `there` (the share of
    belief that it is there), `age_s`, `in_sight` and `lost`.
    """
    if beliefs is None:
        return None
    is_shown = beliefs.used[0] & (beliefs.hits[0] > 1) & (beliefs.there[0] + beliefs.elsewhere[0] >= TOLD)
    level = np.zeros(1)
    column, row, ahead = (value[0] for value in project(beliefs.mean[:1], level, level, WIDE_HALF_DEG))
    shown = []
    for slot in sorted(np.flatnonzero(is_shown), key=lambda slot: beliefs.age_s[0, slot]):
        side, down = column[slot], row[slot] * width / height
        if not np.isfinite(side):  # behind: at the edge towards which the head would turn
            side, down = -np.copysign(2.0, beliefs.mean[0, slot, 1]), 0.0
        shown.append(
            {
                "name": labels[beliefs.kind[0, slot]],
                "x": round(float(np.clip(side, -1, 1) + 1) / 2, 4),
                "y": round(float(np.clip(down, -1, 1) + 1) / 2, 4),
                "beyond": bool(abs(side) > 1 or abs(down) > 1),
                "radius": round(_radius(beliefs.spread_m[0, slot], beliefs.size_m[0, slot], ahead[slot]), 4),
                "there": round(float(beliefs.there[0, slot]), 3),
                "age_s": round(float(beliefs.age_s[0, slot]), 1),
                "in_sight": bool(beliefs.in_sight[0, slot]),
                "lost": bool(beliefs.elsewhere[0, slot] >= LOST),
            }
        )
    return shown


def _radius(spread_m: float, size_m: float, ahead_m: float) -> float:
    """Half the thing plus one standard deviation, as a fraction of the frame's width, limited to the smallest visible
    size and a quarter of the width.
    """
    across = 2 * np.tan(np.deg2rad(WIDE_HALF_DEG)) * max(ahead_m, 0.1)
    return float(np.clip((spread_m + size_m / 2) / across, 0.02, 0.25))
