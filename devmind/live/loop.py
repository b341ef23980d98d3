"""The live loop: the room's Moment, the agent's step, the Action back to the room, both to the session. One fixed tick.

The room decides when a tick is; the loop only works and measures. Everything else in the loop must be quick or give up:
watchers get a `Tick` and must not delay the loop. Other threads make changes between two ticks, by `calls`.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
from gymnasium import spaces

from devmind.acting import Actor
from devmind.acting.abilities import Tick
from devmind.acting.in_life import EFFECTORS
from devmind.acting.standing import Standing, answering, standing
from devmind.agent.agent import Agent, StepOutput
from devmind.agent.encoders import Encoded
from devmind.agent.taps import Percepts
from devmind.agent.threads import stepping_threads
from devmind.live.call_queue import CallQueue
from devmind.moment import Action, Moment, Sense
from devmind.worlds.room import Room

DIRECTED = "directed"
"""In place of a head's name: a director moved this effector."""
MEASURED_TICKS = 36_000
"""An hour at ten ticks a second: a life of weeks must not fill the RAM with its own measurements."""
PACE_S, SAY_EVERY_S = 10.0, 1.0
"""The pace is measured over so many seconds, and said anew so often."""
WAKING_TICKS = 2
"""What was left out before these is no sign: the first step compiles and allocates."""
SLOW_FROM, SLOW_UNTIL = 1 / 3, 1 / 5
"""Share of Moments left out above which a life is slow, and to which it has to fall until it no longer is."""


@dataclass
class LiveSummary:
    """Statistics of a stretch of life.

    Attributes:
        ticks: Moments lived; skipped: ticks missed because the loop was late; missing: by sensor's sense, Moments
            without it.
        late: skipped ticks by what took too long ("agent", "calls", a watcher's name, "the sensor of SENSE");
            "elsewhere" is outside the loop: a busy machine.
        work_s: seconds for encoding and stepping in each of the last hour's ticks; busy_s: for all work of the loop.
    """

    ticks: int = 0
    skipped: int = 0
    late: Counter[str] = field(default_factory=Counter)
    missing: dict[str, int] = field(default_factory=dict)
    work_s: deque[float] = field(default_factory=lambda: deque(maxlen=MEASURED_TICKS))
    busy_s: deque[float] = field(default_factory=lambda: deque(maxlen=MEASURED_TICKS))

    def work_ms(self, quantile: float) -> float:
        """A quantile of the ticks' encoding and stepping in milliseconds; nan before the first."""
        return 1e3 * float(np.quantile(self.work_s, quantile)) if self.work_s else float("nan")


class Pace:
    """Moments a second over the last ten seconds of the room's time, and whether too many were left out.

    Attributes:
        says: while a third of them or more were left out, a sentence for people; '' while it keeps up.
        rate_hz: Moments a second; nan before the first ten seconds have passed.
    """

    def __init__(self) -> None:
        self.says, self.rate_hz = "", float("nan")
        self._ticks: deque[tuple[float, int, str]] = deque()
        self._seen, self._skipped, self._said_s = 0, 0, -np.inf
        self._is_slow, self._is_full = False, False

    def see(self, time_s: float, skipped: int, waited_for: str) -> None:
        """Take a tick: its time, the ticks left out just before it, and the sense that was waited for, or ''."""
        self._seen += 1
        if self._seen <= WAKING_TICKS:
            return
        self._ticks.append((time_s, skipped, waited_for))
        self._skipped += skipped
        while time_s - self._ticks[0][0] >= PACE_S:
            self._skipped -= self._ticks.popleft()[1]
            self._is_full = True
        if not self._is_full:
            return
        share = self._skipped / (self._skipped + len(self._ticks))
        was_slow, self._is_slow = self._is_slow, share > (SLOW_UNTIL if self._is_slow else SLOW_FROM)
        if self._is_slow != was_slow or time_s - self._said_s >= SAY_EVERY_S:
            self.rate_hz, self._said_s = len(self._ticks) / PACE_S, time_s
            self.says = self._sentence() if self._is_slow else ""

    def _sentence(self) -> str:
        rate = f"{self.rate_hz:.1f}".removesuffix(".0") if self.rate_hz < 3 else f"{self.rate_hz:.0f}"
        lives = f"it lives at {rate} {'Moment' if rate == '1' else 'Moments'} a second"
        waits: Counter[str] = Counter()
        for _, skipped, sense in self._ticks:
            waits[sense] += skipped
        sense = max(waits, key=lambda name: waits[name])
        if sense:
            return f"The sensor of {sense} answers slowly: {lives}."
        return f"This computer is busy: {lives}. Close other programs."


class LiveLoop:
    """One agent in one room. `agent`, `standing`, `paused` and `afresh` may be changed between ticks, by calls.

    Args:
        effectors: those that the agent answers for, if it has them; by default EFFECTORS and those of the room.
        recalled: gives recalled tokens for the step, from `Agent.encode_recalled`; must be quick.
        directed: gives actions that replace the heads' answers, by effector; must be quick.
        hears_itself: whether the ears now hear the agent's own voice: such a Moment has no sound.
        results: of the agent's exams (`results.json`): they decide which heads may act here.
        answers: by effector the heads that may act here all the same, in order (`answering`).
        watchers: called with every tick, in order; an exception of one ends the loop. Their names are those of `late`.

    Attributes:
        paused: the room goes on, but the agent neither senses nor acts.
        afresh: the next Moment is a first one, as after another agent has taken over.
        heads: further heads of the agent whose outputs are wanted, in ticks in which they have something to read.
        pace: whether this machine keeps up.
    """

    def __init__(
        self,
        agent: Agent,
        room: Room,
        effectors: Sequence[str] | None = None,
        watchers: Mapping[str, Callable[[Tick], None]] | None = None,
        recalled: Callable[[Moment], Encoded | None] = lambda _: None,
        results: Mapping[str, Any] | None = None,
        answers: Standing = MappingProxyType({}),
        directed: Callable[[Moment, StepOutput, Percepts], Mapping[str, np.ndarray]] | None = None,
        hears_itself: Callable[[], bool] = lambda: False,
    ) -> None:
        self.agent, self.room, self.watchers = agent, room, dict(watchers or {})
        self.summary, self.calls, self.pace = LiveSummary(), CallQueue(), Pace()
        self.paused, self.afresh, self.recalled, self.directed = False, True, recalled, directed
        self.hears_itself = hears_itself
        self.heads: tuple[str, ...] = ()
        moved = room.action_space.spaces if isinstance(room.action_space, spaces.Dict) else ()
        self.wanted = tuple(dict.fromkeys((*EFFECTORS, *moved))) if effectors is None else tuple(effectors)
        self.standing: Standing = standing(agent, results) | answering(agent, answers)

    @property
    def effectors(self) -> list[str]:
        """The effectors that the present agent answers for."""
        return [name for name in self.wanted if name in self.agent.effectors]

    def unanswered(self) -> dict[str, list[str]]:
        """The room's effectors that no head may answer for here, each with the heads that `answers` could name."""
        space = self.room.action_space
        moved = [name for name in (space.spaces if isinstance(space, spaces.Dict) else ()) if name in self.effectors]
        could = {name: self.agent.heads_of(name, standby=True) for name in moved if not self.standing.get(name)}
        return {name: heads for name, heads in could.items() if heads}

    def run(self, seconds: float | None = None, stop: Callable[[], bool] = lambda: False) -> LiveSummary:
        """Live for so many seconds of the room's time (for ever by default) or until `stop()`."""
        self.summary, self.pace, self.afresh = LiveSummary(), Pace(), True
        try:
            with stepping_threads():
                self.warm_up()
                for _ in self.ticks(seconds, stop):
                    pass
        finally:
            self.calls.close()
        return self.summary

    def ticks(self, seconds: float | None = None, stop: Callable[[], bool] = lambda: False) -> Iterator[Tick | None]:
        """Live tick by tick, for a caller that drives the room's clock; None is a paused tick. `run` is this."""
        (senses, info), reward = self.room.reset(), 0.0
        actor = Actor(self.agent)
        spent: dict[str, float] = {}
        while True:
            if info["skipped"]:
                self._late(info["skipped"], spent, info["waited_for"])
            self.pace.see(info["time_s"], info["skipped"], info["waited_for"])
            watch = _StopWatch()
            look: Mapping[str, Any] = {}
            tick: Tick | None = None
            if not self.paused:
                actor.agent, actor.effectors, actor.standing = self.agent, tuple(self.effectors), self.standing
                if self.afresh:
                    actor.reset()
                moment = Moment(info["time_s"], self._others(senses), reward, first=self.afresh)
                self.afresh = False
                percepts = actor.encode(moment)
                actor.heads = self._readable(percepts)
                output = actor.step(percepts, self.recalled(moment))
                done = self._done(moment, output, percepts)
                tick = Tick(moment, done, percepts, output, actor.state, info["skipped"], watch.lap("agent"))
                look = tick.action.effectors
                self._keep(tick, watch)
            self.calls.run()
            watch.lap("calls")
            spent = watch.laps
            self.summary.busy_s.append(sum(spent.values()))
            yield tick
            if stop() or (seconds is not None and info["time_s"] >= seconds):
                break
            senses, reward, _, _, info = self.room.step(look)
            self.afresh = self.afresh or info.get("first", False)

    def _readable(self, percepts: Percepts) -> tuple[str, ...]:
        """Of `heads`, those that have something to read in this tick."""
        there = [name for name in self.heads if name in self.agent.heads]
        return tuple(name for name in there if self.agent.tap_of(name).can_read(percepts.encoded))

    def _others(self, senses: Mapping[str, Sense]) -> dict[str, Sense]:
        """The senses without the agent's own voice: other sound cannot be told apart from it, so nothing is heard."""
        deaf = self.hears_itself()
        return {name: value for name, value in senses.items() if not (deaf and name == "sound")}

    def _done(self, moment: Moment, output: StepOutput, percepts: Percepts) -> Action:
        """The heads' answers, with the director's actions in their place."""
        done = output.to_action()
        orders = self.directed(moment, output, percepts) if self.directed else {}
        output.answered |= {effector: {DIRECTED: 1} for effector in orders}
        return Action({**done.effectors, **orders}) if orders else done

    def warm_up(self) -> None:
        """Take an unseen step: loading and allocating in the first real one would cost the first seconds."""
        space = self.room.observation_space
        assert isinstance(space, spaces.Dict)
        arrays = {name: np.zeros(part.shape, part.dtype) for name, part in space.items() if part.shape is not None}
        moment = Moment(0.0, {name: value for name, value in arrays.items() if name != "words"}, first=True)
        Actor(self.agent, effectors=self.effectors).act(moment)

    def _keep(self, tick: Tick, watch: _StopWatch) -> None:
        summary, health = self.summary, self.room.health
        summary.ticks, summary.skipped, summary.missing = summary.ticks + 1, health.skipped, dict(health.missing)
        summary.work_s.append(tick.work_s)
        for name, watcher in self.watchers.items():
            watcher(tick)
            watch.lap(name)

    def _late(self, ticks: int, spent: Mapping[str, float], waited_for: str) -> None:
        """Count skipped ticks for a sensor that was waited for, else for whatever took longest, unless all of the
        loop's work fits the tick.
        """
        slow = sum(spent.values()) > self.room.dt_s - self.room.lag_s
        longest = max(spent, key=lambda name: spent[name]) if slow else "elsewhere"
        self.summary.late[f"the sensor of {waited_for}" if waited_for else longest] += ticks


class _StopWatch:
    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._since_s = time.perf_counter()

    def lap(self, name: str) -> float:
        """Seconds since the last lap, stored under `name`."""
        now_s = time.perf_counter()
        self.laps[name] = now_s - self._since_s
        self._since_s = now_s
        return self.laps[name]
