"""Repair: copies what can be read of a cut or damaged recording into a finished file that every MCAP tool opens."""

from __future__ import annotations

from pathlib import Path

from devmind.sessions.reader import Session
from devmind.sessions.recorder import Recorder


def repair(path: str | Path, out: str | Path, *, overwrite: bool = False) -> int:
    """Write the whole ticks and the notes of `path` to the new file `out`; the original is left as it is.

    Returns:
        How many ticks the repaired recording holds.

    Raises:
        SessionError: `path` holds no session at all, or `out` cannot be written.
    """
    session = Session(path, salvage=True)
    about = dict(session.metadata)
    source, tick_hz = about.pop("source"), float(about.pop("tick_hz"))
    notes = iter([*session.notes, None])
    note = next(notes)
    with Recorder(out, source=source, tick_hz=tick_hz, details=about, overwrite=overwrite) as recorder:
        for moment, action in session:
            while note is not None and note.tick <= recorder.ticks:
                recorder.note(note.kind, note.data)
                note = next(notes)
            recorder.write(moment, action)
        while note is not None:
            recorder.note(note.kind, note.data)
            note = next(notes)
        recorder.note("repaired", {"from": str(path), "ticks": recorder.ticks})
    return recorder.ticks
