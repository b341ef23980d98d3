"""The live loop: the room's Moment, the agent's step, the Action back to the room, both to the session. One fixed tick.

The room decides when a tick is; the loop only works and measures. What it does besides stepping must be quick or give
up: a recording flushes within half a second, and whoever watches gets a `Tick` and must not keep the loop waiting.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from gymnasium import spaces

from devmind.agent.acting import StepOutput
from devmind.agent.agent import Agent, Percepts
from devmind.agent.ring import State
from devmind.agent.threads import stepping_threads
from devmind.moment import Action, Moment
from devmind.sessions.recorder import Recorder
from devmind.worlds.room import Room


@dataclass(frozen=True)
class Tick:
    """One tick as it went.

    Attributes:
        moment, action: what was sensed and done.
        percepts, output: how the agent took it.
        state: the agent's, after the step; the next step changes it.
        skipped: ticks the loop came too late for before this one.
        work_s: seconds that encoding and stepping took.
    """

    moment: Moment
    action: Action
    percepts: Percepts
    output: StepOutput
    state: State
    skipped: int
    work_s: float


@dataclass
class LiveSummary:
    """What a stretch of life was like.

    Attributes:
        ticks: Moments lived; skipped: ticks the loop came too late for; missing: by sensor's sense, Moments without it.
        work_s: seconds of work in each tick, waiting left out.
        answered: by effector and head, how many ticks it decided.
    """

    ticks: int = 0
    skipped: int = 0
    missing: dict[str, int] = field(default_factory=dict)
    work_s: list[float] = field(default_factory=list)
    answered: dict[str, dict[str, int]] = field(default_factory=dict)

    def work_ms(self, quantile: float) -> float:
        """A quantile of the ticks' work in milliseconds; nan before the first."""
        return 1e3 * float(np.quantile(self.work_s, quantile)) if self.work_s else float("nan")


class LiveLoop:
    """One agent in one room.

    Args:
        effectors: which the agent answers for.
        recorder: gets every (Moment, Action), and the weights' hash first.
        watch: called with every tick; what it raises ends the loop.
    """

    def __init__(
        self,
        agent: Agent,
        room: Room,
        effectors: Sequence[str] = ("look",),
        recorder: Recorder | None = None,
        watch: Callable[[Tick], None] | None = None,
    ) -> None:
        self.agent, self.room, self.recorder, self.watch = agent, room, recorder, watch
        self.summary = LiveSummary()
        self.effectors = [name for name in effectors if name in agent.effectors]

    def run(self, seconds: float | None = None, stop: Callable[[], bool] = lambda: False) -> LiveSummary:
        """Live for so many seconds of the room's time (for ever by default) or until `stop()`."""
        self.summary = summary = LiveSummary()
        state = self.agent.new_state()
        if self.recorder:
            self.recorder.note("weights", {"agent_sha256": self.agent.sha256()})
        with stepping_threads():
            self._warm_up()
            senses, info = self.room.reset()
            while True:
                begun_s = time.perf_counter()
                moment = Moment(info["time_s"], senses, first=summary.ticks == 0)
                percepts = self.agent.encode(state, moment)
                state, output = self.agent.step(state, percepts, effectors=self.effectors)
                work_s = time.perf_counter() - begun_s
                self._keep(Tick(moment, output.to_action(), percepts, output, state, info["skipped"], work_s))
                if stop() or (seconds is not None and info["time_s"] >= seconds):
                    break
                senses, _, _, _, info = self.room.step(output.to_action().effectors)
        return summary

    def _warm_up(self) -> None:
        """A step nobody sees: what is loaded and allocated at the first one would cost the first seconds."""
        space = self.room.observation_space
        assert isinstance(space, spaces.Dict)
        arrays = {name: np.zeros(part.shape, part.dtype) for name, part in space.items() if part.shape is not None}
        moment = Moment(0.0, {name: value for name, value in arrays.items() if name != "words"}, first=True)
        state = self.agent.new_state()
        self.agent.step(state, self.agent.encode(state, moment), effectors=self.effectors)

    def _keep(self, tick: Tick) -> None:
        summary, health = self.summary, self.room.health
        summary.ticks, summary.skipped, summary.missing = summary.ticks + 1, health.skipped, dict(health.missing)
        summary.work_s.append(tick.work_s)
        for effector, heads in tick.output.answered.items():
            counts = summary.answered.setdefault(effector, {})
            for head, count in heads.items():
                counts[head] = counts.get(head, 0) + count
        if self.recorder:
            self.recorder.write(tick.moment, tick.action)
        if self.watch:
            self.watch(tick)
