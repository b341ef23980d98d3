"""A game between a human at a terminal and an agent."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from devmind.agent.agent import Agent
from stages.reasoning.explain.lines import GAME, said_of
from stages.reasoning.games import Game, Judge
from stages.reasoning.parts import TEXT
from stages.reasoning.thinking import check, think

Say = Callable[[str], None]
Ask = Callable[[str], str | None]
"""Shows a prompt and gives what was typed; None where nothing more will come."""


class Table:
    """One game.

    Args:
        simulations: of each of the agent's moves; 0: its network alone.
        agent_begins: else the human does. Who begins has the crosses.
        sure: how sure the agent has to be of a move to search no further (`thinking.think`); None: always search.
    """

    def __init__(
        self, agent: Agent, game: Game, simulations: int, agent_begins: bool, sure: float | None = None
    ) -> None:
        check(simulations, sure)
        self.game, self.simulations, self.sure = game, simulations, sure
        self.agent, self.judge = agent, Judge(agent, game)
        self.board = game.rules.initial(np.zeros(1))
        self.agents = 0 if agent_begins else 1

    def play(self, say: Say, ask: Ask) -> None:
        """To the end, or until the human leaves."""
        rules = self.game.rules
        while True:
            say(self.drawn())
            outcome = rules.outcome(self.board)
            if outcome.terminal[0]:
                came_to = int(rules.finished(self.board.marks)[1][0])
                agents = came_to if int(self.board.player[0]) != self.agents else -came_to
                say({0: "A draw.", 1: "The agent has won.", -1: "You have won."}[agents])
                return
            mine = int(self.board.player[0]) == self.agents
            if not (able := rules.legal(self.board)["place"][0, : rules.cells]).any():
                say(f"{'The agent' if mine else 'You'} can place nothing and must pass.")
                move = len(able)
            elif mine:
                move = self.answer(say)
            else:
                found = self.asked(say, ask)
                if found is None:
                    say("You have left the game.")
                    return
                move = found
            self.board = rules.step(self.board, {"place": np.array([move])})

    def answer(self, say: Say) -> int:
        """The agent's move, and what it thinks."""
        thought = think(self.judge, self.board, self.simulations, self.sure)
        move, spent = int(thought.action[0]), int(thought.simulations[0])
        if not self.simulations:
            say(f"The agent places {move + 1} (its network alone).")
            return move
        how = (
            "proven"
            if thought.proven[0]
            else f"{spent} simulations"
            if spent
            else f"at once, {thought.sure[0]:.2f} sure"
        )
        say(f"The agent places {move + 1} (it expects {float(thought.value[0]):+.2f} of -1..1, {how}).")
        after = self.game.rules.step(self.board, {"place": thought.action})
        if self.game is GAME and TEXT in self.agent.heads and not self.game.rules.outcome(after).terminal[0]:
            say(f"It says:{said_of(self.agent, after.marks)[0]}")
        return move

    def asked(self, say: Say, ask: Ask) -> int | None:
        """The human's move: a number that is legal; None to leave."""
        legal = self.game.rules.legal(self.board)["place"][0]
        free = ", ".join(str(place + 1) for place in np.flatnonzero(legal))
        while True:
            typed = ask("Your move: ")
            if typed is None or typed.strip().lower() in ("q", "quit"):
                return None
            number = typed.strip()
            if number.isdecimal() and 1 <= int(number) <= len(legal) and legal[int(number) - 1]:
                return int(number) - 1
            say(f"'{number}' is no move here; type one of {free}, or q to leave.")

    def drawn(self) -> str:
        """The board: x began; free places show their number, columns stand below."""
        rules = self.game.rules
        first = self.board.marks[0] * (1 if self.board.player[0] == 0 else -1)
        signs = [
            {1: "x", -1: "o"}.get(int(mark), "." if rules.falling else str(at + 1)) for at, mark in enumerate(first)
        ]
        wide = max(map(len, signs))
        rows = [
            " ".join(sign.rjust(wide) for sign in signs[at : at + rules.columns])
            for at in range(0, rules.cells, rules.columns)
        ]
        if rules.falling:
            rows.append(" ".join(str(column + 1) for column in range(rules.columns)))
        return "\n".join(["", *rows])
