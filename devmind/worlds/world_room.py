"""A simulated world to live in: Rules as a live room, one tick after the other on the room's clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium as gym
import numpy as np

from devmind.errors import WorldError, nearest
from devmind.moment import TICK_HZ, Sense
from devmind.worlds import spaces
from devmind.worlds.adapter import row
from devmind.worlds.fovea import BODY_SIZE
from devmind.worlds.room import Room

LINGERS = 10
"""Ticks for which an episode that has ended is still there, so that one sees how it ended."""
PAGE = "text"
WATCHED = 1_000_000_000
"""The first episode's seed, unless another is asked for: no lesson has one like it."""


def words_in(text: str) -> list[str]:
    """Its words in small letters, without marks at their ends."""
    words = (word.strip(".,;:!?\"'“”") for word in text.lower().split())
    return [word for word in words if word]


class Window:
    """Stands for the camera of a world that can be pictured: the page shows it, and nobody reads it."""

    sense = "sight"


class WorldRoom(Room):
    """One child's life in `rules`: episode after episode, the seeds counting on.

    What is sensed comes from the rules alone. Where they have `picture(state)`, that is the room's `frame`, which is
    only shown and recorded. An episode that has ended stays for `LINGERS` ticks; `info["first"]` says that what is
    sensed begins another one. What is said to the child is its `words` for a tick, in place of the world's; where the
    world has a page, as an instruction has, it stands there in its place until the episode is over. Where the rules say
    which words their instructions have (`instruction_words`), others are refused.

    Attributes:
        ended, rewarded: episodes that have ended, and how many of these ended with a reward.
        fault: why the world's own instruction may not be understood, a sentence; '' when all is well.
    """

    def __init__(
        self,
        rules: Any,
        seed: int = WATCHED,
        hz: float = TICK_HZ,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.rules, self._seed = rules, seed
        super().__init__({"window": Window()} if hasattr(rules, "picture") else {}, hz, 0.0, now, sleep)
        senses = dict(rules.observation_space.spaces)
        self.observation_space = gym.spaces.Dict(senses | {"words": spaces.words()})
        self.action_space = rules.action_space
        self.ended = self.rewarded = 0
        self._state: Any = None
        self._left: int | None = None
        self._earned, self._told, self._said_page, self.fault = False, "", "", ""

    def say(self, text: str) -> None:
        """Words for the next Moment, and where the world has a page, the instruction that stands there.

        Raises:
            WorldError: a word is in no instruction, or there is none, or it is longer than a page; what stood there
                before still does.
        """
        if hasattr(self.rules, "instruction_words"):
            if not words_in(text):
                raise WorldError("That is an instruction of no words; say what to do, such as 'go to the red ball'.")
            if unknown := self._unknown(text):
                known = nearest(unknown[0], self.rules.instruction_words)
                raise WorldError(f"The word '{unknown[0]:.40}' is in no instruction of this world{known}")
        has_page = PAGE in self.rules.observation_space.spaces
        if has_page and len(text) > spaces.PAGE_MAX_LENGTH:
            raise WorldError(f"A page holds {spaces.PAGE_MAX_LENGTH} letters; {len(text):,} came. Say it shorter.")
        super().say(text)
        # A page is seen at once, words are heard in as many ticks as they take.
        self._said_page = text if has_page else ""

    def _unknown(self, text: str) -> list[str]:
        """Words that no instruction has, in their order; none where the rules do not tell."""
        known = getattr(self.rules, "instruction_words", None)
        return [] if known is None else [word for word in words_in(text) if word not in known]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Sense], dict[str, Any]]:
        """Begin the first episode; the first tick is one period from now."""
        self._seed = self._seed if seed is None else seed
        self.ended = self.rewarded = 0
        self._begin()
        return super().reset(seed=seed)

    def step(self, action: Mapping[str, Any]) -> tuple[dict[str, Sense], float, bool, bool, dict[str, Any]]:
        """Act, wait for the next tick, and give what is sensed."""
        known = {name: np.asarray(action[name])[None] for name in self.rules.action_space.spaces if name in action}
        self._state = self.rules.step(self._state, known)
        outcome = self.rules.outcome(self._state)
        reward, first = float(outcome.reward[0]), False
        self._earned = self._earned or reward > 0
        if self._left is None and bool(outcome.ended[0]):
            self._left, self.ended, self.rewarded = LINGERS, self.ended + 1, self.rewarded + self._earned
        elif self._left is not None:
            self._left -= 1
            if first := self._left < 0:
                self._seed += 1
                self._begin()
        observation, info = self._next()
        return observation, reward, False, False, info | {"first": first}

    def _begin(self) -> None:
        self._state = self.rules.initial(np.array([self._seed], np.int64))
        self._left, self._earned, self._told = None, False, ""
        said = row(self.rules.observe(self._state), 0).get(PAGE)
        unknown = self._unknown(said) if isinstance(said, str) else []
        self.fault = (
            f"This world says '{said:.80}', and nobody taught '{unknown[0]:.40}': it cannot be expected to do as told."
            if unknown
            else ""
        )

    def _names(self) -> dict[str, tuple[str, ...]]:
        return {}

    def _sensed(self, tick_s: float) -> dict[str, Sense]:
        senses: dict[str, Sense] = row(self.rules.observe(self._state), 0)
        self._picture(tick_s, senses)
        senses |= self._words()
        if PAGE in self.rules.observation_space.spaces:
            self._told, self._said_page = self._said_page or self._told, ""
            senses |= {PAGE: self._told} if self._told else {}
        return senses

    def _picture(self, tick_s: float, senses: Mapping[str, Sense]) -> None:
        """What is shown of this tick, and where in it the child looks."""
        if self.sensors:
            self.frame, self.frame_s = self.rules.picture(self._state)[0], tick_s - self._start_s
        body = senses.get("body")
        if "sight" in senses and isinstance(body, np.ndarray) and body.shape == (BODY_SIZE,):
            self.fovea.follow(body)
