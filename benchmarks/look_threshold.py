"""The threshold of the gaze for the arc and the trunk: the length below which a turn is dropped, chosen on lesson
seeds.

Printed are the lengths of the turns that the head wants in empty rooms, which have no target, and in rooms with a
target more than 5 degrees off; and the largest threshold that drops at most 2 % of the latter on every level and loses
at most 2 % of the ticks of following a wandering thing: a gaze that waits until it is 5 degrees off has lost it.

    OMP_NUM_THREADS=1 python benchmarks/look_threshold.py --agent DIR --head look_trunk
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from devmind import worlds
from devmind.acting import Actor, observations, rollout
from devmind.agent.agent import Agent
from devmind.agent.batch import collate_tick
from devmind.agent.heads import WithReadoutHead
from devmind.raised import FOLDER
from devmind.seeding import lesson_seeds
from devmind.worlds.nursery.goals import TRACKED_DEG

TRACK_TICKS = 30
LEVELS = ("orient/sight", "orient/sound", "orient/motion", "track")
EMPTY = ("orient/empty", "clutter/empty")
SENSES = ("sight", "periphery", "sound", "body")
FOLLOWED = ("track", "clutter/track")
MOST_SILENCED = MOST_LOST = 0.02
TRIED = (0.02, 0.04, 0.06, 0.08, 0.10, 0.12, 0.14)
TICKS = 3


def turns(agent: Agent, head: str, level: str, n: int) -> np.ndarray:
    """Lengths of the turns that a head wants in `n` rooms of a level: with the target off centre, or without target."""
    world = worlds.make("nursery", level, lesson_seeds(n, 0, "look threshold", level))
    actor = Actor(agent, n, effectors=[], heads=[head])
    found = []
    for tick, senses in enumerate(observations(world, TICKS)):
        output = actor.act(collate_tick({name: senses[name] for name in SENSES}, np.full(n, tick == 0)))
        length = np.linalg.norm(output.outputs[head].mode().cpu().numpy(), axis=1)
        truth = world.truth()
        found.append(length[(truth["target"] < 0) | (truth["error_deg"] > TRACKED_DEG)])
    return np.concatenate(found)


def followed(agent: Agent, head: str, level: str, n: int, threshold: float | None) -> float:
    """Share of ticks with the gaze within 5 degrees of a wandering thing, in `n` rooms of a level."""
    part = agent.head(head)
    (part.inner if isinstance(part, WithReadoutHead) else part).threshold = threshold
    world = worlds.make("nursery", level, lesson_seeds(n, 0, "look threshold", level))
    actor = Actor(agent, effectors=["look"], standing={"look": (head,)})
    return float(np.mean([world.truth()["error_deg"] <= TRACKED_DEG for _ in rollout(actor, world, TRACK_TICKS)]))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--agent", type=Path, default=FOLDER)
    parser.add_argument("--head", choices=("look_arc", "look_trunk"), default="look_arc")
    parser.add_argument("--rooms", type=int, default=200)
    given = parser.parse_args()
    agent = Agent.from_pretrained(given.agent)
    wanted, quiet = (
        {level: turns(agent, given.head, level, given.rooms) for level in levels} for levels in (LEVELS, EMPTY)
    )
    silenced = min(float(np.quantile(value, MOST_SILENCED)) for value in wanted.values())
    shares = {
        level: [followed(agent, given.head, level, given.rooms, value) for value in (None, *TRIED)]
        for level in FOLLOWED
    }
    lost = np.max([share[0] - np.array(share[1:]) for share in shares.values()], axis=0)
    fitting = (value for value, less in zip(TRIED, lost, strict=True) if value <= silenced and less <= MOST_LOST)
    threshold = max(fitting, default=0.0)  # none where even the shortest costs too much
    for name, value in {**wanted, **quiet}.items():
        cuts = " ".join(f"{np.quantile(value, q):.3f}" for q in (0.02, 0.1, 0.5, 0.9))
        print(f"{name:14} n {len(value):5}   2, 10, 50, 90 %: {cuts}   still {np.mean(value <= threshold):.3f}")
    for level, share in shares.items():
        print(f"{level:14} followed without a threshold {share[0]:.3f}, with " + ", ".join(
            f"{value:.2f}: {kept:.3f}" for value, kept in zip(TRIED, share[1:], strict=True)
        ))  # fmt: skip
    print(f"silences at most 2 %: {silenced:.3f}; threshold {threshold:.2f}")


if __name__ == "__main__":
    main()
