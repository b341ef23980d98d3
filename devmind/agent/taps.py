"""Taps say which features a head reads.

"trunk"            the readout's feature
"trunk:<sense>"    the trunk's features of that sense's tokens
"<sense>"          the tokens of that sense's encoder, which makes the head a reflex arc
"trunk:recalled"   the trunk's features of recalled memories, the most similar first; absent if none was recalled
"raw:<sense>"      the numbers of a vector sense (such as the body) themselves, padded to 16

A tuple concatenates the tokens of its members and gives the maps of its senses. Raw numbers are padded to the width of
the other tokens, or, if all members are raw, to the width of the longest one that is present.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor
from torch.nn import functional as F

from devmind.agent.batch import BODY_SIZE, Batch
from devmind.agent.encoders import Encoded
from devmind.errors import MomentError

TapSpec = str | Sequence[str]
"""A tap as it is written: its one part, or its parts."""


@dataclass
class Tapped:
    """What a head reads: tokens [..., K, D], their presence bool [..., K], and the maps [..., C, H, W] of a sense.

    `known` int64 [..., K] is set if raw numbers are tapped: how many numbers come before the first that is NaN or
    infinite (such numbers are 0 in the tokens). For other tokens it is 0.

    `generator` is for heads that draw random numbers before they answer, as for a plan; None: what is tapped determines
    these numbers, so that rows are independent and a replay repeats them.
    """

    tokens: Tensor
    present: Tensor
    maps: Mapping[str, Tensor] = field(default_factory=dict)
    known: Tensor | None = None
    generator: torch.Generator | None = None

    def map(self, function: Callable[[Tensor], Tensor]) -> Tapped:
        """`function` applied to every tensor."""
        maps = {name: function(value) for name, value in self.maps.items()}
        known = None if self.known is None else function(self.known)
        return Tapped(function(self.tokens), function(self.present), maps, known, self.generator)


@dataclass
class Perceived:
    """All that taps may read of Moments [...]: [B, T] in a batch, [B] in a tick.

    Attributes:
        encoded: the encoders' tokens by sense.
        raw: readings [..., K] of senses that are tapped raw, and their presence bool [...] (None: everywhere).
        readout: the readout's feature [..., D], once the trunk has been run.
        of_senses: the trunk's features of each sense's tokens, and of recalled memories (RECALLED).
    """

    encoded: dict[str, Encoded]
    raw: Mapping[str, tuple[Tensor, Tensor | None]] = field(default_factory=dict)
    readout: Tensor | None = None
    of_senses: dict[str, Encoded] = field(default_factory=dict)

    def without_maps(self) -> Perceived:
        """A copy without maps, which only dense heads read and which take five sixths of the memory."""
        tokens = {name: Encoded(one.tokens, one.present) for name, one in self.encoded.items()}
        return Perceived(tokens, self.raw, self.readout, self.of_senses)

    def map(self, function: Callable[[Tensor], Tensor]) -> Perceived:
        """`function` applied to every tensor."""

        def each(senses: Mapping[str, Encoded]) -> dict[str, Encoded]:
            return {name: encoded.map(function) for name, encoded in senses.items()}

        def maybe(tensor: Tensor | None) -> Tensor | None:
            return None if tensor is None else function(tensor)

        raw = {name: (function(value), maybe(here)) for name, (value, here) in self.raw.items()}
        return Perceived(each(self.encoded), raw, maybe(self.readout), each(self.of_senses))


@dataclass
class Percepts:
    """One encoded tick of B agents: the input of arcs and trunk, and the keys for searching memory.

    Attributes:
        seen: tokens, presence and maps by sense.
        keys: L2-normalised float32 [B, 64] by sense; zeros where the sense is absent. Encoders `of` another sense have
            none.
        batch: the tick itself, with T = 1.
    """

    seen: Perceived
    keys: dict[str, Tensor]
    batch: Batch

    @property
    def encoded(self) -> dict[str, Encoded]:
        """Tokens [B, K, D], presence and maps by sense."""
        return self.seen.encoded


def raw_vectors(
    senses: Mapping[str, Tensor], present: Mapping[str, Tensor], sizes: Mapping[str, int]
) -> dict[str, tuple[Tensor, Tensor | None]]:
    """`Perceived.raw` for the senses in `sizes`: readings [..., K] and their presence.

    Raises:
        MomentError: a reading has more numbers than `sizes` allows.
    """
    found = {name: (value, present.get(name)) for name, value in senses.items() if name in sizes}
    for name, (value, _) in found.items():
        if value.shape[-1] > sizes[name]:
            raise MomentError(
                f"The sense '{name}', tapped raw, may have up to {sizes[name]} numbers; got {value.shape[-1]}."
            )
    return found


@dataclass(frozen=True)
class TapPart:
    """One part of a tap.

    Attributes:
        spec: the part as it is written.
        sense: the sense that it reads, or RECALLED; None for the readout.
        on_trunk: it reads the trunk's features; raw: it reads the numbers themselves.
        n_tokens: number of its tokens, which stand for it among others where it was not sensed.
    """

    spec: str
    sense: str | None
    on_trunk: bool = False
    raw: bool = False
    n_tokens: int = 1

    def read(self, seen: Perceived) -> Tapped | None:
        """What this part reads; None if it was not sensed, or the trunk was not run."""
        if self.sense is None:
            if seen.readout is None:
                return None
            ones = torch.ones(*seen.readout.shape[:-1], 1, dtype=torch.bool, device=seen.readout.device)
            return Tapped(seen.readout[..., None, :], ones)
        if self.raw:
            return _read_raw(*seen.raw[self.sense]) if self.sense in seen.raw else None
        found = (seen.of_senses if self.on_trunk else seen.encoded).get(self.sense)
        return None if found is None else Tapped(found.tokens, found.present, {} if self.on_trunk else found.maps)


@dataclass(frozen=True)
class Tap:
    """What a head reads, parsed once, when the head is added.

    Attributes:
        on_trunk: it needs the trunk.
        senses: those whose tokens, or trunk features, it reads; `encoded` those of whose encoder it reads the tokens,
            `raw` those whose numbers it reads.
    """

    parts: tuple[TapPart, ...]

    @classmethod
    def of(cls, spec: Tap | TapSpec, tokens_of: Callable[[str], int] = lambda sense: 1) -> Tap:
        """The tap that `spec` says.

        Args:
            tokens_of: the number of tokens of a sense, which matters for a tap of several parts.
        """
        if isinstance(spec, Tap):
            return spec
        parts = list[TapPart]()
        for part in (spec,) if isinstance(spec, str) else tuple(spec):
            if part == "trunk":
                parts.append(TapPart(part, None, on_trunk=True))
            elif part.startswith("raw:"):
                parts.append(TapPart(part, part.removeprefix("raw:"), raw=True))
            else:
                on_trunk = part.startswith("trunk:")
                sense = part.removeprefix("trunk:")
                parts.append(TapPart(part, sense, on_trunk, n_tokens=tokens_of(sense)))
        return cls(tuple(parts))

    def __str__(self) -> str:
        return ", ".join(part.spec for part in self.parts)

    @cached_property
    def on_trunk(self) -> bool:
        return any(part.on_trunk for part in self.parts)

    @cached_property
    def senses(self) -> tuple[str, ...]:
        return tuple(part.sense for part in self.parts if part.sense is not None and not part.raw)

    @cached_property
    def encoded(self) -> tuple[str, ...]:
        return tuple(part.sense for part in self.parts if part.sense is not None and not (part.raw or part.on_trunk))

    @cached_property
    def raw(self) -> tuple[str, ...]:
        return tuple(part.sense for part in self.parts if part.sense is not None and part.raw)

    def can_read(self, senses: Container[str]) -> bool:
        """Whether there is anything to read if only these senses are present."""
        needs = (*self.senses, *self.raw)
        return not needs or any(sense in senses for sense in needs)

    def read(self, seen: Perceived) -> Tapped | None:
        """What a head with this tap reads; None if none of it was sensed (or the trunk was not run)."""
        found = [part.read(seen) for part in self.parts]
        if len(found) == 1:
            return found[0]
        pairs = list(zip(self.parts, found, strict=True))
        if any(part.sense is None and each is None for part, each in pairs):
            return None
        if len(self.raw) == len(self.parts):
            here = sorted((each for each in found if each is not None), key=lambda each: -each.tokens.shape[-1])
        else:
            here = [each for part, each in pairs if each is not None and part.sense is not None and not part.raw]
        if not here:
            return None
        like = here[0]
        tokens, present, known = [], [], []
        for part, each in pairs:
            shape = (*like.present.shape[:-1], part.n_tokens)
            width = like.tokens.shape[-1]
            if each is None:
                tokens.append(like.tokens.new_zeros(*shape, width))
                present.append(like.present.new_zeros(shape))
            else:
                tokens.append(F.pad(each.tokens, (0, width - each.tokens.shape[-1])))
                present.append(each.present)
            counted = None if each is None else each.known
            known.append(like.present.new_zeros(shape, dtype=torch.int64) if counted is None else counted)
        maps = {name: value for each in here for name, value in each.maps.items()}
        return Tapped(torch.cat(tokens, -2), torch.cat(present, -1), maps, torch.cat(known, -1) if self.raw else None)


def _read_raw(value: Tensor, present: Tensor | None) -> Tapped:
    finite = value.isfinite()
    numbers = F.pad(torch.where(finite, value, 0.0).float(), (0, max(0, BODY_SIZE - value.shape[-1])))
    if present is None:
        present = torch.ones(numbers.shape[:-1], dtype=torch.bool, device=numbers.device)
    known = finite.long().cumprod(-1).sum(-1)
    return Tapped(numbers[..., None, :], present[..., None], known=known[..., None])
