"""`devmind procedures`: checks plan files and runs them in small worlds."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from devmind.cli import show
from devmind.cli.house import group
from devmind.cli.options import RoomSeedOption
from devmind.errors import ConfigError, nearest

if TYPE_CHECKING:
    from stages.reasoning.procedures.library import Library

procedures = group("Check plan files, and run them in small worlds.")

WORLDS = ("blocks", "jets", "tileworld")
SIZE = 6
"""Blocks, or the rate of Tileworld, unless --world says another."""


@procedures.command("procedures")
def run(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A plan file, or the name of one in devmind, such as 'blocks'.")
    ],
    world: Annotated[
        str | None,
        typer.Option(
            "--world",
            metavar="NAME[:N]",
            help="blocks, jets or tileworld: the world whose actions the plans use; N blocks, or Tileworld's rate.",
        ),
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Only report errors, by line and column.")] = False,
    seed: RoomSeedOption = 0,
    cycles: Annotated[
        int, typer.Option("--cycles", min=1, metavar="N", help="Cycles of the interpreter, at most.")
    ] = 100_000,
    trace: Annotated[bool, typer.Option("--trace", help="Show each plan when it starts.")] = False,
) -> None:
    """Run the goals of a plan file in a world, or on its own beliefs alone; or only check the file."""
    from stages.reasoning.procedures.parser import library_of

    library, (name, size) = library_of(file), _sized(world)
    if check:
        _check(file, library, name)
    else:
        _run(library, name, seed, size, cycles, trace)


def _sized(world: str | None) -> tuple[str | None, int]:
    """The world of 'blocks:6', and its size."""
    name, has_size, size = (world or "").partition(":")
    if has_size and (not size.isdecimal() or int(size) < 1):
        raise ConfigError(f"--world {name} takes a whole number from 1 on, such as {name}:{SIZE}; got '{world}'.")
    return name or None, int(size or SIZE)


def _check(file: Path, library: Library, world: str | None) -> None:
    from stages.reasoning.procedures.checking import check

    problems: list[str] = []
    if world:
        beliefs, actions, _ = _world(world, 0, 1)
        problems = check(library, list(actions), list(beliefs.sensed))
    if not library.plans and not problems:
        problems = [f"Expected at least one plan in '{file}'; got none."]
    for line in problems:
        show.line(line)
    if problems:
        raise typer.Exit(1)
    kinds = Counter(plan.kind for plan in library.plans)
    what = ", ".join(f"{count} for {kind}" for kind, count in kinds.items())
    show.line(f"{show.count_of(len(library.plans), 'plan')} ({what}): all is well")


def _run(library: Library, world: str | None, seed: int, size: int, cycles: int, trace: bool) -> None:
    from stages.reasoning.procedures.interpreter import Interpreter
    from stages.reasoning.procedures.library import Procedure
    from stages.reasoning.procedures.terms import show as written

    beliefs, actions, ended = _world(world, seed, size)

    def report(goal: Any, plan: Procedure) -> None:
        show.line(f"cycle {it.now}: {goal.kind} {written(goal.term)} by {plan.name}")

    it = Interpreter(library, beliefs, actions, trace=report if trace else None)
    goals = list(it.intentions)
    if world == "jets":
        goals = ended(it, cycles)
    else:
        it.run(cycles)
    for goal in goals:
        state = "not over" if goal.state == "going" else goal.state
        show.line(f"{goal.name}: {state}")
    show.line(f"{show.count_of(it.now, 'cycle')}{'' if world in (None, 'jets') else ended(it)}")
    if any(goal.state != "done" for goal in goals):
        raise typer.Exit(1)


def _world(name: str | None, seed: int, size: int) -> tuple[Any, dict[str, Any], Any]:
    """Beliefs, actions and the closing sentence of a world; for jets also what runs them."""
    from devmind.seeding import numpy_rng
    from stages.reasoning.procedures.beliefs import Beliefs
    from stages.reasoning.procedures.terms import show as written

    if name is None:
        return Beliefs(), {"print": lambda *what: show.line(" ".join(map(written, what)))}, None
    if name == "blocks":
        from stages.reasoning.procedures.blocks import Blocks

        blocks = Blocks.drawn(size, numpy_rng("blocks", seed))
        return (
            blocks.beliefs,
            blocks.actions,
            lambda it: f", {show.count_of(blocks.moves, 'move')}, {'solved' if blocks.solved else 'not solved'}",
        )
    if name == "jets":
        from stages.reasoning.procedures.jets import Jets

        jets = Jets.drawn(numpy_rng("jets", seed))
        return jets.beliefs, jets.actions, jets.watched_by
    if name == "tileworld":
        from stages.reasoning.procedures.commitment import Life
        from stages.reasoning.procedures.tileworld import Tileworld

        life = Life(Tileworld(seed, float(size)))
        return Beliefs(sensed=life.sensed), life.actions, lambda it: f", effectiveness {life.world.effectiveness:.3f}"
    raise ConfigError(f"There is no world '{name}' for procedures{nearest(name, WORLDS)}")
