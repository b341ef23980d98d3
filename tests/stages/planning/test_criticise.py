"""Plans with and without a flaw, the judge that tells them apart, its lesson and its exam."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from devmind import make_world
from devmind.agent.agent import Agent
from devmind.curriculum.examining import examination
from devmind.learners.gradient import GradientLearner
from devmind.seeding import exam_seeds, numpy_rng
from devmind.testing import check_head, tiny_agent, tiny_context
from devmind.testing.laws import ATOL
from devmind.worlds.pointmaze import UNIT, maze
from stages.planning import parts
from stages.planning.criticise import exam, lesson
from stages.planning.criticise.drafts import FARTHEST, Drafts, drafts
from stages.planning.judge import BLOCKED, COLLISION, LATE, REASONS, UNREACHABLE, JudgeHead, Judgement, draft
from stages.planning.parts import HORIZON, STRIDE
from stages.planning.reinforce.plans import holding
from stages.planning.route import trips

pytest.importorskip("ogbench")


@pytest.fixture(scope="module")
def walked() -> list[trips.Trips]:
    return [trips.make_trips("medium", 0, 4_000)]


@pytest.fixture(scope="module")
def told(walked: list[trips.Trips]) -> Drafts:
    return drafts(walked, 300, np.random.default_rng(1))


@pytest.fixture(scope="module")
def agent() -> Agent:
    agent = tiny_agent()
    parts.admit(agent)
    return agent.eval()


def points(told: Drafts) -> np.ndarray:
    return told.draft[:, : 2 * HORIZON].reshape(-1, HORIZON, 2)


def test_each_plan_has_only_its_named_flaw_and_the_maze_confirms_it(told: Drafts) -> None:
    late, far = exam.arithmetic(told)
    found = {
        COLLISION: (told.hit > 0).any(1), BLOCKED: (told.stuck > 0).any(1), UNREACHABLE: far, LATE: late
    }  # fmt: skip
    for reason, has in found.items():
        assert 15 < (told.reason == 1 + reason).sum() < 65
        assert has[told.reason == 1 + reason].all(), REASONS[reason]
        assert not has[told.reason == 0].any(), f"a sound plan: {REASONS[reason]}"
        others = told.flawed & (told.reason != 1 + reason)
        assert not has[others].any(), f"a plan with another flaw: {REASONS[reason]}"
    assert 110 < (told.reason == 0).sum() < 190


def test_labels_of_strides_and_moves_end_with_the_plan(told: Drafts) -> None:
    strides = np.linalg.norm(np.diff(points(told), axis=1), axis=2)
    assert (told.hit[strides > FARTHEST] == -1).all(), "nobody can say what a leap runs into"
    words = told.draft[:, 2 * HORIZON : 3 * HORIZON]
    assert (told.stuck[words == 0] <= 0).all(), "who stays in a cell needs no way"
    for row in told.stuck[(told.stuck > 0).any(1)]:
        assert (row[int(np.argmax(row)) + 1 :] == -1).all(), "behind a move without a way nothing is known"


def test_a_draft_encodes_its_plan(told: Drafts) -> None:
    sound = told.reason == 0
    goal, maze = told.draft[:, -7:-5], told.draft[:, -5:-1]
    np.testing.assert_allclose(points(told)[sound, -1], goal[sound], atol=ATOL)
    assert (maze.sum(1) == 1).all()
    takes = STRIDE * (np.linalg.norm(np.diff(points(told), axis=1), axis=2) > 0.02).sum(1)
    assert (1000 * told.draft[sound, -1] > takes[sound]).all()


def test_the_judge_keeps_the_laws_of_heads_and_locates_the_flaw(agent: Agent, told: Drafts) -> None:
    head = agent.head(parts.JUDGE)
    assert isinstance(head, JudgeHead)
    six = slice(0, 6)
    target = {
        name: torch.from_numpy(getattr(told, name)[six]).unflatten(0, (3, 2)) for name in ("hit", "stuck", "reason")
    }
    check_head(head, target)
    low = torch.full((4, HORIZON - 1), -9.0), torch.full((4, HORIZON), -9.0), torch.full((4, 2), -9.0)
    strides, moves, whole = (part.clone() for part in low)
    strides[0, 7], moves[1, 3], whole[2, 1] = 9.0, 9.0, 9.0
    judged = Judgement(strides, moves, whole)
    assert judged.mode().tolist() == [1 + COLLISION, 1 + BLOCKED, 1 + LATE, 0]
    assert judged.where().tolist() == [7, 3, -1, -1]
    assert judged.verdict(0) == "judged to fail: collision at stride 8 (100 % sure that it fails)"
    assert judged.verdict(2) == "judged to fail: over budget (100 % sure that it fails)"
    assert judged.verdict(3).startswith("judged sound (")
    torch.testing.assert_close(judged.flawed(), torch.tensor([1.0, 1.0, 1.0, 0.0]), atol=1e-2, rtol=0)


def test_moves_lead_through_the_cells_of_the_maze(agent: Agent, told: Drafts) -> None:
    head = agent.head(parts.JUDGE)
    assert isinstance(head, JudgeHead)
    sound = torch.from_numpy(told.draft[told.reason == 0])
    corners = head._corners(sound[:, :2], sound[:, 2 * HORIZON : 3 * HORIZON])
    goal = sound[:, -7:-5]
    full = (sound[:, 3 * HORIZON - 1] == 0).numpy()  # longer ones are cut
    away = (corners[:, -1] - goal).abs().amax(1)[full]
    assert (away <= 0.2 + 1e-5).float().mean() > 0.95, "the last cell is the goal's"


@pytest.mark.slow
def test_a_short_lesson_tells_flaws_of_new_trips(agent: Agent, walked: list[trips.Trips]) -> None:
    learner = GradientLearner(agent, lesson.loss, seed=0, learning_rate=4e-3, trains=("heads.judge.",))
    learner.steps = 150
    learner.begin(0)
    agent.train()
    made = [lesson.batch(drafts(walked, 64, numpy_rng("test", n))) for n in range(50)]
    for step in range(learner.steps):
        learner.update(made[step % len(made)], step)
    asked = drafts([trips.make_trips("medium", 0, 4_000, exam_seeds)], 300, np.random.default_rng(2))
    with examination(agent):
        judged = exam.judge(agent, asked.draft)
    assert exam.above(judged.flawed().numpy(), asked).mean() > 0.85
    right = (judged.mode().numpy() == asked.reason)[asked.flawed]
    assert right.mean() > 0.6
    easy = asked.reason == 1 + LATE
    assert (judged.mode().numpy() == asked.reason)[easy].mean() > 0.9


def test_known_flaws_are_right_and_shuffled_answers_are_at_chance(agent: Agent, tmp_path, monkeypatch) -> None:
    context = tiny_context(tmp_path / "run", "exam.episodes_scale=1")

    def scores(shuffle: bool) -> dict[str, float]:
        told = exam.exam_drafts(context, context.episodes(exam.PLANS // 5))

        def judge(agent: Agent, draft: np.ndarray) -> Judgement:
            assert np.array_equal(draft, told.draft)
            order = numpy_rng("shuffled").permutation(len(draft)) if shuffle else np.arange(len(draft))
            reason = torch.from_numpy(told.reason[order])
            known = 18.0 * torch.nn.functional.one_hot(reason, 1 + len(REASONS))[:, 1:] - 9.0
            return Judgement(known[:, :1], known[:, 1:2], known[:, 2:])

        monkeypatch.setattr(exam, "judge", judge)
        return {measure.name: measure.score for measure in exam.examine(agent, context.glimpse()).alone()}

    with examination(agent):
        assert scores(shuffle=False) == {exam.TOLD: 1.0, exam.REASON: 1.0}
        shuffled = scores(shuffle=True)
    assert abs(shuffled[exam.TOLD] - 0.5) < 0.1
    assert shuffled[exam.REASON] < 0.25


def test_single_rules_name_some_reasons_and_an_untaught_judge_none(tmp_path) -> None:
    untaught = tiny_agent()
    parts.admit(untaught)
    with examination(untaught):
        found = {m.name: m for m in exam.examine(untaught, tiny_context(tmp_path, "exam.episodes_scale=0.4")).in_full()}
    for floor in found[exam.REASON].floors.values():
        assert 0.1 < floor < 0.7
    assert not exam.GATE.judge(found).passed
    assert abs(found[exam.TOLD].score - 0.5) < 0.25


def test_the_planners_own_plans_are_judged_against_the_maze(
    agent: Agent, tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A judge that knows the walls tells the planner's own plans apart, whatever made-up flaws it was taught."""
    rng, where = np.random.default_rng(3), maze("medium")
    free = where.centres(where.free) / UNIT
    still = np.repeat(free[rng.integers(len(free), size=(40, 1))], HORIZON, 1)  # a point that stands still hits no wall
    across = still + np.linspace(0, 1, HORIZON)[:, None] * np.array([9.0, 9.0])
    points = np.concatenate((still, across)).astype(np.float32)
    assert holding("medium", points).tolist() == [True] * 40 + [False] * 40
    shown = [draft(one, np.zeros(HORIZON), one[-1], trips.one_hot("medium"), 1000) for one in points]
    marks = rng.permutation(80).astype(float)
    monkeypatch.setattr(exam, "_candidates", lambda agent, senses: (points, np.stack(shown), marks))

    def judge(agent: Agent, draft: np.ndarray) -> Judgement:
        told = torch.full((len(draft), HORIZON - 1), -9.0)
        told[40:, 11] = 9.0
        return Judgement(told, torch.zeros(len(draft), HORIZON), torch.zeros(len(draft), 2))

    monkeypatch.setattr(exam, "judge", judge)
    rows = exam._of_the_planner(agent, tiny_context(tmp_path))
    assert rows.pop("the planner's own plans in medium: through a wall, by the judge") == 1.0
    assert abs(rows.pop("the planner's own plans in medium: through a wall, by the critic of strides") - 0.5) < 0.2
    assert rows == {"the planner's own plans in medium: through no wall": 0.5}


def test_the_planners_candidates_are_shown_whole(agent: Agent) -> None:
    senses = make_world("pointmaze", "medium", [3, 4]).observe()
    points, shown, marks = exam._candidates(agent, senses)
    n = len(points) // 2
    assert shown.shape == (2 * n, 3 * HORIZON + 7)
    np.testing.assert_allclose(points[:n, 0], np.repeat(senses["body"][:1], n, 0), atol=1e-5)
    np.testing.assert_array_equal(shown[n:, -7:-5], np.repeat(senses["goal"][1:], n, 0))
    np.testing.assert_array_equal(shown[:, : 2 * HORIZON], points.reshape(2 * n, -1))
    assert marks.shape == (2 * n,)
