"""What is asked for: missions in BabyAI's own words, with what they come to, and words that nobody knows.

A room is drawn, and BabyAI's grammar says things of it: so an instruction has "the" where there is one such thing in
the room and "a" where there are several. Some pairs of things are never put together in lessons, so that an exam can
tell a grammar from a list.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any
from zlib import crc32

import numpy as np

from devmind.algorithms.grid_cells import COLOURS
from devmind.worlds.minigrid import env_of, lent
from stages.planning.instruct.symbols import DROP_NEXT_TO, NOUNS, Plan, of_instruction

ROOMS = ("BabyAI-GoToSeqS5R2-v0", "BabyAI-MiniBossLevel-v0")
"""Whose things missions of lessons are about, in turn."""
KINDS: tuple[tuple[float, list[str], list[str]], ...] = (
    (0.35, ["putnext"], ["action"]),
    (0.45, ["goto"], ["action", "and", "seq"]),
    (0.2, ["goto", "pickup", "open", "putnext"], ["action", "and", "seq"]),
)
"""Shares of missions, and what they are made of: actions, and how these are joined."""
OF_ONE = 8
"""Missions that are said of one room."""
HELD_OUT = 8
"""Every so many-th pair of things is put together in exams only."""
WORDS = frozenset(
    (*["go", "to", "the", "a", "pick", "up", "put", "next", "open", "and", "then", "after", "you"], *COLOURS, *NOUNS)
)
"""All words of BabyAI's grammar without places."""
OTHER_WORDS = (
    "lamp", "sofa", "cat", "cup", "table", "violet", "pink", "orange", "black", "square", "circle", "pyramid",
    "throw", "kick", "paint", "wash", "sing", "find", "hide", "window",
)  # fmt: skip
"""English words that no lesson says and that missions do not have."""
_CONSONANTS, _VOWELS = "bcdfghjklmnprstvwz", "aeiou"


def pair_held_out(plan: Plan) -> bool:
    """Whether a plan puts two things together that lessons never put together."""
    pairs = [f"{one[1:]}{two[1:]}" for one, two in pairwise(plan) if two.verb == DROP_NEXT_TO]
    return any(crc32(pair.encode()) % HELD_OUT == 0 for pair in pairs)


def drawn(seeds: np.ndarray, n: int, rng: np.random.Generator) -> Iterator[tuple[str, Plan]]:
    """`n` missions of rooms of lessons, OF_ONE of each seed's room: what is said, and what it comes to."""
    made = 0
    for number, seed in enumerate(seeds.tolist()):
        world = lent(ROOMS[number % len(ROOMS)])
        world.reset(seed=seed)
        env = env_of(world)
        env.locations = False
        for _ in range(min(OF_ONE, n - made)):
            yield _one(env, rng)
        made = min(n, made + OF_ONE)


def _one(env: Any, rng: np.random.Generator) -> tuple[str, Plan]:
    while True:
        _, actions, joined = KINDS[rng.choice(len(KINDS), p=[share for share, *_ in KINDS])]
        instruction = env.rand_instr(action_kinds=actions, instr_kinds=joined)
        plan = of_instruction(instruction)
        if not pair_held_out(plan):
            return str(instruction.surface(env)), plan


def made_up(rng: np.random.Generator, exam: bool) -> str:
    """A word that there is not: syllables by chance, or a known word with letters changed; exams have their own."""
    while True:
        if rng.random() < 0.6:
            syllables = rng.integers(1, 4)
            word = "".join(_letter(_CONSONANTS, rng) + _letter(_VOWELS, rng) for _ in range(syllables))
            word += _letter(_CONSONANTS, rng) if rng.random() < 0.6 else ""
        else:
            letters = list(sorted(WORDS)[rng.integers(len(WORDS))])
            for at in rng.choice(len(letters), min(len(letters), 2), replace=False):
                letters[at] = _letter(_CONSONANTS + _VOWELS, rng)
            word = "".join(letters)
        if word not in WORDS and len(word) > 2 and (crc32(word.encode()) % 2 == 1) == exam:
            return word


def _letter(letters: str, rng: np.random.Generator) -> str:
    return letters[rng.integers(len(letters))]


def with_word(mission: str, word: str, rng: np.random.Generator) -> tuple[str, int]:
    """The mission with one of its colours, kinds or verbs replaced by `word`, and where that begins."""
    said = mission.split(" ")
    content = {*COLOURS, *NOUNS, "go", "pick", "put", "open"}
    places = [at for at, one in enumerate(said) if one.strip(",") in content]
    at = places[rng.integers(len(places))]
    said[at] = word + ("," if said[at].endswith(",") else "")
    return " ".join(said), len(" ".join(said[:at])) + (at > 0)
