"""Where the arcs practise: many children at once, seen through what one arc taps.

A child's observation is the arc's `Tapped` (tokens [N, K, D] and presence [N, K]); each tick is encoded once, and only
the senses that the arc reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from devmind.agent.agent import Agent
from devmind.agent.batch import Batch, collate_tick, to_device
from devmind.agent.taps import Tapped, read_tap, tapped_senses
from devmind.algorithms.rollout import Step, Tree
from devmind.seeding import EXAM_SEEDS_FROM
from devmind.worlds.adapter import VectorWorld
from devmind.worlds.cartpole import CartPoleRules, CartPoleState

Observation = dict[str, Tensor]


class Gaze:
    """Reads worlds' senses as one head does, and carries what encoders of change need from tick to tick."""

    def __init__(self, agent: Agent, head: str) -> None:
        self.agent, self.tap = agent, agent.tap_of(head)
        self.senses = tapped_senses(self.tap)
        self.n_tokens = {sense: agent.encoder(sense).n_tokens for sense in self.senses}
        self.carried: dict[str, tuple[Tensor, Tensor]] = {}

    def read(self, observation: Mapping[str, Any], first: np.ndarray) -> Observation:
        """`tokens` [N, K, D] and `present` bool [N, K] of a vector world's observation."""
        needed = {k: v for k, v in observation.items() if k in self.senses or self.tap == f"raw:{k}"}
        batch: Batch = to_device(collate_tick(needed, first), self.agent.device)
        with torch.inference_mode():
            seen = self.agent.encode_batch(batch, self.senses, self.carried).map(lambda x: x[:, 0])
            tapped = read_tap(self.tap, seen, self.n_tokens)
        assert tapped is not None, f"the worlds of '{self.tap}' give none of its senses"
        self.carried = {
            name: (batch["senses"][name][:, 0], batch["present"][name][:, 0])
            for name in seen.encoded
            if self.agent.encoder(name).uses_previous
        }
        return {"tokens": tapped.tokens, "present": tapped.present}


def as_tapped(observation: Tree) -> Tapped:
    """What a head reads of an observation."""
    assert isinstance(observation, dict)
    return Tapped(observation["tokens"], observation["present"])


class Episodes:
    """One episode a child in vector worlds of one kind, laid side by side; an ended child is not started anew."""

    def __init__(self, agent: Agent, head: str, effector: str, worlds: Sequence[VectorWorld]) -> None:
        self.gaze, self.effector, self.worlds = Gaze(agent, head), effector, list(worlds)
        self.sizes = [world.num_envs for world in self.worlds]
        self.level = torch.repeat_interleave(torch.arange(len(self.sizes)), torch.tensor(self.sizes))

    def observe(self) -> Observation:
        """The first observation."""
        return self._read([world.observe() for world in self.worlds], first=True)

    def step(self, action: Tensor) -> Step:
        """Act in every world; action [N, ...]."""
        parts = np.split(action.detach().cpu().numpy(), np.cumsum(self.sizes)[:-1])
        outcomes = [world.step({self.effector: part}) for world, part in zip(self.worlds, parts, strict=True)]
        reward, terminal, truncated = (
            torch.from_numpy(np.concatenate([outcome[k] for outcome in outcomes])).to(action.device) for k in (1, 2, 3)
        )
        return Step(self._read([outcome[0] for outcome in outcomes], first=False), reward, terminal, truncated)

    def _read(self, observations: Sequence[Mapping[str, Any]], first: bool) -> Observation:
        joined = {name: _joined([each[name] for each in observations]) for name in observations[0]}
        return self.gaze.read(joined, np.full(sum(self.sizes), first))


def _joined(values: Sequence[Any]) -> Any:
    """Arrays [N, ...], or lists of words, one behind the other."""
    if len(values) == 1:
        return values[0]
    return [text for part in values for text in part] if isinstance(values[0], list) else np.concatenate(values)


class Carts:
    """CartPole children that start anew when they end; their state outlives a rollout.

    Args:
        starts: draws the seeds of new episodes.
    """

    def __init__(self, agent: Agent, head: str, state: CartPoleState, starts: np.random.Generator) -> None:
        self.gaze, self.rules, self.state, self.starts = Gaze(agent, head), CartPoleRules(), state, starts
        self.finished: list[int] = []
        self.level = torch.zeros(len(state), dtype=torch.long)

    def observe(self) -> Observation:
        """Where carts and poles are now."""
        return self.gaze.read(self.rules.observe(self.state), self.state.tick == 0)

    def step(self, action: Tensor) -> Step:
        """Push every cart; action int64 [N]."""
        self.state = self.rules.step(self.state, {"push": action.cpu().numpy()})
        outcome = self.rules.outcome(self.state)
        reward, terminal, truncated = (
            torch.from_numpy(value).to(action.device) for value in (outcome.reward, outcome.terminal, outcome.truncated)
        )
        led_to = self.observe()
        ended = np.flatnonzero(outcome.terminal | outcome.truncated)
        if not len(ended):
            return Step(led_to, reward, terminal, truncated)
        self.finished += self.state.tick[ended].tolist()
        fresh = self.rules.initial(self.starts.integers(0, EXAM_SEEDS_FROM, len(ended)))
        for name, values in vars(fresh).items():
            getattr(self.state, name)[ended] = values
        return Step(self.observe(), reward, terminal, truncated, led_to)


def carts_to_tensors(state: CartPoleState) -> dict[str, Tensor]:
    """The state as tensors, for a checkpoint."""
    return {name: torch.from_numpy(value.copy()) for name, value in vars(state).items()}


def carts_from_tensors(tensors: Mapping[str, Tensor]) -> CartPoleState:
    """The state that `carts_to_tensors` gave."""
    return CartPoleState(**{name: value.cpu().numpy().copy() for name, value in tensors.items()})
