"""The exam of reach: what the hand touches first; against random moves, a rule by hand and a reach by ground truth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from devmind.agent.agent import Agent
from devmind.curriculum.exam import Measure, Parts, in_parts
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Context
from devmind.seeding import exam_seeds, numpy_rng
from stages.reflex import hand_rules
from stages.reflex.exhibits import strips
from stages.reflex.trials import ARC_SILENCED, EPISODES, SHOWN, Played, Trial, arcs, by_trunk
from stages.reflex.untaught import FLOOR, imitating

TICKS, SENSES = 30, ("sight", "words", "body")
GATE = Gate([Threshold("reach", 0.90), Threshold("reach/reach_trunk", 0.85)])


@in_parts
def examine(agent: Agent, context: Context) -> Parts:
    """Share of episodes in which the first object touched has the named colour."""
    n = context.episodes(EPISODES)
    trial = Trial(context, "reach", TICKS, exam_seeds(n, context.seed, "reach"), first_touch)
    actor = arcs(agent, "reach")
    played = trial.play(lambda: actor)
    values = right(played)
    touched = (played.watched != 0).any(0)
    measure = Measure(
        "reach",
        "episodes that touch the named colour first",
        values.astype(np.float64),
        chance=0.0,
        rate=True,
        answered=actor.counts,
        note=f"something was touched in {touched.mean():.0%}; the ceiling is a reach by ground truth",
        episodes=trial.episodes,
    )
    trunk_actor = by_trunk(agent, "reach")
    trunk_values = right(trial.play(lambda: trunk_actor))
    on_trunk = measure.of("reach/reach_trunk", trunk_values, answered=trunk_actor.counts, note=ARC_SILENCED)
    yield [measure, on_trunk]
    rng = numpy_rng(context.seed, "reach", "random")
    floors = {
        "random": float(right(trial.play(lambda: hand_rules.Random("reach", 4, rng))).mean()),
        "along the ray to the named colour": float(right(trial.play(hand_rules.ReachByColour)).mean()),
        FLOOR: float(right(trial.play(imitating(agent, trial, SENSES, "reach", _by_truth))).mean()),
    }
    ceiling = float(right(trial.play(hand_rules.ReachByTruth, with_truth=True)).mean())
    beside: dict[str, Any] = {"chance": floors["random"], "ceiling": ceiling, "floors": floors}
    rows = {"words off": float(right(trial.play(lambda: arcs(agent, "reach", ["words"]), n // 2)).mean())}
    wrong = np.flatnonzero(~values)[:SHOWN]
    captions = ["touched another colour" if touched[i] else "touched nothing in 3 s" for i in wrong]
    yield [
        replace(
            measure,
            **beside,
            rows=rows | trial.rows_by_looks(agent, values),
            exhibits=strips("failure", played, wrong, captions),
        ),
        replace(on_trunk, **beside, rows=trial.rows_by_looks(agent, trunk_values)),
    ]


def _by_truth(truth: Mapping[str, np.ndarray]) -> np.ndarray:
    return hand_rules.ReachByTruth()(truth, np.zeros(0))["reach"]


def right(played: Played) -> np.ndarray:
    """Whether the first thing touched was the target, bool [N]."""
    first = np.argmax(played.watched != 0, axis=0)
    return np.asarray(played.watched[first, np.arange(len(first))] > 0)


def first_touch(truth: Mapping[str, np.ndarray], actions: Mapping[str, np.ndarray]) -> np.ndarray:
    """1 where the target is the nearest thing touched, -1 where something else is, 0 where nothing is."""
    return np.where(truth["touched_index"] < 0, 0, np.where(truth["success"], 1, -1))
