"""The exam of track: how long the gaze stays on a wandering object; against stillness and hand rules."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from devmind.agent.agent import Agent
from devmind.curriculum.exam import Measure, Parts, in_parts
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


@in_parts
def examine(agent: Agent, context: Context) -> Parts:
    """Fraction of an episode's ticks with the gaze within 5 degrees of a wandering object."""
    n = context.episodes(EPISODES)
    trial = Trial(context, "track", TICKS, exam_seeds(n, context.seed, "track"), gaze_error)
    actor = arcs(agent, "look")
    played = trial.play(lambda: actor)

    def on_target(played: Played) -> np.ndarray:
        return (played.watched <= TRACKED_DEG).mean(0)

    values = on_target(played)
    measure = Measure(
        "track",
        "fraction of ticks within 5 degrees",
        values,
        chance=0.0,
        answered=actor.counts,
        note="the first ticks, before the gaze can arrive, count too",
        episodes=trial.episodes,
    )
    trunk_actor = by_trunk(agent, "look")
    trunk_values = on_target(trial.play(lambda: trunk_actor))
    on_trunk = measure.of("track/look_trunk", trunk_values, answered=trunk_actor.counts, note=ARC_SILENCED)
    yield [measure, on_trunk]
    still = float(on_target(trial.play(hand_rules.HoldStill)).mean())
    floors = {
        "hold still": still,
        "last velocity": float(on_target(trial.play(hand_rules.KeepVelocity)).mean()),
        "turn to the oddest blob": float(on_target(trial.play(hand_rules.LookAtBlob)).mean()),
        FLOOR: float(on_target(trial.play(imitating(agent, trial, ("sight", "body"), "look", target_turn))).mean()),
    }
    blind = on_target(trial.play(lambda: arcs(agent, "look", ["sight"]), n // 2))
    alone = on_target(trial.play(lambda: by_trunk(agent, "look", short_term=False), n // 2))
    worst = np.argsort(values)[:SHOWN]
    captions = [f"{values[i]:.0%} of the time within 5 degrees" for i in worst]
    yield [
        replace(
            measure,
            chance=still,
            floors=floors,
            rows={"sight off": float(blind.mean())} | trial.rows_by_looks(agent, values),
            exhibits=strips("failure", played, worst, captions),
        ),
        replace(
            on_trunk,
            chance=still,
            floors=floors,
            rows={"memory off": float(alone.mean())} | trial.rows_by_looks(agent, trunk_values),
        ),
    ]
