"""Environment steps per second of the real motor lesson: rendering, sound, encoding, acting and updates.

The real learner runs each drill on a newborn agent, after a few updates to warm up, for some seconds; the parts are the
learner's own phases. The last line is for the lesson's whole cycle.

    python benchmarks/env_speed.py --seconds 10
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from devmind import worlds
from devmind.agent.agent import Agent
from devmind.agent.config import AgentConfig
from devmind.config import load
from devmind.curriculum.stage import Context
from devmind.learners.actor_critics import Arc
from devmind.learners.policy import PolicyLearner
from devmind.worlds.restarting import Restarting
from devmind.worlds.side_by_side import Joined
from stages.reflex import parts
from stages.reflex.lessons import DRILLS, MOTOR_CYCLE, motor_learner


class Clock:
    """Adds up the seconds spent in wrapped functions; time in an inner one does not count for the outer one."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._inner = [0.0]

    def wrap(self, owner: Any, name: str, label: str) -> None:
        """Count the time in `owner.name` as `label`."""
        function: Callable[..., Any] = getattr(owner, name)

        def timed(*args: Any, **kwargs: Any) -> Any:
            self._inner.append(0.0)
            begun = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                took = time.perf_counter() - begun
                own = took - self._inner.pop()
                self.seconds[label] = self.seconds.get(label, 0.0) + own
                self._inner[-1] += took

        setattr(owner, name, timed)


def make_learner() -> PolicyLearner:
    """The learner of the nursery size, outside of any trainer."""
    agent = Agent(AgentConfig(size="nursery"))
    parts.admit(agent)
    context = Context(load("nursery"), 0, "cpu", Path(tempfile.mkdtemp()), worlds.make)
    learner = motor_learner(agent, context)
    learner.steps = 1_000
    learner.begin(0)
    return learner


def measure(learner: PolicyLearner, clock: Clock, cycle: tuple[str, ...], seconds: float) -> tuple[float, float]:
    """(environment steps, seconds) of whole rounds of `cycle` that take at least `seconds`, after one warm-up round."""
    for name in cycle:
        learner.update({"drill": name}, 0)
    clock.seconds.clear()
    steps, begun = learner.env_steps, time.perf_counter()
    while time.perf_counter() - begun < seconds:
        for name in cycle:
            learner.update({"drill": name}, 0)
    return learner.env_steps - steps, time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10.0, help="seconds for each drill")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="intra-op threads of torch")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    learner, clock = make_learner(), Clock()
    for owner, name, label in (
        (learner, "update", "rest"),
        (learner, "_improve", "updates"),
        (learner, "_practise", "acting"),
        (Arc, "read", "encoding"),
        (Joined, "step", "worlds"),
        (Restarting, "step", "worlds"),
        (learner, "_made", "new worlds"),
    ):
        clock.wrap(owner, name, label)
    print(f"{options.threads} threads; environment steps per second, and shares of the time")
    nursery = tuple(name for name in MOTOR_CYCLE if DRILLS[name].world == "nursery")
    together = [("nursery drills", nursery), ("whole lesson", MOTOR_CYCLE)]
    for title, cycle in [(name, (name,)) for name in DRILLS] + together:
        steps, took = measure(learner, clock, cycle, options.seconds)
        shares = "  ".join(f"{label} {part / took:.0%}" for label, part in sorted(clock.seconds.items()))
        print(f"{title:15s} {steps / took:8.0f}   {shares}", flush=True)


if __name__ == "__main__":
    main()
