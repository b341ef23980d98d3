"""What `devmind doctor` reports about sound, cameras and the browser."""

from __future__ import annotations

import os
import sys
import webbrowser
from pathlib import Path

import pytest

from devmind.cli import doctor, here

FAKE = """
import sys
sys.stderr.write("ALSA lib confmisc.c: cannot find card\\n")
class PyAudio:
    devices = DEVICES
    def get_device_count(self): return len(self.devices)
    def get_device_info_by_index(self, k):
        return {"name": self.devices[k][0], "maxInputChannels": self.devices[k][1]}
"""


@pytest.fixture
def pyaudio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that stands for PyAudio in a separate process."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path / "pyaudio.py"


def test_sound_inputs_are_listed_without_the_noise_of_alsa(pyaudio: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pyaudio.write_text(FAKE.replace("DEVICES", "[('Desk microphone', 2), ('Speakers', 0)]"))
    check = doctor.microphone()
    assert (check.ok, check.said, check.mend) == (None, "1 sound input: Desk microphone", "")
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("text", "said", "mend"),
    [
        ("raise ImportError('libportaudio.so.2: cannot open')", "libportaudio.so.2", "portaudio19-dev"),
        ("raise ModuleNotFoundError(\"No module named 'pyaudio'\")", "PyAudio is not installed", "devmind[live]"),
        ("raise OSError('no host API')", "does not start (OSError: no host API)", ""),
        ("import os; os.abort()", "does not start", ""),
        (FAKE.replace("DEVICES", "[]"), "finds no sound input", ""),
    ],
)
def test_each_failure_of_sound_has_its_own_message(
    pyaudio: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, said: str, mend: str
) -> None:
    monkeypatch.setattr(doctor, "DEVICES", tmp_path / "dev")
    pyaudio.write_text(text)
    check = doctor.microphone()
    assert check.ok is None, "training needs no sound"
    assert said in check.said
    assert mend in check.mend
    assert check.mend


def test_hanging_sound_system_is_not_waited_for(pyaudio: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(here, "ANSWER_S", 0.5)
    pyaudio.write_text("import time; time.sleep(60)")
    assert "does not answer" in doctor.microphone().said


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="cameras are files on Linux only")
def test_camera_without_permission_is_named_with_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "DEVICES", tmp_path)
    assert doctor.camera().said == "none is connected"
    node = tmp_path / "video0"
    node.touch()
    assert doctor.camera().said == f"{node} may be opened"
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may open all files
    monkeypatch.setattr(Path, "group", lambda self: "video")
    check = doctor.camera()
    assert "may not be opened" in check.said
    assert check.mend == "sudo usermod -aG video $USER, then log out and in again"

    def nameless(self: Path) -> str:
        raise KeyError(44)

    monkeypatch.setattr(Path, "group", nameless)
    assert doctor.camera().mend == f"sudo chmod a+rw {node}"


def test_missing_browser_needs_only_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> None:
        raise webbrowser.Error

    monkeypatch.setattr(webbrowser, "get", none)
    monkeypatch.setattr("sys.platform", "linux")
    for name, value in {"DISPLAY": ":0", "WAYLAND_DISPLAY": ""}.items():
        monkeypatch.setenv(name, value)
    assert doctor.browser().said.startswith("none is found here; open the printed address")
    monkeypatch.delenv("DISPLAY")
    assert doctor.browser().said.startswith("no desktop session; open the printed address")
