"""A way round: through places where trips were, by plans that the planner draws to them and on from them.

The planner has learned shortest ways only, and all of its candidates may lead through a closed cell. But a detour
consists of shortest ways: to another place, from there to the next, and at last to the goal. So the planner draws
these; those that lead into nothing closed form a graph, and the shortest path through it is followed (as in Eysenbach
et al. 2019, "Search on the replay buffer").

Most of these plans lead from one place of a maze to a near one. They depend on the maze and the noise alone, so they
are drawn once, all together, for all rows that look for a way round in it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import torch
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra
from torch import Tensor

from devmind.worlds.pointmaze import MAZES
from stages.planning.places import CELL_SIDE, middles, square

if TYPE_CHECKING:
    from stages.planning.following import Candidates, Route
    from stages.planning.planner import PlannerHead

NEIGHBOURS = 1.5
"""Plans are drawn between places that are no further apart than this, in cells."""
TURN = 0.2
"""What each further place on the way costs, in units of a plan's length."""
WORD_STEPS = 4
"""Steps in which the moves of these plans are drawn."""
REMEMBERED = 128
"""Sets of near plans, each of a maze and a noise, that a planner keeps."""
Way = tuple[Tensor, Tensor, Tensor]
"""The plan [H, 2] of the first part, its symbols int64 [L], and its end, [2]."""


@dataclass(frozen=True)
class Near:
    """Plans between neighbouring places of a maze: numbers of the cells where they begin and end, int64 [E], their maze
    [E, mazes], and the plans, one candidate each."""

    begin: Tensor
    end: Tensor
    maze: Tensor
    found: Candidates


_KEPT: WeakKeyDictionary[PlannerHead, OrderedDict[Hashable, Near]] = WeakKeyDictionary()


def detour(head: PlannerHead, read: Route, closed: Tensor, number: int) -> Way | None:
    """The best way round for one row; None if the drawn plans contain none.

    Args:
        read: the readings of one row. closed: bool [cells^2], cells that were found closed.
        number: names the noise of the plans.
    """
    known = (head.room(read.maze)[0] > 0) & ~closed
    known[square(read.place)[0]] = False
    places = middles(read.place.device)[known]
    n = len(places)
    if not n:
        return None
    # Places are numbered from 0; the agent's own is n, the goal n + 1.
    of, to = torch.arange(n, device=places.device), torch.full((n,), n + 1, device=places.device)
    begin, end = torch.cat((torch.full_like(of, n), of)), torch.cat((of, to))
    nodes = torch.cat((places, read.place, read.goal))
    asked = head.thinking(nodes[begin], nodes[end], read.maze.expand(len(begin), -1))
    own = _drawn(head, asked, number)
    near = near_plans(head, read.maze, number)
    both = known[near.begin] & known[near.end]
    place_of = known.cumsum(0) - 1
    begin = torch.cat((begin, place_of[near.begin[both]]))
    end = torch.cat((end, place_of[near.end[both]]))
    free, price = [], []
    for found, maze, some in ((own, asked.maze, slice(None)), (near.found, near.maze, both)):
        plans = found.plans[some]
        free.append(~head.leads_into(plans, maze[some], closed.expand(len(plans), -1))[:, 0])
        price.append(TURN - found.marks[some, 0])
    on = torch.cat(free)
    edges = [value[on].cpu().numpy() for value in (torch.cat(price), begin, end)]
    graph = csr_array((edges[0], (edges[1], edges[2])), (n + 2, n + 2))
    far, before = dijkstra(graph, indices=n, return_predecessors=True)
    if not far[n + 1] < float("inf"):
        return None
    at = n + 1
    while before[at] != n:
        at = int(before[at])
    # The first plans are those from the agent's place, in the order of the places.
    return own.plans[at, 0], own.symbols[at, 0], places[at]


def near_plans(head: PlannerHead, maze: Tensor, number: int) -> Near:
    """Plans between all neighbouring places of the maze [1, mazes] where trips were, with the noise `number`, as this
    head draws them now. All are always drawn together, so that it makes no difference which row asked first."""
    kept = _KEPT.setdefault(head, OrderedDict())
    key = (*_drawn_by(head), int(maze[0, : len(MAZES)].argmax()), number)
    if key not in kept:
        places = middles(maze.device)
        known = (head.room(maze)[0] > 0).nonzero()[:, 0]
        apart = torch.cdist(places[known], places[known])
        begin, end = known[(apart < NEIGHBOURS * CELL_SIDE).fill_diagonal_(False).nonzero()].unbind(-1)
        asked = head.thinking(places[begin], places[end], maze.expand(len(begin), -1))
        kept[key] = Near(begin, end, asked.maze, _drawn(head, asked, number))
        while len(kept) > REMEMBERED:
            kept.popitem(last=False)
    kept.move_to_end(key)
    return kept[key]


def _drawn(head: PlannerHead, asked: Route, number: int) -> Candidates:
    return head.search(asked, number=number, candidates=1, steps=1, word_steps=WORD_STEPS)


def _drawn_by(head: PlannerHead) -> tuple[Hashable, ...]:
    """What near plans depend on besides maze and noise: the weights of the planner and its judges, as sums over each
    tensor, and the settings of drawing."""
    with torch.no_grad():
        sums = torch.stack([value.abs().sum() for module in (head, *head.judges) for value in module.parameters()])
    settings = head.silenced, head.doubt, head.guidance, head.free_guidance, repr(head.scheduler.config)
    return (*settings, str(sums.device), sums.dtype, *sums.tolist())
