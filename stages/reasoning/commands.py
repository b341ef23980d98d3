"""The commands of the stage: `devmind play` is a game against the agent, `devmind solve` gives it a puzzle."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from devmind.cli import show
from devmind.cli.agents import named_agent, taught_agent
from devmind.cli.house import group
from devmind.errors import ConfigError, nearest

play = group("Play a game against an agent.")
solve = group("Let an agent solve a puzzle.")

Folder = Annotated[
    Path | None,
    typer.Option(
        "--agent",
        metavar="DIR",
        callback=named_agent,
        help="Saved agent; else the newest milestone in ./checkpoints that has been through reasoning.",
    ),
]


@play.command("play")
def against(
    game: Annotated[str, typer.Argument(metavar="GAME", help="tictactoe or connect4.")],
    agent: Folder = None,
    simulations: Annotated[
        int, typer.Option("--simulations", min=0, metavar="N", help="Of a move; 0: the network alone, without search.")
    ] = 32,
    second: Annotated[bool, typer.Option("--second", help="Let the agent begin.")] = False,
) -> None:
    """Play against an agent: type the number of a free place, or q to leave."""
    from devmind.agent.threads import intra_op_threads
    from stages.reasoning.games import GAMES
    from stages.reasoning.table import Table

    if game not in GAMES:
        raise ConfigError(f"There is no game '{game}'{nearest(game, GAMES)}")
    taught = taught_agent(agent, "reasoning", GAMES[game].policy, game)
    with intra_op_threads(1):
        Table(taught, GAMES[game], simulations, agent_begins=second).play(typer.echo, _asked)


@solve.command("solve")
def puzzle(
    name: Annotated[str, typer.Argument(metavar="PUZZLE", help="lights-out.")],
    state: Annotated[
        str, typer.Option("--state", metavar="TEXT", help="25 lights row by row, 1 on and 0 off; spaces do not count.")
    ],
    agent: Folder = None,
    nodes: Annotated[int, typer.Option("--nodes", min=1, metavar="N", help="States looked at, at most.")] = 10_000,
) -> None:
    """Solve a puzzle by Q* and say whether a shorter way is possible."""
    from devmind.agent.threads import intra_op_threads
    from stages.reasoning.parts import PRESSES, SIDE
    from stages.reasoning.puzzles import exam
    from stages.reasoning.puzzles.algebra import Algebra
    from stages.reasoning.puzzles.lesson import costs
    from stages.reasoning.puzzles.reading import lights

    if name != "lights-out":
        raise ConfigError(f"There is no puzzle '{name}'{nearest(name, ['lights-out'])}")
    lit, algebra = lights(state, SIDE), Algebra.of(SIDE)
    if not algebra.solvable(lit)[0]:
        raise ConfigError("These lights cannot be put out by any presses: they are not orthogonal to the null space.")
    taught = taught_agent(agent, "reasoning", PRESSES, name)
    began_s = time.perf_counter()
    with intra_op_threads(1):
        (way,) = exam.search(lit, lambda states: costs(taught, states), nodes)
    seconds = time.perf_counter() - began_s
    told = f"{show.counted(way.nodes, 'state')} looked at in {seconds:.1f} s"
    if way.actions is None:
        show.line(f"not solved: {told}; there is a way, so try more than --nodes {nodes}")
        raise typer.Exit(1)
    fewest = int(algebra.shortest(lit).sum())
    places = " ".join(f"{press // SIDE + 1},{press % SIDE + 1}" for press in way.actions)
    show.line(f"press (row,column): {places or 'nothing, all lights are out'}")
    short = "proven shortest, by algebra mod 2" if len(way.actions) == fewest else f"not shortest: {fewest} would do"
    show.line(f"{show.counted(len(way.actions), 'press', 'presses')}, {short}; {told}")


def _asked(prompt: str) -> str | None:
    """A line from the terminal; None where there is no more."""
    try:
        return input(prompt)
    except EOFError:
        typer.echo()
        return None
