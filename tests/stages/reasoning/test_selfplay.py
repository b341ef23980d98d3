"""Searching a game with an agent, and learning it by self-play."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from devmind.agent.agent import Agent
from devmind.curriculum.stage import Rehearsed
from devmind.errors import ConfigError
from devmind.testing import tiny_agent
from devmind.worlds.boards import Board
from stages.reasoning import parts, selfplay
from stages.reasoning.games import OTHELLO, TICTACTOE, Judge, moves, search
from stages.reasoning.replay import Positions
from stages.reasoning.selfplay import DRAWN, Play, SelfPlay, SelfPlayByMuon, _Moves, by_visits
from stages.reasoning.solver import solve
from stages.reasoning.tictactoe.exam import by_rule, random, unlost
from tests.stages.floors import held_to_the_floors

GAME = solve(TICTACTOE.rules)
ASKED = np.flatnonzero(~GAME.ended)


class Believer(Judge):
    """A judge with the given logits and values for the solved game's positions."""

    def __init__(self, logits: np.ndarray, value: np.ndarray) -> None:
        self.game, self.symmetric = TICTACTOE, False
        self.rows = {key: row for row, key in enumerate(TICTACTOE.keys(GAME.board.marks).tolist())}
        self.logits, self.value = logits, value

    def __call__(self, board: Board) -> tuple[np.ndarray, np.ndarray]:
        at = [self.rows[key] for key in TICTACTOE.keys(board.marks).tolist()]
        return self.logits[at], self.value[at]


@pytest.fixture
def agent() -> Agent:
    one = tiny_agent()
    parts.admit(one)
    one.config.stages = [parts.NAME]
    return one


def optimal(choice: np.ndarray) -> float:
    return float(GAME.best[ASKED, choice].mean())


def test_a_perfect_judge_reaches_the_ceiling_and_a_shuffled_one_falls_to_chance() -> None:
    told = np.where(GAME.best, 5.0, 0.0)
    perfect = Believer(told, GAME.value)
    board = GAME.board.take(ASKED)
    assert optimal(moves(perfect, board, 0)) == 1.0
    assert optimal(moves(perfect, board, 8)) == 1.0
    other = np.random.default_rng(0).permutation(len(GAME))
    chance = (GAME.best[ASKED].sum(1) / (GAME.child[ASKED] >= 0).sum(1)).mean()
    assert abs(optimal(moves(Believer(told[other], GAME.value[other]), board, 0)) - chance) < 0.05


def test_search_improves_a_judge_that_knows_only_values() -> None:
    board = GAME.board.take(ASKED)
    values = Believer(np.zeros((len(GAME), 9)), 0.7 * GAME.value)
    nothing = Believer(np.zeros((len(GAME), 9)), np.zeros(len(GAME)))
    alone, searched, without = (
        optimal(moves(judge, board, n)) for judge, n in ((values, 0), (values, 32), (nothing, 32))
    )
    assert searched > 0.999
    assert alone < without < searched


def test_a_budget_of_no_simulations_is_refused() -> None:
    with pytest.raises(ConfigError, match="one simulation at least"):
        search(Believer(np.zeros((len(GAME), 9)), GAME.value), GAME.board.take([0]), 0)


@pytest.mark.parametrize("simulations", [0, 8])
def test_a_finished_game_is_refused_and_named(simulations: int) -> None:
    rules = TICTACTOE.rules
    won = rules.of(np.array([[0] * 9, [-1, -1, -1, 1, 1, 0, 0, 0, 0], [1, -1, 1, -1, 1, -1, -1, 1, -1]], np.int8))
    assert rules.ended(won.marks).tolist() == [False, True, True], "won by who moved last, and full"
    with pytest.raises(ConfigError, match="2 of 3 games are over already, the first in row 1"):
        moves(Believer(np.zeros((len(GAME), 9)), GAME.value), won, simulations)


def test_the_network_evaluates_a_position_once(agent: Agent) -> None:
    agent.eval()
    board = GAME.board.take(ASKED[:200])
    plain, symmetric = Judge(agent, TICTACTOE), Judge(agent, TICTACTOE, symmetric=True)
    first = plain(board)
    assert plain.asked == 200
    again = plain(Board.concat([board, board]))
    assert plain.asked == 200
    assert np.array_equal(again[0][:200], first[0])
    assert np.array_equal(again[0][200:], first[0])
    logits, value = symmetric(board)
    assert symmetric.asked == len(np.unique(TICTACTOE.canonical(board.marks)[0])) < 60
    images = np.sort(TICTACTOE.keys(board.marks[:, TICTACTOE.symmetries[0]]), -1)
    crooked = (images[:, 1:] != images[:, :-1]).all(-1)  # an own mirror image may be judged asymmetrically
    assert crooked.sum() > 50
    for cells, choices in zip(*TICTACTOE.symmetries, strict=True):
        turned = symmetric(TICTACTOE.rules.of(board.marks[:, cells]))
        assert np.array_equal(turned[0][crooked], logits[crooked][:, choices])
        assert np.array_equal(turned[1], value)


def test_a_lesson_asks_the_heads_as_a_search_does(agent: Agent) -> None:
    """It asked them beside the slots of short-term memory, which a search does not show."""
    with torch.no_grad():
        for name, parameter in agent.trunk.named_parameters():
            if name.endswith(("o_proj.weight", "down_proj.weight")):
                parameter.normal_(generator=torch.Generator().manual_seed(0))
    learner = SelfPlay(agent.eval(), TICTACTOE, Play(games=4, again=0, simulations=4), seed=0, learning_rate=1e-3)
    batch = learner.drawn(32, "test")
    own, others = batch["senses"]["position"][:, 0].flatten(2).to(torch.int8).unbind(1)
    board = TICTACTOE.rules.of((own - others).numpy())
    logits, value = Judge(agent, TICTACTOE)(board)
    batch["value"] = torch.from_numpy(value).float()[:, None]
    policy = np.where(TICTACTOE.rules.legal(board)["place"], logits, -np.inf)
    batch["weights"] = torch.from_numpy(policy).softmax(-1).float()[:, None]
    off, wrong = learner._losses(agent, batch, (TICTACTOE.policy, TICTACTOE.value))
    entropy = torch.distributions.Categorical(probs=batch["weights"]).entropy().mean()
    assert float(wrong) < 1e-9
    assert float(off) == pytest.approx(float(entropy), abs=1e-5), "least where the policy is that of its targets"


def test_an_untaught_agent_is_at_the_floors(agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stages.reasoning.tictactoe.exam.SIMULATIONS", 24)
    plain, games = held_to_the_floors("tictactoe", agent.eval(), tmp_path).measures.values()
    assert plain.n == 4520
    assert plain.interval() == (plain.score, plain.score)
    assert abs(plain.rows["network alone"] - plain.chance) < 0.12
    assert plain.score == plain.rows["trained, with search"]
    assert plain.floors["untrained, with search"] < 1.0
    assert games.score < 1.0
    assert plain.floors["win, block, centre, corner"] > plain.floors["random"]


def test_rules_of_thumb_do_as_named() -> None:
    choice, drawn = by_rule(GAME), random(GAME, 0)
    assert (GAME.child[ASKED, drawn[ASKED]] >= 0).all()
    assert choice[0] == 4
    wins = (np.where(GAME.child >= 0, GAME.q, -2) == 1) & GAME.ended[GAME.child]
    at = np.flatnonzero(wins.any(1))
    assert wins[at, choice[at]].all()
    assert unlost(GAME, choice).mean() > unlost(GAME, drawn).mean()


# -- learning


def self_play(agent: Agent, **play: Any) -> SelfPlay:
    settings = Play(**{"games": 6, "again": 4, "simulations": 4, "capacity": 400} | play)
    learner = SelfPlay(agent, TICTACTOE, settings, seed=3, learning_rate=1e-3, trains=parts.trained_weights(agent))
    learner.steps = 12
    learner.begin(0)
    return learner


def taught(learner: SelfPlay, start: int, end: int) -> str:
    for step in range(start, end):
        learner.update({"update": step, "rows": 8}, step)
    return learner.agent.sha256()


@pytest.mark.parametrize("rollouts", [0, 20])
def test_resumed_self_play_is_bit_equal(agent: Agent, rollouts: int) -> None:
    straight = self_play(copy.deepcopy(agent), rollouts=rollouts)
    half = self_play(copy.deepcopy(agent), rollouts=rollouts)
    wanted = taught(straight, 0, 8)
    taught(half, 0, 5)
    resumed = self_play(copy.deepcopy(half.agent), rollouts=rollouts)
    resumed.load_state_dict(copy.deepcopy(half.state_dict()))
    assert taught(resumed, 5, 8) == wanted
    assert resumed.games_played == straight.games_played > 0
    lost = self_play(copy.deepcopy(half.agent), rollouts=rollouts)
    lost.load_state_dict(
        copy.deepcopy(half.state_dict()) | {"history": [], "marks": torch.zeros(0, 9, dtype=torch.int8)}
    )
    assert taught(lost, 5, 8) != wanted


def played(learner: SelfPlay) -> tuple[np.ndarray, np.ndarray]:
    """Of moves of games in progress: their number, and whether the search gave no other move more weight."""
    number, most = list[int](), list[bool]()
    for moves_made, after in zip(learner.history, learner.board.marks, strict=True):
        marks = [*moves_made.column("marks"), after]
        for at, weights in enumerate(moves_made.column("weights")):
            (cell,) = np.flatnonzero((marks[at] == 0) & (marks[at + 1] != 0))
            number.append(at)
            most.append(weights[cell] == weights.max())
    return np.array(number), np.array(most)


def test_rollouts_teach_their_findings_without_the_network(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(*_: Any) -> None:
        raise AssertionError("the network is asked")

    monkeypatch.setattr(Agent, "evaluate", asked)
    learner = self_play(agent, games=30, again=0, rollouts=400)
    for number in range(3):
        learner.play_on(number, "test")
    at, most = played(learner)
    assert most[at >= DRAWN].all()
    assert not most[at < DRAWN].all()
    positions = learner.positions
    place = {key: row for row, key in enumerate(TICTACTOE.keys(GAME.board.marks).tolist())}
    rows = np.array([place[key] for key in TICTACTOE.keys(positions.marks).tolist()])
    assert len(rows) > 50
    weights = positions.weights
    np.testing.assert_allclose(weights.sum(-1), 1)
    assert (weights[positions.marks != 0] == 0).all()
    assert GAME.best[rows, weights.argmax(-1)].mean() > 0.95
    sure = GAME.value[rows] != 0
    assert (np.sign(positions.value) == GAME.value[rows])[sure].mean() > 0.95


def test_moves_are_drawn_in_proportion_to_their_visits() -> None:
    visits = np.tile([0, 30, 0, 10, 0], (4000, 1))
    drawn = by_visits(visits, np.random.default_rng(0))
    assert np.bincount(drawn, minlength=5)[[0, 2, 4]].tolist() == [0, 0, 0]
    assert np.mean(drawn == 1) == pytest.approx(0.75, abs=0.03)


def test_rollouts_learn_from_many_games_from_the_first_step(agent: Agent) -> None:
    learner = self_play(agent, games=20, rollouts=30)
    learner.update({"update": 0, "rows": 8}, 0)
    assert learner.games_played >= 40, "twice as many as are played side by side, not those alone that end at once"
    assert len(learner.positions) > 100


def test_muon_steps_the_linear_maps_of_this_game_only(agent: Agent) -> None:
    play = Play(games=4, again=0, simulations=4, by_glances=True)
    learner = SelfPlayByMuon(agent, TICTACTOE, play, seed=3, learning_rate=1e-3, trains=parts.trained_weights(agent))
    kinds = {name: learner.kind(name, parameter) for name, parameter in learner.trained_parameters()}
    by_muon = {name for name, kind in kinds.items() if kind == "orthogonal"}
    heads = {name.split(".")[1] for name in by_muon if name.startswith("heads.")}
    assert heads == {TICTACTOE.policy, TICTACTOE.value, *TICTACTOE.glance}
    assert not any(name.endswith("net.2.weight") for name in by_muon), "what answers is no map between features"
    assert {name.rsplit(".", 2)[1] for name in by_muon if name.startswith("encoders.")} == {"keys_values", "project"}
    assert any(name.startswith("trunk.") for name in by_muon)
    assert all(parameter.ndim == 2 for name, parameter in learner.trained_parameters() if name in by_muon)
    before = {name: value.clone() for name, value in agent.state_dict().items()}
    learner.steps = 4
    learner.update({"update": 0, "rows": 8}, 0)
    moved = {name for name, value in agent.state_dict().items() if not value.equal(before[name])}
    assert {f"heads.{TICTACTOE.value}.read.squeeze.weight", "encoders.position.project.weight"} <= moved & by_muon


def test_rollouts_are_only_for_games_of_lines(agent: Agent) -> None:
    with pytest.raises(ConfigError, match="'othello' by rollouts; only games of k in a row have such a search"):
        SelfPlay(agent, OTHELLO, Play(rollouts=9), seed=3, learning_rate=1e-3)


def test_the_trunks_heads_take_over_what_glances_learned(agent: Agent) -> None:
    learner = self_play(agent, games=20, rollouts=50, by_glances=True)
    learner.steps = 8
    taught(learner, 0, 7)
    senses = {name: torch.from_numpy(x) for name, x in TICTACTOE.rules.observe(GAME.board.take(ASKED)).items()}

    def unlike() -> float:
        names = TICTACTOE.policy, TICTACTOE.glance[0]
        told, glanced = (agent.evaluate(senses, [name])[name].logits for name in names)  # type: ignore[union-attr]
        return float(((told - glanced) ** 2).mean() / glanced.var(0).mean())

    before = unlike()
    taught(learner, 7, 8)
    assert unlike() < 0.3 * before


def test_rehearsals_use_the_remembered_games(agent: Agent) -> None:
    learner, later = self_play(agent), self_play(copy.deepcopy(agent))
    learner.remember()
    assert learner.games_played >= 2, "of six games at a time a quarter, and at least one"
    later.load_state_dict(learner.state_dict())
    batch = {"update": 40, "rows": 8}
    (loss, _), (again, _) = learner.rehearse(batch), later.rehearse(batch)
    assert torch.equal(loss, again)
    before = later.positions.state_dict()
    scalars = later.update(Rehearsed(learner, batch), 0)
    assert "rehearsal/loss" in scalars
    assert all(np.array_equal(before[name], value) for name, value in later.positions.state_dict().items())


def test_the_requested_number_of_games_is_remembered_by_separate_searches(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    searches: list[tuple[int, int]] = []
    real = selfplay.search

    def counted(judge: Judge, board: Board, simulations: int, *more: Any) -> Any:
        searches.append((len(board), simulations))
        return real(judge, board, simulations, *more)

    monkeypatch.setattr(selfplay, "search", counted)
    monkeypatch.setattr(selfplay, "CAREFUL", 10)
    learner = self_play(agent, remembered=12)
    play = learner.play
    learner.remember()
    assert learner.games_played >= 24
    assert {simulations for _, simulations in searches} == {10}
    assert searches[0][0] == 12
    assert learner.play == play, "the lesson goes on as it did"


def test_targets_follow_the_outcome_of_the_game_unless_proven() -> None:
    moves_made, marks = _Moves(), np.zeros(9, np.int8)
    for value, proven in ((0.2, False), (-0.5, True), (0.9, True)):
        moves_made.add(marks, np.full(9, 1 / 9), value, proven)
        moves_made.led_to(0.0, -1.0)
    moves_made.rows["reward"][-1], moves_made.rows["discount"][-1] = 1.0, 0.0
    *_, value, proven = moves_made.learned(0.5)
    assert value[::-1].tolist() == pytest.approx([0.35, -0.5, 0.9])
    assert proven[::-1].tolist() == [False, True, True]


def stored(capacity: int = 100) -> tuple[Positions, Callable[..., None]]:
    positions = Positions(TICTACTOE, capacity)

    def add(row: int, move: int, value: float, proven: bool = False) -> None:
        weights = np.eye(9)[[move]]
        positions.add(GAME.board.marks[[row]], weights, np.array([value]), np.array([proven]))

    return positions, add


def test_a_position_and_its_images_share_the_mean_of_their_targets() -> None:
    positions, add = stored()
    add(0, 0, 0.5)
    add(0, 0, -0.5)
    assert len(positions) == 1
    assert positions.value[0] == 0.0
    corners = [row for row in range(len(GAME)) if GAME.ply[row] == 1 and GAME.board.marks[row][[0, 2, 6, 8]].any()]
    assert len(corners) == 4
    for row in corners:
        add(row, 4, 0.25)
    assert len(positions) == 2
    assert positions.count.tolist() == [2, 4]
    assert positions.weights[1, 4] == 1.0
    add(corners[0], 4, 0.0, proven=True)
    add(corners[0], 4, 0.9)
    assert positions.value[1] == 0.0
    assert positions.open(5, np.random.default_rng(0)).tolist() == [[0] * 9]


def test_draws_are_images_with_matching_moves() -> None:
    positions, add = stored()
    for row in range(1, 10):
        free = int(np.flatnonzero(GAME.board.marks[row] == 0)[0])
        add(row, free, 0.0)
    drawn = positions.draw(200, np.random.default_rng(0))
    assert (drawn["marks"][drawn["weights"] > 0] == 0).all()
    assert len(np.unique(drawn["marks"], axis=0)) == 9


def test_a_full_store_forgets_the_oldest() -> None:
    positions, add = stored(capacity=3)
    rows = [int(np.flatnonzero(GAME.ply == ply)[0]) for ply in range(5)]
    for row in rows:
        add(row, 0, float(row))
    assert len(positions) == 3
    assert sorted(positions.value.tolist()) == sorted(float(row) for row in rows[2:])
    again = Positions(TICTACTOE, 3)
    again.load_state_dict(positions.state_dict())
    for store in (positions, again):
        store.add(GAME.board.marks[[rows[3]]], np.eye(9)[[0]], np.array([1.0]), np.array([True]))
    assert np.array_equal(again.value, positions.value)
    assert again.count.sum() == 4


@pytest.mark.slow
def test_self_play_teaches_a_small_network_to_play_better(agent: Agent) -> None:
    learner = self_play(agent, games=32, again=32, simulations=16)
    learner.steps, learner.learning_rate = 150, 4e-3
    before = optimal(moves(Judge(agent.eval(), TICTACTOE), GAME.board.take(ASKED), 0))
    agent.train()
    for step in range(150):
        torch.manual_seed(step)
        learner.update({"update": step, "rows": 128}, step)
    after = optimal(moves(Judge(agent.eval(), TICTACTOE), GAME.board.take(ASKED), 0))
    assert after > before + 0.08
