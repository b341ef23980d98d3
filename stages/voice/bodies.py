"""Two bodies of arcs for speech, between the ear's tokens and the answer: a gated recurrent unit and convolutions, over
tokens in the order in which they are heard.

Neither looks ahead, and each carries something, so that stepping gives the same features as a whole row at once. It
does not grow with time. Zeros stand for nothing heard before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from devmind.agent.rows import Carry, CarrySpec, Leaf
from devmind.errors import ConfigError, nearest

CONVOLVED = "conv"
DEFAULT = "gru"
"""The kind of an arc that names none."""
DILATIONS, KERNEL = (1, 2, 4, 8), 3
"""Of the convolutions: each token sees 31 tokens, 1.55 s."""


class Body(nn.Module):
    """Features of tokens in a row."""

    carry_spec: CarrySpec

    def over(self, row: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        """Features [B, L, H] of tokens [B, L, D], and the carry behind them."""
        raise NotImplementedError


class Gated(nn.GRU, Body):
    """Cho et al. 2014's GRU, arXiv 1406.1078."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__(width, hidden, batch_first=True)
        self.carry_spec = {"hidden": Leaf((hidden,))}

    def over(self, row: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        features, last = self(row, carry["hidden"][None].to(row.dtype))
        return features, {"hidden": last[0]}


class Convolved(Body):
    """Causal convolutions with growing dilation and residual connections (Bai et al. 2018, "An empirical evaluation of
    generic convolutional and recurrent networks", arXiv 1803.01271).
    """

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.enter = nn.Linear(width, hidden)
        self.convolutions = nn.ModuleList(nn.Conv1d(hidden, hidden, KERNEL, dilation=apart) for apart in DILATIONS)
        self.norms = nn.ModuleList(nn.LayerNorm(hidden) for _ in DILATIONS)
        self.carry_spec = {
            f"layer {number}": Leaf(((KERNEL - 1) * apart, hidden)) for number, apart in enumerate(DILATIONS)
        }

    def over(self, row: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        features, after = self.enter(row), dict[str, Tensor]()
        for name, convolution, norm in zip(self.carry_spec, self.convolutions, self.norms, strict=True):
            seen = _behind(carry[name], norm(features))
            after[name] = seen[:, -carry[name].shape[1] :]
            features = features + F.gelu(convolution(seen.mT).mT)
        return features, after


def _behind(before: Tensor, new: Tensor) -> Tensor:
    """What came before, [B, N, H], and `new` [B, L, H] behind it: [B, N + L, H]."""
    return torch.cat((before.to(new.dtype), new), 1)


KINDS: Mapping[str, Callable[[int, int], Body]] = {DEFAULT: Gated, CONVOLVED: Convolved}


def body(kind: str, width: int, hidden: int) -> Body:
    """A body of a kind, for tokens of `width`. An unknown kind is a ConfigError that names the nearest one."""
    if kind not in KINDS:
        raise ConfigError(f"There is no encoder '{kind}' for speech{nearest(kind, KINDS)}")
    return KINDS[kind](width, hidden)


def sums_so_far(
    sums: Mapping[str, Tensor], most: Tensor, carry: Carry, at_once: bool
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Pooling over all Moments of an episode so far: sums, and, as `most`, the maximum of non-negative numbers. Gives
    the result at each Moment, and the carry, which is the last result.

    Args:
        sums: what each Moment adds, by name, [B, F]; most: [B, F].
        at_once: whether all Moments of an episode are given, [B, T, F] each.
    """
    if at_once:
        pooled = {name: value.cumsum(1) for name, value in sums.items()} | {"most": most.cummax(1).values}
        return pooled, {name: value[:, -1] for name, value in pooled.items()}
    pooled = {name: carry[name] + value for name, value in sums.items()}
    pooled["most"] = torch.maximum(carry["most"], most)
    return pooled, pooled
