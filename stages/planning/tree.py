"""The planner's search over partly denoised plans, in which the critic's marks are the values of nodes.

Monte Carlo Tree Diffusion (`devmind.algorithms.diffusion.tree`) replaces candidates that are drawn independently. The
search goes on from symbols and noise that led to good plans, by as many network calls as are asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from devmind.agent.agent import Agent
from devmind.algorithms.diffusion.pipeline import Watch
from devmind.algorithms.diffusion.tree import Grown, Shape, grown, named
from devmind.seeding import torch_generator
from stages.planning.following import SYMBOLS, WARM, Candidates, Route
from stages.planning.places import CELLS, scaled, unscaled

if TYPE_CHECKING:
    from stages.planning.planner import PlannerHead

NOWHERE = 50.0
"""Price, in the critic's marks, of a plan that leads where no trip ever was: more than the length of any way."""


def search_in_a_tree(agent: Agent, simulations: int) -> None:
    """Let this agent's planner search with so many simulations from now on; 0: draw candidates instead."""
    from stages.planning.parts import ROUTE

    head: Any = agent.head(ROUTE)
    head.tree = Shape(simulations) if simulations else None


def searched(
    head: PlannerHead,
    read: Route,
    shape: Shape,
    start: Tensor | None,
    generator: torch.Generator | None,
    given: Mapping[int, Tensor] | None,
    words: Mapping[int, Tensor] | None,
    watch: Watch | None,
    number: int,
) -> Candidates:
    """All plans that a search meets, for each of B rows; see `PlannerHead.search`.

    Args:
        watch: called for each number of nodes with the plans so far; the best so far stands for those to come.
    """
    tree = tree_of(head, read, shape, start, generator, given, words, number)
    plans = unscaled(tree.trajectory)
    # Trees differ in size: the root's plan stands for a missing node, and is never chosen there.
    if watch is not None:
        for nodes in range(1, 1 + plans.shape[1]):
            best = tree.worth[:, :nodes].argmax(-1)
            at = torch.arange(plans.shape[1], device=best.device)[None].repeat(len(best), 1)
            at[:, nodes:] = best[:, None]
            rows = torch.arange(len(best), device=best.device)[:, None]
            x, symbols = tree.trajectory[rows, at].flatten(0, 1), tree.symbols[rows, at].flatten(0, 1)
            watch(nodes - 1, x, x, symbols)
    return Candidates(plans, tree.symbols, tree.worth, tree.worth.argmax(-1))


def tree_of(
    head: PlannerHead,
    read: Route,
    shape: Shape,
    start: Tensor | None = None,
    generator: torch.Generator | None = None,
    given: Mapping[int, Tensor] | None = None,
    words: Mapping[int, Tensor] | None = None,
    number: int = 0,
) -> Grown:
    """The whole search."""
    device = read.place.device
    draws = generator or torch_generator("planner's tree", head.horizon, number, device=device)
    nothing = torch.zeros(len(read.place), CELLS**2, dtype=torch.bool, device=device)

    def worth(clean: Tensor, symbols: Tensor, row: Tensor) -> Tensor:
        plans, maze = unscaled(clean)[:, None], read.maze[row]
        nowhere = head.leads_into(plans, maze, nothing[row])
        return (head.marks(plans, maze) - NOWHERE * nowhere)[:, 0]

    return grown(
        head.pipeline,
        read.thought,
        read.present,
        named(shape, head.denoiser.config, draws, device),
        worth,
        shape,
        head.held(read, given),
        words,
        None if start is None else scaled(start),
        1.0 if start is None else WARM,
        SYMBOLS not in head.silenced,
    )
