"""Scenes that can be described: things with a colour, a kind and a place, seen from where the child looks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from devmind.worlds.nursery.state import COLOUR_NAMES, SHAPES

COLOURS = COLOUR_NAMES
NOUNS = ("ball", "box", "can")
"""What the nursery's spheres, boxes and cylinders are called."""
PLACES = ("left", "middle", "right")
MIDDLE_DEG = 7.5
"""How far the middle reaches to either side of the gaze, in degrees."""
Pair = tuple[int, int]
"""Indices of a colour and a noun."""
PAIRS: tuple[Pair, ...] = tuple((colour, noun) for colour in range(len(COLOURS)) for noun in range(len(NOUNS)))
HELD_OUT = tuple(pair for pair in PAIRS if pair[0] < 6 and pair[1] == pair[0] % len(NOUNS))
"""Six pairs of a colour and a noun that no lesson shows and no text of hers names, and that exams of language ask for.

Lessons have each of these colours and nouns in other pairs. Where a noun is learned in light of one colour, the word
for any colour stands before it, so both words of such a pair may stand there; nothing in view has that colour. BabyAI's
instructions say "the red ball" too, about symbols on a board.
"""
TAUGHT = tuple(pair for pair in PAIRS if pair not in HELD_OUT)
assert len(NOUNS) == len(SHAPES)


@dataclass(frozen=True)
class Thing:
    """One thing in view: indices of its colour, its noun and its place."""

    colour: int
    noun: int
    place: int

    @property
    def name(self) -> str:
        """'red ball'."""
        return name_of(self.colour, self.noun)


@dataclass(frozen=True)
class Scene:
    """The things in view, all different, from left to right; and the pairs that may be mentioned."""

    things: tuple[Thing, ...]
    spoken_of: Sequence[Pair] = PAIRS


def name_of(colour: int, noun: int) -> str:
    """The two words for a pair."""
    return f"{COLOURS[colour]} {NOUNS[noun]}"


def draw_scene(rng: np.random.Generator, of: Sequence[Pair] = PAIRS) -> Scene:
    """A scene of two to four things of the pairs `of`, not rendered, for sentences alone."""
    pairs = rng.choice(len(of), int(rng.integers(2, 5)), replace=False)
    places = np.sort(rng.integers(0, len(PLACES), len(pairs)))
    things = ((of[pair], int(place)) for pair, place in zip(pairs, places, strict=True))
    return Scene(tuple(Thing(colour, noun, place) for (colour, noun), place in things), of)


def visible_scene(truth: Mapping[str, np.ndarray], row: int, of: Sequence[Pair] = PAIRS) -> Scene:
    """What one child of the nursery has in view, by the world's truth; `of` are the pairs that may be mentioned."""
    here = np.flatnonzero(truth["present"][row] & (truth["visible"][row] > 0))
    left = (truth["object_azimuth_deg"][row, here] - truth["pan_deg"][row] + 180) % 360 - 180
    order = here[np.argsort(-left)]
    places = 1 + (np.sort(-left) > MIDDLE_DEG).astype(int) - (np.sort(-left) < -MIDDLE_DEG)
    colours, nouns = truth["colour"][row, order], truth["shape"][row, order]
    return Scene(tuple(map(Thing, colours.tolist(), nouns.tolist(), places.tolist())), of)
