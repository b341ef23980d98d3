"""The contents of memory, for people: a picture, a name and a time."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any

import numpy as np

from devmind.live.remembering.asking import Question
from devmind.live.remembering.press import Holding
from devmind.memory import Entry, Filters, Memory
from devmind.moment import SOUND_RATE_HZ, Sense

SHOWN = 50


def list_remembered(memory: Memory, also: Iterable[int] = ()) -> list[dict[str, Any]]:
    """The newest named examples and the entries `also`, the newest first: id, name, time_s, picture, sound_s."""
    newest = memory.store.facts(Filters(named=True)).ids[::-1][:SHOWN].tolist()
    return [as_shown(entry) for entry in memory.get(sorted({*newest, *also}, reverse=True))]


def as_shown(entry: Entry) -> dict[str, Any]:
    """One entry as plain data; `picture` is a data URL, '' without one."""
    sound = entry.senses.get("sound")
    return {
        "id": entry.id,
        "name": entry.name or "",
        "time_s": entry.time_s,
        "picture": _as_url(entry.senses.get("sight")),
        "sound_s": sound.shape[1] / SOUND_RATE_HZ if isinstance(sound, np.ndarray) else 0.0,
    }


def as_held(holding: Holding, frame: np.ndarray | None) -> dict[str, Any]:
    """The thing held up, as plain data: `square` (fractions of the frame, None for nothing), `picture` (a data URL of
    the crop that would be kept), `frames` (their number in the present press; None between presses), `sees` (whether
    the camera gives frames) and `frames_hz` (so many a second, or None).
    """
    square = holding.square
    box = None
    if square is not None and frame is not None:
        tall = square.side * frame.shape[1] / frame.shape[0]
        box = {"x": square.x - square.side / 2, "y": square.y - tall / 2, "w": square.side, "h": tall}
        box = {name: round(value, 4) for name, value in box.items()}
    rate_hz = holding.frames_hz
    return {
        "square": box, "picture": _as_url(holding.preview), "frames": holding.frames,
        "sees": holding.sees, "frames_hz": None if rate_hz is None else round(rate_hz, 1),
    }  # fmt: skip


def question_data(question: Question) -> dict[str, Any]:
    """A question of the agent, as plain data, with its picture."""
    return {**question.note(), "nearest": question.nearest, "picture": _as_url(question.shown.picture())}


def _as_url(picture: Sense | None) -> str:
    """A picture uint8 [H, W, 3] as a PNG in a data URL."""
    if not isinstance(picture, np.ndarray):
        return ""
    import cv2

    png = cv2.imencode(".png", cv2.cvtColor(picture, cv2.COLOR_RGB2BGR))[1]
    return "data:image/png;base64," + base64.b64encode(png.tobytes()).decode()
