"""Referential games: the caregiver means one of four things and says all or part of its name; the agent may ask back.

See Lewis (1969, "Convention") and Clark and Wilkes-Gibbs (1986, Cognition 22). "Where is the ball?" is clear if there
is one ball, and leaves it open if there are two; so does "where is the red one?". If she is asked, she says the word
that she left out. Her pauses, and how she follows the child's gaze, are in `caregiver/turns.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from devmind.curriculum.stage import Context
from devmind.seeding import numpy_rng
from devmind.worlds.nursery.in_cells import CELLS
from stages.language.caregiver.scene import COLOURS, NOUNS, Pair, name_of
from stages.language.caregiver.turns import pause
from stages.language.caregiver.views import Views, views
from stages.language.name.scenes import THINGS

COLOUR, NOUN = 0, 1
"""Indices of the words of a pair."""
SAID: Sequence[tuple[tuple[int, ...], bool, float]] = (
    ((COLOUR, NOUN), True, 0.2),
    ((NOUN,), True, 0.2),
    ((COLOUR,), True, 0.2),
    ((NOUN,), False, 0.2),
    ((COLOUR,), False, 0.2),
)
"""Which words she says first, whether they single out one thing, and the share of such games."""


@dataclass
class Games(Views):
    """N pictures of four things, of which she means one.

    Attributes:
        target: the thing that she means, int64 [N].
        kind: the row of SAID of each game, int64 [N].
        seeds: of the rooms, int64 [N]; cells: where the things stand, int64 [N, 4].
        silent: Moments of her pause between the two turns, int64 [N].
    """

    target: np.ndarray
    kind: np.ndarray
    seeds: np.ndarray
    cells: np.ndarray
    silent: np.ndarray

    def seen_by(self, context: Context, looks_at: np.ndarray, rows: np.ndarray | None = None) -> Views:
        """These of the games, by default all, as the child sees them when it looks at one of the things, int64 [n]; -1:
        straight ahead, as in her turns.
        """
        rows = np.arange(len(self.target)) if rows is None else rows
        return views(context, self.seeds[rows], self.pairs[rows], self.cells[rows], looks_at)

    @property
    def clear(self) -> np.ndarray:
        """Whether her first words single out the thing that she means, bool [N]."""
        return np.array([clear for _, clear, _ in SAID])[self.kind]

    @property
    def fitting(self) -> np.ndarray:
        """Which things her first words fit, bool [N, 4]."""
        matches = self.pairs == self.pairs[np.arange(len(self.target)), self.target][:, None]
        spoken = np.array([[word in words for word in (COLOUR, NOUN)] for words, _, _ in SAID])[self.kind]
        return np.asarray((matches | ~spoken[:, None]).all(-1))

    @property
    def openings(self) -> list[str]:
        """What she asks first: 'where is the red ball?', 'where is the ball?', 'where is the red one?'."""
        return [opening(self.pairs[row, self.target[row]], SAID[kind][0]) for row, kind in enumerate(self.kind)]

    @property
    def completions(self) -> list[str]:
        """What she says when asked which one."""
        return [completion(self.pairs[row, self.target[row]], SAID[kind][0]) for row, kind in enumerate(self.kind)]


def opening(pair: Sequence[int], words: Sequence[int]) -> str:
    """Her question where a thing is, by some of its words."""
    if NOUN not in words:
        return f"where is the {COLOURS[pair[COLOUR]]} one?"
    return f"where is the {name_of(*pair) if COLOUR in words else NOUNS[pair[NOUN]]}?"


def all_said(of: Sequence[Pair]) -> tuple[list[str], list[str]]:
    """Everything that she may ask first about things of the pairs `of`, and say when asked which one."""
    spoken = [(pair, words) for words in dict.fromkeys(words for words, *_ in SAID) for pair in of]
    first, then = ([say(*each) for each in spoken] for say in (opening, completion))
    return list(dict.fromkeys(sorted(first, key=len))), list(dict.fromkeys(then))


def completion(pair: Sequence[int], words: Sequence[int]) -> str:
    """The word that was left out: 'the red one.', 'the ball.'; the whole name if none was."""
    if len(words) == len(pair):
        return f"the {name_of(*pair)}."
    return f"the {COLOURS[pair[COLOUR]]} one." if COLOUR not in words else f"the {NOUNS[pair[NOUN]]}."


def games(context: Context, seeds: np.ndarray, targets: Sequence[Pair], others: Sequence[Pair]) -> Games:
    """A game for each of seeds int64 [N].

    Args:
        targets: pairs from which the meant one is drawn; others: pairs that may stand beside it. Whatever she says
            first, a thing beside it has its colour or its noun.
    """
    drawn = [_draw_game(seed, targets, others) for seed in seeds.tolist()]
    pairs, cells, target, kind = (np.stack(column) for column in zip(*drawn, strict=True))
    silent = np.array([pause(numpy_rng("silent", seed)) for seed in seeds.tolist()])
    drawn_views = vars(views(context, seeds, pairs, cells))
    return Games(**drawn_views, target=target, kind=kind, seeds=seeds, cells=cells, silent=silent)


def _draw_game(
    seed: int, targets: Sequence[Pair], others: Sequence[Pair]
) -> tuple[np.ndarray, np.ndarray, np.int64, np.int64]:
    """Four different pairs int64 [4, 2], their cells [4], which one is meant, and the row of SAID."""
    rng = numpy_rng("converse", seed)
    chosen = [targets[int(rng.integers(len(targets)))]]
    kind = int(rng.choice(len(SAID), p=[share for *_, share in SAID]))
    words, clear, _ = SAID[kind]
    left = [pair for pair in others if pair != chosen[0]]
    if clear and len(words) == 1:  # no other thing has the one word that is said
        left = [pair for pair in left if pair[words[0]] != chosen[0][words[0]]]
    shared = words if not clear else {COLOUR, NOUN} - set(words) or words
    for word in [*shared, *[None] * (THINGS - 1 - len(shared))]:
        fit = [pair for pair in left if word is None or pair[word] == chosen[0][word]]
        options = [pair for pair in fit if pair not in chosen]
        chosen.append(options[int(rng.integers(len(options)))])
    order = rng.permutation(THINGS)
    cells = rng.choice(CELLS, THINGS, replace=False)
    return np.array([chosen[at] for at in order]), cells, np.int64(np.flatnonzero(order == 0)[0]), np.int64(kind)
