"""The commands of the stage: `devmind play` plays a game against an agent, `devmind solve` solves a puzzle."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from devmind.cli import show
from devmind.cli.agents import agent_with_head, folder_with_head
from devmind.cli.house import group
from devmind.cli.options import PageOption, raised_through
from devmind.cli.serving import serve_page, wait
from devmind.errors import ConfigError, nearest

if TYPE_CHECKING:
    import numpy as np

    from devmind.worlds.sliding import SlidingRules
    from stages.reasoning.q_star import Guide, SolveResult

play = group("Play a game against an agent.")
solve = group("Let an agent solve a puzzle.")

GAMES = ("tictactoe", "connect4", "othello")
"""The names in `stages.reasoning.games`, whose import is slow: a typing error is reported without it."""
PROOF = 2
"""States that the proof of the shortest solution may visit, for each one that the search may."""
SLIDING = {"8-puzzle": 3, "15-puzzle": 4}
"""Side by name of the sliding puzzle."""
PUZZLES = {
    "8-puzzle": "1 2 3 4 5 6 0 7 8",
    "15-puzzle": "1 2 3 4 5 6 7 8 9 10 11 12 13 14 0 15",
    "lights-out": "01000 11100 01000 00000 00000",
}
"""A state by name of the puzzle, as an example."""


def _games_like(incomplete: str) -> list[str]:
    return [name for name in GAMES if name.startswith(incomplete)]


def _puzzles_like(incomplete: str) -> list[str]:
    return [name for name in PUZZLES if name.startswith(incomplete)]


Folder = Annotated[Path | None, raised_through("reasoning")]


@play.command("play")
def against(
    game: Annotated[
        str, typer.Argument(metavar="GAME", autocompletion=_games_like, help="connect4, tictactoe or othello.")
    ],
    agent: Folder = None,
    simulations: Annotated[
        int,
        typer.Option(
            "--simulations", min=0, metavar="N", help="Simulations a move; 0: the network alone, without search."
        ),
    ] = 128,
    sure: Annotated[
        float | None,
        typer.Option(
            "--sure",
            metavar="P",
            help="Do not search further for a move of policy probability P or more; by default always search.",
        ),
    ] = None,
    second: Annotated[bool, typer.Option("--second", help="Let the agent begin.")] = False,
    page: PageOption = None,
) -> None:
    """Play against an agent: type the number of a free place, or q to leave; or click on the board of a page."""
    if game not in GAMES:
        raise ConfigError(f"There is no game '{game}'{nearest(game, GAMES)}")
    agent = folder_with_head(agent, "reasoning", f"{game}_policy", game)
    with show.loading():
        from devmind.agent.threads import intra_op_threads
        from stages.reasoning import games
        from stages.reasoning.table import Table

    played = games.GAMES[game]
    player = agent_with_head(agent, "reasoning", played.policy, game, ("reasoning", "language"))
    with intra_op_threads(1):
        table = Table(player, played, simulations, agent_begins=second, sure=sure)
        if page is None:
            table.play(typer.echo, _read_line)
            return
        from stages.reasoning.board_page import TablePage, page_files

        command = f"devmind play {game} --page {page}"
        with serve_page(lambda publisher: TablePage(table, publisher, command), page, page_files()):
            wait()


@solve.command("solve")
def puzzle(
    name: Annotated[
        str, typer.Argument(metavar="PUZZLE", autocompletion=_puzzles_like, help="8-puzzle, 15-puzzle or lights-out.")
    ],
    state: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="STATE...",
            help="Row by row: the tiles, 0 for the free place; or 25 lights, 1 for on and 0 for off.",
        ),
    ] = None,
    agent: Folder = None,
    hand_rules: Annotated[
        bool,
        typer.Option("--hand-rules", help="Ask no agent: solve it by A* with Manhattan, or by algebra mod 2."),
    ] = False,
    nodes: Annotated[
        int, typer.Option("--nodes", min=1, metavar="N", help="States visited at most; twice as many for the proof.")
    ] = 10_000,
    beam: Annotated[
        int | None,
        typer.Option(
            "--beam", min=1, metavar="W", help="Beam search with W states a level, which proves nothing; else Q*."
        ),
    ] = None,
) -> None:
    """Solve a puzzle by Q* or beam search, and say whether a shorter solution exists."""
    if name not in PUZZLES:
        raise ConfigError(f"There is no puzzle '{name}'{nearest(name, PUZZLES)}")
    if not state:
        raise ConfigError(f"'{name}' needs its state, row by row: devmind solve {name} {PUZZLES[name]}")
    if hand_rules and (agent or beam):
        raise ConfigError("--hand-rules asks no agent: leave out --agent and --beam.")
    typed = " ".join(state)
    if name == "lights-out":
        _lights_out(typed, agent, nodes, beam, hand_rules)
    elif hand_rules:
        _by_hand(name, typed, nodes)
    else:
        _sliding(name, typed, agent, nodes, beam)


def _lights_out(state: str, agent: Path | None, nodes: int, beam: int | None, hand_rules: bool) -> None:
    import numpy as np

    from stages.reasoning.puzzles.algebra import Algebra
    from stages.reasoning.puzzles.reading import SIDE, lights

    lit, algebra = lights(state, SIDE), Algebra.of(SIDE)
    if not algebra.solvable(lit)[0]:
        raise ConfigError("These lights cannot be put out by any presses: they are not orthogonal to the null space.")
    best = algebra.shortest(lit)
    if hand_rules:
        _print_presses([int(press) for press in np.flatnonzero(best[0])], int(best.sum()))
        return
    agent = folder_with_head(agent, "reasoning", "lights_out_q", "lights-out")
    with show.loading():
        from stages.reasoning.parts import PRESSES
        from stages.reasoning.puzzles import exam
        from stages.reasoning.puzzles.lesson import MOST, costs

    player = agent_with_head(agent, "reasoning", PRESSES, "lights-out", ("reasoning",))
    fewest = int(best.sum())
    hint = f"; its fewest presses are {fewest}, and scrambles of up to {MOST} are taught"
    guide = lambda states: costs(player, states)  # noqa: E731

    def search(q: Guide) -> list[SolveResult]:
        return exam.beam_search(lit, q, beam, nodes) if beam else exam.search(lit, q, nodes)

    presses, effort = _solve_by_agent(search, guide, nodes, beam, hint)
    _print_presses(presses, fewest, f"; {effort}")


def _print_presses(presses: list[int], fewest: int, effort: str = "") -> None:
    from stages.reasoning.puzzles.reading import SIDE

    places = " ".join(f"{press // SIDE + 1},{press % SIDE + 1}" for press in presses)
    show.line(f"press (row,column): {places or 'nothing, all lights are out'}")
    short = "proven shortest, by algebra mod 2" if len(presses) == fewest else f"not shortest: {fewest} would do"
    show.line(f"{show.count_of(len(presses), 'press', 'presses')}, {short}{effort}")


def _board(name: str, state: str) -> tuple[int, np.ndarray, SlidingRules]:
    """Side, tiles [1, side * side] and rules of a sliding puzzle that can be solved."""
    from devmind.worlds.sliding import SlidingRules
    from stages.reasoning.puzzles.reading import tiles

    side = SLIDING[name]
    start, rules = tiles(state, side), SlidingRules(str(side))
    if not rules.solvable(start)[0]:
        raise ConfigError(
            "These tiles cannot be put in order by any moves: their parity is odd. Were two tiles swapped in typing?"
        )
    return side, start, rules


def _by_hand(name: str, state: str, nodes: int) -> None:
    """Solve a sliding puzzle by A* with Manhattan, which never overestimates: what it finds is a shortest solution."""
    from stages.reasoning.q_star import q_star

    _, start, rules = _board(name, state)
    moves, effort = _found(
        lambda q: q_star(start, rules.slid, rules.solved, q, nodes=nodes), rules.manhattan, nodes, None
    )
    _print_slides(moves, start, rules)
    show.line(f"{show.count_of(len(moves), 'move')}, proven shortest, by A* with Manhattan; {effort}")


def _sliding(name: str, state: str, agent: Path | None, nodes: int, beam: int | None) -> None:
    side, start, rules = _board(name, state)
    agent = folder_with_head(agent, "reasoning", "sliding_q", name)
    with show.loading():
        from devmind.agent.threads import intra_op_threads
        from stages.reasoning.parts import SLIDES
        from stages.reasoning.sliding import exam
        from stages.reasoning.sliding.lesson import costs

    player = agent_with_head(agent, "reasoning", SLIDES, name, ("reasoning",))
    guide = lambda states: costs(player, side, states)  # noqa: E731
    how = (exam.CAREFUL, 1) if side == 3 else (exam.WEIGHT, exam.BATCH)

    def search(q: Guide, most: int = nodes) -> list[SolveResult]:
        return exam.beam_search(side, start, q, beam, most) if beam else exam.search(side, start, q, most, *how)

    # On 4 x 4 the agent's guide, alone or together with them, needs more states than pattern databases do.
    moves, effort = _solve_by_agent(search, guide if side == 3 else exam.pattern_bounds, nodes, beam)
    _print_slides(moves, start, rules)
    if side == 4 and moves:
        with show.working("searching", nodes), intra_op_threads(1):
            (alone,) = search(guide)
        found = "found a way by" if alone.actions is not None else "found none in"
        effort += f" by pattern databases (the agent's own guide {found} {show.count_of(alone.nodes, 'state')})"
    short = _proven(side, start, len(moves), nodes)
    nothing = ", which proves nothing" if beam and short.startswith("not proven") else ""
    show.line(f"{show.count_of(len(moves), 'move')}, {short}; {effort}{nothing}")


def _print_slides(moves: list[int], board: np.ndarray, rules: SlidingRules) -> None:
    import numpy as np

    slid = []
    for move in moves:
        further = rules.slid(board, np.array([move]))
        slid.append(str(int(board[further != board].max())))
        board = further
    show.line(f"slide: {' '.join(slid) or 'nothing, all tiles are in order'}")


def _proven(side: int, board: np.ndarray, length: int, nodes: int) -> str:
    """What A* with a guide that never overestimates proves about the shortest solution.

    Args:
        nodes: states that the search might visit; the proof may visit `PROOF` times as many.
    """
    from stages.reasoning.sliding.exam import proving, search

    proof, (by, guide) = PROOF * nodes, proving(side)
    with show.working("proving", proof) as tell:
        (way,) = search(side, board, _counting_guide(guide, tell), proof)
    if way.actions is not None:
        shorter = len(way.actions) < length
        return f"not shortest: {len(way.actions)} would do" if shorter else f"proven shortest, by {by}"
    return f"not proven shortest in {show.count_of(proof, 'state')}; more than --nodes {nodes} may do"


def _found(
    search: Callable[[Guide], list[SolveResult]], guide: Guide, nodes: int, beam: int | None, hint: str = ""
) -> tuple[list[int], str]:
    """The actions that a search finds, and a sentence about its cost.

    Args:
        beam: the width of the search, if it is a beam.
        hint: added to the message if nothing is found.

    Raises:
        typer.Exit: the search found nothing; the message is printed.
    """
    began_s = time.perf_counter()
    with show.working("searching", nodes) as tell:
        (way,) = search(_counting_guide(guide, tell))
    effort = f"{show.count_of(way.nodes, 'state')} visited in {time.perf_counter() - began_s:.1f} s"
    if way.actions is None:
        wider = f"a wider --beam than {beam}, or " if beam else ""
        show.line(f"not solved: {effort}; there is a way, so try {wider}more than --nodes {nodes}{hint}")
        raise typer.Exit(1)
    return way.actions, effort + (f" by a beam of {beam}" if beam else "")


def _solve_by_agent(
    search: Callable[[Guide], list[SolveResult]], guide: Guide, nodes: int, beam: int | None, hint: str = ""
) -> tuple[list[int], str]:
    """`_found` with a guide that asks an agent."""
    from devmind.agent.threads import intra_op_threads

    with intra_op_threads(1):
        return _found(search, guide, nodes, beam, hint)


def _counting_guide(guide: Guide, tell: Callable[[int], None]) -> Guide:
    """The guide, wrapped: each call also gives `tell` the number of evaluated states."""

    def guided(states: np.ndarray) -> np.ndarray:
        costs = guide(states)
        tell(len(states))
        return costs

    return guided


def _read_line(prompt: str) -> str | None:
    """A line from the terminal; None at the end of input."""
    try:
        return input(prompt)
    except EOFError:
        typer.echo()
        return None
