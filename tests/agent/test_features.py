"""Sound features against librosa, and the direction of interaural lags."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from devmind.agent.features import interaural_lags, level_difference, mel_power


@pytest.fixture(scope="module")
def sound() -> np.ndarray:
    """One second of two tones and fading noise, float32 [2, 16000]."""
    rng = np.random.default_rng(0)
    t_s = np.arange(16_000) / 16_000
    tones = 0.3 * np.sin(2 * np.pi * 440 * t_s) + 0.2 * np.sin(2 * np.pi * 3100 * t_s)
    noise = rng.normal(0, 0.1, (2, 16_000))
    return ((tones + noise) * np.linspace(1, 0.01, 16_000)).astype(np.float32)


@pytest.mark.parametrize(("n_fft", "hop", "n_mels"), [(400, 160, 80), (512, 200, 64), (2048, 512, 128)])
def test_power_mel_equals_librosa(sound: np.ndarray, n_fft: int, hop: int, n_mels: int) -> None:
    import librosa

    reference = librosa.feature.melspectrogram(
        y=sound, sr=16_000, n_fft=n_fft, hop_length=hop, n_mels=n_mels, pad_mode="constant"
    )
    ours = mel_power(torch.from_numpy(sound), n_fft, hop, n_mels).numpy()
    np.testing.assert_allclose(ours.swapaxes(-1, -2), reference, atol=1e-4, rtol=1e-6)


@pytest.mark.parametrize("delay", [-9, 0, 5])
def test_lags_peak_at_the_delay_of_the_right_ear(delay: int) -> None:
    source = torch.randn(440, generator=torch.Generator().manual_seed(1))
    left, right = source[20:420], source[20 - delay : 420 - delay]
    lags = interaural_lags(left, right, max_lag=12)
    assert lags.shape == (25,)
    assert int(lags.argmax()) - 12 == delay
    assert lags.max() == pytest.approx(1.0, abs=0.05)


def test_level_difference_is_positive_when_louder_left() -> None:
    sound = torch.randn(400, generator=torch.Generator().manual_seed(1))
    assert level_difference(sound, 0.1 * sound) == pytest.approx(2.0, abs=1e-3)
    assert level_difference(torch.zeros(400), torch.zeros(400)) == 0.0
