"""Four things in view, such that neither the colour nor the noun alone tells which one is meant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from devmind.curriculum.stage import Context
from devmind.seeding import numpy_rng
from devmind.worlds.nursery.in_cells import CELLS
from stages.language.caregiver.scene import PAIRS, Pair, name_of
from stages.language.caregiver.views import Views, views

THINGS = 4


@dataclass
class Scenes(Views):
    """N pictures of four things, of which one is meant.

    Attributes:
        target: which is meant, int64 [N]; it is in the centre of the picture if the child looks at it.
    """

    target: np.ndarray

    @property
    def names(self) -> list[str]:
        """What the meant things are called: 'red ball'."""
        return [name_of(*pair) for pair in self.meant.tolist()]

    @property
    def meant(self) -> np.ndarray:
        """Colour and noun of the meant things, int64 [N, 2]."""
        return self.pairs[np.arange(len(self.target)), self.target]


def scenes(
    context: Context, seeds: np.ndarray, targets: Sequence[Pair], others: Sequence[Pair], looked_at: np.ndarray
) -> Scenes:
    """A scene for each of seeds int64 [N].

    Args:
        targets: pairs from which the meant one is drawn; others: pairs that may stand beside it. One of these has its
            colour and one its noun, as far as `others` allow.
        looked_at: bool [N]: the child looks at what is meant, instead of straight ahead.
    """
    drawn = [_draw_scene(seed, targets, others) for seed in seeds.tolist()]
    pairs, cells, target = (np.stack(column) for column in zip(*drawn, strict=True))
    drawn_views = views(context, seeds, pairs, cells, np.where(looked_at, target, -1))
    return Scenes(**vars(drawn_views), target=target)


def _draw_scene(seed: int, targets: Sequence[Pair], others: Sequence[Pair]) -> tuple[np.ndarray, np.ndarray, np.int64]:
    """Four different pairs int64 [4, 2], their cells [4], and which of them is meant, from a seed."""
    rng = numpy_rng("name", seed)
    chosen = [targets[int(rng.integers(len(targets)))]]
    colour, noun = chosen[0]
    candidates = ([p for p in others if p[0] == colour], [p for p in others if p[1] == noun], list(others))
    for options in candidates:
        left = [pair for pair in options if pair not in chosen] or [pair for pair in PAIRS if pair not in chosen]
        chosen.append(left[int(rng.integers(len(left)))])
    order = rng.permutation(THINGS)
    cells = rng.choice(CELLS, THINGS, replace=False)
    return np.array([chosen[at] for at in order]), cells, np.int64(np.flatnonzero(order == 0)[0])
