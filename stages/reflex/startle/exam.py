"""The exam of startle: withdrawals from bangs and looming objects, and false alarms; against thresholds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from devmind.acting import Policy
from devmind.agent.agent import Agent
from devmind.curriculum.exam import Measure, Parts, in_parts
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Context
from devmind.seeding import exam_seeds
from devmind.worlds.nursery.state import NO_EVENT, WITHDRAWN
from stages.reflex import hand_rules
from stages.reflex.exhibits import strips
from stages.reflex.trials import ARC_SILENCED, SHOWN, Trial, arcs, by_trunk
from stages.reflex.untaught import FLOOR, MOMENTS, RidgePolicy, UntrainedEncoders, fit_commands, lesson_moments

TICKS = 20
STARTLE_EVENTS = 800
FALSE_ALARMS = 0.02
"""The share of quiet ticks with a withdrawal that is allowed."""

GATE = Gate(
    [
        Threshold("startle", 0.95),
        Threshold("startle/false alarms", FALSE_ALARMS, lower_is_better=True),
        Threshold("startle/move_trunk", 0.90),
        Threshold("startle/false alarms/move_trunk", FALSE_ALARMS, lower_is_better=True),
    ]
)
QUIET, ALARM, MISSED, ANSWERED, AFTER = range(5)
EVENTS = {1: "bang", 2: "looming object"}


def withdrawal(truth: Mapping[str, np.ndarray], actions: Mapping[str, np.ndarray]) -> np.ndarray:
    """The kind of each row's tick, by the truth before the action: QUIET or ALARM until an event, MISSED or ANSWERED in
    the event's first two ticks, then AFTER."""
    withdrew = actions["move"][:, 0] <= WITHDRAWN if "move" in actions else np.zeros(len(truth["tick"]), bool)
    since = np.where(truth["event"] == NO_EVENT, -1, truth["tick"] - truth["event_tick"])
    before, during = np.where(withdrew, ALARM, QUIET), np.where(withdrew, ANSWERED, MISSED)
    return np.where(since < 0, before, np.where(since <= 1, during, AFTER))


@in_parts
def examine(agent: Agent, context: Context) -> Parts:
    """Share of bangs and looming objects with a withdrawal within a tick, and of quiet ticks with a false alarm."""
    n = context.episodes(STARTLE_EVENTS)
    seeds = startle_seeds(context, n)
    trial = Trial(context, "startle", TICKS, seeds, withdrawal, before=True)
    actor = arcs(agent, "move")
    played = trial.play(lambda: actor)
    event = context.make_world("nursery", "startle", seeds).state().event
    answered, alarms = startle_answers(played.watched, event)
    measures = [
        Measure(
            "startle", "events with withdrawal within one tick", answered.astype(np.float64), chance=0.0, ceiling=1.0,
            rate=True, rows=_by_kind(answered, event), answered=actor.counts,
            episodes=trial.episodes[event != NO_EVENT],
        ),
        Measure(
            "startle/false alarms", "share of the ticks before an event", alarms, chance=1.0, ceiling=0.0,
            rows={"episodes with any false alarm": float((played.watched == ALARM).any(0).mean())},
            higher_is_better=False, episodes=trial.episodes, note="every episode counts up to its event, if one comes",
        ),
    ]  # fmt: skip
    trunk_actor = by_trunk(agent, "move")
    both = startle_answers(trial.play(lambda: trunk_actor).watched, event)
    on_trunk = [
        measure.of(f"{measure.name}/move_trunk", values, answered=trunk_actor.counts, note=ARC_SILENCED)
        for measure, values in zip(measures, both, strict=True)
    ]
    yield [*measures, *on_trunk]
    floors, rows = [dict[str, float](), dict[str, float]()], [dict[str, float](), dict[str, float]()]
    rules: dict[str, Callable[[], Policy]] = {
        "loudness threshold": partial(hand_rules.LoudOrGrowing, larger=np.inf),
        "size threshold": partial(hand_rules.LoudOrGrowing, louder=np.inf),
        "either threshold": hand_rules.LoudOrGrowing,
        FLOOR: _by_ridge(agent, trial),
    }
    for name, rule in rules.items():
        for k, values in enumerate(startle_answers(trial.play(rule).watched, event)):
            floors[k][name] = float(values.mean())
    for off in ("sound", "sight"):
        changed = trial.play(partial(arcs, agent, "move", [off]), n // 2)
        for k, values in enumerate(startle_answers(changed.watched, event[: n // 2])):
            rows[k][f"{off} off"] = float(values.mean())
    wrong = np.flatnonzero(event != NO_EVENT)[~answered][:SHOWN]
    exhibits = strips("failure", played, wrong, [f"missed a {EVENTS[event[i]]}" for i in wrong])
    yield [
        replace(measures[0], floors=floors[0], rows={**rows[0], **measures[0].rows}, exhibits=exhibits),
        replace(measures[1], floors=floors[1], rows={**rows[1], **measures[1].rows}),
        *(replace(measure, floors=floors[k]) for k, measure in enumerate(on_trunk)),
    ]


def _by_kind(answered: np.ndarray, event: np.ndarray) -> dict[str, float]:
    """The share of each kind of event that was answered, of those that came."""
    kinds = event[event != NO_EVENT]
    return {f"{name}s only": float(answered[kinds == k].mean()) for k, name in EVENTS.items() if (kinds == k).any()}


def _by_ridge(agent: Agent, trial: Trial) -> Callable[[], Policy]:
    """Withdraws as a ridge on untaught tokens says: fitted in half of the rooms, and held to FALSE_ALARMS in the rest,
    whose events count for nothing.
    """
    untaught, senses = UntrainedEncoders(agent), ("sight", "sound")
    features, asked = lesson_moments(untaught, trial, senses, "move", _truly, 2 * MOMENTS)
    half = features.shape[1] // 2
    ridge = fit_commands(features[:, :half], asked[:, :half])
    threshold = np.quantile(ridge.predict(features[:, half:][asked[:, half:, 0] == 0]), FALSE_ALARMS)

    def withdraw(answers: np.ndarray) -> np.ndarray:
        return np.where(answers < threshold, -1.0, 0.0).astype(np.float32)

    return partial(RidgePolicy, untaught, senses, "move", ridge, withdraw)


def _truly(truth: Mapping[str, np.ndarray]) -> np.ndarray:
    """-1 (withdraw) in an event's first two ticks, 0 before, not a number behind it; float64 [N, 1]."""
    since = np.where(truth["event"] == NO_EVENT, -1, truth["tick"] - truth["event_tick"])
    return np.where(since > 1, np.nan, np.where(since >= 0, -1.0, 0.0))[:, None]


def startle_seeds(context: Context, n: int) -> np.ndarray:
    """The first seeds up to the `n`-th episode with an event, those without one included."""
    seeds = exam_seeds(4 * n, context.seed, "startle")
    events = np.flatnonzero(context.make_world("nursery", "startle", seeds).state().event != NO_EVENT)
    return seeds[: events[n - 1] + 1]


def startle_answers(watched: np.ndarray, event: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(was it answered, bool, of the episodes with an event; share of an episode's quiet ticks with an alarm, [N])."""
    alarms, quiet = (watched == ALARM).sum(0), (watched <= ALARM).sum(0)
    return (watched == ANSWERED).any(0)[event != NO_EVENT], alarms / np.maximum(quiet, 1)
