"""`devmind sensors`: the sensors and effectors of this machine, and whether they work."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from devmind import plugins
from devmind.cli import show
from devmind.cli.devices import Complaints, argument, by_name, make_sensor, open_in
from devmind.cli.here import Found, cameras, microphones
from devmind.cli.house import complain
from devmind.cli.paths import writable_file
from devmind.errors import ConfigError, DevmindError, PluginError

if TYPE_CHECKING:
    from devmind.worlds.probe import Probed

PICTURE_ENDINGS = (".png", ".jpg")


def sensors(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME[=SOURCE]", help="Sensors to watch, each with the device, file or address it reads."
        ),
    ] = None,
    seconds: Annotated[float, typer.Option("--seconds", min=0.5, max=3600, metavar="N", help="How long.")] = 5.0,
    save: Annotated[
        Path | None, typer.Option("--save", metavar="FILE", help="Write the last picture there (.png or .jpg).")
    ] = None,
) -> None:
    """Show this machine's cameras, microphones and installed sensors; or watch some of them.

    Without names, each sensor is listed with what it gives or takes. Of those named (as in 'devmind sensors webcam
    microphone') it prints rate, jitter, losses, level and skew. Nothing that they see and hear is stored, except by
    --save. Exit code 1: one of them gave nothing.
    """
    if names:
        _watch(names, seconds, save)
    _list()


def _list() -> None:
    for what, find in (("camera", cameras), ("microphone", microphones)):
        _here(what, find())
    show.line()
    rows = []
    for plugin in plugins.available("sensors").values():
        try:
            loaded = plugin.load()
            what = f"takes {loaded.effector}" if hasattr(loaded, "effector") else f"gives {_sense(loaded)}"
            named = plugin.name + argument(loaded)
        except PluginError as error:
            complain(str(error))
            named, what = plugin.name, "broken"
        rows.append((named, what, f"{plugin.distribution} {plugin.version}"))
    show.table(("sensor", "gives or takes", "from"), rows)


def _watch(names: Sequence[str], seconds: float, save: Path | None) -> NoReturn:
    """Print what the named sensors give in so many seconds; one that gives nothing makes the exit code 1."""
    if save and save.suffix not in PICTURE_ENDINGS:
        raise ConfigError(f"--save writes {' or '.join(PICTURE_ENDINGS)}; got '{save}'.")
    writable_file(save, "--save")
    from devmind.worlds.probe import probe

    failed = False
    with ExitStack() as room:
        opened: dict[str, Any] = {}
        for name, words in by_name(names).items():
            try:
                opened[name] = make_sensor(words)
                open_in(room, name, opened[name])
            except DevmindError as error:
                complain(f"{name}: {error}")
                opened.pop(name, None)
                failed = True
        senses = {name: sensor for name, sensor in opened.items() if hasattr(sensor, "sense")}
        for name, sensor in opened.items():
            failed |= name not in senses and not _heard_from(name, sensor, seconds)
        with Complaints(senses) as complaints:
            found = probe(senses, seconds) if senses else {}
        failed |= _print_probed(found, senses, complaints.reported)
    if save:
        _save(save, list(found.values()))
    raise typer.Exit(1 if failed else 0)


def _here(what: str, found: Found) -> None:
    """Print one line for each device with what to type, or why there is none."""
    option = {"camera": "--camera", "microphone": "--mic"}[what]
    for device in found.devices:
        show.line(f"{what}: {device.name}  {option} {shlex.quote(device.source)}")
    if not found.devices:
        show.line(f"{what}: {found.why}")


def _sense(loaded: Any) -> str:
    """The sense of a class; if the sense is a setting, there is none yet."""
    return str(getattr(loaded, "sense", "body or another"))


def _heard_from(name: str, effector: Any, seconds: float) -> bool:
    """Play a tone by a sound effector, and print whether its device accepted it."""
    import time

    import numpy as np

    rate_hz = effector.rate_hz
    effector.act((0.2 * np.sin(2 * np.pi * 440 * np.arange(rate_hz // 2) / rate_hz)).astype(np.float32)[None])
    until = time.monotonic() + seconds + 2
    while effector.pending_s and time.monotonic() < until:
        time.sleep(0.05)
    took = not effector.pending_s and not effector.drops
    show.line(f"{name}: played a tone of half a second" if took else f"{name}: {effector.health.fault or 'no sound'}")
    return took


def _print_probed(found: dict[str, Probed], senses: dict[str, Any], complaints_by_name: Mapping[str, str]) -> bool:
    """Print the results; True if a sensor gave nothing."""
    from devmind.worlds.probe import skew_s

    if found:
        columns = ("sensor", "sense", "rate", "jitter", "drops", "lost", "gives")
        show.table(columns, [_row(one) for one in found.values()], wrapping=("sensor",))
    for one in found.values():
        if one.fault and one.fault != complaints_by_name.get(one.name):
            complain(f"{one.name}: {one.fault}")
    cameras = [one for one in found.values() if one.sense == "sight" and one.times]
    ears = [one for one in found.values() if one.sense == "sound" and one.windows]
    for camera, ear in ((camera, ear) for camera in cameras for ear in ears):
        skew = skew_s(camera, ear, senses[ear.name].rate_hz)
        said = f"{skew[0] * 1e3:+.0f} ms, median of {show.count_of(skew[1], 'event')}" if skew else "clap once in view"
        show.line(f"{ear.name} after {camera.name}: {said}")
    return any(not one.works for one in found.values())


def _row(one: Probed) -> tuple[str, ...]:
    about = ""
    if one.frame is not None:
        about = f"{'x'.join(map(str, one.frame.shape))} {one.frame.dtype}"
    elif one.windows:
        drift = f", clock {one.drift_ppm:+.0f} ppm" if one.drift_ppm == one.drift_ppm else ""
        about = f"{one.level_dbfs:.0f} dB{drift}"
    rate = f"{one.capture_hz:.1f}/s" if one.times else ("16 kHz" if one.windows and one.sense == "sound" else "-")
    jitter = f"{one.jitter_s * 1e3:.1f} ms" if len(one.times) > 2 else "-"
    missing = f"{one.missing:.0%}" if one.asked else "-"
    return one.name, one.sense, rate, jitter, f"{one.drops:,}", missing, about or "nothing came"


def _save(path: Path, found: list[Probed]) -> None:
    import cv2

    pictures = [one.frame for one in found if one.frame is not None and one.sense == "sight"]
    if not pictures:
        complain("--save: there was no picture to write.")
    elif cv2.imwrite(str(path), cv2.cvtColor(pictures[0], cv2.COLOR_RGB2BGR)):
        show.path("picture", path)
    else:
        raise ConfigError(f"--save: '{path}' cannot be written; choose another place.")
