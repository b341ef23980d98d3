"""What the planner does at a tick: it follows a plan, and decides when to make a new one.

Each tick goes on with the plan kept in the state. A new plan is made after so many ticks, and at once where the world
contradicts the old one: the goal has moved, the agent is not where the plan had it to be, or the plan leads into a cell
that was found closed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from devmind.agent.output import Output
from devmind.agent.plans import Course
from devmind.errors import ConfigError, nearest
from stages.planning.detour import detour
from stages.planning.parts import WORDS
from stages.planning.places import middles, square

if TYPE_CHECKING:
    from stages.planning.planner import PlannerHead

PLACE, GOAL, MAZE = -3, -2, -1
"""Where the raw senses stand among the tokens that are tapped."""
PLACE_NUMBERS = 2
"""Numbers of a place; a place that lacks one of them is unknown."""
TRUNK, SYMBOLS, BELIEF, REPLANNING = "trunk", "symbols", "belief", "replanning"
"""What can be silenced."""
GONE, REACHED = 0.05, 0.12
"""Distance beyond which a goal counts as moved, and within which a place on the way round counts as reached."""
SLOW = 0.25
"""Progress below this share of a tick's walking counts as none."""
WARM = 0.5
"""Noise level from which a plan that begins from the last one is denoised."""
WITHIN = 17
"""Places on the next stride that are compared with the agent's own."""
TRIES = 4
"""Failed searches, each with noise of its own, before the planner says that there is no plan."""


@dataclass
class Candidates:
    """Plans [B, N, H, 2] in the senses' units, their symbols int64 [B, N, L], their marks [B, N], and the chosen one,
    int64 [B]: the best mark, where moves were given among those that make most of them."""

    plans: Tensor
    symbols: Tensor
    marks: Tensor
    chosen: Tensor


@dataclass
class Route(Output):
    """The command [..., 2] that follows each Moment's plan; thought, place, goal and maze are the head's readings."""

    head: PlannerHead
    thought: Tensor
    present: Tensor
    place: Tensor
    goal: Tensor
    maze: Tensor
    before: Mapping[str, Tensor] | None = None
    after: dict[str, Tensor] = field(default_factory=dict)

    def loss(self, target: Any, mask: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        """Sum of the losses of `losses`."""
        return torch.stack(list(self.losses(target, mask, generator).values())).sum()

    def losses(
        self, target: Mapping[str, Tensor], mask: Tensor | None = None, generator: torch.Generator | None = None
    ) -> dict[str, Tensor]:
        """Losses by name: trajectory, symbols, moves, inverse dynamics, critic.

        Args:
            target: `plan` [..., H, 2] and `symbols` int64 [..., L]; `ahead` [..., 2], the place some ticks later, and
                `walk` [..., 2], the command that led there; optionally all that `BeliefHead.belief_losses` takes.
        """
        rows = torch.ones_like(self.present[..., 0]) if mask is None else mask
        of = {name: value[rows] for name, value in target.items()}
        return self.head.losses(of, self.thought[rows], self.present[rows], self.maze[rows], generator)

    def prepare(self, generator: torch.Generator | None = None) -> None:
        """Go on with each row's plan, and make a new one where it is due or the world contradicts the old one."""
        head = self.head
        before = self.before or head.nothing(len(self.place), self.place.device)
        here, age = self.here, before["age"]
        believes = BELIEF not in head.silenced
        pushed, moved = head.felt(before, self.place, here & (age > 0))
        evidence = head.weighed(before["evidence"], pushed, moved, self.place) if believes else before["evidence"]
        evidence = torch.where(here[:, None], evidence, before["evidence"])
        closed = head.closed(evidence, self.maze)
        new = (closed & ~head.closed(before["evidence"], self.maze)).any(-1)
        elsewhere = here & (age > 0) & ((self.goal - before["goal"]).norm(dim=-1) > GONE) & believes
        around = before["around"] & ~elsewhere
        reached = here & around & ((self.place - before["via"]).norm(dim=-1) < REACHED)
        along, aside = self._progress(before)
        stalled = torch.where(along - before["along"] < SLOW / head.stride, before["stalled"] + 1, 0)
        into = head.leads_into(head.shifted(before["plan"], along)[:, None], self.maze, closed)[:, 0]
        cold = (age == 0) | elsewhere | reached | (into & new)
        cold |= (age >= head.stride) & (aside > head.surprise)
        none = before["none"] & ~elsewhere
        due = here & ~none & (cold | (age >= head.follow))
        back = here & ~none & ~due & (stalled >= head.patience)
        if REPLANNING in head.silenced:
            due, back = here & (age == 0), torch.zeros_like(back)
        afresh = due | back
        self.after = {
            **before,
            "age": torch.where(afresh, 1, age + here.long()),
            "along": torch.where(afresh, 0.0, torch.where(here, along, before["along"])),
            "stalled": torch.where(afresh, 0, torch.where(here, stalled, before["stalled"])),
            "made": before["made"] + due.long(),
            "evidence": evidence,
            "around": around & ~reached,
            "failed": torch.where(elsewhere, 0, before["failed"]),
            "none": none,
        }
        self.after |= {"pushed": pushed, "moved": moved}
        for fresh in (True, False):
            rows = (due & ((cold | around) == fresh)).nonzero().squeeze(-1)
            if len(rows):
                start = None if fresh else head.shifted(before["plan"][rows], along[rows])
                self._plan(rows, start, before["made"][rows], generator)
        self._back(back)
        self.after |= {
            name: torch.where(here[:, None], now, before[name])
            for name, now in (("last", self.place), ("goal", self.goal))
        }
        self.after["told"] = self.command()

    @property
    def here(self) -> Tensor:
        """Where the agent's place and its goal are known, bool [...]."""
        return self.present[..., [PLACE, GOAL]].all(-1)

    def _progress(self, before: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """How far along its plan each row is, in strides, and its distance from the plan, [B] each.

        Progress is the nearest place on the next stride, never an earlier one. So a plan does not go on, round the next
        corner, without an agent that is held up.
        """
        ahead = before["along"][:, None] + torch.linspace(0, 1, WITHIN, device=self.place.device)
        distance = (interpolated(before["plan"], ahead) - self.place[:, None]).norm(dim=-1)
        aside, at = distance.min(-1)
        return ahead.gather(1, at[:, None])[:, 0].clamp_max(self.head.horizon - 1.0), aside

    def _back(self, rows: Tensor) -> None:
        """Send `rows` bool [B], which get no further, back to the middle of their cell, where they plan anew; in the
        goal's cell, to the goal."""
        here = square(self.place)
        home = here == square(self.goal)
        there = torch.where(home[:, None], self.goal, middles(here.device)[here])
        plan = self._straight(self.place, there)
        self.after["plan"] = torch.where(rows[:, None, None], plan, self.after["plan"])
        self.after["symbols"] = torch.where(rows[:, None], 0, self.after["symbols"])
        self.after["via"] = torch.where(rows[:, None], there, self.after["via"])
        self.after["around"] = self.after["around"] | (rows & ~home)

    def _straight(self, place: Tensor, there: Tensor) -> Tensor:
        """Plans [B, H, 2] straight to a place in the agent's own cell, where no wall is: no further than a stride."""
        plan = there[:, None].repeat(1, self.head.horizon, 1)
        plan[:, 0] = place
        return plan

    def _plan(self, rows: Tensor, start: Tensor | None, number: Tensor, generator: torch.Generator | None) -> None:
        """Make plans for these rows, with the noise of each row's `number` int64 [n]: to the goal, else round what is
        in the way; else say that there is none."""
        head, read, after = self.head, self.rows(rows), self.after
        candidates = head.search(read, start, generator, number=number)
        at = torch.arange(len(rows), device=rows.device)
        plan, symbols = candidates.plans[at, candidates.chosen], candidates.symbols[at, candidates.chosen]
        if BELIEF not in head.silenced:
            closed = head.closed(after["evidence"][rows], read.maze)
            into = head.leads_into(candidates.plans, read.maze, closed)
            best = candidates.marks.masked_fill(into, -torch.inf).argmax(-1)
            best = torch.where(into.all(-1), candidates.chosen, best)
            plan, symbols = candidates.plans[at, best], candidates.symbols[at, best]
            after["around"][rows] &= into.all(-1)
            for row in into.all(-1).nonzero().squeeze(-1).tolist():
                whole = int(rows[row])
                if square(read.place[row]) == square(read.goal[row]):
                    after["around"][whole] = False
                    plan[row], symbols[row] = self._straight(read.place[row : row + 1], read.goal[row : row + 1])[0], 0
                    continue
                way = detour(head, read.rows(torch.tensor([row], device=rows.device)), closed[row], int(number[row]))
                after["around"][whole] = way is not None
                if way is not None:
                    plan[row], symbols[row], after["via"][whole] = way
                elif bool(closed[row].any()):
                    # It waits where it is and searches again, with other noise, before it says that there is no plan.
                    plan[row], symbols[row] = read.place[row], 0
                    after["failed"][whole] += 1
                    after["none"][whole] = after["failed"][whole] >= TRIES
                    after["age"][whole] = head.follow - 1
        after["plan"] = after["plan"].index_put((rows,), plan)
        after["symbols"] = after["symbols"].index_put((rows,), symbols)

    def rows(self, index: Tensor) -> Route:
        """The readings of some rows, without the kept state."""
        return self._each(lambda value: value[index])

    def and_of(self, other: Route) -> Route:
        """These rows, followed by those of another output of the same head."""
        return Route(
            self.head,
            torch.cat((self.thought, other.thought)),
            torch.cat((self.present, other.present)),
            torch.cat((self.place, other.place)),
            torch.cat((self.goal, other.goal)),
            torch.cat((self.maze, other.maze)),
        )

    def kept(self) -> dict[str, Tensor]:
        """The state to carry.

        plan [B, H, 2], symbols int64 [B, L]; age int64 [B], ticks since the plan was made, 1 in the first, 0 without a
        plan; made int64 [B], plans made so far, which names the noise of the next; along [B], progress in strides;
        stalled int64 [B], ticks without progress.

        Of the belief: evidence [B, cells^2], log odds that cells are closed; pushed and moved [B, 2], fading means of
        commands and of their effect; last, told and goal [B, 2], the tick's place, command and goal; via [B, 2], the
        next place on a way round, where around bool [B]; failed int64 [B], searches that found nothing; none bool [B],
        there is no plan.
        """
        return self.after

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        lead = self.place.shape[:-1]
        flat = self if len(lead) == 1 else self.flattened()
        if not flat.after:
            flat.prepare(generator)
        return flat.command().reshape(*lead, 2)

    def mode(self) -> Tensor:
        """The command, with the noise of each plan determined by its number in the row."""
        return self.sample(None)

    def course(self, given: Mapping[int, str], row: int = 0) -> Course | None:
        """A plan for the row's Moment, drawn with these moves given; None where place or goal is unknown.

        Raises:
            ConfigError: there is no such symbol, or the plan has fewer.
        """
        head = self.head
        length = head.denoiser.config["length"]
        for at, word in given.items():
            if word not in WORDS:
                raise ConfigError(f"Expected a symbol of the route plan; got '{word}'{nearest(word, WORDS)}")
            if not 0 <= at < length:
                raise ConfigError(
                    f"Expected at most {length} symbols in a route plan; got a symbol at number {at + 1}."
                )
        if not bool(self.here[row]):
            return None
        read = self.rows(torch.tensor([row], device=self.place.device))
        words = {at: torch.tensor([WORDS.index(word)], device=self.place.device) for at, word in given.items()}
        with torch.inference_mode():
            candidates = head.search(read, words=words)
            plan = candidates.plans[0, candidates.chosen[0]]
            words_of_plan = head.moves(plan, read.maze).argmax(-1).tolist() if length else []
        made = [WORDS[word] for word in words_of_plan]
        missed = tuple(at for at, word in given.items() if made[at] != word)
        return Course(plan.float().cpu().numpy(), tuple(given.get(at, word) for at, word in enumerate(made)), missed)

    def along(self, course: Course, at: float, row: int = 0) -> tuple[float, np.ndarray]:
        """The nearest place on the course's next stride, and the command that leads one stride further."""
        read = self.rows(torch.tensor([row], device=self.place.device))
        plan = torch.from_numpy(course.points).to(self.place)[None]
        with torch.inference_mode():
            now, _ = read._progress({"plan": plan, "along": plan.new_tensor([at])})
            command = self.head.inverse(read.place, interpolated(plan, now[:, None] + 1)[:, 0], read.maze).clamp(-1, 1)
        return float(now[0]), command[0].float().cpu().numpy()

    def flattened(self) -> Route:
        """All Moments of a batch as rows."""
        lead = self.place.ndim - 1
        return self._each(lambda value: value.flatten(0, lead - 1))

    def _each(self, of: Callable[[Tensor], Tensor]) -> Route:
        read = of(self.thought), of(self.present), of(self.place), of(self.goal), of(self.maze)
        return Route(self.head, *read)

    def command(self) -> Tensor:
        """The command [B, 2] in -1..1 that leads to the plan's place one stride further on; 0 where there is no plan,
        or the agent's place or goal is unknown."""
        head = self.head
        aim = interpolated(self.after["plan"], self.after["along"][:, None] + 1)[:, 0]
        command = head.inverse(self.place, aim, self.maze).clamp(-1, 1)
        return torch.where((self.after["none"] | ~self.here)[:, None], 0.0, command)


def interpolated(plan: Tensor, at: Tensor) -> Tensor:
    """Points [B, K, 2] of plans [B, H, 2] at the fractional indices `at` [B, K]; beyond the end the last point."""
    at = at.clamp(0, plan.shape[1] - 1)
    low = at.floor().long().clamp_max(plan.shape[1] - 2)
    share = (at - low)[..., None]
    before, after = (plan.gather(1, index[..., None].expand(-1, -1, 2)) for index in (low, low + 1))
    return before + share * (after - before)
