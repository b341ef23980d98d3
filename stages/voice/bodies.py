"""Three bodies of arcs for speech, between the ear's tokens and the answer: a gated recurrent unit, convolutions and a
transformer, over tokens in the order in which they are heard.

None looks ahead, and each carries something, so that stepping gives the same features as a whole row at once. The carry
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
LAYERS, ATTENTION_HEADS, WINDOW = 2, 4, 32
"""Of the transformer: each layer sees a token and the 31 before it, 1.6 s, so two layers see twice as far."""


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


class Attended(Body):
    """Layers of attention to the last 32 tokens (Vaswani et al. 2017, arXiv 1706.03762). A slope on the scores tells
    how far back each token is (Press et al. 2022, ALiBi, arXiv 2108.12409), so positions never run out.
    """

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.enter = nn.Linear(width, hidden)
        self.layers = nn.ModuleList(_Layer(hidden) for _ in range(LAYERS))
        self.norm = nn.LayerNorm(hidden)
        layers = {f"layer {number}": Leaf((WINDOW - 1, 2 * hidden)) for number in range(LAYERS)}
        self.carry_spec = {"here": Leaf((WINDOW - 1, 1)), **layers}

    def over(self, row: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        n, before = row.shape[1], WINDOW - 1
        here = _behind(carry["here"], row.new_ones(*row.shape[:2], 1))
        features, after = self.enter(row), {"here": here[:, -before:]}
        back = torch.arange(n, device=row.device)[:, None] + before - torch.arange(n + before, device=row.device)
        seen = (back >= 0) & (back <= before) & (here[:, None, :, 0] > 0)
        bias = torch.where(seen[:, None], -_slopes(row.device)[:, None, None] * back, -torch.inf)
        for number, layer in enumerate(self.layers):
            name = f"layer {number}"
            features, after[name] = layer(features, carry[name], bias)
        return self.norm(features), after


class _Layer(nn.Module):
    """Attention and two linear layers with residual connections; it carries keys and values side by side."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(hidden) for _ in range(2))
        self.asks, self.shows = nn.Linear(hidden, hidden), nn.Linear(hidden, 2 * hidden)
        self.out = nn.Linear(hidden, hidden)
        self.net = nn.Sequential(nn.Linear(hidden, 2 * hidden), nn.GELU(), nn.Linear(2 * hidden, hidden))

    def forward(self, features: Tensor, before: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        normed = self.norms[0](features)
        keys_values = _behind(before, self.shows(normed))
        features = features + self.out(attend(self.asks(normed), keys_values, bias))
        return features + self.net(self.norms[1](features)), keys_values[:, -(WINDOW - 1) :]


def attend(asks: Tensor, keys_values: Tensor, mask: Tensor | None = None) -> Tensor:
    """Attention of queries [B, L, H] to keys and values side by side, [B, S, 2 H], with four heads: [B, L, H].

    Args:
        mask: numbers that are added to the scores, or bool, what may be seen; broadcast to [B, 4, L, S].
    """
    split = lambda x: x.unflatten(-1, (ATTENTION_HEADS, -1)).transpose(1, 2)  # noqa: E731
    keys, values = keys_values.chunk(2, -1)
    mixed = F.scaled_dot_product_attention(split(asks), split(keys), split(values), mask)
    return mixed.transpose(1, 2).flatten(-2)


def _behind(before: Tensor, new: Tensor) -> Tensor:
    """What came before, [B, N, H], and `new` [B, L, H] behind it: [B, N + L, H]."""
    return torch.cat((before.to(new.dtype), new), 1)


def _slopes(device: torch.device) -> Tensor:
    """By head, how much the score of a token falls with each token that it is further back."""
    return 2.0 ** -torch.arange(2, 2 + 2 * ATTENTION_HEADS, 2, device=device).float()


KINDS: Mapping[str, Callable[[int, int], Body]] = {DEFAULT: Gated, CONVOLVED: Convolved, "transformer": Attended}


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
