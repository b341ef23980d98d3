"""Distillation: heads are trained to keep their earlier answers on stored observations.

Hinton et al. 2015, "Distilling the knowledge in a neural network"; of policies: Rusu et al. 2016, arXiv 1511.06295.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from devmind.acting import Senses
from devmind.agent.agent import Agent
from devmind.agent.batch import Batch, collate_tick
from devmind.agent.output import Categorical, Normal, Output, masked_mean

Kept = dict[str, Any]
"""`batch`: rows of Moments; `answers`: by head, its output's tensors [B, T, ...] by field. It can be saved."""


@torch.no_grad()
def store_answers(
    agent: Agent, ticks: Sequence[tuple[Senses, np.ndarray]], valid: np.ndarray, heads: Sequence[str]
) -> Kept:
    """Store the present answers of heads in T consecutive ticks of N rows.

    Args:
        ticks: senses [N, ...] of each tick, and which rows begin an episode, bool [N].
        valid: bool [N, T], false after an episode's end.
    """
    known = {*agent.sense_order, "body"}
    each = [collate_tick({k: v for k, v in senses.items() if k in known}, first) for senses, first in ticks]
    batch: Batch = {
        part: {name: torch.cat([tick[part][name] for tick in each], 1) for name in each[0][part]}
        for part in ("senses", "present")
    }
    batch |= {name: torch.cat([tick[name] for tick in each], 1) for name in ("first", "reward")}
    batch["valid"] = torch.from_numpy(valid.copy())
    answers = {name: answer_tensors(output, batch["first"].shape) for name, output in agent(batch, heads).items()}
    return {"batch": batch, "answers": answers}


def divergence_from(agent: Agent, kept: Kept) -> Tensor:
    """The distance of the heads' answers from the stored ones, with a gradient: a scalar, mean over Moments and heads.

    It is KL(stored || present) in nats for categorical and normal distributions, and the squared error for others.
    """
    outputs = agent(kept["batch"], list(kept["answers"]))
    valid = kept["batch"]["valid"].to(agent.device)
    found = [
        masked_mean(distance(output, {key: x.to(agent.device) for key, x in kept["answers"][name].items()}), valid)
        for name, output in outputs.items()
    ]
    return torch.stack(found).mean()


def answer_tensors(output: Output, lead: torch.Size) -> dict[str, Tensor]:
    """An output's float tensors [B, T, ...] of a batch with `lead` [B, T]; not what is the same for all Moments, as a
    table of commands or a grid of places."""
    tensors = {key: value for key, value in vars(output).items() if isinstance(value, Tensor) and key != "table"}
    each = {key: value for key, value in tensors.items() if value.is_floating_point() and value.shape[:2] == lead}
    return {key: value.clone() for key, value in each.items()}


def distance(output: Output, wanted: dict[str, Tensor]) -> Tensor:
    """The distance of an output from stored numbers of one, [B, T, ...]; see `divergence_from`."""
    if isinstance(output, Categorical):
        return _divergence(wanted["logits"].softmax(-1), output.logits.log_softmax(-1))
    if isinstance(output, Normal):
        spread = (2 * (wanted["log_std"] - output.log_std)).exp()
        z = (wanted["mean"] - output.mean) * (-output.log_std).exp()
        return (output.log_std - wanted["log_std"] + 0.5 * (spread + z.square() - 1)).sum(-1)
    now = vars(output)
    squares = [(now[key] - old).square().reshape(*old.shape[:2], -1).mean(-1) for key, old in wanted.items()]
    return torch.stack(squares).mean(0)


def divergence(wanted: Tensor, log_p: Tensor) -> Tensor:
    """KL(wanted || p) in nats, [n], from [n, ..., classes]; mean over the dimensions between."""
    each = _divergence(wanted, log_p)
    return each.flatten(1).mean(1) if each.ndim > 1 else each


def _divergence(wanted: Tensor, log_p: Tensor) -> Tensor:
    return (wanted * (wanted.clamp_min(1e-9).log() - log_p)).sum(-1)
