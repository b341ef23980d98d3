"""Augmented views: what they keep, what they change, and how far."""

from __future__ import annotations

import numpy as np

from devmind.memory.views import ASIDE_DB, LOUDNESS_DB, SHIFT, ZOOM, other_view
from devmind.moment import SOUND_RATE_HZ, Sense

TONE_HZ = 440.0
MANY = 50


def tone(samples: int = 1600) -> np.ndarray:
    """A tone equal in both ears, float32 [2, S]."""
    time_s = np.arange(samples) / SOUND_RATE_HZ
    return np.tile(0.2 * np.sin(2 * np.pi * TONE_HZ * time_s), (2, 1)).astype(np.float32)


def dot(side: int = 64) -> np.ndarray:
    """A bright square of 4 pixels in the middle of a dark picture."""
    picture = np.full((side, side, 3), 20, np.uint8)
    picture[side // 2 - 2 : side // 2 + 2, side // 2 - 2 : side // 2 + 2] = 220
    return picture


def test_views_keep_names_types_and_shapes_and_leave_other_senses_unchanged() -> None:
    senses: dict[str, Sense] = {"sight": dot(), "sound": tone(), "touch": np.zeros(3, np.float32), "words": "a ball"}
    seen = other_view(senses, np.random.default_rng(0))
    assert list(seen) == list(senses)
    assert seen["touch"] is senses["touch"]
    assert seen["words"] == "a ball"
    again = other_view(senses, np.random.default_rng(0))
    for name in ("sight", "sound"):
        was, now = np.asarray(senses[name]), np.asarray(seen[name])
        assert (now.dtype, now.shape) == (was.dtype, was.shape)
        assert not np.array_equal(now, was)
        np.testing.assert_array_equal(again[name], now)


def test_sight_shifts_as_far_as_declared_and_no_farther() -> None:
    rng, found = np.random.default_rng(1), []
    for _ in range(MANY):
        picture = np.asarray(other_view({"sight": dot()}, rng)["sight"])
        found.append(np.argwhere(picture[..., 0] > 100).mean(0) + 0.5 - 32)
    far = np.abs(found).max() / 64
    assert SHIFT / 2 < far <= (1 + ZOOM) * SHIFT + 1 / 64


def test_sound_varies_in_loudness_and_in_balance() -> None:
    rng, levels_db = np.random.default_rng(2), []
    for _ in range(MANY):
        sound = np.asarray(other_view({"sound": tone()}, rng)["sound"])
        loudest = np.abs(sound).max(1)
        levels_db.append(20 * np.log10(loudest / 0.2))
    levels = np.array(levels_db)
    aside = levels[:, 0] - levels[:, 1]
    assert aside.min() < -ASIDE_DB / 2
    assert aside.max() > ASIDE_DB / 2
    assert np.abs(aside).max() < ASIDE_DB + 0.5
    assert np.abs(levels).max() < LOUDNESS_DB + ASIDE_DB / 2 + 0.5


def test_a_shifted_tone_does_not_click() -> None:
    """Above three times the tone's frequency there is little but the added hiss."""
    rng = np.random.default_rng(3)
    for samples in (1600, 1609):  # the second ends a quarter into a cycle: rolling it without a fade would click
        for _ in range(MANY):
            sound = np.asarray(other_view({"sound": tone(samples)}, rng)["sound"])[0]
            power = np.abs(np.fft.rfft(sound * np.hanning(samples))) ** 2
            high = np.fft.rfftfreq(samples, 1 / SOUND_RATE_HZ) > 3 * TONE_HZ
            assert power[high].sum() / power.sum() < 1e-3


def test_views_accept_one_channel_and_short_sounds() -> None:
    rng = np.random.default_rng(4)
    for shape in ((1, 1600), (2, 1), (4, 7)):
        sound = np.asarray(other_view({"sound": np.full(shape, 0.1, np.float32)}, rng)["sound"])
        assert sound.shape == shape
        assert np.isfinite(sound).all()
        assert np.abs(sound).max() <= 1
