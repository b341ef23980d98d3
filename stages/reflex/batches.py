"""Small helpers that make Batches of what the stage's lessons and exams show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from devmind.agent.batch import encode_words, pad_body


def one_tick(senses: Mapping[str, Tensor]) -> dict[str, Any]:
    """N unrelated Moments, senses [N, ...], as a Batch with T = 1."""
    return clip({name: value[:, None] for name, value in senses.items()})


def clip(senses: Mapping[str, Tensor]) -> dict[str, Any]:
    """N rows of T consecutive Moments, senses [N, T, ...], all present, the first one opening an episode."""
    n, ticks = next(iter(senses.values())).shape[:2]
    first = torch.zeros(n, ticks, dtype=torch.bool)
    first[:, 0] = True
    here = torch.ones(n, ticks, dtype=torch.bool)
    return {
        "senses": dict(senses),
        "present": {name: (value != 0).any(-1) if name == "words" else here for name, value in senses.items()},
        "first": first,
        "valid": here,
    }


def as_tensors(observation: Mapping[str, Any]) -> dict[str, Tensor]:
    """A vector world's observation, senses [N, ...], as tensors; words as bytes [N, 64]."""
    tensors = {}
    for name, value in observation.items():
        if name == "words":
            tensors[name] = torch.stack([torch.from_numpy(encode_words(text).copy()) for text in value])
        else:
            tensors[name] = torch.from_numpy(pad_body(value) if name == "body" else value)
    return tensors
