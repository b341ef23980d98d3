"""Trees re-rooted at a child, node by node against the subtree below it, and searches that continue with them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from devmind.algorithms.tree_search import Found, Nodes, Roots, Tree, begin_trees, gumbel_search, reroot
from devmind.errors import ConfigError
from devmind.seeding import numpy_rng
from tests.algorithms.test_golden_trees import CASES
from tests.algorithms.test_golden_trees import searched as golden
from tests.algorithms.test_tree_search import ACTIONS, Numbers, RandomGame

LINKS = ("parent", "way", "child")
EACH_NODE = [name for name in Nodes._fields if name not in LINKS]
BOUNDS = (-1.0, 1.0)


def pairs(old: Tree, new: Tree, row: int, node: int) -> Iterator[tuple[int, int]]:
    """Pairs of nodes, by recursion: one of a row's old subtree, and the one at the same position in the new tree."""
    waiting = [(node, 0)]
    while waiting:
        mine, its = waiting.pop()
        yield mine, its
        assert (new.nodes.child[row, its] >= 0).tolist() == (old.nodes.child[row, mine] >= 0).tolist()
        for action in np.flatnonzero(old.nodes.child[row, mine] >= 0):
            below = int(new.nodes.child[row, its, action])
            assert (new.nodes.parent[row, below], new.nodes.way[row, below]) == (its, action)
            waiting.append((int(old.nodes.child[row, mine, action]), below))


def check_subtrees(old: Tree, new: Tree, actions: np.ndarray) -> int:
    """Assert that every new row equals the subtree below its action; return the number of nodes."""
    nodes, count = old.nodes.visits.shape[1], 0
    for row, action in enumerate(actions):
        child = int(old.nodes.child[row, 0, action])
        met = list(pairs(old, new, row, child)) if child >= 0 else []
        for mine, its in met:
            for name in EACH_NODE:
                np.testing.assert_array_equal(
                    getattr(new.nodes, name)[row, its], getattr(old.nodes, name)[row, mine], name
                )
            was, now = old.states.take([row * nodes + mine]), new.states.take([row * new.nodes.visits.shape[1] + its])
            np.testing.assert_array_equal(was.at, now.at)
        assert new.size[row] == len(met) == len({its for _, its in met})
        assert [its for _, its in sorted(met)] == list(range(len(met)))  # in the order of their creation
        assert new.nodes.parent[row, 0] == new.nodes.way[row, 0] == -1
        count += len(met)
    return count


def grown(seed: int, bounds=BOUNDS, simulations: int = 40, batch: int = 3) -> tuple[RandomGame, Found]:
    game = RandomGame(seed, opponent=True, depth=6)
    noise = numpy_rng("reuse", seed).gumbel(size=(batch, ACTIONS))
    return game, gumbel_search(game.roots(batch), game.expand, simulations, gumbel=noise, bounds=bounds)


def at(game: RandomGame, tree: Tree, actions: np.ndarray) -> Roots[Numbers]:
    """The root states of the next search: those that the actions at the roots lead to."""
    before = tree.states.take(np.arange(len(actions)) * tree.nodes.visits.shape[1])
    found = game.expand(before, actions)
    return Roots(found.states, found.logits, found.value, found.legal)


def goes_on(found: Found) -> np.ndarray:
    """For each row the most visited action that does not end the episode, int64 [B]."""
    tree, rows = found.tree, np.arange(len(found.action))[:, None]
    there = (tree.nodes.child[:, 0] >= 0) & ~tree.nodes.terminal[rows, tree.nodes.child[:, 0]]
    assert there.any(-1).all()
    return np.where(there, found.visits, -1).argmax(-1)


@pytest.mark.parametrize("bounds", [None, BOUNDS])
def test_rerooted_tree_equals_the_subtree_below_the_child(bounds) -> None:
    nodes = 0
    for seed in range(6):
        _, found = grown(seed, bounds)
        kept, size = [before.copy() for before in found.tree.nodes], found.tree.size.copy()
        for action in range(ACTIONS):
            actions = (action + np.arange(3)) % ACTIONS
            new = reroot(found.tree, actions)
            nodes += check_subtrees(found.tree, new, actions)
            further = reroot(new, actions[::-1])  # re-rooted again: the subtree below an answer
            nodes += check_subtrees(new, further, actions[::-1])
        for name, before, after in zip(Nodes._fields, kept, found.tree.nodes, strict=True):
            np.testing.assert_array_equal(after, before, name)
        np.testing.assert_array_equal(found.tree.size, size)
    assert nodes > 300


@pytest.mark.parametrize("case", CASES, ids=["one player", "two players"])
def test_rerooted_tree_has_the_numbers_of_mctx_below_the_child(case) -> None:
    found, theirs = golden(case), {name: np.array(array) for name, array in case["tree"].items()}
    new = reroot(found.tree, found.action)
    assert (new.size > 1).any()
    for row, action in enumerate(found.action):
        waiting = [(int(theirs["children_index"][row, 0, action]), 0)]
        while waiting:
            mine, its = waiting.pop()
            assert new.nodes.visits[row, its] == theirs["node_visits"][row, mine]
            assert new.nodes.value[row, its] == pytest.approx(theirs["node_values"][row, mine], abs=2e-5)
            assert new.nodes.child_visits[row, its].tolist() == theirs["children_visits"][row, mine].tolist()
            below = theirs["children_index"][row, mine]
            waiting += [(int(below[a]), int(new.nodes.child[row, its, a])) for a in np.flatnonzero(below >= 0)]


def test_illegal_or_unvisited_child_gives_an_empty_tree() -> None:
    game = RandomGame(0, opponent=True)
    legal = game.roots(1).legal[0]
    assert not legal.all()
    found = gumbel_search(game.roots(3), game.expand, 1, bounds=BOUNDS)  # one action is tried
    illegal = int(np.flatnonzero(~legal)[0])
    never = int(np.flatnonzero(legal & (found.visits[0] == 0))[0])
    tried = int(found.visits[2].argmax())
    new = reroot(found.tree, np.array([illegal, never, tried]))
    assert new.size.tolist() == [0, 0, 1]
    assert not new.nodes.visits[:2].any()
    assert (new.nodes.child[:2] == -1).all()
    assert not new.nodes.legal[:2].any()
    assert reroot(new, np.array([0, 1, 2])).size.tolist() == [0, 0, 0]
    for actions in ([0, 1], [0, 1, ACTIONS], [-1, 0, 0]):
        with pytest.raises(ConfigError, match="one action from 0 to 3 for each of the 3; got"):
            reroot(found.tree, np.array(actions))


def test_continued_search_adds_its_simulations_to_the_visits() -> None:
    for seed in range(6):
        game, found = grown(seed, bounds=None)
        actions = goes_on(found)
        tree = reroot(found.tree, actions)
        before = tree.nodes.visits[:, 0].copy()
        assert (before > 1).any()
        size, roots = tree.size.copy(), at(game, found.tree, actions)
        further = gumbel_search(roots, game.expand, 20, tree=tree)
        assert (further.tree.nodes.visits[:, 0] - before == 20).all()
        assert (further.visits.sum(-1) - tree.nodes.child_visits[:, 0].sum(-1) == 20).all()
        assert (further.simulations == 20).all()
        assert (further.visits >= tree.nodes.child_visits[:, 0]).all()
        assert (further.tree.size <= size + 20).all()
        np.testing.assert_array_equal(tree.size, size)
        np.testing.assert_array_equal(tree.nodes.visits[:, 0], before)


def test_empty_tree_beside_a_kept_one_is_searched_as_a_new_tree() -> None:
    game, found = grown(1, simulations=12)
    actions = goes_on(found)
    tree = reroot(found.tree, actions)
    empty = replace(tree, size=tree.size.copy(), nodes=Nodes(*(array.copy() for array in tree.nodes)))
    empty.size[1] = 0
    roots = at(game, found.tree, actions)
    mixed = gumbel_search(roots, game.expand, 9, bounds=BOUNDS, tree=empty)
    fresh = gumbel_search(roots, game.expand, 9, bounds=BOUNDS)
    on = gumbel_search(roots, game.expand, 9, bounds=BOUNDS, tree=tree)
    for row, like in enumerate((on, fresh, on)):
        for name in ("action", "weights", "value", "proven", "visits", "q"):
            np.testing.assert_array_equal(getattr(mixed, name)[row], getattr(like, name)[row], name)


def test_continued_search_keeps_proofs_and_proves_the_true_value() -> None:
    expanded, anew = 0, 0
    for seed in range(12):
        game, found = grown(seed, simulations=60, batch=1)
        actions = goes_on(found)
        roots, tree = at(game, found.tree, actions), reroot(found.tree, actions)
        state = int(roots.states.at[0])
        game.calls.clear()
        further = gumbel_search(roots, game.expand, 2000, bounds=BOUNDS, tree=tree)
        expanded += len(game.calls)
        game.calls.clear()
        gumbel_search(roots, game.expand, 2000, bounds=BOUNDS)
        anew += len(game.calls)
        assert further.proven[0]
        assert further.value[0] == game.best(state)
        following, reward, _, over = game.one(state, int(further.action[0]))
        assert (reward if over else -game.best(following)) == game.best(state)
        if tree.proven[0]:
            assert not further.simulations[0]
    assert expanded < 0.8 * anew


def test_tree_of_another_search_is_refused() -> None:
    game, found = grown(3)
    roots, tree = game.roots(3), found.tree
    with pytest.raises(ConfigError, match=r"its own bounds, \(-1.0, 1.0\); got None"):
        begin_trees(roots, 4, None, tree)
    with pytest.raises(ConfigError, match=r"each of the roots', \[2, 4\]; got one of \[3, 4\]"):
        begin_trees(game.roots(2), 4, BOUNDS, tree)
    legal = roots.legal.copy()
    legal[1] = ~legal[1]
    with pytest.raises(ConfigError, match="tree of row 1 has other legal actions at its root"):
        gumbel_search(replace(roots, legal=legal), game.expand, 4, bounds=BOUNDS, tree=tree)
