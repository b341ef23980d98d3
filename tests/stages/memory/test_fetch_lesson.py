"""The lesson of reaching for hidden things: its questions, its targets, and that beliefs teach it."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch

from devmind.agent.agent import Agent
from devmind.agent.tracker import direction
from devmind.curriculum.stage import Context
from devmind.learners.gradient import trainable
from devmind.testing import tiny_agent, tiny_context
from devmind.testing.laws import ATOL
from devmind.worlds.nursery.fetching import ASKS_FROM, SEEN_TICKS
from stages.memory.blocks import latest
from stages.memory.fetch import episodes, lesson
from stages.memory.stage import MemoryStage
from stages.reflex.stage import ReflexStage

UPDATES = 60


@pytest.fixture(scope="module")
def agent() -> Agent:
    agent = tiny_agent()
    for stage in (ReflexStage(), MemoryStage()):
        stage.admit(agent)
        agent.config.stages.append(stage.name)
    return agent.eval()


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Context:
    return tiny_context(tmp_path_factory.mktemp("fetch"))


@pytest.fixture(scope="module")
def pool(agent: Agent, context: Context) -> list[episodes.Lives]:
    """Lives with true beliefs: an untrained eye believes nothing."""
    lives = [dict(some) for some in episodes.lives(agent, context, episodes.HIDDEN, range(3), 4)]
    for some in lives:
        place, things = some["place"].numpy(), some["things"].numpy()
        azimuth, elevation, distance = direction(place)
        values = torch.zeros_like(some["values"])
        values[..., :8] = torch.nn.functional.one_hot(some["colour"], 8)[:, None]
        for column, value in zip((8, 9, 10), (azimuth / 30, elevation / 30, np.log(distance.clip(0.05))), strict=True):
            values[..., column] = torch.from_numpy(value)
        values[..., 12] = 1.0
        some["valid"] = torch.from_numpy(things)[:, None].expand(some["valid"].shape).clone()
        some["values"] = values * some["valid"][..., None]
    return lives


def test_the_target_goes_sideways_first_and_then_forwards() -> None:
    place = np.array([[0.5, 0.2, -0.2]] * 3)
    hand = np.array([[0.3, -0.1, -0.3], [0.3, 0.185, -0.2], [0.55, -0.1, -0.2]])
    aside, ahead, back = episodes.command_towards(place, hand)
    assert aside.tolist() == pytest.approx([0.0, 1.0, 1 / 3, -1.0])
    assert ahead.tolist() == pytest.approx([1.0, 0.15 / 1.8, 0.0, -1.0], abs=1e-6)
    assert back[0] < -0.5, "beside something, the hand first comes back"
    assert back[1] == 1.0


@pytest.mark.parametrize("hidden", [True, False])
def test_unseen_hands_are_anywhere_and_the_body_tells_where(
    agent: Agent, pool: list[episodes.Lives], monkeypatch: pytest.MonkeyPatch, hidden: bool
) -> None:
    noted: dict[str, Any] = {}
    real_hands, real_clip = lesson.hands, lesson.clip

    def hands(place: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        noted.update(place=place, hand=real_hands(place, rng))
        return noted["hand"]

    def clip(senses: dict[str, torch.Tensor]) -> dict[str, Any]:
        noted.update(senses)
        return real_clip(senses)

    monkeypatch.setattr(lesson, "hands", hands)
    monkeypatch.setattr(lesson, "clip", clip)
    batch = lesson.alone(agent, pool, 400, np.random.default_rng(0), np.eye(8), hidden)
    felt, told = noted["body"][:, 0].numpy(), batch["recalled"]["valid"][:, 0, 0].numpy()
    assert told.mean() == pytest.approx(1.0 if hidden else 1 - lesson.BLANK, abs=0.08)
    assert batch["seen"].encoded["sight"].tokens.shape[:2] == (400, 1)
    lived = {tuple(body) for some in pool for body in some["body"].flatten(0, 1)[:, lesson.HAND].numpy()}
    assert all((tuple(body) in lived) != hidden for body in felt[:, lesson.HAND])
    if hidden:
        np.testing.assert_allclose(felt[:, lesson.HAND] * lesson.HAND_SCALE_M, noted["hand"], atol=ATOL)
        assert (felt[:, lesson.TOUCHES] == 0).all()
        assert batch["asked"].all()
        aside = np.abs(noted["place"] - noted["hand"])[:, 1:].max(1)
        assert 0.4 < (aside < 0.08).mean() < 0.7, "about half are before the thing"
        azimuth = direction(noted["place"])[0] / 30
        first = batch["recalled"]["senses"]["belief"][:, 0, 0]
        np.testing.assert_allclose(first[:, 8], azimuth, atol=1e-5, err_msg="what is named comes first")


def test_the_teacher_is_the_arc_with_the_things_still_in_view(agent: Agent, pool: list[episodes.Lives]) -> None:
    some = episodes.draw_lives(pool, np.zeros(4, np.int64), np.arange(4))
    tokens = episodes.tokens_of(some, agent.device)
    said = lesson.as_if_seen(agent, tokens, some)
    one = {name: encoded.map(lambda x: x[:, -1]) for name, encoded in tokens.items()}
    one["sight"] = tokens["sight"].map(lambda x: x[:, SEEN_TICKS - 1])
    wanted = agent.run_heads(["reach_arc"], one)["reach_arc"].mode().clamp(-1, 1)
    torch.testing.assert_close(said[:, -1], wanted)
    blind = lesson.as_if_seen(agent, tokens, None)
    assert not torch.allclose(said[:, -1], blind[:, -1], atol=1e-7), "it is not shown the screen"
    torch.testing.assert_close(said[:, SEEN_TICKS - 1], blind[:, SEEN_TICKS - 1])


def test_whole_lives_are_asked_from_the_question_to_the_first_touch(agent: Agent, pool: list[episodes.Lives]) -> None:
    lives = [{**some, "touched": some["touched"].clone()} for some in pool]
    for some in lives:
        some["touched"][:] = False
        some["touched"][:, ASKS_FROM + 3] = True  # and from then on, whatever is touched later
    batch = lesson.whole(agent, lives, 5, np.random.default_rng(1), hidden=True)
    ticks = torch.arange(episodes.TICKS)
    assert torch.equal(batch["asked"], ((ticks >= ASKS_FROM) & (ticks < ASKS_FROM + 3)).expand(5, -1))
    assert batch["first"][:, 0].all()
    assert not batch["first"][:, 1:].any()
    assert torch.equal(batch["seen"].encoded["words"].present.any(-1), (ticks >= ASKS_FROM).expand(5, -1))
    assert (pool[0]["hand"][:, : ASKS_FROM + 1] == pool[0]["hand"][:, :1]).all(), "until then the hand is held"


def test_a_batch_is_a_function_of_its_update_and_plays_nothing_twice(agent: Agent, context: Context) -> None:
    one, again = (lesson.lesson_batch(agent, context, 9, 2, 12) for _ in range(2))
    assert torch.equal(one["hidden"]["hand"], again["hidden"]["hand"])
    assert not torch.equal(one["hidden"]["hand"], lesson.lesson_batch(agent, context, 10, 2, 12)["hidden"]["hand"])
    assert set(lesson.lesson_batch(agent, context, 1, 2, 12)) == {"hidden", "seen"}
    assert set(lesson.lesson_batch(agent, context, 10, 2, 12)) == {"hidden", "seen", "whole hidden", "whole seen"}
    played: list[int] = []

    def play(block: int) -> int:
        played.append(block)
        return block

    assert [latest(agent, "mine", key, blocks, play) for key, blocks in ((0, range(2)), (0, range(1, 3)))] == [
        [0, 1],
        [1, 2],
    ]
    latest(agent, "others", 0, range(1), play)
    latest(agent, "mine", 1, range(2, 3), play)
    assert played == [0, 1, 2, 0, 2]


def test_the_answering_layers_have_their_own_learning_rate(agent: Agent) -> None:
    learner = lesson.FetchLearner(
        agent, lesson.loss, seed=0, learning_rate=1e-3, steps=10, trains=trainable(agent, "memory")
    )
    rates = {id(p): group["rate"] for group in learner.optimizer.param_groups for p in group["params"]}
    of = {name: rates[id(p)] for name, p in agent.named_parameters() if id(p) in rates}
    assert of["heads.reach_trunk.more.0.weight"] == pytest.approx(lesson.FetchLearner.answer_rate)
    assert of["heads.reach_trunk.inner.answer.0.weight"] == pytest.approx(lesson.FetchLearner.answer_rate)
    assert all(rate == pytest.approx(1e-4) for name, rate in of.items() if ".inner.places." in name)
    assert not any(name.startswith(("encoders.sight", "heads.reach_arc")) for name in of)


def test_a_small_run_teaches_the_trunk_and_its_head_from_beliefs(agent: Agent, pool: list[episodes.Lives]) -> None:
    agent = copy.deepcopy(agent)
    torch.manual_seed(0)
    for part in (agent.trunk, agent.head("reach_arc"), agent.head("reach_trunk")):  # which start at zero
        for parameter in part.parameters():
            torch.nn.init.normal_(parameter, std=0.3)
    batch = lesson.alone(agent, pool, 24, np.random.default_rng(3), np.eye(8), hidden=True)
    assert batch["hand"].std() > 0.05
    trains = trainable(agent, "memory")
    learner = lesson.FetchLearner(agent, lesson.loss, seed=0, learning_rate=3e-3, steps=UPDATES, trains=trains)
    learner.begin(0)
    agent.train()
    before = {name: value.clone() for name, value in agent.state_dict().items()}
    misses = []
    for update in range(UPDATES):
        torch.manual_seed(update)
        misses.append(float(learner.update({"hidden": batch}, update)["hidden"]))
    learner.end()
    assert misses[-1] < 0.6 * misses[0]
    changed = {name for name, value in agent.state_dict().items() if not torch.equal(value, before[name])}
    assert all(name.startswith(trains) for name in changed)
    wanted = ("trunk.decoder.layers.", "encoders.belief.", "heads.reach_trunk.inner.answer.", "heads.reach_trunk.more.")
    assert all(any(name.startswith(prefix) for name in changed) for prefix in wanted)
    blank = {**batch, "recalled": {**batch["recalled"], "valid": torch.zeros_like(batch["recalled"]["valid"])}}
    with torch.no_grad():
        assert lesson.loss(agent, {"hidden": blank})[0] > misses[-1], "what comes to mind has a part in it"
