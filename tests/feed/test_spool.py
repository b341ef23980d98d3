"""The spool: what was appended is read in order while it grows, whatever kills or disks do to its end."""

from __future__ import annotations

import errno
import os
import random
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
    real = os.pwrite

    def full(file: int, content: memoryview, at: int) -> int:
        real(file, content[: spool.BLOCK], at)
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        with pytest.raises(CheckpointError, match="the disk is full"):
            one.append(frames(2, 3))
    assert bodies(tmp_path) == [frames(1)[0].body]
    one.append(frames(2, 3))
    assert bodies(tmp_path) == [one.body for one in frames(1, 2, 3)]
    one.close()


def test_disk_that_takes_a_part_gets_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = Spool(tmp_path)
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, content, at: real(file, content[: spool.BLOCK], at))
    given = [Frame("one", number, 1, os.urandom(50_000)) for number in (1, 2, 3)]
    one.append(given)
    assert bodies(tmp_path) == [one.body for one in given]
    one.close()


@pytest.mark.parametrize("past_cache", [True, False])
def test_frames_of_any_size_cross_blocks_and_buffers_and_are_read_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, past_cache: bool
) -> None:
    """A block that is not full is written again, under readers that the system's cache serves."""
    monkeypatch.setattr(spool, "BUFFER_BYTES", 4 * spool.BLOCK)
    if not past_cache:
        monkeypatch.delattr(os, "O_DIRECT")
    one, rng = Spool(tmp_path, segment_bytes=400_000), random.Random(0)
    given: list[bytes] = []
    position, came = 0, list[bytes]()
    for number in range(1, 200):
        body = rng.randbytes(rng.choice([0, 1, rng.randrange(300), spool.BLOCK - HEADER.size, rng.randrange(60_000)]))
        one.append([Frame("one", number, 1, body)])
        given.append(body)
        for after, frame in spool.read(tmp_path, position):
            position = after
            came.append(frame.body)
        assert len(came) == len(given)
    assert came == given == bodies(tmp_path)
    assert len(spool.segments(tmp_path)) > 3
    one.close()


def test_every_tear_in_the_last_frames_keeps_what_was_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file ends at any byte behind what is acknowledged, and there zeros, or what else a block held, may follow."""
    monkeypatch.setattr(os, "fsync", lambda file: None)
    one = Spool(tmp_path / "a")
    one.append(frames(1, 2))
    kept = one.end
    one.append(frames(3, 4))
    one.close()
    [path] = (tmp_path / "a").glob("*.feed")
    whole = path.read_bytes()
    ends = [after for after, _ in spool.read(tmp_path / "a")]
    for cut in range(kept, len(whole) + 1):
        for behind in (b"", (bytes(spool.BLOCK), b"\xff" * 9, whole[: HEADER.size])[cut % 3]):
            torn = tmp_path / "torn"
            torn.mkdir(exist_ok=True)
            for old in torn.glob("*.feed"):
                old.unlink()
            (torn / path.name).write_bytes(whole[:cut] + behind)
            (torn / spool.DURABLE).write_bytes(kept.to_bytes(8, "little"))
            again = Spool(torn)
            last = 2 + sum(kept < end <= cut for end in ends)
            assert again.lines["one"].sequence == last
            again.append(frames(last + 1))
            again.close()
            assert bodies(torn) == [bytes(one.body) for one in frames(*range(1, last + 2))]


def test_segment_whose_first_frame_is_damaged_is_refused(tmp_path: Path) -> None:
    """It says which numbers each producer has used: without it doubles would be taken for new."""
    one = Spool(tmp_path)
    one.append(frames(1, 2))
    one.close()
    for _ in range(2):
        Spool(tmp_path).close()
    one = Spool(tmp_path)
    one._next_segment()
    one.close()
    path = spool.segment_path(tmp_path, spool.segments(tmp_path)[-1])
    path.write_bytes(b"x" + path.read_bytes()[1:])
    with pytest.raises(FeedError, match="where acknowledged experience stands"):
        Spool(tmp_path)


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
