"""Repair keeps everything intact around the damage, reports what is lost, and passes nothing damaged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from mcap.writer import Writer

from devmind.errors import SessionError
from devmind.moment import Moment
from devmind.sessions import Recorder, open_session, parts, repair
from devmind.sessions.mcap_file import metadata_sum


def bad_copy(path: Path, data: bytes) -> Path:
    bad = path.with_name("bad.mcap")
    bad.write_bytes(data)
    return bad


def test_repair_keeps_the_ticks_before_and_after_the_damage(path: Path, steps: list, tmp_path: Path) -> None:
    data, out = bytearray(path.read_bytes()), tmp_path / "good.mcap"
    data[data.index(b"zstd", len(data) // 3) + 40] ^= 1
    bad = bad_copy(path, data)
    with pytest.raises(SessionError, match=r"damaged after .* whole ticks: .*repair"):
        open_session(bad)
    done = repair(bad, out)
    session = open_session(out)
    assert not session.truncated
    assert done.ticks == len(session) < 40
    (lost,) = done.lost
    assert lost.ticks == 40 - done.ticks
    assert lost.bytes > 0
    assert lost.from_s is not None
    assert lost.to_s is not None
    assert lost.to_s - lost.from_s == pytest.approx((lost.ticks + 1) / 10)
    gap = next(note for note in session.notes if note.kind == "lost")
    assert gap.data["ticks"] == lost.ticks
    assert list(session) == steps[: gap.tick] + steps[gap.tick + lost.ticks :]
    numbers = [number for number in range(40) if not gap.tick <= number < gap.tick + lost.ticks]
    assert [session.number(place) for place in range(len(session))] == numbers, "by which memories point at them"
    assert [session.tick_of(number) for number in numbers] == list(range(len(session)))
    assert session.tick_of(gap.tick) is None
    assert [note.kind for note in session.notes] == ["weights", "lost", "repaired"]
    assert session.metadata["source"] == "test"
    assert gap.tick in session.episode_starts, "no lesson may cross what is missing"
    assert [session.elapsed_s(k) for k in (0, -1)] == [open_session(path).elapsed_s(k) for k in (0, -1)]
    assert bad.read_bytes() == data
    with pytest.raises(SessionError, match="exists already"):
        repair(bad, out)
    with pytest.raises(SessionError, match="the recording itself"):
        repair(bad, bad, overwrite=True)


def test_repair_replaces_no_part_of_the_recording(tmp_path: Path) -> None:
    with Recorder(tmp_path / "a.mcap", source="test", rotate_s=0.3) as recorder:
        for k in range(6):
            recorder.write(Moment(k / 10, {"body": np.full(4, k, np.float32)}, first=k == 0))
    before = {path: path.read_bytes() for path in recorder.paths}
    assert len(before) == 2
    with pytest.raises(SessionError, match=r"a-0002\.mcap' is part of the recording itself"):
        repair(tmp_path / "a.mcap", tmp_path / "a-0002.mcap", overwrite=True)
    assert {path: path.read_bytes() for path in sorted(tmp_path.iterdir())} == before


@pytest.mark.parametrize(("name", "text"), [("channels", '["/tick"]'), ("channels", "[1"), ("started_ns", "soon")])
def test_metadata_that_no_recorder_wrote_count_as_damaged(
    name: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add = Writer.add_metadata

    def badly(self: Writer, kind: str, about: dict[str, str]) -> None:
        wrong = about | {name: text}
        add(self, kind, wrong | {"crc32": metadata_sum(wrong)})

    with monkeypatch.context() as patch, Recorder(tmp_path / "bad.mcap", source="test") as recorder:
        patch.setattr(Writer, "add_metadata", badly)
        recorder.write(Moment(0.0, {"body": np.ones(4, np.float32)}, first=True))
        recorder.flush()
    done = repair(tmp_path / "bad.mcap", tmp_path / "good.mcap")
    assert done.ticks == 1
    assert len(open_session(tmp_path / "good.mcap")) == 1


def test_repair_of_an_intact_recording_loses_nothing(path: Path, steps: list, tmp_path: Path) -> None:
    done = repair(path, tmp_path / "copy.mcap")
    assert (done.ticks, done.lost) == (40, [])
    assert list(open_session(tmp_path / "copy.mcap")) == steps


def test_repair_keeps_frames_and_health(tmp_path: Path) -> None:
    with Recorder(tmp_path / "a.mcap", source="test") as recorder:
        for k in range(8):
            recorder.write(Moment(k / 10))
            recorder.frame(np.full((16, 16, 3), 10 * k, np.uint8), k / 10 + 0.02)
            recorder.health({"camera": {"drops": k}})
            recorder.flush()
    data = (tmp_path / "a.mcap").read_bytes()
    done = repair(bad_copy(tmp_path / "a.mcap", data[: len(data) * 2 // 3]), tmp_path / "b.mcap")
    whole, mended = open_session(tmp_path / "a.mcap"), open_session(tmp_path / "b.mcap")
    assert 2 < done.frames == mended.frame_count < 8
    assert list(mended.frames()) == list(whole.frames())[: done.frames]
    assert mended.health == whole.health[: len(mended.health)]
    assert done.lost[-1].to_s is None, "at a cut end nothing tells how much is missing"


def test_repair_recovers_channels_after_a_damaged_first_chunk(path: Path, steps: list, tmp_path: Path) -> None:
    """The first chunk holds most schemas and channels."""
    data = bytearray(path.read_bytes())
    start = data.index(b"zstd") + 30
    data[start : start + 40] = bytes(40)
    done = repair(bad_copy(path, data), tmp_path / "b.mcap")
    assert done.ticks >= 35
    assert list(open_session(tmp_path / "b.mcap")) == steps[40 - done.ticks :]


def test_repair_keeps_only_original_ticks_wherever_the_damage_is(path: Path, steps: list, tmp_path: Path) -> None:
    """Flips, holes, deletions, insertions and cuts at random places: the result is a part of the original, in order."""
    data, rng, kept = path.read_bytes(), np.random.default_rng(3), []
    for trial in range(60):
        at, size = int(rng.integers(0, len(data))), int(rng.integers(1, 3000))
        noise = rng.integers(0, 256, size, np.uint8).tobytes()
        flipped = data[:at] + bytes([data[at] ^ (1 << int(rng.integers(8)))]) + data[at + 1 :]
        kinds = (flipped, data[:at], data[:at] + data[at + size :], data[:at] + noise + data[at:])
        kinds += (data[:at] + bytes(size) + data[at + size :], data[at:], flipped[: int(rng.integers(len(data)))])
        where = f"kind {trial % len(kinds)} at {at}, {size}"
        try:
            done = repair(bad_copy(path, kinds[trial % len(kinds)]), tmp_path / "b.mcap", overwrite=True)
        except SessionError:
            assert at < 3000 or trial % len(kinds) in (5, 6), where
            continue
        mended = list(open_session(tmp_path / "b.mcap"))
        assert len(mended) == done.ticks, where
        left = iter(range(40))
        numbers = [next((k for k in left if steps[k] == step), None) for step in mended]
        assert None not in numbers, where
        missing = {k for a, b in zip([-1, *numbers], numbers, strict=False) for k in range(a + 1, b)}  # type: ignore[operator, arg-type]
        assert sum(lost.ticks or 0 for lost in done.lost) == len(missing), where
        kept.append(done.ticks)
    assert np.mean(kept) > 20


@pytest.mark.parametrize("texts", [(b"tick_hz", b"crc32"), (b"room",)], ids=["without a checksum", "with one"])
def test_a_recording_without_metadata_keeps_its_ticks_and_its_parts(tmp_path: Path, texts: tuple[bytes, ...]) -> None:
    with Recorder(tmp_path / "a.mcap", source="room", tick_hz=5, rotate_s=1.0) as recorder:
        for k in range(8):
            recorder.write(Moment(k / 5, {"body": np.full(2, k, np.float32)}))
    data = (tmp_path / "a.mcap").read_bytes()
    for text in texts:
        data = data.replace(text, text[::-1])
    (tmp_path / "a.mcap").write_bytes(data)
    done = repair(tmp_path / "a.mcap", tmp_path / "b.mcap")
    assert done.ticks == 8
    assert len(parts(tmp_path / "a.mcap")) == 2
    assert [int(open_session(path)[0][0].senses["body"][0]) for path in done.paths] == [0, 5]


def test_all_parts_are_repaired_and_an_empty_part_is_reported(tmp_path: Path) -> None:
    with Recorder(tmp_path / "a.mcap", source="test", rotate_s=0.5) as recorder:
        for k in range(14):
            recorder.write(Moment(k / 10, {"body": np.full(2, k, np.float32)}))
    second = tmp_path / "a-0002.mcap"
    second.write_bytes(b"")
    done = repair(tmp_path / "a.mcap", tmp_path / "b.mcap")
    assert done.ticks == 9
    assert [path.name for path in parts(tmp_path / "b.mcap")] == ["b.mcap", "b-0003.mcap"]
    with pytest.raises(SessionError, match="nothing of a session"):
        repair(second, tmp_path / "c.mcap")
