"""The exam of fetch: which of the things that went out of sight the hand touches first.

Things are in view for three Moments; then a screen hangs before the eyes, and nine Moments later a colour is named.
Until then the world holds the hand, so that only what was seen can tell where to reach. The agent remembers as in a
life, by its window and its beliefs; rows show what either is worth alone.

The exam is held twice: by the arc, which reaches by sight, and by the head on the trunk, with the arc silenced. By
these two scores, beside those of `reach`, a life decides which head is asked first (`devmind.acting.standing`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from devmind.acting import Actor, Policy, Senses, rollout
from devmind.acting.rollout import Actions
from devmind.agent.agent import Agent
from devmind.curriculum.episodes import of_lessons, of_worlds
from devmind.curriculum.exam import Measure, Parts, in_parts
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Context
from devmind.seeding import exam_seeds, numpy_rng
from devmind.worlds.nursery.along_a_ray import along, ray_to
from devmind.worlds.nursery.fetching import DELAY_TICKS, HORIZON, SCREEN, SEEN_TICKS
from devmind.worlds.nursery.goals import first_touched
from devmind.worlds.nursery.state import MAX_TILT_DEG
from stages.memory.fetch.episodes import ARC, HEAD, NAME, command_towards, has_question
from stages.memory.fetch.episodes import HIDDEN as LEVEL

EPISODES, TOGETHER = 400, 100
BY_TRUNK = f"{NAME}/{HEAD}"
GATE = Gate([Threshold(BY_TRUNK, 0.85, beats_twin=True)])
OFF, WINDOW, BELIEFS, DEAF = "memory off", "beliefs off (window alone)", "window off (beliefs alone)", "words off"


@in_parts
def examine(agent: Agent, context: Context) -> Parts:
    """Share of episodes in which the first thing touched has the named colour, by the arc and by the trunk."""
    n = context.episodes(EPISODES)
    seeds = exam_seeds(n, context.seed, NAME)
    arc, trunk = by_arc(agent), by_trunk(agent)
    hits_by_arc, hits_by_trunk = (
        fetches_named(context, seeds, lambda: arc),
        fetches_named(context, seeds, lambda: trunk),
    )
    state = context.make_world("nursery", LEVEL, seeds).state()
    things = state.present.sum(1) - state.present[:, SCREEN]
    by_what_is_seen = Measure(
        NAME,
        "episodes that touch the named colour first",
        hits_by_arc.astype(np.float64),
        chance=float((1 / things).mean()),
        rate=True,
        note="by the arc, which reaches for things in view",
        answered=arc.counts,
        episodes=of_worlds(context.make_world, "nursery", LEVEL, seeds),
    )
    by_memory = by_what_is_seen.of(
        BY_TRUNK,
        hits_by_trunk.astype(np.float64),
        note=f"by the trunk's own head, the arc silenced; {SEEN_TICKS} Moments in view, the question "
        f"{DELAY_TICKS + 1} Moments behind them; chance is any of the things",
        answered=trunk.counts,
    )
    yield [by_what_is_seen, by_memory]
    few, rng = seeds[: max(8, n // 2)], numpy_rng("exam", NAME, "random")
    rows = {
        OFF: fetches_named(context, few, lambda: by_trunk(agent, short_term=False, beliefs=False)).mean(),
        WINDOW: fetches_named(context, few, lambda: by_trunk(agent, beliefs=False)).mean(),
        BELIEFS: fetches_named(context, few, lambda: by_trunk(agent, short_term=False)).mean(),
        DEAF: fetches_named(context, few, lambda: by_trunk(agent, without=("words",))).mean(),
    }
    floors = {
        "random": fetches_named(context, seeds, lambda: lambda senses, first: at_random(rng, len(first))).mean(),
        "along the ray to where the colour was seen": fetches_named(context, seeds, Remembered).mean(),
    }
    ceiling = float(fetches_named(context, seeds, ByTruth).mean())
    full = replace(by_what_is_seen, ceiling=ceiling, floors=floors)
    yield [full, replace(by_memory, ceiling=ceiling, floors=floors, rows=rows)]


def lesson_episodes(context: Context, n: int) -> np.ndarray:
    """Episodes of lessons, int64 [n]: rooms in which a thing is named, hidden or in sight."""
    return of_lessons(context.make_world, n, context.seed, "nursery", [LEVEL, "reach"])


def by_arc(agent: Agent) -> Actor:
    """The agent reaching by its arc, the trunk silenced."""
    return Actor(agent, effectors=("reach",), standing={"reach": (ARC,)}, trunk=False, beliefs=False)


def by_trunk(agent: Agent, short_term: bool = True, without: Sequence[str] = (), beliefs: bool = True) -> Actor:
    """The agent reaching by its trunk, the arc silenced."""
    standing = {"reach": (HEAD,)}
    return Actor(
        agent, effectors=("reach",), standing=standing, short_term=short_term, without=without, beliefs=beliefs
    )


def at_random(rng: np.random.Generator, n: int) -> Actions:
    """A hand that moves at random."""
    return {"reach": rng.uniform(-1, 1, (n, 4)).astype(np.float32)}


class ByTruth:
    """A hand that is given the thing's true place: the ceiling, not a floor."""

    told = True

    def __call__(self, truth: Senses, first: np.ndarray) -> Actions:
        """`reach` float32 [N, 4]."""
        return {"reach": command_towards(truth["position"][np.arange(len(first)), truth["target"]], truth["hand"])}


def fetches_named(context: Context, seeds: np.ndarray, make: Callable[[], Policy]) -> np.ndarray:
    """Whether a fresh policy first touched the named thing, bool [N].

    Args:
        make: makes the policy; one with `told` gets the truth in place of the senses.
    """
    parts = np.split(seeds, range(TOGETHER, len(seeds), TOGETHER))
    return np.concatenate([_fetched(context, part, make()) for part in parts])


def _fetched(context: Context, seeds: np.ndarray, policy: Policy) -> np.ndarray:
    world = context.make_world("nursery", LEVEL, seeds)

    def knowing(senses: Senses, first: np.ndarray) -> Actions:
        return policy(world.truth(), first)

    right, over = np.zeros(len(seeds), bool), np.zeros(len(seeds), bool)
    for _ in rollout(knowing if getattr(policy, "told", False) else policy, world, HORIZON):
        state = world.state()
        right |= ~over & (first_touched(state) == state.target)
        over |= state.touch.any(1)
    return right


class Remembered:
    """A rule that keeps the last picture without the screen and, once a colour is named, follows the ray to the largest
    blob of that colour in it: the hand first comes to the ray near the body, then goes along it.
    """

    def __init__(self) -> None:
        self.tick, self.last_sight, self.ray = 0, np.zeros(0), np.zeros(0)

    def __call__(self, senses: Senses, first: np.ndarray) -> Actions:
        """`reach` float32 [N, 4]; without a matching pixel the hand rests."""
        if self.tick == 0:
            self.ray = np.full((len(first), 3), np.nan)
        if self.tick < SEEN_TICKS:
            self.last_sight = senses["sight"]
        self.tick += 1
        for row in np.flatnonzero(has_question(senses)[:, 0] & np.isnan(self.ray).any(1)):
            tilt = np.deg2rad(senses["body"][row, 2] * MAX_TILT_DEG)
            self.ray[row] = self._ray(self.last_sight[row], senses["words"][row], tilt)
        return {"reach": along(self.ray, senses["body"])}

    def _ray(self, picture: np.ndarray, word: str, tilt: float) -> np.ndarray:
        """(1, left, up) of the way from the eye, which looks straight ahead, to the blob, [3]."""
        return ray_to(word, picture, 0.0, tilt)
