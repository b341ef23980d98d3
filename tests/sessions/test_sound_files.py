"""Sound files of others: samples that are no numbers are refused, never read as something else."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
import soundfile

from devmind.errors import ExamError, SessionError
from devmind.moment import TICK_SAMPLES
from devmind.sessions.media import media_moments
from devmind.sessions.sounds import file_ticks, mono_wave


def float_wav(path: Path, bad: float, rate_hz: int, at: int) -> Path:
    """One second of a tone as float32 with one sample that is `bad`."""
    wave = 0.3 * np.sin(np.arange(rate_hz, dtype=np.float32))
    wave[at] = bad
    soundfile.write(path, wave, rate_hz, subtype="FLOAT")
    return path


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("rate_hz", [16_000, 44_100])
def test_a_file_with_samples_that_are_no_numbers_is_refused(tmp_path: Path, bad: float, rate_hz: int) -> None:
    path = float_wav(tmp_path / "a.wav", bad, rate_hz, at=rate_hz // 2)
    with pytest.raises(SessionError, match="NaN or infinite"):
        list(file_ticks(path, TICK_SAMPLES, print))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_labelled_recording_with_invalid_samples_is_refused_by_name(tmp_path: Path, bad: float) -> None:
    path = float_wav(tmp_path / "7_ann_0.wav", bad, 8_000, at=0)
    with pytest.raises(ExamError, match=r"7_ann_0\.wav has samples that are no numbers"):
        mono_wave(path)
    whole = float_wav(tmp_path / "whole.wav", 0.0, 8_000, at=0)
    assert mono_wave(whole).shape == (16_000,)
    assert np.isfinite(mono_wave(whole)).all()


def wav(path: Path, sizes: tuple[int, int], seconds: float = 1.0, bits: int = 16) -> Path:
    """A WAV of noise at 16 kHz whose header gives these sizes of the file and of its data."""
    data = np.random.default_rng(0).integers(-9000, 9000, round(16_000 * seconds), np.int16)
    block = -(-bits // 8)
    coded = data.tobytes() if bits == 16 else bytes(block * len(data))
    form = struct.pack("<HHIIHH", 1, 1, 16_000, 16_000 * block, block, bits)
    head = struct.pack("<4sI4s4sI", b"RIFF", sizes[0], b"WAVE", b"fmt ", 16) + form
    path.write_bytes(head + struct.pack("<4sI", b"data", sizes[1]) + coded)
    return path


PIPES = {"espeak-ng": (0x7FFFF024, 0x7FFFF000), "arecord": (0x80000024, 0x80000000), "ffmpeg": (0xFFFFFFFF, 0xFFFFFFFF)}


@pytest.mark.parametrize("program", PIPES)
def test_a_wav_of_a_pipe_is_read_whole_without_a_note(tmp_path: Path, program: str) -> None:
    notes: list[str] = []
    ticks = list(file_ticks(wav(tmp_path / "a.wav", PIPES[program]), TICK_SAMPLES, notes.append))
    assert len(ticks) == 10
    assert not notes


@pytest.mark.parametrize("sizes", [(0, 0), (36, 0)])
def test_a_wav_of_a_killed_recorder_is_read_to_its_end_with_a_note(tmp_path: Path, sizes: tuple[int, int]) -> None:
    whole = wav(tmp_path / "whole.wav", (36 + 32_000, 32_000))
    notes: list[str] = []
    killed = wav(tmp_path / "a.wav", sizes)
    ticks = list(file_ticks(killed, TICK_SAMPLES, notes.append))
    wanted = list(file_ticks(whole, TICK_SAMPLES, print))
    assert [tick for tick, _ in ticks] == list(range(10))
    assert all(np.array_equal(got, want) for (_, got), (_, want) in zip(ticks, wanted, strict=True))
    (note,) = notes
    assert "read to its end" in note
    assert np.array_equal(mono_wave(killed), mono_wave(whole)), "also among labelled recordings"


def test_an_empty_wav_stays_empty(tmp_path: Path) -> None:
    """Its sizes are right; what follows the data is another part of the file."""
    empty = wav(tmp_path / "a.wav", (0, 0), seconds=0)
    data = bytearray(empty.read_bytes()) + b"LIST" + struct.pack("<I", 4000) + bytes(4000)
    data[4:8] = struct.pack("<I", len(data) - 8)
    empty.write_bytes(data)
    notes: list[str] = []
    assert list(file_ticks(empty, TICK_SAMPLES, notes.append)) == []
    assert not notes


@pytest.mark.parametrize("bits", [36, 45, 53])
def test_a_wav_of_odd_bits_is_refused_with_a_sentence(tmp_path: Path, bits: int) -> None:
    path = wav(tmp_path / "a.wav", (36 + 96_000, 96_000), bits=bits)
    with pytest.raises(SessionError, match=r"codec is unknown.*Convert it to .*WAV"):
        list(media_moments(path))
