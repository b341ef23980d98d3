"""What tests of the voice share: the recogniser that judges spoken words, which takes seconds to fit."""

from __future__ import annotations

import pytest

from devmind.testing import tiny_context
from stages.voice.recogniser import Recogniser
from stages.voice.say.exam import the_judge


@pytest.fixture(scope="session")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Recogniser:
    """The judge of `say` and `speak_answer`, fitted on a fifth of the originals of a whole exam."""
    return the_judge(tiny_context(tmp_path_factory.mktemp("judge"), "exam.episodes_scale=0.2"))
