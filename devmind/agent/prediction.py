"""Prediction of the next Moment by heads that are called NEXT and a sense: targets, errors and surprise.

A stage's lesson, the learner beside a live agent and the live page use it. A head predicts the change from this Moment
to the next, in units of its sense's `TYPICAL_CHANGE`. Errors are relative to copying the last Moment (the persistence
baseline of video prediction), so 1 is no better than predicting no change.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from devmind.agent.batch import both_ears, collate_senses
from devmind.agent.features import log_mel
from devmind.agent.output import Output
from devmind.moment import Moment

if TYPE_CHECKING:
    from devmind.agent.agent import Agent

BANDS = 16
NEXT = "next_"
"""Begins the name of a head that predicts the sense named behind it."""
TYPICAL_CHANGE = {"sight": 0.05, "sound": 0.1}
"""The units of the heads' answers, chosen so that the error of an untrained head is about the change in the world."""
STILL = 0.1
"""Surprise divides by at least this share of the typical change, so that camera noise in a still scene stays small."""


class Residual(NamedTuple):
    """Sums of squares over a batch for one head, scalars: of its error, and of the true change."""

    residual: Tensor
    change: Tensor

    def ratio(self) -> Tensor:
        """Error relative to that of predicting no change."""
        return self.residual / self.change.clamp_min(1e-6)


def coarse_sight(sight: Tensor) -> Tensor:
    """Pictures uint8 [B, T, H, W, 3] as float [B, T, 8, 8, 3] in 0..1."""
    planes = sight.flatten(0, 1).permute(0, 3, 1, 2).float() / 255
    return F.adaptive_avg_pool2d(planes, 8).permute(0, 2, 3, 1).unflatten(0, sight.shape[:2])


def coarse_sound(sound: Tensor) -> Tensor:
    """Sound [B, T, C, S] as log-mel energy in 16 bands, float [B, T, 16]."""
    mel = log_mel(both_ears(sound.float()).mean(2), 512, 400, 64).mean(-2)
    return 0.25 * F.avg_pool1d(mel, 64 // BANDS)


def targets(senses: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What each head predicts, by head: the coarse picture [B, T, 8, 8, 3] and sound [B, T, 16] of each Moment."""
    coarse = {"sight": coarse_sight, "sound": coarse_sound}
    return {NEXT + sense: make(senses[sense]) for sense, make in coarse.items() if sense in senses}


def predicting(agent: Agent, senses: Container[str]) -> list[str]:
    """The agent's heads that predict one of these senses."""
    return [NEXT + sense for sense in TYPICAL_CHANGE if sense in senses and NEXT + sense in agent.heads]


def residuals(outputs: Mapping[str, Output], batch: Mapping[str, Any]) -> dict[str, Residual]:
    """The error of each predicting head of `outputs` [B, T], over all pairs of Moments that have its sense.

    A Moment that begins an episode has nothing before it and does not count.
    """
    valid = batch["valid"][:, 1:] & ~batch["first"][:, 1:]
    found = {}
    for name, now in targets(batch["senses"]).items():
        if name not in outputs:
            continue
        present = batch["present"][name.removeprefix(NEXT)]
        weights = valid & present[:, 1:] & present[:, :-1]
        weights = weights.reshape(*weights.shape, *[1] * (now.ndim - 2)).float()
        change = now[:, 1:] - now[:, :-1]
        off = TYPICAL_CHANGE[name.removeprefix(NEXT)] * outputs[name].mode()[:, :-1] - change
        found[name] = Residual((off.square() * weights).sum(), (change.square() * weights).sum())
    return found


def prediction_loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """The sum over heads of the squared error relative to predicting no change, and these ratios by head."""
    outputs = agent(batch, predicting(agent, batch["senses"]))
    ratios = {name: each.ratio() for name, each in residuals(outputs, batch).items()}
    total = sum(ratios.values(), start=torch.zeros((), device=batch["valid"].device))
    return total, {name: ratio.detach() for name, ratio in ratios.items()}


@torch.no_grad()
def surprise(outputs: Mapping[str, Output], before: Moment, after: Moment) -> dict[str, float]:
    """The error of the last tick's predictions by sense; 1 is the error of predicting no change.

    Args:
        outputs: of the step on `before`, [1, ...]; heads that do not predict are ignored.
        before, now: consecutive Moments. A sense that one of them lacks is left out; if `after` begins an episode, all
            are.
    """
    if after.first:
        return {}
    pair = collate_senses([[before.senses, after.senses]])
    found = {}
    for name, coarse in targets(pair["senses"]).items():
        sense = name.removeprefix(NEXT)
        if name in outputs and bool(pair["present"][sense].all()):
            change, predicted = coarse[0, 1] - coarse[0, 0], TYPICAL_CHANGE[sense] * outputs[name].mode()[0].cpu()
            floor = (STILL * TYPICAL_CHANGE[sense]) ** 2
            found[sense] = float((predicted - change).square().mean() / change.square().mean().clamp_min(floor))
    return found
