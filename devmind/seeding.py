"""Seeds are derived from names, not drawn in order, so a new part or lesson changes no other part's random numbers."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch

EXAM_SEEDS_FROM = 1_000_000
"""Lessons use world seeds below this number; exams use this number and those above (DESIGN, section 5)."""


def derive_seed(*parts: int | str) -> int:
    """A 63-bit seed from a sequence of names and numbers, for example `derive_seed(seed, "watch", update)`."""
    # NumPy's numbers and strings give the same seed as Python's.
    text = "\x1f".join(f"str:{part}" if isinstance(part, str) else f"int:{int(part)}" for part in parts)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") >> 1


def numpy_rng(*parts: int | str) -> np.random.Generator:
    """A NumPy generator named by `parts`."""
    return np.random.Generator(np.random.PCG64(derive_seed(*parts)))


def torch_generator(*parts: int | str, device: str | torch.device = "cpu") -> torch.Generator:
    """A torch generator named by `parts` on `device`."""
    import torch

    return torch.Generator(device=device).manual_seed(derive_seed(*parts))


def lesson_seeds(n: int, *parts: int | str) -> np.ndarray:
    """`n` world seeds for a lesson, int64 [n], all below `EXAM_SEEDS_FROM`."""
    return numpy_rng("lesson", *parts).integers(0, EXAM_SEEDS_FROM, n, dtype=np.int64)


def exam_seeds(n: int, *parts: int | str) -> np.ndarray:
    """`n` distinct world seeds for an exam, int64 [n], all at or above `EXAM_SEEDS_FROM`, named by `parts`."""
    start = EXAM_SEEDS_FROM + derive_seed("exam", *parts) % (2**31 - EXAM_SEEDS_FROM - n)
    return np.arange(start, start + n, dtype=np.int64)
