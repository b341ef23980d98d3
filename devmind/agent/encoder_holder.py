"""From readings to tokens and keys: the encoders of an agent by name, without its other parts.

Code that uses neither trunk nor heads (naming files, searching memory with a picture) imports only this file and torch.
The other parts need transformers, which takes seconds to import. Every part draws its first weights from a seed of its
own name, so a new part leaves all others bit-identical.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from devmind import plugins
from devmind.agent.batch import both_ears
from devmind.agent.encoders import Encoded, Encoder, encode_rows
from devmind.agent.saving import allowed
from devmind.errors import PluginError, nearest
from devmind.moment import STANDARD_SENSES
from devmind.seeding import derive_seed, torch_generator

KEY_SIZE = 64


@contextmanager
def named_seed(*parts: int | str) -> Iterator[None]:
    """Draw the first weights of a part from a seed named by `parts`; random numbers outside the block are not affected.

    A part of a saved agent has its weights there, and may have no more of them (`saving.as_large_as_saved`).
    """
    with torch.random.fork_rng(devices=[]), allowed():
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
        with allowed():
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
