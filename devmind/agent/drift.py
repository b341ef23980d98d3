"""How far a head's answers have moved from old ones: what guards heads that a lesson must not touch."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from devmind.agent.output import Output

STEADY = 0.01
"""A head whose answers hardly vary is held to this variance: a tenth of an effector's range, squared."""


def drifts(outputs: Mapping[str, Output], wanted: Mapping[str, Output], here: Tensor) -> dict[str, Tensor]:
    """By head of `wanted`, how far its numbers are from these, squared, as a share of their variance over the batch.

    Args:
        here: which Moments count, bool [B, T].
    """
    found = {}
    for name, output in wanted.items():
        squares = spread = torch.zeros((), device=here.device)
        for key, old in vars(output).items():
            new = getattr(outputs[name], key)
            if isinstance(old, Tensor) and old.is_floating_point() and old.shape[:2] == here.shape:
                squares = squares + (new[here] - old[here]).square().mean()
                spread = spread + old[here].var(0, correction=0).mean()
        found[name] = squares / spread.clamp_min(STEADY)
    return found
