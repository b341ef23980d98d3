"""The thresholds of the rules that stand beside the exams of bind, reach and startle, chosen on lesson seeds.

OMP_NUM_THREADS=1 python benchmarks/rule_thresholds.py --rooms 200
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np

from devmind import worlds
from devmind.acting import rollout, still
from devmind.config import load
from devmind.curriculum.stage import Context
from devmind.seeding import lesson_seeds
from stages.reflex import hand_rules
from stages.reflex.bind import exam as bind
from stages.reflex.reach import exam as reach
from stages.reflex.startle import exam as startle
from stages.reflex.trials import Trial

ALLOWED = 0.02
"""Share of quiet ticks with a false alarm, as the gate of startle has it."""
ODD_COLOURS = (20.0, 30.0, 40.0, 50.0, 60.0, 80.0)
LOUDER = (1.1, 1.15, 1.2, 1.25, 1.3, 1.4, 1.6, 2.0, 4.0)
LARGER = (0.0005, 0.001, 0.00125, 0.0015, 0.002, 0.0025, 0.003, 0.004, 0.006, 0.01)
UNLIKE_COLOURS = (0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)


def bound_by(context: Context, rooms: int) -> Callable[[float], float]:
    """By threshold, the share of `rooms` scenes in which the rule's box is that of the sounding thing."""
    senses, truth = bind.scenes(context, lesson_seeds(rooms, context.seed, "bind", "rule"), bind.TICKS)
    sounding = truth["boxes"][np.arange(rooms), truth["target"]]
    sight, sound = senses["sight"][:, -1].numpy(), senses["sound"].numpy()
    return lambda threshold: float(bind.same_thing(hand_rules.sounding_box(sight, sound, threshold), sounding).mean())


def reached_by(context: Context, rooms: int) -> Callable[[float], float]:
    """By threshold, the share of `rooms` episodes in which the rule first touches the named colour."""
    trial = Trial(context, "reach", reach.TICKS, lesson_seeds(rooms, context.seed, "reach", "rule"), reach.first_touch)
    return lambda threshold: float(reach.right(trial.play(partial(hand_rules.ReachByColour, threshold))).mean())


def startled_by(context: Context, rooms: int) -> dict[tuple[float, float], tuple[float, float]]:
    """By both thresholds, the share of events that the rule withdraws from, and of quiet ticks with a false alarm."""
    seeds = lesson_seeds(rooms, context.seed, "startle", "rule")
    world, rule = context.make_world("nursery", "startle", seeds), hand_rules.LoudOrGrowing()
    event, ticks, truth = world.state().event, [], world.truth()
    for number, passed in enumerate(rollout(still, world, startle.TICKS)):
        ratios = rule.grown(passed.senses, np.full(rooms, number == 0))
        ticks.append((truth, *ratios))
        truth = world.truth()
    found = {}
    for louder, larger in product(LOUDER, LARGER):
        watched = []
        for senses, power, area in ticks:
            move = np.where((power > louder) | (area > larger), -1.0, 0.0)[:, None]
            watched.append(startle.withdrawal(senses, {"move": move}))
        answered, alarms = startle.startled(np.stack(watched), event)
        found[louder, larger] = float(answered.mean()), float(alarms.mean())
    return found


def main() -> None:
    """Try each and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rooms", type=int, default=200)
    parser.add_argument("--only", choices=("bind", "reach", "startle"))
    options = parser.parse_args()
    context = Context(load("nursery", {"device": "cpu"}), 0, "cpu", Path("unused"), worlds.make)
    tried = {"bind": (bound_by, ODD_COLOURS), "reach": (reached_by, UNLIKE_COLOURS)}
    for skill, (make, thresholds) in tried.items():
        if options.only in (None, skill):
            share = make(context, options.rooms)
            shares = {threshold: share(threshold) for threshold in thresholds}
            line = ", ".join(f"{threshold:g}: {value:.3f}" for threshold, value in shares.items())
            print(f"{skill}: best {max(shares, key=shares.__getitem__):g} ({line})", flush=True)
    if options.only in (None, "startle"):
        both = startled_by(context, options.rooms)
        allowed = {pair: shares for pair, shares in both.items() if shares[1] <= ALLOWED}
        for pair in sorted(allowed, key=allowed.__getitem__, reverse=True)[:5]:
            answered, alarms = allowed[pair]
            print(f"startle: louder {pair[0]:g}, larger {pair[1]:g}: {answered:.3f}, alarms {alarms:.4f}", flush=True)


if __name__ == "__main__":
    main()
