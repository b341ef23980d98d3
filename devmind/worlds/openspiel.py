"""Games of OpenSpiel as Rules: two players take turns, and both see everything.

OpenSpiel (Lanctot et al. 2019, https://github.com/google-deepmind/open_spiel) comes with the extra `games`. Chess, go,
hex, draughts, Othello, mancala and some two dozen more can be played and searched (`playable`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import numpy as np
from gymnasium import spaces

from devmind.errors import WorldError, nearest
from devmind.seeding import numpy_rng
from devmind.worlds.rules import Outcome, Struct

MISSING = "OpenSpiel is not installed; it is in the extra 'games': pip install 'devmind[games]'"
EFFECTOR = "move"
LOOKED_AT = 200
"""Positions of a random game that decide whether the planes hold whole numbers."""


def openspiel_installed() -> bool:
    """Whether OpenSpiel is installed."""
    return find_spec("pyspiel") is not None


@dataclass(frozen=True, eq=False)
class Position:
    """A state of OpenSpiel; moves are applied to clones only. Positions are equal if their moves are."""

    state: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Position) and bool(self.state.history() == other.state.history())

    def __hash__(self) -> int:
        return hash(tuple(self.state.history()))


@dataclass
class Positions(Struct):
    """at object [N], `Position`s; player int64 [N], whose turn it is (after the end, the player who did not move
    last); earned float32 [N] by the player who moved last; discount float32 [N]; terminal bool [N]."""

    at: np.ndarray
    player: np.ndarray
    earned: np.ndarray
    discount: np.ndarray
    terminal: np.ndarray


class OpenSpielRules:
    """The effector `move` is OpenSpiel's action, a win earns 1 and a loss -1.

    The observation is OpenSpiel's, of the player to move, with one more plane (or number) that says which player it is.
    Planes of whole numbers are the sense `position`, int8 [planes + 1, rows, columns]; anything else is `observation`,
    float32 [numbers + 1]. A step clones its states one by one: 2 to 10 us each.

    Args:
        level: a game's name as OpenSpiel writes it, with its settings if any: "breakthrough", "hex(board_size=5)".

    Attributes:
        choices: the number of actions, legal or not.

    Raises:
        WorldError: OpenSpiel is not installed or has no such game or setting; the game is not one of two players who
            take turns and see everything; or a move is not legal.
    """

    name = "openspiel"

    def __init__(self, level: str = "tic_tac_toe") -> None:
        self.level, self._game = level, _loaded(level)
        self.choices: int = self._game.num_distinct_actions()
        self.horizon: int | None = self._game.max_game_length()
        self._shape = tuple(self._game.observation_tensor_shape())
        self._planes = len(self._shape) == 3 and self._whole()
        planes, *sides = self._shape
        whole = spaces.Box(-128, 127, (planes + 1, *sides), np.int8)
        numbers = spaces.Box(-np.inf, np.inf, (int(np.prod(self._shape)) + 1,), np.float32)
        self.observation_space = spaces.Dict({"position": whole} if self._planes else {"observation": numbers})
        self.action_space = spaces.Dict({EFFECTOR: spaces.Discrete(self.choices)})

    def _whole(self) -> bool:
        """Whether the observations of a random game are whole numbers."""
        state, rng = self._game.new_initial_state(), numpy_rng(self.name, self.level)
        for _ in range(LOOKED_AT):
            seen = np.asarray(state.observation_tensor(0))
            if (seen != np.rint(seen)).any():
                return False
            if state.is_terminal():
                break
            state.apply_action(int(rng.choice(state.legal_actions())))
        return True

    def initial(self, seeds: np.ndarray) -> Positions:
        """The first position; there is no chance."""
        n, at = len(seeds), np.empty(len(seeds), object)
        for row in range(n):
            at[row] = Position(self._game.new_initial_state())
        player = np.array([one.state.current_player() for one in at], np.int64)
        return Positions(at, player, np.zeros(n, np.float32), np.ones(n, np.float32), np.zeros(n, bool))

    def legal(self, state: Positions) -> Mapping[str, np.ndarray]:
        """Legal moves; all moves once the game has ended."""
        able = np.zeros((len(state), self.choices), bool)
        for row, one in enumerate(state.at):
            able[row, slice(None) if state.terminal[row] else one.state.legal_actions()] = True
        return {EFFECTOR: able}

    def step(self, state: Positions, actions: Mapping[str, np.ndarray]) -> Positions:
        """A move of the player to move; a game that has ended does not change."""
        new = replace(state.copy(), earned=np.zeros(len(state), np.float32))
        if EFFECTOR not in actions:
            return new
        moves = np.asarray(actions[EFFECTOR])
        for row in np.flatnonzero(~state.terminal).tolist():
            before, move, player = state.at[row].state, int(moves[row]), int(state.player[row])
            if move not in before.legal_actions():
                raise WorldError(
                    f"A move of '{self.level}' is one of 0 to {self.choices - 1} that `legal` allows; {move} is none "
                    "here."
                )
            after = before.clone()
            after.apply_action(move)
            new.at[row], new.terminal[row] = Position(after), after.is_terminal()
            # Some games let a player move again, so OpenSpiel is asked whose turn it is.
            new.player[row] = 1 - player if after.is_terminal() else after.current_player()
            if after.is_terminal():
                new.earned[row], new.discount[row] = after.returns()[player], 0
            else:
                new.discount[row] = 1 if new.player[row] == player else -1
        return new

    def outcome(self, state: Positions) -> Outcome:
        """The result for the player who moved last; the discount of the other's turn is -1."""
        return Outcome(
            state.earned.copy(), state.terminal.copy(), np.zeros(len(state), bool), state.player.copy(),
            state.discount.copy(),
        )  # fmt: skip

    def observe(self, state: Positions) -> dict[str, Any]:
        """`position` int8 [N, planes + 1, rows, columns], or `observation` float32 [N, numbers + 1]."""
        tensors = [one.state.observation_tensor(int(who)) for one, who in zip(state.at, state.player, strict=True)]
        seen = np.array(tensors, np.float32).reshape(len(state), *self._shape)
        if not self._planes:
            turn = state.player[:, None].astype(np.float32)
            return {"observation": np.concatenate([seen.reshape(len(state), -1), turn], 1)}
        planes = np.rint(seen)
        if (planes != seen).any() or (abs(planes) > 127).any():
            raise WorldError(
                f"'{self.level}' shows a number that a `position` cannot hold, which its first {LOOKED_AT} positions "
                "did not: its planes cannot be seen by an agent."
            )
        turns = np.broadcast_to(state.player[:, None, None, None], (len(state), 1, *self._shape[1:]))
        return {"position": np.concatenate([planes, turns], 1).astype(np.int8)}

    def truth(self, state: Positions) -> dict[str, np.ndarray]:
        """Nothing: both players see everything."""
        return {}

    def drawn(self, state: Positions) -> list[str]:
        """Each position as OpenSpiel writes it."""
        return [str(one.state) for one in state.at]

    def moves(self, state: Positions) -> list[list[str]]:
        """Moves since the beginning, as OpenSpiel writes them."""
        found = []
        for one in state.at:
            at, made = self._game.new_initial_state(), []
            for move in one.state.history():
                made.append(at.action_to_string(move))
                at.apply_action(move)
            found.append(made)
        return found


def playable() -> list[str]:
    """The names of OpenSpiel's games that can be played so; WorldError where it is not installed."""
    pyspiel = _pyspiel()
    return [kind.short_name for kind in pyspiel.registered_games() if kind.default_loadable and not _unfit(kind)]


def _pyspiel() -> ModuleType:
    if not openspiel_installed():
        raise WorldError(f"OpenSpiel's games cannot be played. {MISSING}.")
    import pyspiel

    return pyspiel


def _loaded(level: str) -> Any:
    pyspiel = _pyspiel()
    named, known = level.partition("(")[0].strip(), pyspiel.registered_names()
    if named not in known:
        raise WorldError(f"OpenSpiel has no game '{named}'{nearest(named, known)}")
    try:
        game = pyspiel.load_game(level)
    except pyspiel.SpielError as error:
        raise WorldError(f"OpenSpiel cannot make the game '{level}': {str(error).splitlines()[0]}") from None
    unfit = _unfit(game.get_type()) or ([] if game.num_players() == 2 else [f"it has {game.num_players()} players"])
    if unfit:
        raise WorldError(
            f"The game '{level}' cannot be played: {', '.join(unfit)}. The world 'openspiel' has games of two players "
            "who take turns, see everything and leave nothing to chance, such as 'breakthrough' or 'hex'."
        )
    return game


def _unfit(kind: Any) -> list[str]:
    """What keeps a kind of game from being one of these, in words."""
    laws = {
        "both move at once": kind.dynamics == kind.Dynamics.SEQUENTIAL,
        "chance has a part in it": kind.chance_mode == kind.ChanceMode.DETERMINISTIC,
        "something is hidden from a player": kind.information == kind.Information.PERFECT_INFORMATION,
        "one's gain is not the other's loss": kind.utility == kind.Utility.ZERO_SUM,
        "something is earned before the end": kind.reward_model == kind.RewardModel.TERMINAL,
        "it is not for two players": kind.min_num_players <= 2 <= kind.max_num_players,
        "it does not say what a player sees": kind.provides_observation_tensor,
    }
    return [why for why, holds in laws.items() if not holds]
