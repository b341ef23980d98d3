"""An agent listens to a sound file Moment by Moment, as in a life, and reports what it hears as it comes."""

from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

from devmind.acting import Actor
from devmind.acting.standing import Standing
from devmind.agent.agent import Agent
from devmind.agent.batch import collate_tick
from devmind.errors import ConfigError, nearest
from devmind.moment import TICK_HZ, TICK_SAMPLES, Moment
from stages.voice.abilities.heard_words import END_S, LEAD_S, is_speech
from stages.voice.codec import TOKENS, levels_of
from stages.voice.echo.lesson import decode
from stages.voice.echo.tokens.model import MOST
from stages.voice.echo.tokens.writing import written_on
from stages.voice.parts import CODEC, KINDS_ARC, NEXT_CODE, SOUND, UTTER, WORDS_ARC
from stages.voice.sounds.kinds import KINDS
from stages.voice.transcript import BLANK, KNOWN, join_frames
from stages.voice.vocoder import sound_of

AFTER = 2
"""Moments of silence behind a file, in which the last word is finished."""
PAUSE, LEAD = round(END_S * TICK_HZ), round(LEAD_S * TICK_HZ)
"""Moments without a word that end a sentence, and those before its first word, as in a life (`devmind.live`)."""
LONGEST_ON = 100
"""Moments by which a sound is continued, at most: 10 s of the 12.8 s that a page of codes holds."""


class Hearing:
    """An agent that hears a recording once, by its arcs, as a life hears: the words of what is speech, sentence by
    sentence, and at the end the kind of the sound.
    """

    def __init__(self, agent: Agent, moments: list[np.ndarray]) -> None:
        _check(agent, WORDS_ARC)
        self.agent, self._moments = agent, moments
        self._sounds_like: torch.Tensor | None = None

    def words(self) -> Iterator[tuple[float, str]]:
        """(seconds, words) for each Moment in which new words were heard, when their sentence has ended.

        A sentence that is no speech (`is_speech`, as in a life) is left out.
        """
        sentence: list[tuple[int, str]] = []
        for number, words in self._every_word():
            if sentence and number - sentence[-1][0] >= PAUSE:
                yield from self._if_speech(sentence)
                sentence = []
            sentence.append((number, words))
        yield from self._if_speech(sentence)

    def _if_speech(self, sentence: list[tuple[int, str]]) -> Iterator[tuple[float, str]]:
        if not sentence:
            return
        first, last = max(0, sentence[0][0] - LEAD), sentence[-1][0] + PAUSE
        heard = [Moment(k / TICK_HZ, {SOUND: sound[None]}) for k, sound in enumerate(self._moments[first:last])]
        if is_speech(self.agent, heard):
            yield from (((number + 1) / TICK_HZ, words) for number, words in sentence)

    def _every_word(self) -> Iterator[tuple[int, str]]:
        """(number of the Moment, words)."""
        heads = tuple(name for name in (WORDS_ARC, KINDS_ARC) if name in self.agent.heads)
        before = BLANK
        for number, output in enumerate(_live(self.agent, self._moments, heads=heads)):
            if KINDS_ARC in heads and number < len(self._moments):
                self._sounds_like = output.outputs[KINDS_ARC].numbers()[0].cpu()
            frames = output.outputs[WORDS_ARC].mode()[0].cpu().numpy()
            words, before = join_frames(frames, before), int(frames[-1])
            if words:
                yield number, " ".join(KNOWN[word] for word in words)

    def kind(self) -> tuple[str, float] | None:
        """The kind of all that was heard so far, with its probability; None before anything was heard, and for an agent
        that was not taught kinds.
        """
        if self._sounds_like is None:
            return None
        sure = self._sounds_like.softmax(-1)
        return KINDS[int(sure.argmax())], float(sure.max())


def repeat(agent: Agent, moments: list[np.ndarray], further: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The codes that the agent utters at each Moment, continued by its trunk for `further` Moments that nobody spoke
    (LONGEST_ON at most): codes int64 [T, 4, 2], and their sound, float32 [1600 T].
    """
    _check(agent, CODEC)
    codes = torch.stack([output.action[UTTER][0] for output in _live(agent, moments, standing={UTTER: (CODEC,)})])
    with torch.inference_mode():
        if further:
            codes = torch.cat((codes, _gone_on(agent, codes, further).to(codes.device)))
        mel = decode(agent, levels_of(codes)[None]).flatten(1, 2).cpu()
    return codes.cpu().numpy(), sound_of(mel)[0, : len(codes) * TICK_SAMPLES].numpy()


def _gone_on(agent: Agent, codes: torch.Tensor, further: int) -> torch.Tensor:
    """Codes int64 [F, 4, 2] that continue those of Moments [T, 4, 2], predicted from as many of the last as fit on a
    page.
    """
    _check(agent, NEXT_CODE)
    page = codes.flatten(0, 1)[-(MOST - TOKENS * further) :]
    return written_on(agent, page[None], TOKENS * further)[0].unflatten(0, (further, TOKENS))


def _live(
    agent: Agent, moments: list[np.ndarray], heads: tuple[str, ...] = (), standing: Standing = MappingProxyType({})
) -> Iterator[Any]:
    quiet = [np.zeros(TICK_SAMPLES, np.float32)] * (AFTER if heads else 0)
    actor = Actor(agent, 1, effectors=tuple(standing), heads=heads, trunk=False, standing=standing)
    for number, sound in enumerate([*moments, *quiet]):
        yield actor.act(collate_tick({SOUND: sound[None, None]}, np.array([number == 0])))


def _check(agent: Agent, head: str) -> None:
    if head not in agent.heads:
        raise ConfigError(
            f"This agent has no head '{head}'{nearest(head, agent.heads)} Raise it first: devmind stage run voice."
        )
