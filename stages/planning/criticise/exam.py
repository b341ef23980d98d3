"""The exam of criticise: plans with and without a flaw, from trips that no lesson shows; how well the judge tells them
apart, and whether it names the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from devmind.agent.agent import Agent
from devmind.agent.config import by_size
from devmind.algorithms.calibration import calibration_error
from devmind.curriculum.episodes import identities
from devmind.curriculum.exam import Exhibit, Measure, Parts, in_parts
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Context
from devmind.seeding import exam_seeds, numpy_rng
from devmind.worlds.pointmaze import MAX_TICKS
from stages.planning import parts
from stages.planning.criticise.drafts import FARTHEST, Drafts, drafts
from stages.planning.judge import BLOCKED, COLLISION, ENDED, LATE, REASONS, UNREACHABLE, Judgement, draft
from stages.planning.parts import STRIDE
from stages.planning.planner import PlannerHead
from stages.planning.reinforce.plans import holding
from stages.planning.route import trips
from stages.planning.route.lesson import LEVELS, oracle_trips

TOLD, REASON = "criticise/told apart", "criticise/reason"
GATE = Gate([Threshold(TOLD, 0.95, beats_floor=True), Threshold(REASON, 0.90, beats_floor=True)])
PLANS = 800
OWN = 100
"""Pairs of cells in each maze between which the planner's own plans are judged."""
TICKS = by_size(12_000, tiny=4_000)
"""Ticks of the oracle's trips, in each maze, from which an exam's plans are cut."""
NOTE = "plans cut from the oracle's trips; half are sound and half have one flaw"


@in_parts
def examine(agent: Agent, context: Context) -> Parts:
    """Told apart: for each flawed plan, the share of sound ones that the judge thinks better (the mean is the area
    under the ROC curve). Reason: whether a flawed plan is refused for its own reason.
    """
    plans = exam_drafts(context, context.episodes(PLANS))
    judged = judge(agent, plans.draft)
    flaw, reason = judged.flawed().numpy(), judged.mode().numpy()
    met = identities({parts.DRAFT: plans.draft[plans.flawed]})
    right = (reason == plans.reason)[plans.flawed].astype(float)
    told = Measure(TOLD, "ranked worse than a sound plan", above(flaw, plans), 0.5, 1.0, note=NOTE, episodes=met)
    named = Measure(
        REASON, "refused for the right reason", right, 1 / (1 + len(REASONS)), 1.0, rate=True, note=NOTE, episodes=met
    )
    yield [told, named]
    floors, rows = _floors(plans), _rows(plans, judged)
    yield [
        replace(told, floors=floors[TOLD], rows=rows[TOLD] | _of_the_planner(agent, context)),
        replace(named, floors=floors[REASON], rows=rows[REASON], exhibits=_mistakes(plans, reason)),
    ]


def lesson_episodes(context: Context, n: int) -> np.ndarray:
    """Plans that lessons show, int64 [about n]."""
    rng, points = numpy_rng(context.seed, "criticise", "episodes"), parts.HORIZONS[context.config.size]
    plans = drafts(oracle_trips(context), n, rng, points)
    return identities({parts.DRAFT: plans.draft[plans.flawed]})


def exam_drafts(context: Context, n: int) -> Drafts:
    """The exam's plans."""
    ticks = TICKS[context.config.size]
    walked = [trips.make_trips(name, context.seed, ticks, exam_seeds) for name in LEVELS[context.config.size]]
    return drafts(walked, n, numpy_rng(context.seed, "criticise", "exam"), parts.HORIZONS[context.config.size])


def judge(agent: Agent, draft: np.ndarray) -> Judgement:
    """The agent's judgement of plans, [N, ...]."""
    found: Any = agent.evaluate({parts.DRAFT: torch.from_numpy(draft)}, [parts.JUDGE])[parts.JUDGE]
    return Judgement(*(value.cpu() for value in (found.strides, found.moves, found.whole)))


def above(flaw: np.ndarray, plans: Drafts) -> np.ndarray:
    """For each flawed plan, the share of sound ones with a lower mark `flaw`, ties counting half; float64."""
    return _above(flaw, plans.flawed)


def _above(mark: np.ndarray, of: np.ndarray) -> np.ndarray:
    """For each row of `of`, bool [N], the share of the other rows with a lower mark, ties counting half."""
    mine, others = mark[of][:, None], mark[~of][None]
    return np.asarray((mine > others).mean(1) + 0.5 * (mine == others).mean(1))


def _floors(plans: Drafts) -> dict[str, dict[str, float]]:
    """Two rules: one checks for collisions by the maze itself, the other does arithmetic without a maze."""
    collides = (plans.hit > 0).any(1)
    late, far = arithmetic(plans)
    counted = np.where(far, 1 + UNREACHABLE, np.where(late, 1 + LATE, 0))
    rules = {
        "a perfect collision check alone": np.where(collides, 1 + COLLISION, 0),
        "arithmetic without a maze": counted,
    }
    return {
        TOLD: {name: float(above((said > 0).astype(float), plans).mean()) for name, said in rules.items()},
        REASON: {name: float((said == plans.reason)[plans.flawed].mean()) for name, said in rules.items()},
    }


def arithmetic(plans: Drafts) -> tuple[np.ndarray, np.ndarray]:
    """By their numbers, which plans take more ticks than there are, and which end elsewhere or leap; bool [N] each."""
    n = plans.stuck.shape[1]
    points, goal = plans.draft[:, : 2 * n].reshape(-1, n, 2), plans.draft[:, 3 * n :][:, :2]
    strides = np.linalg.norm(np.diff(points, axis=1), axis=2)
    takes = STRIDE * np.maximum(1, (strides > ENDED).sum(1))
    ends = np.linalg.norm(points[:, -1] - goal, axis=1)
    return takes > 1000 * plans.draft[:, -1], (ends > 0.1) | (strides.max(1) > FARTHEST)


def _rows(plans: Drafts, judged: Judgement) -> dict[str, dict[str, float]]:
    """Rows: results by reason, sound plans that pass, whether the place is named, and calibration of the doubt."""
    flaw, reason, where = judged.flawed().numpy(), judged.mode().numpy(), judged.where().numpy()
    rows: dict[str, dict[str, float]] = {TOLD: {}, REASON: {}}
    rows[TOLD]["sound plans that are accepted"] = float((reason[~plans.flawed] == 0).mean())
    rows[TOLD]["calibration error"] = calibration_error(flaw, plans.flawed)
    for number, name in enumerate(REASONS, 1):
        of = plans.reason == number
        rows[REASON][name] = float((reason[of] == number).mean())
    for number, marks in ((1 + COLLISION, plans.hit), (1 + BLOCKED, plans.stuck)):
        named = (plans.reason == number) & (reason == number)
        if named.any():
            rows[REASON][f"{REASONS[number - 1]}: right place"] = float((marks[named, where[named]] > 0).mean())
    return rows


def _of_the_planner(agent: Agent, context: Context) -> dict[str, float]:
    """Rows on the planner's own candidates between any two cells of each maze: how well the judge, and the critic of
    strides, tell those that lead through a wall from the others (area under the ROC curve)."""
    rows: dict[str, float] = {}
    for name in LEVELS[context.config.size]:
        world = context.make_world(
            "pointmaze", name, exam_seeds(context.episodes(OWN), context.seed, "criticise", "own", name)
        )
        points, shown, marks = _candidates(agent, world.observe())
        fails = ~holding(name, points)
        if not 0 < fails.sum() < len(fails):
            continue  # there is nothing to tell apart
        judged = judge(agent, shown)
        where = f"the planner's own plans in {name}"
        rows[f"{where}: through a wall, by the judge"] = float(_above(judged.strides.amax(-1).numpy(), fails).mean())
        rows[f"{where}: through a wall, by the critic of strides"] = float(_above(-marks, fails).mean())
        rows[f"{where}: through no wall"] = float((~fails).mean())
    return rows


def _candidates(agent: Agent, senses: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All candidates of B rows, row by row: points [B * N, H, 2], drafts, and the critic's marks."""
    head = agent.head(parts.ROUTE)
    assert isinstance(head, PlannerHead)
    senses_of_agent = [torch.from_numpy(np.asarray(senses[sense])).float().to(agent.device) for sense in parts.SENSES]
    with torch.inference_mode():
        read = head.thinking(*senses_of_agent)
        found = head.search(read)
        made = (found.plans, found.symbols, head.marks(found.plans, read.maze))
    plans, symbols, marks = (value.flatten(0, 1).cpu().numpy() for value in made)
    goals, mazes = (np.repeat(np.asarray(senses[name]), found.plans.shape[1], 0) for name in ("goal", "maze"))
    shown = [draft(*one, MAX_TICKS) for one in zip(plans, symbols, goals, mazes, strict=True)]
    return plans, np.stack(shown), marks


def _mistakes(plans: Drafts, reason: np.ndarray) -> tuple[Exhibit, ...]:
    names = ("sound", *REASONS)
    wrong = np.flatnonzero(reason != plans.reason)[:6]
    return tuple(Exhibit("failure", f"plan {i}: {names[plans.reason[i]]}, called {names[reason[i]]}") for i in wrong)
