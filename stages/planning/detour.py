"""A way round: through places that trips were in, by plans that the planner draws to them and on from them.

The planner has learned shortest ways only, and all of its candidates may lead through what is closed. Parts of a detour
are shortest ways again, to another place, from there to the next and in the end to the goal; so it is asked for these,
those that lead into nothing closed are a graph, and the shortest way through it is gone (as Eysenbach et al. 2019,
"Search on the replay buffer", search).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra
from torch import Tensor

if TYPE_CHECKING:
    from stages.planning.following import Route
    from stages.planning.planner import PlannerHead

NEIGHBOURS = 1.5
"""Between places that are no further apart than this, in cells, plans are drawn as well."""
TURN = 0.2
"""What another place on the way costs, in units of a plan's length."""
WORD_STEPS = 4
"""In which the moves of plans to near places are drawn."""
Way = tuple[Tensor, Tensor, Tensor]
"""The plan [H, 2] of the first part, its symbols int64 [L], and where it leads, [2]."""


def detour(head: PlannerHead, read: Route, closed: Tensor, number: int) -> Way | None:
    """The best way round for one row; None: there is none among those that were drawn.

    Args:
        read: of one row. closed: bool [cells^2], what was found closed.
        number: says which noise plans are drawn of.
    """
    known = (head.room(read.maze)[0] > 0) & ~closed
    known[head.square(read.place)[0]] = False
    places = head.middles()[known]
    n = len(places)
    if not n:
        return None
    near = (torch.cdist(places, places) < NEIGHBOURS * head.cell).fill_diagonal_(False).nonzero()
    of, to = torch.arange(n, device=places.device), torch.full((n,), n + 1, device=places.device)
    # Places are numbered from 0, one's own is n, the goal n + 1.
    begin, end = torch.cat((torch.full_like(of, n), of, near[:, 0])), torch.cat((of, to, near[:, 1]))
    nodes = torch.cat((places, read.place, read.goal))
    asked = head.thinking(nodes[begin], nodes[end], read.maze.expand(len(begin), -1))
    found = head.search(asked, number=number, candidates=1, steps=1, word_steps=WORD_STEPS)
    free = ~head.leads_into(found.plans, asked.maze, closed.expand(len(begin), -1))[:, 0]
    price = TURN - found.marks[:, 0]
    edges = [value[free].cpu().numpy() for value in (price, begin, end)]
    graph = csr_array((edges[0], (edges[1], edges[2])), (n + 2, n + 2))
    far, before = dijkstra(graph, indices=n, return_predecessors=True)
    if not far[n + 1] < float("inf"):
        return None
    at = n + 1
    while before[at] != n:
        at = int(before[at])
    # The first plans of all are those from one's own place, in the order of the places.
    return found.plans[at, 0], found.symbols[at, 0], places[at]
