"""Search trees of mctx (JAX on CPU), node by node, as the JSON that tests compare devmind's search with.

    python tests/algorithms/golden_trees.py tests/algorithms/golden_trees.json

mctx is in the extra `bench`. The searched model is a table of 24 states and five actions. Its numbers are drawn here
and saved beside the trees, so the tests need neither mctx nor a random generator. It has no terminal states, since mctx
would search beyond them. Numbers are float32, as in mctx.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import mctx
import numpy as np

STATES, ACTIONS, ROOTS, SIMULATIONS = 24, 5, 4, 40
NODES = ("node_visits", "raw_values", "node_values")
EDGES = ("children_index", "children_visits", "children_values", "children_rewards", "children_discounts")


def tables(seed: int, *, opponent: bool) -> dict[str, np.ndarray]:
    """The model; with an opponent, turns alternate."""
    rng = np.random.default_rng(seed)
    return {
        "following": rng.integers(0, STATES, (STATES, ACTIONS)),
        "reward": rng.normal(0, 0.3, (STATES, ACTIONS)).astype(np.float32),
        "discount": np.full((STATES, ACTIONS), -1.0 if opponent else 0.9, np.float32),
        "logits": rng.normal(0, 1, (STATES, ACTIONS)).astype(np.float32),
        "value": np.tanh(rng.normal(0, 1, STATES)).astype(np.float32),
        "roots": rng.choice(STATES, ROOTS, replace=False),
        "legal": np.where(np.arange(ACTIONS) > 0, rng.random((ROOTS, ACTIONS)) < 0.7, True),
    }


def searched(model: dict[str, np.ndarray]) -> Any:
    """The result of mctx at its defaults, without noise of its own."""
    of = {name: jnp.asarray(array) for name, array in model.items()}

    def step(params: Any, key: Any, action: Any, state: Any) -> Any:
        there = of["following"][state, action]
        found = mctx.RecurrentFnOutput(
            reward=of["reward"][state, action],
            discount=of["discount"][state, action],
            prior_logits=of["logits"][there],
            value=of["value"][there],
        )
        return found, there

    at = of["roots"]
    root = mctx.RootFnOutput(prior_logits=of["logits"][at], value=of["value"][at], embedding=at)
    given: dict[str, Any] = {
        "params": None,
        "rng_key": jax.random.PRNGKey(0),
        "root": root,
        "recurrent_fn": step,
        "num_simulations": SIMULATIONS,
        "invalid_actions": ~of["legal"],
    }
    return mctx.gumbel_muzero_policy(**given, gumbel_scale=0.0)


def tree_as_json(seed: int, *, opponent: bool) -> dict[str, Any]:
    """One model and its trees, as lists."""
    model = tables(seed, opponent=opponent)
    found = searched(model)
    tree = found.search_tree
    trees = {name: np.asarray(getattr(tree, name)) for name in (*NODES, *EDGES)}
    result = {"action": np.asarray(found.action), "weights": np.asarray(found.action_weights)}
    return {
        "simulations": SIMULATIONS,
        "model": {name: array.tolist() for name, array in model.items()},
        "tree": {name: rounded(array) for name, array in trees.items()},
        "found": {name: rounded(array) for name, array in result.items()},
    }


def rounded(array: np.ndarray) -> Any:
    """As lists, with floats rounded to the seven digits of float32."""
    return array.tolist() if array.dtype.kind != "f" else [[*map(_short, row)] for row in array]


def _short(x: Any) -> Any:
    return [_short(each) for each in x] if np.ndim(x) else float(f"{float(x):.7g}")


def main() -> None:
    """Search and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    given = parser.parse_args()
    cases = [tree_as_json(seed, opponent=opponent) for seed, opponent in enumerate((False, True))]
    written = {"by": f"mctx {mctx.__version__}, jax {jax.__version__}, CPU, float32", "cases": cases}
    given.file.write_text(json.dumps(written) + "\n", encoding="utf-8")
    print(f"{given.file}: {len(cases)} cases of {ROOTS} trees, {given.file.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
