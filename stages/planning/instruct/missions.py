"""Missions in BabyAI's own words, with their plans, and invented words.

A room is drawn, and BabyAI's grammar speaks of it: an instruction has "the" where the room has one such thing, and "a"
where it has several. Lessons never put some pairs of things together, so that an exam can tell a learned grammar from a
learned list.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any
from zlib import crc32

import numpy as np

from devmind.algorithms.grid import COLOURS
from devmind.worlds.gym_world import GymWorld
from devmind.worlds.minigrid import env_of, one_a_thread, room
from stages.planning.instruct.symbols import DROP_NEXT_TO, NOUNS, Subgoals, of_instruction

ROOMS = ("BabyAI-GoToSeqS5R2-v0", "BabyAI-MiniBossLevel-v0")
"""Rooms whose things the missions of lessons are about, in turn."""
KINDS: tuple[tuple[float, list[str], list[str]], ...] = (
    (0.35, ["putnext"], ["action"]),
    (0.45, ["goto"], ["action", "and", "seq"]),
    (0.2, ["goto", "pickup", "open", "putnext"], ["action", "and", "seq"]),
)
"""Shares of missions, with their actions and how these are joined."""
OF_ONE = 8
"""Missions about one room."""
HELD_OUT = 8
"""One in so many pairs of things is put together in exams only."""
WORDS = frozenset(
    (*["go", "to", "the", "a", "pick", "up", "put", "next", "open", "and", "then", "after", "you"], *COLOURS, *NOUNS)
)
"""All words of BabyAI's grammar without places."""
OTHER_WORDS = (
    "lamp", "sofa", "cat", "cup", "table", "violet", "pink", "orange", "black", "square", "circle", "pyramid",
    "throw", "kick", "paint", "wash", "sing", "find", "hide", "window",
)  # fmt: skip
"""English words that neither lessons nor missions have."""
_CONSONANTS, _VOWELS = "bcdfghjklmnprstvwz", "aeiou"


def pair_held_out(plan: Subgoals) -> bool:
    """Whether a plan puts together two things that lessons never do."""
    pairs = [f"{one[1:]}{two[1:]}" for one, two in pairwise(plan) if two.verb == DROP_NEXT_TO]
    return any(crc32(pair.encode()) % HELD_OUT == 0 for pair in pairs)


def draw_missions(seeds: np.ndarray, n: int, rng: np.random.Generator) -> Iterator[tuple[str, Subgoals]]:
    """`n` missions about rooms of lessons, OF_ONE for each seed's room: the words, and the plan."""
    made = 0
    for number, seed in enumerate(seeds.tolist()):
        world = _spoken_of(ROOMS[number % len(ROOMS)])
        world.reset(seed=seed)
        env = env_of(world)
        for _ in range(min(OF_ONE, n - made)):
            yield _one(env, rng)
        made = min(n, made + OF_ONE)


@one_a_thread
def _spoken_of(name: str) -> GymWorld:
    """A room of that kind whose missions never name places. A reset draws a mission too, so this has to be set before
    the first one."""
    world = room(name)
    env_of(world).locations = False
    return world


def _one(env: Any, rng: np.random.Generator) -> tuple[str, Subgoals]:
    while True:
        _, actions, joined = KINDS[rng.choice(len(KINDS), p=[share for share, *_ in KINDS])]
        instruction = env.rand_instr(action_kinds=actions, instr_kinds=joined)
        plan = of_instruction(instruction)
        if not pair_held_out(plan):
            return str(instruction.surface(env)), plan


def made_up(rng: np.random.Generator, exam: bool) -> str:
    """An invented word: random syllables, or a known word with changed letters; exams have words of their own."""
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
    """The mission with one of its colours, kinds or verbs replaced by `word`, and the index where that begins."""
    said = mission.split(" ")
    content = {*COLOURS, *NOUNS, "go", "pick", "put", "open"}
    places = [at for at, one in enumerate(said) if one.strip(",") in content]
    at = places[rng.integers(len(places))]
    said[at] = word + ("," if said[at].endswith(",") else "")
    return " ".join(said), len(" ".join(said[:at])) + (at > 0)
