"""A walk on a page: an agent lives in a maze, tick by tick, and the page draws the plan that it follows.

The agent is an Actor and the plan is read from its state, so the page draws what the agent follows. A new goal, clicked
or typed, begins a new walk from where the agent is.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from importlib import metadata
from importlib.resources import files
from typing import Any

import numpy as np
import torch

from devmind.acting import Actor
from devmind.agent.agent import Agent
from devmind.cli.serving import Publisher
from devmind.errors import ConfigError, MomentError, bind_command
from devmind.worlds.pointmaze import CELL, MAX_TICKS, UNIT, PointMazeRules, Walk
from stages.planning import WORDS
from stages.planning.film import refuse_gaps
from stages.planning.judge import draft
from stages.planning.parts import DRAFT, JUDGE, ROUTE, WALK

HZ = 20.0
"""Ticks a second."""
TRAIL_EVERY = 5
"""Ticks between two shown points of the path walked."""
IDLE_S = 0.05


def page_files() -> dict[str, bytes]:
    """The page's files by name, beside devmind's own styles and scripts."""
    return {item.name: item.read_bytes() for item in (files("stages.planning") / "page").iterdir()}


class MazePage:
    """Takes a life's place for the page's server; `run` walks in the thread that calls it.

    Args:
        agent: has the head `route`.
        start, goal: [2], in OGBench's units.
        publisher: gets a view each tick.
        command: the command that the page names for starting it again.

    Attributes:
        is_met: whether a page has been opened.

    Raises:
        WorldError: start or goal is no place.
    """

    mailboxes: tuple[Any, ...] = ()

    def __init__(
        self,
        agent: Agent,
        rules: PointMazeRules,
        start: np.ndarray,
        goal: np.ndarray,
        publisher: Publisher,
        command: str = "devmind plan",
    ) -> None:
        self.agent, self.rules, self.publisher, self.command = agent, rules, publisher, command
        self.actor = Actor(agent, 1, effectors=[WALK])
        self.paused = self._stale = False
        self.is_met = False
        self._lock = threading.Lock()  # around what commands leave for the next tick
        self._wanted: Walk | None = None
        self._known: dict[str, Callable[..., None]] = {"goal": self._goal, "task": self._task, "pause": self._pause}
        self.walk, self._first = rules.between(start[None], goal[None]), True
        self.trail, self.plans, self.verdict, self.ended = [self._place], 0, "", ""
        self.plan: Mapping[str, torch.Tensor] = {}
        self._show()

    def welcome(self) -> dict[str, Any]:
        """What a page gets first: the maze, its tasks, and the state of the walk."""
        self.is_met, maze = True, self.rules.maze
        start = {
            "type": "welcome", "version": metadata.version("devmind"), "command": self.command, "cell": CELL,
            "maze": self.rules.maze_name, "walls": maze.walls.astype(int).tolist(), "tasks": len(maze.tasks),
        }  # fmt: skip
        return {**self.view, **start}

    def do(self, command: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Go to another `goal` (x, y) from here, begin a `task` (a number from 1), `pause` (on).

        Raises:
            DevmindError: what cannot be done, as a sentence.
        """
        bind_command(command, arguments, self._known)()
        return {}

    def run(self, seconds: float | None = None, hz: float = HZ) -> None:
        """Walk tick by tick for so many seconds; None: for ever.

        The first page that is opened begins the walk. An agent that has arrived waits for another goal.
        """
        until_s = float("inf") if seconds is None else time.monotonic() + seconds
        while (begun_s := time.monotonic()) < until_s:
            went = self.is_met and self.tick()
            time.sleep(max(0.0, begun_s + (1 / hz if went else IDLE_S) - time.monotonic()))

    def tick(self) -> bool:
        """One tick; False where there was nothing to do."""
        with self._lock:
            wanted, self._wanted = self._wanted, None
        if wanted is not None:
            self._begin(wanted)
        if self.paused or self.ended:
            if wanted is not None or self._stale:
                self._stale = False
                self._show()
            return False
        with torch.inference_mode():
            senses = self.rules.observe(self.walk)
            try:
                refuse_gaps(senses)
            except MomentError as error:
                self.ended = str(error)
                self._show()
                return True
            action = self.actor(senses, np.array([self._first]))
            self.plan = self.actor.state.carry[f"head.{ROUTE}"]
            self._first = False
            if (made := int(self.plan["made"][0])) != self.plans:
                self.plans = made
                self.verdict = self._verdict(senses)
        self.walk = self.rules.step(self.walk, action)
        if int(self.walk.tick[0]) % TRAIL_EVERY == 0:
            self.trail.append(self._place)
        outcome = self.rules.outcome(self.walk)
        ticks = int(self.walk.tick[0])
        if outcome.terminal[0]:
            self.ended = f"It arrived after {ticks} ticks and {self._counted()}."
        elif outcome.truncated[0]:
            self.ended = f"It did not arrive within {MAX_TICKS:,} ticks, with {self._counted()}."
        if self.ended:
            self.trail.append(self._place)
        self._show()
        return True

    def _begin(self, walk: Walk) -> None:
        """A new walk, and an agent that remembers nothing of the one before."""
        self.walk, self._first = walk, True
        self.trail, self.plans, self.verdict, self.ended = [self._place], 0, "", ""
        self.plan = {}

    @property
    def _place(self) -> list[float]:
        return [round(float(number), 2) for number in self.walk.at[0]]

    def _counted(self) -> str:
        return "one plan" if self.plans == 1 else f"{self.plans} plans"

    def _verdict(self, senses: Mapping[str, np.ndarray]) -> str:
        """What the judge of plans says of the new plan; '' without a judge."""
        if JUDGE not in self.agent.heads:
            return ""
        points, words = (self.plan[name][0].cpu().numpy() for name in ("plan", "symbols"))
        shown = draft(points, words, senses["goal"][0], senses["maze"][0], self.rules.horizon)
        judged: Any = self.agent.evaluate({DRAFT: torch.from_numpy(shown[None])}, [JUDGE])[JUDGE]
        return str(judged.verdict(0))

    def _goal(self, x: float, y: float) -> None:
        for number in (x, y):
            if type(number) not in (int, float):
                raise ConfigError(f"A goal is two numbers x and y in OGBench's units; got {number!s:.20}.")
        # From where the agent is when this runs, not when the page was clicked: a tick is 0.2 units.
        with self._lock:
            at = self.walk.at if self._wanted is None else self._wanted.at
            self._wanted = self.rules.between(at, np.array([[float(x), float(y)]]))

    def _task(self, number: int) -> None:
        maze = self.rules.maze
        if type(number) is not int or not 1 <= number <= len(maze.tasks):
            raise ConfigError(f"A task is one of 1 to {len(maze.tasks)}; got {number!s:.20}.")
        start, goal = (maze.centres(np.array([cell])) for cell in maze.tasks[number - 1])
        with self._lock:
            self._wanted = self.rules.between(start, goal)

    def _pause(self, on: bool) -> None:
        if type(on) is not bool:
            raise ConfigError(f"'pause' is on or off, true or false; got {on!s:.20}.")
        self.paused, self._stale = on, True

    def _show(self) -> None:
        """Publish the state of the walk as a new view, since pages may still read the old one."""
        points: list[list[float]] = []
        words: list[str] = []
        age, along = 0, 0.0
        if self.plan:
            points = [[round(x, 2) for x in point] for point in (self.plan["plan"][0] * UNIT).tolist()]
            words = [WORDS[word] for word in self.plan["symbols"][0].tolist() if word]
            age, along = int(self.plan["age"][0]), float(self.plan["along"][0])
        head: Any = self.agent.head(ROUTE)
        self.view = {
            "type": "tick", "at": self._place, "goal": [round(float(number), 2) for number in self.walk.goal[0]],
            "trail": [*self.trail, self._place], "plan": points, "words": words,
            "stride": along, "age": age, "follow": head.follow, "plans": self.plans,
            "verdict": self.verdict,
            "tick": int(self.walk.tick[0]), "paused": self.paused, "ended": self.ended,
        }  # fmt: skip
        self.publisher.publish(self.view)
