"""An agent imagines a way and follows it; a page shows the denoising as a film, the candidates, and the chosen one."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

import numpy as np
import torch
from torch import Tensor

from devmind.acting import Actor, rollout
from devmind.agent.agent import Agent
from devmind.agent.batch import collate_tick
from devmind.errors import ConfigError, MomentError
from devmind.worlds import make as make_world
from devmind.worlds.pointmaze import CELL, UNIT, Maze, PointMazeRules
from stages.planning import WORDS
from stages.planning.judge import draft
from stages.planning.parts import DRAFT, JUDGE, ROUTE, STRIDE, WALK
from stages.planning.places import unscale_places
from stages.planning.planner import Candidates, PlannerHead, Route
from stages.planning.route.trips import moves

PAGE = "plan.html"


@dataclass
class ImaginedTrip:
    """What was imagined and what came of it.

    Attributes:
        maze: the maze. start, goal: [2]; walked: [ticks + 1, 2], the path walked; all in OGBench's units.
        frames: for each denoising step the noised places [N, H, 2] and symbols int64 [N, L].
        found: the first plan's candidates, of one row. seconds: the time to draw them.
        plans: number of plans made on the way. arrived: whether the goal was reached.
        none: whether the agent said that there is no plan, as something has closed.
        verdict: the judge's sentence on the chosen plan; "" without a judge.
        words: given moves, by the number of their stride.
    """

    maze: Maze
    start: np.ndarray
    goal: np.ndarray
    frames: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)
    found: Any = None
    seconds: float = 0.0
    walked: np.ndarray = field(default_factory=lambda: np.zeros((0, 2)))
    plans: int = 0
    arrived: bool = False
    none: bool = False
    verdict: str = ""
    words: Mapping[int, int] = field(default_factory=dict)

    @property
    def given(self) -> list[tuple[int, int, int]]:
        """For each given move: the number of its stride, its symbol, and the symbol of what the chosen plan's points
        do there, by the cells that they lead through, whatever symbols the plan itself has."""
        made = self._made(int(self.found.chosen[0]))
        return [(at, word, int(made[at])) for at, word in sorted(self.words.items())]

    @property
    def kept(self) -> list[int]:
        """How many of the given moves each candidate's points make, by the same cells."""
        made = [self._made(number) for number in range(self.found.plans.shape[1])]
        return [sum(int(one[at]) == word for at, word in self.words.items()) for one in made]

    def _made(self, number: int) -> np.ndarray:
        """The symbols of what a candidate's points do."""
        return made_by(self.maze, self.found.plans[0, number].cpu().numpy())

    @property
    def moves(self) -> list[str]:
        """The chosen plan's moves, without strides that stay in their cell."""
        return [WORDS[word] for word in self.found.symbols[0, int(self.found.chosen[0])].tolist() if word]


def imagine_trip(
    agent: Agent,
    rules: PointMazeRules,
    start: np.ndarray,
    goal: np.ndarray,
    waypoints: Mapping[int, np.ndarray] | None = None,
    words: Mapping[int, int] | None = None,
    steps: int | None = None,
    horizon: int | None = None,
) -> ImaginedTrip:
    """Plan from `start` to `goal` [2], in OGBench's units, and follow the plan.

    Raises:
        ConfigError: a horizon or a waypoint beyond what was learned, a waypoint at an end of the plan, or more steps
            than noise levels.
        WorldError: start or goal is no place.
    """
    head: Any = agent.head(ROUTE)
    assert isinstance(head, PlannerHead)
    _refuse_unlearned(head, waypoints or {}, horizon)
    result = ImaginedTrip(rules.maze, start, goal, words=dict(words or {}))
    world = make_world("pointmaze", rules.level, [0])
    world.restore(rules.between(start[None], goal[None]))
    actor = Actor(agent, 1, effectors=[WALK])

    def watch(number: int, x: Tensor, clean: Tensor, symbols: Tensor) -> None:
        result.frames.append((unscale_places(x).cpu().numpy() * UNIT, symbols.cpu().numpy()))

    def going(senses: Mapping[str, Any], first: np.ndarray) -> dict[str, np.ndarray]:
        refuse_gaps(senses)
        output = actor.act(collate_tick(senses, first))
        route: Any = output.outputs[ROUTE]
        if first.all():
            given = {at: _tensor(place / UNIT, agent) for at, place in (waypoints or {}).items()}
            held = {at: torch.tensor([word], device=agent.device) for at, word in (words or {}).items()}
            began_s = time.perf_counter()
            result.found = head.search(route, given=given, words=held, watch=watch, steps=steps)
            result.seconds = time.perf_counter() - began_s
            _take(route, result.found, actor)
            result.verdict = _verdict_of_judge(agent, result.found, senses, rules.horizon)
        result.plans = int(route.carry["made"][0])
        result.none = bool(route.carry["none"][0])
        return {WALK: route.steer().cpu().numpy()}

    with torch.inference_mode():
        places = [start]
        for tick in rollout(going, world):
            places.append(world.truth()["at"][0])
            result.arrived = bool(tick.reward[0] > 0)
    result.walked = np.stack(places)
    return result


def _refuse_unlearned(head: PlannerHead, waypoints: Mapping[int, np.ndarray], horizon: int | None) -> None:
    """Refuse, before anything is planned, plans of another length, and points that are given otherwise.

    Raises:
        ConfigError: the horizon is not that of the agent's plans, or a waypoint is an end of a plan.
    """
    if horizon is not None and horizon != head.horizon:
        raise ConfigError(
            f"This agent learned plans of {head.horizon} points, {head.stride} ticks apart, no longer and no shorter "
            f"ones; got a horizon of {horizon}. The agent follows longer paths by planning again."
        )
    last = head.horizon - 1
    if {0, last} & set(waypoints):
        raise ConfigError(
            f"Points 0 and {last} of a plan are its start and its goal, which --start and --goal give; waypoints are "
            f"points 1 to {last - 1}."
        )


def refuse_gaps(senses: Mapping[str, Any]) -> None:
    """Refuse senses that hold no number: nothing is planned from what is not known.

    Raises:
        MomentError: a sense holds NaN or infinity.
    """
    for sense, value in senses.items():
        if not np.isfinite(value).all():
            raise MomentError(f"The sense '{sense}' holds NaN or infinity; a plan needs numbers. Mend the sensor.")


def made_by(where: Maze, points: np.ndarray) -> np.ndarray:
    """The symbols int64 [H] of what points [H, 2] of a plan do in each stride, straight from one to the next, named as
    trips are (`trips.moves`)."""
    share = np.arange(STRIDE)[:, None] / STRIDE
    ticks = (points[:-1, None] + share * (points[1:] - points[:-1])[:, None]).reshape(-1, 2)
    return moves(where.cells(np.concatenate((ticks, points[-1:])) * UNIT), len(points))


def _tensor(place: np.ndarray, agent: Agent) -> Tensor:
    return torch.from_numpy(place[None].astype(np.float32)).to(agent.device)


def _take(route: Route, found: Candidates, actor: Actor) -> None:
    """Let the row follow the found plan in place of its own."""
    chosen = int(found.chosen[0])
    route.carry = {**route.carry, "plan": found.plans[:, chosen], "symbols": found.symbols[:, chosen]}
    route.carry["told"] = route.steer()
    actor.state.carry[f"head.{ROUTE}"] = route.carry


def _verdict_of_judge(agent: Agent, found: Candidates, senses: Mapping[str, Any], ticks: int) -> str:
    """What the judge says of the chosen plan, and how many candidates are sound by the judge; "" without a judge."""
    if JUDGE not in agent.heads:
        return ""
    plans = zip(found.plans[0].cpu().numpy(), found.symbols[0].cpu().numpy(), strict=True)
    drafts = np.stack([draft(points, words, senses["goal"][0], senses["maze"][0], ticks) for points, words in plans])
    judged: Any = agent.evaluate({DRAFT: torch.from_numpy(drafts)}, [JUDGE])[JUDGE]
    holding = int((judged.mode() == 0).sum())
    summary = f"{holding} of {len(drafts)} candidates are sound" if holding else "it found no sound plan"
    return f"{judged.verdict(int(found.chosen[0]))}; {summary}"


def page(result: ImaginedTrip) -> str:
    """The whole page, which loads nothing from anywhere."""
    found, maze = result.found, result.maze
    plans = found.plans[0].cpu().numpy() * UNIT
    outcome = f"It arrived after {len(result.walked) - 1} ticks" if result.arrived else "It did not arrive"
    judged = f"The chosen plan is {result.verdict}. " if result.verdict else ""
    data = {
        "cell": CELL,
        "walls": maze.walls.astype(int).tolist(),
        "start": result.start.tolist(),
        "goal": result.goal.tolist(),
        "words": list(WORDS),
        "frames": [{"places": x.round(2).tolist(), "symbols": words.tolist()} for x, words in result.frames],
        "plans": plans.round(2).tolist(),
        "symbols": found.symbols[0].tolist(),
        "marks": [round(float(mark), 2) for mark in found.marks[0]],
        "chosen": int(found.chosen[0]),
        "walked": result.walked.round(2).tolist(),
        "box": [-1.5 * CELL, -1.5 * CELL, maze.walls.shape[1] * CELL, maze.walls.shape[0] * CELL],
        "unit": 1,
        "discs": [],
        "silent": 0,
        "marked": "mark: log probability that it can be walked, less its length",
        "came": f"{judged}{outcome}; {result.plans} plan{' was' if result.plans == 1 else 's were'} made on the way.",
        "given": [{"stride": at, "word": word, "made": made} for at, word, made in result.given],
        "kept": result.kept if result.words else [],
    }
    return fill_page(data)


def fill_page(data: Mapping[str, Any]) -> str:
    """The page filled with its data."""
    text = files("stages.planning").joinpath(PAGE).read_text(encoding="utf-8")
    return text.replace("__DATA__", json.dumps(data).replace("<", "\\u003c"))
