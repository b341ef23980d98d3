"""Heads turn what a tap reads into an Output. The standard ones are here; a stage writes one only when none fits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from devmind import plugins
from devmind.agent.output import Categorical, Normal, Output, Regression
from devmind.agent.taps import Tapped
from devmind.errors import ConfigError, DevmindError, nearest

if TYPE_CHECKING:
    from devmind.agent.trunk import Trunk

_SMALL_GAIN = 0.01


@dataclass(frozen=True)
class Inlet:
    """The shape of a tap: width D and number K of its tokens, and the channels of its maps."""

    width: int
    n_tokens: int
    map_channels: Mapping[str, int] = field(default_factory=dict)


class Head(nn.Module):
    """Base of all heads: takes the inlet and JSON options, `forward(tapped) -> Output`.

    With `takes_targets` it is called as `forward(tapped, targets)`: in teaching with what it shall answer (so that each
    part of an answer is predicted from the right ones before it), otherwise with None. A subclass with `critic` says
    what something is worth; only learning asks it, so who lives or is examined may lack it.

    With `carries` it is called tick by tick as `forward(tapped, kept)`: what its last output `kept` in the state, by
    name tensors [B, ...], or None; zeros in a row whose episode has just begun. Its output may then `prepare`, with the
    generator that the action is drawn by. In a batch `kept` is left out.
    """

    takes_targets: bool = False
    carries: ClassVar[bool] = False
    critic: bool = False

    def __init__(self, inlet: Inlet) -> None:
        super().__init__()
        self.inlet = inlet

    def forward(self, tapped: Tapped, *targets: Any) -> Output:
        raise NotImplementedError

    def respond(self, tapped: Tapped, targets: Any = None) -> Output:
        """`forward`, with `targets` for a head that takes them."""
        return self(tapped, targets) if self.takes_targets else self(tapped)

    def meet(self, heads: Mapping[str, Head]) -> None:
        """Told of the agent's heads, its own among them, each time one was added. A head that asks another one keeps it
        outside of its own parameters (in a tuple): it is saved, taught and counted where it is at home."""

    def borrow(self, trunk: Trunk) -> None:
        """Told of the agent's trunk when it is built. A head that runs the trunk's layers keeps it outside of its own
        parameters, as in `meet`."""

    def reading(self) -> Iterable[nn.Parameter]:
        """The parameters by which it reads its tap, which `start_from` takes over; those that answer are not in it."""
        return ()

    def as_sound(self, answers: Tensor) -> Tensor | None:
        """How its answers for `utter` to T Moments in a row, [T, ...], sound: float32 [1600 T] at 16 kHz.

        None where they are no codes of sound.
        """
        return None

    def sound_through(self, answers: Tensor, heard: Tensor) -> Tensor | None:
        """How T Moments in a row that were `heard`, float32 [1600 T] at 16 kHz, sound as its answers to them, [T, ...],
        change them: float32 [1600 T].

        None where they are nothing that changes a sound.
        """
        return None

    def start_from(self, other: Head) -> None:
        """Take over how `other` reads the same tap, but not what it answers.

        Raises:
            ConfigError: this kind of head cannot, or the two do not fit.
        """
        raise ConfigError(
            f"A {type(self).__name__} cannot start from a {type(other).__name__}; name a head of its own kind."
        )


_ACTIVATIONS = {"gelu": nn.GELU, "tanh": nn.Tanh, "relu": nn.ReLU}


class Reader(nn.Module):
    """Tokens [..., K, D] to a vector [..., n_out]: each token squeezed, all laid side by side, then an MLP.

    Heads stay small while the trunk grows: at most 32 numbers a token and 256 hidden ones.
    Laid side by side, not averaged: where a token stands (which part of the picture, which 25 ms) is what an arc needs.
    """

    def __init__(self, inlet: Inlet, n_out: int, hidden: int | None, depth: int, activation: str, gain: float) -> None:
        super().__init__()
        if activation not in _ACTIVATIONS:
            raise ConfigError(f"There is no activation '{activation}'{nearest(activation, _ACTIVATIONS)}")
        several = inlet.n_tokens > 1
        size = min(32, max(4, inlet.width // 4)) if several else inlet.width
        self.squeeze: nn.Module = nn.Linear(inlet.width, size) if several else nn.Identity()
        sizes = [inlet.n_tokens * size, *[hidden or min(256, max(32, inlet.width))] * depth]
        layers: list[nn.Module] = []
        for n_in, n_hidden in pairwise(sizes):
            layers += [nn.Linear(n_in, n_hidden), _ACTIVATIONS[activation]()]
        last = nn.Linear(sizes[-1], n_out)
        nn.init.orthogonal_(last.weight, gain)
        nn.init.zeros_(last.bias)
        self.net = nn.Sequential(*layers, last)

    def forward(self, tapped: Tapped) -> Tensor:
        tokens = self.squeeze(tapped.tokens) * tapped.present[..., None]
        return self.net(tokens.flatten(-2))


class ReaderHead(Head):
    """Base of the heads whose answer is one `Reader`'s numbers."""

    read: Reader

    def reading(self) -> Iterable[nn.Parameter]:
        """All of the reader but its last layer."""
        return (*self.read.squeeze.parameters(), *self.read.net[:-1].parameters())

    def start_from(self, other: Head) -> None:
        """Copy all of `other`'s reader but its last layer."""
        if not isinstance(other, ReaderHead):
            super().start_from(other)
        assert isinstance(other, ReaderHead)
        try:
            self.read.squeeze.load_state_dict(other.read.squeeze.state_dict())
            self.read.net[:-1].load_state_dict(other.read.net[:-1].state_dict())
        except RuntimeError as error:
            raise ConfigError(
                f"A head can start only from one of the same tap, hidden size and depth: {error}"
            ) from error


class CategoricalHead(ReaderHead):
    """One of `classes`; see `Categorical` for threshold, rest, table. With `slots` that many choices [..., L, n]."""

    def __init__(
        self,
        inlet: Inlet,
        classes: int,
        slots: int | None = None,
        threshold: float | None = None,
        rest: int = 0,
        table: Sequence[Sequence[float]] | None = None,
        hidden: int | None = None,
        depth: int = 1,
        activation: str = "gelu",
    ) -> None:
        super().__init__(inlet)
        self.classes, self.slots, self.threshold, self.rest = classes, slots, threshold, rest
        self.read = Reader(inlet, classes * (slots or 1), hidden, depth, activation, _SMALL_GAIN)
        values = None if table is None else torch.tensor(table, dtype=torch.float32)
        if values is not None and len(values) != classes:
            raise ConfigError(f"The table of a categorical head needs one row a class ({classes}); got {len(values)}.")
        self.table: Tensor | None
        self.register_buffer("table", values, persistent=False)

    def forward(self, tapped: Tapped) -> Categorical:
        logits = self.read(tapped)
        if self.slots:
            logits = logits.unflatten(-1, (self.slots, self.classes))
        return Categorical(logits, self.threshold, self.rest, self.table)


class NormalHead(ReaderHead):
    """An actor of `size` continuous numbers: mean by MLP, one learned log standard deviation a dimension."""

    def __init__(
        self,
        inlet: Inlet,
        size: int,
        log_std: float = -0.5,
        hidden: int | None = None,
        depth: int = 1,
        activation: str = "gelu",
    ) -> None:
        super().__init__(inlet)
        self.read = Reader(inlet, size, hidden, depth, activation, _SMALL_GAIN)
        self.log_std = nn.Parameter(torch.full((size,), log_std))

    def forward(self, tapped: Tapped) -> Normal:
        mean = self.read(tapped)
        return Normal(mean, self.log_std.expand_as(mean))


class ValueHead(ReaderHead):
    """One number [...]: what a state is worth.

    Args:
        critic: only learning asks it; False: acting does too, as a search asks for the worth of positions.
    """

    def __init__(
        self,
        inlet: Inlet,
        loss: str = "mse",
        hidden: int | None = None,
        depth: int = 1,
        activation: str = "gelu",
        critic: bool = True,
    ) -> None:
        super().__init__(inlet)
        self.kind, self.critic = loss, critic
        self.read = Reader(inlet, 1, hidden, depth, activation, 1.0)

    def forward(self, tapped: Tapped) -> Regression:
        return Regression(self.read(tapped).squeeze(-1), self.kind)


class RegressionHead(ReaderHead):
    """Numbers of any `shape` [..., *shape]: directions, boxes, a prediction of the next tokens.

    With a `horizon` above 1 it answers with that many of them, [..., horizon, *shape], one for each tick to come, and
    is asked again after `follow` ticks.
    """

    def __init__(
        self,
        inlet: Inlet,
        shape: Sequence[int] | int,
        loss: str = "mse",
        hidden: int | None = None,
        depth: int = 1,
        activation: str = "gelu",
        horizon: int = 1,
        follow: int | None = None,
    ) -> None:
        super().__init__(inlet)
        if horizon < 1 or not 1 <= (follow or 1) <= horizon:
            raise ConfigError(
                f"A head answers for 1 tick or more, and is followed for 1 to {horizon} of them; got a horizon of "
                f"{horizon} and follow={follow}."
            )
        self.horizon, self.follow = horizon, follow
        self.shape = (shape,) if isinstance(shape, int) else tuple(shape)
        if horizon > 1:
            self.shape = (horizon, *self.shape)
        self.kind = loss
        self.read = Reader(inlet, torch.Size(self.shape).numel(), hidden, depth, activation, 1.0)

    def forward(self, tapped: Tapped) -> Regression:
        value = self.read(tapped)
        value = value.unflatten(-1, self.shape) if self.shape else value.squeeze(-1)
        return Regression(value, self.kind, self.horizon, self.follow)


class DenseHead(Head):
    """A map over the picture from a sense's pyramid of maps (U-Net: Ronneberger et al., 2015, coarse to fine sums).

    With `classes` a `Categorical` at every pixel [..., 64, 64, classes]; without, a `Regression` [..., 64, 64].
    """

    def __init__(self, inlet: Inlet, classes: int | None = None, loss: str = "l1", channels: int | None = None) -> None:
        super().__init__(inlet)
        if not inlet.map_channels:
            raise ConfigError("A dense head must tap one sense whose encoder gives feature maps, such as 'sight'.")
        self.classes, self.kind = classes, loss
        channels = channels or max(4, inlet.width // 8)
        # The finest map is the picture itself; the rest are joined from the coarsest on.
        self.finest, *coarser = sorted(inlet.map_channels, key=lambda name: int(name.removeprefix("stride")))
        self.levels = coarser[::-1]
        self.lateral = nn.ModuleList(nn.Conv2d(inlet.map_channels[name], channels, 1) for name in self.levels)
        self.smooth = nn.ModuleList(nn.Conv2d(channels, channels, 3, padding=1) for _ in self.levels)
        # Full resolution is handled as four channels at half of it: the same sums in a third of the time.
        self.edges = nn.Conv2d(4 * inlet.map_channels[self.finest], channels, 3, padding=1)
        self.join = nn.Conv2d(2 * channels, channels, 3, padding=1)
        self.last = nn.Conv2d(channels, 4 * (classes or 1), 1)

    def forward(self, tapped: Tapped) -> Output:
        if not tapped.maps:
            raise DevmindError(
                "A dense head was asked about Moments none of which has the sense it taps; ask it where one has."
            )
        lead = tapped.tokens.shape[:-2]
        maps = {name: value.flatten(0, len(lead) - 1) for name, value in tapped.maps.items()}
        features: Tensor | None = None
        for name, lateral, smooth in zip(self.levels, self.lateral, self.smooth, strict=True):
            joined = lateral(maps[name])
            if features is not None:
                joined = joined + F.interpolate(features, scale_factor=2.0, mode="nearest")
            features = F.relu(smooth(joined))
        assert features is not None
        edges = F.relu(self.edges(F.pixel_unshuffle(maps[self.finest], 2)))
        joined = F.relu(self.join(torch.cat((features, edges), 1)))
        out = F.pixel_shuffle(self.last(joined), 2)
        if self.classes:
            return Categorical(out.movedim(1, -1).unflatten(0, lead))
        return Regression(out.squeeze(1).unflatten(0, lead), self.kind)


class WithReadoutHead(Head):
    """A head of another part on the trunk's features of senses, and a small MLP on the readout added to its numbers.

    Taps (..., "trunk"), the readout last. The inner head has the shape of a reflex arc that taps the same senses, so
    its weights can be an arc's (`copy_of`): on a fresh trunk, which is the identity but for type embeddings and a norm,
    it answers nearly as that arc does, and learns what the trunk adds.

    Args:
        part, options: the inner head's, as for `Agent.add_head`.
    """

    def __init__(self, inlet: Inlet, part: str, options: Mapping[str, Any] | None = None, hidden: int = 64) -> None:
        super().__init__(inlet)
        if inlet.n_tokens < 2:
            raise ConfigError("A head with a readout must tap senses on the trunk, and 'trunk' last.")
        of_senses = Inlet(inlet.width, inlet.n_tokens - 1)
        self.inner: Head = plugins.load("parts", part)(of_senses, **(options or {}))
        tokens = torch.zeros(1, of_senses.n_tokens, inlet.width)
        numbers = self.inner(Tapped(tokens, torch.ones(1, of_senses.n_tokens, dtype=torch.bool))).numbers()
        last = nn.Linear(hidden, numbers[0].numel())
        nn.init.orthogonal_(last.weight, _SMALL_GAIN)
        nn.init.zeros_(last.bias)
        self.more = nn.Sequential(nn.Linear(inlet.width, hidden), nn.GELU(), last)

    def forward(self, tapped: Tapped) -> Output:
        answer = self.inner(Tapped(tapped.tokens[..., :-1, :], tapped.present[..., :-1]))
        numbers: Tensor = answer.numbers()
        return answer.with_numbers(numbers + self.more(tapped.tokens[..., -1, :]).reshape(numbers.shape))

    def copy_of(self, other: Head) -> None:
        """Take over all of `other`'s weights as the inner head's.

        Raises:
            ConfigError: they do not fit.
        """
        try:
            self.inner.load_state_dict(other.state_dict())
        except RuntimeError as error:
            raise ConfigError(f"The inner head is of another shape than the head to copy: {error}") from error


class NextTokensHead(Head):
    """How each token of a sense will change until the next Moment: `Regression` [..., K, D], whitened.

    Taps ("trunk:<sense>", "<sense>", "trunk"): what the trunk makes of each token, the token itself, and the readout,
    to the same small network for all tokens. Errors are measured in the whitened change of the sense's own encoder
    tokens: `set_whitening` notes by which matrix, so that every direction in which tokens change counts alike.
    """

    whitening: Tensor

    def __init__(self, inlet: Inlet, hidden: int | None = None) -> None:
        super().__init__(inlet)
        if inlet.n_tokens < 3 or inlet.n_tokens % 2 == 0:
            raise ConfigError(
                "A head of next tokens must tap a sense on the trunk, the sense itself, and 'trunk' last."
            )
        self.count, hidden = inlet.n_tokens // 2, hidden or inlet.width
        self.of_token, self.of_readout = nn.Linear(2 * inlet.width, hidden), nn.Linear(inlet.width, hidden)
        self.place = nn.Parameter(torch.zeros(self.count, hidden))
        self.answer = nn.Linear(hidden, inlet.width)
        nn.init.orthogonal_(self.answer.weight, _SMALL_GAIN)
        nn.init.zeros_(self.answer.bias)
        self.register_buffer("whitening", torch.eye(inlet.width))

    def forward(self, tapped: Tapped) -> Regression:
        thought, sensed, readout = tapped.tokens.split([self.count, self.count, 1], -2)
        tokens = torch.cat((thought, sensed), -1)
        return Regression(self.answer(F.gelu(self.of_token(tokens) + self.of_readout(readout) + self.place)))

    def set_whitening(self, changes: Tensor, least: float = 0.01) -> None:
        """Measure by the inverse root of the covariance of `changes` [N, D].

        Args:
            least: directions with less than this share of the largest variance count as if they had it.
        """
        variance, axes = torch.linalg.eigh(changes.T @ changes / len(changes))
        self.whitening.copy_(axes @ torch.diag(variance.clamp_min(least * variance.max()).rsqrt()) @ axes.T)

    def changes(self, tokens: Tensor, following: Tensor) -> Tensor:
        """The whitened change from `tokens` [..., K, D] to `following`, which is what shall be answered."""
        return (following - tokens) @ self.whitening
