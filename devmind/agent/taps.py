"""Taps: where a head reads what it answers from.

"trunk"            the readout's feature
"trunk:<sense>"    the trunk's features of that sense's tokens
"<sense>"          that sense's encoder tokens: a reflex arc
"raw:body"         the numbers of the body itself, padded to 16

A tuple of the first three lays theirs side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import functional as F

from devmind.agent.batch import BODY_SIZE
from devmind.agent.encoders import Encoded

Tap = str | Sequence[str]


@dataclass
class Tapped:
    """What a head reads: tokens [..., K, D], their presence bool [..., K], and a sense's maps [..., C, H, W]."""

    tokens: Tensor
    present: Tensor
    maps: Mapping[str, Tensor] = field(default_factory=dict)

    def map(self, function: Callable[[Tensor], Tensor]) -> Tapped:
        """`function` applied to every tensor."""
        maps = {name: function(value) for name, value in self.maps.items()}
        return Tapped(function(self.tokens), function(self.present), maps)


@dataclass
class Perceived:
    """All that taps may read of Moments [...]: [B, T] in a batch, [B] in a tick.

    Attributes:
        encoded: what the encoders made of each sense.
        body: the raw body [..., K], if there is one, and where it is present, bool [...].
        readout: the trunk's feature [..., D], once the trunk was run.
        of_senses: the trunk's features of each sense's tokens.
    """

    encoded: dict[str, Encoded]
    body: Tensor | None = None
    body_present: Tensor | None = None
    readout: Tensor | None = None
    of_senses: dict[str, Encoded] = field(default_factory=dict)

    def map(self, function: Callable[[Tensor], Tensor]) -> Perceived:
        """`function` applied to every tensor."""

        def each(senses: Mapping[str, Encoded]) -> dict[str, Encoded]:
            return {name: encoded.map(function) for name, encoded in senses.items()}

        def maybe(tensor: Tensor | None) -> Tensor | None:
            return None if tensor is None else function(tensor)

        return Perceived(
            each(self.encoded), maybe(self.body), maybe(self.body_present), maybe(self.readout), each(self.of_senses)
        )


def tap_parts(tap: Tap) -> tuple[str, ...]:
    """What a tap lays side by side: a tuple's members, or the tap itself."""
    return (tap,) if isinstance(tap, str) else tuple(tap)


def taps_trunk(tap: Tap) -> bool:
    """Whether a head with this tap needs the trunk."""
    return any(part == "trunk" or part.startswith("trunk:") for part in tap_parts(tap))


def sense_of(part: str) -> str | None:
    """The sense whose tokens, or the trunk's features of them, a part of a tap reads; None for readout and raw body."""
    return None if part == "trunk" or part.startswith("raw:") else part.removeprefix("trunk:")


def can_read(tap: Tap, senses: Container[str]) -> bool:
    """Whether a head with this tap has anything to read where only these senses are sensed."""
    needs = [sense for part in tap_parts(tap) if (sense := "body" if part == "raw:body" else sense_of(part))]
    return not needs or any(sense in senses for sense in needs)


def tapped_senses(tap: Tap) -> tuple[str, ...]:
    """The senses whose encoder tokens a tap reads; none for the trunk and for raw senses."""
    return tuple(part for part in tap_parts(tap) if not taps_trunk(part) and not part.startswith("raw:"))


def read_tap(tap: Tap, seen: Perceived, n_tokens: Mapping[str, int]) -> Tapped | None:
    """What a head with this tap reads, or None when nothing of it was sensed (or the trunk was not run).

    Args:
        n_tokens: how many tokens each sense has, for those of a tuple that were not sensed.
    """
    if tap == "raw:body":
        return _read_body(seen)
    parts = tap_parts(tap)
    found = [_read_part(part, seen) for part in parts]
    if taps_trunk(tap) and seen.readout is None and "trunk" in parts:
        return None
    here = [each for part, each in zip(parts, found, strict=True) if each is not None and sense_of(part) is not None]
    if parts == ("trunk",):
        return found[0]
    if not here:
        return None
    if len(parts) == 1:
        return here[0]
    like = here[0]
    tokens, present = [], []
    for part, each in zip(parts, found, strict=True):
        shape = (*like.present.shape[:-1], n_tokens.get(sense_of(part) or "", 1))
        tokens.append(each.tokens if each else like.tokens.new_zeros(*shape, like.tokens.shape[-1]))
        present.append(each.present if each else like.present.new_zeros(shape))
    return Tapped(torch.cat(tokens, -2), torch.cat(present, -1))


def _read_part(part: str, seen: Perceived) -> Tapped | None:
    if part == "trunk":
        if seen.readout is None:
            return None
        ones = torch.ones(*seen.readout.shape[:-1], 1, dtype=torch.bool, device=seen.readout.device)
        return Tapped(seen.readout[..., None, :], ones)
    on_trunk = part.startswith("trunk:")
    found = (seen.of_senses if on_trunk else seen.encoded).get(part.removeprefix("trunk:"))
    if found is None:
        return None
    return Tapped(found.tokens, found.present, {} if on_trunk else found.maps)


def _read_body(seen: Perceived) -> Tapped | None:
    if seen.body is None:
        return None
    body = F.pad(seen.body.float().nan_to_num(0.0), (0, BODY_SIZE - seen.body.shape[-1]))
    present = seen.body_present
    if present is None:
        present = torch.ones(body.shape[:-1], dtype=torch.bool, device=body.device)
    return Tapped(body[..., None, :], present[..., None])
