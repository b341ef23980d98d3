"""Positions of Connect-4 with judged moves: Pascal Pons' from files, or ends of games that are solved here.

A line of Pons' files is a position: the columns played (1 to 7), the score for the player to move, and the scores of
the seven moves for the same player, `x` for a full column. A score above 0 is a win.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from devmind import bounds
from devmind.bounds import data_files
from devmind.errors import ConfigError, WorldError
from devmind.worlds.boards import Board
from stages.reasoning.games import CONNECT4
from stages.reasoning.judged import RatedPositions, endings

BEGINNINGS = "L1_R1"
SETS = ("L2_R2", "L3_R1", BEGINNINGS)
"""The middle of a game (not easy), its end, its beginning; the first set decides."""
FOLDER = "games/connect4"
MADE = 30
"""Moves after which ends of games are solved here: twelve cells are free."""


def rated_positions(data: Path | None, n: int, seed: int) -> list[RatedPositions]:
    """The first `n` positions of each of Pons' sets in `data`; if there are none, ends of games."""
    sets = [load_positions(file, n) for name in SETS for file in data_files(data, f"{FOLDER}/{name}.tsv")]
    return sets if sets and sets[0].name == SETS[0] else [endings(CONNECT4, n, MADE, seed)]


def load_positions(file: Path, n: int) -> RatedPositions:
    """The first `n` positions of a file.

    Raises:
        ConfigError: a line is not a position with seven scores.
    """
    lines = [line for line in bounds.read_text(file, ConfigError).splitlines() if line.strip()][:n]
    if not lines:
        raise ConfigError(f"Expected a position a line in '{file}'; it is empty.")
    rules = CONNECT4.rules
    marks, best = np.zeros((len(lines), rules.cells), np.int8), np.zeros((len(lines), rules.choices), bool)
    for row, line in enumerate(lines):
        try:
            played, _, columns = line.split("\t")
            marks[row] = after(played).marks[0]
            scores = np.array([np.nan if score == "x" else np.sign(int(score)) for score in columns.split(",")])
        except (ValueError, WorldError) as error:
            raise ConfigError(
                f"Line {row + 1} of '{file}' should be moves, score and seven scores, as '4455\\t2\\t-2,1,x,...'"
                f" with tabs; got '{line[:60]}'."
            ) from error
        if len(scores) != rules.choices or np.isnan(scores).all():
            raise ConfigError(f"Line {row + 1} of '{file}' should have seven scores, one a column; got '{columns}'.")
        best[row] = scores == np.nanmax(scores)
    return RatedPositions(CONNECT4, file.stem, rules.of(marks), best)


def after(played: str) -> Board:
    """The position after these columns, such as '4455'; 1 is the left column."""
    board = CONNECT4.rules.initial(np.zeros(1))
    for column in played:
        board = CONNECT4.rules.step(board, {"place": np.array([int(column) - 1])})
    return board
