"""The levels `hide/*`: what is seen first, what is hidden, what a look shows, and what is asked when."""

from __future__ import annotations

import numpy as np
import pytest

from devmind.worlds.nursery import NurseryRules, NurseryState, hiding
from devmind.worlds.nursery.geometry import angles_deg
from devmind.worlds.nursery.state import COLOUR_NAMES

SEEDS = np.arange(300)
EVERY = np.arange(len(SEEDS))
KINDS = ("unmoved", "moved", "swapped", "a-not-b")


def at(kind: str, tick: np.ndarray | int) -> tuple[NurseryRules, NurseryState]:
    """The rooms of SEEDS at `tick`, as stepping leads there."""
    rules = NurseryRules(f"hide/{kind}")
    return rules, hiding.at_tick(rules.initial(SEEDS), kind, np.broadcast_to(tick, SEEDS.shape))


def questions(kind: str, which: int) -> np.ndarray:
    """The first tick of a question, [N]."""
    plan = hiding.plan(SEEDS, kind)
    asked = np.stack([plan.asked(np.full(len(SEEDS), tick)) for tick in range(hiding.HORIZON)])
    assert (asked == which).any(0).all()
    return np.asarray((asked == which).argmax(0))


def visible(rules: NurseryRules, state: NurseryState) -> np.ndarray:
    return rules.truth(state)["visible"][:, : hiding.COVERS.stop]


@pytest.mark.parametrize("kind", KINDS)
def test_both_things_are_seen_first_and_no_cover(kind: str) -> None:
    seen = visible(*at(kind, 0))
    assert seen[:, : hiding.THINGS].min() >= 40
    assert not seen[:, hiding.COVERS].any()


@pytest.mark.parametrize("kind", KINDS)
def test_things_are_invisible_from_the_covers_to_the_look(kind: str) -> None:
    ask = questions(kind, hiding.BEFORE_LOOKING)
    for tick in (ask - hiding.plan(SEEDS, kind).delay, ask, ask + hiding.ASK_TICKS - 1):
        rules, state = at(kind, tick)
        seen = visible(rules, state)
        assert not seen[:, : hiding.THINGS].any()
        assert seen[:, hiding.COVERS].min() >= 300
        assert (rules.truth(state)["covered"] == 1).all()


@pytest.mark.parametrize("kind", KINDS)
def test_the_look_shows_only_the_place_of_the_last_sight(kind: str) -> None:
    rules, state = at(kind, questions(kind, hiding.AFTER_LOOKING))
    truth = rules.truth(state)
    shown = truth["visible"][EVERY, truth["target"]] >= 40
    assert (shown == (kind in ("unmoved", "a-not-b"))).all()
    open_ = truth["covered"] == 0
    assert (open_.sum(1) == 1).all()
    assert (open_.argmax(1) == truth["last_seen_place"]).all()
    other = truth["visible"][EVERY, 1 - truth["target"]] >= 40
    assert (other == (kind == "swapped")).all()


def test_an_unseen_move_leads_to_either_other_place_equally_often() -> None:
    for kind in ("moved", "swapped"):
        rules, state = at(kind, hiding.HORIZON)
        truth, plan = rules.truth(state), hiding.plan(SEEDS, kind)
        assert (truth["place"] != truth["last_seen_place"]).all()
        to_other = truth["place"] == plan.before[EVERY, 1 - plan.target]
        assert 0.42 < to_other.mean() < 0.58
        assert (truth["places"][:, 0] != truth["places"][:, 1]).all()
        share = np.bincount((truth["place"] - truth["last_seen_place"]) % 3, minlength=3) / len(SEEDS)
        assert share[0] == 0
        assert 0.4 < share[1] < 0.6


def test_the_move_happens_behind_covers() -> None:
    plan = hiding.plan(SEEDS, "moved")
    for kind in ("moved", "swapped"):
        before, after = at(kind, plan.move - 1)[1], at(kind, plan.move)[1]
        assert not np.allclose(before.position[:, :2], after.position[:, :2])
        assert (plan.covered(plan.move - 1) == 1).all()
    still = at("unmoved", 0)[1].position[:, :2]
    assert np.allclose(still, at("unmoved", hiding.HORIZON)[1].position[:, :2])


def test_a_not_b_hides_at_a_twice_and_carries_to_b_in_view() -> None:
    plan = hiding.plan(SEEDS, "a-not-b")
    asked = np.array([(plan.asked(np.full(len(SEEDS), t)) == hiding.REHEARSED) for t in range(hiding.HORIZON)])
    assert (asked.sum(0) == 2 * hiding.ASK_TICKS).all()
    assert (plan.last_seen != plan.before[EVERY, plan.target]).all()
    for tick in range(int(plan.move[0]), int(plan.move[0]) + 5):
        rules, state = at("a-not-b", tick)
        assert (rules.truth(state)["visible"][EVERY, plan.target] >= 20).all()


def test_places_are_numbered_from_the_left() -> None:
    directions = hiding.place_directions_deg(SEEDS)
    for kind in KINDS:
        rules, state = at(kind, 0)
        azimuth, elevation = angles_deg(state.position[:, : hiding.THINGS])
        apart = np.stack([azimuth, elevation], -1)[:, :, None] - directions[:, None]
        assert (np.hypot(apart[..., 0], apart[..., 1]).argmin(-1) == rules.truth(state)["places"]).all()
    assert (np.diff(directions[..., 0]) < -13).all()


@pytest.mark.parametrize("kind", KINDS)
def test_the_colour_is_named_only_during_its_question(kind: str) -> None:
    rules = NurseryRules(f"hide/{kind}")
    state = rules.initial(SEEDS[:40])
    heard = 0
    for _ in range(rules.horizon):
        truth, words = rules.truth(state), rules.cues(state)
        for i, word in enumerate(words):
            asked = truth["question"][i] != hiding.NOT_ASKED
            assert word == (COLOUR_NAMES[truth["colour"][i, truth["target"][i]]] if asked else "")
        heard += sum(word != "" for word in words)
        state = rules.step(state, {})
    assert heard == 40 * hiding.ASK_TICKS * (4 if kind == "a-not-b" else 2)


def test_stepping_follows_the_script() -> None:
    rules = NurseryRules("hide/a-not-b")
    state = rules.initial(SEEDS[:5])
    for _ in range(28):
        state = rules.step(state, {"reach": np.ones((5, 4))})
    straight = hiding.at_tick(rules.initial(SEEDS[:5]), "a-not-b", np.full(5, 28))
    assert np.allclose(state.position[:, :5], straight.position[:, :5])
    moving = np.abs(state.velocity[np.arange(5), state.target]).max(-1) > 0.1
    assert moving.all()
