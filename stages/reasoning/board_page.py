"""A table on a page: a board to click, and the agent's thoughts about its moves.

After each move the page gets one view of the whole table, so a late or second page has everything. Rules, agent and
search are the table's. This module decides what the page shows and what it may ask.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from importlib import metadata
from importlib.resources import files
from typing import Any

import numpy as np

from devmind.agent.threads import stepping_threads
from devmind.cli.serving import Publisher
from devmind.errors import ConfigError, bind_command
from devmind.worlds.boards import MnkRules
from stages.reasoning.table import Table
from stages.reasoning.thinking import Thought, check

BUDGETS = (0, 8, 32, 128, 512)
"""Simulations of a move, on the page's dial. The dial also has the number that the command was given."""
YOU, AGENT = "you", "agent"
WAIT = "It is the agent's turn; wait for its move."
OVER = "This game is over; begin a new one."


def page_files() -> dict[str, bytes]:
    """The files of the page by name; the house's own styles and scripts come on top."""
    return {item.name: item.read_bytes() for item in (files("stages.reasoning") / "page").iterdir()}


class TablePage:
    """Takes the place of a life for the page's server: what a page sees of a table, and what it may ask.

    Args:
        publisher: gets a view after each move, and before the agent thinks.
        command: the command by which the page says to start it again.
    """

    mailboxes: tuple[Any, ...] = ()

    def __init__(self, table: Table, publisher: Publisher, command: str = "devmind play") -> None:
        self.table, self.publisher, self.command = table, publisher, command
        self.budgets = sorted({*BUDGETS, table.simulations})
        self._lock = threading.Lock()  # one game, however many pages ask
        self._known: dict[str, Callable[..., None]] = {
            "place": self._place, "new": self._new, "simulations": self._set_simulations, "hint": self._hint,
        }  # fmt: skip
        self.says: list[str] = []
        self.thought: dict[str, Any] | None = None
        self.last: int | None = None
        self._go_on()

    def welcome(self) -> dict[str, Any]:
        """The first message to a page: the whole table, without waiting for a thought."""
        start = {"version": metadata.version("devmind"), "command": self.command, "budgets": self.budgets}
        return {**self.view, **start, "type": "welcome"}

    def do(self, command: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Make a move (`place` with a move's number from 0), begin a `new` game, set `simulations`, give a `hint`.

        Raises:
            ConfigError: the command is unknown, or not possible now.
        """
        call = bind_command(command, arguments, self._known)
        with self._lock, stepping_threads():
            call()
        return {}

    def _place(self, move: int) -> None:
        table = self.table
        self._check_turn()
        if type(move) is not int or not 0 <= move < table.game.rules.cells or not table.legal[move : move + 1].any():
            free = ", ".join(str(place + 1) for place in np.flatnonzero(table.legal))
            number = move + 1 if type(move) is int else move
            raise ConfigError(f"'{number!s:.20}' is no move here; take one of {free}.")
        self._clear()
        self._move(move)
        self._go_on()

    def _new(self, begins: str) -> None:
        if begins not in (YOU, AGENT):
            raise ConfigError(f"Who begins is '{YOU}' or '{AGENT}'; got '{begins!s:.20}'.")
        self.table.begin(begins == AGENT)
        self._clear()
        self._go_on()

    def _set_simulations(self, n: int) -> None:
        if type(n) is not int or n not in self.budgets:
            raise ConfigError(f"Simulations of a move are one of {', '.join(map(str, self.budgets))}; got {n!s:.20}.")
        check(n, self.table.sure)
        self.table.simulations = n
        self._show()

    def _hint(self) -> None:
        self._check_turn()
        self._show(thinks=True)
        thought = self.table.think()
        self.thought = self._view_of(thought)
        self.says = [f"It would place {int(thought.action[0]) + 1} for you ({self.table.expects(thought)})."]
        self._show()

    def _check_turn(self) -> None:
        if self.table.is_over:
            raise ConfigError(OVER)
        if self.table.is_agents:  # a page never meets it: its move is made within the human's
            raise ConfigError(WAIT)

    def _clear(self) -> None:
        """Forget what was said and thought before this move."""
        self.says, self.thought, self.last = [], None, None

    def _go_on(self) -> None:
        """Make all moves and passes that need no human, then publish the table."""
        table = self.table
        while not table.is_over and (table.must_pass or table.is_agents):
            if table.must_pass:
                self.says.append(table.pass_on())
                continue
            self._show(thinks=True)
            thought = table.think()
            self.thought = self._view_of(thought)
            self.last = self._cell(int(thought.action[0]))
            self.says += table.answer(thought)
        if table.is_over:
            self.says.append(table.ending)
        self._show()

    def _move(self, move: int) -> None:
        self.last = self._cell(move)
        self.table.place(move)

    def _cell(self, move: int) -> int | None:
        """The cell in which the mark of a legal move comes to lie; None if the move places no mark."""
        marks = self.table.board.marks
        placed = self.table.game.rules.placed(marks, np.array([move]))
        new = np.flatnonzero((marks[0] == 0) & (placed[0] != 0))
        return int(new[0]) if len(new) else None

    def _view_of(self, thought: Thought) -> dict[str, Any]:
        """What the page shows of a thought about the current position; values are the agent's."""
        table = self.table
        side = 1 if table.is_agents else -1
        moves = [int(move) for move in np.flatnonzero(table.legal) if move < table.game.rules.cells]
        candidates = [
            {
                "move": move, "cell": self._cell(move), "visits": int(thought.visits[0, move]),
                "prior": float(thought.policy[0, move]), "known": bool(thought.known[0, move]),
                "value": side * float(thought.q[0, move]) if thought.visits[0, move] else None,
            }
            for move in moves
        ]  # fmt: skip
        candidates.sort(key=lambda one: (-int(one["visits"] or 0), -float(one["prior"] or 0)))
        return {
            "of": AGENT if table.is_agents else YOU, "value": side * float(thought.value[0]),
            "proven": bool(thought.proven[0]), "simulations": int(thought.simulations[0]),
            "move": int(thought.action[0]), "candidates": candidates,
        }  # fmt: skip

    def _show(self, thinks: bool = False) -> None:
        """Publish the table as a new view, because pages may still read the old one."""
        table, rules = self.table, self.table.game.rules
        own = 1 if table.is_agents else -1  # marks are those of whose turn it is
        marks = table.board.marks[0] * own
        able = [] if table.is_over or table.is_agents or thinks else np.flatnonzero(table.legal).tolist()
        self.view = {
            "type": "tick", "game": table.game.name, "rows": rules.rows, "columns": rules.columns,
            "falling": rules.falling, "cells": [{1: AGENT, -1: YOU}.get(int(mark), "") for mark in marks],
            "began": AGENT if table.agents == 0 else YOU, "over": table.is_over, "thinks": thinks,
            "able": {move: self._cell(move) for move in able}, "says": list(self.says), "thought": self.thought,
            "line": self._line(), "last": self.last, "simulations": table.simulations,
            "counts": not isinstance(rules, MnkRules),
        }  # fmt: skip
        self.publisher.publish(self.view)

    def _line(self) -> list[int]:
        """The cells of a winning line; [] if there is none."""
        rules = self.table.game.rules
        if not self.table.is_over or not isinstance(rules, MnkRules):
            return []
        full = (self.table.board.marks[0][rules.lines] == -1).all(-1)
        return sorted({int(cell) for line in rules.lines[full] for cell in line})
