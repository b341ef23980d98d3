"""Attempts at a stage: one that fails a gate is taught again, and the attempt that reached most is kept.

A repeat goes over all lessons at half their steps. It mends what was nearly learned, and can cost more than it mends:
after lessons that change what the agent perceives, its hands and its trunk have only half their steps to follow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from devmind.agent.agent import Agent
from devmind.agent.device import place
from devmind.curriculum.examining import Examined
from devmind.curriculum.untouched import Untouched


@dataclass(frozen=True)
class Outcome:
    """What exams found: of earlier stages before the lessons, and of all that was examined behind them.

    Attributes:
        untouched: what makes sure that the earlier stages' exams need not be sat again; None where they were.
        attempt: which attempt at the stage this is; 0 is the first.
    """

    before: Sequence[Examined] = ()
    examined: Sequence[Examined] = ()
    untouched: Untouched | None = None
    attempt: int = 0

    def reached(self, stage: str) -> tuple[bool, int]:
        """Whether all gates of `stage` were passed, and how many gates and goals were, of earlier stages too, since a
        repeat can cost these as well; the larger, the better.
        """
        passed = sum(decision.passed for item in self.examined for decision in item.verdict.decisions)
        return all(item.verdict.passed for item in self.examined if item.stage == stage), passed


def put_aside(agent: Agent, out: Path, attempt: int) -> None:
    """Save the agent as `attempt` left it in the run's folder, before it is taught on."""
    agent.save_pretrained(_folder(out, attempt))


def kept(
    agent: Agent, last: Outcome, stage: str, out: Path, device: str, examine: Callable[[Agent, int], Outcome]
) -> tuple[Agent, Outcome]:
    """The agent and the outcome of the attempt that reached most; of equal ones the later.

    Args:
        last: what `agent`, as the last attempt left it, was found to be.
        examine: the outcome of an attempt put aside; this run has examined it, so nothing is sat again.
    """
    best = agent, last
    for attempt in reversed(range(last.attempt)):
        if best[1].reached(stage)[0] or not _folder(out, attempt).is_dir():
            continue
        other = place(Agent.from_pretrained(_folder(out, attempt)), device)
        outcome = examine(other, attempt)
        if outcome.reached(stage) > best[1].reached(stage):
            best = other, outcome
    return best


def _folder(out: Path, attempt: int) -> Path:
    return out / "attempts" / str(attempt)
