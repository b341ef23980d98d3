"""The floor "ridge on an untaught encoder's tokens": it is there, and no lesson changes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from devmind.agent.agent import Agent
from devmind.curriculum.stage import Context
from devmind.seeding import EXAM_SEEDS_FROM, exam_seeds
from devmind.testing import tiny_agent, tiny_context
from stages.reflex import parts, trials
from stages.reflex.bind import exam as bind
from stages.reflex.hear import exam as hear
from stages.reflex.orient import exam as orient
from stages.reflex.orient.lesson import target_turn
from stages.reflex.see import exam as see
from stages.reflex.startle import exam as startle
from stages.reflex.untaught import FLOOR, UntrainedEncoders, fit_commands, imitating, lesson_moments


def reflex_agent() -> Agent:
    agent = tiny_agent()
    parts.admit(agent)
    return agent.eval()


@torch.no_grad()
def numb(agent: Agent) -> Agent:
    """The agent with encoders that give the same tokens whatever is seen or heard."""
    for sense in ("sight", "sound"):
        for parameter in agent.encoder(sense).parameters():
            parameter.zero_()
    return agent


def context_of(folder: Path, scale: float) -> Context:
    return tiny_context(folder, f"exam.episodes_scale={scale}")


def test_the_floor_of_see_is_of_an_encoder_as_it_is_before_any_lesson(tmp_path: Path) -> None:
    """An agent whose own tokens tell nothing has the same floor as one whose tokens are still untaught."""
    taught, unseen = see.exam_pictures(reflex_agent(), context_of(tmp_path, 1.0))
    some = [part.take(np.arange(n)) for part, n in ((taught, 250), (unseen, 100))]
    with torch.inference_mode():
        (floor, own), (still, nothing) = (
            (see._floors(agent, *some)[FLOOR], see._linear_row(agent, *some))
            for agent in (reflex_agent(), numb(reflex_agent()))
        )
    assert floor == own > 0.4, "nobody taught it, so these are the same tokens"
    assert still == floor > nothing + 0.2, "the row is this agent's, the floor is not"


def test_the_floor_of_hear_is_of_an_encoder_as_it_is_before_any_lesson(tmp_path: Path) -> None:
    context = context_of(tmp_path, 0.02)
    with torch.inference_mode():
        whole, without = (
            hear.examine_sounds(agent, context).in_full()[0] for agent in (reflex_agent(), numb(reflex_agent()))
        )
    assert without.floors[FLOOR] == whole.floors[FLOOR] > whole.chance + 0.2
    assert len(whole.floors) == 3


def test_binding_by_untaught_tokens_is_above_chance_and_no_lesson_changes_it(tmp_path: Path) -> None:
    context, n = context_of(tmp_path, 0.2), 100
    senses, truth = bind.scenes(context, exam_seeds(n, 0, "bind"), bind.TICKS)
    boxes = truth["boxes"][:, :4]
    whole, without = (
        bind._by_ridge(agent, context, senses, list(boxes)) for agent in (reflex_agent(), numb(reflex_agent()))
    )
    np.testing.assert_array_equal(whole, without)
    right = (whole == boxes[np.arange(n), truth["target"]]).all(1).mean()
    assert right > 0.4, "chance 0.25"
    with torch.inference_mode():
        found = bind.examine(reflex_agent(), context).in_full()
    assert all(FLOOR in measure.floors for measure in found)


def trial_of(context: Context, level: str, ticks: int = 4) -> trials.Trial:
    return trials.Trial(context, level, ticks, exam_seeds(8, 0, level), trials.gaze_error)


def test_a_policy_on_untaught_tokens_is_the_same_whatever_lessons_taught(tmp_path: Path) -> None:
    trial = trial_of(context_of(tmp_path, 0.05), "orient/sight")
    whole, without = (
        trial.play(imitating(agent, trial, ("sight", "body"), "look", target_turn)).watched
        for agent in (reflex_agent(), numb(reflex_agent()))
    )
    np.testing.assert_array_equal(whole, without)
    assert not np.array_equal(whole, trial.play(orient.hand_rules.HoldStill).watched)


def test_a_policy_on_untaught_tokens_imitates_its_teacher_in_rooms_of_the_exam(tmp_path: Path) -> None:
    """Each turn is at most 25 degrees, and half of this turn is told by the teacher."""
    trial = trial_of(context_of(tmp_path, 0.05), "orient/sight")

    def teacher(truth: Mapping[str, np.ndarray]) -> np.ndarray:
        return np.tile([0.5, 0.0], (len(truth["tick"]), 1))

    policy = imitating(reflex_agent(), trial, ("sight", "body"), "look", teacher)()
    world = trial.context.make_world("nursery", trial.level, trial.seeds)
    np.testing.assert_allclose(policy(world.observe(), np.ones(8, bool))["look"], [[0.5, 0.0]] * 8, atol=1e-5)


def test_moments_of_a_floor_are_of_lesson_seeds(tmp_path: Path) -> None:
    trial, seeds = trial_of(context_of(tmp_path, 0.05), "startle", 20), []
    made = trial.context.make_world

    def noted(world: str, level: str, given: np.ndarray) -> object:
        seeds.append(given)
        return made(world, level, given)

    trial = replace(trial, context=replace(trial.context, make_world=noted))
    features, asked = lesson_moments(
        UntrainedEncoders(reflex_agent()), trial, ("sight", "sound"), "move", startle._truly
    )
    assert features.shape[:2] == asked.shape[:2] == (20, len(seeds[0]))
    assert (seeds[0] < EXAM_SEEDS_FROM).all()


def test_moments_that_ask_for_nothing_do_not_count() -> None:
    features = np.random.default_rng(0).standard_normal((4, 5, 3))
    asked = features @ np.array([[1.0], [2.0], [-1.0]])
    whole = fit_commands(features, asked).weights
    features[0, 0], asked[0, 0] = 1e6, np.nan
    np.testing.assert_allclose(fit_commands(features, asked).weights, whole, atol=0.01)


def test_startle_by_untaught_tokens_keeps_to_the_false_alarms_that_are_allowed(tmp_path: Path) -> None:
    """The threshold is of rooms that the ridge was not fitted in: in those, quiet ticks look quieter than they are."""
    context = context_of(tmp_path, 0.5)
    trial = trials.Trial(context, "startle", 20, startle.startle_seeds(context, 60), startle.withdrawal, before=True)
    event = context.make_world("nursery", "startle", trial.seeds).state().event
    with torch.inference_mode():
        watched = trial.play(startle._by_ridge(reflex_agent(), trial)).watched
    answered, alarms = startle.startle_answers(watched, event)
    assert answered.mean() > 0.1
    assert alarms.mean() < 2 * startle.FALSE_ALARMS


def test_an_event_asks_for_a_withdrawal_in_its_first_two_ticks() -> None:
    truth = {"event": np.array([0, 1, 1, 1, 2]), "tick": np.array([5, 5, 6, 7, 8]), "event_tick": np.full(5, 5)}
    np.testing.assert_array_equal(startle._truly(truth)[:, 0], [0, -1, -1, np.nan, np.nan])
