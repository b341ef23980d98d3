"""The threshold of the looking arc: how short a turn is none, chosen on lesson seeds.

Printed are the lengths of the turns that the arc wants in empty rooms, where nothing is of interest, and in rooms with
a target more than 5 degrees off; and the largest threshold that silences at most 2 % of the latter on every level.

    OMP_NUM_THREADS=1 python benchmarks/look_threshold.py --agent DIR
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from devmind import worlds
from devmind.acting import Actor, observations
from devmind.agent.agent import Agent
from devmind.agent.batch import collate_tick
from devmind.live.newborn import FOLDER
from devmind.seeding import lesson_seeds
from devmind.worlds.nursery.goals import TRACKED_DEG
from devmind.worlds.nursery.spawning import empty_room, settle
from devmind.worlds.nursery.views import wide_view

LEVELS = ("orient/sight", "orient/sound", "orient/motion", "track")
SENSES = ("sight", "periphery", "sound", "body")
SILENCED = 0.02
TICKS = 3


def turns(agent: Agent, level: str, n: int, empty: bool = False) -> np.ndarray:
    """Lengths of the turns wanted in `n` rooms of a level with the target off, or in such rooms when they are empty."""
    seeds = lesson_seeds(n, 0, "look threshold", level)
    world = worlds.make("nursery", level, seeds)
    if empty:
        state = settle(empty_room(seeds))
        state.wide_before = wide_view(state, state.position, state.tick)
        world.restore(state)
    found = []
    for tick, senses in enumerate(observations(world, TICKS)):
        actor = Actor(agent, n, effectors=[], heads=["look_arc"], trunk=False)
        output = actor.act(collate_tick({name: senses[name] for name in SENSES}, np.full(n, tick == 0)))
        length = np.linalg.norm(output.outputs["look_arc"].mode().cpu().numpy(), axis=1)
        found.append(length if empty else length[world.truth()["error_deg"] > TRACKED_DEG])
    return np.concatenate(found)


def main() -> None:
    """Measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--agent", type=Path, default=FOLDER)
    parser.add_argument("--rooms", type=int, default=200)
    given = parser.parse_args()
    agent = Agent.from_pretrained(given.agent)
    wanted = {level: turns(agent, level, given.rooms) for level in LEVELS}
    quiet = turns(agent, "orient/sight", given.rooms, empty=True)
    threshold = min(float(np.quantile(value, SILENCED)) for value in wanted.values())
    for name, value in {**wanted, "empty room": quiet}.items():
        cuts = " ".join(f"{np.quantile(value, q):.3f}" for q in (0.02, 0.1, 0.5, 0.9))
        print(f"{name:14} n {len(value):5}   2, 10, 50, 90 %: {cuts}   still {np.mean(value <= threshold):.3f}")
    print(f"threshold {threshold:.3f}")


if __name__ == "__main__":
    main()
