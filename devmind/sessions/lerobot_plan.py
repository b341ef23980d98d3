"""What of some sessions goes into a LeRobotDataset, and how a tick becomes one row of numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from devmind.errors import SessionError
from devmind.moment import SOUND_RATE_HZ, Sense
from devmind.sessions.lerobot_layout import ACTION, CAMERA, PRESENT, STATE, feature
from devmind.sessions.reader import Session
from devmind.sessions.steps import Step

MAX_ACTION = 64
"""An effector of more numbers (a voice) is no joint of a robot."""

Kind = tuple[str, tuple[int, ...]]


@dataclass(frozen=True)
class Plan:
    """What goes in.

    Attributes:
        fps: rows a second.
        sight: there are pictures.
        camera: height and width of the camera's whole frames, cut to even numbers; None: there are none.
        sound_channels: 1 or 2; 0: no sound.
        senses, effectors: dtype and shape by name, of numbers that keep them in all sessions.
        present: the names behind the flags of `devmind.present`.
    """

    fps: int
    sight: bool
    camera: tuple[int, int] | None
    sound_channels: int
    senses: dict[str, Kind]
    effectors: dict[str, Kind]
    present: tuple[str, ...]

    def features(self) -> dict[str, Any]:
        """The columns of numbers, as info.json lists them."""
        found = {column(name): feature(dtype, (math.prod(shape),)) for name, (dtype, shape) in self.senses.items()}
        names = [f"{name}.{k}" for name, (_, shape) in self.effectors.items() for k in range(math.prod(shape))]
        if names:
            found[ACTION] = feature("float32", (len(names),), names)
        return found | {PRESENT: feature("float32", (len(self.present),), list(self.present))}

    def row(self, step: Step, filmed: bool = False) -> dict[str, np.ndarray]:
        """One tick's numbers, each flat, by column.

        Of an absent sense, NaN (0 where a dtype has no NaN); an effector that did nothing, 0: `devmind.present` tells.
        With `filmed` there is a new frame of the camera.
        """
        moment, action = step
        done: Mapping[str, np.ndarray] = action.effectors if action is not None else {}
        found = {column(name): _flat(moment.senses.get(name), *kind) for name, kind in self.senses.items()}
        if self.effectors:
            parts = [_flat(done.get(name), dtype, shape, 0) for name, (dtype, shape) in self.effectors.items()]
            found[ACTION] = np.concatenate([part.astype(np.float32) for part in parts])
        there = {
            *moment.senses,
            *[CAMERA] * filmed,
            *(f"action.{name}" for name in done),
            *([ACTION] if action is not None else []),
        }
        found[PRESENT] = np.array([name in there for name in self.present], np.float32)
        return found


def column(sense: str) -> str:
    """The feature that a sense of numbers goes to."""
    return STATE if sense == "body" else f"observation.{sense}"


def plan_of(sessions: Sequence[Session], warnings: list[str]) -> Plan:
    """What all of `sessions` can give to one dataset; sentences on what is left out go to `warnings`.

    Raises:
        SessionError: there is nothing in them, or their ticks differ.
    """
    rates = sorted({session.tick_hz for session in sessions})
    if len(rates) != 1 or rates[0] != round(rates[0]):
        shown = ", ".join(f"{rate:g}" for rate in rates)
        raise SessionError(f"One dataset has one whole number of ticks a second; these sessions have {shown}.")
    fps = round(rates[0])
    sensed, done = _kinds(sessions, "senses"), _kinds(sessions, "effectors")
    senses = {
        name: kind
        for name, kinds in sensed.items()
        if name not in ("sight", "sound", "words") and (kind := _only(name, kinds, warnings, math.inf))
    }
    effectors = {name: kind for name, kinds in done.items() if (kind := _only(name, kinds, warnings, MAX_ACTION))}
    channels = _sound_channels(sensed.get("sound", set()), fps, warnings)
    told = [name for name in ("sight", "words") if name in sensed] + ["sound"] * bool(channels)
    camera = _camera_size(sessions)
    told += [CAMERA] * bool(camera)
    if not (told or senses or effectors):
        raise SessionError("There is nothing in these sessions that a LeRobotDataset can hold; look at 'session info'.")
    present = (*sorted([*senses, *told]), ACTION, *(f"action.{name}" for name in effectors))
    return Plan(fps, "sight" in sensed, camera, channels, senses, effectors, present)


def _kinds(sessions: Sequence[Session], which: str) -> dict[str, set[Kind]]:
    found: dict[str, set[Kind]] = {}
    for session in sessions:
        for name, recorded in sorted(getattr(session, which).items()):
            found.setdefault(name, set()).update(recorded.kinds)
    return dict(sorted(found.items()))


def _only(name: str, kinds: set[Kind], warnings: list[str], limit: float) -> Kind | None:
    """The one dtype (in this machine's byte order) and shape of `name`; without one it is left out."""
    native = {("str", ()) if dtype == "str" else (np.dtype(dtype).name, shape) for dtype, shape in kinds}
    dtype, shape = sorted(native)[0]
    if len(native) > 1:
        warnings.append(f"'{name}' changes its shape or dtype from tick to tick; left out.")
    elif dtype == "str" or not 1 <= math.prod(shape) <= limit:
        what = "text" if dtype == "str" else f"{math.prod(shape)} numbers"
        warnings.append(f"'{name}' is {what}, which has no place in a LeRobotDataset; left out.")
    else:
        return dtype, shape
    return None


def _camera_size(sessions: Sequence[Session]) -> tuple[int, int] | None:
    """Of the first frame; H.264 in yuv420p takes even sides only."""
    for session in sessions:
        for frame in session.frames():
            height, width = frame.picture().shape[:2]
            return height // 2 * 2, width // 2 * 2
    return None


def _sound_channels(kinds: set[Kind], fps: int, warnings: list[str]) -> int:
    fits = all(
        len(shape) == 2 and shape[0] in (1, 2) and shape[1] * fps == SOUND_RATE_HZ for _, shape in kinds if shape
    )
    if kinds and not fits:
        warnings.append(f"The sound is not of {SOUND_RATE_HZ / fps:g} samples a tick; left out.")
    return max((shape[0] for _, shape in kinds), default=0) if fits else 0


def _flat(value: Sense | None, dtype: str, shape: tuple[int, ...], absent: float = math.nan) -> np.ndarray:
    if isinstance(value, np.ndarray):
        return value.astype(dtype).ravel()
    return np.full(math.prod(shape), absent if np.dtype(dtype).kind == "f" else 0, dtype)
