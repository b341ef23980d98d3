"""The doctor's checks of what a live room can use: sound, cameras, a browser.

Training needs none of it, so nothing here is marked for repair. Below an obstacle stands the command that removes it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from devmind.cli import here
from devmind.cli.machine import Check
from devmind.cli.show import count_of
from devmind.errors import some

DEVICES = Path("/dev")
APT = "apt install portaudio19-dev (or brew install portaudio), then: "


def checks() -> Iterator[Check]:
    """All checks of this file."""
    yield microphone()
    yield camera()
    yield browser()


def microphone() -> Check:
    """Whether PortAudio can be loaded through PyAudio, and which sound inputs it lists."""
    found = here.microphones()
    if found.devices:
        names = [device.name for device in found.devices]
        return Check("microphone", None, f"{count_of(len(names), 'sound input')}: {some(names, 3)}")
    install = f'{sys.executable} -m pip install "devmind[live]"'
    if "No module named 'pyaudio'" in found.error:
        return Check("microphone", None, found.why, APT + install)
    if "ImportError" in found.error:
        return Check("microphone", None, found.why, f"{APT}{install} --force-reinstall")
    return Check("microphone", None, found.why, _sound_mend())


def _sound_mend() -> str:
    if sys.platform == "darwin":
        return "allow the terminal in System Settings > Privacy & Security > Microphone"
    nodes = sorted((DEVICES / "snd").glob("pcm*c"))
    return (
        _group_mend(nodes) or "connect a microphone, or start the sound server: systemctl --user start pipewire-pulse"
    )


def camera() -> Check:
    """The cameras of this machine, and whether this user may open them."""
    if not sys.platform.startswith("linux"):
        mend = "the first use asks for leave; on a Mac: System Settings > Privacy & Security > Camera"
        return Check("camera", None, "this system tells only when one is opened: devmind sensors webcam", mend)
    nodes = sorted(DEVICES.glob("video*"))
    if not nodes:
        return Check("camera", None, "none is connected")
    closed = _closed(nodes)
    if closed:
        said = f"{some([str(node) for node in closed], 3)} may not be opened by this user"
        return Check("camera", None, said, _group_mend(closed))
    return Check("camera", None, f"{some([str(node) for node in nodes], 3)} may be opened")


def _closed(nodes: Sequence[Path]) -> list[Path]:
    return [node for node in nodes if not os.access(node, os.R_OK | os.W_OK)]


def _group_mend(nodes: Sequence[Path]) -> str:
    """The command that adds this user to the group of the first closed device; '' if none is closed."""
    closed = _closed(nodes)
    if not closed:
        return ""
    try:
        group = closed[0].group()
    except (KeyError, OSError):  # in a container, a device's group may have no name
        return f"sudo chmod a+rw {closed[0]}"
    if group == "root":  # no user should join this group
        return f"sudo chmod a+rw {closed[0]}"
    return f"sudo usermod -aG {group} $USER, then log out and in again"


def browser() -> Check:
    """Whether a page can be opened from here; a user can also open it by hand, and elsewhere."""
    import webbrowser

    brings = "the page of 'devmind hello' brings its own camera and microphone: none of the two above is needed for it"
    try:
        found: Any = webbrowser.get()
    except webbrowser.Error:
        why = "no desktop session" if _is_without_screen() else "none is found here"
        return Check("browser", None, f"{why}; open the printed address in one ({brings})")
    return Check("browser", None, f"{getattr(found, 'name', 'the system one')}; {brings}")


def _is_without_screen() -> bool:
    """Whether no window can be shown, as over SSH: Python then looks for no browser that needs one."""
    screens = ("DISPLAY", "WAYLAND_DISPLAY")
    return sys.platform.startswith("linux") and not any(os.environ.get(name) for name in screens)
