"""`devmind memory sleep`: replays memories into the weights; known memories may then be deleted."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Annotated

import typer

from devmind.cli import show
from devmind.cli.agents import RUNS, agent_folder, packed_through
from devmind.cli.memory_files import describing, open_memory_at, refuse_missing
from devmind.cli.options import MemoryOption, agent_option
from devmind.cli.settings import check_minutes, resumable, uncut

OUT = "checkpoints/sleep"


def sleep(
    ctx: typer.Context,
    agent: Annotated[
        Path | None,
        agent_option("Saved agent; else the newest milestone in ./checkpoints, else one that has been through memory."),
    ] = None,
    memory: MemoryOption = "memory",
    minutes: Annotated[
        float | None,
        typer.Option("--minutes", metavar="M", help="About how long here; by default a fixed number of steps."),
    ] = None,
    prune: Annotated[
        bool, typer.Option("--prune/--keep", help="Delete memories that the weights know now, but never names.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help=f"Folder for the night and the new agent; by default {OUT}-N."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, metavar="N", help="Root of the night's random numbers.")] = 0,
    cut: Annotated[bool, typer.Option("--cut", help="End the stopped night with what it has learned.")] = False,
) -> None:
    """Replay memories into the weights of a copy of the agent, which then knows them without the memory."""
    check_minutes(minutes)
    refuse_missing(memory)
    show.print_loading()
    from devmind.curriculum.night import is_over, night, sleeper

    out = out or next(path for n in count(1) if not is_over(path := Path(f"{OUT}-{n}" if n > 1 else OUT)))
    folder = agent or sleeper(out) or _newest()
    from devmind.agent.agent import Agent
    from devmind.learners.replay import candidates
    from devmind.learners.sleeping import heads_to_sleep

    raised = Agent.from_pretrained(folder)
    heads_to_sleep(raised)  # an agent that cannot sleep is refused before the memory gets keys of its encoders
    with open_memory_at(memory) as mind, resumable(uncut(ctx.obj), "the night ends with what it has learned"):
        candidates(mind, 1, raised.sense_order, ())  # and so is an empty memory
        describing(raised, mind)
        done = night(raised, folder, mind, out, minutes=minutes, cut=cut, prune_known=prune, seed=seed)
    slept = done.slept
    what = show.memories(slept.asked)
    shorter = "" if slept.status == "done" else "; it was cut"
    show.line(f"slept on {what}: {slept.steps} steps in {slept.seconds:.0f} s{shorter}")
    show.line(f"answered without the memory as with it: {slept.before:.0%} before, {slept.after:.0%} now")
    show.line(f"known on every view as the memory has it: {len(slept.known):,}; deleted: {len(done.pruned):,}")
    show.path("agent", done.agent)


def _newest() -> Path:
    """The newest milestone, else the packaged agent that can sleep; the newborn cannot."""
    from devmind.checkpointing.milestones import newest_milestone

    return newest_milestone(RUNS, ()) or packed_through("memory") or agent_folder(None)
