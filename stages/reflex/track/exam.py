"""The exam of track: how long the gaze stays on a wandering object; against stillness and hand rules."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from devmind.agent.agent import Agent
from devmind.curriculum.exam import Measure
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Context
from devmind.seeding import exam_seeds
from devmind.worlds.nursery.goals import TRACKED_DEG
from stages.reflex import hand_rules
from stages.reflex.exhibits import strips
from stages.reflex.orient.lesson import target_turn
from stages.reflex.trials import ARC_SILENCED, EPISODES, LOOK_ON_TRUNK, SHOWN, Played, Trial, arcs, by_trunk, gaze_error
from stages.reflex.untaught import FLOOR, imitating

TICKS = 30
GATE = Gate([Threshold("track", 0.90), Threshold("track/look_trunk", LOOK_ON_TRUNK)])


def examine(agent: Agent, context: Context, level: str) -> Sequence[Measure]:
    """Fraction of an episode's ticks with the gaze within 5 degrees of a wandering object."""
    n, full = context.episodes(EPISODES, level), level == "full"
    trial = Trial(context, "track", TICKS, exam_seeds(n, context.seed, "track"), gaze_error)
    actor = arcs(agent, "look")
    played = trial.play(lambda: actor)

    def on_target(played: Played) -> np.ndarray:
        return (played.watched <= TRACKED_DEG).mean(0)

    values, floors = on_target(played), {}
    if full:
        floors = {
            "hold still": float(on_target(trial.play(hand_rules.HoldStill)).mean()),
            "last velocity": float(on_target(trial.play(hand_rules.KeepVelocity)).mean()),
            "turn to the oddest blob": float(on_target(trial.play(hand_rules.LookAtBlob)).mean()),
            FLOOR: float(on_target(trial.play(imitating(agent, trial, ("sight", "body"), "look", target_turn))).mean()),
        }
    worst = np.argsort(values)[:SHOWN]
    measures = [
        Measure(
            "track",
            "fraction of ticks within 5 degrees",
            values,
            chance=floors.get("hold still", 0.0),
            ceiling=1.0,
            floors=floors,
            rows={"sight off": float(on_target(trial.play(lambda: arcs(agent, "look", ["sight"]), n // 2)).mean())}
            | trial.rows_by_looks(agent, values)
            if full
            else {},
            answered=actor.counts,
            note="the first ticks, before the gaze can arrive, count too",
            episodes=trial.episodes,
            exhibits=strips("failure", played, worst, [f"{values[i]:.0%} of the time within 5 degrees" for i in worst])
            if full
            else (),
        )
    ]
    trunk_actor = by_trunk(agent, "look")
    values, rows = on_target(trial.play(lambda: trunk_actor)), {}
    if full:
        alone = trial.play(lambda: by_trunk(agent, "look", short_term=False), n // 2)
        rows = {"memory off": float(on_target(alone).mean())} | trial.rows_by_looks(agent, values)
    measures.append(
        measures[0].of("track/look_trunk", values, rows=rows, answered=trunk_actor.counts, note=ARC_SILENCED)
    )
    return measures
