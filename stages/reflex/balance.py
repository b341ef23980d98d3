"""The balance exam: the real CartPole-v1 of Gymnasium, through the agent's step path."""

from __future__ import annotations

from collections.abc import Sequence

import gymnasium
import numpy as np

from devmind.agent.agent import Agent
from devmind.agent.batch import collate_tick
from devmind.curriculum.exam import Measure
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Context
from devmind.seeding import exam_seeds, numpy_rng
from devmind.worlds.gym_world import GymWorld

EPISODES = 400
GATE = Gate([Threshold("balance", 475.0)])


def examine(agent: Agent, context: Context, level: str) -> Sequence[Measure]:
    """Steps that the pole is kept up in each of 400 episodes of CartPole-v1."""
    n = context.episodes(EPISODES) if level == "full" else max(8, context.episodes(EPISODES) // 5)
    seeds = exam_seeds(n, context.seed, "balance")
    state = agent.new_state(n)
    answered: dict[str, int] = {}

    def act(body: np.ndarray, first: bool) -> np.ndarray:
        nonlocal state
        percepts = agent.encode(state, collate_tick({"body": body}, np.full(n, first)))
        state, output = agent.step(state, percepts, effectors=["push"], trunk=False)
        for head, count in output.answered["push"].items():
            answered[head] = answered.get(head, 0) + count
        return output.action["push"].cpu().numpy()

    values = play(seeds, act)
    floors = {}
    if level == "full":
        rng = numpy_rng(context.seed, "balance", "random")
        floors = {"random": float(play(seeds, lambda body, first: rng.integers(0, 2, n)).mean())}
    return [
        Measure(
            "balance",
            "return of CartPole-v1",
            values,
            chance=floors.get("random", 22.0),
            ceiling=500.0,
            floors=floors,
            reference="CartPole-v1 counts as solved at 475",
            answered={"push": answered},
        )
    ]


def play(seeds: np.ndarray, act: object) -> np.ndarray:
    """Returns float64 [N] of `act(body [N, 4], first) -> push [N]` in CartPole-v1; all run until the last one ends."""
    worlds = [GymWorld(gymnasium.make("CartPole-v1")) for _ in seeds]
    body = np.stack([world.reset(seed=int(seed))[0]["body"] for world, seed in zip(worlds, seeds, strict=True)])
    returns, going, first = np.zeros(len(seeds)), np.ones(len(seeds), bool), True
    while going.any():
        push = act(body, first)  # type: ignore[operator]
        first = False
        for i in np.flatnonzero(going):
            senses, reward, terminated, truncated, _ = worlds[i].step({"push": push[i]})
            body[i] = senses["body"]
            returns[i] += reward
            going[i] = not (terminated or truncated)
    for world in worlds:
        world.close()
    return returns
