"""Pooling over all Moments of an episode so far, by sums and maxima of numbers that are not negative."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor


def since_begun(
    sums: Mapping[str, Tensor], most: Tensor, kept: Mapping[str, Tensor] | None, at_once: bool
) -> dict[str, Tensor]:
    """What is added up and, as `most`, the largest so far; an episode begins with zeros.

    Args:
        sums: what each Moment adds, by name, [B, F]; most: [B, F].
        kept: what the Moments before came to; None at an episode's begin.
        at_once: all Moments of an episode are given, [B, T, F] each, and what each has come to is returned.
    """
    if at_once:
        return {name: value.cumsum(1) for name, value in sums.items()} | {"most": most.cummax(1).values}
    if kept is None:
        return {**sums, "most": most}
    return {name: kept[name] + value for name, value in sums.items()} | {"most": torch.maximum(kept["most"], most)}
