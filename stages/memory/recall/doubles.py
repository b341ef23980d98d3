"""Lives in which every thing has a double for each sense, so that a name can be told only by sight and sound together.

Twelve things are three groups of four: two looks times two tones. Within a group the looks have one shape, texture and
size and differ in colour; the tones have one timbre and differ in pitch. So each thing looks exactly like one other
thing of its life and sounds exactly like a third. Who goes by one sense has two things to choose from, and is right in
half of the cases.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from devmind.seeding import numpy_rng
from devmind.worlds.nursery.looks import LARGEST_M, SMALLEST_M
from devmind.worlds.nursery.state import COLOUR_NAMES, SHAPES
from stages.memory.recall.things import HELD_OUT, NAMES, SIZES_M, Lives

GROUP = 4
APART = 1.25
"""Least ratio of the two pitches of a group, a major third: pitch is inverse to size."""
BY_ONE_SENSE = 0.5
"""The share that can be told by one sense alone, however good it is."""


@dataclass(frozen=True)
class Doubles(Lives):
    """Lives of groups of doubles.

    Attributes:
        pitch_m: the size, [N, P], whose pitch each thing has. The tone of two things of a group is that of another
            size than their own.
    """

    pitch_m: np.ndarray

    @property
    def tone_m(self) -> np.ndarray:
        """The size that each thing sounds like, in metres [N, P]."""
        return self.pitch_m


def doubles(seeds: np.ndarray, groups: int, others: int) -> Doubles:
    """Lives of seeds int64 [N], each a function of its own seed: `groups` times four things in random order, then
    `others` things without doubles.

    All looks are HELD_OUT of the lessons of names. Things of a group have different names.
    """
    by_life = [_life(numpy_rng("doubles", seed), groups, others) for seed in seeds.tolist()]
    kind, size_m, pitch_m, answer = (np.stack(column) for column in zip(*by_life, strict=True))
    shapes, colours = len(SHAPES), len(COLOUR_NAMES)
    return Doubles(
        np.asarray(seeds, np.int64),
        kind % shapes,
        kind // shapes % colours,
        kind // (shapes * colours),
        size_m,
        answer,
        pitch_m,
    )


def _life(rng: np.random.Generator, groups: int, others: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Kinds, sizes, sizes of the pitches, and names of one life, each [P]."""
    rows: list[tuple[int, float, float, int]] = []
    alike = rng.permutation(_alike())
    for looks in alike[:groups]:
        size, low = rng.uniform(*SIZES_M), rng.uniform(SMALLEST_M, LARGEST_M / APART)
        names = iter(rng.permutation(len(NAMES))[:GROUP].tolist())
        for pitch in (low, rng.uniform(low * APART, LARGEST_M)):
            rows += [(kind, size, pitch, next(names)) for kind in looks.tolist()]
    rows = [rows[at] for at in rng.permutation(len(rows))]
    for kind in rng.permutation(alike[groups:].reshape(-1))[:others].tolist():
        size = rng.uniform(*SIZES_M)
        rows.append((kind, size, size, int(rng.integers(len(NAMES)))))
    kinds, sizes, pitches, answers = (np.array(column) for column in zip(*rows, strict=True))
    return kinds, sizes, pitches, answers


def _alike() -> np.ndarray:
    """The kinds of HELD_OUT by shape and texture, int64 [12, 2]: those of a row differ in colour alone."""
    by_body: dict[tuple[int, int], list[int]] = {}
    for kind in HELD_OUT.tolist():
        by_body.setdefault((kind % len(SHAPES), kind // (len(SHAPES) * len(COLOUR_NAMES))), []).append(kind)
    return np.array(list(by_body.values()))
