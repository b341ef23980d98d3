"""Two bodies of arcs for speech, between the ear's tokens and the answer: a gated recurrent unit and convolutions, over
tokens in the order in which they are heard.

Neither looks ahead, and each carries a state, so that stepping gives the same features as a whole row at once. The
state does not grow with time. Zeros stand for nothing heard before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from devmind.errors import ConfigError, nearest

CONVOLVED = "conv"
DEFAULT = "gru"
"""The kind of an arc that names none."""
DILATIONS, KERNEL = (1, 2, 4, 8), 3
"""Of the convolutions: each token sees 31 tokens, 1.55 s."""

Kept = Mapping[str, Tensor]


class Body(nn.Module):
    """Features of tokens in a row."""

    def over(self, row: Tensor, kept: Kept | None) -> tuple[Tensor, dict[str, Tensor]]:
        """Features [B, L, H] of tokens [B, L, D], and the new state, by name [B, ...].

        Args:
            kept: the state before; None, or zeros, at the beginning of an episode.
        """
        raise NotImplementedError


class Gated(nn.GRU, Body):
    """Cho et al. 2014's GRU, arXiv 1406.1078."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__(width, hidden, batch_first=True)

    def over(self, row: Tensor, kept: Kept | None) -> tuple[Tensor, dict[str, Tensor]]:
        features, last = self(row, None if kept is None else kept["hidden"][None].contiguous())
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

    def over(self, row: Tensor, kept: Kept | None) -> tuple[Tensor, dict[str, Tensor]]:
        features, state = self.enter(row), dict[str, Tensor]()
        for number, (convolution, norm, apart) in enumerate(zip(self.convolutions, self.norms, DILATIONS, strict=True)):
            name, reach = f"layer {number}", (KERNEL - 1) * apart
            seen = _behind(None if kept is None else kept[name], norm(features), reach)
            state[name] = seen[:, -reach:]
            features = features + F.gelu(convolution(seen.mT).mT)
        return features, state


def _behind(kept: Tensor | None, new: Tensor, n: int) -> Tensor:
    """The last `n` rows before, or zeros, and `new` [B, L, H] behind them: [B, n + L, H]."""
    before = new.new_zeros(len(new), n, new.shape[-1]) if kept is None else kept
    return torch.cat((before, new), 1)


KINDS: Mapping[str, Callable[[int, int], Body]] = {DEFAULT: Gated, CONVOLVED: Convolved}


def body(kind: str, width: int, hidden: int) -> Body:
    """A body of a kind, for tokens of `width`. An unknown kind is a ConfigError that names the nearest one."""
    if kind not in KINDS:
        raise ConfigError(f"There is no encoder '{kind}' for speech{nearest(kind, KINDS)}")
    return KINDS[kind](width, hidden)


def sums_so_far(
    sums: Mapping[str, Tensor], most: Tensor, kept: Mapping[str, Tensor] | None, at_once: bool
) -> dict[str, Tensor]:
    """Pooling over all Moments of an episode so far: sums, and, as `most`, the maximum of non-negative numbers;
    an episode begins with zeros.

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
