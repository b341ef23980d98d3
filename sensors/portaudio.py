"""Opens a sound device for microphone and speaker through PyAudio (PortAudio), imported on first use."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from devmind.errors import SensorError

_ONE_AT_A_TIME = threading.Lock()
"""PortAudio's initialising and terminating are not thread-safe."""


def require_pyaudio() -> None:
    """Raise SensorError unless PyAudio can be imported."""
    try:
        import pyaudio  # noqa: F401
    except ImportError as error:
        raise SensorError(
            "Live sound needs PyAudio: apt install portaudio19-dev (or brew install portaudio), then "
            f"pip install 'devmind[live]' ({error})."
        ) from None


@dataclass
class SoundStream:
    """An open stream of 16-bit samples. latency_s: PortAudio's delay between the air and the callback."""

    audio: Any
    stream: Any
    rate_hz: int
    channels: int
    latency_s: float

    def close(self) -> None:
        """Stop and close; PortAudio looks for devices anew at the next opening."""
        with _ONE_AT_A_TIME:
            try:
                self.stream.close()
            finally:
                self.audio.terminate()


def open_stream(
    device: str, rate_hz: int, channels: int, block_s: float, callback: Callable[..., Any], output: bool = False
) -> SoundStream:
    """Open a device by name and call `callback` every `block_s` seconds.

    Args:
        device: `default`, or a part of its name.
        rate_hz: wanted; if the device lacks it, its own default rate is used.
        channels: wanted; at most what the device has.

    Raises:
        OSError: there is no such device, or it cannot be opened.
    """
    import pyaudio

    with _ONE_AT_A_TIME, _quiet():
        audio = pyaudio.PyAudio()
        try:
            about = _find(audio, device, output)
            way = "output" if output else "input"
            channels = max(1, min(channels, int(about[f"max{way.title()}Channels"])))
            if not _supported(audio, about, rate_hz, channels, way):
                rate_hz = int(about["defaultSampleRate"])
            stream = audio.open(
                rate_hz,
                channels,
                pyaudio.paInt16,
                **{way: True, f"{way}_device_index": int(about["index"])},
                frames_per_buffer=round(block_s * rate_hz),
                stream_callback=callback,
            )
            latency_s = stream.get_output_latency() if output else stream.get_input_latency()
            return SoundStream(audio, stream, rate_hz, channels, float(latency_s))
        except BaseException:
            audio.terminate()
            raise


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence stderr: ALSA and JACK write some hundred lines about devices that they do not find.

    Failures are raised, so none is lost; other threads are silent too meanwhile, some tenths of a second.
    """
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _find(audio: Any, device: str, output: bool) -> dict[str, Any]:
    way = "Output" if output else "Input"
    if device == "default":
        return audio.get_default_output_device_info() if output else audio.get_default_input_device_info()
    every = [audio.get_device_info_by_index(k) for k in range(audio.get_device_count())]
    fitting = [one for one in every if one[f"max{way}Channels"] > 0]
    for one in fitting:
        if device.lower() in str(one["name"]).lower():
            return one
    names = ", ".join(f"'{one['name']}'" for one in fitting) or "none"
    raise OSError(f"There is no sound {way.lower()} named '{device}'; there are: {names}.")


def _supported(audio: Any, about: dict[str, Any], rate_hz: int, channels: int, way: str) -> bool:
    import pyaudio

    words = {f"{way}_device": int(about["index"]), f"{way}_channels": channels, f"{way}_format": pyaudio.paInt16}
    try:
        return bool(audio.is_format_supported(rate_hz, **words))
    except ValueError:
        return False
