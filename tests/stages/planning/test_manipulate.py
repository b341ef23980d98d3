"""The skill manipulate: its script, its head's laws, following and replanning, lesson, and exam."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from devmind import make_world
from devmind.acting import rollout
from devmind.agent.agent import Agent
from devmind.agent.heads import Inlet
from devmind.algorithms.diffusion.pipeline import SampledPlans
from devmind.curriculum.exam import Exam
from devmind.curriculum.examining import examination
from devmind.errors import ConfigError
from devmind.testing import check_head, tiny_agent, tiny_context
from devmind.worlds.nursery import NurseryRules
from devmind.worlds.nursery.handling import ASKED, GRASP, PUSH, PUT_IN, TASKS, held_out
from devmind.worlds.nursery.state import COLOUR_NAMES
from devmind.worlds.nursery.truth import places_by_colour
from stages.planning import parts
from stages.planning.imagining import Imaginer
from stages.planning.manipulate import exam, lesson
from stages.planning.manipulate.demonstrations import COLOURS, HORIZON, MIDDLE_M, THERE, UNIT_M, plans
from stages.planning.manipulate.head import Inverse, ManipulateHead, Reading, in_picture, in_room
from stages.reflex.stage import ReflexStage

SEEDS = np.arange(2_000_000, 2_000_016)
YELLOW, WHITE = (COLOUR_NAMES.index(name) for name in ("yellow", "white"))


def head_of(agent: Agent) -> ManipulateHead:
    head: Any = agent.head(parts.MANIPULATE)
    return head


class Knowing:
    """Stands for what is learned: true places, right plans or other rooms', and how a command moves the hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.world: Any = None
        self.others, self.misses, self.made = False, 0, 0
        monkeypatch.setattr(Reading, "forward", lambda reading, sight, words: self.places(sight))
        monkeypatch.setattr(
            Imaginer, "drawn", lambda imaginer, condition, *args, of=1, **more: self.drawn(condition[::of])
        )
        monkeypatch.setattr(Inverse, "forward", self.inverse)
        make = exam.tasks_done

        def handled(policy: Any, context: Any, task: str, seeds: np.ndarray, told: bool = False) -> np.ndarray:
            class Watched:
                def make_world(watched, *given: Any) -> Any:  # noqa: N805
                    self.world = context.make_world(*given)
                    return self.world

            def whole(senses: Any, first: np.ndarray) -> Any:
                return policy(senses, first)  # without `keep`, as what is known here is of all rooms

            return make(whole, Watched(), task, seeds, told)

        monkeypatch.setattr(exam, "tasks_done", handled)

    def places(self, sight: Tensor) -> Tensor:
        truth = self.world.truth()
        places = places_by_colour(truth | {"visible": np.full(truth["visible"].shape, 99)})
        places[..., 0] = 10 * places[..., 0] - 5
        asked = truth["colour"][np.arange(len(places)), truth["target"]]
        named = places[np.arange(len(places)), asked]
        return torch.from_numpy(np.concatenate((places, named[:, None]), 1))

    def drawn(self, condition: Tensor) -> SampledPlans:
        scene = condition[:, -2 - COLOURS :].numpy()
        metres = scene[..., :3].astype(np.float64) * UNIT_M + MIDDLE_M
        there = condition[:, -COLOURS:, 27].numpy() > 0.5
        points, words = np.zeros((len(scene), HORIZON, 5), np.float32), np.zeros((len(scene), HORIZON), np.int64)
        for row in range(len(scene)):
            task, goal = (PUSH, YELLOW) if there[row, YELLOW] else (PUT_IN, WHITE) if there[row, WHITE] else (GRASP, 0)
            position = np.stack((metres[row, 2 + goal], metres[row, 1]))[None]
            points[row], words[row] = (
                part[0] for part in plans({"position": position, "size": np.full((1, 2), 0.052)}, task)
            )
        points[: self.misses, :, 0] -= 0.5
        self.made, self.misses = self.made + len(points), 0
        if self.others:
            points[..., :2] = -points[..., :2]
        return SampledPlans(torch.from_numpy(points), torch.from_numpy(words), torch.zeros(len(points)))

    @staticmethod
    def inverse(inverse: Inverse, hand: Tensor, following: Tensor, grip: Tensor) -> Tensor:
        return torch.cat(((following - hand) * (UNIT_M / 0.1), grip), -1)


@pytest.fixture
def knowing(monkeypatch: pytest.MonkeyPatch) -> Knowing:
    return Knowing(monkeypatch)


@pytest.mark.parametrize("task", TASKS)
def test_the_script_succeeds_and_fails_with_another_rooms_truth(task: str, tmp_path: Path) -> None:
    context, script = tiny_context(tmp_path), exam.Script(task)
    assert exam.tasks_done(script, context, task, SEEDS, with_truth=True).all()

    def elsewhere(truth: Any, first: np.ndarray) -> Any:
        moved = truth | {name: np.roll(truth[name], 1, 0) for name in ("position", "size")}
        return script(moved, first)

    assert exam.tasks_done(elsewhere, context, task, SEEDS, with_truth=True).mean() < 0.3


def test_rooms_in_which_the_task_is_done_are_not_asked_about(tmp_path: Path) -> None:
    context, script, asked = tiny_context(tmp_path), exam.Script("grasp"), list[int]()

    class Doing:
        rows = np.arange(len(SEEDS))

        def make_world(self, *given: Any) -> Any:
            self.world = context.make_world(*given)
            return self.world

        def keep(self, index: np.ndarray) -> None:
            self.rows = self.rows[index]

        def __call__(self, senses: Any, first: np.ndarray) -> Any:
            asked.append(len(first))
            every = script(self.world.truth(), np.full(len(SEEDS), len(asked) == 1))
            return {name: value[self.rows] for name, value in every.items()}

    doing: Any = Doing()
    assert exam.tasks_done(doing, doing, "grasp", SEEDS).all()
    assert asked[0] == len(SEEDS)
    assert asked[-1] < len(SEEDS)


def test_symbols_name_the_thing_at_each_point() -> None:
    for task in TASKS:
        world = make_world("nursery", f"handle/{task}", SEEDS)
        truth = world.truth()
        points, words = plans(truth, task)
        places = points[..., :3] * UNIT_M + MIDDLE_M
        asked = truth["position"][:, ASKED]
        near = np.linalg.norm(places - asked[:, None], axis=-1)
        assert (near[words == 0] < 0.35).all()
        if task != PUSH:
            np.testing.assert_allclose(places[:, 1], asked, atol=1e-5)
            assert (points[:, 0, 3] == -1).all()
            assert (points[:, 1, 3] == 1).all()
        assert set(np.unique(words)) == {0, THERE, *({PUSH: {1 + YELLOW}, PUT_IN: {1 + WHITE}}.get(task, set()))}


def test_seen_places_equal_places_in_the_room() -> None:
    world = make_world("nursery", "handle/put-in", SEEDS)
    truth = world.truth()
    places = torch.from_numpy(places_by_colour(truth | {"visible": np.full(truth["visible"].shape, 99)}))
    found = in_room(places, torch.from_numpy(world.observe()["body"])).numpy()
    for row, slot in zip(*np.nonzero(truth["present"]), strict=True):
        np.testing.assert_allclose(found[row, truth["colour"][row, slot]], truth["position"][row, slot], atol=1e-4)


def test_a_plan_is_drawn_at_the_thing_in_the_picture() -> None:
    """By the renderer: the pixel there changes when the thing is removed."""
    rules = NurseryRules("handle/push")
    state = rules.initial(SEEDS)
    without = state.copy()
    without.present[:, ASKED] = False
    changed = (rules.picture(state) != rules.picture(without)).any(-1)
    x, y = in_picture(state.position[:, ASKED]).T
    height, width = changed.shape[1:]
    row, column = (height / 2 + y * width / 2).astype(int), (width / 2 * (1 + x)).astype(int)
    assert changed[np.arange(len(SEEDS)), row, column].mean() >= 15 / 16  # the hand may be in front of one
    behind = in_picture(np.array([[-0.5, 0.1, 0.0], [0.0, 0.0, -0.4]]))
    assert np.isfinite(behind).all()
    assert (np.abs(behind) >= 1).any(1).all()


def test_the_head_keeps_the_laws_of_heads(agent: Agent) -> None:
    target = {
        "points": torch.zeros(3, 2, HORIZON, 5),
        "words": torch.zeros(3, 2, HORIZON, dtype=torch.int64),
        "places": torch.zeros(3, 2, COLOURS + 1, 4),
        "hand": torch.zeros(3, 2, 3),
        "command": torch.zeros(3, 2, 4),
    }
    check_head(head_of(agent), target)
    with pytest.raises(ConfigError, match="'sight', 'words', 'raw:body'"):
        ManipulateHead(Inlet(32, 3))
    with pytest.raises(ConfigError, match="same slots and width"):
        head_of(agent).start_from(agent.head(parts.TRADE))


def test_the_head_starts_from_the_reflexes_reading() -> None:
    agent = tiny_agent()
    ReflexStage().admit(agent)
    other: Any = agent.head(parts.WHEREABOUTS)
    parts.admit(agent)
    sight, words = (torch.randn(3, n, other.inlet.width) for n in (16, 4))
    torch.testing.assert_close(head_of(agent).read(sight, words), other.places(sight, words).places)


@pytest.mark.parametrize("task", TASKS)
def test_right_plans_are_followed_to_the_end(agent: Agent, knowing: Knowing, tmp_path: Path, task: str) -> None:
    context = tiny_context(tmp_path)
    assert exam.tasks_done(exam.handler(agent, len(SEEDS)), context, task, SEEDS).mean() > 0.9
    assert knowing.made < 3 * len(SEEDS)
    knowing.others = True
    assert exam.tasks_done(exam.handler(agent, len(SEEDS)), context, task, SEEDS).mean() < 0.3


def test_a_hand_that_closes_on_nothing_replans_at_once(agent: Agent, knowing: Knowing) -> None:
    knowing.misses = len(SEEDS)
    world = knowing.world = make_world("nursery", "handle/grasp", SEEDS)
    actor, at, made = exam.handler(agent, len(SEEDS)), [], []
    for _ in rollout(actor, world, 14):
        kept = actor.state.carry[f"head.{parts.MANIPULATE}"]
        at.append(kept["at"].numpy())
        made.append(kept["made"].numpy())
    assert np.stack(at)[np.stack(made) == 1].max() == 2
    assert (made[-1] >= 2).all()


def test_the_head_does_not_answer_without_a_request(agent: Agent, knowing: Knowing) -> None:
    world = knowing.world = make_world("nursery", "handle/grasp", SEEDS)
    actor = exam.handler(agent, len(SEEDS), ["words"])
    for tick in rollout(actor, world, 3):
        assert all((value == 0).all() for value in tick.actions.values())
    assert knowing.made == 0


def test_the_lesson_shows_nothing_that_is_held_out() -> None:
    data = lesson.rooms(0, lesson.ROOMS["tiny"], make_world)
    assert len(data["sight"]) < 3 * lesson.ROOMS["tiny"]
    blue_or_green = np.isin(data["named"][:, 0], [ord("b"), ord("g")])
    left = data["places"][:, -1, 1] > 0
    assert blue_or_green.any()
    assert not (blue_or_green & left & (data["places"][:, -1, 0] > 0)).any()
    assert held_out(make_world("nursery", "handle/grasp", np.arange(200)).truth()).mean() > 0.1


def examined(agent: Agent, tmp_path: Path, of: Any = Exam.alone, scale: float = 0.05) -> dict[str, Any]:
    context = tiny_context(tmp_path, f"exam.episodes_scale={scale}")
    with examination(agent):
        return {measure.name: measure for measure in of(exam.examine(agent, context))}


def test_right_plans_pass_and_plans_shuffled_among_rooms_do_not(agent: Agent, knowing: Knowing, tmp_path: Path) -> None:
    best = examined(agent, tmp_path, scale=0.08)
    assert all(measure.score >= 0.9 for measure in best.values())
    knowing.others = True
    worse = examined(agent, tmp_path, scale=0.08)
    assert not any(decision.passed for decision in exam.GATE.judge(worse).decisions)


@pytest.mark.slow
def test_the_full_exam_has_floors_rows_and_a_ceiling(
    agent: Agent, knowing: Knowing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No head can be made while `knowing` replaces the heads' reading.
    monkeypatch.setattr(parts, "untrained_agent", lambda agent: agent)
    for measure in examined(agent, tmp_path, Exam.in_full).values():
        assert measure.ceiling == 1.0
        assert measure.chance < 0.5
        assert {"words off", "sight off", "the trunk's features silenced"} <= set(measure.rows)
        assert measure.rows["words off"] == measure.rows["sight off"] == 0.0
    assert not head_of(agent).silenced


def test_the_untaught_agent_has_the_same_size_and_parts(agent: Agent) -> None:
    newborn = parts.untrained_agent(agent)
    assert newborn.config.size == agent.config.size
    assert not newborn.training
    assert parts.MANIPULATE in newborn.heads
