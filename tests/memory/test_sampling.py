"""Sampling: uniform or by priority as declared, of fixed size, and exact on resume."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from devmind.errors import StoreError
from devmind.memory.sampling import Prioritised, Reservoir

RARE = 1e-4
"""A right sampler fails a chi-square test this seldom; the seeds are fixed, so it does not fail at all."""


def p_value(counts: np.ndarray, expected: np.ndarray) -> float:
    return float(stats.chisquare(counts, expected * counts.sum() / expected.sum()).pvalue)


@pytest.mark.parametrize(("n", "capacity"), [(40, 8), (25, 24), (60, 1)])
def test_a_reservoir_holds_every_item_equally_often(n: int, capacity: int) -> None:
    counts = np.zeros(n)
    for seed in range(1500):
        reservoir = Reservoir(capacity, seed)
        reservoir.offer(range(n))
        counts[reservoir.items] += 1
    # Every run holds exactly `capacity` items, so the counts vary a little less than independent ones would.
    assert p_value(counts, np.full(n, capacity / n)) > RARE
    assert p_value(1500 - counts, np.full(n, 1 - capacity / n)) > RARE


def test_repeated_items_are_held_no_more_often_than_others() -> None:
    counts = np.zeros(40)
    for seed in range(1500):
        reservoir = Reservoir(8, seed)
        for _ in range(5):
            reservoir.offer(range(30))  # the same items night after night
        reservoir.offer(range(30, 40))
        counts[reservoir.items] += 1
    assert p_value(counts, np.full(40, 8 / 40)) > RARE
    assert p_value(1500 - counts, np.full(40, 1 - 8 / 40)) > RARE


def test_the_test_detects_a_biased_reservoir() -> None:
    counts = np.zeros(40)
    for seed in range(1500):
        held = list(range(8))
        rng = np.random.default_rng(seed)
        for item in range(8, 40):
            held[rng.integers(8)] = item  # always accepted, so the newest are held too often
        counts[held] += 1
    assert p_value(counts, np.full(40, 1.0)) < RARE


@given(st.lists(st.integers(0, 10**6), max_size=80), st.integers(1, 12), st.integers(0, 80), st.integers(0, 2**31))
@settings(max_examples=60, deadline=None)
def test_a_reservoir_never_grows_and_resumes_exactly(items: list[int], capacity: int, cut: int, seed: int) -> None:
    whole, part, resumed = Reservoir(capacity, seed), Reservoir(capacity, seed), Reservoir(1)
    whole.offer(items)
    part.offer(items[:cut])
    resumed.load_state_dict(json.loads(json.dumps(part.state_dict())))
    resumed.offer(items[cut:])
    assert resumed.state_dict() == whole.state_dict()
    assert len(whole) == len(set(whole.items)) == min(capacity, len(set(items)))
    assert set(whole.items) <= set(items)
    again = list(whole.items)
    whole.offer(items)
    assert whole.items == again  # a repeated item changes nothing


def test_discarded_items_make_room() -> None:
    reservoir = Reservoir(4, 0)
    reservoir.offer(range(4))
    reservoir.discard([1, 3, 99])
    assert reservoir.items == [0, 2]
    reservoir.offer([7, 8])
    assert reservoir.items == [0, 2, 7, 8]


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_draws_follow_the_priorities(alpha: float) -> None:
    ids, priorities = [3, 5, 8, 13, 21], np.array([0.0, 1.0, 2.0, 4.0, 8.0])
    sampler = Prioritised(ids, 0, alpha=alpha, floor=0.5)
    sampler.update(ids, priorities)
    wanted = (priorities + 0.5) ** alpha
    drawn = np.concatenate([sampler.draw(1)[0] for _ in range(4000)])
    counts = np.array([(drawn == number).sum() for number in ids])
    assert p_value(counts, wanted) > RARE
    np.testing.assert_allclose(sampler.probabilities(), wanted / wanted.sum())
    if alpha:
        assert p_value(counts, np.ones(5)) < RARE


def test_a_stratified_draw_holds_each_number_nearly_as_often_as_expected() -> None:
    sampler = Prioritised(range(10), 0, alpha=1.0, floor=0.0)
    sampler.update(range(10), np.arange(10.0))
    drawn, _ = sampler.draw(450)
    assert np.abs(np.bincount(drawn, minlength=10) - 10 * np.arange(10)).max() <= 2
    assert 0 not in drawn


@given(st.lists(st.floats(0, 50), min_size=1, max_size=30), st.floats(0, 1), st.floats(0, 1))
@settings(max_examples=60, deadline=None)
def test_importance_weights_only_scale_down(priorities: list[float], alpha: float, beta: float) -> None:
    sampler = Prioritised(range(len(priorities)), 1, alpha=alpha)
    sampler.update(range(len(priorities)), np.array(priorities))
    drawn, weights = sampler.draw(32, beta)
    probabilities = sampler.probabilities()
    assert ((weights > 0) & (weights <= 1 + 1e-12)).all()
    np.testing.assert_allclose(weights, (probabilities[drawn] / probabilities.min()) ** -beta)
    rarest = int(np.argmin(probabilities))
    assert (weights[drawn == rarest] == pytest.approx(1.0)) if (drawn == rarest).any() else True


def test_importance_weights_correct_for_the_priorities() -> None:
    value = np.array([1.0, -2.0, 5.0, 0.5])
    sampler = Prioritised(range(4), 2, alpha=0.7)
    sampler.update(range(4), np.array([9.0, 1.0, 0.1, 3.0]))
    drawn, weights = sampler.draw(20_000, beta=1.0)
    assert (weights * value[drawn]).sum() / weights.sum() == pytest.approx(value.mean(), abs=0.05)


@given(st.integers(1, 30), st.integers(0, 8), st.integers(0, 2**31))
@settings(max_examples=40, deadline=None)
def test_draws_resume_exactly(n: int, cut: int, seed: int) -> None:
    def go_on(sampler: Prioritised, start: int, stop: int) -> list[list[float]]:
        found = []
        for step in range(start, stop):
            ids, weights = sampler.draw(5, 0.5)
            sampler.update(ids, np.abs(np.sin(ids + step)))
            found.append([*ids.tolist(), *weights.tolist()])
        return found

    whole, part, resumed = Prioritised(range(n), seed), Prioritised(range(n), seed), Prioritised([0])
    wanted = go_on(whole, 0, 8)
    begun = go_on(part, 0, cut)
    resumed.load_state_dict(json.loads(json.dumps(part.state_dict())))
    assert begun + go_on(resumed, cut, 8) == wanted
    assert resumed.state_dict() == whole.state_dict()
    assert len(resumed) == n


def test_invalid_samplers_are_refused() -> None:
    with pytest.raises(StoreError, match="all differ"):
        Prioritised([1, 1])
    with pytest.raises(StoreError, match="at least one"):
        Prioritised([])
    with pytest.raises(StoreError, match="at least one item"):
        Reservoir(0)
    sampler = Prioritised([1, 2])
    with pytest.raises(StoreError, match="3 is not among"):
        sampler.update([3], np.ones(1))
    with pytest.raises(StoreError, match="from 0 on"):
        sampler.update([1], np.array([-1.0]))
    with pytest.raises(StoreError, match="from 0 on"):
        sampler.update([1], np.array([np.nan]))
