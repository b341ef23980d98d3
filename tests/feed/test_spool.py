"""The spool: what was appended is read in order while it grows, whatever kills or disks do to its end."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from devmind.errors import CheckpointError, FeedError
from devmind.feed import spool
from devmind.feed.spool import HEADER, Frame, Spool


def frames(*numbers: int, producer: str = "one") -> list[Frame]:
    return [Frame(producer, number, 2, f"{producer} {number} ".encode() * number) for number in numbers]


def bodies(folder: Path, position: int = 0) -> list[bytes]:
    return [bytes(frame.body) for _, frame in spool.read(folder, position)]


def test_frames_are_read_while_the_spool_grows_from_any_position(tmp_path: Path) -> None:
    with_two = Spool(tmp_path, segment_bytes=300)
    given = []
    for number in range(1, 30):
        new = frames(number) + frames(number, producer="two")
        with_two.append(new)
        given += new
        assert bodies(tmp_path) == [bytes(one.body) for one in given]
    assert len(spool.segments(tmp_path)) > 5
    positions = [0, *(after for after, _ in spool.read(tmp_path))]
    for number in (0, 1, 20, len(given)):
        assert bodies(tmp_path, positions[number]) == [bytes(one.body) for one in given[number:]]
    with_two.close()
    again = Spool(tmp_path, segment_bytes=300)
    assert {name: (line.sequence, line.rows) for name, line in again.lines.items()} == {
        "one": (29, 58),
        "two": (29, 58),
    }
    assert again.rows == 116
    again.append(frames(30))
    assert bodies(tmp_path)[-1] == frames(30)[0].body
    again.close()


@pytest.mark.parametrize("cut", [1, HEADER.size - 1, HEADER.size, HEADER.size + 7])
def test_half_a_frame_at_the_end_is_cut_off(tmp_path: Path, cut: int) -> None:
    one = Spool(tmp_path)
    one.append(frames(1, 2))
    one.close()
    [path] = tmp_path.glob("*.feed")
    with path.open("ab") as file:
        file.write(spool.frame_bytes(frames(3)[0])[:cut])
    assert len(bodies(tmp_path)) == 2, "a reader goes no further than what is synced"
    again = Spool(tmp_path)
    assert again.lines["one"].sequence == 2
    again.append(frames(3))
    assert bodies(tmp_path) == [one.body for one in frames(1, 2, 3)]
    again.close()


def test_whole_frame_that_was_not_acknowledged_is_kept(tmp_path: Path) -> None:
    """Its producer sends it again, and it is dropped as a double."""
    one = Spool(tmp_path)
    one.append(frames(1))
    one.close()
    [path] = tmp_path.glob("*.feed")
    with path.open("ab") as file:
        file.write(spool.frame_bytes(frames(2)[0]))
    again = Spool(tmp_path)
    assert again.lines["one"].sequence == 2
    again.close()
    assert len(bodies(tmp_path)) == 2


def test_every_flipped_byte_of_what_was_acknowledged_is_found(tmp_path: Path) -> None:
    one = Spool(tmp_path)
    one.append(frames(1, 2))
    one.close()
    [path] = tmp_path.glob("*.feed")
    whole = path.read_bytes()
    for at in range(HEADER.size + 2, len(whole), 3):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        with pytest.raises(FeedError, match=r"is damaged at byte [\d,]+"):
            bodies(tmp_path)
        with pytest.raises(FeedError, match="where acknowledged experience stands"):
            Spool(tmp_path)
    path.write_bytes(whole)
    assert len(bodies(tmp_path)) == 2


def test_full_disk_stores_nothing_and_goes_on_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Spool(tmp_path)
    one.append(frames(1))
    real = os.writev

    def full(file: int, parts: list[bytes]) -> int:
        real(file, [b"".join(parts)[:10]])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "writev", full)
        with pytest.raises(CheckpointError, match="the disk is full"):
            one.append(frames(2, 3))
    assert bodies(tmp_path) == [frames(1)[0].body]
    one.append(frames(2, 3))
    assert bodies(tmp_path) == [one.body for one in frames(1, 2, 3)]
    one.close()


def test_disk_that_takes_a_part_gets_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = Spool(tmp_path)
    real = os.writev
    monkeypatch.setattr(os, "writev", lambda file, parts: real(file, [bytes(parts[0])[:5]]))
    one.append(frames(1, 2, 3))
    assert bodies(tmp_path) == [one.body for one in frames(1, 2, 3)]
    one.close()


def test_one_process_writes_and_a_foreign_cursor_is_refused(tmp_path: Path) -> None:
    one = Spool(tmp_path / "a")
    with pytest.raises(FeedError, match="Another process receives into"):
        Spool(tmp_path / "a")
    one.close()
    with pytest.raises(FeedError, match="ends at 0, before the cursor 999: it is another spool"):
        bodies(tmp_path / "a", 999)
    with pytest.raises(FeedError, match="There is no spool in"):
        bodies(tmp_path / "b")


def test_reader_tells_how_far_it_is(tmp_path: Path) -> None:
    one = Spool(tmp_path)
    assert one.slowest_reader() is None
    spool.report_position(tmp_path, "a", 70)
    spool.report_position(tmp_path, "b", 1 << 40)
    assert one.slowest_reader() == 70
    one.close()
