"""The tree of sums against running sums, and drawing by priority."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devmind.algorithms.priorities import SumTree, importance


@pytest.mark.parametrize("capacity", [1, 2, 5, 64, 100])
def test_find_returns_the_place_where_the_running_sum_passes(capacity: int) -> None:
    rng, tree = np.random.default_rng(capacity), SumTree(capacity)
    priority = rng.integers(0, 4, capacity).astype(float)
    priority[0] = 1.0
    order = rng.permutation(capacity)
    for part in np.array_split(order, min(3, capacity)):
        tree.set(part, priority[part])
    assert (tree.values == priority).all()
    assert tree.total == priority.sum()
    mass = rng.random(500) * tree.total
    assert (tree.find(mass) == np.searchsorted(priority.cumsum(), mass, side="right")).all()


@given(st.lists(st.floats(0, 100), min_size=1, max_size=40), st.data())
@settings(max_examples=60, deadline=None)
def test_sum_tree_equals_prefix_sums(weights: list[float], data: st.DataObject) -> None:
    tree = SumTree(len(weights))
    order = data.draw(st.permutations(range(len(weights))))
    for place in order:
        tree.set(np.array([place]), np.array([weights[place]]))
    at_once = SumTree(len(weights))
    at_once.set(np.arange(len(weights)), np.array(weights))
    np.testing.assert_array_equal(tree._sums, at_once._sums)
    assert tree.total == pytest.approx(sum(weights))
    if tree.total > 1e-6:
        sums = np.linspace(0, tree.total, 50, endpoint=False)
        found = tree.find(sums)
        ends = np.cumsum(weights)
        assert (np.array(weights)[found] > 0).all()
        assert (sums <= ends[found] + 1e-9 * tree.total).all()
        assert (sums >= ends[found] - np.array(weights)[found] - 1e-9 * tree.total).all()


def test_a_mass_rounded_up_to_the_total_finds_the_last_place_that_has_a_priority() -> None:
    """The last of n shares, (n - 1 + u) * (total / n) with u below 1, may be rounded so."""
    tree = SumTree(4)
    tree.set(np.arange(4), np.array([0.1, 0.2, 0.0, 0.0]))
    assert tree.find(np.array([tree.total, np.nextafter(tree.total, 0)])).tolist() == [1, 1]


def test_places_are_drawn_in_proportion_to_their_priorities() -> None:
    tree = SumTree(6)
    tree.set(np.arange(6), np.array([0.0, 1.0, 2.0, 3.0, 0.0, 4.0]))
    drawn = np.bincount(tree.draw(10_000, np.random.default_rng(0)), minlength=6) / 10_000
    np.testing.assert_allclose(drawn, np.array([0, 1, 2, 3, 0, 4]) / 10, atol=1e-3)  # stratified: nearly exact


def test_last_priority_counts_for_a_place_set_twice() -> None:
    tree = SumTree(3)
    tree.set(np.array([1, 1]), np.array([5.0, 2.0]))
    assert tree.values.tolist() == [0, 2, 0]
    assert tree.total == 2


def test_drawing_without_priorities_is_refused() -> None:
    with pytest.raises(ValueError, match="all are 0"):
        SumTree(4).draw(2, np.random.default_rng(0))
    with pytest.raises(ValueError, match="capacity of 1 or more; got 0"):
        SumTree(0)


def test_importance_weights_correct_the_bias_of_priorities() -> None:
    priority = np.array([1.0, 2.0, 5.0])
    weight = importance(priority, 8.0, 3, beta=1.0)
    share = priority / 8
    assert weight.max() == 1
    np.testing.assert_allclose(share * weight / (share * weight).sum(), np.full(3, 1 / 3))
    assert (importance(priority, 8.0, 3, beta=0.0) == 1).all()
