"""Games between a human and an agent, at a terminal; `board_page.py` shows the same table on a page."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from devmind.agent.agent import Agent
from devmind.algorithms.tree_search import Found, Tree, reroot
from devmind.worlds.boards import Board
from stages.reasoning.explain.lines import GAME, behind, said_of
from stages.reasoning.games import Game, Judge, search
from stages.reasoning.parts import TEXT
from stages.reasoning.thinking import Thought, check, think

Say = Callable[[str], None]
Ask = Callable[[str], str | None]
"""Shows a prompt and returns what was typed; None at the end of input."""


class Table:
    """Games between a human and an agent, one after the other.

    Args:
        simulations: of each of the agent's moves; 0: its network alone.
        agent_begins: the agent begins; else the human does. The side that begins has the crosses.
        sure: probability of a move from which the agent searches no further (`thinking.think`); None: always search.

    Attributes:
        agents: the agent's player, 0 for the side that began, else 1.
        judge: the agent's judgement of this game's positions.
        tree: the search tree from the current position, which the next search continues; None: nothing yet.
    """

    def __init__(
        self, agent: Agent, game: Game, simulations: int, agent_begins: bool, sure: float | None = None
    ) -> None:
        check(simulations, sure)
        self.agent, self.game, self.simulations, self.sure = agent, game, simulations, sure
        self.begin(agent_begins)

    def begin(self, agent_begins: bool) -> None:
        """Begin a new game."""
        self.judge = Judge(self.agent, self.game)
        self.board = self.game.rules.initial(np.zeros(1))
        self.agents = 0 if agent_begins else 1
        self.tree: Tree[Board] | None = None

    @property
    def is_over(self) -> bool:
        """Whether the game has ended."""
        return bool(self.game.rules.outcome(self.board).terminal[0])

    @property
    def is_agents(self) -> bool:
        """Whether it is the agent's turn."""
        return int(self.board.player[0]) == self.agents

    @property
    def legal(self) -> np.ndarray:
        """Moves that may be made, bool [choices]."""
        return np.asarray(self.game.rules.legal(self.board)["place"][0])

    @property
    def must_pass(self) -> bool:
        """Whether the side to move has no place to take."""
        return not self.legal[: self.game.rules.cells].any()

    @property
    def ending(self) -> str:
        """The result as a sentence; '' while the game goes on."""
        if not self.is_over:
            return ""
        came_to = int(self.game.rules.finished(self.board.marks)[1][0])
        agents = -came_to if self.is_agents else came_to
        return {0: "A draw.", 1: "The agent has won.", -1: "You have won."}[agents]

    @property
    def legend(self) -> str:
        """A sentence about the signs of both sides and the numbers on the board."""
        who = "The agent has x and begins, you have o" if self.agents == 0 else "You have x and begin, the agent has o"
        return f"{who}; {'columns' if self.game.rules.falling else 'places that may be taken'} have a number."

    def place(self, move: int) -> None:
        """Make a legal move of the side to move; the search tree below it is kept."""
        self.board = self.game.rules.step(self.board, {"place": np.array([move])})
        self.tree = reroot(self.tree, np.array([move])) if self.tree is not None else None

    def pass_on(self) -> str:
        """Pass for a side that has no place to take; returns a sentence about it."""
        who = "The agent" if self.is_agents else "You"
        self.place(self.game.rules.cells)
        return f"{who} can place nothing and must pass."

    def think(self) -> Thought:
        """The agent's thought about the position, one row: its own move, or its advice to the human."""
        return think(self.judge, self.board, self.simulations, self.sure, self._search)

    def _search(self, judge: Judge, board: Board, simulations: int) -> Found[Board]:
        """Search on from the tree of the last search, if it fits the position."""
        here = self.tree is not None and np.array_equal(self.tree.states.take([0]).marks, board.marks)
        searched = search(judge, board, simulations, tree=self.tree if here else None)
        self.tree = searched.tree
        return searched

    def expects(self, thought: Thought) -> str:
        """The expected value and the cost of a thought, in words."""
        if not self.simulations:
            return "its network alone"
        spent = int(thought.simulations[0])
        how = (
            "proven"
            if thought.proven[0]
            else f"{spent} simulations"
            if spent
            else f"at once, {thought.sure[0]:.2f} sure"
        )
        return f"it expects {float(thought.value[0]):+.2f} of -1..1, {how}"

    def answer(self, thought: Thought) -> list[str]:
        """Make the agent's move; returns what is printed about it."""
        move = int(thought.action[0])
        lines = [f"The agent places {move + 1} ({self.expects(thought)})."]
        self.place(move)
        return lines + [f"It says:{sentence}" for sentence in self._explained()]

    def _explained(self) -> list[str]:
        """A sentence about the line behind the agent's move; nothing if no search has looked at an answer to it."""
        if self.game is not GAME or self.tree is None or TEXT not in self.agent.heads:
            return []
        root = np.zeros(1, np.int64)
        move = behind(self.tree, root, root, -self.tree.nodes.value[:, 0])
        return said_of(self.agent, move.after, move.lookahead) if len(move.after) else []

    def play(self, say: Say, ask: Ask) -> None:
        """Play one game to its end, or until the human leaves."""
        say(self.legend)
        while True:
            say(self.drawn())
            if self.is_over:
                say(self.ending)
                return
            if self.must_pass:
                say(self.pass_on())
            elif self.is_agents:
                for sentence in self.answer(self.think()):
                    say(sentence)
            else:
                choice = self.asked(say, ask)
                if choice is None:
                    say("You have left the game.")
                    return
                self.place(choice)

    def asked(self, say: Say, ask: Ask) -> int | None:
        """The human's move, a legal number; None to leave."""
        legal = self.legal
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
        """The board as text, x for the side that began; free places show their number, and falling games number the
        columns.
        """
        rules = self.game.rules
        numbered = self.legal & (not rules.falling and not self.is_over)
        first = self.board.marks[0] * (1 if self.board.player[0] == 0 else -1)
        signs = [
            {1: "x", -1: "o"}.get(int(mark), str(at + 1) if numbered[at % len(numbered)] else ".")
            for at, mark in enumerate(first)
        ]
        wide = max(map(len, signs))
        rows = [
            " ".join(sign.rjust(wide) for sign in signs[at : at + rules.columns])
            for at in range(0, rules.cells, rules.columns)
        ]
        if rules.falling:
            rows.append(" ".join(str(column + 1) for column in range(rules.columns)))
        return "\n".join(["", *rows])
