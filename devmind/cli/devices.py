"""Sensors by what a user writes: a name, or `name=source`."""

from __future__ import annotations

from inspect import signature
from typing import Any

from devmind import plugins
from devmind.errors import ConfigError

CAMERAS = {"browser": "browser_camera", "synthetic": "synthetic_camera"}
EARS = {"browser": "browser_microphone", "default": "microphone", "synthetic": "synthetic_microphone"}
VOICES = {"default": "speaker"}
NO_DEVICE = "none"


def argument(loaded: Any) -> str:
    """How its first argument is written: `=PATH`, in brackets when it may be left out."""
    for parameter in signature(loaded).parameters.values():
        text = f"={parameter.name.upper()}"
        return text if parameter.default is parameter.empty else f"[{text}]"
    return ""


def make_sensor(words: str) -> Any:
    """The sensor `name`, or `name=source`: what it reads is its first argument."""
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


def devices(camera_words: str, mic_words: str) -> dict[str, Any]:
    """The camera and the microphone of `--camera` and `--mic`, not opened yet; 'none' leaves one out."""
    made = (("camera", camera, camera_words), ("microphone", ear, mic_words))
    return {name: make(words) for name, make, words in made if words != NO_DEVICE}


def camera(words: str) -> Any:
    """The camera of `--camera`: a sensor by name, else what a webcam takes (an index, a file or an address)."""
    return _named(CAMERAS.get(words, words), "webcam")


def ear(words: str) -> Any:
    """The microphone of `--mic`: 'default', a sensor by name, else the name of a device."""
    return _named(EARS.get(words, words), "microphone")


def voice(words: str) -> Any:
    """The speaker of `--speaker`: 'default', a plugin by name, else the name of a device; None for 'none'."""
    return None if words == NO_DEVICE else _named(VOICES.get(words, words), "speaker")


def _named(words: str, usual: str) -> Any:
    """A sensor by name (a mistyped one with a source too: the nearest is told), else a source of `usual`."""
    name, has_source, _ = words.partition("=")
    is_sensor = name in plugins.available("sensors") or (has_source and name.isidentifier())
    return make_sensor(words if is_sensor else f"{usual}={words}")
