"""BackgroundRecorder: a recorder that never makes its caller wait, however slow or full the disk is.

A thread does the work: JPEGs, compression, writing, and a flush every half second even without new data. The queue is
bounded: frames are dropped first, then ticks, the oldest first. Each drop is counted, and a note `lost` says where
ticks are missing.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from devmind.errors import SessionError
from devmind.moment import Action, Moment
from devmind.sessions.extras import Note, decode_note, encode_note
from devmind.sessions.mcap_file import WriteError
from devmind.sessions.reader import LOST
from devmind.sessions.recorder import FLUSH_S, Recorder

ROTATE_S = 600.0
BACKLOG_MAX = 300
"""Waiting items: half a minute of ticks, some MB."""
FRAMES_MAX = 16
"""Waiting frames: each may have megabytes."""
PATIENCE_S = 30.0
PLACES_S = 300.0
"""How long the place of a written tick is remembered; requests come sooner."""

FRAME, HEALTH, TICK, NOTE, FLUSH, LOOK = "frame", "health", "write", "note", "flush", "look"
GIVEN_UP_FIRST = (FRAME, HEALTH, TICK, NOTE)


class BackgroundRecorder:
    """The methods of a `Recorder`, from any thread; they return at once, except `flush`, `close` and `place`. What they
    are given is copied, so the caller may use its arrays again at once, as with a `Recorder`.

    Only the owner can read its files (0600): it records rooms with people in them.

    Args:
        backlog_max, frames_max: how much may wait for the disk.
        options: as `Recorder` takes them; a new file begins every ten minutes if they do not say otherwise.

    Attributes:
        fault: the error, a sentence; '' when all is well.
        failed: the disk has refused. That ends the recording, not the caller.
        dropped: number of dropped items by method (`frame`, `health`, `write`, `note`).

    Raises:
        SessionError: when created, as `Recorder`; later by `flush`, `close` and for data that no recorder would
            take.
    """

    def __init__(
        self, path: str | Path, *, backlog_max: int = BACKLOG_MAX, frames_max: int = FRAMES_MAX, **options: Any
    ) -> None:
        options = {"rotate_s": ROTATE_S, **options, "mode": 0o600}  # people are in view
        # Its clock stands still, so that only this thread decides when to flush.
        self._recorder = Recorder(path, clock=lambda: 0.0, **options)
        self.path, self.fault, self.dropped = self._recorder.path, "", Counter[str]()
        self._backlog_max, self._frames_max = backlog_max, frames_max
        self._waiting: dict[str, deque[tuple[int, tuple[Any, ...]]]] = {k: deque() for k in (*GIVEN_UP_FIRST, FLUSH)}
        self._order = self._flushed = self._lost = 0
        self._is_closing = self._has_ended = self.failed = self._is_unflushed = False
        self._flush_due_s = time.monotonic()
        self._places: deque[tuple[float, Path, str, int]] = deque(maxlen=round(PLACES_S * self._recorder.tick_hz) + 1)
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self._thread.start()

    @property
    def ticks(self) -> int:
        """Ticks written."""
        return self._recorder.ticks

    @property
    def paths(self) -> list[Path]:
        """The files so far."""
        return list(self._recorder.paths)

    @property
    def dropped_ticks(self) -> int:
        """Ticks that are not in the recording."""
        return self.dropped[TICK]

    @property
    def dropped_frames(self) -> int:
        """Frames that are not in the recording."""
        return self.dropped[FRAME]

    @property
    def backlog(self) -> int:
        """Items waiting for the disk."""
        return sum(map(len, self._waiting.values()))

    def write(self, moment: Moment, action: Action | None = None) -> None:
        """Queue a copy of one tick."""
        self._put(
            TICK,
            replace(moment, senses=_copied(moment.senses)),
            action and replace(action, effectors=_copied(action.effectors)),
        )

    def note(self, kind: str, data: Any) -> None:
        """Queue a note before the next tick, with a copy of the data.

        Raises:
            SessionError: `data` cannot be written as JSON.
        """
        self._put(NOTE, kind, decode_note(encode_note(Note(0, kind, data))).data)

    def frame(self, frame: bytes | np.ndarray, captured_s: float) -> None:
        """Queue a copy of a frame of the camera; the thread turns a picture into a JPEG."""
        self._put(FRAME, frame.copy() if isinstance(frame, np.ndarray) else frame, captured_s)

    def health(self, data: Mapping[str, Any]) -> None:
        """Queue the state of the devices, with a copy of the data.

        Raises:
            SessionError: `data` cannot be written as JSON.
        """
        self._put(HEALTH, decode_note(encode_note(Note(0, HEALTH, data))).data)

    def flush(self) -> None:
        """Wait until everything queued so far is on the disk.

        Raises:
            SessionError: the disk refused, or took longer than PATIENCE_S.
        """
        self._await(self._put(FLUSH))
        self._complain()

    def close(self, timeout_s: float = PATIENCE_S) -> None:
        """Write what waits and finish the file; harmless when called again.

        Raises:
            SessionError: the disk refused, or took longer than `timeout_s`; the part on the disk can be read.
        """
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            raise SessionError(
                f"'{self.path}': the disk did not write the last {self.backlog} items within {timeout_s:g} s; what is "
                f"on it can be read."
            )
        self._complain()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            self.close()
        except SessionError:
            if error is None:  # the error that ended the block says more
                raise

    def place(self, since_s: float, until_s: float) -> tuple[Path, str, int, int] | None:
        """The place of the ticks of Moments from `since_s` to `until_s` (their `time_s`), once they are on the disk.

        Returns:
            for the newest of them: its part's file and identity, and its number there; and how many they are. None when
                none of them was written, or that was more than some minutes ago.

        Raises:
            SessionError: the disk takes longer than PATIENCE_S; they may still be written.
        """
        try:
            wanted = self._put(FLUSH)
        except SessionError:  # `close` is running, which writes everything that waits
            wanted = self._order + 1
        self._await(wanted)
        with self._changed:
            found = [place for place in self._places if since_s <= place[0] <= until_s]
        return (*found[-1][1:], len(found)) if found else None

    def _await(self, wanted: int) -> None:
        """Wait until the item at this position is on the disk, or the recording has ended."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._flushed >= wanted or self._has_ended, PATIENCE_S):
                raise SessionError(f"'{self.path}': the disk did not write the waiting data within {PATIENCE_S:g} s.")

    def _complain(self) -> None:
        if self.failed:
            raise SessionError(self.fault)

    def _put(self, kind: str, *what: Any) -> int:
        """Queue an item; returns its position."""
        with self._changed:
            if self._is_closing:
                raise SessionError(f"The recording '{self.path}' is closed; begin a new one.")
            self._order += 1
            if self._has_ended:
                self.dropped[kind] += kind != FLUSH
                return self._order
            self._waiting[kind].append((self._order, what))
            if len(self._waiting[FRAME]) > self._frames_max:
                self._give_up(FRAME)
            if self.backlog > self._backlog_max:
                self._give_up(next(kind for kind in GIVEN_UP_FIRST if self._waiting[kind]))
            self._changed.notify_all()
            return self._order

    def _give_up(self, kind: str) -> None:
        self._waiting[kind].popleft()
        self.dropped[kind] += 1
        self._lost += kind == TICK

    def _run(self) -> None:
        try:
            while (taken := self._take()) is not None:
                self._hand_over(*taken)
            self._note_lost()
            self._recorder.close()
        except Exception as error:  # any error: this thread serves the disk and must not end silently
            self.fault, self.failed = str(error) or type(error).__name__, True
        with self._changed:
            self._has_ended = True
            for kind in GIVEN_UP_FIRST:
                self.dropped[kind] += len(self._waiting[kind])
                self._waiting[kind].clear()
            self._changed.notify_all()

    def _take(self) -> tuple[int, str, tuple[Any, ...]] | None:
        """The next item by its position; None at the end."""
        with self._changed:
            while True:
                left_s = self._flush_due_s - time.monotonic() if self._is_unflushed else FLUSH_S
                if left_s <= 0:
                    return 0, FLUSH, ()
                if self.backlog:
                    break
                if self._is_closing:
                    return None
                if not self._changed.wait(left_s) and not self._is_unflushed:
                    return 0, LOOK, ()
            kind = min((k for k, waiting in self._waiting.items() if waiting), key=lambda k: self._waiting[k][0][0])
            order, what = self._waiting[kind].popleft()
            return order, kind, what

    def _hand_over(self, order: int, kind: str, what: tuple[Any, ...]) -> None:
        if kind == FLUSH:
            self._recorder.flush()
            with self._changed:
                self._flushed, self._is_unflushed = max(self._flushed, order), False
                self._changed.notify_all()
            return
        if kind == LOOK:
            self._recorder.turn_if_wanted()
            return
        if not self._is_unflushed:
            self._is_unflushed, self._flush_due_s = True, time.monotonic() + FLUSH_S
        if kind == TICK:
            self._note_lost()
        try:
            getattr(self._recorder, kind)(*what)
            if kind == TICK:
                with self._changed:
                    self._places.append((what[0].time_s, *self._recorder.place))
        except SessionError as error:
            if isinstance(error, WriteError):
                raise
            self.fault = str(error)
            with self._changed:
                self.dropped[kind] += 1
                self._lost += kind == TICK

    def _note_lost(self) -> None:
        with self._changed:
            lost, self._lost = self._lost, 0
        if lost:
            self._recorder.note(LOST, {"ticks": lost})


def _copied(arrays: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in arrays.items()}
