"""Part of the exam of `echo`: codes predicted from those before them, and a sound continued code after code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from devmind.agent.agent import Agent
from devmind.curriculum.exam import Measure, Parts, in_parts
from devmind.curriculum.stage import Context
from stages.voice.caregiver.speech import NEW_WORDS
from stages.voice.codec import TOKENS, levels_of
from stages.voice.ear import FRAMES
from stages.voice.echo.go_on.head import AHEAD
from stages.voice.echo.lesson import decode
from stages.voice.echo.tokens.lesson import nats
from stages.voice.echo.tokens.model import one_hot
from stages.voice.echo.tokens.writing import written_on
from stages.voice.hear_words.exam import UNTAUGHT, untrained_agent
from stages.voice.moments import as_batch, in_a_row
from stages.voice.parts import CODEC, NEXT_CODE
from stages.voice.utterances import of_exam, utterance_names, utterances

TOLD = "echo/tokens"
ASKED, TOGETHER = 200, 50
EACH, BEFORE_IT = "frequency of each level", "each level given the one before"
KNOWN_BY = 300
"""Utterances of lessons on which the baselines are counted."""


@in_parts
def token_exam(agent: Agent, context: Context) -> Parts:
    """One value an utterance: nats a token of its codes, predicted by the trunk one after another."""
    if NEXT_CODE not in agent.heads:
        return
    speech = of_exam("echo exam", context, ASKED, NEW_WORDS)
    sound, counts = in_a_row(speech.waves)
    page, ends = pages(agent, sound), TOKENS * counts
    values = _mean(_by(agent, page), ends)
    measure = Measure(
        TOLD, "nats a token", values.double().numpy(), 20.0, 0.0, higher_is_better=False,
        episodes=utterance_names(list(speech.waves)), groups=speech.groups,
        note=f"tokens of 25 ms of words that no lesson spoke, by {speech.speaker} in voices of no lesson",
    )  # fmt: skip
    yield [measure]
    known, lengths = in_a_row(utterances(context).waves[:KNOWN_BY])
    counted = Counted.of(pages(agent, known), TOKENS * lengths)
    floors = {
        EACH: float(_mean(counted.nats(page, False), ends).mean()),
        BEFORE_IT: float(_mean(counted.nats(page, True), ends).mean()),
        UNTAUGHT: float(_mean(_by(untrained_agent(agent), page), ends).mean()),
    }
    yield [replace(measure, chance=floors[EACH], floors=floors)]


def pages(agent: Agent, sound: Tensor) -> Tensor:
    """The codec's codes of sound [N, T x 1600], as pages int64 [N, 4 T, 2]."""
    parts = [agent(as_batch(some), [CODEC])[CODEC].mode().flatten(1, 2).cpu() for some in sound.split(TOGETHER)]
    return torch.cat(parts)


def gone_on_by_tokens(agent: Agent, sound: Tensor, at: Tensor) -> Tensor:
    """Log-mel [N, 16, 64] behind Moment `at` [N] of sounds [N, T x 1600], predicted code after code; later sound is
    not heard.
    """
    page, mel = pages(agent, sound), torch.zeros(len(sound), FRAMES * AHEAD, 64)
    for last in at.unique():
        rows = (at == last).nonzero()[:, 0]
        begun = page[rows, : TOKENS * (int(last) + 1)]
        whole = torch.cat((begun, written_on(agent, begun, TOKENS * AHEAD)), 1)
        levels = levels_of(whole.to(agent.device)).unflatten(1, (-1, TOKENS))
        mel[rows] = decode(agent, levels).flatten(1, 2)[:, -FRAMES * AHEAD :].cpu()
    return mel


class Counted:
    """Counts of each level, and of each level behind another: tables [10, 7] and [10, 7, 7], starting from 1."""

    def __init__(self, each: Tensor, behind: Tensor) -> None:
        self.each, self.behind = each / each.sum(-1, keepdim=True), behind / behind.sum(-1, keepdim=True)

    @staticmethod
    def of(page: Tensor, ends: Tensor) -> Counted:
        """Counted on pages int64 [N, L, 2], of which `ends` [N] tokens count."""
        hot = one_hot(page) * (torch.arange(page.shape[1])[None] < ends[:, None])[..., None, None]
        return Counted(1.0 + hot.sum((0, 1)), 1.0 + torch.einsum("nlki,nlkj->kij", hot[:, :-1], hot[:, 1:]))

    def nats(self, page: Tensor, behind: bool) -> Tensor:
        """Nats of each token but the first of pages [N, L, 2], [N, L - 1]."""
        hot = one_hot(page)
        if behind:
            shares = torch.einsum("nlki,kij,nlkj->nlk", hot[:, :-1], self.behind, hot[:, 1:])
        else:
            shares = torch.einsum("kj,nlkj->nlk", self.each, hot[:, 1:])
        return -shares.log().sum(-1)


def _by(agent: Agent, page: Tensor) -> Tensor:
    return torch.cat([nats(agent, some).cpu() for some in page.split(TOGETHER)])


def _mean(missed: Tensor, ends: Tensor) -> Tensor:
    """The mean of each row's tokens up to `ends`, [N]."""
    here: Any = torch.arange(missed.shape[1])[None] < ends[:, None] - 1
    return (missed * here).sum(1) / here.sum(1).clamp_min(1)


def beside(agent: Agent, sound: Tensor, at: Tensor, off: Any) -> Mapping[str, float]:
    """The row of `echo/continued` for codes predicted one after another, in its dB."""
    if NEXT_CODE not in agent.heads:
        return {}
    return {"its codes one after another, by the trunk": float(off(gone_on_by_tokens(agent, sound, at)).mean())}
