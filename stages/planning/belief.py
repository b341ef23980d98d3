"""What the planner believes of where one can go: learned of trips beforehand, and corrected on the way.

Two things are learned. In which cells of a maze trips were: plans are to stay in these. And how it feels to run into
something: what was commanded in the last ticks, what came of it, and where in its cell the body is, tell of each of the
four cells beside it how likely it is that one cannot get in. Which cells were found closed is carried in the state, so
it holds for all plans of an episode, in life as in exams; nothing else tells of them.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from stages.planning.critic import StrideHead, mlp

SIDES = ((1, 0), (0, 1), (-1, 0), (0, -1))
"""The cells beside one's own: (columns, rows)."""
FADES = 0.75
"""What is left of a tick's command and of what came of it a tick later."""
ALONG = 8
"""Places of a stride that are looked at."""
DEEP, CLOSED_DEEP = 0.35, 0.45
"""A plan leads into a cell if it comes nearer to its middle than this share of a side: strides cut the corners of
walls, as a plan has few points. What was found closed leaves less room."""
SCALE = 10.0
"""By which numbers of cells are multiplied, so that they are learned as fast as all else."""


class BeliefHead(StrideHead):
    """A head with a map of where one can be, `space`, and a sense of being stopped, `stopped`."""

    def add_belief(self, cell: float, cells: int, mazes: int, pace: float, sure: float) -> None:
        """Make both; see `PlannerHead` for what the numbers are."""
        self.cell, self.cells, self.mazes, self.pace, self.sure = cell, cells, mazes, pace, sure
        self.space = nn.Embedding(mazes * cells**2, 1)
        nn.init.zeros_(self.space.weight)
        self.stopped = mlp(6, 64, len(SIDES))

    def square(self, place: Tensor) -> Tensor:
        """The number of the cell within its maze, int64 [...], that places [..., 2] are in."""
        across, down = ((place / self.cell).round().long() + 1).clamp(0, self.cells - 1).unbind(-1)
        return down * self.cells + across

    def numbered(self, place: Tensor, maze: Tensor) -> Tensor:
        """The same among those of all mazes; `maze` [..., mazes] says in which."""
        return maze[..., : self.mazes].argmax(-1) * self.cells**2 + self.square(place)

    def middles(self) -> Tensor:
        """The middles of all cells of a maze, [cells^2, 2]."""
        number = torch.arange(self.cells**2, device=self.space.weight.device)
        return (torch.stack((number % self.cells, number // self.cells), -1) - 1) * self.cell

    def room(self, maze: Tensor) -> Tensor:
        """Log odds [B, cells^2] that one can be in each cell of the mazes [B, mazes]; 0 where nothing was learned."""
        return SCALE * self.space.weight.view(self.mazes, -1)[maze[..., : self.mazes].argmax(-1)]

    def felt(self, before: Mapping[str, Tensor], place: Tensor, known: Tensor) -> tuple[Tensor, Tensor]:
        """What was commanded lately, and what came of it in ticks of walking, [B, 2] each; `known` bool [B]: there was
        a tick before."""
        came = (place - before["last"]) / self.pace
        return tuple(
            torch.where(known[:, None], FADES * before[name] + (1 - FADES) * now, 0.0)
            for name, now in (("pushed", before["told"]), ("moved", came))
        )  # type: ignore[return-value]

    def stops(self, pushed: Tensor, moved: Tensor, place: Tensor) -> Tensor:
        """Log odds [..., 4] that each of the cells beside one's own cannot be entered."""
        inside = place / self.cell
        return self.stopped(torch.cat((pushed, moved, 2 * (inside - inside.round())), -1))

    def noticed(self, closed: Tensor, pushed: Tensor, moved: Tensor, place: Tensor) -> Tensor:
        """`closed` bool [B, cells^2] with what is found closed now; a cell that one is in is not."""
        found = self.stops(pushed, moved, place).sigmoid() > self.sure
        beside = place[:, None] + self.cell * torch.tensor(SIDES, device=place.device)
        new = (F.one_hot(self.square(beside), closed.shape[1]).bool() & found[..., None]).any(1)
        return (closed | new) & ~F.one_hot(self.square(place), closed.shape[1]).bool()

    def leads_into(self, plans: Tensor, maze: Tensor, closed: Tensor) -> Tensor:
        """Whether plans [B, N, H, 2] lead into a cell that is `closed`, bool [B, cells^2], or into one of the mazes [B,
        mazes] in which no trip ever was; bool [B, N].
        """
        share = torch.arange(ALONG, device=plans.device)[:, None] / ALONG
        places = plans[..., :-1, None, :] + share * (plans[..., 1:, None, :] - plans[..., :-1, None, :])
        places = torch.cat((places.flatten(-3, -2), plans[..., -1:, :]), -2)
        inside = places / self.cell
        aside, number = (inside - inside.round()).abs().amax(-1), self.square(places)

        def there(cells: Tensor, deep: float) -> Tensor:
            return cells[:, None].expand(-1, number.shape[1], -1).gather(-1, number) & (aside < deep)

        return (there(closed, CLOSED_DEEP) | there(self.room(maze) < 0, DEEP)).any(-1)

    def belief_losses(self, of: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """What is learned, by name.

        Args:
            of: `pushed`, `moved`, `at` [n, 2] and `wall` [n, 4], whether each cell beside is one; `been` [k, 2], places
                of trips, and `maze` [k, mazes], in which.
        """
        stops = self.stops(of["pushed"], of["moved"], of["at"])
        been = SCALE * self.space(self.numbered(of["been"], of["maze"]))
        # Against a place anywhere: who is there as often as chance would have it may as well be in a wall.
        anywhere = self.room(of["maze"])
        return {
            "stops": F.binary_cross_entropy_with_logits(stops, of["wall"].to(stops.dtype)),
            "room": F.softplus(-been).mean() + F.softplus(anywhere).mean(),
        }
