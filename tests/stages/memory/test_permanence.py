"""Batches and questions of hidden things: lessons teach what stepping sees, and exams ask every room."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest
import torch

from devmind import worlds
from devmind.agent.agent import Agent
from devmind.agent.config import AgentConfig
from devmind.agent.tracker import recalled_batch
from devmind.config import RunConfig
from devmind.curriculum.stage import Context
from devmind.learners.gradient import trainable
from devmind.worlds.nursery import hiding
from stages.memory import parts
from stages.memory.lessons import lessons
from stages.memory.parts import BELIEF_NUMBERS
from stages.memory.permanence import detections, episodes, exam, lesson
from stages.reflex import parts as reflex


@pytest.fixture(scope="module")
def context() -> Context:
    return Context(RunConfig(size="tiny"), 0, "cpu", Path("unused"), worlds.make)


@pytest.fixture(scope="module")
def agent() -> Agent:
    agent = Agent(AgentConfig(size="tiny")).eval()
    reflex.admit(agent)
    parts.admit(agent)
    return agent


@pytest.fixture(scope="module")
def batch(agent: Agent, context: Context) -> dict:
    return lesson.lesson_batch(agent, context, 1, 4)


def test_the_new_head_starts_as_whereabouts_and_leaves_it_unchanged(agent: Agent) -> None:
    old, new = agent.head("whereabouts").state_dict(), agent.head("things").state_dict()
    assert all(torch.equal(old[name], new[name]) for name in old)
    assert "heads.whereabouts." not in " ".join(trainable(agent, parts.NAME) + detections.TRAINS)


def test_a_batch_is_a_function_of_its_update(agent: Agent, context: Context, batch: dict) -> None:
    lesson.lesson_batch(agent, context, 5, 4)  # other episodes in between
    again = lesson.lesson_batch(agent, context, 1, 4)
    assert torch.equal(batch["senses"]["sight"], again["senses"]["sight"])
    assert torch.equal(batch["recalled"]["senses"]["belief"], again["recalled"]["senses"]["belief"])
    assert torch.equal(batch["place"], again["place"])
    assert not torch.equal(batch["alone"]["place"], lesson.lesson_batch(agent, context, 2, 4)["alone"]["place"])


def test_episodes_of_several_lengths_are_padded_behind_their_end(agent: Agent, context: Context) -> None:
    batch = lesson.lesson_batch(agent, context, 23, 8)  # eight blocks later, one with other delays
    lengths = batch["valid"].sum(1)
    assert len(lengths.unique()) > 1
    assert torch.equal(batch["valid"], torch.arange(batch["valid"].shape[1]) < lengths[:, None])
    assert not (batch["asked"] & ~batch["valid"]).any()
    assert not (batch["lost"] & ~batch["asked"]).any()


def test_questions_are_answered_by_the_place_of_the_named_thing(batch: dict) -> None:
    words, asked = batch["senses"]["words"], batch["asked"]
    assert ((words != 0).any(-1) == asked).all()
    assert torch.equal(batch["present"]["words"], asked)
    assert 0.3 < asked.float().mean() < 0.7
    assert set(batch["place"].unique().tolist()) <= {0, 1, 2}
    assert batch["alone"]["asked"].all()
    assert "sight" not in batch["alone"]["senses"]
    assert len(batch["alone"]["asked"]) == 4 * lesson.ALONE


def test_single_moments_ask_for_lost_things_at_the_wanted_rate() -> None:
    # One row, four Moments; from the third on, the first of two things is believed to be elsewhere.
    values = torch.zeros(1, 4, 8, BELIEF_NUMBERS)
    values[0, :, 0, 3], values[0, :, 1, 5] = 1, 1
    values[0, 2:, 0, lesson.ELSEWHERE] = 0.9
    lives = {
        "values": values,
        "age_s": torch.zeros(1, 4, 8),
        "valid": torch.arange(8).expand(1, 4, 8) < 2,
        "body": torch.zeros(1, 4, 16),
        "places": torch.tensor([0, 2]).expand(1, 4, 2),
        "known": torch.eye(3)[[0, 2]].expand(1, 4, 2, 3),
        "colours": torch.tensor([[3, 5]]),
    }
    told, shares = np.eye(8), []
    for lost in (0.0, 0.5, 1.0):
        moments = lesson.alone([lives], 400, lost, np.random.default_rng(0), told)
        first = moments["recalled"]["senses"]["belief"][:, 0, 0]
        assert (first[:, -1] > 0.5).all()  # the thing asked for comes first
        assert torch.equal(moments["place"][:, 0], torch.where(first[:, 3] > 0, 0, 2))
        assert torch.equal(moments["known"].argmax(-1), moments["place"])
        shares.append(float((first[:, lesson.ELSEWHERE] > 0.5).float().mean()))
    assert shares[2] == 1.0
    assert shares[0] == pytest.approx(2 / 6, abs=0.1)  # by chance: two of the six that can be asked for
    assert shares[1] == pytest.approx(0.5 + 1 / 6, abs=0.1)


def test_belief_batches_train_only_the_belief_encoder(agent: Agent, context: Context) -> None:
    batch, again = (lesson.beliefs_batch(agent, context, 1, 16) for _ in range(2))
    assert batch["senses"]["belief"].shape == (16, 1, BELIEF_NUMBERS)
    assert torch.equal(batch["senses"]["belief"], again["senses"]["belief"])
    assert torch.equal(batch["place"], again["place"])
    batch["asked"] = batch["present"]["belief"] = torch.ones_like(batch["asked"])  # an untrained eye believes nothing
    agent = copy.deepcopy(agent)
    loss, _ = lesson.beliefs_loss(agent, batch)
    loss.backward()
    moved = {name for name, p in agent.named_parameters() if p.grad is not None and p.grad.any()}
    assert moved
    assert all(name.startswith(lesson.BELIEFS_TRAIN) for name in moved)
    with torch.no_grad():
        said = agent(batch, [lesson.BELIEVED])[lesson.BELIEVED].mode()
        for place, right in ((said, 1.0), ((said + 1) % 3, 0.0)):
            assert lesson.beliefs_loss(agent, batch | {"place": place})[1]["right"] == right


def test_losses_train_the_trunk(agent: Agent, batch: dict) -> None:
    # An untrained eye sees nothing and attention starts at zero, so entries and weights are put in.
    agent = copy.deepcopy(agent)
    for parameter in agent.trunk.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    here = torch.ones_like(batch["recalled"]["valid"])
    told = {**batch["recalled"], "valid": here, "present": {"belief": here}}
    loss, scalars = lesson.loss(agent, {**batch, "recalled": told})
    loss.backward()
    assert agent.encoders["belief"].net[0].weight.grad.abs().sum() > 0
    assert set(scalars) == {"alone", "episodes", "right alone", "right episodes"}  # nothing is believed lost
    assert loss.item() == pytest.approx(float(scalars["alone"] + scalars["episodes"]), rel=1e-5)


def test_lost_things_are_a_separate_loss_in_episodes(agent: Agent, batch: dict) -> None:
    agent, lost = copy.deepcopy(agent), torch.zeros_like(batch["asked"])
    for parameter in agent.head("place").parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    row, tick = batch["asked"].nonzero()[5]
    lost[row, tick] = True
    before = lesson.loss(agent, batch)[1]
    loss, scalars = lesson.loss(agent, {**batch, "lost": lost})
    logits, n = agent(batch, ["place"])["place"].logits[row, tick], int(batch["asked"].sum())
    wanted = torch.nn.functional.cross_entropy(logits, batch["known"][row, tick])
    assert torch.allclose(scalars["lost"], wanted, atol=1e-4)
    assert torch.allclose(scalars["episodes"], (n * before["episodes"] - wanted) / (n - 1), atol=1e-4)
    assert torch.allclose(loss.detach(), scalars["alone"] + scalars["episodes"] + scalars["lost"], atol=1e-4)


def test_stepping_through_a_room_equals_its_batch(agent: Agent, context: Context) -> None:
    seeds = episodes.of_delay(np.arange(40), "unmoved", 4)[:2]
    state, ticks, outputs = agent.new_state(2), [], []
    for tick in episodes.ticks(agent, context, "unmoved", seeds):
        recalled = agent.recall_beliefs(tick.beliefs, tick.percepts)
        state, step = agent.step(state, tick.percepts, agent.encode_recalled(recalled), effectors=[], heads=["place"])
        outputs.append(step.outputs["place"].logits)
        ticks.append((tick, recalled))
    senses = {name: torch.cat([t.percepts.batch["senses"][name] for t, _ in ticks], 1) for name in episodes.SENSES}
    present = {name: torch.cat([t.percepts.batch["present"][name] for t, _ in ticks], 1) for name in episodes.SENSES}
    first = torch.cat([t.percepts.batch["first"] for t, _ in ticks], 1)
    together = {"senses": senses, "present": present, "first": first, "valid": torch.ones_like(first)}
    entries = [recalled for _, recalled in ticks]
    values, age_s, valid = (
        torch.stack([get(e) for e in entries], 1)
        for get in (lambda e: e["senses"]["belief"], lambda e: e["age_s"], lambda e: e["valid"])
    )
    together["recalled"] = recalled_batch(values, age_s, valid)
    with torch.no_grad():
        at_once = agent(together, ["place"])["place"].logits
    assert torch.allclose(torch.stack(outputs, 1), at_once, atol=1e-5)


def test_turned_heads_come_back_before_the_question() -> None:
    seeds = np.arange(200)
    plan = hiding.plan(seeds, "unmoved")
    pan, most = np.zeros(200), np.zeros(200)
    for tick in range(hiding.HORIZON):
        if (tick == plan.ask).any():
            assert np.abs(pan[tick == plan.ask]).max() < 1e-9
        pan = pan + episodes.head_turns(seeds, plan, tick)[:, 0] * 25
        most = np.maximum(most, np.abs(pan))
    assert set(most) == {0.0, 50.0}
    assert 0.4 < (most > 0).mean() < 0.6


def test_the_exam_asks_every_room_and_names_its_rows(agent: Agent, context: Context) -> None:
    found = exam.answers(agent, context, "moved", 6, tuple(exam.VARIANTS))
    assert len(found.true) == 6
    assert (found.chosen[exam.LAST_SEEN, hiding.BEFORE_LOOKING] == found.last_seen).all()
    assert (found.true != found.last_seen).all()
    measure, added = exam.moved_in_full("moved", found, exam._moved("moved", found))
    assert measure.n == added.n == 6
    assert measure.floors[exam.LAST_SEEN] == 0
    assert found.share(exam.OFF, hiding.BEFORE_LOOKING, found.true) <= 1


@pytest.mark.parametrize(("beliefs", "ruled"), [(True, False), (False, True)])
def test_the_gain_by_beliefs_is_reported_room_by_room(beliefs: bool, ruled: bool) -> None:
    """With beliefs naming another place, the agent wins every room by them; the same trunk without them wins none."""
    rooms, at = np.arange(40), hiding.AFTER_LOOKING
    here, elsewhere = np.zeros(40, np.int64), np.ones(40, np.int64)
    said = {(exam.BOTH, at): elsewhere, (exam.SHORT, at): here if beliefs else elsewhere}
    said |= {(exam.FILTER, at): elsewhere if ruled else here, (exam.LAST_SEEN, at): here}
    said |= {(who, at): here[:5] for who in (exam.LONG, exam.OFF)}
    said |= {(who, hiding.BEFORE_LOOKING): here for who in (exam.BOTH, exam.FILTER)}
    found = exam.Answers(said, elsewhere, here, here, here, rooms)
    measure, added = exam.moved_in_full("moved", found, exam._moved("moved", found))
    assert measure.score == 1.0
    assert added.score == (1.0 if beliefs else 0.0)
    measures = {one.name: one for one in (measure, added)}
    decided = {decision.measure: decision for decision in exam.GATE.judge(measures).decisions}
    assert decided["permanence/moved/beliefs"].passed == beliefs
    assert measure.floors[exam.FILTER] == float(ruled)
    assert ("the filter does it" in measure.note) == ruled
    if ruled:
        assert decided["permanence/moved"].beaten_by == exam.FILTER, "it is not shown to do better"


def test_beliefs_are_switched_off_in_all_rooms_where_a_thing_moved_unseen(
    agent: Agent, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    def group(agent: Agent, context: Context, kind: str, seeds: np.ndarray, variants: list[str]) -> exam.Answers:
        said = {(who, hiding.AFTER_LOOKING): seeds for who in variants}
        return exam.Answers(said, *[np.zeros_like(seeds)] * 4, seeds)

    monkeypatch.setattr(exam, "_group", group)
    for kind in exam.UNSEEN:
        found = exam.answers(agent, context, kind, 400, tuple(exam.VARIANTS))
        own, off = (found.chosen[who, hiding.AFTER_LOOKING] for who in (exam.BOTH, exam.SHORT))
        np.testing.assert_array_equal(own, off)
        assert (own == found.episodes).all(), "in the same order"
        assert len(found.chosen[exam.OFF, hiding.AFTER_LOOKING]) < len(own)


def test_boards_do_not_train_a_sense_that_an_earlier_stage_added(context: Context) -> None:
    agent = Agent(AgentConfig(size="tiny"))
    agent.add_encoder("board", stage="language")
    reflex.admit(agent)
    parts.admit(agent)
    (boards,) = [one for one in lessons(context) if one.name == "boards"]
    trained = boards.make_learner(agent, context).trains
    assert "heads.cells." in trained
    assert not [name for name in trained if name.startswith("encoders.board")]


@pytest.mark.parametrize("kind", exam.KINDS)
def test_a_player_that_is_always_right_is_right_in_every_row(
    agent: Agent, context: Context, monkeypatch, kind: str
) -> None:
    def right(agent: Agent, context: Context, kind: str, seeds: np.ndarray, variants: list[str]) -> exam.Answers:
        true = seeds % 3
        said = {(who, hiding.BEFORE_LOOKING): true for who in variants}
        return exam.Answers(said, true, true, true, np.zeros_like(true), seeds)

    monkeypatch.setattr(exam, "_group", right)
    found = exam.answers(agent, context, kind, 400, tuple(exam.VARIANTS))
    assert len(found.true) == 400
    for who in exam.VARIANTS:
        assert found.share(who, hiding.BEFORE_LOOKING, found.true) == 1.0, who


def test_things_are_targets_only_for_visible_colours(context: Context) -> None:
    batch = detections.lesson_batch(context, 0, 16)
    assert batch["things"].shape == (8, 2, 9, 4)
    here = batch["things"][..., :-1, 0]
    assert 1 <= here.sum(-1).float().mean() <= 5
    named = (batch["senses"]["words"] != 0).any(-1)
    assert torch.equal(named, here.any(-1))


@pytest.mark.parametrize("kind", ["unmoved", "moved", "swapped", "a-not-b"])
def test_known_places_are_the_truth_as_far_as_it_was_shown(kind: str) -> None:
    plan, row = hiding.plan(np.arange(60), kind), np.arange(60)
    before, hidden_away = np.zeros(60, np.int64), plan.move + 1
    assert (plan.known(before).argmax(-1) == plan.where(before)).all()
    after = plan.ask + hiding.SECOND_QUESTION
    for tick in (before, hidden_away, after):
        np.testing.assert_allclose(plan.known(tick).sum(-1), 1)
    if kind in ("unmoved", "a-not-b"):  # moved in full view, or not at all
        for tick in (hidden_away, after):
            np.testing.assert_array_equal(plan.known(tick), np.eye(3)[plan.where(tick)])
        return
    np.testing.assert_array_equal(plan.known(hidden_away), np.eye(3)[plan.before])
    looked, other = plan.known(after), plan.where(after)[row, 1 - plan.target]
    assert (looked[row, plan.target, plan.last_seen] == 0).all()  # looked for and not found
    assert (np.sort(looked[row, plan.target])[:, 1:] == 0.5).all()
    seen = other == plan.last_seen
    assert (looked[row, 1 - plan.target, other][seen] == 1).all()
    assert seen.all() == (kind == "swapped")
