"""Self-play as a Learner: the agent searches its own games, and its policy and value learn what the searches found.

This is AlphaZero (Silver et al. 2018) with Gumbel search (Danihelka et al. 2022), as small as possible. In an update
many games make a move; all their searches run together. Stored positions without a proven value are searched again with
the current network (reanalysis, Schrittwieser et al. 2021). Then comes one gradient step on positions drawn from the
store. Proven values are targets as they are. With `Play.rollouts` searches judge leaves by random games.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from devmind.agent.agent import Agent
from devmind.agent.batch import Batch, collate_tick
from devmind.agent.output import Categorical
from devmind.algorithms.tree_search import gumbel_search
from devmind.curriculum.stage import Rehearsed, Scalars
from devmind.errors import ConfigError
from devmind.learners.muon import TRUNK, MuonLearner
from devmind.seeding import numpy_rng
from devmind.worlds.boards import Board, MnkRules
from stages.reasoning import random_games
from stages.reasoning.games import SIMULATIONS, Game, Judge, search
from stages.reasoning.glancing import GLANCES, HAND_OVER_EVERY, GlancingLearner, hand_over
from stages.reasoning.parts import POSITION
from stages.reasoning.replay import Positions

FEWER = 4
"""A rehearsal plays a FEWER-th of the lesson's games, because each later lesson plays them anew."""
HANDED = 8
"""Batches on which the trunk's features are fitted to the position's tokens in a handover."""

OUTCOME_SHARE = 0.5
"""Weight of the game's further course in a value's target; the search's value has the rest."""
MOVES, DRAWN = 4, 3
"""With rollouts: moves that every game makes in an update, as they are cheap; and the first searched moves of a game,
which are drawn by visits, while later ones are the most visited."""
CAREFUL = 128
"""Simulations of the searches for a rehearsal of which `Play.remembered` says how many games it plays."""


@dataclass(frozen=True)
class Play:
    """The settings of self-play.

    Args:
        games: games played side by side.
        again: stored positions searched again in an update, at most.
        simulations: of every Gumbel search, whose noise makes games differ.
        capacity: positions that are stored.
        opening: a game begins with 0 to `opening` random moves before its first search. Only positions that are met can
            be learned, and good players meet few.
        rollouts: random games of a search by UCT (`random_games`) in place of Gumbel searches; 0: none. It asks no
            network, so what is learned does not depend on what is known already (the first expert of expert iteration:
            Anthony, Tian and Barber 2017).
        by_glances: the sense of positions learns most: twice as many steps of its own, matrices by Muon
            (`SelfPlayByMuon`), and every HAND_OVER_EVERY updates and at the end the trunk's heads take over what the
            glance heads learned (`glancing.hand_over`).
        remembered: games played side by side for a later rehearsal, by CAREFUL simulations, until twice as many have
            ended. 0: a quarter of `games` and of `again`; with rollouts all of them.

    Raises:
        ConfigError: a number is out of range.
    """

    games: int = 64
    again: int = 64
    simulations: int = SIMULATIONS
    capacity: int = 20_000
    opening: int = 6
    rollouts: int = 0
    by_glances: bool = False
    remembered: int = 0

    def __post_init__(self) -> None:
        least = {"games": 1, "simulations": 1, "capacity": 1, "again": 0, "opening": 0, "rollouts": 0, "remembered": 0}
        for name, at_least in least.items():
            if (value := getattr(self, name)) < at_least:
                raise ConfigError(f"Self-play expects {name} of at least {at_least}; got {value}.")


class SelfPlay(GlancingLearner):
    """Learns a game by playing it against itself.

    A batch has only the number of the update and the number of positions to learn from: `{"update": int, "rows": int}`.
    Games in progress and stored positions are the learner's state, so a stopped lesson resumes exactly.

    When another lesson rehearses it, it first plays some games with the agent as it is then (`remember`), and learns
    from their positions.
    """

    def __init__(
        self,
        agent: Agent,
        game: Game,
        play: Play,
        *,
        seed: int,
        learning_rate: float,
        trains: Sequence[str] | None = None,
    ) -> None:
        super().__init__(agent, self.loss_of, seed=seed, learning_rate=learning_rate, trains=trains)
        if play.rollouts and not isinstance(game.rules, MnkRules):
            raise ConfigError(
                f"Self-play cannot search '{game.name}' by rollouts; only games of k in a row have such a search: set "
                "rollouts to 0."
            )
        self.game, self.play = game, play
        self.positions = Positions(game, play.capacity)
        self.board = game.rules.initial(np.zeros(0))
        self.history: list[_Moves] = []
        self.games_played = 0

    def update(self, batch: Any, step: int) -> Scalars:
        """Make moves in all games, then learn from the stored positions."""
        if isinstance(batch, Rehearsed):
            return super().update(batch, step)
        if self.play.rollouts and not len(self.positions):
            self.remember()  # else the first steps are on the few games that end first
        scalars, rows = self.play_on(step, "lesson"), batch["rows"]
        learned = super().update(self.drawn(rows, "learn", step), step)
        if self.play.by_glances and ((step + 1) % HAND_OVER_EVERY == 0 or step + 1 == self.steps):
            views = (self.drawn(rows, "handed", step, turn) for turn in range(HANDED))
            heads = dict(zip((self.game.policy, self.game.value), self.game.glance, strict=True))
            hand_over(self.agent, POSITION, heads, views)
        return {**learned, **scalars}

    def views(self, batch: Any, step: int) -> Iterator[Batch]:
        """Further stored positions."""
        return (
            self.drawn(len(batch["first"]), "glance", step, turn)
            for turn in range((1 + self.play.by_glances) * GLANCES)
        )

    def view_loss(self, view: Batch) -> Tensor:
        """The loss of policy and value from the position's tokens alone."""
        return sum(self._losses(self.agent, view, self.game.glance))  # type: ignore[return-value]

    def play_on(self, number: int, why: str) -> dict[str, float]:
        """Make the moves of every game and store the positions; a function of number, agent and state."""
        rng = numpy_rng("self-play", self.game.name, self.seed, why, number)
        judge, proven = Judge(self.agent, self.game, symmetric=True), []
        for _ in range(MOVES if self.play.rollouts else 1):
            self._begin(rng)
            proven.append(self._move(judge, rng))
        return {"games": float(self.games_played), "proven right": float(np.mean(proven))}

    def _begin(self, rng: np.random.Generator) -> None:
        """Begin new games, each after some random moves, until `games` are in progress (there may be more)."""
        rules, missing = self.game.rules, max(0, self.play.games - len(self.history))
        board = rules.initial(np.zeros(missing))
        openings = rng.integers(0, self.play.opening + 1, missing)
        for move in range(self.play.opening):
            among = np.where(rules.legal(board)["place"], rng.random((missing, rules.choices)), -1)
            further = rules.step(board, {"place": among.argmax(-1)})
            going = (move < openings) & ~rules.outcome(further).terminal
            board.put(going, further.take(going))
        self.board = Board.concat([self.board, board])
        self.history += [_Moves() for _ in range(missing)]

    def _move(self, judge: Judge, rng: np.random.Generator) -> float:
        """Search and make one move in each game; returns the share of searches that proved their position's value."""
        rules, games = self.game.rules, len(self.history)
        again = rules.of(self.positions.open(self.play.again, rng))
        board = Board.concat([self.board, again])
        searched = self._searched(judge, board, rng)
        self.positions.add(again.marks, searched.weights[games:], searched.value[games:], searched.proven[games:])
        reached = rules.step(self.board, {"place": searched.moves})
        outcome = rules.outcome(reached)
        for row, moves in enumerate(self.history):
            moves.add(self.board.marks[row], searched.weights[row], searched.value[row], searched.proven[row])
            moves.led_to(outcome.reward[row], outcome.discount[row])
        if outcome.terminal.any():
            finished = [self.history[row].learned(OUTCOME_SHARE) for row in np.flatnonzero(outcome.terminal)]
            self.positions.add(*(np.concatenate(columns) for columns in zip(*finished, strict=True)))
        going = ~outcome.terminal
        self.games_played += int(outcome.terminal.sum())
        self.history = [moves for moves, on in zip(self.history, going, strict=True) if on]
        self.board = reached.take(going)
        return float(searched.proven.mean())

    def _searched(self, judge: Judge, board: Board, rng: np.random.Generator) -> _Searched:
        """Search N positions with noise; the first of them are the games in progress."""
        games = len(self.history)
        if not self.play.rollouts:
            gumbel = rng.gumbel(size=(len(board), self.game.rules.choices))
            result = search(judge, board, self.play.simulations, partial(gumbel_search, gumbel=gumbel))
            return _Searched(result.weights, result.value, result.proven, result.action[:games])
        rules, seed = self.game.rules, int(rng.integers(2**31))
        assert isinstance(rules, MnkRules)
        visits, value = random_games.search_positions(rules, board, self.play.rollouts, seed)
        early = np.array([len(moves) < DRAWN for moves in self.history])
        moves = np.where(early, by_visits(visits[:games], rng), visits[:games].argmax(-1))
        return _Searched(visits / visits.sum(-1, keepdims=True), value, np.zeros(len(board), bool), moves)

    def drawn(self, rows: int, *why: str | int) -> Batch:
        """A batch of stored positions, with `weights` [rows, 1, choices] and `value` [rows, 1]."""
        if not len(self.positions):
            self.remember()
        drawn = self.positions.draw(rows, numpy_rng("self-play", self.game.name, self.seed, *why))
        rules = self.game.rules
        board = rules.of(drawn["marks"])
        batch = collate_tick(rules.observe(board), np.ones(rows, bool))
        for name in ("weights", "value"):
            batch[name] = torch.from_numpy(drawn[name]).float()[:, None].to(self.agent.device)
        batch["legal"] = torch.from_numpy(rules.legal(board)["place"])[:, None].to(self.agent.device)
        return batch

    def loss_of(self, agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
        """Cross-entropy of the policy and squared error of the value, against the search results."""
        off, wrong = self._losses(agent, batch, (self.game.policy, self.game.value))
        return off + wrong, {"policy": off.detach(), "value": wrong.detach()}

    @staticmethod
    def _losses(agent: Agent, batch: Mapping[str, Any], heads: tuple[str, str]) -> tuple[Tensor, Tensor]:
        """The losses of a policy head, over legal moves, and of a value head, asked as by a search: without slots."""
        outputs = agent(dict(batch), heads, short_term=False)
        policy, value = (outputs[name] for name in heads)
        assert isinstance(policy, Categorical)
        return policy.among(batch["legal"]).loss(batch["weights"]), value.loss(batch["value"])

    def rehearse(self, batch: Any) -> tuple[Tensor, Scalars]:
        """The lesson's loss on the positions of `remember`."""
        return self.loss(self.agent, self.drawn(batch["rows"], "rehearse", batch["update"]))

    def remember(self) -> None:
        """Play some games with the agent as it is now (`Play.remembered`)."""
        play, number = self.play, 0
        share = 1 if play.rollouts or play.remembered else FEWER
        few = play.remembered or max(1, play.games // share)
        careful = CAREFUL if play.remembered else play.simulations
        self.play = replace(play, games=few, again=play.again // share, simulations=careful)
        games = self.games_played + 2 * few
        while self.games_played < games:
            self.play_on(number, "remember")
            number += 1
        self.play = play

    def state_dict(self) -> dict[str, Any]:
        """Optimizer, stored positions, and games in progress."""
        return super().state_dict() | {
            "positions": self.positions.state_dict(),
            "marks": torch.from_numpy(self.board.marks.copy()),
            "history": [moves.state_dict() for moves in self.history],
            "games_played": self.games_played,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore them."""
        super().load_state_dict(state)
        self.positions.load_state_dict(state["positions"])
        self.board = self.game.rules.of(state["marks"].cpu().numpy())
        self.history = [_Moves.of(moves) for moves in state["history"]]
        self.games_played = int(state["games_played"])


def by_visits(visits: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A move a row, int64 [B], drawn in proportion to its visits [B, choices]."""
    reached = visits.cumsum(-1)
    return np.asarray((reached <= (rng.random(len(visits)) * reached[:, -1])[:, None]).sum(-1))


class SelfPlayByMuon(MuonLearner, SelfPlay):
    """SelfPlay with Muon for the linear maps of the grown layers, of the sense of positions and of the game's own
    heads. AdamW steps convolutions, the heads' last layers and everything else.
    """

    orthogonal = (*TRUNK, f"encoders.{POSITION}.keys_values", f"encoders.{POSITION}.project")
    muon_rate = 0.01

    def kind(self, name: str, parameter: nn.Parameter) -> str:
        """Of the heads, only the hidden layers of this game's heads are orthogonal."""
        own = f"heads.{self.game.name}_"
        hidden = name.startswith(own) and ("squeeze" in name or ".net.0." in name) and name.endswith(".weight")
        return "orthogonal" if hidden else super().kind(name, parameter)


class _Searched(NamedTuple):
    """The search results of N positions, of which the games in progress come first.

    Weights float [N, choices] and value float [N] are targets; proven bool [N] marks exact values; moves int64 [games]
    are those of the games in progress.
    """

    weights: np.ndarray
    value: np.ndarray
    proven: np.ndarray
    moves: np.ndarray


class _Moves:
    """The search results of one game in progress, move by move: rows of `COLUMNS`."""

    COLUMNS: Mapping[str, type] = {
        "marks": np.int8, "weights": float, "value": float, "proven": bool, "reward": float, "discount": float
    }  # fmt: skip

    def __init__(self) -> None:
        self.rows: dict[str, list[Any]] = {name: [] for name in self.COLUMNS}

    def __len__(self) -> int:
        return len(self.rows["marks"])

    def add(self, marks: np.ndarray, weights: np.ndarray, value: float, proven: bool) -> None:
        for name, x in (("marks", marks.copy()), ("weights", weights.copy()), ("value", value), ("proven", proven)):
            self.rows[name].append(x)

    def led_to(self, reward: float, discount: float) -> None:
        """Add the reward of the last move and the discount of what follows it."""
        self.rows["reward"].append(reward)
        self.rows["discount"].append(discount)

    def column(self, name: str) -> np.ndarray:
        return np.array(self.rows[name], self.COLUMNS[name])

    def learned(self, outcome_share: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Marks, weights, values and proven flags of a finished game; the last move first.

        A value's target mixes the search's value with the target of the next position. A proven value is not mixed.
        """
        value, proven = self.column("value"), self.column("proven")
        after = 0.0
        for at in range(len(value) - 1, -1, -1):
            went = self.rows["reward"][at] + self.rows["discount"][at] * after
            if not proven[at]:
                value[at] += outcome_share * (went - value[at])
            after = value[at]
        order = np.arange(len(value))[::-1]
        return self.column("marks")[order], self.column("weights")[order], value[order], proven[order]

    def state_dict(self) -> dict[str, Any]:
        return {name: torch.from_numpy(self.column(name)) for name in self.COLUMNS}

    @classmethod
    def of(cls, state: Mapping[str, Any]) -> _Moves:
        moves = cls()
        moves.rows = {name: list(state[name].cpu().numpy()) for name in cls.COLUMNS}
        return moves
