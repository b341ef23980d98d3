"""Lives in which things get invented names: each is shown once with its word, and later met again among the others.

A word means a colour and a form. The thing that is met again has another size, texture, place and light. Of the other
three things of a life, one has the colour of the thing asked for and one its form, and all four have a word. So neither
colour nor form alone tells the word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from zlib import crc32

import numpy as np

from devmind.curriculum.episodes import identities
from devmind.curriculum.stage import Context
from devmind.seeding import numpy_rng
from devmind.worlds.nursery.in_cells import CELLS
from stages.language.caregiver.grammar import VOCABULARY
from stages.language.caregiver.scene import Pair
from stages.language.caregiver.views import Views, views
from stages.language.name.scenes import THINGS, Scenes, scenes

SYLLABLES = tuple(before + vowel + behind for before in "bdfgjkmnprstvwz" for vowel in "aeiou" for behind in "bdgkmnpt")
LONGEST_WORD = 2
"""Syllables of an invented word, at most."""
KEPT_WORDS = 4
"""One of so many invented words is kept for exams; no lesson says it."""
BRIGHT, TINT = (0.7, 1.2), (0.92, 1.08)
"""Ranges of the factors of another light: of brightness, and of red, green and blue each."""


@dataclass
class Lives:
    """N lives of four things.

    Attributes:
        looks: one look at each thing alone; N * THINGS of them, life by life.
        words: the word of each, str [N, THINGS].
        scenes: all of them in view, later; `scenes.target` is the one that is asked for.
    """

    looks: Views
    words: np.ndarray
    scenes: Scenes

    @property
    def taught(self) -> np.ndarray:
        """The looks' pictures, uint8 [N, THINGS, 64, 64, 3]."""
        return self.looks.sight.reshape(*self.words.shape, *self.looks.sight.shape[1:])

    @property
    def asked(self) -> np.ndarray:
        """The word of the thing that is asked for, str [N]."""
        return self.words[np.arange(len(self.words)), self.scenes.target]

    def first(self, n: int) -> Lives:
        """The first `n` lives."""
        scenes = Scenes(**vars(self.scenes.rows(n)), target=self.scenes.target[:n])
        return Lives(self.looks.rows(n * self.words.shape[1]), self.words[:n], scenes)

    def episodes(self) -> np.ndarray:
        """Names of these lives by what was seen, int64 [N]."""
        return identities({"taught": self.taught, "met": self.scenes.sight})


def lives(
    context: Context,
    seeds: np.ndarray,
    targets: Sequence[Pair],
    others: Sequence[Pair],
    looked_at: np.ndarray,
    exam: bool,
) -> Lives:
    """The lives of seeds int64 [N], each a function of its own seed.

    Args:
        targets, others: as in `scenes`.
        looked_at: bool [N]: whether the child looks at the thing asked for, instead of straight ahead.
        exam: whether words are those of exams, which no lesson says, or those of lessons, which no exam has.
    """
    later_scenes = scenes(context, seeds, targets, others, looked_at)
    rngs = [numpy_rng("taught once", seed) for seed in seeds.tolist()]
    words = np.array([invent_words(rng, THINGS, exam) for rng in rngs])
    look_seeds = np.stack([rng.integers(0, 2**31, THINGS) for rng in rngs]).reshape(-1)
    cells = np.concatenate([rng.integers(0, CELLS, (THINGS, 1)) for rng in rngs])
    taught_views = views(
        context, look_seeds, later_scenes.pairs.reshape(-1, 1, 2), cells, np.zeros(len(look_seeds), np.int64)
    )
    sights = np.stack([in_another_light(sight, rng) for sight, rng in zip(later_scenes.sight, rngs, strict=True)])
    return Lives(taught_views, words, replace(later_scenes, sight=sights))


def in_another_light(sight: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A picture uint8 [H, W, 3] brighter or darker, and a little tinted."""
    light = rng.uniform(*BRIGHT) * rng.uniform(*TINT, 3)
    return np.clip(sight * light, 0, 255).astype(np.uint8)


def invent_words(rng: np.random.Generator, count: int, exam: bool) -> list[str]:
    """Different words that the caregiver does not have."""
    words: dict[str, None] = {}
    while len(words) < count:
        word = "".join(rng.choice(SYLLABLES, int(rng.integers(1, LONGEST_WORD + 1))))
        if (crc32(word.encode()) % KEPT_WORDS == 0) == exam and word not in VOCABULARY:
            words[word] = None
    return list(words)
