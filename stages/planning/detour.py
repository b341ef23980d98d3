"""A way round: through places that trips were in, by plans that the planner draws to them and on from them.

The planner has learned shortest ways only, and all of its candidates may lead through what is closed. Parts of a detour
are shortest ways again, to another place and from there to the goal; so it is asked for these, and those that lead into
nothing closed are put together (as Eysenbach et al. 2019, "Search on the replay buffer", put ways together).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from stages.planning.following import Route
    from stages.planning.planner import PlannerHead

PAIRS = 48
"""Plans between two places that are drawn where no way round is found through one."""
Way = tuple[Tensor, Tensor, Tensor]
"""The plan [H, 2] of the first part, its symbols int64 [L], and where it leads, [2]."""


def detour(head: PlannerHead, read: Route, closed: Tensor, via: Tensor | None, number: int) -> Way | None:
    """The best way round for one row; None: there is none among those that were drawn.

    Args:
        read: of one row. closed: bool [1, cells^2], what was found closed.
        via: [1, 2], the place that one was on the way to: it is kept where a plan still leads there.
        number: says which noise plans are drawn of.
    """
    if via is not None:
        found = head.search(head.asked(read, read.place, via), number=number)
        free = ~head.leads_into(found.plans, read.maze, closed)[0]
        if free.any():
            best = int(found.marks[0].masked_fill(~free, -torch.inf).argmax())
            return found.plans[0, best], found.symbols[0, best], via[0]
    known = (head.room(read.maze)[0] > 0) & ~closed[0]
    known[head.square(read.place)[0]] = False
    places = head.middles()[known]
    if not len(places):
        return None
    goal = read.goal.expand(len(places), -1)
    plans, symbols, marks = _drawn(head, read, read.place.expand(len(places), -1), places, closed, number)
    _, _, onward = _drawn(head, read, places, goal, closed, number)
    whole = marks + onward
    if not whole.isfinite().any():
        whole = _by_two(head, read, places, marks, onward, closed, number)
    if not whole.isfinite().any():
        return None
    best = int(whole.argmax())
    return plans[best], symbols[best], places[best]


def _by_two(
    head: PlannerHead, read: Route, places: Tensor, marks: Tensor, onward: Tensor, closed: Tensor, number: int
) -> Tensor:
    """Marks [V] of ways through each place and one more behind it; -inf where there is none."""
    first, second = marks.isfinite().nonzero().squeeze(-1), onward.isfinite().nonzero().squeeze(-1)
    whole = torch.full_like(marks, -torch.inf)
    if not len(first) or not len(second):
        return whole
    far = (places[first][:, None] - places[second][None]).norm(dim=-1).flatten()
    near = far.argsort(stable=True)[:PAIRS]
    one, other = first[near // len(second)], second[near % len(second)]
    _, _, between = _drawn(head, read, places[one], places[other], closed, number)
    return whole.scatter_reduce(0, one, marks[one] + between + onward[other], "amax")


def _drawn(
    head: PlannerHead, read: Route, begin: Tensor, end: Tensor, closed: Tensor, number: int
) -> tuple[Tensor, Tensor, Tensor]:
    """A plan for each pair of ends [V, 2]: [V, H, 2], symbols int64 [V, L], marks [V], -inf if it leads into one."""
    found = head.search(head.asked(read, begin, end), number=number, candidates=1)
    into = head.leads_into(found.plans, read.maze.expand(len(begin), -1), closed.expand(len(begin), -1))
    return found.plans[:, 0], found.symbols[:, 0], found.marks.masked_fill(into, -torch.inf)[:, 0]
