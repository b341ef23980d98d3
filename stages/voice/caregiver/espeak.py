"""espeak-ng in a process of its own: utterances come in as JSON, speech goes out as 16-bit samples.

The library keeps state from one utterance to the next (the phase of its flutter, its noise), so the sound of an
utterance depends on those before it. A list of utterances in a new process always sounds the same. The process also
keeps a library under the GPL-3.0, and its crashes, out of the agent's process.

    python -m stages.voice.caregiver.espeak < utterances.json > speech

Each utterance is a list [text, voice, words a minute, pitch 0..99]. The output has the rate first (int64, Hz), and then
for each utterance the number of samples (int64) and the samples, mono int16.
"""

from __future__ import annotations

import ctypes
import json
import struct
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from devmind.bounds import parse_json
from devmind.errors import DevmindError

Utterance = tuple[str, str, int, int]
"""Text, espeak-ng's voice ("en-us+m3"), words a minute, pitch 0 to 99."""
_SYNCHRONOUS, _ENDS_ITSELF = 2, 0x8000  # AUDIO_OUTPUT_SYNCHRONOUS, espeakINITIALIZE_DONT_EXIT
_RATE, _PITCH, _UTF8 = 1, 3, 1
LIMIT_S = 600.0
"""Within which a list must be spoken; 2,000 words take some six seconds."""


def espeak_installed() -> bool:
    """Whether the package that brings the library (the extra `voice`) is installed."""
    return find_spec("espeakng_loader") is not None


def speak(utterances: Sequence[Utterance]) -> tuple[int, list[np.ndarray]]:
    """The rate in Hz, and each utterance as int16 [S]: a function of the whole list.

    Raises:
        DevmindError: the library could not be run.
    """
    command = [sys.executable, "-m", "stages.voice.caregiver.espeak"]
    request = json.dumps(list(utterances)).encode()
    done = subprocess.run(command, input=request, capture_output=True, timeout=LIMIT_S, check=False)
    if done.returncode or len(done.stdout) < 8:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        raise DevmindError(
            f"espeak-ng ended with {done.returncode} ({lines[-1] if lines else 'no word'}); install the extra 'voice' "
            "anew, or remove espeakng-loader: devmind's own small synthesiser speaks then."
        )
    rate_hz, at, waves = struct.unpack_from("<q", done.stdout)[0], 8, []
    for _ in utterances:
        (n,) = struct.unpack_from("<q", done.stdout, at)
        waves.append(np.frombuffer(done.stdout, "<i2", n, at + 8))
        at += 8 + 2 * n
    return rate_hz, waves


class _Library:
    """The C library: one voice at a time."""

    def __init__(self) -> None:
        import espeakng_loader

        self.library = ctypes.CDLL(str(espeakng_loader.get_library_path()))
        self.said: list[bytes] = []
        self.rate_hz = self.library.espeak_Initialize(
            _SYNCHRONOUS, 0, str(espeakng_loader.get_data_path()).encode(), _ENDS_ITSELF
        )
        if self.rate_hz <= 0:
            raise RuntimeError(f"espeak_Initialize gave {self.rate_hz}")
        hears = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p)
        self.callback = hears(self._hear)  # kept, because C calls it as long as the library lives
        self.library.espeak_SetSynthCallback(self.callback)
        self.library.espeak_Synth.argtypes = [
            ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint, ctypes.c_int, ctypes.c_uint, ctypes.c_uint,
            ctypes.c_void_p, ctypes.c_void_p,
        ]  # fmt: skip

    def _hear(self, samples: Any, n: int, events: Any) -> int:
        if samples and n > 0:
            self.said.append(ctypes.string_at(samples, 2 * n))
        return 0

    def say(self, text: str, voice: str, words_per_minute: int, pitch: int) -> bytes:
        self.said.clear()
        if self.library.espeak_SetVoiceByName(voice.encode()):
            raise RuntimeError(f"there is no voice '{voice}'")
        self.library.espeak_SetParameter(_RATE, words_per_minute, 0)
        self.library.espeak_SetParameter(_PITCH, pitch, 0)
        data = text.encode() + b"\0"
        self.library.espeak_Synth(data, len(data), 0, 1, 0, _UTF8, None, None)
        self.library.espeak_Synchronize()
        return b"".join(self.said)


def main() -> None:
    """Speak what stands on the standard input."""
    library, out = _Library(), sys.stdout.buffer
    out.write(struct.pack("<q", library.rate_hz))
    for utterance in parse_json(sys.stdin.read(), DevmindError, "What to speak is a list in JSON ({})."):
        samples = library.say(*utterance)
        out.write(struct.pack("<q", len(samples) // 2) + samples)


if __name__ == "__main__":
    main()
