"""`devmind sensors`: what is listed, what a test prints, and that nothing is saved unless requested."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from devmind import plugins

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(autouse=True)
def built_in(monkeypatch):
    """The sensors of this checkout, even if the installed metadata is older."""
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["devmind.sensors"]
    own = {name: plugins.Plugin("sensors", name, value, "devmind", "0.1.0") for name, value in points.items()}
    monkeypatch.setattr("devmind.worlds.probe.FIRST_S", 0.15)
    monkeypatch.setattr("devmind.worlds.probe.LAG_S", 0.05)
    scan = plugins._scan
    monkeypatch.setattr(plugins, "_scan", lambda group: own if group == "sensors" else scan(group))


def test_every_built_in_sensor_is_listed_with_its_senses_and_source(devmind):
    listed = devmind("sensors")
    assert listed.exit_code == 0
    for words in ("webcam[=SOURCE] gives sight", "video_file=PATH gives sight", "speaker[=DEVICE] takes utter"):
        assert words in " ".join(listed.output.split())
    assert "broken" not in listed.output


def test_sensors_test_prints_rate_level_and_skew_and_saves_nothing(devmind, tmp_path):
    tested = devmind("sensors", "synthetic_camera=0.2", "synthetic_microphone=0.2", "--seconds", "0.6")
    assert tested.exit_code == 0, tested.output
    words = " ".join(tested.output.split())
    rate = re.search(r"synthetic_camera sight (\d+\.\d)/s", words)
    assert rate, words
    assert 1 < float(rate[1]) < 31, "30 a second, fewer where others use the machine"
    assert "16 kHz" in words
    assert "synthetic_microphone after synthetic_camera:" in words
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_picture_is_saved_on_request(devmind, tmp_path):
    import cv2

    tested = devmind("sensors", "synthetic_camera", "--seconds", "0.5", "--save", "seen.png")
    assert tested.exit_code == 0, tested.output
    assert [path.name for path in tmp_path.iterdir()] == ["seen.png"]
    assert cv2.imread("seen.png").shape == (240, 320, 3)


def test_silent_sensor_ends_with_exit_code_1_and_the_reason(devmind):
    tested = devmind("sensors", "webcam=97", "--seconds", "0.5")
    assert tested.exit_code == 1
    assert "There is no camera '97'" in tested.output
    assert "nothing came" in tested.output


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["webcm"], 1, "did you mean 'webcam'"),
        (["video_file"], 1, "write video_file=SOURCE"),
        (["video_file=nothing.mp4"], 1, "There is no video file"),
        (["synthetic_camera=often"], 1, "synthetic_camera[=PERIOD_S]"),
        (["synthetic_camera", "--save", "seen.txt"], 2, ".png or .jpg"),
        (["synthetic_camera", "--save", "nowhere/seen.png"], 2, "There is no folder"),
    ],
)
def test_untestable_sensor_gives_a_clear_error(devmind, words, code, said):
    tested = devmind("sensors", *words, "--seconds", "0.5")
    assert said in tested.output
    assert tested.exit_code == code
