"""Encoders turn the reading of one sense into a few tokens: numbers, the eye, the ear, words and boards.

`EncoderHolder` is what has them by name. Code that uses neither trunk nor heads (naming files, searching memory with a
picture) imports only this file and torch; the other parts need transformers, which takes seconds to import. Every part
draws its first weights from a seed of its own name, so a new part leaves all others bit-identical.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from inspect import signature
from itertools import pairwise
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from devmind import plugins
from devmind.agent.batch import BODY_SIZE, WORDS_BYTES, both_ears, is_one_ear
from devmind.agent.features import interaural_lags, level_difference, log_mel
from devmind.agent.saving import limit_part_size
from devmind.errors import MomentError, PluginError, nearest
from devmind.moment import SIGHT_SIZE, STANDARD_SENSES, TICK_SAMPLES
from devmind.seeding import derive_seed, torch_generator

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


# -- the eye ----------------------------------------------------------------------------------------------------------

_GRID_TOKENS = 16


def as_planes(picture: Tensor) -> Tensor:
    """Pictures [N, H, W, C] (uint8, or float in 0..1) as float [N, C, 64, 64] in 0..1, area-resized if needed."""
    planes = picture.permute(0, 3, 1, 2)
    planes = planes.float() / 255.0 if planes.dtype == torch.uint8 else planes.float()
    if planes.shape[-2:] != (SIGHT_SIZE, SIGHT_SIZE):
        planes = F.interpolate(planes, (SIGHT_SIZE, SIGHT_SIZE), mode="area")
    return planes


class SightEncoder(Encoder):
    """Four convolutions down to a 4x4 grid, with one token for each cell.

    Channels follow the width (c = width / 8: c, 2c, 4c, 8c). `maps` are `stride1` (the 2C input planes: picture and
    change, at 64x64), `stride2` (c, 32x32), `stride4`, `stride8` and `stride16`. The change is zero if there was no
    picture before.
    """

    sense_dims = 3
    uses_previous = True

    def __init__(self, width: int, channels: int = 3) -> None:
        super().__init__(width, n_tokens=_GRID_TOKENS)
        c = width // 8
        sizes = [2 * channels, c, 2 * c, 4 * c, 8 * c]
        layers = [
            nn.Conv2d(n_in, n_out, 3 if depth else 5, stride=2, padding=1 if depth else 2)
            for depth, (n_in, n_out) in enumerate(pairwise(sizes))
        ]
        for layer in layers:
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
        self.convolutions = nn.ModuleList(layers)
        self.project = nn.Linear(sizes[-1], width)
        self.map_channels = {f"stride{2**depth}": size for depth, size in enumerate(sizes)}

    def encode(self, x: Tensor, previous: Tensor | None, previous_present: Tensor | None) -> Encoded:
        picture = as_planes(x)
        if previous is None or previous_present is None:
            change = torch.zeros_like(picture)
        else:
            change = (picture - as_planes(previous)) * previous_present[:, None, None, None]
        features = torch.cat((picture - 0.5, change), 1)
        maps = {"stride1": features}
        for depth, layer in enumerate(self.convolutions):
            features = F.relu(layer(features))
            maps[f"stride{2 ** (depth + 1)}"] = features
        tokens = self.project(features.flatten(2).transpose(1, 2))
        return Encoded(tokens, self.all_present(tokens), maps)


# -- the ear, and other series ----------------------------------------------------------------------------------------

_QUARTERS, _MELS, _LAG, _N_FFT = 4, 64, 12, 512
_FRAMES = 2 * _QUARTERS
_QUARTER_SAMPLES = TICK_SAMPLES // _QUARTERS
_HOP = TICK_SAMPLES // _FRAMES


class SoundEncoder(Encoder):
    """Encodes the log-mel of each ear (two frames a token), and cross-correlation and level difference of the ears.

    The level difference alone does not distinguish left and right well enough; the lags do. Sound of one ear is used
    for both, with a flag. Of longer sound the last 100 ms are used; shorter sound is padded at its beginning. `maps`
    has `hidden` (2 width, 1 x 4), from which the tokens are computed: memory uses it, since it keeps more of a voice.
    It is not among `map_channels`, which dense heads take for pictures.
    """

    sense_dims = 2
    counts_ears: ClassVar[bool] = True

    def __init__(self, width: int) -> None:
        super().__init__(width, n_tokens=_QUARTERS)
        n_features = 2 * 2 * _MELS + (2 * _LAG + 1) + 2
        self.net = mlp(n_features, 2 * width, width)

    def encode(self, x: Tensor, previous: Tensor | None, previous_present: Tensor | None) -> Encoded:
        if x.shape[1] not in (1, 2):
            raise MomentError(f"Sense 'sound' must have one or two ears; got {x.shape[1]}.")
        sound = F.pad(both_ears(x.float()), (max(0, TICK_SAMPLES - x.shape[-1]), 0))[..., -TICK_SAMPLES:]
        first, bend, last = self.net
        hidden = bend(first(self.features(sound.expand(-1, 2, -1), ~is_one_ear(x))))
        tokens = last(hidden)
        return Encoded(tokens, self.all_present(tokens), {"hidden": hidden.transpose(1, 2)[:, :, None]})

    @staticmethod
    def features(sound: Tensor, stereo: Tensor) -> Tensor:
        """Features of each 25 ms of sound [N, 2, 1600], float32 [N, 4, 283]; `stereo` bool [N]: it is of two ears."""
        n = sound.shape[0]
        mel = log_mel(sound, _N_FFT, _HOP, _MELS)[:, :, :_FRAMES]
        mel = mel.reshape(n, 2, _QUARTERS, 2 * _MELS).transpose(1, 2).flatten(2)
        left, right = sound.reshape(n, 2, _QUARTERS, _QUARTER_SAMPLES).unbind(1)
        level = level_difference(left, right)
        flag = stereo[:, None].to(level.dtype).expand_as(level)
        return torch.cat((mel, interaural_lags(left, right, _LAG), torch.stack((level, flag), -1)), -1)


class SeriesEncoder(Encoder):
    """Encodes any series [C, S] as four tokens: strided convolution, mean over each quarter, projection."""

    sense_dims = 2

    def __init__(self, width: int, channels: int) -> None:
        super().__init__(width, n_tokens=_QUARTERS)
        self.convolution = nn.Conv1d(channels, width, 9, stride=4, padding=4)
        self.project = nn.Linear(width, width)

    def encode(self, x: Tensor, previous: Tensor | None, previous_present: Tensor | None) -> Encoded:
        features = F.adaptive_avg_pool1d(F.gelu(self.convolution(x.float())), _QUARTERS)
        tokens = self.project(features.transpose(1, 2))
        return Encoded(tokens, self.all_present(tokens))


# -- words and boards -------------------------------------------------------------------------------------------------

_WORD_BYTES = 8
WHAT_GAIN, WHERE_GAIN = 3.0, 4.0
"""Factors on the initial weights of a board's convolutions and keys. With 1, a query attends to all cells alike and a
cell's content is weak beside its place, so learning what is where takes hundreds of steps to begin.
"""


class WordsEncoder(Encoder):
    """UTF-8 bytes [64] in chunks of eight; every chunk that is not empty gives one token. It needs no vocabulary."""

    def __init__(self, width: int) -> None:
        super().__init__(width, n_tokens=WORDS_BYTES // _WORD_BYTES)
        size = max(8, width // 4)
        self.embedding = nn.Embedding(256, size)
        self.net = mlp(_WORD_BYTES * size, width, width)

    def encode(self, x: Tensor, previous: Tensor | None, previous_present: Tensor | None) -> Encoded:
        chunks = x.unflatten(-1, (self.n_tokens, _WORD_BYTES))
        tokens = self.net(self.embedding(chunks.int()).flatten(2))
        return Encoded(tokens, (chunks != 0).any(-1))


class BoardEncoder(Encoder):
    """A board of any size up to 32x32 to eight tokens: two convolutions, then eight learned queries over the cells.

    Each query attends to the cells with four heads, so boards of any size share the weights and no cell is lost by
    pooling. `maps` has `cells` (width, H x W): the content in and around each cell, without its place.
    """

    sense_dims = 3
    heads = 4

    def __init__(self, width: int, planes: int = 16) -> None:
        super().__init__(width, n_tokens=8)
        self.planes = planes
        self.map_channels = {"cells": width}
        self.first = nn.Conv2d(planes + 1, width // 2, 3, padding=1)
        self.second = nn.Conv2d(width // 2, width, 3, padding=1)
        self.rows = nn.Parameter(torch.randn(32, width) * 0.5)
        self.columns = nn.Parameter(torch.randn(32, width) * 0.5)
        self.queries = nn.Parameter(torch.randn(self.n_tokens, width))
        self.keys_values = nn.Linear(width, 2 * width)
        self.project = nn.Linear(width, width)
        with torch.no_grad():
            self.first.weight.mul_(WHAT_GAIN)
            self.second.weight.mul_(WHAT_GAIN)
            self.keys_values.weight[:width].mul_(WHERE_GAIN)

    def encode(self, x: Tensor, previous: Tensor | None, previous_present: Tensor | None) -> Encoded:
        n, planes, height, width = x.shape
        if planes > self.planes or max(height, width) > 32:
            raise MomentError(
                f"A board may have up to {self.planes} planes of 32x32 here; got {planes} of {height}x{width}."
            )
        x = F.pad(x.to(self.rows.dtype), (0, 0, 0, 0, 0, self.planes - planes))
        # A plane of ones shows the convolutions where the board ends.
        x = torch.cat((x, torch.ones_like(x[:, :1])), 1)
        cells = F.relu(self.second(F.relu(self.first(x))))
        placed = cells + (self.rows[:height, None] + self.columns[None, :width]).permute(2, 0, 1)
        keys, values = self.keys_values(placed.flatten(2).transpose(1, 2)).chunk(2, -1)

        def split(tensor: Tensor) -> Tensor:
            return tensor.unflatten(-1, (self.heads, -1)).transpose(-3, -2)

        queries = split(self.queries).expand(n, -1, -1, -1)
        looked = F.scaled_dot_product_attention(queries, split(keys), split(values))
        tokens = self.project(looked.transpose(1, 2).flatten(2))
        return Encoded(tokens, self.all_present(tokens), {"cells": cells})


# -- the encoders of an agent -----------------------------------------------------------------------------------------


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


KEY_SIZE = 64


@contextmanager
def named_seed(*parts: int | str) -> Iterator[None]:
    """Draw the first weights of a part from a seed named by `parts`; random numbers outside the block are not affected.

    A part of a saved agent has its weights there, and may have no more of them (`saving.as_large_as_saved`).
    """
    with torch.random.fork_rng(devices=[]), limit_part_size():
        # `torch.manual_seed` would also note for each accelerator where it was called, which costs more than the seed.
        torch.default_generator.manual_seed(derive_seed(*parts))
        yield


def attempt(build: Callable[[Mapping[str, Any]], None], entry: Mapping[str, Any], strict: bool = False) -> None:
    """Build a part that the config names. If its plugin is missing, raise (`strict`), or warn and leave it out."""
    try:
        build(entry)
    except PluginError as error:
        if strict:
            raise
        warnings.warn(f"The part '{entry['name']}' is left out, its weights are kept: {error}", stacklevel=2)


def check_options(factory: Callable[..., Any], entry: Mapping[str, Any], first: Any) -> None:
    """Refuse options that a part does not take, or lacks; `first` is its first argument.

    Raises:
        PluginError: the message names the option.
    """
    try:
        signature(factory).bind(first, **entry["options"])
    except TypeError as error:
        raise PluginError(
            f"'{entry['name']}' cannot be made as {entry['part']} with the options {dict(entry['options'])}: {error}."
        ) from error


class EncoderHolder(nn.Module):
    """A module that has encoders: what `Agent` and `Describer` have in common.

    Attributes:
        config: has `width` and `seed`.
        device: where its encoders compute.
        encoders: by sense.
        key_projection: float32 [width, 64].
    """

    config: Any
    device: Any
    encoders: nn.ModuleDict
    key_projection: Tensor

    def build_encoder(self, entry: Mapping[str, Any]) -> None:
        """Build one encoder that the config names; PluginError if its plugin is missing."""
        factory = plugins.load("parts", entry["part"])
        check_options(factory, entry, self.config.width)
        with named_seed(self.config.seed, "encoder", entry["name"]):
            encoder = factory(self.config.width, **entry["options"])
        self.encoders[entry["name"]] = encoder.to(self.device)

    def add_key_projection(self) -> None:
        """Make the fixed projection that turns mean tokens into keys."""
        with limit_part_size():
            projection = torch.randn(self.config.width, KEY_SIZE, generator=torch_generator(self.config.seed, "key"))
        self.register_buffer("key_projection", projection)

    def encoder(self, sense: str) -> Encoder:
        """The encoder of `sense`; PluginError names the nearest if there is none."""
        if sense not in self.encoders:
            raise PluginError(f"This agent has no encoder for the sense '{sense}'{nearest(sense, self.encoders)}")
        return self.encoders[sense]  # type: ignore[return-value]

    @property
    def in_order(self) -> dict[str, Encoder]:
        """Encoders by sense, in the fixed order within a Moment: standard senses, then own ones as they were added.

        Senses that stream come last, since tokens that extend a Moment follow those that it began with.
        """
        # Each access to a child of a module is a search, and every tick needs the order several times.
        encoders: dict[str, Any] = dict(self.encoders.items())
        order = [sense for sense in STANDARD_SENSES if sense in encoders]
        order += [sense for sense in encoders if sense not in STANDARD_SENSES]
        return {sense: encoders[sense] for sense in sorted(order, key=lambda sense: encoders[sense].streams)}

    @property
    def sense_order(self) -> list[str]:
        """The senses in the order of `in_order`."""
        return list(self.in_order)

    @property
    def entering(self) -> list[str]:
        """The senses, in order, whose tokens are in the same Moment of the trunk."""
        return [sense for sense, encoder in self.in_order.items() if encoder.enters and not encoder.apart]

    @property
    def apart(self) -> list[str]:
        """The senses, in order, whose tokens go through the trunk by themselves."""
        return [sense for sense, encoder in self.in_order.items() if encoder.enters and encoder.apart]

    def encode_senses(
        self,
        senses: Mapping[str, Tensor],
        present: Mapping[str, Tensor] | None = None,
        previous: Mapping[str, tuple[Tensor, Tensor]] | None = None,
        names: Iterable[str] | None = None,
    ) -> dict[str, Encoded]:
        """Tokens of senses [*L, ...] over any leading dimensions, without the trunk.

        Args:
            present: bool [*L] by sense; a sense that is not named is present everywhere. An encoder with `of` or
                `beside` runs where those senses are present.
            previous: (last tick's readings [*L, ...], presence bool [*L]) by sense, for encoders that see change.
            names: the senses to encode; by default all that have an encoder.
        """
        chosen = None if names is None else set(names)
        encoded = {}
        for name, encoder in self.in_order.items():
            read, beside = encoder.of or name, encoder.beside or encoder.of or name
            if read not in senses or beside not in senses or (chosen is not None and name not in chosen):
                continue
            x = senses[read].to(self.device)
            is_present = torch.ones(x.shape[: x.ndim - encoder.sense_dims], dtype=torch.bool, device=x.device)
            for needed in {read, beside} & set(present or {}):
                is_present = is_present & (present or {})[needed].to(x.device)
            before = (previous or {}).get(name) if encoder.uses_previous else None
            value, known = (None, None) if before is None else (before[0].to(x.device), before[1].to(x.device))
            if read == "sound" and not encoder.counts_ears:
                x, value = both_ears(x), None if value is None else both_ears(value)
            encoded[name] = encode_rows(encoder, x, is_present, value, known)
        return encoded

    def key(self, encoded: Encoded) -> Tensor:
        """The key of an encoded sense, float32 [..., 64] of length 1: a fixed projection of the mean token.

        Zeros where the sense is absent.
        """
        mean = encoded.mean()
        return F.normalize((mean @ self.key_projection.to(mean.dtype)).float(), dim=-1)
