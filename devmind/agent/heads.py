"""Heads turn the features of a tap into an Output. A stage defines its own head only if no standard one here fits."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from devmind import plugins
from devmind.agent.encoders import Encoder
from devmind.agent.output import Categorical, Normal, Output, Regression
from devmind.agent.rows import Carry, Leaf, initial_carry
from devmind.agent.taps import Tap, Tapped
from devmind.errors import ConfigError, nearest

if TYPE_CHECKING:
    from devmind.agent.trunk import Trunk

_SMALL_GAIN = 0.01


@dataclass(frozen=True)
class Inlet:
    """The shape of a tap: width D and number K of its tokens, and the channels of its maps."""

    width: int
    n_tokens: int
    map_channels: Mapping[str, int] = field(default_factory=dict)


class AgentParts(Protocol):
    """What a head may know of the agent that it belongs to."""

    heads: nn.ModuleDict
    trunk: Trunk

    def encoder(self, sense: str) -> Encoder:
        """The encoder of `sense`; PluginError if there is none."""


class Head(nn.Module):
    """Base of all heads: takes the inlet and JSON options, `forward(tapped) -> Output`. A head with a `carry_spec` goes
    on from tick to tick: `forward(tapped, carry) -> (Output, carry)`.

    Attributes:
        takes_targets: it is called as `forward(tapped, targets)`. In teaching, targets are the right answers, so that
            each part of an answer is predicted from the right parts before it (teacher forcing); otherwise None.
        critic: it estimates a value that only learning needs, so an agent can act and be examined without it.
        carry_spec: the shape and dtype of each tensor that it carries, by name; an episode begins with zeros. The
            agent's state holds the carry, and leaves it as it is in rows that have nothing to read. In a batch a row is
            one episode.
        generates: it makes something of many numbers (a plan, a text, sound) by layers of its own, also in one mind.
        lighter: of a head whose light form is of its own class: shares of the inlet's width for options that give it
            fewer weights; empty: it is light already. None: see `light`.
        reads_senses: its light form still reads senses, because it needs their maps or own tokens beside the trunk.
    """

    takes_targets: bool = False
    critic: bool = False
    generates: ClassVar[bool] = False
    lighter: ClassVar[tuple[tuple[str, float], ...] | None] = None
    reads_senses: ClassVar[bool] = False
    carry_spec: Mapping[str, Leaf] = {}

    def __init__(self, inlet: Inlet) -> None:
        super().__init__()
        self.inlet = inlet

    def forward(self, tapped: Tapped, *targets_or_carry: Any) -> Output | tuple[Output, Carry]:
        raise NotImplementedError

    def respond(self, tapped: Tapped, targets: Any = None) -> Output:
        """The output for a batch, or for a tick as if an episode began; `targets` for a head that takes them."""
        if self.carry_spec:
            output: Output = self(tapped, initial_carry(self.carry_spec, len(tapped.present), tapped.present.device))[0]
            return output
        return self(tapped, targets) if self.takes_targets else self(tapped)

    def light(self, part: str, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | None:
        """The part and options of its light form in one mind, where the trunk does the work (`agent.one_mind`): linear,
        one cross-attention, or, if it `generates`, the smallest layers that do. None: it has none and stays as it is.

        A light form answers with the same class of Output, and is built on the trunk's features of the senses that this
        head taps, unless it `reads_senses`.
        """
        if self.lighter is None:
            return None
        width = self.inlet.width
        return part, {**options, **{name: max(8, int(share * width)) for name, share in self.lighter}}

    def bind(self, agent: AgentParts, tap: Tap) -> None:
        """Called with the agent's parts once they are complete, and again when more are added; `tap` is its own tap.

        A head that uses another part (a head, the trunk, an encoder) stores it in a tuple, outside of its own
        parameters: the other part is saved, trained and counted by itself.
        """

    def reading(self) -> Iterable[nn.Parameter]:
        """The parameters that read the tap, without those that answer; `start_from` copies them."""
        return ()

    def start_from(self, other: Head) -> None:
        """Copy the parameters with which `other` reads the same tap, but not those that answer.

        Raises:
            ConfigError: this kind of head does not support it, or the two do not fit.
        """
        raise ConfigError(
            f"A {type(self).__name__} cannot start from a {type(other).__name__}; name a head of its own kind."
        )


class FollowingHead(Head):
    """A head that carries a plan, and whose output goes on with it: `output.advance(carry, generator) -> carry`."""

    def observe(self, tapped: Tapped) -> Any:
        """The output before any plan is followed: of a batch, whose loss teaches plans, or of a tick."""
        raise NotImplementedError

    def respond(self, tapped: Tapped, targets: Any = None) -> Output:
        """`observe`: a plan is made only if the answer is asked for."""
        output: Output = self.observe(tapped)
        return output

    def forward(self, tapped: Tapped, carry: Carry) -> tuple[Any, Carry]:
        output = self.observe(tapped)
        return output, output.advance(carry, tapped.generator)


_ACTIVATIONS = {"gelu": nn.GELU, "tanh": nn.Tanh, "relu": nn.ReLU, "none": nn.Identity}
RANK = 32
"""Of a linear map in one mind, at least; a head that answers with fewer numbers needs no more."""


class Reader(nn.Module):
    """Tokens [..., K, D] to a vector [..., n_out]: each token is projected, all are concatenated, then comes an MLP.

    Heads stay small if the trunk is wide: by default at most 32 numbers a token and 256 hidden units. Tokens are
    concatenated rather than averaged, because an arc needs a token's place (the part of the picture, the 25 ms).
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
    """Base of the heads whose answer comes from one `Reader`."""

    read: Reader

    def light(self, part: str, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | None:
        """A linear map of all tokens, of the rank `RANK` where the answers are many."""
        last: Any = self.read.net[-1]
        many = last.out_features > RANK
        kept = {name: value for name, value in options.items() if name not in ("hidden", "depth", "activation")}
        return part, kept | ({"depth": 1, "hidden": RANK, "activation": "none"} if many else {"depth": 0})

    def reading(self) -> Iterable[nn.Parameter]:
        """The parameters of the reader, without its last layer."""
        return (*self.read.squeeze.parameters(), *self.read.net[:-1].parameters())

    def start_from(self, other: Head) -> None:
        """Copy `other`'s reader without its last layer."""
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
    """One of `classes`; see `Categorical` for threshold, rest and table. With `slots` L: L choices, [..., L, n]."""

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
    """A policy of `size` continuous numbers: the mean by an MLP, one learned log standard deviation per dimension; see
    `Normal` for the threshold."""

    def __init__(
        self,
        inlet: Inlet,
        size: int,
        log_std: float = -0.5,
        hidden: int | None = None,
        depth: int = 1,
        activation: str = "gelu",
        threshold: float | None = None,
    ) -> None:
        super().__init__(inlet)
        self.threshold = threshold
        self.read = Reader(inlet, size, hidden, depth, activation, _SMALL_GAIN)
        self.log_std = nn.Parameter(torch.full((size,), log_std))

    def forward(self, tapped: Tapped) -> Normal:
        mean = self.read(tapped)
        return Normal(mean, self.log_std.expand_as(mean), self.threshold)


class ValueHead(ReaderHead):
    """The value of a state, one number [...].

    Args:
        critic: only learning uses it; False: acting uses it too, as a search does for positions.
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
    """Numbers of any `shape`, [..., *shape]: directions, boxes, a prediction of the next tokens.

    With a `horizon` above 1 it answers with a sequence [..., horizon, *shape], one entry for each coming tick, and is
    asked again after `follow` ticks.
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


class WithReadoutHead(Head):
    """An inner head on the trunk's features of senses, plus a small MLP on the readout that is added to its numbers.

    It taps (..., "trunk"), the readout last. The inner head has the shape of a reflex arc that taps the same senses, so
    it can start with the arc's weights (`copy_of`). A fresh trunk is the identity except for type embeddings and a
    norm, so the head begins with nearly the arc's answers and learns what the trunk adds.

    Args:
        part, options: those of the inner head, as for `Agent.add_head`.
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

    def light(self, part: str, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | None:
        """The inner head's, on all tokens and the readout at once."""
        return self.inner.light(options["part"], options.get("options") or {})

    def copy_of(self, other: Head) -> None:
        """Copy all weights of `other` into the inner head.

        Raises:
            ConfigError: they do not fit.
        """
        try:
            self.inner.load_state_dict(other.state_dict())
        except RuntimeError as error:
            raise ConfigError(f"The inner head is of another shape than the head to copy: {error}") from error


class NextTokensHead(Head):
    """Predicts the whitened change of each token of a sense until the next Moment: `Regression` [..., K, D].

    It taps ("trunk:<sense>", "<sense>", "trunk"): the trunk's feature of each token, the token itself, and the readout.
    One small network serves all tokens. Changes of the encoder's tokens are whitened by the matrix of `set_whitening`,
    so that every direction of change has the same weight in the error.
    """

    whitening: Tensor
    reads_senses, lighter = True, (("hidden", 0.25),)

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
        """Whiten by the inverse root of the second moment of `changes` [N, D].

        Args:
            least: smaller variances are raised to this share of the largest one.
        """
        variance, axes = torch.linalg.eigh(changes.T @ changes / len(changes))
        self.whitening.copy_(axes @ torch.diag(variance.clamp_min(least * variance.max()).rsqrt()) @ axes.T)

    def changes(self, tokens: Tensor, following: Tensor) -> Tensor:
        """The target of this head: the whitened change from `tokens` [..., K, D] to `following`."""
        return (following - tokens) @ self.whitening


# -- places in a picture ----------------------------------------------------------------------------------------------

SIGHT_TOKENS, NUMBERS = 16, 4
"""The numbers of a place: a logit of being in view, left and up of the gaze (in units of 30 deg), and the log of the
distance in metres."""
SCALE_DEG = HALF_VIEW_DEG = 30.0


class Cells(nn.Module):
    """A place for each of S slots from the tokens of sight [..., 16, D], ordered from the top left.

    As in grid detectors (Redmon et al. 2016, "You only look once", arXiv 1506.02640) the same small network predicts
    from each token for its cell, and a softmax over cells weighs the predictions. So what is learned in one cell holds
    in all.
    """

    cells: Tensor

    def __init__(self, width: int, slots: int) -> None:
        super().__init__()
        self.slots, narrow = slots, max(4, width // 8)
        self.cell, self.squeeze = nn.Linear(width, width), nn.Linear(width, narrow)
        self.scene = nn.Linear(SIGHT_TOKENS * narrow, width)
        self.look = nn.Sequential(nn.GELU(), nn.Linear(width, slots * NUMBERS))
        side = math.isqrt(SIGHT_TOKENS)
        middle = 1 - (2 * torch.arange(side) + 1) / side
        angle = torch.rad2deg(torch.atan(middle * math.tan(math.radians(HALF_VIEW_DEG)))) / SCALE_DEG
        up, left = torch.meshgrid(angle, angle, indexing="ij")
        self.register_buffer("cells", torch.stack((left, up), -1).reshape(SIGHT_TOKENS, 2), persistent=False)

    def tell(self, sight: Tensor) -> tuple[Tensor, Tensor]:
        """Places [..., S, 4] (see NUMBERS) and logits of the cells [..., S, 16]."""
        scene = self.scene(self.squeeze(sight).flatten(-2))[..., None, :]
        estimates = self.look(self.cell(sight) + scene).unflatten(-1, (self.slots, NUMBERS)).transpose(-3, -2)
        logits = estimates[..., 0]
        where = estimates[..., 1:] + F.pad(self.cells, (0, 1))
        place = (logits.softmax(-1)[..., None] * where).sum(-2)
        return torch.cat((logits.logsumexp(-1)[..., None], place), -1), logits


class NamedCells(Cells):
    """Cells that also read tokens of words [..., W, D], which name a slot."""

    def __init__(self, width: int, slots: int) -> None:
        super().__init__(width, slots)
        self.choose = nn.Linear(width, slots)

    def tell_named(self, sight: Tensor, words: Tensor) -> tuple[Tensor, Tensor]:
        """Places [..., S + 1, 4] of all slots and of the named one, last, and logits of the cells [..., S, 16]."""
        places, logits = self.tell(sight)
        choice = self.choose(words.sum(-2)).softmax(-1)
        named = (choice[..., None] * places).sum(-2, keepdim=True)
        return torch.cat((places, named), -2), logits
