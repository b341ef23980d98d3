"""Lives of things: in each life some things have names, drawn anew for every life.

A thing is a coloured body of the nursery with a tone of its own; a look at it is one Moment of sight and sound. Two
looks at one thing differ in its place in view, its distance, its turn, and the room's noise. Names are assigned at
random in each life, so no weights can know one before it was shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Self
from zlib import crc32

import numpy as np
import torch

from devmind.agent.features import log_mel
from devmind.curriculum.episodes import identities
from devmind.moment import SIGHT_SIZE
from devmind.seeding import numpy_rng
from devmind.worlds.nursery.chance import uniform
from devmind.worlds.nursery.hearing import sound
from devmind.worlds.nursery.looks import LARGEST_M, ONE_IN, SMALLEST_M, TONES, left_out, never_met, sizes
from devmind.worlds.nursery.spawning import empty_room, in_view, put_object, settle
from devmind.worlds.nursery.state import COLOUR_NAMES, SHAPES, TEXTURES, NurseryState
from devmind.worlds.nursery.views import SIGHT_FOV_DEG, draw, scene

NAMES = ("tabiku", "delomi", "gusapo", "fikane", "robuti", "zemalu", "hopadi", "wunego")
"""The names of things; an answer is the number of a name."""
SYLLABLES = tuple(a + b for a in "bdfghjklmnprstvwz" for b in "aeiou")
LONGEST_WORD = 4
"""Syllables of an invented word, of which the shortest have two."""
KEPT_WORDS = 4
"""One of so many invented words is kept for exams; no lesson says it."""
BOTH = ("sight", "sound")
PAIRS = f"nursery names:colour + name not a multiple of {ONE_IN}"
"""How the lesson of names lists in the agent's `trained_on` that it never gives some colours some of the names."""
SPREAD_DEG = 5.0
"""Largest angle of a thing from straight ahead, to each side."""
NEARER, FARTHER = 0.85, 1.15
DISTANCE_M = 0.6
SIZES_M = (SMALLEST_M, LARGEST_M)


@dataclass(frozen=True)
class Lives:
    """N lives of P things each; all arrays are [N, P] but `seed`, int64 [N].

    Attributes:
        seed: of each life; its room follows from it.
        shape, colour, texture: whole numbers; no two things of a life share all three.
        size_m: radius, or half an edge; it sets the pitch of the thing's tone.
        answer: the number of its name, into NAMES.
    """

    seed: np.ndarray
    shape: np.ndarray
    colour: np.ndarray
    texture: np.ndarray
    size_m: np.ndarray
    answer: np.ndarray

    @property
    def things(self) -> int:
        """P."""
        return int(self.shape.shape[1])

    @property
    def tone_m(self) -> np.ndarray:
        """The size that each thing sounds like, in metres [N, P]: its own."""
        return self.size_m

    def part(self, start: int, stop: int) -> Self:
        """The lives [start, stop)."""
        return replace(self, **{field.name: getattr(self, field.name)[start:stop] for field in fields(self)})

    def first(self, n: int) -> Self:
        """The first `n` lives."""
        return self.part(0, n)

    def episodes(self, things: int | None = None) -> np.ndarray:
        """Identities of the lives, int64 [N], by their things and names: all, or the first ones.

        What a subclass adds does not count, so that its lives are compared with those of lessons.
        """
        of = {field.name: getattr(self, field.name)[:, :things] for field in fields(Lives) if field.name != "seed"}
        return identities(of)

    def things_met(self) -> np.ndarray:
        """Identities of the things, int64 [N * P], life by life."""
        kinds = {field.name: getattr(self, field.name).reshape(-1) for field in fields(Lives) if field.name != "seed"}
        return identities(kinds)


_EVERY = np.arange(len(SHAPES) * len(COLOUR_NAMES) * len(TEXTURES))
_KEPT = left_out(
    _EVERY % len(SHAPES), _EVERY // len(SHAPES) % len(COLOUR_NAMES), _EVERY // len(SHAPES) // len(COLOUR_NAMES)
)
HELD_OUT, TAUGHT = _EVERY[_KEPT], _EVERY[~_KEPT]
"""Kinds of things, numbers for a shape, colour and texture: a quarter of the combinations is kept for exams, the same
that the nursery's lessons leave out. Each shape, each colour and each texture is in both."""


def lives(seeds: np.ndarray, things: int, among: np.ndarray = _EVERY) -> Lives:
    """The lives of seeds int64 [N], each a function of its own seed.

    Args:
        among: kinds of things to draw from: HELD_OUT in exams, TAUGHT in lessons.
    """
    kinds, drawn, answers = [], [], []
    for seed in seeds.tolist():
        rng = numpy_rng("life of things", seed)
        kinds.append(rng.choice(among, things, replace=False))
        drawn.append(rng.uniform(*SIZES_M, things))
        answers.append(rng.integers(0, len(NAMES), things))
    kind = np.stack(kinds)
    colours = len(COLOUR_NAMES)
    return Lives(
        np.asarray(seeds, np.int64),
        kind % len(SHAPES),
        kind // len(SHAPES) % colours,
        kind // (len(SHAPES) * colours),
        sizes(seeds, np.stack(drawn)),
        np.stack(answers),
    )


def not_joined(colour: np.ndarray, answer: np.ndarray) -> np.ndarray:
    """Whether lessons of names never give this name to this colour, bool of the arguments' shape: two of the eight
    names for each colour."""
    return np.asarray((colour + answer) % ONE_IN == 0)


def pairs_left_out(trained_on: Sequence[str]) -> bool:
    """Whether all lessons of names of an agent, whose `trained_on` this is, left those out.

    One that was taught names before lessons did so, and again since, lists PAIRS too, and not TONES first.
    """
    return PAIRS in trained_on and never_met(trained_on, TONES)


def rename_lives(of: Lives) -> Lives:
    """The same lives, with another name for each thing whose name lessons do not join with its colour; the other names
    are equally likely."""
    steps = [step for step in range(1, len(NAMES)) if step % ONE_IN]
    step_index = np.stack(
        [numpy_rng("name instead", seed).integers(0, len(steps), of.things) for seed in of.seed.tolist()]
    )
    other = (of.answer + np.array(steps)[step_index]) % len(NAMES)
    return replace(of, answer=np.where(not_joined(of.colour, of.answer), other, of.answer))


def invent_words(seeds: np.ndarray, things: int, exam: bool) -> np.ndarray:
    """Words for the things of lives of seeds int64 [N], each word of a life another one: str [N, things].

    Args:
        exam: words of exams, which no lesson says; otherwise words of lessons, which are in no exam.
    """
    return np.array([_words(numpy_rng("invented words", int(seed)), things, exam) for seed in seeds])


def _words(rng: np.random.Generator, count: int, exam: bool) -> list[str]:
    words: dict[str, None] = {}
    while len(words) < count:
        word = "".join(rng.choice(SYLLABLES, int(rng.integers(2, LONGEST_WORD + 1))))
        if (crc32(word.encode()) % KEPT_WORDS == 0) == exam and word not in NAMES:
            words[word] = None
    return list(words)


def looks(of: Lives, things: np.ndarray, look: int | str, senses: Sequence[str] = BOTH) -> dict[str, np.ndarray]:
    """One look at the thing `things` int64 [N, Q] of each life: sight uint8 [N, Q, 64, 64, 3], sound [N, Q, 2, 1600].

    Args:
        look: seeds where things lie in these looks; another name is another look.
        senses: the senses to render.
    """
    n, q = things.shape
    seeds = np.concatenate([numpy_rng("look", seed, look).integers(0, 2**31, q) for seed in of.seed.tolist()])
    state = empty_room(seeds)
    state.planes = np.repeat(empty_room(of.seed).planes, q, 0)  # the walls are the life's; hiss and place the look's
    _place(state, of, things)
    state = settle(state)
    observed = {}
    for sense in senses:
        heard = sense == "sound"
        state.size[:, 0] = np.take_along_axis(of.tone_m if heard else of.size_m, things, 1).reshape(-1)
        value = sound(state) if heard else _picture(state)
        observed[sense] = value.reshape(n, q, *value.shape[1:])
    return observed


def raw_features(sense: str, values: np.ndarray) -> np.ndarray:
    """Raw features of N looks for rules, by one sense, [N, F]: mean colours of 8 x 8 fields, or mean log-mel levels."""
    n = len(values)
    if sense == "sight":
        return np.asarray(values.reshape(n, 8, 8, 8, 8, 3).mean((2, 4)).reshape(n, -1) / 255)
    waves = torch.from_numpy(np.ascontiguousarray(values, np.float32)).mean(1)
    return np.asarray(log_mel(waves, 512, 400, 40).mean(-2).numpy())


def nearest_raw(queries: Mapping[str, np.ndarray], stored: Mapping[str, np.ndarray]) -> np.ndarray:
    """Index of the kept look [N, P, ...] nearest in raw input to each thing seen [N, Q, ...], int64 [N, Q].

    Distances of several senses are added, each as a share of its own mean.
    """
    total: np.ndarray | float = 0.0
    for sense, value in queries.items():
        asking, key = (
            raw_features(sense, x.reshape(-1, *x.shape[2:])).reshape(*x.shape[:2], -1) for x in (value, stored[sense])
        )
        apart = np.linalg.norm(asking[:, :, None] - key[:, None], axis=-1)
        total = total + apart / apart.mean()
    return np.asarray(total).argmin(-1)


def _picture(state: NurseryState) -> np.ndarray:
    """uint8 [N, 64, 64, 3], without the wide view, which costs as much again."""
    return draw(state, scene(state, state.position), state.pan, state.tilt, SIGHT_FOV_DEG, SIGHT_SIZE)[0]


def _place(state: NurseryState, of: Lives, things: np.ndarray) -> None:
    """The thing alone, still and sounding, within SPREAD_DEG of straight ahead."""
    for field, values in (("shape", of.shape), ("colour", of.colour), ("texture", of.texture), ("size", of.size_m)):
        getattr(state, field)[:, 0] = np.take_along_axis(values, things, 1).reshape(-1)
    left, up = (uniform(state.seed, f"thing {way}", -SPREAD_DEG, SPREAD_DEG) for way in ("left", "up"))
    distance = DISTANCE_M * uniform(state.seed, "thing distance", NEARER, FARTHER)
    put_object(state, 0, in_view(state, left, up, distance))
    state.loudness[:, 0] = 1.0
