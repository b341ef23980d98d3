"""Episodes of motor exams, played by an agent (its own step path, most likely action) or by a rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from devmind.acting import Actor, Policy, Senses, rollout
from devmind.acting.rollout import Actions
from devmind.acting.standing import Standing
from devmind.agent.agent import Agent
from devmind.curriculum.episodes import of_worlds
from devmind.curriculum.stage import Context
from devmind.worlds.nursery.state import MAX_TURN_DEG
from stages.reflex.left_out import looks_left_out, rows_by_looks, rows_by_tones, tones_left_out

TOGETHER = 100
EPISODES = 400
SHOWN = 4
LOOK_ON_TRUNK = 0.90
"""Goal of the trunk's gaze for every cue, and for tracking."""
ARC_SILENCED = "by the trunk's own head, the arc silenced; on the same episodes as the arc"

Watch = Callable[[Mapping[str, np.ndarray], Mapping[str, np.ndarray]], np.ndarray]


def arcs(agent: Agent, effector: str, off: Sequence[str] = ()) -> Actor:
    """The agent's reflex arcs for one effector, most likely action; senses in `off` are absent."""
    return Actor(agent, effectors=[effector], without=off, trunk=False, beliefs=False)


def by_trunk(agent: Agent, effector: str, short_term: bool = True) -> Actor:
    """The agent's trunk for one effector, its arcs silenced; without `short_term` every Moment stands alone."""
    return Actor(agent, effectors=[effector], standing=by_themselves(agent), short_term=short_term)


def by_themselves(agent: Agent) -> Standing:
    """The heads on the trunk, by effector: arcs are silenced."""
    heads = {effector: agent.heads_of(effector) for effector in agent.effectors}
    return {effector: tuple(n for n in names if agent.tap_of(n).on_trunk) for effector, names in heads.items()}


@dataclass
class Played:
    """Played episodes: the watched number [ticks, N], and first and last pictures uint8 [N, 64, 64, 3]."""

    watched: np.ndarray
    first_sight: np.ndarray
    last_sight: np.ndarray


@dataclass(frozen=True)
class Trial:
    """A level with fixed seeds; every policy plays the same episodes.

    Attributes:
        watch: (truth before, actions) if `before`, else (truth after, actions), to one number a row.
    """

    context: Context
    level: str
    ticks: int
    seeds: np.ndarray
    watch: Watch
    before: bool = False

    @property
    def episodes(self) -> np.ndarray:
        """Which episodes the seeds begin, int64 [N]."""
        return of_worlds(self.context.make_world, "nursery", self.level, self.seeds)

    def rows_by_looks(self, agent: Agent, values: np.ndarray) -> dict[str, float]:
        """`left_out.rows_by_looks` of values [N] of all episodes."""
        return rows_by_looks(agent, looks_left_out(self.context, self.level, self.seeds), values)

    def rows_by_tones(self, agent: Agent, values: np.ndarray) -> dict[str, float]:
        """`left_out.rows_by_tones` of values [N] of all episodes."""
        return rows_by_tones(agent, tones_left_out(self.context, self.level, self.seeds), values)

    def play(self, make: Callable[[], Policy], n: int | None = None, with_truth: bool = False) -> Played:
        """Let a fresh policy play the first `n` episodes (all by default), 100 side by side.

        Args:
            with_truth: the policy gets the truth in place of the senses, for a ceiling.
        """
        seeds = self.seeds[:n]
        parts = [
            self._play(make(), part, with_truth) for part in np.split(seeds, range(TOGETHER, len(seeds), TOGETHER))
        ]
        return Played(
            np.concatenate([part.watched for part in parts], 1),
            np.concatenate([part.first_sight for part in parts]),
            np.concatenate([part.last_sight for part in parts]),
        )

    def _play(self, policy: Policy, seeds: np.ndarray, with_truth: bool) -> Played:
        world = self.context.make_world("nursery", self.level, seeds)
        first_sight, truth, watched, last = world.observe()["sight"], world.truth(), [], np.zeros(0)

        def knowing(senses: Senses, first: np.ndarray) -> Actions:
            return policy(world.truth(), first)

        for tick in rollout(knowing if with_truth else policy, world, self.ticks):
            before, truth = truth, world.truth()
            watched.append(self.watch(before if self.before else truth, tick.actions))
            last = tick.following["sight"]
        return Played(np.stack(watched), first_sight, last)


def gaze_error(truth: Mapping[str, np.ndarray], actions: Mapping[str, np.ndarray]) -> np.ndarray:
    """Distance of the gaze from the target, degrees [N]: a `Watch`."""
    return truth["error_deg"]


def gaze_turns(truth: Mapping[str, np.ndarray], actions: Mapping[str, np.ndarray]) -> np.ndarray:
    """Turn of the gaze in a tick, degrees [N]: a `Watch`."""
    look = actions.get("look", np.zeros((len(truth["tick"]), 2)))
    return np.linalg.norm(look.clip(-1, 1), axis=1) * MAX_TURN_DEG
