"""Repair: copies the readable parts of a recording into finished files that every MCAP tool opens."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from devmind.checkpointing.files import take_place
from devmind.errors import SessionError, without_secrets
from devmind.moment import TICK_HZ
from devmind.sessions import salvage
from devmind.sessions.assembly import Item, Tick
from devmind.sessions.extras import Frame, Health, Note
from devmind.sessions.mcap_file import WriteError, why_not_written
from devmind.sessions.metadata import PART, STARTED, part_path
from devmind.sessions.parts import parts
from devmind.sessions.reader import LOST, REPAIRED
from devmind.sessions.recorder import Recorder
from devmind.sessions.turning import unwritten


@dataclass(frozen=True)
class Lost:
    """A place with missing data.

    Attributes:
        bytes: number of unreadable bytes.
        ticks: number of missing ticks; None when unknown (at a cut end).
        from_s, to_s: of the last tick before and the first one behind, in seconds since the session's first; None at an
            end.
    """

    path: Path
    bytes: int
    ticks: int | None = None
    from_s: float | None = None
    to_s: float | None = None


@dataclass
class Repaired:
    """What a repair kept, and what is lost.

    Attributes:
        secrets: metadata and notes that held credentials; the copy has them without.
    """

    ticks: int = 0
    frames: int = 0
    paths: list[Path] = field(default_factory=list)
    lost: list[Lost] = field(default_factory=list)
    secrets: set[str] = field(default_factory=set)


def repair(path: str | Path, out: str | Path, *, overwrite: bool = False) -> Repaired:
    """Write everything whole in `path`, and in its later parts, to new files; the originals stay unchanged.

    Data behind damage is kept as well, and credentials in older recordings are removed. A note `lost` marks missing
    ticks, so that the tick behind does not count as the next one; later ticks keep their numbers, which memory's
    pointers use. The copies appear when all of them are whole, for those who may read the originals.

    Raises:
        SessionError: there is nothing of a session in it, or `out` cannot be written.
    """
    path, out = Path(path), Path(out)
    originals = parts(path, empty=True)
    done, about = Repaired(), dict[str, str]()
    partials: dict[Path, Path] = {}
    try:
        for part in originals:
            number = 1 if part == path else int(part.stem.rpartition("-")[2])
            try:
                own, channels = salvage.about(part)
            except OSError as error:
                raise SessionError(
                    f"'{part}' cannot be read: {error.strerror}; check the path and its rights."
                ) from error
            about = own or {**about, PART: str(number)}
            begun = salvage.start_ns(part, about)
            if own or any(not isinstance(item, salvage.Gap) for item in salvage.items(part, channels, begun)):
                target = part_path(out, number)
                if target.resolve() in [original.resolve() for original in originals]:
                    raise SessionError(f"'{target}' is part of the recording itself; choose another --out.")
                if target.exists() and not overwrite:
                    raise SessionError(why_not_written(target, FileExistsError()))
                partials[target] = target.with_name(f".{target.name}.{os.getpid()}.partial")
                _mend(part, target, partials[target], about, channels, begun, done)
            else:
                done.lost.append(Lost(part, part.stat().st_size))
        if not partials:
            raise SessionError(
                f"'{path}' holds nothing of a session that could be read; give a file that devmind recorded."
            )
        with ExitStack() as all_of_them:
            for target in partials:
                all_of_them.enter_context(unwritten(target))
            for target, partial in partials.items():
                take_place(partial, target)
                done.paths.append(target)
    except OSError as error:
        raise SessionError(why_not_written(out, error)) from error
    finally:
        for partial in partials.values():
            with suppress(OSError):
                partial.unlink()
    return done


def _mend(
    part: Path,
    target: Path,
    partial: Path,
    about: dict[str, str],
    channels: dict[int, tuple[str, str]],
    begun: int,
    done: Repaired,
) -> None:
    """Copy one part to `partial`, later renamed to `target`; only those who may read it may read the copy."""
    copied = {**about, **({STARTED: str(begun)} if begun else {})}
    done.secrets.update(name for name, text in about.items() if without_secrets(text) != text)
    source, tick_hz = copied.pop("source", "unknown"), _tick_hz(copied.pop("tick_hz", ""))
    mode = part.stat().st_mode & 0o777
    try:
        with Recorder(partial, source=source, tick_hz=tick_hz, copied=copied, overwrite=True, mode=mode) as recorder:
            copy = _Copy(part, recorder, done)
            copy.take(salvage.items(part, channels, begun))
            copy.end()
            recorder.note(REPAIRED, {"from": str(part), "ticks": recorder.ticks})
    except WriteError as error:
        raise SessionError(why_not_written(target, error.reason)) from error


class _Copy:
    """One part on its way into a recorder, with its missing data reported."""

    def __init__(self, part: Path, recorder: Recorder, done: Repaired) -> None:
        self._part, self._recorder, self._done = part, recorder, done
        self._gap: Lost | None = None
        self._next = 0
        self._is_reported = False
        self._last_s: float | None = None

    def take(self, found: Iterable[Item | salvage.Gap]) -> None:
        """Copy things in order; a gap waits for the tick behind it, which gives the number of missing ticks."""
        for item in found:
            if isinstance(item, salvage.Gap):
                lost = self._gap or Lost(self._part, 0, from_s=self._last_s)
                self._gap = replace(lost, bytes=lost.bytes + item.end - item.start)
            elif isinstance(item, Tick):
                self._tick(item)
            elif isinstance(item, Note):
                self._is_reported |= item.kind == LOST
                self._check(f"note {item.kind}", item.data)
                self._recorder.note(item.kind, item.data)
            elif isinstance(item, Frame):
                self._recorder.frame_at(item.jpeg, round(item.time_s * 1e9))
                self._done.frames += 1
            elif isinstance(item, Health):
                self._check("health", item.data)
                self._recorder.health(item.data)

    def end(self) -> None:
        """At the end there is no tick behind the gap to give its size."""
        if self._gap:
            self._done.lost.append(self._gap)

    def _check(self, what: str, data: Any) -> None:
        if without_secrets(data) != data:
            self._done.secrets.add(what)

    def _tick(self, tick: Tick) -> None:
        missing = tick.sequence - self._next
        if self._gap or (missing and not self._is_reported):  # losses that an earlier repair reported are not new
            lost = self._gap or Lost(self._part, 0, from_s=self._last_s)
            # If a foreign tool has renumbered the messages, the number is unknown.
            lost = replace(lost, ticks=missing if missing >= 0 else None, to_s=tick.at_ns / 1e9)
            self._recorder.note(LOST, {"ticks": lost.ticks, "bytes": lost.bytes})
            self._done.lost.append(lost)
            self._gap = None
        self._recorder.write_at(*tick.step(), tick.at_ns, tick.sequence)
        self._is_reported = False
        self._next, self._last_s = tick.sequence + 1, tick.at_ns / 1e9
        self._done.ticks += 1


def _tick_hz(text: str) -> float:
    with suppress(ValueError):
        if 0 < float(text) < math.inf:
            return float(text)
    return TICK_HZ  # older recordings have no checksum on their metadata
