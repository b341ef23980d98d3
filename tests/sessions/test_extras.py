"""Camera frames and device health are stored beside the ticks and change none of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from foxglove_schemas_protobuf.CompressedImage_pb2 import CompressedImage
from mcap.reader import make_reader

from devmind.errors import SessionError
from devmind.moment import Moment
from devmind.sessions import Recorder, describe, open_session


def scene(k: int) -> np.ndarray:
    """A smooth picture, red on the left, which JPEG keeps nearly unchanged."""
    picture = np.zeros((48, 64, 3), np.uint8)
    picture[:, :, 0], picture[:, :, 2] = np.linspace(250, 0, 64).astype(np.uint8), 10 * k
    return picture


def record(path: Path, steps: list) -> None:
    with Recorder(path, source="test") as recorder:
        for k, (moment, action) in enumerate(steps[:20]):
            recorder.write(moment, action)
            recorder.frame(scene(k), moment.time_s + 0.031)
            recorder.health({"camera": {"drops": k, "fault": ""}})


def test_frames_come_back_with_their_capture_times(tmp_path: Path, steps: list) -> None:
    record(tmp_path / "a.mcap", steps)
    session = open_session(tmp_path / "a.mcap")
    assert list(session) == steps[:20], "ticks are what they were"
    frames = list(session.frames())
    assert [frame.time_s for frame in frames] == pytest.approx([k / 10 + 0.031 for k in range(20)])
    for k, frame in enumerate(frames):
        assert np.abs(frame.picture().astype(int) - scene(k)).mean() < 3, "RGB, not BGR"
    assert describe(tmp_path / "a.mcap")["frames"] == {"count": 20, "bytes": sum(len(f.jpeg) for f in frames)}
    assert [health.data["camera"]["drops"] for health in session.health] == list(range(20))
    assert session.health[5].time_s == pytest.approx(0.5)


def test_other_tools_see_jpegs_on_their_own_topic(tmp_path: Path, steps: list) -> None:
    record(tmp_path / "a.mcap", steps)
    with (tmp_path / "a.mcap").open("rb") as file:
        found = [(s.name, c.topic, m) for s, c, m in make_reader(file).iter_messages(topics=["/camera", "/health"])]
    schema, _, message = next(item for item in found if item[1] == "/camera")
    image = CompressedImage.FromString(message.data)
    assert (schema, image.format, image.data[:2]) == ("foxglove.CompressedImage", "jpeg", b"\xff\xd8")
    began_ns = int(open_session(tmp_path / "a.mcap").metadata["started_ns"])
    assert image.timestamp.seconds * 10**9 + image.timestamp.nanos == message.log_time == began_ns + 31_000_000
    assert sum(topic == "/health" for _, topic, _ in found) == 20


def test_a_jpeg_is_kept_unchanged_and_other_data_are_refused(tmp_path: Path) -> None:
    with Recorder(tmp_path / "a.mcap", source="test") as recorder:
        recorder.frame(scene(0), 5.0)  # the clock is unknown before the first tick
        recorder.write(Moment(5.0))
        jpeg = next(iter(_written(recorder).frames())).jpeg
        recorder.frame(jpeg, 5.02)
        recorder.frame(jpeg, 4.9)
        for bad, at_s in ((b"GIF89a", 5.1), (np.zeros((4, 4), np.uint8), 5.1), (np.zeros((4, 4, 3)), 5.1)):
            with pytest.raises(SessionError, match="A frame must be"):
                recorder.frame(bad, at_s)
        with pytest.raises(SessionError, match="captured_s"):
            recorder.frame(jpeg, float("nan"))
        with pytest.raises(SessionError, match="plain JSON"):
            recorder.health({"camera": object()})
    frames = list(open_session(tmp_path / "a.mcap").frames())
    assert [frame.time_s for frame in frames] == pytest.approx([0, 0.02, 0])
    assert [frame.jpeg for frame in frames] == [jpeg] * 3


def _written(recorder: Recorder):  # type: ignore[no-untyped-def]
    recorder.flush()
    return open_session(recorder.path)
