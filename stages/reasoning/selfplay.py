"""Self-play as a Learner: the agent searches its own games, and its policy and value learn what the searches found.

AlphaZero (Silver et al. 2018) with Gumbel search (Danihelka et al. 2022), as small as can be: in an update many games
make a move, each by a search of its own, all searches together; stored positions whose value is open are searched
again with today's network (reanalysis, Schrittwieser et al. 2021); then one step down the loss on positions drawn from
all that are stored. What a search has proven is taken as it is. With `Play.by` PUCT searches, as AlphaZero's did.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import torch
from torch import Tensor, nn

from devmind.agent.agent import Agent
from devmind.agent.batch import Batch, collate_tick
from devmind.agent.output import Categorical
from devmind.algorithms.root_noise import by_temperature, dirichlet
from devmind.algorithms.tree_search import gumbel_search, puct_search
from devmind.curriculum.stage import Rehearsed, Scalars
from devmind.errors import ConfigError, nearest
from devmind.learners.muon import TRUNK, MuonLearner
from devmind.seeding import numpy_rng
from devmind.worlds.boards import Board, MnkRules
from stages.reasoning import random_games
from stages.reasoning.games import SIMULATIONS, Game, Judge, search
from stages.reasoning.glancing import GLANCES, HAND_OVER_EVERY, GlancingLearner, hand_over
from stages.reasoning.parts import POSITION
from stages.reasoning.replay import Positions

FEWER = 4
"""One of so many games of the lesson is played to be rehearsed: each lesson that comes later plays them anew."""
HANDED = 8
"""Batches by which the trunk's features are held against the position's tokens."""

By = Literal["gumbel", "puct", "rollouts"]


@dataclass(frozen=True)
class Play:
    """How self-play goes.

    Args:
        games: that are played side by side.
        again: stored positions that are searched again in an update, at most.
        simulations: of every search.
        capacity: positions that are stored.
        opening: moves made by chance before a game's first search, drawn from 0 to this: only positions that are met
            can be learned, and good players meet few.
        outcome_share: of how the game went on, in a value's target; the search's own value has the rest.
        moves: that every game makes in an update.
        by: "gumbel": searches by Gumbel's policy improvement, whose noise makes games differ; "puct": as AlphaZero, by
            PUCT with Dirichlet's noise in the root's prior, and visits as the policy to learn; "rollouts": by UCT whose
            leaves are judged by random games (`random_games`), which asks no network, so what is learned does not
            depend on what is known already (expert iteration's first expert: Anthony, Tian and Barber 2017).
        tempered: with "puct" and "rollouts", moves of each game, of those that are searched, that are drawn by their
            visits (temperature 1); those behind are the most visited (temperature 0). 30 is AlphaZero's.
        rollouts: random games of a search by them.
        handed: the trunk's heads take over what is learned from tokens alone, every HAND_OVER_EVERY updates and at the
            end (`glancing.hand_over`).
        glances: steps of the encoder a step of the trunk.
        remembered: games that are played side by side to be rehearsed later, until twice as many have ended; 0: a
            quarter of `games`, with a quarter of `again`, or all where no network is asked, which is cheap.
        careful: simulations of their searches; 0: as many as of all others.
        muon: matrices learn by Muon (`SelfPlayByMuon`), else all by AdamW.

    Raises:
        ConfigError: it is searched by something else, or a number cannot be.
    """

    games: int = 64
    again: int = 64
    simulations: int = SIMULATIONS
    capacity: int = 20_000
    opening: int = 6
    outcome_share: float = 0.5
    moves: int = 1
    by: By = "gumbel"
    tempered: int = 30
    rollouts: int = 1000
    handed: bool = False
    glances: int = GLANCES
    remembered: int = 0
    careful: int = 0
    muon: bool = False

    def __post_init__(self) -> None:
        if self.by not in get_args(By):
            raise ConfigError(
                f"Self-play searches by {' or '.join(get_args(By))}; got '{self.by}'{nearest(self.by, get_args(By))}"
            )
        least = {"games": 1, "simulations": 1, "capacity": 1, "moves": 1, "rollouts": 1}
        least |= {"again": 0, "opening": 0, "tempered": 0, "glances": 0, "remembered": 0, "careful": 0}
        for name, at_least in least.items():
            if (given := getattr(self, name)) < at_least:
                raise ConfigError(f"Self-play expects {name} of at least {at_least}; got {given}.")
        if not 0 <= self.outcome_share <= 1:
            raise ConfigError(f"Self-play expects an outcome_share from 0 to 1; got {self.outcome_share}.")


class SelfPlay(GlancingLearner):
    """Learns a game by playing it against itself.

    A batch says only which update it is of, and how many positions to learn from: `{"update": int, "rows": int}`. Games
    in progress and stored positions are the learner's state, so a lesson that was stopped goes on exactly.

    Rehearsed by another lesson, it plays as it did when that began (`remember`) and learns from those positions.
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
        if play.by == "rollouts" and not isinstance(game.rules, MnkRules):
            raise ConfigError(
                f"Self-play cannot search '{game.name}' by rollouts; only games of k in a row have such a search: say "
                "by gumbel or puct."
            )
        self.game, self.play = game, play
        self.positions = Positions(game, play.capacity)
        self.board = game.rules.initial(np.zeros(0))
        self.history: list[_Moves] = []
        self.games_played = 0

    def update(self, batch: Any, step: int) -> Scalars:
        """Play on, and learn from what is stored."""
        if isinstance(batch, Rehearsed):
            return super().update(batch, step)
        if self.play.by == "rollouts" and not len(self.positions):
            self.remember()  # else the first steps are on the few games that end first
        told, rows = self.play_on(step, "lesson"), batch["rows"]
        learned = super().update(self.drawn(rows, "learn", step), step)
        if self.play.handed and ((step + 1) % HAND_OVER_EVERY == 0 or step + 1 == self.steps):
            views = (self.drawn(rows, "handed", step, turn) for turn in range(HANDED))
            heads = dict(zip((self.game.policy, self.game.value), self.game.glance, strict=True))
            hand_over(self.agent, POSITION, heads, views)
        return {**learned, **told}

    def views(self, batch: Any, step: int) -> Iterator[Batch]:
        """Further positions that are stored."""
        return (self.drawn(len(batch["first"]), "glance", step, turn) for turn in range(self.play.glances))

    def view_loss(self, view: Batch) -> Tensor:
        """Moves and value, from the position's tokens alone."""
        return sum(self._told(self.agent, view, self.game.glance))  # type: ignore[return-value]

    def play_on(self, number: int, why: str) -> dict[str, float]:
        """Every game makes its moves; positions found on the way are stored. A function of number, agent and state."""
        rng = numpy_rng("self-play", self.game.name, self.seed, why, number)
        judge, proven = Judge(self.agent, self.game, symmetric=True), []
        for _ in range(self.play.moves):
            self._begin(rng)
            proven.append(self._move(judge, rng))
        return {"games": float(self.games_played), "proven right": float(np.mean(proven))}

    def _begin(self, rng: np.random.Generator) -> None:
        """New games, each after some moves by chance, until there are as many as wanted (more may be in progress)."""
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
        """One move of each game, by search; the share of searches that proved their position's value."""
        rules, games = self.game.rules, len(self.history)
        again = rules.of(self.positions.open(self.play.again, rng))
        board = Board.concat([self.board, again])
        found = self._searched(judge, board, rng)
        self.positions.add(again.marks, found.weights[games:], found.value[games:], found.proven[games:])
        reached = rules.step(self.board, {"place": found.moves})
        outcome = rules.outcome(reached)
        for row, moves in enumerate(self.history):
            moves.add(self.board.marks[row], found.weights[row], found.value[row], found.proven[row])
            moves.led_to(outcome.reward[row], outcome.discount[row])
        if outcome.terminal.any():
            over = [self.history[row].learned(self.play.outcome_share) for row in np.flatnonzero(outcome.terminal)]
            self.positions.add(*(np.concatenate(columns) for columns in zip(*over, strict=True)))
        going = ~outcome.terminal
        self.games_played += int(outcome.terminal.sum())
        self.history = [moves for moves, on in zip(self.history, going, strict=True) if on]
        self.board = reached.take(going)
        return float(found.proven.mean())

    def _searched(self, judge: Judge, board: Board, rng: np.random.Generator) -> _Searched:
        """Searches with noise of N positions, of which the first are the games in progress."""
        games = len(self.history)
        if self.play.by == "gumbel":
            gumbel = rng.gumbel(size=(len(board), self.game.rules.choices))
            found = search(judge, board, self.play.simulations, partial(gumbel_search, gumbel=gumbel))
            return _Searched(found.weights, found.value, found.proven, found.action[:games])
        if self.play.by == "puct":
            noise = dirichlet(self.game.rules.legal(board)["place"], rng)
            found = search(judge, board, self.play.simulations, partial(puct_search, noise=noise))
            weights, value, proven = found.weights, found.value, found.proven
        else:
            rules, seed = self.game.rules, int(rng.integers(2**31))
            assert isinstance(rules, MnkRules)
            visits, value = random_games.searched(rules, board, self.play.rollouts, seed)
            weights, proven = visits / visits.sum(-1, keepdims=True), np.zeros(len(board), bool)
        temperature = np.array([float(len(moves) < self.play.tempered) for moves in self.history])
        return _Searched(weights, value, proven, by_temperature(weights[:games], temperature, rng))

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
        """Cross-entropy of the policy and squared error of the value, against what searches found."""
        off, wrong = self._told(agent, batch, (self.game.policy, self.game.value))
        return off + wrong, {"policy": off.detach(), "value": wrong.detach()}

    @staticmethod
    def _told(agent: Agent, batch: Mapping[str, Any], heads: tuple[str, str]) -> tuple[Tensor, Tensor]:
        """The losses of a head for moves, among legal ones, and of one for values."""
        outputs = agent(dict(batch), heads)
        policy, value = (outputs[name] for name in heads)
        assert isinstance(policy, Categorical)
        return policy.among(batch["legal"]).loss(batch["weights"]), value.loss(batch["value"])

    def rehearse(self, batch: Any) -> tuple[Tensor, Scalars]:
        """The lesson's loss on positions that were remembered."""
        return self.loss(self.agent, self.drawn(batch["rows"], "rehearse", batch["update"]))

    def remember(self) -> None:
        """Play some games with the agent as it is now (`Play.remembered`)."""
        play, number = self.play, 0
        share = 1 if play.by == "rollouts" or play.remembered else FEWER
        few = play.remembered or max(1, play.games // share)
        careful = play.careful or play.simulations
        self.play = replace(play, games=few, again=play.again // share, simulations=careful)
        wanted = self.games_played + 2 * few
        while self.games_played < wanted:
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
        """Go on with them."""
        super().load_state_dict(state)
        self.positions.load_state_dict(state["positions"])
        self.board = self.game.rules.of(state["marks"].cpu().numpy())
        self.history = [_Moves.of(moves) for moves in state["history"]]
        self.games_played = int(state["games_played"])


class SelfPlayByMuon(MuonLearner, SelfPlay):
    """The same, with Muon on the linear maps of the layers that the stage grew, of the sense of positions and of the
    game's own heads; convolutions, heads' last layers and all else go the way of AdamW."""

    orthogonal = (*TRUNK, f"encoders.{POSITION}.keys_values", f"encoders.{POSITION}.project")
    muon_rate = 0.01

    def kind(self, name: str, parameter: nn.Parameter) -> str:
        """Of heads only those of this game, all but what answers."""
        own = f"heads.{self.game.name}_"
        hidden = name.startswith(own) and ("squeeze" in name or ".net.0." in name) and name.endswith(".weight")
        return "orthogonal" if hidden else super().kind(name, parameter)


class _Searched(NamedTuple):
    """What searches found of N positions: weights float [N, choices] and value float [N] to learn, which values are
    proven bool [N], and the moves of the games in progress, which come first, int64 [games]."""

    weights: np.ndarray
    value: np.ndarray
    proven: np.ndarray
    moves: np.ndarray


class _Moves:
    """What was searched in one game in progress, move by move: rows of `COLUMNS`."""

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
        """What the move just added earned, and what counts after it."""
        self.rows["reward"].append(reward)
        self.rows["discount"].append(discount)

    def column(self, name: str) -> np.ndarray:
        return np.array(self.rows[name], self.COLUMNS[name])

    def learned(self, outcome_share: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Marks, weights, values and what is proven, of a game that has ended; the last move first.

        A value's target is the search's, mixed with the target of the position that followed; a proven one is as it is.
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
