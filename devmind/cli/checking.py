"""`devmind session replay --check`: does the agent do what was recorded?"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from devmind.cli import show
from devmind.cli.house import complain
from devmind.cli.memory_files import opened_or_made
from devmind.cli.paths import existing

if TYPE_CHECKING:
    from devmind.agent.agent import Agent
    from devmind.live.checking import Check, Remembered


def check_life(session: Path, agent: Path | None, memory: str | None) -> None:
    """Check all parts of a recording and print the result; exits with 1 unless every action was equal."""
    show.print_loading()
    from devmind.live.checking import check_replay
    from devmind.sessions.parts import parts

    with ExitStack() as stack:
        check = check_replay(parts(session), _agents(agent), _memories(memory, stack))
    checked = f"{check.checked:,} of {show.count_of(check.ticks, 'tick')} checked"
    show.line(f"{checked}, {show.count_of(check.hand_overs, 'hand-over')} of weights, {_outcome(check)}")
    if check.directed:
        show.line(f"movements by procedures in {show.count_of(check.directed, 'tick')} are taken from the recording")
    for refused in check.refused:
        complain(f"Refused, {refused}.")
    if check.first_difference:
        complain(f"First difference at {check.first_difference}.")
        complain(
            "Equal bits need the same agent, the same versions of torch and devmind, and the same kind of processor."
        )
    if not check.passed:
        raise typer.Exit(1)


def _outcome(check: Check) -> str:
    if check.different:
        return f"{check.different:,} not as recorded"
    return "all as recorded" if check.passed else "none of them different"


def _agents(given: Path | None) -> dict[str, Agent]:
    """The given agent, else the newest milestone, if there is one, and the newborn."""
    from devmind.agent.agent import Agent
    from devmind.checkpointing.milestones import newest_milestone
    from devmind.cli.agents import RUNS
    from devmind.raised import FOLDER

    folders = [given] if given else [FOLDER, newest_milestone(RUNS, ())]
    agents = [Agent.from_pretrained(folder) for folder in folders if folder is not None]
    return {agent.sha256(): agent for agent in agents}


def _memories(place: str | None, stack: ExitStack) -> Remembered:
    if place is None:
        return lambda _: None
    from devmind.acting.recall import payload
    from devmind.memory import folder_of

    existing(folder_of(place), "--memory")
    memory = stack.enter_context(opened_or_made(place))

    def remembered(number: int) -> object:
        found = memory.get([number])
        return payload(found[0]) if found else None

    return remembered  # type: ignore[return-value]
