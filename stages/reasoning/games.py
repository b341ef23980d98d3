"""Games of two players as the stage's search sees them: rules, symmetries, keys, an agent's judgement."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, TypeVar, cast

import numpy as np
import torch
from gymnasium import spaces

from devmind.agent.agent import Agent
from devmind.agent.output import Categorical
from devmind.algorithms.tree_search import Expand, Expanded, Found, Roots, Tree, gumbel_search
from devmind.errors import ConfigError
from devmind.seeding import numpy_rng
from devmind.worlds.boards import Board, BoardRules, MnkRules
from devmind.worlds.othello import OthelloRules
from devmind.worlds.rules import Rules, Struct

S = TypeVar("S", bound=Struct)
SIMULATIONS = 32
"""Of a move in lessons, exams and play."""
TOGETHER = 512
"""Positions that the network is asked about at once, at most."""


@dataclass(frozen=True)
class Game:
    """A game and the heads that judge it: `<name>_policy` and `<name>_value`, on the trunk.

    Args:
        name: a level of `world`.
    """

    name: str
    world: Callable[[str], BoardRules] = MnkRules

    @cached_property
    def rules(self) -> BoardRules:
        """Its rules."""
        return self.world(self.name)

    @property
    def policy(self) -> str:
        """The head whose classes are the moves."""
        return f"{self.name}_policy"

    @property
    def glance(self) -> tuple[str, str]:
        """Heads that say moves and value from the position's tokens alone: they only teach the sense of positions."""
        return f"{self.name}_glance", f"{self.name}_glance_value"

    @property
    def value(self) -> str:
        """The head that says what a position is worth to the player to move, -1 to 1."""
        return f"{self.name}_value"

    @cached_property
    def symmetries(self) -> tuple[np.ndarray, np.ndarray]:
        """Boards that are the same game: cells int64 [S, cells], moves int64 [S, choices]; the first is the identity.

        Image s of marks is `marks[:, cells[s]]`, and of a policy `policy[:, moves[s]]`.
        """
        grid = np.arange(self.rules.cells).reshape(self.rules.rows, self.rules.columns)
        if self.rules.falling:
            columns = np.arange(self.rules.columns)
            return np.stack([grid.ravel(), grid[:, ::-1].ravel()]), np.stack([columns, columns[::-1]])
        turned = [np.rot90(grid, turn) for turn in range(4) if turn % 2 == 0 or grid.shape[0] == grid.shape[1]]
        cells = np.stack([image.ravel() for one in turned for image in (one, one[:, ::-1])])
        no_cells = np.arange(self.rules.cells, self.rules.choices)
        return cells, np.concatenate([cells, np.tile(no_cells, (len(cells), 1))], 1)

    @cached_property
    def _zobrist(self) -> np.ndarray:
        rng = numpy_rng("zobrist", self.rules.cells)
        return rng.integers(0, 2**63, (2, self.rules.cells), dtype=np.int64)

    def keys(self, marks: np.ndarray) -> np.ndarray:
        """A number for each position (Zobrist 1970), int64 [...]; marks int8 [..., cells]."""
        own, others = (np.where(marks == who, self._zobrist[row], 0) for row, who in enumerate((1, -1)))
        return np.bitwise_xor.reduce(own ^ others, -1)

    def canonical(self, marks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of every position's images the one with the least key: keys int64 [N], and which symmetry makes it [N]."""
        keys = self.keys(marks[:, self.symmetries[0]])
        which = keys.argmin(-1)
        return keys[np.arange(len(keys)), which], which


class Judge:
    """What an agent thinks of positions, each asked about once: make a new one when its weights have changed.

    Args:
        symmetric: positions that are images of each other are one, which asks up to eight times less; else every
            position is judged as it is seen.

    Attributes:
        asked: how many positions the network was asked about.
    """

    def __init__(self, agent: Agent, game: Game, symmetric: bool = False) -> None:
        self.agent, self.game, self.symmetric = agent, game, symmetric
        self._places: dict[int, int] = {}
        self._logits = np.zeros((0, game.rules.choices))
        self._value = np.zeros(0)

    @property
    def asked(self) -> int:
        return len(self._value)

    def __call__(self, board: Board) -> tuple[np.ndarray, np.ndarray]:
        """Logits float [N, choices], and value float [N] to the player to move."""
        marks, moves = board.marks, None
        keys = self.game.keys(marks)
        if self.symmetric:
            keys, which = self.game.canonical(marks)
            marks = np.take_along_axis(marks, self.game.symmetries[0][which], 1)
            moves = self.game.symmetries[1][which]
        distinct, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        new = np.array([key not in self._places for key in distinct.tolist()], bool)
        if new.any():
            self._ask(distinct[new], marks[first[new]])
        at = np.array([self._places[key] for key in distinct.tolist()])[inverse]
        logits = self._logits[at]
        if moves is not None:
            seen = logits
            logits = np.empty_like(seen)
            np.put_along_axis(logits, moves, seen, 1)
        return logits, self._value[at]

    def _ask(self, keys: np.ndarray, marks: np.ndarray) -> None:
        self._places |= {key: len(self._places) + row for row, key in enumerate(keys.tolist())}
        logits, values = [self._logits], [self._value]
        for start in range(0, len(marks), TOGETHER):
            senses = self.game.rules.observe(self.game.rules.of(marks[start : start + TOGETHER]))
            found = self.agent.evaluate(
                {name: torch.from_numpy(value) for name, value in senses.items()}, [self.game.policy, self.game.value]
            )
            policy = found[self.game.policy]
            assert isinstance(policy, Categorical)
            logits.append(policy.logits.double().cpu().numpy())
            values.append(found[self.game.value].mode().double().cpu().numpy().clip(-1, 1))
        self._logits, self._value = np.concatenate(logits), np.concatenate(values)


class Method(Protocol):
    """A search of `tree_search`, all else that it takes given already, such as noise."""

    def __call__(
        self,
        roots: Roots[Any],
        expand: Expand[Any],
        simulations: int,
        *,
        bounds: tuple[float, float],
        tree: Tree[Any] | None,
    ) -> Found[Any]: ...


def search(
    judge: Judge, board: Board, simulations: int, method: Method = gumbel_search, tree: Tree[Board] | None = None
) -> Found[Board]:
    """Search from N positions that have not ended, with one call of the network a simulation for all of them.

    Args:
        method: such as `partial(gumbel_search, gumbel=noise)`, for self-play.
        tree: to go on with, re-rooted at these positions (`tree_reuse.rerooted`); what is in it is not judged again.

    Raises:
        ConfigError: the budget is less than one simulation, a game is over, or `tree` is of other positions.
    """
    return search_by(cast("Rules[Board]", judge.game.rules), judge, board, simulations, method, tree)


def search_by(
    rules: Rules[S],
    judge: Callable[[S], tuple[np.ndarray, np.ndarray]],
    states: S,
    simulations: int,
    method: Method = gumbel_search,
    tree: Tree[S] | None = None,
) -> Found[S]:
    """The same in any game of two players with one discrete effector, whose outcomes lie in -1 to 1.

    Args:
        judge: logits float [N, choices] and value float [N] to the player to move, of N states that have not ended.

    Raises:
        ConfigError: the budget is less than one simulation, a game is over, or the rules have not one discrete
            effector.
    """
    if simulations < 1:
        raise ConfigError(f"A search takes one simulation at least; got {simulations}.")
    (effector, choices), *others = rules.action_space.spaces.items()
    if others or not isinstance(choices, spaces.Discrete):
        raise ConfigError(
            f"A search needs rules with one discrete effector; those of '{rules.name}' have {rules.action_space}."
        )

    def expand(before: S, moves: np.ndarray) -> Expanded[S]:
        reached = rules.step(before, {effector: moves})
        outcome = rules.outcome(reached)
        going = np.flatnonzero(~outcome.terminal)
        logits, value = np.zeros((len(moves), int(choices.n))), np.zeros(len(moves))
        if len(going):
            logits[going], value[going] = judge(reached.take(going))
        legal = rules.legal(reached)[effector]
        return Expanded(reached, logits, value, legal, outcome.reward, outcome.discount, outcome.terminal)

    _check_open(rules.outcome(states).terminal)
    roots = Roots(states, *_judged(judge, states, tree), rules.legal(states)[effector])
    return method(roots, expand, simulations, bounds=(-1, 1), tree=tree)


def _judged(
    judge: Callable[[S], tuple[np.ndarray, np.ndarray]], states: S, tree: Tree[S] | None
) -> tuple[np.ndarray, np.ndarray]:
    """Logits and value of N states; the judge is asked about those alone of which the tree to go on with has none."""
    if tree is None:
        return judge(states)
    logits, value, new = tree.logits[:, 0].copy(), tree.raw_value[:, 0].copy(), np.flatnonzero(tree.size == 0)
    if len(new):
        logits[new], value[new] = judge(states.take(new))
    return logits, value


def _check_open(over: np.ndarray) -> None:
    """Refuse games that have ended, bool [N]: any move would be as legal there as any other.

    Raises:
        ConfigError: one has.
    """
    if over.any():
        raise ConfigError(
            f"Of {len(over)} games to find a move in {over.sum()} are over, row {over.argmax()} first; leave those out."
        )


def moves(judge: Judge, board: Board, simulations: int) -> np.ndarray:
    """The best moves int64 [N] of N positions that have not ended; with 0 simulations the network's own.

    Raises:
        ConfigError: a game is over.
    """
    if simulations:
        return search(judge, board, simulations).action
    _check_open(judge.game.rules.ended(board.marks))
    legal = judge.game.rules.legal(board)["place"]
    return np.where(legal, judge(board)[0], -np.inf).argmax(-1)


TICTACTOE, CONNECT4, OTHELLO = Game("tictactoe"), Game("connect4"), Game("othello", OthelloRules)
GAMES = {game.name: game for game in (TICTACTOE, CONNECT4, OTHELLO)}
"""The games of the stage, by name."""
