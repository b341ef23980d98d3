"""The voice that speaks the agent's words: espeak-ng's, or the small synthesiser's few words."""

from __future__ import annotations

import numpy as np
import pytest

from devmind.errors import DevmindError
from devmind.testing import BrokenLawError, check_voice
from stages.voice.caregiver import espeak
from stages.voice.caregiver.aloud import say_aloud


def test_the_small_synthesiser_says_only_words_of_lessons(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(espeak, "espeak_installed", lambda: False)
    sound = say_aloud("Two red balls!")
    check_voice(say_aloud)
    assert 0.3 < sound.shape[1] / 16_000 < 3
    assert np.abs(sound).max() == pytest.approx(0.5)
    for text, lacking in (("a red zebra", "'zebra'"), ("…", "'…'")):
        with pytest.raises(DevmindError, match=rf"{lacking} is none; install it with: pip install"):
            say_aloud(text)


@pytest.mark.skipif(not espeak.espeak_installed(), reason="espeakng-loader is not installed (extra 'voice')")
def test_espeak_says_any_words() -> None:
    sound = say_aloud("Where is the cup?")
    check_voice(say_aloud, "It is there.")
    assert 0.4 < sound.shape[1] / 16_000 < 4
    assert np.abs(sound).max() == pytest.approx(0.5)


@pytest.mark.parametrize("sound", [np.zeros((1, 9), np.float32), np.ones(9, np.float32), np.ones((1, 9)), None])
def test_a_voice_without_sound_breaks_the_law(sound: np.ndarray) -> None:
    with pytest.raises(BrokenLawError, match="a voice gives sound"):
        check_voice(lambda text: sound)
