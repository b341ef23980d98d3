"""The columns of a LeRobotDataset that become senses and effectors, and their rows as events."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from devmind.errors import SessionError, nearest
from devmind.moment import STANDARD_SENSES
from devmind.sessions.importing import Event
from devmind.sessions.lerobot import layout

Rows = dict[str, list[Any]]

EXACT = {"int32": "float64", "uint32": "float64", "int64": "int64", "uint64": "uint64", "float64": "float64"}
"""By a feature's dtype, what holds its numbers exactly where float32 does not: it counts to 16,777,216 only."""


@dataclass
class Columns:
    """The meaning of a dataset's features.

    Attributes:
        sight: the feature whose pictures become sight; empty: none.
        senses: feature by sense. `effectors`: by name, the slice of its feature's numbers.
        kinds: dtype and shape by sense or effector, as in our own export; else float32 [K], or what holds its numbers
            exactly.
        present: the position of each flag of `devmind.present`.
        kept: for a sense of our own export, the places of its numbers in the recorded array; the others were never
            known.
        unsure: for such a sense, the places of numbers whose flags in `devmind.known` begin at that position.
        names: names of the numbers of a sense or effector.
    """

    sight: str = ""
    senses: dict[str, str] = field(default_factory=dict)
    effectors: dict[str, tuple[str, slice]] = field(default_factory=dict)
    kinds: dict[str, tuple[str, tuple[int, ...]]] = field(default_factory=dict)
    present: dict[str, int] = field(default_factory=dict)
    kept: dict[str, list[int]] = field(default_factory=dict)
    unsure: dict[str, tuple[int, list[int]]] = field(default_factory=dict)
    names: dict[str, list[str]] = field(default_factory=dict)
    rounded: set[str] = field(default_factory=set)
    """Senses of which float32 could not hold a number."""

    def wanted(self, column: str) -> bool:
        """True for the columns of the data files that are read."""
        used = {self.sight, *self.senses.values(), *(key for key, _ in self.effectors.values())}
        return column in used | {*layout.INDEXES, layout.PRESENT, layout.KNOWN, layout.REWARD, layout.TERMINATED}

    def seen(self, rows: Rows) -> list[bool]:
        """For each row, whether its picture was new."""
        return self._flags(rows, "sight" if self.sight == layout.SIGHT else self.sight)

    def heard(self, rows: Rows) -> list[bool]:
        """For each row, whether it had sound."""
        return self._flags(rows, "sound")

    def events(self, rows: Rows, ticks: list[int], tasks: dict[int, str]) -> Iterator[Event]:
        """The rows' numbers and words. A task is heard at the episode's first tick, and again when it changes."""
        present_flags = {name: self._flags(rows, name) for name in self.senses}
        done = {name: self._flags(rows, f"action.{name}") for name in self.effectors}
        acted = self._flags(rows, layout.ACTION) if self.present else [False] * len(ticks)
        heard = self._new_tasks(rows, tasks)
        for row, tick in enumerate(ticks):
            for name in self.senses:
                if present_flags[name][row]:
                    yield Event(tick, "sense", name, self._sensed(name, rows, row))
            for name, (key, part) in self.effectors.items():
                if done[name][row]:
                    yield Event(tick, "effector", name, self._value(name, np.ravel(rows[key][row])[part]))
            if acted[row]:
                yield Event(tick, "acted")
            if heard[row]:
                yield Event(tick, "sense", "words", heard[row])
            if row and layout.REWARD in rows:  # the reward of the row comes after it
                yield Event(tick, "reward", value=float(np.ravel(rows[layout.REWARD][row - 1])[0]))
            if row == len(ticks) - 1 and layout.TERMINATED in rows and rows[layout.TERMINATED][row]:
                yield Event(tick, "terminal")

    def _flags(self, rows: Rows, name: str) -> list[bool]:
        """Whether `name` was there; in foreign datasets everything always is."""
        at = self.present.get(name)
        if layout.PRESENT not in rows:
            return [True] * len(rows["timestamp"])
        return [at is not None and bool(np.ravel(flags)[at]) for flags in rows[layout.PRESENT]]

    def _sensed(self, name: str, rows: Rows, row: int) -> np.ndarray:
        """A row's numbers of a sense; for our own export, NaN is restored where the recorded array had it."""
        numbers = rows[self.senses[name]][row]
        if name in self.kept:
            dtype, shape = self.kinds[name]
            whole = np.full(int(np.prod(shape)), np.nan if np.dtype(dtype).kind == "f" else 0, dtype)
            whole[self.kept[name]] = numbers
            start, places = self.unsure.get(name, (0, []))
            if places:
                flags = np.ravel(rows[layout.KNOWN][row])[start : start + len(places)]
                whole[np.array(places)[flags == 0]] = np.nan
            numbers = whole
        return self._value(name, numbers)

    def _value(self, name: str, numbers: Any) -> np.ndarray:
        dtype, shape = self.kinds.get(name, ("float32", (-1,)))
        given = np.array(numbers)
        value = given.astype(dtype).reshape(shape)
        if name == "body" and given.dtype != value.dtype and np.any(np.abs(given.ravel() - value.ravel()) >= 0.5):
            self.rounded.add(name)
        return value

    def _new_tasks(self, rows: Rows, tasks: dict[int, str]) -> list[str]:
        said = [tasks.get(index, "") for index in rows.get("task_index", [])] or [""] * len(rows["timestamp"])
        said = ["" if task == layout.NO_TASK else task for task in said]
        if "words" in self.present:
            return [task * there for task, there in zip(said, self._flags(rows, "words"), strict=True)]
        return [task * (not row or task != said[row - 1]) for row, task in enumerate(said)]


def columns_of(info: dict[str, Any], own: dict[str, Any], topic: str | None, warnings: list[str]) -> Columns:
    """The meaning of the features in info.json; `own` is meta/devmind.json, empty in foreign datasets.

    Raises:
        SessionError: there is no feature `topic` with pictures, or nothing that a session can hold.
    """
    features = info["features"]
    found = Columns(sight=_sight(features, topic, warnings))
    found.kinds = {
        name: (dtype, tuple(shape))
        for which in ("senses", "effectors")
        for name, (dtype, shape) in own.get(which, {}).items()
    }
    found.kept, start = own.get("kept", {}), 0
    for name, places in own.get("unsure", {}).items():
        found.unsure[name] = start, places
        start += len(places)
    found.present = {name: k for k, name in enumerate(_names(features.get(layout.PRESENT, {})))}
    left_out = []
    for key, what in features.items():
        if what["dtype"] in ("video", "image") or key in layout.INDEXES or key.startswith(("next.", "devmind.")):
            continue
        if not str(what["dtype"]).startswith(("float", "int", "uint", "bool")):
            left_out.append(key)
        elif key == layout.ACTION or key.startswith("action."):
            _add_effectors(found, key, str(what["dtype"]), _names(what), own)
        elif key == layout.STATE or key.startswith("observation."):
            name = "body" if key == layout.STATE else _sense_name(key, own)
            found.senses[name] = key
            found.names[name] = _names(what)
            if name != "body" and what["dtype"] in EXACT:  # `body` is float32 everywhere
                found.kinds.setdefault(name, (EXACT[what["dtype"]], (-1,)))
        else:
            left_out.append(key)
    if left_out:
        warnings.append(f"Features without a place in a session are left out: {', '.join(left_out)}.")
    found.names = own.get("names", {}) if own else {name: names for name, names in found.names.items() if names}
    if not (found.sight or found.senses or found.effectors or found.present):
        raise SessionError(f"The dataset has nothing a session can hold; its features are: {', '.join(features)}.")
    return found


def _sight(features: dict[str, Any], topic: str | None, warnings: list[str]) -> str:
    pictures = [key for key, what in features.items() if what["dtype"] in ("video", "image") and not _is_depth(what)]
    if topic is not None and topic not in pictures:
        raise SessionError(f"The dataset has no pictures '{topic}'{nearest(topic, pictures)}")
    chosen = topic or next((key for key in pictures if key == layout.SIGHT), next(iter(pictures), ""))
    others = [key for key in pictures if key != chosen]
    if others:
        warnings.append(f"'{chosen}' is what is seen; other pictures are left out: {', '.join(others)}.")
    return chosen


def _is_depth(what: dict[str, Any]) -> bool:
    about = {**(what.get("video_info") or {}), **(what.get("info") or {})}
    return bool(about.get("is_depth_map") or about.get("video.is_depth_map"))


def _add_effectors(found: Columns, key: str, dtype: str, names: list[str], own: dict[str, Any]) -> None:
    """One effector for each feature of a foreign dataset, the recorded effectors for our own."""
    if key == layout.ACTION and own:
        start = 0
        for name, (_, shape) in own.get("effectors", {}).items():
            stop = start + int(np.prod(shape))
            found.effectors[name] = key, slice(start, stop)
            start = stop
        return
    name = key if key == layout.ACTION else key.removeprefix("action.").replace(".", "_")
    found.effectors[name] = key, slice(None)
    if dtype in EXACT:
        found.kinds.setdefault(name, (EXACT[dtype], (-1,)))
    found.names[name] = names


def _sense_name(key: str, own: dict[str, Any]) -> str:
    """A name of its own: a foreign `observation.sound` need not be sound."""
    plain = key.removeprefix("observation.")
    if plain in own.get("senses", {}):
        return plain
    name = plain.replace(".", "_")
    return f"{name}_numbers" if name in STANDARD_SENSES else name


def _names(what: dict[str, Any]) -> list[str]:
    """The feature's names: a list, or lists in a dict such as {"motors": [...]}."""
    names = what.get("names") or []
    if isinstance(names, dict):
        names = next((value for value in names.values() if isinstance(value, list)), list(names))
    return [str(name) for name in names]
