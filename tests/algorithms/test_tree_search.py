"""The batched search against known answers, and against a plain recursive search in this file."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import pytest

from devmind.algorithms.selection import considered_visits
from devmind.algorithms.tree_search import Expanded, Roots, gumbel_search
from devmind.errors import ConfigError
from devmind.seeding import numpy_rng

ACTIONS = 4
DEPTH = 4


@dataclass
class Numbers:
    """States of one number each; the smallest possible `Rows`."""

    at: np.ndarray

    def take(self, index):
        return Numbers(self.at[index].copy())

    def put(self, index, other):
        self.at[index] = other.at


class RandomGame:
    """A game of `depth` moves for two players (or one); all its numbers are drawn from the number of the state.

    A state's number is its history in base A + 1, so equal numbers are equal states.
    """

    def __init__(self, seed: int, *, opponent: bool, depth: int = DEPTH, draws: bool = False) -> None:
        self.seed, self.opponent, self.depth, self.draws = seed, opponent, depth, draws
        self.calls: list[int] = []

    def drawn(self, state: int):
        rng = numpy_rng("game", self.seed, state)
        legal = rng.random(ACTIONS) < 0.7
        legal[rng.integers(ACTIONS)] = True
        value = float(np.tanh(rng.normal())) if not self.draws else 0.0
        outcome = float(rng.integers(-1, 2)) if self.opponent or self.draws else float(rng.uniform(0, 1))
        early = self.depth_of(state) > 1 and rng.random() < 0.2
        return rng.normal(size=ACTIONS), value, legal, outcome, early or self.depth_of(state) == self.depth

    @staticmethod
    def depth_of(state: int) -> int:
        return 0 if state == 0 else 1 + RandomGame.depth_of(state // (ACTIONS + 1))

    def one(self, state: int, action: int):
        """(next state, reward, discount, terminal) of one action."""
        following = state * (ACTIONS + 1) + action + 1
        *_, outcome, over = self.drawn(following)
        return following, outcome if over else 0.0, 0.0 if over else (-1.0 if self.opponent else 1.0), over

    def roots(self, n: int, first: int = 0) -> Roots[Numbers]:
        states = np.array([first] * n)
        logits, value, legal = (np.array(x) for x in zip(*[self.drawn(s)[:3] for s in states], strict=True))
        return Roots(Numbers(states), logits, value, legal)

    def expand(self, states: Numbers, actions: np.ndarray) -> Expanded[Numbers]:
        self.calls.append(len(actions))
        steps = [self.one(int(s), int(a)) for s, a in zip(states.at, actions, strict=True)]
        following, reward, discount, over = (np.array(x) for x in zip(*steps, strict=True))
        logits, value, legal = (np.array(x) for x in zip(*[self.drawn(int(s))[:3] for s in following], strict=True))
        return Expanded(Numbers(following), logits, value, legal, reward, discount, over)

    def best(self, state: int) -> float:
        """The true value of a state, by the whole tree."""
        found = []
        for action in np.flatnonzero(self.drawn(state)[2]):
            following, reward, discount, over = self.one(state, int(action))
            found.append(reward if over else reward + discount * self.best(following))
        return max(found)


@dataclass
class Node:
    """A node of the plain reference: dictionaries and recursion, no arrays over trees."""

    state: int
    logits: np.ndarray
    raw: float
    legal: list[int]
    over: bool = False
    low: float = -math.inf
    high: float = math.inf
    children: dict = field(default_factory=dict)
    counts: dict = field(default_factory=dict)
    value: float = 0.0

    def q(self, a: int) -> float:
        child, reward, discount = self.children[a]
        return min(max(reward + discount * child.value, self.ends(a)[0]), self.ends(a)[1])

    def ends(self, a: int):
        if a not in self.children:
            return self.low0, self.high0
        child, reward, discount = self.children[a]
        if discount == 0.0:
            return (reward, reward) if math.isfinite(self.low0) else (-math.inf, math.inf)
        ends = reward + discount * child.low, reward + discount * child.high
        return min(ends), max(ends)

    @property
    def open(self):
        return [a for a in self.legal if self.ends(a)[0] < self.ends(a)[1] and self.ends(a)[1] > self.low]


class Plain:
    """Search of one tree, written from the papers' formulas."""

    def __init__(self, game: RandomGame, simulations: int, bounds, gumbel=None) -> None:
        self.game, self.simulations, self.bounds, self.gumbel = game, simulations, bounds, gumbel

    def node(self, state: int, over: bool = False) -> Node:
        logits, raw, legal, *_ = self.game.drawn(state)
        low, high = self.bounds or (-math.inf, math.inf)
        node = Node(state, logits, 0.0 if over else raw, [] if over else list(np.flatnonzero(legal)), over)
        node.low0, node.high0 = low, high
        node.low, node.high = (0.0, 0.0) if over else (low, high)
        node.value = node.raw
        return node

    def prior(self, node: Node) -> dict[int, float]:
        top = max(node.logits[a] for a in node.legal)
        powers = {a: math.exp(node.logits[a] - top) for a in node.legal}
        return {a: power / sum(powers.values()) for a, power in powers.items()}

    def completed(self, node: Node) -> dict[int, float]:
        prior, tried = self.prior(node), [a for a in node.legal if node.counts.get(a)]
        total = sum(node.counts.values())
        mean = sum(prior[a] * node.q(a) for a in tried) / sum(prior[a] for a in tried) if tried else 0.0
        mixed = (node.raw + total * mean) / (total + 1)
        values = {a: node.q(a) if a in tried else mixed for a in node.legal}
        low, high = self.bounds or (min(values.values()), max(values.values()))
        most = max(node.counts.values(), default=0)
        return {a: (50 + most) * 0.1 * (v - low) / max(high - low, 1e-8) for a, v in values.items()}

    def improved(self, node: Node) -> dict[int, float]:
        q = self.completed(node)
        top = max(node.logits[a] + q[a] for a in node.legal)
        powers = {a: math.exp(node.logits[a] + q[a] - top) for a in node.legal}
        return {a: power / sum(powers.values()) for a, power in powers.items()}

    def at_root(self, node: Node) -> int:
        sequence = considered_visits(min(16, len(node.legal), ACTIONS), self.simulations)
        due = [a for a in node.open if node.counts.get(a, 0) == sequence[sum(node.counts.values())]]
        q = self.completed(node)
        return max(due or node.open, key=lambda a: node.logits[a] + self.gumbel[a] + q[a])

    def below(self, node: Node) -> int:
        improved, total = self.improved(node), sum(node.counts.values())
        return max(node.open, key=lambda a: improved[a] - node.counts.get(a, 0) / (1 + total))

    def visit(self, node: Node, depth: int) -> None:
        action = (self.below if depth else self.at_root)(node)
        if action not in node.children:
            state, reward, discount, over = self.game.one(node.state, action)
            node.children[action] = (self.node(state, over), reward, discount)
        elif not node.children[action][0].over and node.children[action][0].low < node.children[action][0].high:
            self.visit(node.children[action][0], depth + 1)
        node.counts[action] = node.counts.get(action, 0) + 1
        if self.bounds:
            node.low = max(node.ends(a)[0] for a in node.legal)
            node.high = max(node.ends(a)[1] for a in node.legal)
        mean = (node.raw + sum(n * node.q(a) for a, n in node.counts.items())) / (1 + sum(node.counts.values()))
        node.value = min(max(mean, node.low), node.high)

    def run(self, state: int = 0) -> Node:
        root = self.node(state)
        for _ in range(self.simulations):
            if root.low == root.high:
                break
            self.visit(root, 0)
        return root


@pytest.mark.parametrize("opponent", [True, False])
@pytest.mark.parametrize("bounds", [None, (-1.0, 1.0)])
def test_batched_search_equals_a_plain_recursive_search(bounds, opponent: bool) -> None:
    for seed in range(12):
        game, simulations = RandomGame(seed, opponent=opponent), 2 + 3 * seed
        gumbel = numpy_rng("gumbel", seed).gumbel(size=(1, ACTIONS))
        found = gumbel_search(game.roots(1), game.expand, simulations, gumbel=gumbel, bounds=bounds)
        root = Plain(game, simulations, bounds, gumbel[0]).run()
        np.testing.assert_array_equal(found.visits[0], [root.counts.get(a, 0) for a in range(ACTIONS)])
        assert found.value[0] == pytest.approx(root.value, abs=1e-12)
        assert bool(found.proven[0]) == (root.low == root.high)
        for a in root.counts:
            assert found.q[0, a] == pytest.approx(root.q(a), abs=1e-12)


def test_search_to_the_end_proves_the_true_value_and_a_best_action() -> None:
    for seed in range(25):
        game = RandomGame(seed, opponent=True)
        found = gumbel_search(game.roots(1), game.expand, 400, bounds=(-1.0, 1.0))
        assert found.proven[0]
        assert found.value[0] == game.best(0)
        following, reward, _, over = game.one(0, int(found.action[0]))
        assert (reward if over else -game.best(following)) == game.best(0)
        assert found.weights[0].sum() == pytest.approx(1)
        assert not found.weights[0][~game.drawn(0)[2]].any()


def test_proofs_take_fewer_expansions_than_the_whole_tree() -> None:
    spent = []
    for seed in range(25):
        game = RandomGame(seed, opponent=True)
        gumbel_search(game.roots(1), game.expand, 400, bounds=(-1.0, 1.0))
        spent.append(len(game.calls))

    def size(game: RandomGame, state: int) -> int:
        steps = [game.one(state, int(a)) for a in np.flatnonzero(game.drawn(state)[2])]
        return sum(1 + (0 if over else size(game, following)) for following, _, _, over in steps)

    whole = [size(RandomGame(seed, opponent=True), 0) for seed in range(25)]
    assert all(mine <= all_there_is for mine, all_there_is in zip(spent, whole, strict=True))
    assert sum(spent) < 0.7 * sum(whole)


@pytest.mark.parametrize("bounds", [None, (-1.0, 1.0)])
def test_rows_do_not_depend_on_other_rows_or_their_order(bounds) -> None:
    game = RandomGame(3, opponent=True)
    firsts = [a + 1 for a in range(ACTIONS) if not game.one(0, a)[3]] + [0]
    each = [game.roots(1, first) for first in firsts]
    noise = numpy_rng("noise").gumbel(size=(len(firsts), ACTIONS))
    alone = [gumbel_search(one, game.expand, 24, gumbel=noise[i : i + 1], bounds=bounds) for i, one in enumerate(each)]
    for order in (np.arange(len(firsts)), np.arange(len(firsts))[::-1]):
        columns = [np.concatenate([getattr(each[i], name) for i in order]) for name in ("logits", "value", "legal")]
        roots = Roots(Numbers(np.array(firsts)[order]), *columns)
        found = gumbel_search(roots, game.expand, 24, gumbel=noise[order], bounds=bounds)
        for row, i in enumerate(order):
            np.testing.assert_array_equal(found.visits[row], alone[i].visits[0])
            np.testing.assert_array_equal(found.weights[row], alone[i].weights[0])
            assert found.action[row] == alone[i].action[0]
            assert found.value[row] == alone[i].value[0]


def bandit(means, calls: list[int] | None = None):
    """One state with an arm for each of `means`; any pull ends the episode."""

    def expand(states: Numbers, actions: np.ndarray) -> Expanded[Numbers]:
        if calls is not None:
            calls.append(len(actions))
        n = len(actions)
        nothing, over = np.zeros((n, len(means))), np.ones(n, bool)
        reward = np.array(means)[actions]
        return Expanded(Numbers(actions + 1), nothing, nothing[:, 0], nothing == 0, reward, 0.0 * reward, over)

    def roots(n: int = 1, legal=None) -> Roots[Numbers]:
        able = np.ones((n, len(means)), bool) if legal is None else np.array([legal] * n)
        return Roots(Numbers(np.zeros(n, np.int64)), np.zeros((n, len(means))), np.zeros(n), able)

    return roots, expand


def test_sequential_halving_pulls_arms_as_often_as_in_the_paper() -> None:
    roots, expand = bandit([0.1, 0.9, 0.3, 0.2, 0.8, 0.0, 0.4, 0.7])
    found = gumbel_search(roots(), expand, 24, considered=8)
    # 24 simulations, three halvings: 8 arms once, the best 4 twice more, the best 2 four times more.
    assert sorted(found.visits[0]) == [1, 1, 1, 1, 3, 3, 7, 7]
    assert found.action[0] == 1
    assert found.visits[0, 1] == found.visits[0, 4] == 7
    assert found.weights[0].argmax() == 1


def test_considered_visits_equal_the_published_sequence() -> None:
    assert considered_visits(1, 4) == (0, 1, 2, 3)
    assert considered_visits(2, 5) == (0, 0, 1, 1, 2)
    assert considered_visits(4, 8) == (0, 0, 0, 0, 1, 1, 2, 2)
    assert considered_visits(3, 8) == (0, 0, 0, 1, 1, 2, 2, 3)
    for shorter, longer in pairwise([considered_visits(8, n)[:5] for n in (5, 50)]):
        assert shorter == longer


def test_noise_decides_which_arms_are_considered() -> None:
    roots, expand = bandit([0.9, 0.1, 0.1, 0.1])
    noise = np.array([[-100.0, 0.0, 50.0, 49.0]])
    found = gumbel_search(roots(), expand, 4, gumbel=noise, considered=2)
    np.testing.assert_array_equal(found.visits[0] > 0, [False, False, True, True])
    assert found.action[0] == 2


def test_illegal_arms_are_never_pulled_and_have_no_weight() -> None:
    roots, expand = bandit([0.9, 0.2, 0.1, 0.8])
    legal = [False, True, True, False]
    found = gumbel_search(roots(3, legal), expand, 16)
    assert (found.action == 1).all()
    assert not found.visits[:, [0, 3]].any()
    assert not found.weights[:, [0, 3]].any()
    assert found.visits.sum(-1).tolist() == [16] * 3


def test_known_states_are_expanded_once_and_proven_roots_are_not_searched() -> None:
    calls: list[int] = []
    roots, expand = bandit([0.1, 1.0, 0.3], calls)
    found = gumbel_search(roots(5), expand, 32, bounds=(-1.0, 1.0))
    assert calls in ([5, 5], [5])  # the second arm has the greatest possible value, so the root is proven
    assert found.proven.all()
    assert (found.value == 1.0).all()
    again: list[int] = []
    roots, expand = bandit([0.1, 1.0, 0.3], again)
    gumbel_search(roots(5), expand, 32)
    assert again == [5, 5, 5]  # without proofs every arm is pulled to the end, but expanded only once


def test_refuted_actions_have_no_weight_and_a_continued_choice_counts_new_visits_alone() -> None:
    roots, expand = bandit([0.1, 0.9, 0.3])
    assert gumbel_search(roots(), expand, 16, bounds=(-1.0, 1.0)).weights.tolist() == [[0.0, 1.0, 0.0]]
    first = gumbel_search(roots(), expand, 12)
    assert first.action.tolist() == [1]
    liked = np.array([[1000.0, 0.0, 0.0]])
    again = gumbel_search(roots(), expand, 1, gumbel=liked, tree=first.tree)
    assert (again.visits - first.visits).tolist() == [[1, 0, 0]]
    assert again.action.tolist() == [0], "which this search has visited, and not the one of most visits in all"


def test_integer_bounds_do_not_round_values() -> None:
    roots, expand = bandit([0.1, 0.9, 0.3])
    found = gumbel_search(roots(2), expand, 16, bounds=(-1, 1))
    assert found.value.tolist() == [0.9, 0.9]
    assert found.action.tolist() == [1, 1]


def test_tree_of_two_plies_has_its_minimax_value() -> None:
    """Values for the first player: [[3, 12, 8], [2, 4, 6], [14, 5, 2]] (from a textbook), so 3 by the left action."""
    leaves = np.array([[3, 12, 8], [2, 4, 6], [14, 5, 2]]) / 14.0

    def expand(states: Numbers, actions: np.ndarray) -> Expanded[Numbers]:
        n = len(actions)
        second = states.at > 0
        reward = np.where(second, -leaves[np.maximum(states.at - 1, 0), actions], 0.0)
        nothing = np.zeros((n, 3))
        return Expanded(
            Numbers(actions + 1), nothing, nothing[:, 0], nothing == 0, reward, np.where(second, 0.0, -1.0), second
        )

    def roots() -> Roots[Numbers]:
        return Roots(Numbers(np.zeros(1, np.int64)), np.zeros((1, 3)), np.zeros(1), np.ones((1, 3), bool))

    found = gumbel_search(roots(), expand, 40, bounds=(-1.0, 1.0))
    assert found.proven[0]
    assert found.action[0] == 0
    assert found.value[0] == pytest.approx(3 / 14)


def test_all_trees_share_one_call_per_simulation() -> None:
    game = RandomGame(1, opponent=True)
    gumbel_search(game.roots(64), game.expand, 16)
    assert len(game.calls) <= 16
    assert game.calls[0] == 64


@pytest.mark.parametrize("name", ["reward", "discount", "terminal", "logits", "value", "legal"])
def test_inputs_of_a_wrong_shape_are_refused(name: str) -> None:
    roots, expand = bandit([0.1, 0.9, 0.3])

    def shorter(states: Numbers, actions: np.ndarray) -> Expanded[Numbers]:
        found = expand(states, actions)
        return replace(found, **{name: getattr(found, name)[..., :-1]})

    with pytest.raises(ConfigError, match=f"The search expected '{name}' of "):
        gumbel_search(roots(2), shorter, 4)
    with pytest.raises(ConfigError, match=r"expected 'gumbel' of \[2, 3\]"):
        gumbel_search(roots(2), expand, 4, gumbel=np.zeros((1, 3)))
