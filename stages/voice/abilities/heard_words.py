"""Words that the agent hears: the answers of its arc of words to each Moment, joined as they come.

The arc hears by the ear alone and does better in exams than the head of words on the trunk's features. A picture in
view disturbs that head as well, in agents whose ear does not run by itself (`Encoder.apart`; docs/decisions.md). The
head is asked where there is no arc. Both are read as in the exam, by connectionist temporal classification over whole
words: each frame is a word or nothing (the class without a name), and a continuing word counts once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from devmind.acting.abilities import Ability, Reply, Sentence, Surroundings, Tick
from devmind.acting.standing import has_passed
from devmind.agent.agent import Agent
from devmind.agent.batch import collate
from devmind.moment import TICK_HZ, Moment
from stages.voice.parts import KINDS_ARC, WORDS, WORDS_ARC
from stages.voice.sounds.kinds import SPEECH

EXAM = "hear_words/"
"""Prefix of the measures that say how well words are heard."""
PAUSE_S = 2.0
"""After so long without a word, the next one starts a new text."""
MOST = 12
"""Words that are shown at once."""
END_S = 0.8
"""A sentence ends after so long without a word."""
SURE = 0.5
"""Less probable words are not answered."""


LEAD_S, LONGEST_S = 1.2, 8.0
"""How long before its first word a sentence may have begun, with words that the agent does not know; and its longest
sound."""

LEAST = 0.05
"""A probability of speech from which words are believed: about the share of speech in the lessons of kinds, 0.06."""
SHORTEST, APART = 24, 2
"""Moments that are asked about at least, and those of silence between repetitions."""


class HeardWords:
    """The last words that one agent heard.

    Args:
        results: of its exams. Words of an agent that failed are not shown; those of an agent never examined are, and
            the page says so.

    Attributes:
        heads: the heads to ask at each tick; none where it hears no words.
        said: the sound of a sentence that has just ended: Moments in a row with sound alone, from a little before its
            first word; empty without one.
    """

    def __init__(self, agent: Agent, results: Mapping[str, Any] | None) -> None:
        self.passed = has_passed(results, EXAM)
        self.words = agent.labels_of(WORDS) if WORDS in agent.heads else []
        self._by = WORDS_ARC if WORDS_ARC in agent.heads else WORDS
        self.heads = (self._by,) if self.words and self.passed is not False else ()
        self._ear = agent.tap_of(WORDS).senses[0] if self.heads else None
        self._heard: list[tuple[str, float]] = []
        self._sentence: list[tuple[str, float]] = []
        self._before, self._at_s, self._began_s = "", float("-inf"), float("-inf")
        self._sounds: deque[Moment] = deque(maxlen=round(LONGEST_S * TICK_HZ))
        self.said: tuple[Moment, ...] = ()

    def see(self, tick: Tick) -> None:
        """Take a tick."""
        self._keep(tick.moment)
        output, ear = tick.output.outputs.get(self._by), tick.percepts.encoded.get(self._ear or "")
        if not self.heads or output is None or ear is None or not bool(ear.present.any()):
            self._before = ""
            return
        shares = output.numbers()[0].float().softmax(-1).reshape(-1, len(self.words)).cpu().numpy()
        for frame in shares:
            self._add(frame, tick.moment.time_s)

    def _keep(self, moment: Moment) -> None:
        """A Moment without sound, as while the agent speaks, separates the sound before it from the sound after it."""
        if "sound" in moment.senses:
            self._sounds.append(replace(moment, senses={"sound": moment.senses["sound"]}))
        else:
            self._sounds.clear()

    def _add(self, shares: np.ndarray, now_s: float) -> None:
        best = int(shares.argmax())
        word, sure = self.words[best], float(shares[best])
        if word:
            self._began_s = self._began_s if self._sentence else now_s
            goes_on = word == self._before
            shown = self._heard if goes_on or now_s - self._at_s <= PAUSE_S else []
            self._heard, self._sentence = (_with(words, word, sure, goes_on) for words in (shown, self._sentence))
        self._before = word
        self._at_s = now_s if word else self._at_s

    def sentence(self, now_s: float) -> str:
        """A sentence, once, when it has ended: the sure words since the last sentence; else ''.

        `said` then has its sound, whatever was sure.
        """
        self.said = ()
        if not self._sentence or now_s - self._at_s < END_S - 1e-6:
            return ""
        said, self._sentence = self._sentence, []
        self.said = tuple(one for one in self._sounds if one.time_s >= self._began_s - LEAD_S)
        self._sounds.clear()
        return " ".join(word for word, sure in said if sure >= SURE)

    def shown(self) -> dict[str, Any]:
        """For the page: `words`, each with the highest probability in any of its frames, and whether the agent was
        `examined` in hearing them; empty before the first.
        """
        if not self._heard:
            return {}
        words = [[word, round(sure, 3)] for word, sure in self._heard]
        return {"words": words, "examined": self.passed is not None}


def _with(words: list[tuple[str, float]], word: str, sure: float, goes_on: bool) -> list[tuple[str, float]]:
    """The last MOST of `words` and one more, which `goes_on` if it is still the last of them."""
    if goes_on and words:
        return [*words[:-1], (word, max(sure, words[-1][1]))]
    return [*words, (word, sure)][-MOST:]


def is_speech(agent: Agent, heard: Sequence[Moment]) -> bool:
    """Whether words may be believed in Moments of sound in a row, by the agent's arc of kinds; always without one.

    They are speech if that is not less likely than LEAST. The likeliest kind would be too strict: an agent that was
    taught by recordings of other sounds heard 0.23 instead of 0.70 of people's digits (docs/voice.md).
    """
    if KINDS_ARC not in agent.heads or not heard:
        return True
    with torch.inference_mode():
        shares = agent(collate([as_piece(heard)]), [KINDS_ARC])[KINDS_ARC].numbers()[0, -1].softmax(-1)
    return float(shares[SPEECH]) >= LEAST


def as_piece(heard: Sequence[Moment]) -> list[Moment]:
    """Moments of sound as an episode of their own; short ones are repeated, since in lessons a sound lasts longer."""
    sounds = [np.asarray(one.senses["sound"]) for one in heard]
    if len(sounds) < SHORTEST:
        sounds = (sounds + [np.zeros_like(sounds[0])] * APART) * (1 + SHORTEST // len(sounds))
    return [Moment(k / TICK_HZ, {"sound": sound}, first=k == 0) for k, sound in enumerate(sounds)]


class Hearing(Ability):
    """Hears sentences, shows their words, and leaves what is no speech unanswered.

    Attributes:
        ears: of the agent that lives now; None while nobody can see what it hears and no speech is answered.
    """

    order = -2
    kind = "what is no speech, left unanswered: a dog"

    def __init__(self, life: Surroundings) -> None:
        super().__init__(life)
        self.ears: HeardWords | None = None
        self._ended: Sentence | None = None

    def wants(self, agent: Agent) -> bool:
        return WORDS in agent.heads

    def begin(self) -> None:
        agent, self.ears, self.heads = self.life.agent, None, ()
        if self.life.is_attended and self.wants(agent):
            self.ears = HeardWords(agent, self.life.results)
            self.heads = self.ears.heads

    def see(self, tick: Tick) -> None:
        self._ended = None
        if self.ears is None:
            return
        self.ears.see(tick)
        text = self.ears.sentence(tick.moment.time_s)
        if text or self.ears.said:
            self._ended = Sentence(text, True, self.ears.said)

    def heard(self) -> Sentence | None:
        return self._ended

    def hear(self, sentence: Sentence) -> Reply | None:
        """An empty answer to words that were heard in what is no speech."""
        if is_speech(self.life.agent, sentence.sounds):
            return None
        return Reply("")

    def shown(self, tick: Tick) -> dict[str, Any]:
        if self.ears is None or not (words := self.ears.shown()):
            return {}
        return {"heard": words}
