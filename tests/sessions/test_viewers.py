"""What viewers see, by nothing but `mcap` and protobuf: wall-clock times, and numbers as fields to plot."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from mcap.reader import make_reader

from devmind.moment import Action, Moment
from devmind.sessions import Recorder, open_session, parts, repair

NAMES = {"body": ["pan_sin", "tilt", "grip"], "look": ("pan", "tilt")}


def a_life(recorder: Any, ticks: int = 12) -> list[tuple[Moment, Action]]:
    lived = [
        (
            Moment(
                3 + k / 10, {"body": np.array([k / 4, -k, np.nan], np.float32), "level": np.array(k)}, k / 2, k == 0
            ),
            Action({"look": np.array([k / 8, 0], np.float32)}),
        )
        for k in range(ticks)
    ]
    for moment, action in lived:
        recorder.write(moment, action)
    recorder.frame(np.zeros((16, 16, 3), np.uint8), 3.05)
    recorder.health({"camera": {"drops": 3}})
    return lived


def decoded(path: Path) -> dict[str, list[tuple[Any, Any]]]:
    """(record, message) by topic, decoded with the schemas in the file."""
    found: dict[str, list[tuple[Any, Any]]] = {}
    classes: dict[int, Any] = {}
    with path.open("rb") as file:
        for schema, channel, record in make_reader(file).iter_messages():
            assert schema is not None
            if channel.message_encoding != "protobuf":
                found.setdefault(channel.topic, []).append((record, record.data))
                continue
            if schema.id not in classes:
                pool = descriptor_pool.DescriptorPool()
                for one in descriptor_pb2.FileDescriptorSet.FromString(schema.data).file:
                    pool.Add(one)
                classes[schema.id] = message_factory.GetMessageClass(pool.FindMessageTypeByName(schema.name))
            found.setdefault(channel.topic, []).append((record, classes[schema.id].FromString(record.data)))
    return found


def test_numbers_are_named_fields_beside_the_bytes(tmp_path: Path) -> None:
    with Recorder(tmp_path / "a.mcap", source="room", names=NAMES) as recorder:
        lived = a_life(recorder)
    found = decoded(tmp_path / "a.mcap")
    body = [message for _, message in found["/moment/body"]]
    assert [message.pan_sin for message in body] == [k / 4 for k in range(12)]
    assert [message.tilt for message in body] == [-k for k in range(12)]
    assert all(math.isnan(message.grip) for message in body)
    assert [message.pan for _, message in found["/action/look"]] == [k / 8 for k in range(12)]
    assert [message.value for _, message in found["/moment/level"]] == list(range(12))
    assert [message.reward for _, message in found["/tick"]] == [k / 2 for k in range(12)]
    session = open_session(tmp_path / "a.mcap")
    assert list(session) == lived
    assert session.names() == {name: list(names) for name, names in NAMES.items()}


@pytest.mark.parametrize("rotate_s", [None, 0.5])
def test_all_times_are_wall_clock_times(tmp_path: Path, rotate_s: float | None) -> None:
    before_ns = time.time_ns()
    with Recorder(tmp_path / "a.mcap", source="room", rotate_s=rotate_s) as recorder:
        lived = a_life(recorder)
    after_ns = time.time_ns()
    ticks = []
    for number, part in enumerate(parts(tmp_path / "a.mcap")):
        found = decoded(part)
        for record, _ in (one for records in found.values() for one in records):
            assert record.publish_time == record.log_time
            assert before_ns <= record.log_time <= after_ns + 1.2e9
        ticks += [record.log_time for record, _ in found["/tick"]]
        session = open_session(part)
        assert session.elapsed_s(0) == pytest.approx(0.5 * number), "seconds since the first tick, as ever"
        for record, image in found.get("/camera", []):
            assert image.timestamp.seconds * 10**9 + image.timestamp.nanos == record.log_time
    assert np.diff(ticks).tolist() == [10**8] * 11
    assert [step for part in parts(tmp_path / "a.mcap") for step in open_session(part)] == lived
    assert [frame.time_s for part in parts(tmp_path / "a.mcap") for frame in open_session(part).frames()] == [
        pytest.approx(0.05)
    ]


def test_repair_keeps_clock_and_names_without_the_metadata(tmp_path: Path) -> None:
    with Recorder(tmp_path / "a.mcap", source="room", names=NAMES) as recorder:
        lived = a_life(recorder)
    data = (tmp_path / "a.mcap").read_bytes()
    repair(tmp_path / "a.mcap", tmp_path / "b.mcap")
    (tmp_path / "bad.mcap").write_bytes(data.replace(b"source", b"ecruos"))
    repair(tmp_path / "bad.mcap", tmp_path / "c.mcap")
    times = [[record.log_time for record, _ in decoded(tmp_path / f"{name}.mcap")["/tick"]] for name in "abc"]
    assert times[0] == times[1] == times[2]
    for name in "bc":
        session = open_session(tmp_path / f"{name}.mcap")
        assert list(session) == lived
        assert session.elapsed_s(-1) == pytest.approx(1.1)
    assert decoded(tmp_path / "b.mcap")["/moment/body"][1][1].pan_sin == 0.25
