"""Recordings after a power cut, on a full disk and with restricted access: none is refused, half-written or exposed."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import cv2
import numpy as np
import pytest

from devmind.errors import SessionError
from devmind.moment import Moment
from devmind.sessions import describe, import_any, mcap_file, repair, replay
from devmind.sessions.export import export
from devmind.sessions.extras import Note
from devmind.sessions.messages import decode
from devmind.sessions.metadata import part_path
from devmind.sessions.parts import parts
from devmind.sessions.pointed import Pointed, identity
from devmind.sessions.reader import Session
from devmind.sessions.recorder import Recorder
from devmind.sessions.schemas import ARRAY, message_class


def moment(number: int) -> Moment:
    sight = np.random.default_rng(number).integers(0, 256, (16, 16, 3), dtype=np.uint8)
    return Moment(number / 10, {"sight": sight, "words": f"said {number}"}, first=number == 0)


@pytest.fixture
def life(tmp_path: Path) -> Path:
    """Twelve ticks in two parts of five and a third of two; each tick is its own chunk."""
    path = tmp_path / "life.mcap"
    with Recorder(path, source="test", tick_hz=10, rotate_s=0.5) as recorder:
        for number in range(12):
            recorder.write(moment(number))
            recorder.flush()
    for part in recorder.paths:
        part.chmod(0o600)
    return path


@pytest.mark.parametrize("what", ["empty", "a head alone", "zeros", "half a head"])
def test_an_empty_last_part_does_not_refuse_the_recording(life: Path, what: str) -> None:
    last = part_path(life, 4)
    whole = part_path(life, 3).read_bytes()
    last.write_bytes({"empty": b"", "a head alone": whole[:30], "zeros": bytes(4096), "half a head": whole[:5]}[what])
    assert [step[0].senses["words"] for step in replay(life)] == [f"said {number}" for number in range(12)]
    about = describe(life)
    assert (about["ticks"], about["empty_parts"]) == (12, [str(last)])
    made, _ = export(life, "wav", life.parent / "files")
    assert made.is_dir()
    done = repair(life, life.parent / "mended.mcap")
    assert done.ticks == 12
    assert [lost.path for lost in done.lost] == [last]
    part_path(life, 5).write_bytes(b"")
    assert len(parts(life)) == 3


def test_an_empty_part_in_the_middle_is_refused(life: Path) -> None:
    part_path(life, 2).write_bytes(b"")
    with pytest.raises(SessionError, match="it is empty"):
        describe(life)


def modes(path: Path) -> set[int]:
    every = [path, *path.rglob("*")] if path.is_dir() else [path]
    return {one.stat().st_mode & 0o077 for one in every}


def test_files_made_from_a_private_recording_are_private(life: Path, tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        for mended in repair(life, tmp_path / "mended.mcap").paths:
            assert mended.stat().st_mode & 0o777 == 0o600
        for to in ("mkv", "wav"):
            assert modes(export(life, to, tmp_path / f"as-{to}")[0]) == {0}
        files = tmp_path / "as-wav"
        picture = next(path for path in files.rglob("*") if path.suffix in (".png", ".jpg"))
        assert modes(import_any([picture], tmp_path / "again.mcap").path) == {0}
        for part in parts(life):
            part.chmod(0o644)
        assert repair(life, tmp_path / "shown.mcap").paths[0].stat().st_mode & 0o777 == 0o644
        assert export(life, "mkv", tmp_path / "shown.mkv")[0].stat().st_mode & 0o777 == 0o644
    finally:
        os.umask(old)


def test_a_repair_on_a_full_disk_leaves_nothing(life: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, fsync, calls = sorted(tmp_path.iterdir()), os.fsync, []

    def full(number: int) -> None:
        calls.append(number)
        if len(calls) > 3:  # within the second part
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(number)

    monkeypatch.setattr(mcap_file.os, "fsync", full)
    with pytest.raises(SessionError, match="is full; free some space"):
        repair(life, tmp_path / "mended.mcap")
    assert sorted(tmp_path.iterdir()) == before


class Place:
    def __init__(self, path: Path, tick: int) -> None:
        self.session, self.tick, self.identity, self.span = path.name, tick, identity(Session(path)), 0


@pytest.fixture
def holed(tmp_path: Path) -> tuple[Path, list[Place]]:
    """Ten ticks, each a chunk, with pointers to all of them; then three chunks in the middle are damaged."""
    path = tmp_path / "one.mcap"
    with Recorder(path, source="test", tick_hz=10) as recorder:
        for number in range(10):
            recorder.write(moment(number))
            recorder.flush()
    places = [Place(path, tick) for tick in range(10)]
    starts = Session(path)._chunk_starts
    data = bytearray(path.read_bytes())
    for tick in (3, 4, 5):
        data[starts[tick] + 60] ^= 1
    path.write_bytes(data)
    return path, places


def test_pointers_stay_valid_when_a_repaired_copy_replaces_its_original(holed: tuple[Path, list[Place]]) -> None:
    path, places = holed
    mended = path.with_name("mended.mcap")
    assert repair(path, mended).ticks == 7
    os.replace(mended, path)
    pointed = Pointed(path.parent)
    found = [(pointed.fetch(place) or {}).get("words") for place in places]
    assert found == [None if number in (3, 4, 5) else f"said {number}" for number in range(10)]
    session = Session(path)
    assert [session.number(tick) for tick in range(7)] == [0, 1, 2, 6, 7, 8, 9]
    assert (session.tick_of(6), session.tick_of(4), session.tick_of(10), session.tick_of(-1)) == (3, None, None, None)
    told = pointed.forget([places[4], places[7]])
    assert len(told) == 1
    assert "without 1 of the ticks that were pointed to" in told[0]
    after = [(pointed.fetch(place) or {}).get("words") for place in places]
    assert after == [None if number in (3, 4, 5, 7) else f"said {number}" for number in range(10)]
    assert repair(path, mended).lost == [], "what was lost was told of before"
    os.replace(mended, path)
    assert (pointed.fetch(places[9]) or {})["words"] == "said 9"


@pytest.mark.parametrize("dtype", ["(2,3", "9" * 4000, "O", "V0", "f4,(", "(1000000,1000000)f8", ""])
def test_a_hostile_dtype_raises_a_session_error(dtype: str) -> None:
    data = message_class(ARRAY)(dtype=dtype, shape=[2, 3], data=b"123456").SerializeToString()
    with pytest.raises(SessionError, match="cannot be decoded"):
        decode(ARRAY, data)


def test_notes_of_hostile_json_raise_a_session_error() -> None:
    from devmind.sessions.extras import decode_note

    for text in ("[" * 100_000, '{"kind": 5}', "9" * 5000, '{"kind": "a", "tick": 1, "data": ' + "9" * 5000 + "}"):
        with pytest.raises(SessionError, match="cannot be read"):
            decode_note(text.encode())
    assert decode_note(b'{"kind": "a", "tick": 1, "data": 2}') == Note(1, "a", 2)


@pytest.mark.parametrize("how", ["import", "repair", "export"])
def test_nothing_replaces_a_recording_that_is_still_being_written(life: Path, tmp_path: Path, how: str) -> None:
    pytest.importorskip("fcntl", reason="a system without file locks")
    # An export is named by its kind; the recording may have any name.
    photograph, out = tmp_path / "cup.png", tmp_path / ("now.mkv" if how == "export" else "now.mcap")
    assert cv2.imwrite(str(photograph), np.zeros((16, 16, 3), np.uint8))
    write = {
        "import": lambda: import_any(photograph, out, overwrite=True),
        "repair": lambda: repair(life, out, overwrite=True),
        "export": lambda: export(life, "mkv", out, overwrite=True),
    }[how]
    before = set(tmp_path.iterdir())
    with Recorder(out, source="test") as recorder:
        recorder.write(moment(0))
        recorder.flush()
        with pytest.raises(SessionError, match="still being written"):
            write()
        recorder.write(moment(1))
    assert [step[0] for step in Session(out)] == [moment(0), moment(1)]
    assert set(tmp_path.iterdir()) == before | {out}
    write()  # the recording has ended
