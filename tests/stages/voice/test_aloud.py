"""The voice of what the agent says in words: espeak-ng's, or the small synthesiser's few words."""

from __future__ import annotations

import numpy as np
import pytest

from devmind.errors import DevmindError
from stages.voice.caregiver import espeak
from stages.voice.caregiver.aloud import spoken


def test_the_small_synthesiser_says_words_of_lessons_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(espeak, "installed", lambda: False)
    sound = spoken("Two red balls!")
    assert (sound.dtype, sound.shape[0]) == (np.float32, 1)
    assert 0.3 < sound.shape[1] / 16_000 < 3
    assert np.abs(sound).max() == pytest.approx(0.5)
    for text, lacking in (("a red cup", "'a'"), ("…", "'…'")):
        with pytest.raises(DevmindError, match=rf"{lacking} is none; install it with: pip install"):
            spoken(text)


@pytest.mark.skipif(not espeak.installed(), reason="espeakng-loader is not installed (extra 'voice')")
def test_espeak_says_any_words() -> None:
    sound = spoken("Where is the cup?")
    assert (sound.dtype, sound.shape[0]) == (np.float32, 1)
    assert 0.4 < sound.shape[1] / 16_000 < 4
    assert np.abs(sound).max() == pytest.approx(0.5)
