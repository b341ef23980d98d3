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

import torch
from torch import Tensor
from torch.nn import functional as F

from devmind.agent.batch import BODY_SIZE, Batch
from devmind.agent.encoders import Encoded
from devmind.errors import MomentError

Tap = str | Sequence[str]


@dataclass
class Tapped:
    """What a head reads: tokens [..., K, D], their presence bool [..., K], and the maps [..., C, H, W] of a sense.

    `known` int64 [..., K] is set if raw numbers are tapped: how many numbers come before the first that is NaN or
    infinite (such numbers are 0 in the tokens). For other tokens it is 0.
    """

    tokens: Tensor
    present: Tensor
    maps: Mapping[str, Tensor] = field(default_factory=dict)
    known: Tensor | None = None

    def map(self, function: Callable[[Tensor], Tensor]) -> Tapped:
        """`function` applied to every tensor."""
        maps = {name: function(value) for name, value in self.maps.items()}
        known = None if self.known is None else function(self.known)
        return Tapped(function(self.tokens), function(self.present), maps, known)


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


def tap_parts(tap: Tap) -> tuple[str, ...]:
    """The parts of a tap: the members of a tuple, or the tap itself."""
    return (tap,) if isinstance(tap, str) else tuple(tap)


def taps_trunk(tap: Tap) -> bool:
    """Whether a head with this tap needs the trunk."""
    return any(part == "trunk" or part.startswith("trunk:") for part in tap_parts(tap))


def sense_of(part: str) -> str | None:
    """The sense whose tokens, or trunk features, a part of a tap reads; None for the readout and raw senses."""
    return None if part == "trunk" or part.startswith("raw:") else part.removeprefix("trunk:")


def raw_sense(part: str) -> str | None:
    """The sense that a part of a tap reads raw; None for all other parts."""
    return part.removeprefix("raw:") if part.startswith("raw:") else None


def can_read(tap: Tap, senses: Container[str]) -> bool:
    """Whether a head with this tap has anything to read if only these senses are present."""
    needs = [sense for part in tap_parts(tap) if (sense := raw_sense(part) or sense_of(part))]
    return not needs or any(sense in senses for sense in needs)


def tapped_senses(tap: Tap) -> tuple[str, ...]:
    """The senses whose encoder tokens a tap reads; none for the trunk and for raw senses."""
    return tuple(part for part in tap_parts(tap) if not taps_trunk(part) and not part.startswith("raw:"))


def read_tap(tap: Tap, seen: Perceived, n_tokens: Mapping[str, int]) -> Tapped | None:
    """What a head with this tap reads, or None if none of it was sensed (or the trunk was not run).

    Args:
        n_tokens: number of tokens by sense, for senses of a tuple that were not sensed.
    """
    parts = tap_parts(tap)
    found = [_read_part(part, seen) for part in parts]
    if taps_trunk(tap) and seen.readout is None and "trunk" in parts:
        return None
    here = [each for part, each in zip(parts, found, strict=True) if each is not None and sense_of(part) is not None]
    if parts == ("trunk",) or (len(parts) == 1 and raw_sense(parts[0])):
        return found[0]
    if all(raw_sense(part) for part in parts):
        here = sorted((each for each in found if each is not None), key=lambda each: -each.tokens.shape[-1])
    if not here:
        return None
    if len(parts) == 1:
        return here[0]
    like = here[0]
    tokens, present, known = [], [], []
    for part, each in zip(parts, found, strict=True):
        shape = (*like.present.shape[:-1], n_tokens.get(sense_of(part) or "", 1))
        width = like.tokens.shape[-1]
        tokens.append(
            F.pad(each.tokens, (0, width - each.tokens.shape[-1])) if each else like.tokens.new_zeros(*shape, width)
        )
        present.append(each.present if each else like.present.new_zeros(shape))
        counted = None if each is None else each.known
        known.append(like.present.new_zeros(shape, dtype=torch.int64) if counted is None else counted)
    maps = {name: value for each in here for name, value in each.maps.items()}
    raw = any(raw_sense(part) for part in parts)
    return Tapped(torch.cat(tokens, -2), torch.cat(present, -1), maps, torch.cat(known, -1) if raw else None)


def _read_part(part: str, seen: Perceived) -> Tapped | None:
    if part == "trunk":
        if seen.readout is None:
            return None
        ones = torch.ones(*seen.readout.shape[:-1], 1, dtype=torch.bool, device=seen.readout.device)
        return Tapped(seen.readout[..., None, :], ones)
    if (sense := raw_sense(part)) is not None:
        return _read_raw(sense, seen)
    on_trunk = part.startswith("trunk:")
    found = (seen.of_senses if on_trunk else seen.encoded).get(part.removeprefix("trunk:"))
    if found is None:
        return None
    return Tapped(found.tokens, found.present, {} if on_trunk else found.maps)


def _read_raw(sense: str, seen: Perceived) -> Tapped | None:
    if sense not in seen.raw:
        return None
    value, present = seen.raw[sense]
    finite = value.isfinite()
    numbers = F.pad(torch.where(finite, value, 0.0).float(), (0, max(0, BODY_SIZE - value.shape[-1])))
    if present is None:
        present = torch.ones(numbers.shape[:-1], dtype=torch.bool, device=numbers.device)
    known = finite.long().cumprod(-1).sum(-1)
    return Tapped(numbers[..., None, :], present[..., None], known=known[..., None])
