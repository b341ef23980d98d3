"""A simulated world for a life: Rules as a live room, on the room's clock."""

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
"""Ticks for which an ended episode stays in view, so that people see how it ended."""
PAGE = "text"
OFFERED, LOOKED_AT = 4, 12
"""Instructions that a page offers, at most, and the episodes after the first in which they are looked for."""
WATCHED = 1_000_000_000
"""The first episode's seed by default; no lesson has such seeds."""


def words_in(text: str) -> list[str]:
    """The words of a text in small letters, without punctuation at their ends."""
    words = (word.strip(".,;:!?\"'“”") for word in text.lower().split())
    return [word for word in words if word]


def as_instruction(text: str) -> str:
    """The text as instructions are written: small letters, single blanks, no marks but commas between words."""
    words = (word.strip(".;:!?\"'“”") for word in text.lower().split())
    return " ".join(word for word in words if word.strip(",")).strip(",")


class Window:
    """Stands for the camera of a world with pictures: the page shows it, and it is never read."""

    sense = "sight"


class WorldRoom(Room):
    """One child's life in `rules`: episode after episode, with rising seeds.

    All senses come from the rules. Their `picture(state)`, if any, is the room's `frame`, only shown and recorded.
    An ended episode stays for `LINGERS` ticks; `info["first"]` marks the first Moment of the next one. Words
    said to the child replace the world's `words` for a tick. If the world has a page, such as an instruction, they also
    replace the page until the episode is over. If the rules have `instruction_words`, other words are refused, and
    the page is written as instructions are (`as_instruction`), whatever capitals and marks were typed.

    Attributes:
        ended, rewarded: episodes that have ended, and how many of these ended with a reward.
        seed: of this episode; last_reward: the sum of rewards in the last episode that ended, None before.
        instructions: some that this world gives in other episodes, as examples for people.
        fault: a sentence why the world's own instruction may not be understood; '' if there is no reason.
    """

    is_simulated = True

    def __init__(
        self,
        rules: Any,
        seed: int = WATCHED,
        hz: float = TICK_HZ,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.rules, self.seed = rules, seed
        super().__init__({"window": Window()} if hasattr(rules, "picture") else {}, hz, 0.0, now, sleep)
        senses = dict(rules.observation_space.spaces)
        self.observation_space = gym.spaces.Dict(senses | {"words": spaces.words()})
        self.action_space = rules.action_space
        self.ended = self.rewarded = 0
        self.last_reward: float | None = None
        self.instructions = self._offered()
        self._state: Any = None
        self._left: int | None = None
        self._earned, self._sum = False, 0.0
        self._shown_page, self._said_page, self.fault = "", "", ""

    def say(self, text: str) -> None:
        """Words for the next Moment and, if the world has a page, its instruction.

        Raises:
            WorldError: a word is in no instruction, there are no words, or they are longer than a page. The page stays
                as it was.
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
        # A page is seen at once; words are heard over as many ticks as they need.
        written = as_instruction(text) if hasattr(self.rules, "instruction_words") else text
        self._said_page = written if has_page else ""

    def _unknown(self, text: str) -> list[str]:
        """Words that no instruction has, in order; empty if the rules do not list words."""
        known = getattr(self.rules, "instruction_words", None)
        return [] if known is None else [word for word in words_in(text) if word not in known]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Sense], dict[str, Any]]:
        """Begin the first episode; the first tick is one period from now."""
        self.seed = self.seed if seed is None else seed
        self.ended, self.rewarded, self.last_reward = 0, 0, None
        self._begin()
        return super().reset(seed=seed)

    def step(self, action: Mapping[str, Any]) -> tuple[dict[str, Sense], float, bool, bool, dict[str, Any]]:
        """Act, wait for the next tick, and return the senses."""
        known = {name: np.asarray(action[name])[None] for name in self.rules.action_space.spaces if name in action}
        self._state = self.rules.step(self._state, known)
        outcome = self.rules.outcome(self._state)
        reward, first = float(outcome.reward[0]), False
        self._earned, self._sum = self._earned or reward > 0, self._sum + reward
        if self._left is None and bool(outcome.ended[0]):
            self._left, self.ended, self.rewarded = LINGERS, self.ended + 1, self.rewarded + self._earned
            self.last_reward = self._sum
        elif self._left is not None:
            self._left -= 1
            if first := self._left < 0:
                self.seed += 1
                self._begin()
        observation, info = self._next()
        return observation, reward, False, False, info | {"first": first}

    def _begin(self) -> None:
        self._state = self.rules.initial(np.array([self.seed], np.int64))
        self._left, self._earned, self._sum, self._shown_page = None, False, 0.0, ""
        said = row(self.rules.observe(self._state), 0).get(PAGE)
        unknown = self._unknown(said) if isinstance(said, str) else []
        self.fault = (
            f"This world says '{said:.80}', and nobody taught '{unknown[0]:.40}': it cannot be expected to do as told."
            if unknown
            else ""
        )

    def _offered(self) -> tuple[str, ...]:
        """Different instructions of the episodes after the first one; none in a world that says nothing."""
        if PAGE not in self.rules.observation_space.spaces:
            return ()
        seen = self.rules.observe(self.rules.initial(self.seed + 1 + np.arange(LOOKED_AT, dtype=np.int64)))
        pages = (row(seen, at).get(PAGE) for at in range(LOOKED_AT))
        said = dict.fromkeys(page for page in pages if isinstance(page, str) and page and not self._unknown(page))
        return tuple(said)[:OFFERED]

    def progress(self) -> dict[str, Any]:
        """Episodes, successes, the last episode's reward and the seed, for people."""
        return {
            "episodes": self.ended, "successes": self.rewarded, "seed": self.seed,
            "reward": None if self.last_reward is None else round(self.last_reward, 3),
        }  # fmt: skip

    def _names(self) -> dict[str, tuple[str, ...]]:
        return {}

    def _sensed(self, tick_s: float) -> dict[str, Sense]:
        senses: dict[str, Sense] = row(self.rules.observe(self._state), 0)
        self._picture(tick_s, senses)
        senses |= self._words()
        if PAGE in self.rules.observation_space.spaces:
            self._shown_page, self._said_page = self._said_page or self._shown_page, ""
            senses |= {PAGE: self._shown_page} if self._shown_page else {}
        return senses

    def _picture(self, tick_s: float, senses: Mapping[str, Sense]) -> None:
        """Keep the picture of this tick, and where the child looks in it."""
        if self.sensors:
            self.frame, self.frame_s = self.rules.picture(self._state)[0], tick_s - self._start_s
        body = senses.get("body")
        if "sight" in senses and isinstance(body, np.ndarray) and body.shape == (BODY_SIZE,):
            self.fovea.follow(body)
