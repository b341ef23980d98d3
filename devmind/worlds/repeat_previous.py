"""RepeatPrevious as Rules: cards are dealt one by one, and the agent names the suit of the card some cards ago.

The protocol is that of POPGym's RepeatPrevious (Morad et al., 2023, "POPGym: Benchmarking Partially Observable
Reinforcement Learning", appendix), written anew: decks of 52 cards are shuffled together, a Moment shows one suit, and
each choice earns or costs 1 / (cards - k), so a return lies in -1..1. As in its code, k counts the card in view, so
the card to name was dealt k - 1 Moments ago: with k = 4 the Moments 0, 1, 2 and 3 are remembered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from gymnasium import spaces

from devmind.errors import WorldError, nearest
from devmind.seeding import numpy_rng
from devmind.worlds.rules import Outcome, Struct

LEVELS = {"easy": (1, 4), "medium": (2, 32), "hard": (3, 64)}
"""Decks and k of each level."""
SUITS = 4


@dataclass
class CardsState(Struct):
    """suits int64 [N, cards] in the order they are dealt; tick int64 [N] is the card in view; reward float32 [N]."""

    suits: np.ndarray
    tick: np.ndarray
    reward: np.ndarray


class RepeatPreviousRules:
    """`signal` is the suit in view, one of four; `choose` names a suit.

    Raises:
        WorldError: the level is none of easy, medium, hard.
    """

    name = "repeat_previous"

    def __init__(self, level: str = "easy") -> None:
        if level not in LEVELS:
            raise WorldError(f"The world '{self.name}' has no level '{level}'{nearest(level, LEVELS)}")
        self.level = level
        decks, self.k = LEVELS[level]
        self.cards = 52 * decks
        self.horizon = self.cards - 1
        self.observation_space = spaces.Dict({"signal": spaces.Box(0.0, 1.0, (SUITS,), np.float32)})
        self.action_space = spaces.Dict({"choose": spaces.Discrete(SUITS)})

    def initial(self, seeds: np.ndarray) -> CardsState:
        """One shuffle a seed; the first card is in view."""
        deck = np.arange(self.cards) % SUITS
        suits = np.stack([numpy_rng(self.name, int(seed)).permutation(deck) for seed in seeds]).astype(np.int64)
        return CardsState(suits, np.zeros(len(seeds), np.int64), np.zeros(len(seeds), np.float32))

    def legal(self, state: CardsState) -> Mapping[str, np.ndarray]:
        """Every suit is legal at any time."""
        return {}

    def step(self, state: CardsState, actions: Mapping[str, np.ndarray]) -> CardsState:
        """The next card; an ended child stays and earns nothing. No choice, or one that is no suit, is wrong."""
        chosen = np.asarray(actions.get("choose", np.full(len(state), -1)))
        truth = self.truth(state)
        counts = truth["asked"] & (state.tick < self.cards - 1)
        each = 1.0 / (self.cards - self.k)
        reward = np.where(counts, np.where(chosen == truth["choice"], each, -each), 0.0).astype(np.float32)
        return replace(state.copy(), tick=np.minimum(state.tick + 1, self.cards), reward=reward)

    def outcome(self, state: CardsState) -> Outcome:
        """The episode is truncated when the last card is in view; no question comes about it."""
        ended = state.tick >= self.cards - 1
        return Outcome(state.reward.copy(), np.zeros_like(ended), ended)

    def observe(self, state: CardsState) -> dict[str, Any]:
        """One-hot float32 [N, 4]."""
        suit = state.suits[np.arange(len(state)), np.minimum(state.tick, self.cards - 1)]
        return {"signal": np.eye(SUITS, dtype=np.float32)[suit]}

    def truth(self, state: CardsState) -> dict[str, np.ndarray]:
        """`choice` int64 [N], the suit to name (of the card in view before the first question); `asked` bool [N]."""
        at = np.minimum(state.tick, self.cards - 1)
        asked = at >= self.k - 1
        back = np.where(asked, at - (self.k - 1), at)
        return {"choice": state.suits[np.arange(len(state)), back], "asked": asked}
