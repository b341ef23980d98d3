"""From readings to tokens: the layer of Agent that runs its encoders, and makes keys for memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from devmind.agent.batch import RECALLED_BUDGET, Batch, to_device
from devmind.agent.config import AgentConfig
from devmind.agent.encoders import Encoded, encode_rows
from devmind.agent.parts import PartHolder, named_seed
from devmind.agent.taps import Perceived
from devmind.seeding import torch_generator

KEY_SIZE = 64
AGE_SCALE = 16.0
"""Ages enter as log(1 + seconds) / 16, which is 1 at a hundred days: an old memory is no louder than what it holds."""


class Perceiver(PartHolder):
    """Encoders, recalled entries and keys; no trunk yet."""

    def __init__(self, config: AgentConfig) -> None:
        super().__init__(config)
        with named_seed(config.seed, "recalled"):
            self.recalled_type = nn.Parameter(torch.randn(config.width) * 0.3)
            self.age = nn.Linear(1, config.width)
        with named_seed(config.seed, "recalled rank"):
            self.recalled_rank = nn.Parameter(torch.randn(RECALLED_BUDGET, config.width) * 0.3)
        projection = torch.randn(config.width, KEY_SIZE, generator=torch_generator(config.seed, "key"))
        self.key_projection: Tensor
        self.register_buffer("key_projection", projection)

    def encode_senses(
        self,
        senses: Mapping[str, Tensor],
        present: Mapping[str, Tensor] | None = None,
        previous: Mapping[str, tuple[Tensor, Tensor]] | None = None,
        names: Iterable[str] | None = None,
    ) -> dict[str, Encoded]:
        """Tokens of senses [*L, ...] over any leading dimensions, without the trunk.

        Args:
            present: bool [*L] by sense; a sense not named is present everywhere.
            previous: (last tick's readings [*L, ...], presence bool [*L]) by sense, for encoders that see change.
            names: which senses to encode; by default all that have an encoder.
        """
        wanted = None if names is None else set(names)
        encoded = {}
        for name in self.sense_order:
            if name not in senses or (wanted is not None and name not in wanted):
                continue
            encoder, x = self.encoder(name), senses[name].to(self.device)
            here = (present or {}).get(name)
            if here is None:
                here = torch.ones(x.shape[: x.ndim - encoder.sense_dims], dtype=torch.bool, device=x.device)
            before = (previous or {}).get(name) if encoder.uses_previous else None
            value, known = (None, None) if before is None else (before[0].to(x.device), before[1].to(x.device))
            encoded[name] = encode_rows(encoder, x, here.to(x.device), value, known)
        return encoded

    def encode_batch(
        self,
        batch: Batch,
        names: Iterable[str] | None = None,
        carried: Mapping[str, tuple[Tensor, Tensor]] | None = None,
    ) -> Perceived:
        """Encode a Batch [B, T, ...]; the tick before a Moment is its row's last one, or `carried` before the first.

        Args:
            names: which senses; by default all that have an encoder.
            carried: readings [B, ...] and presence bool [B] of the tick before the batch, by sense.
        """
        previous = {}
        for name in self.sense_order:
            if name in batch["senses"] and self.encoder(name).uses_previous:
                x, here = batch["senses"][name], batch["present"][name]
                value, known = (carried or {}).get(name) or (x[:, 0], torch.zeros_like(here[:, 0]))
                # One tick alone may follow one of another picture size; the encoder brings both to its own.
                values = value[:, None] if x.shape[1] == 1 else torch.cat((value[:, None], x[:, :-1]), 1)
                knowns = torch.cat((known[:, None], here[:, :-1]), 1) & ~batch["first"]
                previous[name] = (values, knowns)
        encoded = self.encode_senses(batch["senses"], batch["present"], previous, names)
        return Perceived(encoded, batch["senses"].get("body"), batch["present"].get("body"))

    def encode_recalled(self, recalled: Batch) -> Encoded:
        """What memory gave, one token an entry, with type, rank and age: tokens [..., R, D], presence [..., R].

        The mean of its senses, each of which is the mean of its tokens: one word beside a picture is half of it. Its
        rank says what a store knows best: which entry is most like what is asked (or, of beliefs, is named just now).

        Args:
            recalled: from `collate_recalled`: senses [..., R, *], present and valid bool [..., R], age_s [..., R].
        """
        recalled = to_device(recalled, self.device)
        age = self.age(recalled["age_s"][..., None].clamp_min(0).log1p() / AGE_SCALE)
        total, count = torch.zeros_like(age), torch.zeros_like(age[..., :1])
        for encoded in self.encode_senses(recalled["senses"], recalled["present"]).values():
            weight = encoded.present[..., None].to(encoded.tokens.dtype)
            total = total + (encoded.tokens * weight).sum(-2) / weight.sum(-2).clamp_min(1)
            count = count + weight.amax(-2)
        tokens = total / count.clamp_min(1) + age + self.recalled_type + self.recalled_rank[: age.shape[-2]]
        return Encoded(tokens, recalled["valid"] & (count[..., 0] > 0))

    def key(self, encoded: Encoded) -> Tensor:
        """The key of an encoded sense, float32 [..., 64] of length 1: a fixed projection of the mean token.

        Zeros where the sense is absent.
        """
        weight = encoded.present[..., None].to(encoded.tokens.dtype)
        mean = (encoded.tokens * weight).sum(-2) / weight.sum(-2).clamp_min(1)
        return F.normalize((mean @ self.key_projection.to(mean.dtype)).float(), dim=-1)
