"""The exam of orient: the gaze a second after something is seen, heard or moves; against stillness and hand rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache

import numpy as np

from devmind.acting import Policy
from devmind.agent.agent import Agent
from devmind.curriculum.exam import Exam, Measure
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Context
from devmind.seeding import exam_seeds, numpy_rng
from devmind.worlds.nursery.goals import ORIENTED_DEG, TRACKED_DEG
from stages.reflex import hand_rules
from stages.reflex.exhibits import strips
from stages.reflex.orient.lesson import target_turn
from stages.reflex.trials import ARC_SILENCED, LOOK_ON_TRUNK, SHOWN, Trial, arcs, by_trunk, gaze_error, gaze_turns
from stages.reflex.untaught import FLOOR, imitating

TICKS, EPISODES = 10, 1000


CUES: dict[str, tuple[float, Callable[[], Policy], str]] = {
    "sight": (0.95, hand_rules.LookAtBlob, "turn to the oddest blob"),
    "sound": (0.85, hand_rules.LookAtSound, "turn by the interaural delay"),
    "motion": (0.60, hand_rules.LookAtChange, "turn to the change in the wide view"),
}
MEMORY = "orient/motion/memory"
"""What memory adds: a thing that moved may rest now, and then only memory knows where it is."""
REST = "orient/rest"
"""Turn to a thing, and rest where nothing is: an agent that never rests, or never turns, cannot pass."""
RESTS = 0.90
GATE = Gate(
    [
        *(Threshold(f"orient/{cue}", bound) for cue, (bound, _, _) in CUES.items()),
        *(Threshold(f"orient/{cue}/look_trunk", LOOK_ON_TRUNK, beats_twin=cue == "motion") for cue in CUES),
        Threshold(REST, RESTS),
        Threshold(f"{REST}/look_trunk", LOOK_ON_TRUNK, goal=True),
        Threshold(MEMORY, None, beats_floor=True),
    ]
)
_REFERENCES = {
    "sight": "a probe of the same task: 1.00 with a supervised eye",
    "sound": "a probe of the same task: 0.85 with interaural lags, 0.39 without",
    "motion": "a probe of the same task: 0.33 from a memoryless pair of pictures",
}
RULES_AT_REST: Mapping[str, Callable[[], Policy]] = {
    "hold still": hand_rules.HoldStill,
    "turn to the oddest blob": hand_rules.LookAtBlob,
    "turn to the change in the wide view": hand_rules.LookAtChange,
}
_OFF = {"sight": "sight", "sound": "sound", "motion": "periphery"}


def examine(agent: Agent, context: Context) -> Exam:
    """Share of episodes with the gaze within 10 degrees of the target after one second, by cue; and share of the sight
    episodes in which it also rests when that target is taken out.
    """
    by_cue = {cue: _orient(agent, context, cue) for cue in CUES}
    scores = {measure.name: measure.values for exam, _ in by_cue.values() for measure in exam.alone()}
    _, rules_by_sight = by_cue["sight"]
    return Exam.joined([*(exam for exam, _ in by_cue.values()), _rest(agent, context, scores, rules_by_sight)])


def _orient(agent: Agent, context: Context, cue: str) -> tuple[Exam, Callable[[], Mapping[str, np.ndarray]]]:
    """The exam of a cue, with its arc and with the arc silenced, for motion also of what memory adds to that; and which
    of its episodes each of the floors solves, bool [n] by name, found once.
    """
    name, n = f"orient/{cue}", context.episodes(EPISODES)
    trial = Trial(context, name, TICKS, exam_seeds(n, context.seed, name), gaze_error)
    actor = arcs(agent, "look")
    played = trial.play(lambda: actor)
    last = played.watched[-1]
    right = last <= ORIENTED_DEG
    arc = Measure(
        name,
        "episodes within 10 degrees after one second",
        right.astype(np.float64),
        chance=0.0,
        rate=True,
        reference=_REFERENCES[cue],
        answered=actor.counts,
        note=f"median error {np.median(last):.1f} degrees",
        episodes=trial.episodes,
    )
    trunk_actor = by_trunk(agent, "look")
    trunk_right = (trial.play(lambda: trunk_actor).watched[-1] <= ORIENTED_DEG).astype(np.float64)
    on_trunk = arc.of(f"{name}/look_trunk", trunk_right, answered=trunk_actor.counts, note=ARC_SILENCED)

    def solved(make: Callable[[], Policy], n: int | None = None) -> np.ndarray:
        return trial.play(make, n).watched[-1] <= ORIENTED_DEG

    @cache
    def by_rule() -> Mapping[str, np.ndarray]:
        (_, rule, rule_name), rng = CUES[cue], numpy_rng(context.seed, name, "random")
        return {
            "hold still": solved(hand_rules.HoldStill),
            "random": solved(lambda: hand_rules.Random("look", 2, rng)),
            rule_name: solved(rule),
            FLOOR: solved(imitating(agent, trial, (_OFF[cue], "body"), "look", target_turn)),
        }

    def complete() -> list[Measure]:
        floors = {title: float(values.mean()) for title, values in by_rule().items()}
        off = {f"{_OFF[cue]} off": float(solved(lambda: arcs(agent, "look", [_OFF[cue]]), n // 2).mean())}
        wrong = np.flatnonzero(~right)[:SHOWN]
        shown = strips("failure", played, wrong, [f"{last[i]:.0f} degrees off at the end" for i in wrong])
        full_arc, full_trunk = (
            replace(measure, chance=floors["random"], floors=floors, rows=rows | _left_out(agent, trial, values))
            for measure, rows, values in ((arc, off, right), (on_trunk, {}, trunk_right))
        )
        full_arc = replace(full_arc, exhibits=shown)
        if cue != "motion":
            return [full_arc, full_trunk]
        alone = solved(lambda: by_trunk(agent, "look", short_term=False))
        gained = Measure(
            MEMORY, "episodes won by memory, minus episodes lost by it", trunk_right - alone, chance=0.0, ceiling=1.0,
            floors={"no memory": 0.0}, episodes=arc.episodes,
            note="the trunk with its window minus the trunk with a window of one Moment, episode by episode",
        )  # fmt: skip
        return [full_arc, replace(full_trunk, rows={"memory off": float(alone.mean()), **full_trunk.rows}), gained]

    return Exam([arc, on_trunk], complete), by_rule


def _left_out(agent: Agent, trial: Trial, right: np.ndarray) -> dict[str, float]:
    """Rows by tones for the cue sound, by looks for the others."""
    rows_by = trial.rows_by_tones if trial.level == "orient/sound" else trial.rows_by_looks
    return rows_by(agent, right)


def _rest(
    agent: Agent,
    context: Context,
    scores: Mapping[str, np.ndarray],
    rules_by_sight: Callable[[], Mapping[str, np.ndarray]],
) -> Exam:
    """The episodes of sight once more, and the same rooms without their target.

    Args:
        scores: the values of orient, by measure; rules_by_sight: as from `_orient`, for rules that were asked there.
    """
    seen = "orient/sight"
    seeds = exam_seeds(context.episodes(EPISODES), context.seed, seen)
    sight, empty = (
        Trial(context, seen, TICKS, seeds, gaze_error),
        Trial(context, "orient/empty", TICKS, seeds, gaze_turns),
    )

    def rests(make: Callable[[], Policy]) -> np.ndarray:
        return (empty.play(make).watched.sum(0) <= TRACKED_DEG).astype(np.float64)

    def floor(name: str, make: Callable[[], Policy]) -> float:
        solved = rules_by_sight().get(name)
        if solved is None:
            solved = sight.play(make).watched[-1] <= ORIENTED_DEG
        return float((solved * rests(make)).mean())

    def measured(policy: Policy, name: str) -> tuple[np.ndarray, str]:
        still = rests(lambda: policy)
        return scores[name] * still, f"at rest in {still.mean():.3f} of the rooms without a target"

    actor = arcs(agent, "look")
    values, note = measured(actor, seen)
    arc = Measure(
        REST,
        "episodes within 10 degrees after one second that turn less than 5 degrees in it where the target is taken out",
        values,
        chance=0.0,
        rate=True,
        answered=actor.counts,
        note=note,
        episodes=sight.episodes,
    )
    trunk_actor = by_trunk(agent, "look")
    values, note = measured(trunk_actor, f"{seen}/look_trunk")
    on_trunk = arc.of(f"{REST}/look_trunk", values, answered=trunk_actor.counts, note=f"{ARC_SILENCED}; {note}")

    def complete() -> list[Measure]:
        floors = {name: floor(name, rule) for name, rule in RULES_AT_REST.items()}
        return [replace(arc, floors=floors), replace(on_trunk, floors=floors)]

    return Exam([arc, on_trunk], complete)
