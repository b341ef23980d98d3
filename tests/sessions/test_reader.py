"""Reading sessions: at any position, during recording, and after any damage."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest
from mcap.writer import Writer

from devmind.errors import SessionError
from devmind.moment import Moment
from devmind.sessions import Recorder, describe, open_session, replay


def test_any_tick_and_any_window_can_be_read(path: Path, steps: list) -> None:
    session = open_session(path)
    assert len(session) == len(steps)
    assert [session[k] for k in range(len(steps))] == steps
    assert session[-1] == steps[-1]
    assert session.window(7, 11) == steps[7:18]
    assert session.window(35, 11) == steps[35:]
    assert session.window(40, 3) == []
    assert list(session.read(3, 5)) == steps[3:5]
    for bad in (40, -41):
        with pytest.raises(IndexError, match="not among the 40"):
            session[bad]
    with pytest.raises(IndexError, match="at least 0"):
        session.window(-1, 2)
    with pytest.raises(IndexError, match="not all among"):
        session.read(39, 41)


def test_one_big_chunk_reads_the_same(tmp_path: Path, steps: list) -> None:
    with Recorder(tmp_path / "b.mcap", source="test", clock=lambda: 0.0) as writing:
        for step in steps:
            writing.write(*step)
    session = open_session(tmp_path / "b.mcap")
    assert list(session) == steps
    assert session.window(13, 4) == steps[13:17]


def test_describe_reports_counts_and_types(path: Path, steps: list) -> None:
    info = describe(path)
    assert (info["ticks"], info["episodes"], info["truncated"]) == (40, 2, False)
    assert info["duration_s"] == pytest.approx(4.0)
    assert info["senses"]["sight"] == {"count": 20, "dtypes": ["uint8"], "shapes": [[8, 9, 3]]}
    assert info["senses"]["words"] == {"count": 8, "dtypes": ["str"], "shapes": [[]]}
    assert info["senses"]["range_finder"]["dtypes"] == [">f8"]
    assert info["effectors"]["look"]["count"] == 13
    assert open_session(path).episodes() == [range(25), range(25, 40)]
    assert list(replay(path)) == steps


def test_a_copied_session_reads_the_same(path: Path, steps: list) -> None:
    assert copy.deepcopy(open_session(path)).window(2, 3) == steps[2:5]


def test_a_session_is_read_while_it_is_written(tmp_path: Path) -> None:
    with Recorder(tmp_path / "a.mcap", source="test") as writing:
        session = open_session(writing.path)
        assert (len(session), session.truncated, session.duration_s) == (0, True, 0.0)
        for k in range(3):
            writing.write(Moment(k / 10, {"body": np.full(2, k, np.float32)}))
        assert session.refresh() == 0
        writing.flush()
        assert session.refresh() == 3
        assert session[2][0].senses["body"].tolist() == [2, 2]
        writing.write(Moment(0.3))
    assert session.refresh() == 1
    assert not session.truncated


def test_every_cut_leaves_a_prefix_of_whole_ticks(path: Path, steps: list, tmp_path: Path) -> None:
    """Cut anywhere, the file gives its first ticks unchanged and reports the cut."""
    data, cut, counts = path.read_bytes(), tmp_path / "cut.mcap", []
    for size in np.linspace(1000, len(data) - 9, 60).astype(int):
        cut.write_bytes(data[:size])
        session = open_session(cut)
        assert session.truncated
        assert list(session) == steps[: len(session)]
        counts.append(len(session))
    assert counts == sorted(counts)
    assert counts[-1] == 40
    assert len(set(counts)) > 15


def test_zeros_at_the_end_count_as_a_cut(path: Path, steps: list, tmp_path: Path) -> None:
    """After a power failure a file may have its full length, with zeros where the last data should be."""
    data, cut = path.read_bytes(), tmp_path / "cut.mcap"
    half = len(data) // 2
    cut.write_bytes(data[:half] + bytes(5000))
    session = open_session(cut)
    assert session.truncated
    assert 0 < len(session) < 40
    assert list(session) == steps[: len(session)]


def test_a_flipped_bit_never_changes_a_tick(path: Path, steps: list, tmp_path: Path) -> None:
    data, bad = path.read_bytes(), tmp_path / "bad.mcap"
    refused = 0
    for at in np.linspace(8, len(data) - 9, 150).astype(int):
        bad.write_bytes(data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :])
        try:
            session = open_session(bad)
        except SessionError as error:
            refused += "damaged" in str(error)
            session = None
        if session is not None:
            assert list(session) == steps[: len(session)]
    assert refused > 50


def test_a_chunk_with_a_changed_opcode_is_reported(path: Path, tmp_path: Path) -> None:
    """A flipped opcode turns a chunk into an unknown record, which readers skip."""
    data, bad = path.read_bytes(), tmp_path / "bad.mcap"
    chunk_starts = [at - 37 for at in range(len(data)) if data.startswith(b"\x04\0\0\0zstd", at) and data[at - 37] == 6]
    for start in (chunk_starts[0], chunk_starts[3], chunk_starts[-1]):
        bad.write_bytes(data[:start] + b"\x86" + data[start + 1 :])
        with pytest.raises(SessionError, match="damaged after"):
            open_session(bad)


def test_a_missing_tick_is_reported(path: Path, tmp_path: Path) -> None:
    with pytest.raises(SessionError, match="Tick 17 is missing, 18 comes instead"):
        open_session(rewritten(path, tmp_path / "other.mcap", without=17))


def test_files_that_are_no_sessions_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SessionError, match="There is no recording"):
        open_session(tmp_path / "missing.mcap")
    with pytest.raises(SessionError, match="is a folder"):
        open_session(tmp_path)
    for content, words in (
        (b"", "it is empty"),
        (b"hello world", "not an MCAP"),
        (b"\x89MCAP0\r\n", "without a devmind"),
    ):
        (tmp_path / "x.mcap").write_bytes(content)
        with pytest.raises(SessionError, match=words):
            open_session(tmp_path / "x.mcap")
    with (tmp_path / "other.mcap").open("wb") as file:
        other = Writer(file)
        other.start()
        other.add_message(other.register_channel("/scan", "json", 0), 0, b"{}", 0)
        other.finish()
    with pytest.raises(SessionError, match="without a devmind session"):
        open_session(tmp_path / "other.mcap")


def test_a_later_format_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "later.mcap").open("wb") as file:
        later = Writer(file)
        later.start()
        later.add_metadata("session", {"format": "devmind.session/3"})
        later.finish()
    with pytest.raises(SessionError, match=r"format devmind.session/3.*update"):
        open_session(tmp_path / "later.mcap")


def rewritten(path: Path, other: Path, without: int | None = None) -> Path:
    """A copy by another tool, in chunks of its own, perhaps without the messages of one tick."""
    from mcap.reader import make_reader

    with path.open("rb") as source, other.open("wb") as target:
        reader, writer = make_reader(source), Writer(target, chunk_size=500)
        writer.start()
        for metadata in reader.iter_metadata():
            writer.add_metadata(metadata.name, metadata.metadata)
        channels: dict[int, int] = {}
        for schema, channel, message in reader.iter_messages(log_time_order=False):
            if channel.id not in channels:
                known = writer.register_schema(schema.name, schema.encoding, schema.data)
                channels[channel.id] = writer.register_channel(channel.topic, channel.message_encoding, known)
            if message.sequence != without:
                writer.add_message(
                    channels[channel.id], message.log_time, message.data, message.publish_time, message.sequence
                )
        writer.finish()
    return other


def test_a_session_rechunked_by_another_tool_reads_the_same(path: Path, steps: list, tmp_path: Path) -> None:
    """Recompressing tools keep the order of messages, but not our rule that chunks end between ticks."""
    session = open_session(rewritten(path, tmp_path / "other.mcap"))
    assert list(session) == steps
    assert [session[k] for k in range(len(steps))] == steps
