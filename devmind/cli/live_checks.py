"""The doctor's look at what a live room can use: sound, cameras, a browser. Training needs none of it, so nothing here
is ever marked as to be mended; where something is in the way, the command that removes it stands below.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from devmind.cli.machine import Check

ANSWER_S = 20.0
DEVICES = Path("/dev")
APT = "apt install portaudio19-dev (or brew install portaudio), then: "
_LIST_INPUTS = """
import json, pyaudio
audio = pyaudio.PyAudio()
every = [audio.get_device_info_by_index(k) for k in range(audio.get_device_count())]
print(json.dumps([str(one["name"]) for one in every if one["maxInputChannels"] > 0]))
"""


def checks() -> Iterator[Check]:
    """All of them."""
    yield microphone()
    yield camera()
    yield browser()


def microphone() -> Check:
    """Whether PortAudio can be loaded through PyAudio, and which sound inputs it lists.

    Asked in a process of its own: ALSA fills stderr with every device it lacks, and a broken driver may hang or crash.
    """
    try:
        asked = subprocess.run(
            [sys.executable, "-c", _LIST_INPUTS], capture_output=True, text=True, timeout=ANSWER_S, check=False
        )
    except subprocess.TimeoutExpired:
        return Check("microphone", None, f"the sound system does not answer within {ANSWER_S:g} s", _sound_mend())
    if asked.returncode:
        return _no_sound(asked.stderr)
    inputs: list[str] = json.loads(asked.stdout.strip().splitlines()[-1])
    if not inputs:
        return Check("microphone", None, "PortAudio works, but finds no sound input", _sound_mend())
    return Check("microphone", None, f"{len(inputs)} sound inputs: {_some(inputs)}")


def _no_sound(stderr: str) -> Check:
    """What the last line of a failed question means."""
    last = (stderr.strip().splitlines() or ["the process ended without a word"])[-1]
    install = f'{sys.executable} -m pip install "devmind[live]"'
    if "No module named 'pyaudio'" in last:
        return Check("microphone", None, "PyAudio is not installed", APT + install)
    if "ImportError" in last:
        return Check("microphone", None, f"PortAudio cannot be loaded ({last})", f"{APT}{install} --force-reinstall")
    return Check("microphone", None, f"PortAudio does not start ({last})", _sound_mend())


def _sound_mend() -> str:
    if sys.platform == "darwin":
        return "allow the terminal in System Settings > Privacy & Security > Microphone"
    nodes = sorted((DEVICES / "snd").glob("pcm*c"))
    return (
        _group_mend(nodes) or "connect a microphone, or start the sound server: systemctl --user start pipewire-pulse"
    )


def camera() -> Check:
    """Which cameras there are, and whether this user may open them."""
    if not sys.platform.startswith("linux"):
        mend = "the first use asks for leave; on a Mac: System Settings > Privacy & Security > Camera"
        return Check("camera", None, "this system tells only when one is opened: devmind sensors test webcam", mend)
    nodes = sorted(DEVICES.glob("video*"))
    if not nodes:
        return Check("camera", None, "none is connected")
    closed = _closed(nodes)
    if closed:
        said = f"{_some([str(node) for node in closed])} may not be opened by this user"
        return Check("camera", None, said, _group_mend(closed))
    return Check("camera", None, f"{_some([str(node) for node in nodes])} may be opened")


def _closed(nodes: Sequence[Path]) -> list[Path]:
    return [node for node in nodes if not os.access(node, os.R_OK | os.W_OK)]


def _group_mend(nodes: Sequence[Path]) -> str:
    """How this user gets into the group that the first closed device belongs to; '' when none is closed."""
    closed = _closed(nodes)
    if not closed:
        return ""
    try:
        group = closed[0].group()
    except (KeyError, OSError):  # a container may have a device whose group it has no name for
        return f"sudo chmod a+rw {closed[0]}"
    if group == "root":  # nobody should join it
        return f"sudo chmod a+rw {closed[0]}"
    return f"sudo usermod -aG {group} $USER, then log out and in again"


def browser() -> Check:
    """Whether a page can be opened from here; it may as well be opened by hand, and elsewhere."""
    import webbrowser

    brings = "the page of 'devmind hello' brings its own camera and microphone: none of the two above is needed for it"
    try:
        found: Any = webbrowser.get()
    except webbrowser.Error:
        return Check("browser", None, f"none is found here; open the printed address in one ({brings})")
    return Check("browser", None, f"{getattr(found, 'name', 'the system one')}; {brings}")


def _some(names: Sequence[str]) -> str:
    rest = len(names) - 3
    return ", ".join(names[:3]) + (f" and {rest} more" if rest > 0 else "")
