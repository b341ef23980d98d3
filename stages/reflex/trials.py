"""Episodes that an agent or a rule plays: the agent's own step path, arcs answering, most likely action."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from devmind.agent.agent import Agent
from devmind.agent.batch import collate_tick
from devmind.curriculum.exam import Exhibit
from devmind.curriculum.stage import Context
from stages.reflex.evidence import png, side_by_side

TOGETHER = 100
EPISODES = 400
SHOWN = 4

Player = Callable[[Mapping[str, Any], bool], Mapping[str, np.ndarray]]
Watch = Callable[[Mapping[str, np.ndarray], Mapping[str, np.ndarray]], np.ndarray]


class Child:
    """N children with one agent's weights, deciding by its step path; senses in `off` are absent.

    `answered` counts, by head, the decisions it made.
    """

    def __init__(self, agent: Agent, effector: str, off: Sequence[str] = ()) -> None:
        self.agent, self.effector, self.off = agent, effector, frozenset(off)
        self.answered: dict[str, int] = {}

    def __call__(self, senses: Mapping[str, Any], first: bool) -> dict[str, np.ndarray]:
        """The actions of one tick; a new state at the first."""
        n = len(senses["body"])
        if first:
            self.state = self.agent.new_state(n)
        felt = {name: value for name, value in senses.items() if name not in self.off}
        percepts = self.agent.encode(self.state, collate_tick(felt, np.full(n, first)))
        self.state, output = self.agent.step(self.state, percepts, effectors=[self.effector], trunk=False)
        for head, count in output.answered[self.effector].items():
            self.answered[head] = self.answered.get(head, 0) + count
        return {name: value.cpu().numpy() for name, value in output.action.items()}

    @property
    def counts(self) -> dict[str, dict[str, int]]:
        """How often each head decided, for the report."""
        return {self.effector: dict(self.answered)}


@dataclass
class Played:
    """Episodes as they went: what was watched [ticks, N], and first and last pictures uint8 [N, 64, 64, 3]."""

    watched: np.ndarray
    first_sight: np.ndarray
    last_sight: np.ndarray


@dataclass(frozen=True)
class Trial:
    """A level with fixed seeds; every player meets the same episodes.

    Attributes:
        watch: (truth before, actions) if `before`, else (truth after, actions), to one number a child.
    """

    context: Context
    level: str
    ticks: int
    seeds: np.ndarray
    watch: Watch
    before: bool = False

    def play(self, make: Callable[[], Player], n: int | None = None, told: bool = False) -> Played:
        """Let a fresh player play the first `n` episodes (all by default), 100 side by side."""
        seeds = self.seeds[:n]
        parts = [self._play(make(), part, told) for part in np.split(seeds, range(TOGETHER, len(seeds), TOGETHER))]
        return Played(
            np.concatenate([part.watched for part in parts], 1),
            np.concatenate([part.first_sight for part in parts]),
            np.concatenate([part.last_sight for part in parts]),
        )

    def _play(self, player: Player, seeds: np.ndarray, told: bool) -> Played:
        world = self.context.make_world("nursery", self.level, seeds)
        senses, watched = world.observe(), []
        shown = senses["sight"]
        for tick in range(self.ticks):
            truth = world.truth() if told or self.before else {}
            actions = player(truth if told else senses, tick == 0)
            senses = world.step(actions)[0]
            watched.append(self.watch(truth if self.before else world.truth(), actions))
        return Played(np.stack(watched), shown, senses["sight"])


def strips(
    kind: Literal["example", "failure"], played: Played, which: np.ndarray, captions: Sequence[str]
) -> tuple[Exhibit, ...]:
    """First and last sight of the episodes `which`, side by side."""
    strips = [side_by_side(played.first_sight[i], played.last_sight[i]) for i in which]
    return tuple(Exhibit(kind, text, png=png(strip)) for strip, text in zip(strips, captions, strict=True))


def episodes(context: Context, level: str, n: int = EPISODES) -> int:
    """How many episodes an exam runs: all of `n` in a full one, a fifth in a glimpse."""
    return context.episodes(n) if level == "full" else max(8, context.episodes(n) // 5)
