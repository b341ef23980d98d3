"""Sound files of others: samples that are no numbers are refused, never read as something else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

from devmind.errors import ExamError, SessionError
from devmind.moment import TICK_SAMPLES
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
