"""Search in a model learned from trajectories: the head, its training pieces, the lesson and the exam."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from devmind.agent.agent import Agent
from devmind.agent.heads import Inlet
from devmind.testing import tiny_agent, tiny_context
from devmind.worlds.boards import MnkRules
from stages.reasoning import parts
from stages.reasoning.games import TICTACTOE
from stages.reasoning.imagine import exam, lesson
from stages.reasoning.imagine.head import Imagined, ImagineHead
from stages.reasoning.imagine.lesson import DRILLS, DreamLearner, Drill
from stages.reasoning.imagine.search import BOARD_HEAD, DOMAINS, choose_actions, dream
from stages.reasoning.imagine.trajectories import CUT, GOING, OVER, Trajectories
from stages.reasoning.solver import solve


def test_imagined_outputs_have_the_right_shapes_and_depend_on_the_action() -> None:
    head = ImagineHead(Inlet(width=16, n_tokens=8), classes=9, latent=12, hidden=32)
    latent = torch.randn(4, 12)
    left, right = (head.imagine(latent, torch.full((4,), action)) for action in (0, 5))
    for output, reward in (left, right):
        assert isinstance(output, Imagined)
        assert output.latent.shape == (4, 12)
        assert output.logits.shape == (4, 9)
        assert output.value.shape == reward.shape == (4,)
        assert torch.allclose(output.latent.mean(-1), torch.zeros(4), atol=1e-5)
    assert (left[0].latent - right[0].latent).abs().max() > 1e-3


def test_a_search_finds_what_only_the_model_knows(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    """Action 3 earns 1 by the model alone; policy and value are uniform, so only looking ahead finds it."""
    head, domain = agent.head(BOARD_HEAD), DOMAINS["tictactoe"]
    assert isinstance(head, ImagineHead)

    def known(latent: torch.Tensor, action: torch.Tensor) -> tuple[Imagined, torch.Tensor]:
        n = len(action)
        return Imagined(latent, torch.zeros(n, 9), torch.zeros(n)), (action == 3).float()

    monkeypatch.setattr(
        head, "predict", lambda latent: Imagined(latent, torch.zeros(*latent.shape[:-1], 9), latent[..., 0] * 0)
    )
    monkeypatch.setattr(head, "imagine", known)
    rules = MnkRules("tictactoe")
    board = rules.initial(np.zeros(2))
    observed, legal = np.asarray(rules.observe(board)["position"]), rules.legal(board)["place"].copy()
    assert choose_actions(agent, replace(domain, discount=0.0), observed, legal, 32).tolist() == [3, 3]
    assert choose_actions(agent, domain, observed, legal, 0).tolist() == [0, 0]
    legal[1, 3] = False
    found = dream(agent, replace(domain, discount=0.0), observed, legal, 32)
    assert found.action[0] == 3
    assert found.action[1] != 3
    assert found.weights[1, 3] == 0
    assert not found.proven.any()  # a model may err, so it proves nothing


def by_hand(met: Trajectories, t: int, row: int) -> float:
    """The target of a value, computed step by step."""
    total, factor = 0.0, 1.0
    for step in range(met.n_step):
        here = (t + step) % met.ticks, row
        if met.columns["ended"][here] == CUT:
            return total + factor * met.columns["value"][here]
        total += factor * met.columns["reward"][here]
        if met.columns["ended"][here] == OVER:
            return total
        factor *= met.discount
    return total + factor * met.columns["value"][(t + met.n_step) % met.ticks, row]


def met_by_chance(ticks: int, rows: int, discount: float, n_step: int) -> Trajectories:
    rng, met = np.random.default_rng(0), Trajectories(ticks, discount, n_step)
    for tick in range(ticks + 17):
        met.add(
            observed=np.full((rows, 1), tick), action=rng.integers(0, 3, rows), reward=rng.normal(size=rows),
            ended=rng.choice([GOING, OVER, CUT], rows, p=[0.7, 0.2, 0.1]), weights=rng.random((rows, 3)),
            value=rng.normal(size=rows),
        )  # fmt: skip
    return met


@pytest.mark.parametrize(("discount", "n_step"), [(-1.0, 9), (0.9, 3)])
def test_pieces_equal_a_hand_computation(discount: float, n_step: int) -> None:
    met, unroll = met_by_chance(40, 6, discount, n_step), 4
    pieces = met.draw(300, unroll, np.random.default_rng(1))
    ends = set()
    for n in range(300):
        t = int(pieces["observed"][n, 0])
        assert met.count - 40 <= t < met.count - unroll - n_step
        assert pieces["later"][n, 0] == t + pieces["ahead"][n]
        (row,) = {
            row
            for row in range(6)
            if all(met.columns["weights"][(t + k) % 40, row, 0] == pieces["weights"][n, k, 0] for k in range(unroll))
        }
        alive, known = True, True
        for k in range(unroll + 1):
            assert pieces["alive"][n, k] == alive
            assert pieces["known"][n, k] == known
            assert pieces["value"][n, k] == pytest.approx(by_hand(met, t + k, row) if alive else 0.0)
            if k == unroll:
                break
            here = (t + k) % 40, row
            assert pieces["reward"][n, k] == (met.columns["reward"][here] if alive else 0.0)
            assert pieces["action"][n, k] == met.columns["action"][here]
            if alive and (ended := int(met.columns["ended"][here])) != GOING:
                ends.add(ended)
                alive, known = False, ended == OVER
        assert pieces["followed"][n] == pieces["alive"][n, pieces["ahead"][n]]
    assert ends == {OVER, CUT}


def test_there_are_no_pieces_before_their_targets_are_known() -> None:
    met = Trajectories(40, 1.0, 3)
    for _ in range(8):
        assert met.pieces(5) == 0
        met.add(observed=np.zeros((2, 1)), action=np.zeros(2, int), ended=np.zeros(2, int))
    met.add(observed=np.zeros((2, 1)), action=np.zeros(2, int), ended=np.zeros(2, int))
    assert met.pieces(5) == 1


@pytest.mark.slow
def test_the_learned_model_keeps_the_pole_up_longer(tmp_path: Path) -> None:
    agent, context = tiny_agent(), tiny_context(tmp_path)
    parts.admit(agent)
    agent.config.stages = ["reasoning"]
    (floor,) = exam._cartpole(agent, context).alone()
    drills = {"cartpole": Drill(rows=8, ticks=12, capacity=300, steps=6, batch=64)}
    learner = DreamLearner(agent, context, drills, learning_rate=2e-3)
    learner.steps, losses = 60, []
    for step in range(60):
        losses.append(
            float(learner.update({"world": "cartpole", "rows": 64, "update": step}, step).get("cartpole/reward", 1))
        )
    assert losses[-1] < 0.1  # it predicts falling
    (taught,) = exam._cartpole(agent.eval(), context).alone()
    assert taught.score > 2 * floor.score
    assert (taught.episodes == floor.episodes).all()


def test_the_lesson_trains_all_of_both_heads_and_the_trunk_only_by_boards(tmp_path: Path) -> None:
    agent, context = tiny_agent(), tiny_context(tmp_path)
    parts.admit(agent)
    agent.config.stages = ["reasoning"]
    learner = lesson.lesson(context).make_learner(agent, context)
    assert isinstance(learner, DreamLearner)
    for name, reaches in (("tictactoe", True), ("cartpole", False)):
        agent.zero_grad()
        learner.lives[name].act(agent, 24)
        pieces = learner.lives[name].replay.draw(8, lesson.UNROLL, np.random.default_rng(0))
        loss, _ = learner.loss_of(agent, {"world": name, "pieces": pieces})
        loss.backward()
        of_trunk = [p.grad for n, p in agent.named_parameters() if n.startswith("trunk.") and p.grad is not None]
        assert any(bool(grad.abs().sum() > 0) for grad in of_trunk) == reaches
        head = agent.head(DOMAINS[name].head)
        assert all(p.grad is not None and bool(p.grad.abs().sum() > 0) for p in head.parameters())
    assert set(DRILLS) == set(DOMAINS)


def examined(patch: pytest.MonkeyPatch, folder: Path, agent: Agent, shuffled: bool) -> dict[str, float]:
    """Scores of a player that knows the best moves, or gives each position another one's."""
    game = solve(TICTACTOE.rules)

    def tell(agent: Agent, game_: object, asked: np.ndarray, simulations: int) -> np.ndarray:
        choice = np.zeros(len(game), np.int64)
        best = game.best[asked].argmax(-1)
        choice[asked] = np.random.default_rng(3).permutation(best) if shuffled else best
        legal = game.child[asked, choice[asked]] >= 0
        choice[asked] = np.where(legal, choice[asked], (game.child[asked] >= 0).argmax(-1))
        return choice

    patch.setattr(exam, "_played", tell)
    found = exam._games(agent, tiny_context(folder)).in_full()
    return {one.name: one.score for one in found}


def test_known_moves_reach_the_ceiling_and_shuffled_ones_fall(agent: Agent, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        best = examined(patch, tmp_path, agent, shuffled=False)
        worse = examined(patch, tmp_path, agent, shuffled=True)
    assert best[exam.BOARD] == 1.0
    assert best[exam.GAMES] > 0.85
    assert worse[exam.BOARD] < 0.75
    assert worse[exam.GAMES] < best[exam.GAMES] - 0.2


def test_the_exam_reports_goals_and_gates_nothing(agent: Agent, tmp_path: Path) -> None:
    found = {one.name: one for one in exam.examine(agent, tiny_context(tmp_path)).in_full()}
    assert set(found) == {threshold.measure for threshold in exam.GATE.thresholds}
    for measure in found.values():
        assert {exam.ALONE, exam.UNTAUGHT, "random"} <= set(measure.floors)
    assert exam.GATE.judge(found).passed  # an untaught agent misses goals, and no gate fails
