"""Changes of an episode that keep it correct: colours and kinds of things are permuted, in the view and in the
instruction alike, and left and right are exchanged.

BabyAI's bot treats all colours and things alike, so it could have given each of these episodes. An agent that imitates
them cannot learn by heart which thing is meant in a room, and has to look for what the instruction names.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from devmind.worlds.minigrid import LEFT, OBJECTS, RIGHT
from stages.language.follow.rooms import Demonstration

COLOURS = ("red", "green", "blue", "purple", "yellow", "grey")
"""In the order of MiniGrid's numbers."""
KINDS = {"key": 5, "ball": 6, "box": 7}
"""Kinds of things that can be carried, by their words, with MiniGrid's number of each."""
_SIDES = {"left": "right", "right": "left"}


def as_well(demo: Demonstration, rng: np.random.Generator) -> Demonstration:
    """An episode as correct as `demo`, with permuted colours and kinds; half of the episodes are mirrored."""
    demo = rename_things(demo, rng.permutation(len(COLOURS)), rng.permutation(len(KINDS)))
    return mirror_demonstration(demo) if rng.random() < 0.5 else demo


def rename_things(demo: Demonstration, colours: np.ndarray, kinds: np.ndarray) -> Demonstration:
    """Things of colour `c` get the colour `colours[c]`, and of kind `k` (among KINDS) the kind `kinds[k]`; walls and
    things that cannot be carried stay.
    """
    board, planes = demo.board.copy(), list(KINDS.values())
    things = demo.board[:, planes].any(1)
    board[:, planes] = demo.board[:, planes][:, np.argsort(kinds)]
    board[:, OBJECTS] = np.where(things, colours[demo.board[:, OBJECTS]], demo.board[:, OBJECTS])
    words = {word: COLOURS[new] for word, new in zip(COLOURS, colours, strict=True)}
    words |= {word: list(KINDS)[new] for word, new in zip(KINDS, kinds, strict=True)}
    return replace(demo, board=board, instruction=_said(demo.instruction, words))


def mirror_demonstration(demo: Demonstration) -> Demonstration:
    """Left and right exchanged in the view, the instruction, what the bot would do and what was done."""
    turned = np.arange(max(LEFT, RIGHT, int(demo.choice.max(initial=0)), int(demo.done.max(initial=0))) + 1)
    turned[[LEFT, RIGHT]] = RIGHT, LEFT
    return replace(
        demo,
        board=np.ascontiguousarray(demo.board[..., ::-1]),
        choice=turned[demo.choice],
        done=turned[demo.done],
        instruction=_said(demo.instruction, _SIDES),
    )


def _said(instruction: str, words: dict[str, str]) -> str:
    return " ".join(words.get(word, word) for word in instruction.split())
