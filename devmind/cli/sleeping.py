"""Nights: `devmind memory sleep` replays memories into the weights, `devmind sleep --whole` lessons of all stages."""

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
from devmind.errors import ConfigError

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


def sleep_whole(
    ctx: typer.Context,
    agent: Annotated[
        Path, typer.Argument(metavar="AGENT", help="Folder of the agent, or the name of one that comes along.")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for the night and the new agent.")],
    whole: Annotated[
        bool, typer.Option("--whole", help="Go over the lessons of all stages; over memories: devmind memory sleep.")
    ] = False,
    steps: Annotated[
        int | None,
        typer.Option("--steps", min=1, metavar="N", help="Steps of the night; by default those of the size."),
    ] = None,
    width: Annotated[
        int | None, typer.Option("--width", min=1, metavar="W", help="Of the trunk; by default twice the agent's.")
    ] = None,
    layers: Annotated[int | None, typer.Option("--layers", min=1, metavar="L", help="Of the trunk.")] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, metavar="N", help="Root of the night's random numbers.")] = 0,
    twin: Annotated[
        bool, typer.Option("--twin", help="The control: the trunk's layers pass everything through, and learn nothing.")
    ] = False,
    without: Annotated[
        list[str] | None,
        typer.Option("--without", metavar="STAGE/LESSON", help="Leave out a lesson; may be given several times."),
    ] = None,
) -> None:
    """Teach one trunk with light heads what an agent's stages learned apart."""
    if not whole:
        raise ConfigError(
            "A night over the lessons of all stages is 'devmind sleep AGENT --whole'; one over memories is 'devmind "
            "memory sleep'. Add --whole, or take the other command."
        )
    show.print_loading()
    from devmind.agent.one_mind import ROOMS, shared_share
    from devmind.cli.agents import named_agent
    from devmind.curriculum import consolidation as night

    folder = named_agent(agent)
    assert folder is not None
    with resumable(uncut(ctx.obj)):
        done = night.consolidate(
            folder, out, steps=steps, width=width, layers=layers, seed=seed, twin=twin, without=without or ()
        )
    before, now = done.rooms
    rows = [[room, f"{before[room]:,}", f"{now[room]:,}"] for room in ROOMS]
    rows.append(["all", *(f"{sum(rooms.values()):,}" for rooms in done.rooms)])
    rows.append(["shared", *(f"{shared_share(rooms):.0%}" for rooms in done.rooms)])
    show.table(["weights", "before", "now"], rows)
    begun, ended = night.by_stage(done.before), night.by_stage(done.after)
    show.table(
        ["features' error", "before", "now"], [[name, f"{begun[name]:.3f}", f"{ended[name]:.3f}"] for name in ended]
    )
    show.table(["mean of the night", "value"], [[name, f"{value:.3f}"] for name, value in done.means.items()])
    for what, why in {**done.left_out, **done.stays}.items():
        show.line(f"as it was: {what}: {why}")
    if done.unreached:
        show.line(f"heads that no lesson reached: {', '.join(done.unreached)}")
    show.path("agent", done.agent)
    show.line(f"To examine it: devmind stage exam STAGE --agent {done.agent}")


def _newest() -> Path:
    """The newest milestone, else the packaged agent that can sleep; the newborn cannot."""
    from devmind.checkpointing.milestones import newest_milestone

    return newest_milestone(RUNS, ()) or packed_through("memory") or agent_folder(None)
