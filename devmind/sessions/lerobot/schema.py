"""The content of some sessions for a LeRobotDataset, and a tick as one row of numbers.

A dataset for training has no NaN: numbers of a sense that are never known are left out, and one that is not known in a
row has the last value of its episode (0 before the first). `devmind.present` and `devmind.known` mark them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from devmind.errors import SessionError
from devmind.moment import SOUND_RATE_HZ, Sense
from devmind.sessions.lerobot.layout import ACTION, CAMERA, KNOWN, PRESENT, STATE, feature
from devmind.sessions.reader import Session
from devmind.sessions.steps import Step

MAX_ACTION = 64
"""An effector of more numbers (a voice) is no joint of a robot."""

Kind = tuple[str, tuple[int, ...]]


@dataclass(frozen=True)
class Schema:
    """The content of the dataset.

    Attributes:
        fps: rows a second.
        sight: there are pictures.
        camera: height and width of the camera's whole frames, cut to even numbers; None: there are none.
        sound_channels: 1 or 2; 0: no sound.
        senses, effectors: dtype and shape by name, of numbers that keep them in all sessions.
        present: the names of the flags of `devmind.present`.
        kept: for each sense, the numbers that are known at least once: their places in the flat array.
        unsure: for each sense, those of them that are not known in every row with the sense.
        names: names of the numbers of a sense or effector in the sessions.
    """

    fps: int
    sight: bool
    camera: tuple[int, int] | None
    sound_channels: int
    senses: dict[str, Kind]
    effectors: dict[str, Kind]
    present: tuple[str, ...]
    kept: dict[str, list[int]]
    unsure: dict[str, list[int]]
    names: dict[str, list[str]]

    def features(self) -> dict[str, Any]:
        """The columns of numbers, as info.json lists them."""
        found = {
            column(name): feature(dtype, (len(self.kept[name]),), self._called(name, self.kept[name]))
            for name, (dtype, _) in self.senses.items()
        }
        names = [
            f"{name}.{one}"
            for name, (_, shape) in self.effectors.items()
            for one in self._called(name, range(math.prod(shape)))
        ]
        if names:
            found[ACTION] = feature("float32", (len(names),), names)
        if unsure := [f"{column(name)}.{one}" for name, of in self.unsure.items() for one in self._called(name, of)]:
            found[KNOWN] = feature("float32", (len(unsure),), unsure)
        return found | {PRESENT: feature("float32", (len(self.present),), list(self.present))}

    def row(
        self, step: Step, filmed: bool = False, before: Mapping[str, np.ndarray] | None = None
    ) -> dict[str, np.ndarray]:
        """One tick's numbers, each flat, by column.

        Unknown numbers are as in the row `before` of the same episode, else 0; an effector that did nothing is 0.
        `devmind.present` and `devmind.known` mark them. With `filmed` there is a new frame of the camera.
        """
        moment, action = step
        done: Mapping[str, np.ndarray] = action.effectors if action is not None else {}
        found, known = {}, list[np.ndarray]()
        for name, (dtype, _) in self.senses.items():
            last = before[column(name)] if before else np.zeros(len(self.kept[name]), dtype)
            value = moment.senses.get(name)
            now = np.asarray(value).astype(dtype).ravel()[self.kept[name]] if name in moment.senses else last
            found[column(name)] = np.where(np.isfinite(now), now, last)
            at = [self.kept[name].index(k) for k in self.unsure[name]]
            known.append(np.isfinite(now)[at] & (name in moment.senses))
        if any(self.unsure.values()):
            found[KNOWN] = np.concatenate(known).astype(np.float32)
        if self.effectors:
            parts = [_flat(done.get(name), dtype, shape) for name, (dtype, shape) in self.effectors.items()]
            found[ACTION] = np.concatenate([part.astype(np.float32) for part in parts])
        there = {
            *moment.senses,
            *[CAMERA] * filmed,
            *(f"action.{name}" for name in done),
            *([ACTION] if action is not None else []),
        }
        found[PRESENT] = np.array([name in there for name in self.present], np.float32)
        return found

    def about(self) -> dict[str, Any]:
        """Data for an import to restore the recorded arrays: meta/devmind.json."""
        about = {"senses": self.senses, "effectors": self.effectors, "names": self.names}
        return {**about, "kept": self.kept, "unsure": self.unsure}

    def _called(self, name: str, places: Iterable[int]) -> list[str]:
        """The names of these numbers of a sense or effector, else their places."""
        names = self.names.get(name)
        return [names[k] if names else str(k) for k in places]


def column(sense: str) -> str:
    """The feature for a sense of numbers."""
    return STATE if sense == "body" else f"observation.{sense}"


def schema_of(sessions: Sequence[Session], warnings: list[str]) -> Schema:
    """The data that all of `sessions` can give to one dataset; sentences on what is left out go to `warnings`.

    Raises:
        SessionError: there is nothing in them, or their ticks differ.
    """
    rates = sorted({session.tick_hz for session in sessions})
    if len(rates) != 1 or rates[0] != round(rates[0]):
        shown = ", ".join(f"{rate:g}" for rate in rates)
        raise SessionError(f"One dataset has one whole number of ticks a second; these sessions have {shown}.")
    if not any(map(len, sessions)):
        raise SessionError(f"'{sessions[0].path}' holds no Moment; there is nothing to export.")
    fps = round(rates[0])
    sensed, done = _kinds(sessions, "senses"), _kinds(sessions, "effectors")
    senses = {
        name: kind
        for name, kinds in sensed.items()
        if name not in ("sight", "sound", "words") and (kind := _only(name, kinds, warnings, math.inf))
    }
    effectors = {name: kind for name, kinds in done.items() if (kind := _only(name, kinds, warnings, MAX_ACTION))}
    kept, unsure = _known(sessions, senses)
    for name in [name for name, places in kept.items() if not places]:
        warnings.append(f"'{name}' has no known number; left out.")
        del senses[name], kept[name], unsure[name]
    channels = _sound_channels(sensed.get("sound", set()), fps, warnings)
    features = [name for name in ("sight", "words") if name in sensed] + ["sound"] * bool(channels)
    camera = _camera_size(sessions)
    features += [CAMERA] * bool(camera)
    if not (features or senses or effectors):
        reasons = "".join(f" {sentence[0].upper()}{sentence[1:]}" for sentence in warnings)
        raise SessionError(f"There is nothing in these sessions that a LeRobotDataset can hold.{reasons}")
    present = (*sorted([*senses, *features]), ACTION, *(f"action.{name}" for name in effectors))
    names = _names(sessions, senses | effectors)
    return Schema(fps, "sight" in sensed, camera, channels, senses, effectors, present, kept, unsure, names)


def _known(
    sessions: Sequence[Session], senses: Mapping[str, Kind]
) -> tuple[dict[str, list[int]], dict[str, list[int]]]:
    """By sense, the places of the numbers that are known at least once, and of those that are not always known."""
    ever = {name: np.zeros(math.prod(shape), bool) for name, (_, shape) in senses.items()}
    always = {name: ~known for name, known in ever.items()}
    for moment, _ in (step for session in sessions for step in session):
        for name in senses.keys() & moment.senses.keys():
            known = np.isfinite(np.asarray(moment.senses[name])).ravel()
            ever[name] |= known
            always[name] &= known
    kept = {name: np.flatnonzero(known).tolist() for name, known in ever.items()}
    return kept, {name: np.flatnonzero(ever[name] & ~always[name]).tolist() for name in senses}


def _names(sessions: Sequence[Session], kinds: Mapping[str, Kind]) -> dict[str, list[str]]:
    """Names of numbers if all sessions agree on them and have a name for each."""
    found: dict[str, list[str]] = {}
    for name, (_, shape) in kinds.items():
        names_by_session = [session.names().get(name) for session in sessions]
        names = names_by_session[0]
        if (
            names
            and all(other == names for other in names_by_session)
            and len(set(names)) == len(names) == math.prod(shape)
        ):
            found[name] = names
    return found


def _kinds(sessions: Sequence[Session], which: str) -> dict[str, set[Kind]]:
    found: dict[str, set[Kind]] = {}
    for session in sessions:
        for name, recorded in sorted(getattr(session, which).items()):
            found.setdefault(name, set()).update(recorded.kinds)
    return dict(sorted(found.items()))


def _only(name: str, kinds: set[Kind], warnings: list[str], limit: float) -> Kind | None:
    """The only dtype (in this machine's byte order) and shape of `name`; without a single one it is left out."""
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
    """Size of the first frame; H.264 in yuv420p takes even sides only."""
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


def _flat(value: Sense | None, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Zeros for an absent sense or effector."""
    return value.astype(dtype).ravel() if isinstance(value, np.ndarray) else np.zeros(math.prod(shape), dtype)
