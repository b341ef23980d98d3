"""The threshold of the looking arc: how short a turn is none, chosen on lesson seeds.

Printed are the lengths of the turns that the arc wants in empty rooms, where nothing is of interest, and in rooms with
a target more than 5 degrees off; and the largest threshold that silences at most 2 % of the latter on every level and
loses at most 2 % of the ticks in which a wandering thing is followed: who waits until it is 5 degrees off has lost it.

    OMP_NUM_THREADS=1 python benchmarks/look_threshold.py --agent DIR
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from devmind import worlds
from devmind.acting import Actor, observations, rollout
from devmind.agent.agent import Agent
from devmind.agent.batch import collate_tick
from devmind.raised import FOLDER
from devmind.seeding import lesson_seeds
from devmind.worlds.nursery.goals import TRACKED_DEG
from devmind.worlds.nursery.spawning import empty_room, settle
from devmind.worlds.nursery.views import wide_view

TRACK_TICKS = 30
LEVELS = ("orient/sight", "orient/sound", "orient/motion", "track")
SENSES = ("sight", "periphery", "sound", "body")
FOLLOWED = ("track", "clutter/track")
MOST_SILENCED = MOST_LOST = 0.02
TRIED = (0.02, 0.04, 0.06, 0.08, 0.10, 0.12, 0.14)
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


def followed(agent: Agent, level: str, n: int, threshold: float | None) -> float:
    """Share of the ticks in which the gaze is within 5 degrees of a wandering thing, in `n` rooms of a level."""
    agent.heads["look_arc"].threshold = threshold
    world = worlds.make("nursery", level, lesson_seeds(n, 0, "look threshold", level))
    actor = Actor(agent, effectors=["look"], trunk=False)
    return float(np.mean([world.truth()["error_deg"] <= TRACKED_DEG for _ in rollout(actor, world, TRACK_TICKS)]))


def main() -> None:
    """Measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--agent", type=Path, default=FOLDER)
    parser.add_argument("--rooms", type=int, default=200)
    given = parser.parse_args()
    agent = Agent.from_pretrained(given.agent)
    wanted = {level: turns(agent, level, given.rooms) for level in LEVELS}
    quiet = turns(agent, "orient/sight", given.rooms, empty=True)
    silenced = min(float(np.quantile(value, MOST_SILENCED)) for value in wanted.values())
    shares = {level: [followed(agent, level, given.rooms, value) for value in (None, *TRIED)] for level in FOLLOWED}
    lost = np.max([share[0] - np.array(share[1:]) for share in shares.values()], axis=0)
    threshold = max((value for value, less in zip(TRIED, lost, strict=True) if value <= silenced and less <= MOST_LOST))
    for name, value in {**wanted, "empty room": quiet}.items():
        cuts = " ".join(f"{np.quantile(value, q):.3f}" for q in (0.02, 0.1, 0.5, 0.9))
        print(f"{name:14} n {len(value):5}   2, 10, 50, 90 %: {cuts}   still {np.mean(value <= threshold):.3f}")
    for level, share in shares.items():
        print(f"{level:14} followed without a threshold {share[0]:.3f}, with " + ", ".join(
            f"{value:.2f}: {kept:.3f}" for value, kept in zip(TRIED, share[1:], strict=True)
        ))  # fmt: skip
    print(f"silences at most 2 %: {silenced:.3f}; threshold {threshold:.2f}")


if __name__ == "__main__":
    main()
