"""The batched search against trees of mctx, node by node (`benchmarks/golden_trees.py` wrote them)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from devmind.algorithms.tree_search import Expanded, Roots, gumbel_search, puct_search

CASES = json.loads(Path(__file__).with_name("golden_trees.json").read_text(encoding="utf-8"))["cases"]
OURS = {
    "node_visits": "visits", "raw_values": "raw_value", "node_values": "value", "children_index": "child",
    "children_visits": "child_visits", "children_rewards": "reward", "children_discounts": "discount",
}  # fmt: skip
"""Arrays of mctx's tree, and their names here."""


@dataclass
class Numbers:
    """States in a table, one number each."""

    at: np.ndarray

    def take(self, index: Any) -> Numbers:
        return Numbers(self.at[index].copy())

    def put(self, index: Any, other: Numbers) -> None:
        self.at[index] = other.at


def searched(case: dict[str, Any]):
    model = {name: np.array(table) for name, table in case["model"].items()}

    def expand(states: Numbers, actions: np.ndarray) -> Expanded[Numbers]:
        way = states.at, actions
        there = model["following"][way]
        every = np.ones((len(there), model["logits"].shape[1]), bool)
        return Expanded(
            Numbers(there), model["logits"][there], model["value"][there], every, model["reward"][way],
            model["discount"][way], np.zeros(len(there), bool),
        )  # fmt: skip

    at = model["roots"]
    roots = Roots(Numbers(at), model["logits"][at], model["value"][at], model["legal"])
    return (puct_search if case["kind"] == "puct" else gumbel_search)(roots, expand, case["simulations"])


@pytest.mark.parametrize("case", CASES, ids=[f"{case['kind']} {number}" for number, case in enumerate(CASES)])
def test_every_node_equals_that_of_mctx(case: dict[str, Any]) -> None:
    found = searched(case)
    assert found.action.tolist() == case["found"]["action"]
    for theirs, ours in OURS.items():
        golden, mine = np.array(case["tree"][theirs]), getattr(found.tree.nodes, ours)
        if golden.dtype.kind == "f":
            np.testing.assert_allclose(mine, golden, atol=2e-5, err_msg=theirs)  # mctx uses float32
        else:
            np.testing.assert_array_equal(mine, golden, err_msg=theirs)
    nodes, below = found.tree.nodes, np.array(case["tree"]["children_values"])
    values = np.where(nodes.child_visits > 0, nodes.reward + nodes.discount * below, 0)
    np.testing.assert_allclose(
        nodes.child_q, values, atol=2e-5
    )  # mctx keeps the child's value, this search that of the edge
    np.testing.assert_allclose(found.weights, case["found"]["weights"], atol=2e-5)


def test_golden_trees_are_deep_and_have_illegal_actions() -> None:
    for case in CASES:
        index = np.array(case["tree"]["children_index"])
        depth = np.zeros(index.shape[:2], int)
        for tree, node, action in zip(*np.nonzero(index >= 0), strict=True):
            depth[tree, index[tree, node, action]] = depth[tree, node] + 1
        assert (depth.max(1) >= 3).all()
        assert not np.array(case["model"]["legal"]).all()
