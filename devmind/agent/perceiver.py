"""From Batches and memories to tokens: the base class of Agent that runs its encoders on consecutive Moments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn

from devmind.agent.batch import RECALLED_BUDGET, Batch, to_device
from devmind.agent.config import AgentConfig
from devmind.agent.encoder_holder import named_seed
from devmind.agent.encoders import Encoded
from devmind.agent.parts import PartHolder
from devmind.agent.taps import Perceived, raw_vectors

AGE_SCALE = 16.0
"""Ages are encoded as log(1 + seconds) / 16, which is 1 at a hundred days, so that old ones do not dominate a token."""


class Perceiver(PartHolder):
    """Runs encoders on consecutive Moments and on recalled entries, without the trunk."""

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
        """Encode a Batch [B, T, ...].

        Encoders that use the previous tick get that of the same row, and `carried` for the first Moment.

        Args:
            names: the senses to encode; by default all that have an encoder.
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
        """Recalled entries as one token each, with type, rank and age: tokens [..., R, D], presence [..., R].

        A token is the mean over its entry's senses, each of which is the mean over its own tokens, so that a word has
        the same weight as a picture. The rank is the order of the entries: the most similar one first (for beliefs, the
        one that is named now).

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


_Readings = tuple[Tensor, Tensor]
"""Readings [B, T, ...] and their presence bool [B, T]; for one tick [B, ...] and [B]."""


def _done(batch: Batch, effector: str, last: _Readings | None) -> _Readings | None:
    """What was done with the effector in each Moment; None if it is not known, not even for the Moment before."""
    if effector in batch.get("actions", {}):
        return batch["actions"][effector], batch["acted"][effector]
    if last is None:
        return None
    rows, length = batch["first"].shape
    return last[0].new_zeros(rows, length, *last[0].shape[1:]), torch.zeros_like(batch["first"])


def _one_later(values: Tensor, present: Tensor, last: _Readings | None, first: Tensor) -> _Readings:
    """Values and presence shifted by one Moment; an episode's first Moment gets nothing."""
    value, known = last or (values[:, 0], torch.zeros_like(present[:, 0]))
    # A single tick may follow one with another picture size; the encoder resizes both.
    later = value[:, None] if values.shape[1] == 1 else torch.cat((value[:, None], values[:, :-1]), 1)
    return later, torch.cat((known[:, None], present[:, :-1]), 1) & ~first
