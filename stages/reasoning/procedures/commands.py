"""`devmind procedures`: checks plan files and runs them in small worlds."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from devmind.cli import show
from devmind.cli.house import group
from devmind.errors import ConfigError, nearest

procedures = group("Check plan files, and run them in small worlds.")

WORLDS = ("blocks", "jets", "tileworld")

File = Annotated[
    Path, typer.Argument(metavar="FILE", help="A plan file, or the name of one in devmind, such as 'blocks'.")
]
World = Annotated[
    str | None,
    typer.Option("--world", metavar="NAME", help="blocks, jets or tileworld: the world whose actions the plans use."),
]


@procedures.command("check")
def check(file: File, world: World = None) -> None:
    """Check a plan file and report errors by line and column."""
    from stages.reasoning.procedures.checking import check as checked
    from stages.reasoning.procedures.parser import library_of

    library = library_of(file)
    problems: list[str] = []
    if world:
        beliefs, actions, _ = _world(world, 0, 1)
        problems = checked(library, list(actions), list(beliefs.sensed))
    for line in problems:
        show.line(line)
    if problems:
        raise typer.Exit(1)
    if not library.plans:
        show.line(f"Expected at least one plan in '{file}'; got none.")
        raise typer.Exit(1)
    kinds = Counter(plan.kind for plan in library.plans)
    what = ", ".join(f"{count} for {kind}" for kind, count in kinds.items())
    show.line(f"{show.counted(len(library.plans), 'plan')} ({what}): all is well")


@procedures.command("run")
def run(
    file: File,
    world: World = None,
    seed: Annotated[int, typer.Option("--seed", min=0, metavar="N", help="Seed of the world.")] = 0,
    size: Annotated[
        int, typer.Option("--size", min=1, metavar="N", help="Number of blocks, or the rate of Tileworld.")
    ] = 6,
    cycles: Annotated[
        int, typer.Option("--cycles", min=1, metavar="N", help="Cycles of the interpreter, at most.")
    ] = 100_000,
    trace: Annotated[bool, typer.Option("--trace", help="Show each plan when it starts.")] = False,
) -> None:
    """Run the goals of a plan file in a world, or on its own beliefs alone."""
    from stages.reasoning.procedures.interpreter import Interpreter
    from stages.reasoning.procedures.library import Procedure
    from stages.reasoning.procedures.parser import library_of
    from stages.reasoning.procedures.terms import show as written

    library = library_of(file)
    beliefs, actions, ended = _world(world, seed, size)

    def tell(goal: Any, plan: Procedure) -> None:
        show.line(f"cycle {it.now}: {goal.kind} {written(goal.term)} by {plan.name}")

    it = Interpreter(library, beliefs, actions, trace=tell if trace else None)
    goals = list(it.intentions)
    if world == "jets":
        goals = ended(it, cycles)
    else:
        it.run(cycles)
    for goal in goals:
        state = "not over" if goal.state == "going" else goal.state
        show.line(f"{goal.name}: {state}")
    show.line(f"{show.counted(it.now, 'cycle')}{'' if world in (None, 'jets') else ended(it)}")
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
            lambda it: f", {show.counted(blocks.moves, 'move')}, {'solved' if blocks.solved else 'not solved'}",
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
