"""The levels handle/*: what is there, what can be done with it, and what counts as success."""

from __future__ import annotations

import numpy as np
import pytest

from devmind.worlds.nursery import NurseryRules, NurseryState
from devmind.worlds.nursery.handling import ASKED, BOX_COLOUR, GOAL, GRASP, OTHER, PILLAR_COLOUR, PUSH, PUT_IN, TASKS
from devmind.worlds.nursery.state import COLOUR_NAMES, HELD

SEEDS = np.arange(60)


def begun(task: str) -> tuple[NurseryRules, NurseryState]:
    rules = NurseryRules(f"handle/{task}")
    return rules, rules.initial(SEEDS)


@pytest.mark.parametrize("task", TASKS)
def test_the_scene_shows_the_task(task: str) -> None:
    rules, state = begun(task)
    goal = {PUSH: PILLAR_COLOUR, PUT_IN: BOX_COLOUR}.get(task)
    assert (state.present[:, GOAL] == (task != GRASP)).all()
    assert state.present[:, [ASKED, OTHER]].all()
    shown = np.where(state.present, state.colour, -1)
    assert (np.isin(shown, [PILLAR_COLOUR, BOX_COLOUR]).sum(1) == (goal is not None)).all()
    assert goal is None or (shown[:, GOAL] == goal).all()
    assert rules.observe(state)["words"] == [COLOUR_NAMES[colour] for colour in state.colour[:, ASKED]]
    assert (rules.truth(state)["visible"][:, ASKED] > 0).mean() > 0.95
    assert not rules.truth(state)["success"].any()


@pytest.mark.parametrize("task", TASKS)
def test_idling_succeeds_at_nothing_until_the_time_is_up(task: str) -> None:
    rules, state = begun(task)
    for _ in range(rules.horizon):
        state = rules.step(state, {})
        assert not rules.outcome(state).reward.any()
    outcome = rules.outcome(state)
    assert outcome.truncated.all()
    assert not outcome.terminal.any()


@pytest.mark.parametrize("task", TASKS)
def test_success_is_rewarded_once_and_ends_the_episode(task: str) -> None:
    rules, state = begun(task)
    at = state.position[:, GOAL].copy() if task != GRASP else np.tile([0.4, 0.0, 0.0], (len(state), 1))
    state.position[:, ASKED] = at
    if task == GRASP:
        state.held[:], state.motion[:, ASKED] = ASKED, HELD
    grip = {"reach": np.tile([0.0, 0.0, 0.0, 1.0 if task == GRASP else -1.0], (len(state), 1))}
    before = state.copy()
    before.position[:, ASKED, 2] -= 0.5 * (task == GRASP)
    before.position[:, ASKED, 0] += 0.3 * (task != GRASP)
    first = rules.step(state, grip)
    assert rules.outcome(first).terminal.all()
    assert rules.spec.reward(before, first, False).all()
    assert not rules.outcome(rules.step(first, grip)).reward.any()


def test_a_held_thing_is_not_put_in_and_another_thing_does_not_count() -> None:
    rules, state = begun(PUT_IN)
    state.position[:, OTHER] = state.position[:, GOAL]
    assert not rules.truth(state)["success"].any()
    state.position[:, ASKED] = state.position[:, GOAL]
    state.held[:] = ASKED
    assert not rules.truth(state)["success"].any()
    state.held[:] = -1
    assert rules.truth(state)["success"].all()


def test_a_thing_to_push_cannot_be_grasped_and_moves_before_the_hand() -> None:
    rules, state = begun(PUSH)
    state.hand = state.position[:, ASKED] - [0.16, 0.0, 0.0]
    begins = state.position[:, ASKED].copy()
    for _ in range(2):
        state = rules.step(state, {"reach": np.tile([0.5, 0.0, 0.0, 1.0], (len(state), 1))})
    assert (state.held == -1).all()
    moved = state.position[:, ASKED] - begins
    assert (moved[:, 0] > 0.02).all()
    assert np.abs(moved[:, 2]).max() == 0
    assert (state.position[:, GOAL] == begun(PUSH)[1].position[:, GOAL]).all()
