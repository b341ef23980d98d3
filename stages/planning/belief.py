"""What the planner believes about where it can go: learned from trips beforehand, and corrected on the way.

Two things are learned. The first is in which cells of a maze trips were, as plans are to stay in these. The second is
how it feels to run into something: the commands of the last ticks, their effect, and where in its cell the body is give
the log odds that each of the four neighbouring cells cannot be entered. One tick proves little, so log odds are added
up over ticks (an occupancy grid: Moravec, Elfes 1985), with a learned weight, as ticks in a row say nearly the same.
The sum is carried in the state, so it holds for all plans of an episode, in life as in exams. It fades, so false
beliefs are forgotten. Nothing else tells of closed cells.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from devmind.algorithms.diffusion import SPREAD_OUT, spread_out
from devmind.worlds.pointmaze import MAZES
from stages.planning.critic import StrideHead, mlp
from stages.planning.places import CELL_SIDE, CELLS, WALKED, numbered, square

SIDES = ((1, 0), (0, 1), (-1, 0), (0, -1))
"""The four neighbouring cells: (columns, rows)."""
FADES = 0.75
"""Share of a tick's command, and of its effect, that is left a tick later."""
ALONG = 8
"""Places of a stride that are checked."""
DEEP, CLOSED_DEEP = 0.35, 0.45
"""A plan leads into a cell if it comes nearer to its middle than this share of a side, since strides of few points cut
the corners of walls. Cells that were found closed leave less room."""
FORGETS = 0.999
"""Share of the evidence on a cell that is left a tick later, where the agent is not beside it."""
SURE = 8.0
"""Log odds from which on a cell counts as closed."""
SUREST = 3.0
"""Evidence is limited to so many times SURE, so the surest is forgotten in 1,100 ticks."""
SELDOM = 0.1
"""A cell counts as one where the agent can be if trips are in it at least so many times as often as by chance; few
trips end in a dead end."""
SCALE = 10.0
"""Factor on the learned numbers of cells, so that they are learned as fast as all else."""


class BeliefHead(StrideHead):
    """A head with a map of where the agent can be, `space`, a sense of being stopped, `stopped`, and the weight of a
    tick, `counts`.
    """

    def add_belief(self) -> None:
        """Make these parts."""
        self.space = nn.Embedding(len(MAZES) * CELLS**2, 1)
        nn.init.zeros_(self.space.weight)
        self.stopped = mlp(4 + 2 * SPREAD_OUT, 64, 1)
        self.counts = nn.Parameter(torch.tensor([-1.0, 0.0]))  # a tick's weight before softplus; log odds of any wall

    def room(self, maze: Tensor) -> Tensor:
        """Log odds [B, CELLS^2] that the agent can be in each cell of the mazes [B, mazes]; 0: nothing was learned."""
        return SCALE * self.space.weight.view(len(MAZES), -1)[maze[..., : len(MAZES)].argmax(-1)]

    def felt(self, before: Mapping[str, Tensor], place: Tensor, known: Tensor) -> tuple[Tensor, Tensor]:
        """Fading means of the commands, and of their effect in ticks of walking, [B, 2] each; `known` bool [B]: there
        was a tick before."""
        moved = (place - before["last"]) / WALKED
        return tuple(
            torch.where(known[:, None], FADES * before[name] + (1 - FADES) * now, 0.0)
            for name, now in (("pushed", before["told"]), ("moved", moved))
        )  # type: ignore[return-value]

    def stops(self, pushed: Tensor, moved: Tensor, place: Tensor) -> Tensor:
        """Log odds [..., 4] that each neighbouring cell cannot be entered, by this tick alone.

        Each side has a frame of its own, along it and across it, mirrored so that the agent is on its left: a wall
        feels the same wherever it stands.
        """
        along = torch.tensor(SIDES, dtype=place.dtype, device=place.device).T
        across = along.flip(0) * torch.tensor([[-1.0], [1.0]], device=place.device)
        inside = place / CELL_SIDE
        inside = inside - inside.round()
        aside = inside @ across
        mirrored = torch.where(aside < 0, -1.0, 1.0)
        felt = [way for what in (pushed, moved) for way in (what @ along, (what @ across) * mirrored)]
        geometry = spread_out(torch.stack((inside @ along, aside * mirrored), -1))
        return self.stopped(torch.cat((torch.stack(felt, -1), geometry), -1)).squeeze(-1)

    def counted(self, stops: Tensor) -> Tensor:
        """The weighted log odds of a tick, less those of any wall, which are no evidence."""
        return F.softplus(self.counts[0]) * (stops - self.counts[1])

    def weighed(self, evidence: Tensor, pushed: Tensor, moved: Tensor, place: Tensor) -> Tensor:
        """`evidence` [B, CELLS^2], log odds that cells are closed, after this tick; 0 for the agent's own cell."""
        beside = square(place[:, None] + CELL_SIDE * torch.tensor(SIDES, device=place.device))
        log_odds = self.counted(self.stops(pushed, moved, place))
        # At the edge of all cells two sides may have one number; then both are added.
        evidence = (FORGETS * evidence).scatter(1, beside, evidence.gather(1, beside)).scatter_add(1, beside, log_odds)
        most = SUREST * SURE
        return evidence.clamp(-SURE, most) * ~F.one_hot(square(place), evidence.shape[1]).bool()

    def closed(self, evidence: Tensor, maze: Tensor) -> Tensor:
        """Which cells are believed to have closed, bool [B, CELLS^2]: only cells where trips were or nothing was
        learned, as a known wall is no news."""
        return (evidence > SURE) & (self.room(maze) >= 0)

    def leads_into(self, plans: Tensor, maze: Tensor, closed: Tensor) -> Tensor:
        """Whether plans [B, N, H, 2] lead into a cell that is `closed`, bool [B, CELLS^2], into a cell of the mazes [B,
        mazes] where no trip ever was, or past a corner where two such cells meet; bool [B, N].
        """
        share = torch.arange(ALONG, device=plans.device)[:, None] / ALONG
        places = plans[..., :-1, None, :] + share * (plans[..., 1:, None, :] - plans[..., :-1, None, :])
        places = torch.cat((places.flatten(-3, -2), plans[..., -1:, :]), -2)
        inside = places / CELL_SIDE
        aside, number = (inside - inside.round()).abs().amax(-1), square(places)
        walls = self.room(maze) < 0

        def there(cells: Tensor, number: Tensor) -> Tensor:
            return cells[:, None].expand(-1, number.shape[1], -1).gather(-1, number)

        deep = (there(closed, number) & (aside < CLOSED_DEEP)) | (there(walls, number) & (aside < DEEP))
        return deep.any(-1) | self._squeezes(number, walls | closed, there)

    def _squeezes(self, number: Tensor, shut: Tensor, there: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """Whether ways through cells of these numbers [B, N, K] step diagonally between two shut cells, or jump over
        more; shut cells that are only grazed are passed over."""
        order = torch.arange(number.shape[-1], device=number.device)
        last = torch.where(there(shut, number), 0, order).cummax(-1).values
        number = number.gather(-1, last)
        one, other = number[..., :-1], number[..., 1:]
        (down, across), (lower, further) = ((n // CELLS, n % CELLS) for n in (one, other))
        apart = (down - lower).abs() + (across - further).abs()
        corner = there(shut, lower * CELLS + across) & there(shut, down * CELLS + further)
        return ((apart == 2) & corner | (apart > 2)).any(-1)

    def belief_losses(self, of: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Losses by name.

        Args:
            of: `pushed`, `moved`, `at` [..., T, 2] of T ticks in a row; `wall` [..., T, 4], whether each neighbouring
                cell is a wall; `been` [..., 2], places of trips, and `maze` [..., mazes], their maze.
        """
        stop_logits, wall = self.stops(of["pushed"], of["moved"], of["at"]), of["wall"].to(of["at"].dtype)
        been = SCALE * self.space(numbered(of["been"], of["maze"]))
        # Against places anywhere, where trips are by chance.
        anywhere = self.room(of["maze"])
        usual = self.counts[1].expand_as(wall)
        added: list[Tensor] = []
        cell = square(of["at"])
        for tick in range(cell.shape[-1]):
            now = self.counted(stop_logits[..., tick, :].detach())
            stayed = (
                cell[..., tick] == cell[..., tick - 1] if tick else torch.zeros_like(cell[..., 0], dtype=torch.bool)
            )
            added.append(now + torch.where(stayed[..., None], added[-1], 0.0) if tick else now)
        return {
            "stops": F.binary_cross_entropy_with_logits(stop_logits, wall),
            "usual": F.binary_cross_entropy_with_logits(usual, wall),
            "added": F.binary_cross_entropy_with_logits(self.counts[1].detach() + torch.stack(added, -2), wall),
            "room": F.softplus(-been).mean() + SELDOM * F.softplus(anywhere).mean(),
        }
