"""Encoders turn the reading of one sense into a few tokens. Here are the base class and the encoders of plain numbers.

The eye is in `sight.py`, the ear in `hearing.py`, words and boards in `symbols.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from devmind.agent.batch import BODY_SIZE
from devmind.errors import MomentError, PluginError

_TYPE_STD = 0.3


@dataclass
class Encoded:
    """One encoded sense; [...] is [B, T] in a batch and [B] in a tick.

    Attributes:
        tokens: content tokens [..., K, D], without the type embedding.
        present: which tokens exist, bool [..., K].
        maps: finer feature maps by name for dense heads, each [..., C, H, W].
    """

    tokens: Tensor
    present: Tensor
    maps: dict[str, Tensor] = field(default_factory=dict)

    def map(self, function: Callable[[Tensor], Tensor]) -> Encoded:
        """`function` applied to tokens, presence and every map."""
        maps = {name: function(value) for name, value in self.maps.items()}
        return Encoded(function(self.tokens), function(self.present), maps)

    def mean(self) -> Tensor:
        """Mean of the tokens that exist, [..., D]; zeros where none exists."""
        weight = self.present[..., None].to(self.tokens.dtype)
        return (self.tokens * weight).sum(-2) / weight.sum(-2).clamp_min(1)


class Encoder(nn.Module):
    """Base of all encoders: `forward(x, previous, previous_present) -> Encoded`, over any leading dimensions.

    A subclass takes `width` and JSON options, and implements `encode` on flat batches [N, ...]. It sets `n_tokens` (its
    number of tokens K), `sense_dims` (dimensions of one reading) and `map_channels` (channels of each map). Tokens
    leave an encoder at unit scale (LayerNorm); Moments without the sense are not given to it.

    Attributes:
        uses_previous: it also gets the last tick's reading, which must have no effect if `previous_present` is false.
        streams: the sense has any number of tokens up to `n_tokens`, which share one type embedding and differ by their
            rotary positions. A Moment that was begun can be extended by more of them.
        effector: it reads no sense, but what the agent did with this effector in the last Moment.
        of: it reads this other sense a second time, under a name of its own. Its tokens have no key, so memory is
            neither searched nor written by them.
        beside: it reads only Moments that also have this sense; all others stay bit-identical.
        counts_ears: it gets sound of one ear beside sound of two as a batch has it, with NaN in the second ear, and
            tells them apart by `is_one_ear`. All other encoders get the one ear twice.
        enters: False: its tokens are for heads that tap them, and do not enter the trunk.
        apart: its tokens go through the trunk by themselves. They see only tokens of their own sense, in a window of
            their own, and no other token sees them. So features learned earlier stay bit-identical, and those of this
            sense do not depend on other senses. It cannot stream, nor be recalled.
    """

    sense_dims: int = 1
    uses_previous: ClassVar[bool] = False
    streams: ClassVar[bool] = False
    effector: str | None = None
    of: ClassVar[str | None] = None
    beside: ClassVar[str | None] = None
    counts_ears: ClassVar[bool] = False
    enters: ClassVar[bool] = True
    apart: bool = False

    def __init__(self, width: int, n_tokens: int) -> None:
        super().__init__()
        self.width = width
        self.n_tokens = n_tokens
        self.map_channels: dict[str, int] = {}
        self.norm = nn.LayerNorm(width)
        self.type_embedding = nn.Parameter(torch.randn(1 if self.streams else n_tokens, width) * _TYPE_STD)

    def encode(self, x: Tensor, previous: Tensor | None, previous_present: Tensor | None) -> Encoded:
        """Tokens of flat readings x [N, ...]; previous [N, ...] and previous_present [N] are given if it uses them."""
        raise NotImplementedError

    def forward(self, x: Tensor, previous: Tensor | None = None, previous_present: Tensor | None = None) -> Encoded:
        """Tokens of readings x [..., *sense]; `previous` has the shape of x, `previous_present` bool [...]."""
        lead = x.shape[: x.ndim - self.sense_dims]

        def flat(tensor: Tensor | None) -> Tensor | None:
            return None if tensor is None else tensor.reshape(-1, *tensor.shape[len(lead) :])

        encoded = self.encode(x.reshape(-1, *x.shape[len(lead) :]), flat(previous), flat(previous_present))
        encoded.tokens = self.norm(encoded.tokens)
        return encoded.map(lambda y: y.reshape(*lead, *y.shape[1:]))

    def all_present(self, tokens: Tensor) -> Tensor:
        """Presence of tokens [N, K, D] when every one exists."""
        return torch.ones(tokens.shape[:2], dtype=torch.bool, device=tokens.device)


def encode_rows(
    encoder: Encoder, x: Tensor, present: Tensor, previous: Tensor | None, previous_present: Tensor | None
) -> Encoded:
    """Run `encoder` only on Moments that have the sense; the others get zeros and no token.

    Args:
        x: readings [*L, ...]; present: bool [*L]; previous and previous_present of the same shapes, or None.
    """
    if bool(present.all()):
        return encoder(x, previous, previous_present)
    lead, rows = present.shape, present.reshape(-1).nonzero().squeeze(-1)

    def take(tensor: Tensor | None) -> Tensor | None:
        return None if tensor is None else tensor.reshape(-1, *tensor.shape[len(lead) :])[rows]

    if not len(rows):
        shape = (*lead, 0 if encoder.streams else encoder.n_tokens)
        empty = torch.zeros(*shape, encoder.width, device=x.device, dtype=encoder.type_embedding.dtype)
        return Encoded(empty, torch.zeros(shape, dtype=torch.bool, device=x.device))
    some = encoder(take(x), take(previous), take(previous_present))

    def put(values: Tensor) -> Tensor:
        full = values.new_zeros(present.numel(), *values.shape[1:])
        return full.index_put((rows,), values).reshape(*lead, *values.shape[1:])

    return some.map(put)


def mlp(n_in: int, n_hidden: int, n_out: int) -> nn.Sequential:
    """Linear, GELU, Linear."""
    return nn.Sequential(nn.Linear(n_in, n_hidden), nn.GELU(), nn.Linear(n_hidden, n_out))


class VectorEncoder(Encoder):
    """Up to `size` numbers to one token. NaN, infinite or missing last numbers count as absent; the network is given a
    mask.
    """

    def __init__(self, width: int, size: int = BODY_SIZE) -> None:
        super().__init__(width, n_tokens=1)
        self.size = size
        self.net = mlp(2 * size, width, width)

    def encode(self, x: Tensor, previous: Tensor | None, previous_present: Tensor | None) -> Encoded:
        if x.shape[-1] > self.size:
            raise MomentError(f"This vector sense may have up to {self.size} numbers; got {x.shape[-1]}.")
        x = F.pad(x.float(), (0, self.size - x.shape[-1]), value=torch.nan)
        known = x.isfinite()
        tokens = self.net(torch.cat((torch.where(known, x, 0.0), known.to(x.dtype)), -1))[:, None]
        return Encoded(tokens, self.all_present(tokens))


class PeripheryEncoder(Encoder):
    """Change in the wide view, float32 [1, 16, 16], to one token."""

    sense_dims = 3

    def __init__(self, width: int) -> None:
        super().__init__(width, n_tokens=1)
        self.net = mlp(256, width, width)

    def encode(self, x: Tensor, previous: Tensor | None, previous_present: Tensor | None) -> Encoded:
        tokens = self.net(x.float().flatten(1))[:, None]
        return Encoded(tokens, self.all_present(tokens))


class DoneEncoder(Encoder):
    """The agent's last action with one effector to one token: numbers of a `shape`, or one of `classes`.

    It is added as a sense of any name: `add_encoder("did", "encoder.done", options={"effector": "move",
    "shape": [2]})`. An episode's first Moment does not have it.
    """

    def __init__(self, width: int, effector: str, shape: Sequence[int] = (), classes: int | None = None) -> None:
        super().__init__(width, n_tokens=1)
        if classes is not None and (shape or classes < 2):
            raise PluginError(
                f"A choice is one of 2 classes or more, without a shape; got {classes} and {list(shape)}."
            )
        self.effector, self.classes, self.shape = effector, classes, tuple(shape)
        self.sense_dims = len(self.shape)
        self.net = mlp(classes or max(1, torch.Size(self.shape).numel()), width, width)

    def encode(self, x: Tensor, previous: Tensor | None, previous_present: Tensor | None) -> Encoded:
        if x.shape[1:] != self.shape:
            got = list(x.shape[1:])
            raise MomentError(f"What was done with '{self.effector}' expected {list(self.shape)}; got {got}.")
        flat = x.reshape(len(x), -1).float() if self.classes is None else F.one_hot(x.long(), self.classes).float()
        tokens = self.net(flat)[:, None]
        return Encoded(tokens, self.all_present(tokens))


def default_part(space: Any) -> tuple[str, dict[str, Any]]:
    """Entry point and options of the default encoder for a plugin's own sense, by its Gymnasium Box space.

    A vector [K] gets `encoder.vector`, a series [C, S] `encoder.series`, a picture [H, W, C] `encoder.image`.

    Raises:
        PluginError: the space has another number of dimensions.
    """
    shape = tuple(space.shape or ())
    if len(shape) == 1:
        return "encoder.vector", {"size": shape[0]}
    if len(shape) == 2:
        return "encoder.series", {"channels": shape[0]}
    if len(shape) == 3:
        return "encoder.image", {"channels": shape[2]}
    raise PluginError(
        f"No default encoder fits a space of shape {list(shape)}: expected a vector [K], a series [C, S] or a picture "
        "[H, W, C]; name an encoder part for this sense."
    )
