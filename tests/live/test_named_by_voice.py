"""A name is taught by voice without a fake ear: the agent's own ear and word arc hear it.

The lesson of the stage trains them briefly: six sentences in the voices of lessons. The life hears three sentences that
were left out, whose words are in other sentences, in voices that were left out.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
import torch

from devmind.agent.agent import Agent
from devmind.moment import TICK_SAMPLES
from devmind.testing import tiny_context
from stages.voice.abilities.heard_words import HeardWords
from stages.voice.caregiver.speech import NAMING, bank
from stages.voice.hear_words import listen
from stages.voice.moments import in_a_row
from stages.voice.utterances import alike
from tests.live.test_own_voice import Mouth
from tests.live.test_speech_handler import PASSED, Spoken, admitted_to_voice

NAMES = ("cup", "key", "ball")
SENTENCES = [
    (form.format(name), (at + nth) % 3 == 0) for at, form in enumerate(NAMING) for nth, name in enumerate(NAMES)
]
TAUGHT, UNSEEN = (tuple(text for text, left_out in SENTENCES if left_out == of) for of in (False, True))
BY = "devmind's formant synthesiser"
UTTERANCES, STEPS = 200, 900
"""Sentences of the lesson, and its steps."""
SAID, LEARNED = 6, 5
"""Number of sentences said in the life, and the least number of names learned from them."""


def taught(agent: Agent, folder: Path) -> None:
    """Ear and arc learn to hear the sentences of TAUGHT, by the learner and the loss of the lesson `listen`."""
    said = bank("named by voice", 0, UTTERANCES, TAUGHT, False, BY)
    shortest = said.take(np.argsort([len(wave) for wave in said.waves], kind="stable"))
    mels, rng = listen.mels_of(shortest.waves), np.random.default_rng(0)
    learner = listen.lesson(tiny_context(folder)).make_learner(agent, tiny_context(folder))
    learner.steps = STEPS
    learner.begin(0)
    for step in range(STEPS):
        rows, generator = alike(rng, UTTERANCES, 24), torch.Generator().manual_seed(step)
        mel, spans = listen.disguise([mels[row] for row in rows], generator, gently=True)
        guided = max(0.0, 1.0 - step / (listen.GUIDED * STEPS))
        texts = [shortest.texts[row] for row in rows]
        learner.update({"mel": mel, "spans": spans, "texts": texts, "guided": guided}, step)


def learned(home: Spoken, wave: np.ndarray) -> dict[str, int]:
    """The names that the life knows, with the number of examples, after this sentence was answered."""
    sound, _ = in_a_row([wave], before=6 * TICK_SAMPLES, after=8 * TICK_SAMPLES)
    answered = home.life.spoken_to.shown().get("number", 0)
    home.hear(sound.numpy())
    give_up_s = time.monotonic() + 20
    while home.life.spoken_to.shown().get("number", 0) == answered and time.monotonic() < give_up_s:
        home.live(1)
        time.sleep(0.01)
    return dict(home.life.child.names.known())


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_life_learns_names_from_new_sentences_and_new_voices(tmp_path: Path) -> None:
    agent = Agent.from_pretrained(admitted_to_voice(tmp_path))
    taught(agent, tmp_path)
    agent.eval().save_pretrained(tmp_path / "taught" / "01-voice")
    said = bank("named in a life", 0, SAID, UNSEEN, True, BY)
    assert not set(said.texts) & set(TAUGHT)
    right, known, heard = 0, dict[str, int](), list[tuple[str, str]]()
    with Spoken(tmp_path / "taught" / "01-voice", Mouth()) as home:
        home.hears_by(HeardWords(agent, PASSED))
        home.until(lambda: home.life.holding.square)
        still = home.camera._frame(3 * home._lived, 0.5)
        home.camera._frame = lambda number, at_s: still  # type: ignore[method-assign]
        for text, wave in zip(said.texts, said.waves, strict=True):
            name, before = text.split()[-1], known
            known = learned(home, wave)
            heard.append((text, home.life.spoken_to.shown().get("text", "")))
            right += known == {**before, name: before.get(name, 0) + 1}
    print(f"\n{right} of {SAID}: {heard}")
    assert right >= LEARNED
