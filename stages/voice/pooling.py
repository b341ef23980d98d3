"""Pooling over all Moments of an episode so far, by sums and maxima of non-negative numbers."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor


def since_begun(
    sums: Mapping[str, Tensor], most: Tensor, kept: Mapping[str, Tensor] | None, at_once: bool
) -> dict[str, Tensor]:
    """The sums so far, and, as `most`, the maximum so far; an episode begins with zeros.

    Args:
        sums: what each Moment adds, by name, [B, F]; most: [B, F].
        kept: the result of the Moments before; None at the beginning of an episode.
        at_once: whether all Moments of an episode are given, [B, T, F] each; then the result at each is returned.
    """
    if at_once:
        return {name: value.cumsum(1) for name, value in sums.items()} | {"most": most.cummax(1).values}
    if kept is None:
        return {**sums, "most": most}
    return {name: kept[name] + value for name, value in sums.items()} | {"most": torch.maximum(kept["most"], most)}
