"""What long-term memory keeps of an example: one key a sense, and the finer features that names are fitted on.

A key is short (64 numbers) so that millions can be searched; averaging a picture's sixteen tokens into it loses where
things are, which tells digits apart. Names are fitted on few examples, so they can afford more: all tokens of a
picture, and of a sound how the ear's hidden layer is over time. Figures: docs/log.md, "Show and tell".
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from devmind.agent.agent import Agent
from devmind.agent.batch import collate_senses
from devmind.agent.encoders import Encoded
from devmind.moment import TICK_SAMPLES, Sense

VERSION = 1
"""Counts changes of what `describe` computes: it is part of the hash, so old keys are rebuilt."""


class Description(NamedTuple):
    """Of one sense: `vector` float32 [64] of length 1, `features` float32 [F] (F is the sense's own)."""

    vector: np.ndarray
    features: np.ndarray


@torch.no_grad()
def describe(agent: Agent, senses: Mapping[str, Sense]) -> dict[str, Description]:
    """Key and features of everything in `senses` that the agent has an encoder for.

    Nothing else goes in: no state and no earlier Moment, so the same payload is described alike at any time. Sound
    [C, S] of any length is heard tick by tick; less than a whole last tick is left out.
    """
    described = {}
    for name in agent.sense_order:
        value = senses.get(name)
        if value is not None and not (isinstance(value, str) and value == ""):
            rows = [{name: part} for part in _ticks(name, value)]
            stacked = collate_senses([rows])
            encoded = agent.encode_senses(stacked["senses"], stacked["present"])[name].map(lambda x: x[0])
            vector = F.normalize(agent.key(encoded).mean(0), dim=-1)
            described[name] = Description(vector.cpu().numpy(), _features(encoded).float().cpu().numpy())
    return described


def encoder_hashes(agent: Agent) -> dict[str, str]:
    """What the keys of each sense are made with, 32 hexadecimal digits: its encoder's weights and the projection."""
    projection = agent.sha256("key_projection")
    texts = {sense: f"{VERSION} {projection} {agent.sha256(f'encoders.{sense}.')}" for sense in agent.sense_order}
    return {sense: hashlib.sha256(text.encode()).hexdigest()[:32] for sense, text in texts.items()}


def _ticks(name: str, value: Sense) -> Sequence[Sense]:
    """A sound as its ticks [C, 1600], anything else as it is."""
    if name != "sound" or isinstance(value, str) or value.shape[1] < 2 * TICK_SAMPLES:
        return [value]
    whole = value.shape[1] // TICK_SAMPLES
    return np.split(value[:, : whole * TICK_SAMPLES], whole, axis=1)


def _features(encoded: Encoded) -> Tensor:
    """Features [F] of one sense over T ticks: all tokens of a single reading; of a series mean, spread and change."""
    if "hidden" not in encoded.maps:
        return encoded.tokens.mean(0).flatten()
    frames = encoded.maps["hidden"].squeeze(2).transpose(1, 2).flatten(0, 1)
    change = frames.diff(dim=0).abs().mean(0)
    return torch.cat((frames.mean(0), frames.std(0, correction=0), change))
