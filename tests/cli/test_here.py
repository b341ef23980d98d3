"""`devmind sensors`: this machine's cameras and microphones, and what to type for each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from devmind.cli import here
from devmind.cli.here import Device, Found


@pytest.fixture
def linux(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Linux whose /dev and /sys/class/video4linux are folders `dev` and `class`."""
    monkeypatch.setattr(here.sys, "platform", "linux")
    monkeypatch.setattr(here, "DEVICES", tmp_path / "dev")
    monkeypatch.setattr(here, "CAMERA_CLASS", tmp_path / "class")
    (tmp_path / "dev").mkdir()
    return tmp_path


def add(root: Path, node: str, name: str, index: int) -> None:
    (root / "dev" / node).touch()
    (root / "class" / node).mkdir(parents=True)
    (root / "class" / node / "name").write_text(f"{name}\n")
    (root / "class" / node / "index").write_text(f"{index}\n")


def test_camera_is_listed_once_by_name_and_number(linux: Path) -> None:
    assert here.cameras() == Found(why="none is connected")
    for node, name, index in (("video10", "Desk camera", 0), ("video2", "Lid camera", 0), ("video3", "Lid camera", 1)):
        add(linux, node, name, index)
    (linux / "dev" / "video11").touch()  # a container has the device node without the kernel's entry
    bare = str(linux / "dev" / "video11")
    assert here.cameras().devices == (Device("Lid camera", "2"), Device("Desk camera", "10"), Device(bare, "11"))


def test_list_shows_the_options_to_type(devmind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("devmind.cli.sensors.cameras", lambda: Found((Device("Lid camera", "0"),)))
    monkeypatch.setattr(
        "devmind.cli.sensors.microphones", lambda: Found((Device("USB Audio: (hw:1,0)", "USB Audio: (hw:1,0)"),))
    )
    listed = devmind("sensors").output
    assert "camera: Lid camera  --camera 0\n" in listed
    assert "microphone: USB Audio: (hw:1,0)  --mic 'USB Audio: (hw:1,0)'\n" in listed


def test_list_reports_a_machine_without_devices(devmind: Any, monkeypatch: pytest.MonkeyPatch, linux: Path) -> None:
    monkeypatch.setattr("devmind.cli.sensors.microphones", lambda: Found(why="PortAudio finds no sound input"))
    listed = devmind("sensors")
    assert listed.exit_code == 0
    assert listed.output.startswith("camera: none is connected\nmicrophone: PortAudio finds no sound input\n")
