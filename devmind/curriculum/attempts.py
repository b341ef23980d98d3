"""Attempts at a stage: a stage that fails a gate is taught again, and the best attempt is kept.

A repeat teaches all lessons with half their steps. It helps where little was missing, but it can also do harm: after
lessons that change what the agent perceives, its effectors and its trunk have only half their steps to adapt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from devmind.agent.agent import Agent
from devmind.agent.device import place
from devmind.curriculum.examining import Examined
from devmind.report.results import Untouched


@dataclass(frozen=True)
class Outcome:
    """Results of exams: those of earlier stages before the lessons, and all exams after them.

    Attributes:
        untouched: evidence that earlier stages' exams need not be held again; None if they were held.
        attempt: which attempt at the stage this is; 0 is the first.
    """

    before: Sequence[Examined] = ()
    examined: Sequence[Examined] = ()
    untouched: Untouched | None = None
    attempt: int = 0

    def reached(self, stage: str) -> tuple[bool, int]:
        """Whether all gates of `stage` were passed, and the number of passed gates and goals; larger is better.

        The number includes earlier stages, because a repeat can harm these as well.
        """
        passed = sum(decision.passed for item in self.examined for decision in item.verdict.decisions)
        return all(item.verdict.passed for item in self.examined if item.stage == stage), passed


def put_aside(agent: Agent, out: Path, attempt: int) -> None:
    """Save the agent after `attempt` in the run's folder `out`, before it is taught again."""
    agent.save_pretrained(_folder(out, attempt))


def kept(
    agent: Agent, last: Outcome, stage: str, out: Path, device: str, examine: Callable[[Agent, int], Outcome]
) -> tuple[Agent, Outcome]:
    """The agent and the outcome of the best attempt; of equal attempts the later one.

    Args:
        last: the outcome of the last attempt, which made `agent`.
        examine: gives the outcome of an earlier attempt; this run has examined it, so no exam is held again.
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
