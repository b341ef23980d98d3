"""A sensor of somebody else's that fails, waits or gives other arrays than it promises ends in one sentence."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from devmind import plugins
from devmind.errors import SensorError
from devmind.worlds.room import Room
from tests.worlds.test_room import Clock


class Nose:
    """Three numbers, newly captured at each read."""

    sense, drops, space = "scent", 0, spaces.Box(-1, 1, (3,), np.float32)

    def __init__(self, kind="good", clock=None):
        self.kind, self.clock = kind, clock or Clock()

    def __enter__(self):
        if self.kind == "shut":
            raise OSError("no such device")
        # A mistake that happens: it does not return itself.

    def __exit__(self, *error):
        pass

    def read_latest(self, max_age_s):
        if self.kind == "fails":
            raise OSError("device gone")
        if self.kind == "waits":
            self.clock.sleep(0.35)
        values = {"none": None, "longer": np.zeros(4, np.float32), "text": "roses", "double": np.zeros(3)}
        reading = values.get(self.kind, np.zeros(3, np.float32))
        return reading if self.kind == "none" else (reading, self.clock.now())


FAULTS = {
    "fails": "The sensor of 'scent' failed: OSError: device gone. A sensor whose device cannot be read raises Stale",
    "none": r"gave a NoneType; read_latest gives \(array, captured_at_s\)",
    "longer": r"promises float32 \[3\] by its space, and gave float32 \[4\]",
    "double": r"promises float32 \[3\] by its space, and gave float64 \[3\]",
    "text": "gave a wrong reading: Sense 'scent' must be a numeric numpy array; got str",
}


@pytest.mark.parametrize(("kind", "sentence"), FAULTS.items())
def test_room_refuses_what_a_sensor_may_not_give(kind, sentence):
    clock = Clock()
    with pytest.raises(SensorError, match=sentence):
        Room({"nose": Nose(kind, clock)}, now=clock.now, sleep=clock.sleep).reset()


def test_sensor_that_waits_is_named_for_the_skipped_ticks():
    """Regression: a sensor that blocks was counted as a busy machine ("elsewhere")."""
    clock = Clock()
    room = Room({"nose": Nose("waits", clock)}, now=clock.now, sleep=clock.sleep)
    _, info = room.reset()
    assert (info["skipped"], info["waited_for"]) == (0, "")
    *_, info = room.step({})
    assert info["skipped"] > 0
    assert info["waited_for"] == "scent"
    assert room.health.waited_s["scent"] == pytest.approx(0.35)
    quick = Room({"nose": Nose("good", clock)}, now=clock.now, sleep=clock.sleep)
    quick.reset()
    assert quick.step({})[-1]["waited_for"] == ""
    assert quick.health.waited_s == {}


@pytest.fixture
def nose(monkeypatch):
    """The sensor `nose`, as a plugin; its source is the kind of fault."""
    import time

    class Real(Nose):
        def __init__(self, kind="good"):
            super().__init__(kind)
            self.clock.now, self.clock.sleep = time.monotonic, time.sleep

    monkeypatch.setattr("devmind.worlds.probe.FIRST_S", 0.15)
    load = plugins.load
    monkeypatch.setattr(plugins, "load", lambda group, name: Real if name == "nose" else load(group, name))


@pytest.fixture
def run(nose, tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from devmind.cli import app

    monkeypatch.chdir(tmp_path)
    return lambda *words: CliRunner().invoke(app, words)


@pytest.mark.parametrize("kind", ["fails", "none", "text"])
def test_sensors_test_and_record_end_with_a_sentence(run, kind):
    for words in (
        ("sensors", f"nose={kind}", "--seconds", "0.5"),
        (
            "session",
            "record",
            "x.mcap",
            "--camera",
            "none",
            "--mic",
            "none",
            "--sensor",
            f"nose={kind}",
            "--set",
            "seconds=1",
        ),
    ):
        ended = run(*words)
        assert ended.exit_code == 2, ended.output
        assert "The sensor of 'scent'" in ended.output
        assert "Traceback" not in ended.output


def test_sensor_that_cannot_be_opened_ends_with_a_sentence(run):
    tested = run("sensors", "nose=shut", "--seconds", "0.5")
    assert tested.exit_code == 1
    assert "The sensor 'nose' cannot be opened: OSError: no such device." in " ".join(tested.output.split())
    recorded = run("session", "record", "x.mcap", "--camera", "none", "--mic", "none", "--sensor", "nose=shut")
    assert recorded.exit_code == 2
    assert "cannot be opened: OSError: no such device." in " ".join(recorded.output.split())


def test_sensor_whose_enter_gives_nothing_is_tested(run):
    tested = run("sensors", "nose", "--seconds", "0.5")
    assert tested.exit_code == 0, tested.output
    assert "3 float32" in tested.output
