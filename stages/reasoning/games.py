"""Two-player games for the stage's search: rules, symmetries, keys, and an agent's judgement of positions."""

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
"""Simulations of a move in lessons, exams and play."""
TOGETHER = 512
"""Positions that the network evaluates at once, at most."""


@dataclass(frozen=True)
class Game:
    """A game and the trunk's heads that judge it: `<name>_policy` and `<name>_value`.

    Args:
        name: a level of `world`.
    """

    name: str
    world: Callable[[str], BoardRules] = MnkRules

    @cached_property
    def rules(self) -> BoardRules:
        """The game's rules."""
        return self.world(self.name)

    @property
    def policy(self) -> str:
        """The head whose classes are the moves."""
        return f"{self.name}_policy"

    @property
    def glance(self) -> tuple[str, str]:
        """The glance heads for moves and value, on the position's tokens alone: they teach the sense of positions."""
        return f"{self.name}_glance", f"{self.name}_glance_value"

    @property
    def value(self) -> str:
        """The head for the value of a position to the player to move, -1 to 1."""
        return f"{self.name}_value"

    @cached_property
    def symmetries(self) -> tuple[np.ndarray, np.ndarray]:
        """Symmetries of the board: cells int64 [S, cells], moves int64 [S, choices]; the first is the identity.

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
        """A hash of each position (Zobrist 1970), int64 [...]; marks int8 [..., cells]."""
        own, others = (np.where(marks == player, self._zobrist[row], 0) for row, player in enumerate((1, -1)))
        return np.bitwise_xor.reduce(own ^ others, -1)

    def canonical(self, marks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The least key among each position's images, int64 [N], and the symmetry that makes this image, int64 [N]."""
        keys = self.keys(marks[:, self.symmetries[0]])
        symmetry = keys.argmin(-1)
        return keys[np.arange(len(keys)), symmetry], symmetry


class Judge:
    """An agent's policy and value of positions; each position is evaluated once. Make a new one after the weights
    change.

    Args:
        symmetric: treat images of a position as one, which takes up to eight times fewer evaluations; else each
            position is judged as it is seen.

    Attributes:
        asked: positions that the network has evaluated.
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
            keys, symmetry = self.game.canonical(marks)
            marks = np.take_along_axis(marks, self.game.symmetries[0][symmetry], 1)
            moves = self.game.symmetries[1][symmetry]
        distinct, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        new = np.array([key not in self._places for key in distinct.tolist()], bool)
        if new.any():
            self._ask(distinct[new], marks[first[new]])
        at = np.array([self._places[key] for key in distinct.tolist()])[inverse]
        logits = self._logits[at]
        if moves is not None:
            canonical_logits = logits
            logits = np.empty_like(canonical_logits)
            np.put_along_axis(logits, moves, canonical_logits, 1)
        return logits, self._value[at]

    def _ask(self, keys: np.ndarray, marks: np.ndarray) -> None:
        self._places |= {key: len(self._places) + row for row, key in enumerate(keys.tolist())}
        logits, values = [self._logits], [self._value]
        for start in range(0, len(marks), TOGETHER):
            senses = self.game.rules.observe(self.game.rules.of(marks[start : start + TOGETHER]))
            outputs = self.agent.evaluate(
                {name: torch.from_numpy(value) for name, value in senses.items()}, [self.game.policy, self.game.value]
            )
            policy = outputs[self.game.policy]
            assert isinstance(policy, Categorical)
            logits.append(policy.logits.double().cpu().numpy())
            values.append(outputs[self.game.value].mode().double().cpu().numpy().clip(-1, 1))
        self._logits, self._value = np.concatenate(logits), np.concatenate(values)


class Method(Protocol):
    """A search of `tree_search` whose other arguments, such as noise, are already given."""

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
    """Search from N unfinished positions; each simulation takes one call of the network for all of them.

    Args:
        method: such as `partial(gumbel_search, gumbel=noise)`, for self-play.
        tree: a tree to continue, re-rooted at these positions (`rerooted`); its nodes are not judged again.

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
    """The same for any two-player game with one discrete effector and outcomes in -1 to 1.

    Args:
        judge: logits float [N, choices] and value float [N] to the player to move, of N unfinished states.

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
    roots = Roots(states, *_evaluate(judge, states, tree), rules.legal(states)[effector])
    return method(roots, expand, simulations, bounds=(-1, 1), tree=tree)


def _evaluate(
    judge: Callable[[S], tuple[np.ndarray, np.ndarray]], states: S, tree: Tree[S] | None
) -> tuple[np.ndarray, np.ndarray]:
    """Logits and value of N states; the judge evaluates only the states that have no tree to continue."""
    if tree is None:
        return judge(states)
    new, known = np.flatnonzero(tree.size == 0), tree.nodes
    logits, value = known.logits[:, 0].copy(), known.raw_value[:, 0].copy()
    if len(new):
        logits[new], value[new] = judge(states.take(new))
    return logits, value


def _check_open(over: np.ndarray) -> None:
    """Refuse finished games, bool [N]: any move would be as legal there as any other.

    Raises:
        ConfigError: a game is over.
    """
    if over.any():
        raise ConfigError(
            f"{over.sum()} of {len(over)} games are over already, the first in row {over.argmax()}; leave those out."
        )


def moves(judge: Judge, board: Board, simulations: int) -> np.ndarray:
    """The best moves int64 [N] of N unfinished positions; with 0 simulations the network's own.

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
