"""This machine's cameras and microphones: their names, and what to type for each. No device is opened."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from devmind import bounds
from devmind.errors import DevmindError

ANSWER_S = 20.0
DEVICES, CAMERA_CLASS = Path("/dev"), Path("/sys/class/video4linux")
_LIST_INPUTS = """
import json, pyaudio
audio = pyaudio.PyAudio()
every = [audio.get_device_info_by_index(k) for k in range(audio.get_device_count())]
print(json.dumps([str(one["name"]) for one in every if one["maxInputChannels"] > 0]))
"""


@dataclass(frozen=True)
class Device:
    """One device: its own name, and the source to type for it."""

    name: str
    source: str


@dataclass(frozen=True)
class Found:
    """Devices of one kind; if there are none, `why` is a sentence without full stop, and `error` its technical part."""

    devices: tuple[Device, ...] = ()
    why: str = ""
    error: str = ""


def cameras() -> Found:
    """The cameras that Linux lists under /dev; other systems show cameras only when one is opened.

    A camera has several nodes there, and only the first one (index 0) gives pictures.
    """
    if not sys.platform.startswith("linux"):
        return Found(why="this system tells only when one is opened: devmind sensors webcam")
    found = []
    for node in sorted(DEVICES.glob("video*"), key=lambda node: (len(node.name), node.name)):
        if (_said(node, "index") or "0") == "0":
            number = node.name.removeprefix("video")
            found.append(Device(_said(node, "name") or str(node), number if number.isdecimal() else str(node)))
    return Found(tuple(found), "" if found else "none is connected")


def _said(node: Path, what: str) -> str:
    """The kernel's information about a camera's node; '' if there is none, as in a container."""
    try:
        return (CAMERA_CLASS / node.name / what).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def microphones() -> Found:
    """The sound inputs that PortAudio lists through PyAudio.

    They are listed in a new process: ALSA fills stderr with missing devices, and a broken driver may hang or crash.
    """
    try:
        asked = subprocess.run(
            [sys.executable, "-c", _LIST_INPUTS], capture_output=True, text=True, timeout=ANSWER_S, check=False
        )
    except subprocess.TimeoutExpired:
        return Found(why=f"the sound system does not answer within {ANSWER_S:g} s")
    if asked.returncode:
        last = (asked.stderr.strip().splitlines() or ["the process ended without a word"])[-1]
        if "No module named 'pyaudio'" in last:
            return Found(why="PyAudio is not installed", error=last)
        if "ImportError" in last:
            return Found(why=f"PortAudio cannot be loaded ({last})", error=last)
        return Found(why=f"PortAudio does not start ({last})", error=last)
    said = (asked.stdout.strip().splitlines() or [""])[-1]
    names: list[str] = bounds.parse_json(said, DevmindError, "PortAudio's list of inputs cannot be read ({}).")
    return Found(tuple(Device(name, name) for name in names), "" if names else "PortAudio finds no sound input")
