"""From Batches and memories to tokens: the layer of Agent that runs its encoders on consecutive Moments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn

from devmind.agent.batch import RECALLED_BUDGET, Batch, to_device
from devmind.agent.config import AgentConfig
from devmind.agent.encoders import Encoded
from devmind.agent.parts import PartHolder
from devmind.agent.sensing import named_seed
from devmind.agent.taps import Perceived, raw_vectors

AGE_SCALE = 16.0
"""Ages enter as log(1 + seconds) / 16, which is 1 at a hundred days: an old memory is no louder than what it holds."""


class Perceiver(PartHolder):
    """Encoders with the tick before, recalled entries; no trunk yet."""

    def __init__(self, config: AgentConfig) -> None:
        super().__init__(config)
        with named_seed(config.seed, "recalled"):
            self.recalled_type = nn.Parameter(torch.randn(config.width) * 0.3)
            self.age = nn.Linear(1, config.width)
        with named_seed(config.seed, "recalled rank"):
            self.recalled_rank = nn.Parameter(torch.randn(RECALLED_BUDGET, config.width) * 0.3)
        self.add_key_projection()

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
        previous, senses, present = {}, dict(batch["senses"]), dict(batch["present"])
        for name, encoder in self.in_order.items():
            last = (carried or {}).get(name)
            if encoder.effector is not None:
                senses.pop(name, None)
                done = _done(batch, encoder.effector, last)
                if done is not None:
                    senses[name], present[name] = _one_later(*done, last, batch["first"])
            elif encoder.uses_previous and (read := encoder.of or name) in senses:
                previous[name] = _one_later(senses[read], present[read], last, batch["first"])
        encoded = self.encode_senses(senses, present, previous, names)
        return Perceived(encoded, raw_vectors(batch["senses"], batch["present"], self.raw_senses))

    def encode_recalled(self, recalled: Batch) -> Encoded:
        """What memory gave, one token an entry, with type, rank and age: tokens [..., R, D], presence [..., R].

        A token is the mean over the entry's senses, each the mean of its own tokens: one word beside a picture is half
        of it. The rank says what a store knows best: which entry is most like what is asked (or, of beliefs, is named
        just now).

        Args:
            recalled: from `collate_recalled`: senses [..., R, *], present and valid bool [..., R], age_s [..., R].
        """
        recalled = to_device(recalled, self.device)
        age = self.age(recalled["age_s"][..., None].clamp_min(0).log1p() / AGE_SCALE)
        total, count = torch.zeros_like(age), torch.zeros_like(age[..., :1])
        for encoded in self.encode_senses(recalled["senses"], recalled["present"], names=self.entering).values():
            total = total + encoded.mean()
            count = count + encoded.present.any(-1, keepdim=True)
        tokens = total / count.clamp_min(1) + age + self.recalled_type + self.recalled_rank[: age.shape[-2]]
        return Encoded(tokens, recalled["valid"] & (count[..., 0] > 0))


_Kept = tuple[Tensor, Tensor]
"""Readings [B, T, ...] (of one tick [B, ...]) and presence bool [B, T] ([B])."""


def _done(batch: Batch, effector: str, last: _Kept | None) -> _Kept | None:
    """What was done with the effector in each Moment; None when nobody knows, not even of the Moment before."""
    if effector in batch.get("actions", {}):
        return batch["actions"][effector], batch["acted"][effector]
    if last is None:
        return None
    rows, length = batch["first"].shape
    return last[0].new_zeros(rows, length, *last[0].shape[1:]), torch.zeros_like(batch["first"])


def _one_later(values: Tensor, here: Tensor, last: _Kept | None, first: Tensor) -> _Kept:
    """Each Moment is given what the one before it had; an episode's first Moment is given nothing."""
    value, known = last or (values[:, 0], torch.zeros_like(here[:, 0]))
    # One tick alone may follow one of another picture size; the encoder brings both to its own.
    later = value[:, None] if values.shape[1] == 1 else torch.cat((value[:, None], values[:, :-1]), 1)
    return later, torch.cat((known[:, None], here[:, :-1]), 1) & ~first
