"""`devmind doctor`: each check is of one part of this machine and names the command that repairs it.

The last three are of what a live room can use: sound, cameras, a browser. Training needs none of them, so none is
marked for repair; below an obstacle stands the command that removes it.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path
from typing import IO, Annotated, Any

import typer

from devmind import bounds, plugins
from devmind.cli import here, show
from devmind.errors import ConfigError, DevmindError, some, without_library

MIN_PYTHON = (3, 11)
MIN_FREE_GB = 2.0
SLOW_FSYNC_S = 0.2
SLOW_MB_S = 5.0
FSYNCS, PROBE_MB = 8, 16
LOADING_S = 60.0
DEVICES = Path("/dev")
APT = "apt install portaudio19-dev (or brew install portaudio), then: "
MARKS = {True: ("ok", "green"), False: ("mend", "bold red"), None: ("info", "dim")}


@dataclass(frozen=True)
class Check:
    """One line: `ok` is None for mere information; `mend` is a repair command, or how to get an optional part."""

    name: str
    ok: bool | None
    said: str
    mend: str = ""


def doctor(
    out: Annotated[Path, typer.Argument(metavar="[OUT]", help="Folder for runs.")] = Path("checkpoints"),
) -> None:
    """Check Python, packages, device, disk, sound and cameras; exit 1 if something needs repair."""
    failed = 0
    for check in checks(out):
        mark, style = MARKS[check.ok]
        failed += check.ok is False
        show.line(f"{mark:4}  {check.name}: {check.said}", style)
        if check.mend:
            show.line(f"      {check.mend}", "" if check.ok is False else "dim")
    show.line("\nAll is well." if not failed else f"\n{failed} to mend: run the command below each line marked 'mend'.")
    raise typer.Exit(1 if failed else 0)


def checks(out: Path) -> Iterator[Check]:
    """All checks, the cheap ones first."""
    yield python()
    yield from packages()
    yield opencv()
    yield from extras()
    yield from installed_plugins(Path(plugins.__file__).parent.parent)
    yield stages()
    yield out_folder(out)
    yield disk(out)
    yield compiled_cache()
    yield torch_device()
    yield microphone()
    yield camera()
    yield browser()


def python() -> Check:
    """The interpreter's version, and whether it belongs to the project's own environment."""
    said = f"{platform.python_version()} at {sys.executable}"
    mend = "" if sys.version_info >= MIN_PYTHON else "install Python 3.11 or newer, then: make PYTHON=python3.11 reflex"
    return Check("Python", sys.version_info >= MIN_PYTHON, said, mend)


def packages() -> Iterator[Check]:
    """One line if every required package has a fitting version, else one line for each that has not."""
    missing = list(_missing(""))
    if not missing:
        yield Check("packages", True, f"all {len(_required(''))} that devmind requires are installed")
    for requirement, found in missing:
        said = f"{found} is installed, {requirement} is needed" if found else f"{requirement} is missing"
        yield Check("packages", False, said, f'{sys.executable} -m pip install "{requirement}"')


def opencv() -> Check:
    """Whether OpenCV can be loaded: its wheel expects shared libraries that a slim system lacks.

    It is loaded in a new process: a library that crashes ends only that one.
    """
    loading = "import cv2; print(cv2.__version__)"
    try:
        asked = subprocess.run(
            [sys.executable, "-c", loading], capture_output=True, text=True, timeout=LOADING_S, check=False
        )
    except subprocess.TimeoutExpired:
        return Check("OpenCV", None, f"was not loaded within {LOADING_S:g} s")
    if not asked.returncode:
        return Check("OpenCV", True, f"{asked.stdout.strip()} can be loaded")
    last = (asked.stderr.strip().splitlines() or ["the process ended without a word"])[-1]
    if sentence := without_library(ImportError(last, name="cv2")):
        said, _, mend = sentence.partition(". On Debian and Ubuntu: ")
        return Check("OpenCV", False, said.removeprefix("OpenCV "), f"on Debian and Ubuntu: {mend.removesuffix('.')}")
    return Check("OpenCV", False, last, f"{sys.executable} -m pip install --force-reinstall opencv-python")


def extras() -> Iterator[Check]:
    """The optional groups of packages: whether they are installed, and how to install them."""
    for extra in sorted(metadata.metadata("devmind").get_all("Provides-Extra") or ()):
        missing = [requirement for requirement, _ in _missing(extra)]
        said = f"without {', '.join(missing)}" if missing else "installed"
        mend = f'{sys.executable} -m pip install "devmind[{extra}]"' if missing else ""
        yield Check(f"extra {extra}", None, said, mend)


def _required(extra: str) -> list[tuple[str, str]]:
    """`(name, requirement)` of devmind's requirements: those of an extra, or with '' those of every installation."""
    from packaging.requirements import Requirement

    parsed = [Requirement(text) for text in metadata.requires("devmind") or ()]
    wanted = [r for r in parsed if _for_extra(r, extra)]
    return [(r.name, f"{r.name}{r.specifier}") for r in wanted]


def _for_extra(requirement: object, extra: str) -> bool:
    marker = getattr(requirement, "marker", None)
    if marker is None:
        return not extra
    return marker.evaluate({"extra": extra}) and (not extra or not marker.evaluate({"extra": ""}))


def _missing(extra: str) -> Iterator[tuple[str, str | None]]:
    from packaging.requirements import Requirement

    for name, requirement in _required(extra):
        try:
            found = metadata.version(name)
        except metadata.PackageNotFoundError:
            yield requirement, None
            continue
        if not Requirement(requirement).specifier.contains(found, prereleases=True):
            yield requirement, found


def installed_plugins(root: Path) -> Iterator[Check]:
    """Whether the installation knows every entry point of the checkout in `root`; no line without a checkout.

    An editable installation has the current code, but the entry points of the day on which it was made.
    """
    project = root / "pyproject.toml"
    if not project.is_file():
        return
    wanted = tomllib.loads(bounds.read_text(project, ConfigError))["project"].get("entry-points", {})
    there = {(point.group, point.name, point.value) for point in metadata.distribution("devmind").entry_points}
    every = [(group, name, value) for group, points in wanted.items() for name, value in points.items()]
    missing = [name for group, name, value in every if (group, name, value) not in there]
    if not missing:
        yield Check("entry points", True, f"all {len(every)} of this checkout are installed")
        return
    said = f"installed entry points are older than this checkout: without {some(missing)}"
    yield Check("entry points", False, said, f'{sys.executable} -m pip install -e "{root}"')


def stages() -> Check:
    """Whether stages are found, and whether they would be imported from their own package."""
    found = plugins.available("stages")
    if not found:
        return Check(
            "stages", False, "none is found by entry point", f"{sys.executable} -m pip install -e . (in the checkout)"
        )
    for plugin in found.values():
        module = plugin.value.partition(":")[0]
        try:
            there = util.find_spec(module) is not None
        except (Exception, SystemExit):  # its package is imported, which may raise anything
            there = False
        if not there:
            top = module.partition(".")[0]
            said = f"'{plugin.name}' is not where it should be ({module})"
            top, package = module.partition(".")[0], plugin.distribution
            mend = f"rename a folder named '{top}' here if there is one, or: pip install --force-reinstall {package}"
            return Check("stages", False, said, mend)
    return Check("stages", True, ", ".join(found))


def out_folder(out: Path) -> Check:
    """Whether runs can be written, and whether the disk has room for them."""
    place = _existing(out)
    if not place.is_dir():
        said = f"{place} is {'a file' if place.is_file() else 'no folder'}"
        return Check("out folder", False, said, "give --out a folder, or move away what is there")
    if not os.access(place, os.W_OK | os.X_OK):
        return Check(
            "out folder", False, f"{place} may not be written", f'chmod u+wx "{place}", or give --out another folder'
        )
    free_gb = shutil.disk_usage(place).free / 1e9
    said = f"{out} can be written, {free_gb:.1f} GB free"
    mend = "" if free_gb >= MIN_FREE_GB else f"free {MIN_FREE_GB:g} GB there, or give --out a folder on another disk"
    return Check("out folder", free_gb >= MIN_FREE_GB, said, mend)


def disk(out: Path) -> Check:
    """The time until a small write is on the disk, and the write speed in megabytes a second.

    Every checkpoint waits for both, and a recording for the first.
    """
    try:
        with tempfile.TemporaryFile(dir=_existing(out), buffering=0) as file:
            each_s = sum(_synced_s(file, 4096) for _ in range(FSYNCS)) / FSYNCS
            mb_s = PROBE_MB / _synced_s(file, PROBE_MB << 20)
    except OSError as error:
        return Check("disk", False, f"nothing can be written: {error.strerror}", "give --out another folder")
    slow = each_s > SLOW_FSYNC_S or mb_s < SLOW_MB_S
    mend = "give --out a folder on a local disk: checkpoints and recordings wait for this one" if slow else ""
    return Check("disk", not slow, f"{each_s * 1e3:.1f} ms an fsync, {mb_s:.0f} MB/s written and synced", mend)


def _synced_s(file: IO[bytes], size: int) -> float:
    """Seconds until so many bytes are on the disk."""
    data = os.urandom(size)  # a compressing disk would write zeros too fast
    begun_s = time.perf_counter()
    file.write(data)
    os.fsync(file.fileno())
    return max(1e-9, time.perf_counter() - begun_s)


def compiled_cache() -> Check:
    """Whether numba can store the compiled nursery: beside the code, in the user's cache, or in a configured folder."""
    cache_dir = os.environ.get("NUMBA_CACHE_DIR")
    places = [Path(cache_dir)] if cache_dir else [Path(__file__).parent.parent, _user_cache()]
    for place in filter(None, places):
        if os.access(_existing(place), os.W_OK):
            return Check("compiled code", True, f"can be kept in {place}")
    return Check(
        "compiled code", False, "can be kept nowhere: each start compiles anew", "export NUMBA_CACHE_DIR=/tmp/numba"
    )


def _user_cache() -> Path | None:
    """None for a user without a home."""
    folder = os.environ.get("XDG_CACHE_HOME")
    try:
        if sys.platform == "darwin":
            return Path.home() / "Library" / "Caches" / "numba"
        return (Path(folder) if folder else Path.home() / ".cache") / "numba"
    except RuntimeError:  # neither HOME nor an account
        return None


def _existing(path: Path) -> Path:
    """`path`, or the deepest folder above it that exists."""
    path = path.absolute()
    while not os.path.exists(path):  # not Path.exists, which raises where it may not look
        path = path.parent
    return path


def torch_device() -> Check:
    """Import torch, name the device of a run, and compute something on it."""
    try:
        import torch

        from devmind.agent.device import pick_device

        device = pick_device()
        torch.ones(2, 2, device=device).sum().item()
    except (ImportError, OSError, RuntimeError, DevmindError) as error:
        return Check(
            "torch", False, f"does not work: {error}", f"{sys.executable} -m pip install --force-reinstall torch"
        )
    name = f" ({torch.cuda.get_device_name(device)})" if torch.cuda.is_available() else ""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return Check(
        "torch",
        True,
        f"{torch.__version__} on {device}{name}, {show.count_of(torch.get_num_threads(), 'thread')}, "
        f"{show.count_of(cores or 1, 'core')}",
    )


def microphone() -> Check:
    """Whether PortAudio can be loaded through PyAudio, and which sound inputs it lists."""
    found = here.microphones()
    if found.devices:
        names = [device.name for device in found.devices]
        return Check("microphone", None, f"{show.count_of(len(names), 'sound input')}: {some(names, 3)}")
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
