"""Sensors from a user's words, a name or `name=source`; opens them and says why one gives nothing."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from inspect import signature
from typing import Any

import typer

from devmind import plugins
from devmind.cli import show
from devmind.cli.house import complain
from devmind.errors import ConfigError, DevmindError, SensorError, without_library
from devmind.worker import Worker

LOOK_S = 0.1

CAMERAS = {"browser": "browser_camera", "synthetic": "synthetic_camera"}
EARS = {"browser": "browser_microphone", "default": "microphone", "synthetic": "synthetic_microphone"}
VOICES = {"default": "speaker"}
NO_DEVICE = "none"
WITHOUT = {"camera": "--camera none", "microphone": "--mic none"}
"""The option that leaves a device out."""
FIRST_S = 3.0
"""A device that was opened has so long to give something, or to say why not, when another one ends the command."""


def by_name(every: Iterable[str]) -> dict[str, str]:
    """The words for each sensor, by its name (a second one is `name-2`); a source may contain a password."""
    named: dict[str, str] = {}
    for words in every:
        name = words.partition("=")[0]
        named[f"{name}-{len(named) + 1}" if name in named else name] = words
    return named


def argument(loaded: Any) -> str:
    """The notation of its first argument: `=PATH`, in brackets if it is optional."""
    for parameter in signature(loaded).parameters.values():
        text = f"={parameter.name.upper()}"
        return text if parameter.default is parameter.empty else f"[{text}]"
    return ""


def make_sensor(words: str) -> Any:
    """The sensor `name`, or `name=source`, where the source is its first argument."""
    name, _, source = words.partition("=")
    make = plugins.load("sensors", name)
    try:
        return make(source) if source else make()
    except (TypeError, ValueError):
        has, example = (
            ("cannot be made of that source", f"{name}{argument(make)}")
            if source
            else ("needs a source", f"{name}=SOURCE")
        )
        raise ConfigError(f"The sensor '{name}' {has}; write {example}.") from None


@dataclass(frozen=True)
class Doors:
    """The sensors of a command, not opened yet.

    Attributes:
        sensors: by name; each has its own sense.
        details: the user's words, for a recording's metadata, which is written without credentials.
    """

    sensors: dict[str, Any]
    details: dict[str, str]


def doors(camera_words: str | None, mic_words: str | None, others: Sequence[str] = ()) -> Doors:
    """The sensors of `--camera`, `--mic` and `--sensor`; 'none' leaves one out.

    By default they are the first camera and the default microphone, unless another sensor has that sense.

    Raises:
        ConfigError: two have the same sense, one is no sensor, or there is none at all.
    """
    further = {name: make_sensor(words) for name, words in by_name(others).items()}
    taken = {getattr(sensor, "sense", None) for sensor in further.values()}
    camera_words = camera_words or (NO_DEVICE if "sight" in taken else "0")
    mic_words = mic_words or (NO_DEVICE if "sound" in taken else "default")
    made = (("camera", camera, camera_words), ("microphone", ear, mic_words))
    sensors = {name: make(words) for name, make, words in made if words != NO_DEVICE} | further
    senses: dict[str, str] = {}
    for name, sensor in sensors.items():
        if not hasattr(sensor, "sense"):
            raise ConfigError(f"'{name}' senses nothing, it acts; see 'devmind sensors'.")
        if sensor.sense in senses:
            both = f"'{senses[sensor.sense]}' and '{name}'"
            raise ConfigError(f"Each sense may have one sensor, and {both} both give {sensor.sense}; leave one out.")
        senses[sensor.sense] = name
    if "sight" in senses and "body" in senses:
        raise ConfigError(
            f"With a camera 'body' is where it looks, so '{senses['body']}' cannot give it too; leave one out "
            "(--camera none), or let the sensor have a sense of its own."
        )
    if not sensors:
        raise ConfigError("There is nothing to sense; give --camera, --mic or --sensor.")
    said = {"sensors": ", ".join(others)} if others else {}
    return Doors(sensors, {"camera": camera_words, "microphone": mic_words} | said)


@contextmanager
def open_sensors(sensors: Mapping[str, Any]) -> Iterator[None]:
    """Open all sensors; faults are printed as soon as they are known, and so is a recovery.

    Raises:
        SensorError: a fault that does not go away by waiting, such as a missing package.
    """
    with ExitStack() as stack:
        for name, sensor in sensors.items():
            try:
                open_in(stack, name, sensor)
            except SensorError as error:
                raise SensorError(_with_others(name, str(error), sensors)) from error
        stack.enter_context(Complaints(sensors))
        yield


def _with_others(name: str, fault: str, sensors: Mapping[str, Any]) -> str:
    """The fault of a sensor that ends the command, with those of the sensors before it and the option without it."""
    others = []
    for other, sensor in sensors.items():
        if other == name:
            break
        health, give_up_s = getattr(sensor, "health", None), time.monotonic() + FIRST_S
        while health and not (health.captures or health.fault) and time.monotonic() < give_up_s:
            time.sleep(LOOK_S)
        if health and health.fault and not health.captures:
            others.append(f"{other}: {health.fault}")
    without = WITHOUT.get(name) if len(sensors) > 1 else None
    said = [*others, f"{name}: {fault}" if others else fault]
    return " ".join([*said, f"Or leave it out: {without}."] if without else said)


def open_in(stack: ExitStack, name: str, sensor: Any) -> None:
    """Open a sensor or an effector until the stack's end.

    Raises:
        SensorError: it cannot be opened.
    """
    try:
        stack.enter_context(sensor)
    except DevmindError:
        raise
    except Exception as error:  # it may be somebody else's
        if sentence := without_library(error):
            raise SensorError(sentence) from error
        raise SensorError(f"The sensor '{name}' cannot be opened: {type(error).__name__}: {error}.") from error


class Complaints(Worker[None]):
    """Prints why a sensor gives nothing, each reason once, during its `with` block.

    It prints on stdout, because opening a microphone silences stderr for the whole process.
    """

    def __init__(self, sensors: Mapping[str, Any]) -> None:
        self.healths = {name: sensor.health for name, sensor in sensors.items() if hasattr(sensor, "health")}
        self.reported: dict[str, str] = {}
        self._captures: dict[str, int] = {}
        super().__init__("complaints", idle_s=LOOK_S)

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self.idle()

    def idle(self) -> None:
        """Print what is new since the last look. A fault with new captures is only a loss and is not printed."""
        for name, health in self.healths.items():
            came = health.captures != self._captures.get(name, 0)
            self._captures[name] = health.captures
            fault, reported = health.fault, self.reported.get(name, "")
            if came and reported:
                show.line(f"{name}: it gives something again", "green")
                self.reported[name] = ""
            elif fault and fault != reported and not came:
                show.line(f"{name}: {fault}", "yellow")
                self.reported[name] = fault


def check_sensed(room: Any) -> None:
    """Exit with code 1 if this machine's sensors gave nothing in a whole life."""
    if not was_sensed(room):
        complain("Nothing was ever sensed; 'devmind sensors' shows what there is here.")
        raise typer.Exit(1)


def was_sensed(room: Any) -> bool:
    """Whether any sensor ever gave something.

    The page's sensors do not count, because nobody may have opened the page.
    """
    from_page = any(hasattr(sensor, "accept") for sensor in room.sensors.values())
    return from_page or any(room.health.missing.get(sense, 0) < room.health.ticks for sense in room.sensors)


def camera(words: str) -> Any:
    """The camera of `--camera`: a sensor by name, else the source of a webcam (an index, a file or an address)."""
    return _named(CAMERAS.get(words, words), "webcam")


def ear(words: str) -> Any:
    """The microphone of `--mic`: 'default', a sensor by name, else the name of a device."""
    return _named(EARS.get(words, words), "microphone")


def voice(words: str) -> Any:
    """The speaker of the key `speaker`: 'default', a plugin by name, else the name of a device; None for 'none'."""
    return None if words == NO_DEVICE else _named(VOICES.get(words, words), "speaker")


def _named(words: str, usual: str) -> Any:
    """A sensor by name, else a source of `usual`; for a mistyped name with a source, the error names the nearest."""
    name, has_source, _ = words.partition("=")
    is_sensor = name in plugins.available("sensors") or (has_source and name.isidentifier())
    return make_sensor(words if is_sensor else f"{usual}={words}")
