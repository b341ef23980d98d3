"""What the planner believes of where one can go: learned of trips beforehand, and corrected on the way.

Two things are learned. In which cells of a maze trips were: plans are to stay in these. And how it feels to run into
something: what was commanded in the last ticks, what came of it, and where in its cell the body is, tell of each of the
four cells beside it how likely it is that one cannot get in. One tick proves little, so what ticks say is added up as
log odds (an occupancy grid: Moravec, Elfes 1985), each with a weight that is learned, as ticks in a row say nearly the
same. What was added up is carried in the state and fades, so it holds for all plans of an episode, in life as in exams,
and what was believed falsely is forgotten; nothing else tells of closed cells.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from devmind.algorithms.diffusion import SPREAD_OUT, spread_out
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
FORGETS = 0.999
"""What is left of the evidence on a cell a tick later, where one is not beside it."""
SUREST = 3.0
"""Evidence counts up to so many times what is asked for; so 1,100 ticks forget what was surest."""
SELDOM = 0.1
"""Trips have to be in a cell so many times as often as chance would have it, for it to count as one where one can be:
few trips end in a dead end."""
SCALE = 10.0
"""By which numbers of cells are multiplied, so that they are learned as fast as all else."""


def square(place: Tensor, cell: float, cells: int) -> Tensor:
    """The number of the cell within its maze, int64 [...], that places [..., 2] are in; cells of a side of `cell`, so
    many along each axis."""
    across, down = ((place / cell).round().long() + 1).clamp(0, cells - 1).unbind(-1)
    return down * cells + across


class BeliefHead(StrideHead):
    """A head with a map of where one can be, `space`, a sense of being stopped, `stopped`, and what a tick of it
    counts for, `counts`.
    """

    def add_belief(self, cell: float, cells: int, mazes: int, pace: float, sure: float) -> None:
        """Make them; see `PlannerHead` for what the numbers are."""
        self.cell, self.cells, self.mazes, self.pace, self.sure = cell, cells, mazes, pace, sure
        self.space = nn.Embedding(mazes * cells**2, 1)
        nn.init.zeros_(self.space.weight)
        self.stopped = mlp(4 + 2 * SPREAD_OUT, 64, 1)
        self.counts = nn.Parameter(torch.tensor([-1.0, 0.0]))  # a tick's weight before softplus; log odds of any wall

    def square(self, place: Tensor) -> Tensor:
        """The number of the cell within its maze, int64 [...], that places [..., 2] are in."""
        return square(place, self.cell, self.cells)

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
        """Log odds [..., 4] that each of the cells beside one's own cannot be entered, by this tick alone.

        Each side is seen in a frame of its own, along it and across, mirrored so that one is on its left: a wall feels
        alike wherever it stands.
        """
        along = torch.tensor(SIDES, dtype=place.dtype, device=place.device).T
        across = along.flip(0) * torch.tensor([[-1.0], [1.0]], device=place.device)
        inside = place / self.cell
        inside = inside - inside.round()
        aside = inside @ across
        mirrored = torch.where(aside < 0, -1.0, 1.0)
        felt = [way for what in (pushed, moved) for way in (what @ along, (what @ across) * mirrored)]
        seen = spread_out(torch.stack((inside @ along, aside * mirrored), -1))
        return self.stopped(torch.cat((torch.stack(felt, -1), seen), -1)).squeeze(-1)

    def counted(self, stops: Tensor) -> Tensor:
        """What log odds of a tick count for: what is told of any wall is taken off, as it is no news."""
        return F.softplus(self.counts[0]) * (stops - self.counts[1])

    def weighed(self, evidence: Tensor, pushed: Tensor, moved: Tensor, place: Tensor) -> Tensor:
        """`evidence` [B, cells^2], log odds that cells are closed, with what this tick adds; for the cell that one is
        in there is none."""
        beside = self.square(place[:, None] + self.cell * torch.tensor(SIDES, device=place.device))
        told = self.counted(self.stops(pushed, moved, place))
        # Two sides at the edge of all cells may be one number; then what both tell is added.
        evidence = (FORGETS * evidence).scatter(1, beside, evidence.gather(1, beside)).scatter_add(1, beside, told)
        most = SUREST * self.sure
        return evidence.clamp(-self.sure, most) * ~F.one_hot(self.square(place), evidence.shape[1]).bool()

    def closed(self, evidence: Tensor, maze: Tensor) -> Tensor:
        """Which cells are believed to be closed now, bool [B, cells^2]: where trips were, or nothing was learned; of a
        wall that was known it is no news."""
        return (evidence > self.sure) & (self.room(maze) >= 0)

    def leads_into(self, plans: Tensor, maze: Tensor, closed: Tensor) -> Tensor:
        """Whether plans [B, N, H, 2] lead into a cell that is `closed`, bool [B, cells^2], or into one of the mazes [B,
        mazes] in which no trip ever was; or past the corner where two such cells meet. bool [B, N].
        """
        share = torch.arange(ALONG, device=plans.device)[:, None] / ALONG
        places = plans[..., :-1, None, :] + share * (plans[..., 1:, None, :] - plans[..., :-1, None, :])
        places = torch.cat((places.flatten(-3, -2), plans[..., -1:, :]), -2)
        inside = places / self.cell
        aside, number = (inside - inside.round()).abs().amax(-1), self.square(places)
        walls = self.room(maze) < 0

        def there(cells: Tensor, number: Tensor) -> Tensor:
            return cells[:, None].expand(-1, number.shape[1], -1).gather(-1, number)

        deep = (there(closed, number) & (aside < CLOSED_DEEP)) | (there(walls, number) & (aside < DEEP))
        return deep.any(-1) | self._squeezes(number, walls | closed, there)

    def _squeezes(self, number: Tensor, shut: Tensor, there: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """Whether ways through cells of these numbers [B, N, K] go from one to another that has no side in common with
        it, and neither has the way round their corner; cells that are shut and only grazed are passed over."""
        order = torch.arange(number.shape[-1], device=number.device)
        last = torch.where(there(shut, number), 0, order).cummax(-1).values
        number = number.gather(-1, last)
        one, other = number[..., :-1], number[..., 1:]
        (down, across), (lower, further) = ((n // self.cells, n % self.cells) for n in (one, other))
        apart = (down - lower).abs() + (across - further).abs()
        corner = there(shut, lower * self.cells + across) & there(shut, down * self.cells + further)
        return ((apart == 2) & corner | (apart > 2)).any(-1)

    def belief_losses(self, of: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """What is learned, by name.

        Args:
            of: `pushed`, `moved`, `at` [..., T, 2] of T ticks in a row, and `wall` [..., T, 4], whether each cell
                beside is one; `been` [..., 2], places of trips, and `maze` [..., mazes], in which.
        """
        told, wall = self.stops(of["pushed"], of["moved"], of["at"]), of["wall"].to(of["at"].dtype)
        been = SCALE * self.space(self.numbered(of["been"], of["maze"]))
        # Against a place anywhere, which trips come to by chance.
        anywhere = self.room(of["maze"])
        usual = self.counts[1].expand_as(wall)
        added: list[Tensor] = []
        cell = self.square(of["at"])
        for tick in range(cell.shape[-1]):
            now = self.counted(told[..., tick, :].detach())
            stayed = (
                cell[..., tick] == cell[..., tick - 1] if tick else torch.zeros_like(cell[..., 0], dtype=torch.bool)
            )
            added.append(now + torch.where(stayed[..., None], added[-1], 0.0) if tick else now)
        return {
            "stops": F.binary_cross_entropy_with_logits(told, wall),
            "usual": F.binary_cross_entropy_with_logits(usual, wall),
            "added": F.binary_cross_entropy_with_logits(self.counts[1].detach() + torch.stack(added, -2), wall),
            "room": F.softplus(-been).mean() + SELDOM * F.softplus(anywhere).mean(),
        }
