"""Positions of Connect-4 whose moves are judged: Pascal Pons' from files, or ends of games that are solved here.

A file of Pons' has a line a position: the columns played (1 to 7), the score for who is to move, and the scores of the
seven moves for the same player, `x` where a column is full; above 0 the game is won.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from devmind.errors import ConfigError, WorldError
from devmind.worlds.boards import Board
from stages.reasoning.games import CONNECT4
from stages.reasoning.judged import Judged, endings

SETS = ("L2_R2", "L3_R1", "L1_R1")
"""Middle of a game and not easy, its end, its beginning; the first decides."""
FOLDER = Path("games", "connect4")
MADE = 30
"""Moves behind which games end here that are solved: twelve cells are free."""


def judged(data: Path | None, n: int, seed: int) -> list[Judged]:
    """The sets of Pons' that are in `data`, the first `n` positions of each; ends of games where there are none."""
    files = {name: data / FOLDER / f"{name}.tsv" for name in SETS} if data else {}
    found = [read(file, n) for file in files.values() if file.is_file()]
    return found if found and found[0].name == SETS[0] else [endings(CONNECT4, n, MADE, seed)]


def read(file: Path, n: int) -> Judged:
    """The first `n` positions of a file.

    Raises:
        ConfigError: a line is no position with seven scores.
    """
    lines = [line for line in file.read_text(encoding="utf-8").splitlines() if line.strip()][:n]
    if not lines:
        raise ConfigError(f"Expected a position a line in '{file}'; it is empty.")
    rules = CONNECT4.rules
    marks, best = np.zeros((len(lines), rules.cells), np.int8), np.zeros((len(lines), rules.choices), bool)
    for row, line in enumerate(lines):
        try:
            played, _, each = line.split("\t")
            marks[row] = after(played).marks[0]
            scores = np.array([np.nan if score == "x" else np.sign(int(score)) for score in each.split(",")])
        except (ValueError, WorldError) as error:
            raise ConfigError(
                f"Line {row + 1} of '{file}' should be moves, score and seven scores, as '4455\\t2\\t-2,1,x,...'"
                f" with tabs; got '{line[:60]}'."
            ) from error
        if len(scores) != rules.choices or np.isnan(scores).all():
            raise ConfigError(f"Line {row + 1} of '{file}' should have seven scores, one a column; got '{each}'.")
        best[row] = scores == np.nanmax(scores)
    return Judged(CONNECT4, file.stem, rules.of(marks), best)


def after(played: str) -> Board:
    """The position after these columns, as '4455': 1 is the left one."""
    board = CONNECT4.rules.initial(np.zeros(1))
    for column in played:
        board = CONNECT4.rules.step(board, {"place": np.array([int(column) - 1])})
    return board
