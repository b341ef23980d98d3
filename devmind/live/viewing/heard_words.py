"""Words that the agent hears, for the page: what its arc of words answers to each Moment, put together as they come.

The arc hears by the ear alone, and does better in exams than the head of words on the trunk's features, which of agents
whose ear does not go by itself (`Encoder.apart`) is disturbed by a picture in view besides (docs/decisions.md); that
head is asked where there is no arc. Either is read as the exam reads it, by
connectionist temporal classification over whole words: each frame is a word or nothing (the class without a name), and
a word that goes on is one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from devmind.agent.agent import Agent
from devmind.agent.taps import sense_of
from devmind.bounds import damage
from devmind.errors import CheckpointError
from devmind.live.loop import Tick
from devmind.moment import TICK_HZ, Moment

ARC, HEAD, EXAM = "heard_words_arc", "heard_words", "hear_words/"
"""What answers; the head with the words as its labels, which are the arc's; how the names of its exam's measures begin.
"""
PAUSE_S = 2.0
"""After so long without a word the next one begins anew."""
MOST = 12
"""Words that are shown at once."""
END_S = 0.8
"""So long without a word, and a sentence is over."""
SURE = 0.5
"""A word that is less probable than this is none that is answered."""


LEAD_S, LONGEST_S = 1.2, 8.0
"""So long before its first word a sentence may have begun, by words that it does not know; and it is heard so long."""


def has_passed(results: Mapping[str, Any] | None, exam: str = EXAM) -> bool | None:
    """Whether an agent's `results.json` say that it passed all measures whose names begin with `exam`, by default that
    it hears words; None where it was never asked.

    Raises:
        CheckpointError: they are not what an exam writes.
    """
    with damage(CheckpointError, "The agent's results are not what an exam writes ({}); use a backup."):
        measures = [measure for skill in (results or {}).get("skills", ()) for measure in skill.get("measures", ())]
        told = [measure["passed"] for measure in measures if measure["name"].startswith(exam)]
    decided = [passed for passed in told if passed is not None]
    return all(decided) if decided else None


class HeardWords:
    """The last words that one agent heard.

    Args:
        results: of its exams. Words of one that failed are not shown; of one that was never examined they are, and the
            page says so.

    Attributes:
        results: of its exams.
        heads: what has to be asked at each tick; none where it hears no words.
        said: how a sentence that is just over sounded: Moments in a row with sound alone, from a little before its
            first word; empty where none is.
    """

    def __init__(self, agent: Agent, results: Mapping[str, Any] | None) -> None:
        self.passed, self.results = has_passed(results), results
        self.words = agent.labels_of(HEAD) if HEAD in agent.heads else []
        self._by = ARC if ARC in agent.heads else HEAD
        self.heads = (self._by,) if self.words and self.passed is not False else ()
        self._ear = sense_of(str(agent.tap_of(HEAD))) if self.heads else None
        self._heard: list[tuple[str, float]] = []
        self._sentence: list[tuple[str, float]] = []
        self._before, self._at_s, self._began_s = "", float("-inf"), float("-inf")
        self._sounds: deque[Moment] = deque(maxlen=round(LONGEST_S * TICK_HZ))
        self.said: tuple[Moment, ...] = ()

    def see(self, tick: Tick) -> None:
        """A tick has passed."""
        self._keep(tick.moment)
        output, ear = tick.output.outputs.get(self._by), tick.percepts.encoded.get(self._ear or "")
        if not self.heads or output is None or ear is None or not bool(ear.present.any()):
            self._before = ""
            return
        shares = output.numbers()[0].float().softmax(-1).reshape(-1, len(self.words)).cpu().numpy()
        for frame in shares:
            self._add(frame, tick.moment.time_s)

    def _keep(self, moment: Moment) -> None:
        """What was heard before a Moment without sound, as while it speaks itself, is no part of what comes behind."""
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
        """What was said, once, when it is over: the words since the last sentence that it was sure of; else ''.

        How it sounded is in `said` then, whatever it was sure of.
        """
        self.said = ()
        if not self._sentence or now_s - self._at_s < END_S - 1e-6:
            return ""
        said, self._sentence = self._sentence, []
        self.said = tuple(one for one in self._sounds if one.time_s >= self._began_s - LEAD_S)
        self._sounds.clear()
        return " ".join(word for word, sure in said if sure >= SURE)

    def shown(self) -> dict[str, Any]:
        """For the page: `words`, each with the highest probability that a frame of it had, and whether the agent was
        `examined` in hearing them; empty before the first.
        """
        if not self._heard:
            return {}
        words = [[word, round(sure, 3)] for word, sure in self._heard]
        return {"words": words, "examined": self.passed is not None}


def _with(words: list[tuple[str, float]], word: str, sure: float, goes_on: bool) -> list[tuple[str, float]]:
    """The last MOST of `words` and one more, which `goes_on` where it is the last of them still."""
    if goes_on and words:
        return [*words[:-1], (word, max(sure, words[-1][1]))]
    return [*words, (word, sure)][-MOST:]
