"""The lesson `call`: what it shows, what it changes and by which optimizer, and that other lessons leave that alone."""

from __future__ import annotations

import pytest
import torch

from devmind.agent.agent import Agent
from devmind.curriculum.stage import Context
from devmind.testing import tiny_agent
from stages.language import calling, lessons, parts
from stages.language.caregiver.scene import HELD_OUT
from stages.language.parts import CALLED, COLOUR_OF, DETAIL, NOUN_OF, OBJECTS
from stages.language.senses import lesson as senses


def test_pictures_show_taught_pairs_in_both_lights_beside_an_empty_page(context: Context) -> None:
    batch = calling.lesson_batch(context, 0, 40)
    called = batch["called"]
    here = called[OBJECTS] > 0
    met = set(zip(called[COLOUR_OF][here].tolist(), called[NOUN_OF][here].tolist(), strict=True))
    assert len(met) > 9
    assert not met & set(HELD_OUT)
    assert {noun for _, noun in met} == {0, 1, 2}
    assert batch["senses"]["text"].shape[-1] == 1, "nothing is asked"
    assert (batch["written"] < 0).all()
    assert not torch.equal(batch["plain"], batch["lit"])
    again, other = calling.lesson_batch(context, 0, 40), calling.lesson_batch(context, 1, 40)
    assert torch.equal(batch["plain"], again["plain"])
    assert not torch.equal(batch["plain"], other["plain"])
    middle = torch.tensor([27, 28, 35, 36])
    looks = here[:, middle].any(1)
    assert looks[::2].float().mean() > looks[1::2].float().mean(), "every second thing is looked at"


def test_the_eyes_parameters_split_into_detection_and_tokens(agent: Agent) -> None:
    names = [f"encoders.{DETAIL}.{name}" for name, _ in agent.encoder(DETAIL).named_parameters()]
    assert names
    for name in names:
        assert name.startswith(parts.EYE) != name.startswith(parts.TOKENS), name
    assert all(any(name.startswith(prefix) for name in names) for prefix in (*parts.EYE, *parts.TOKENS))


def test_the_lesson_steps_kernels_by_muon_and_changes_only_the_eye_and_its_heads(
    agent: Agent, context: Context
) -> None:
    lesson = calling.lesson(context)
    learner = lesson.make_learner(agent, context)
    learner.steps = 4
    before = {name: value.clone() for name, value in agent.state_dict().items()}
    learner.begin(0)
    told = learner.update(calling.lesson_batch(context, 0, 8), 0)
    assert {"loss", "colour", "noun"} <= set(told)
    assert float(told["loss"]) == pytest.approx(float(told["colour"] + told["noun"]), rel=1e-5)
    names = {id(parameter): name for name, parameter in agent.named_parameters()}
    muon = {
        names[id(p)] for group in learner.optimizer.param_groups if group.get("orthogonal") for p in group["params"]
    }
    encoder = agent.encoder(DETAIL)
    assert muon == {
        f"encoders.{DETAIL}.{way}.{name}"
        for way in ("form", "colour")
        for name, value in getattr(encoder, way).named_parameters()
        if value.ndim == 4
    }
    changed = {name for name, value in agent.state_dict().items() if not torch.equal(value, before[name])}
    heads = tuple(f"heads.{head}." for head in CALLED)
    assert all(name.startswith((*parts.EYE, *heads)) for name in changed)
    assert muon < changed
    assert any(name.startswith(heads) for name in changed)
    assert lesson.control is not None, "its twin is taught to see as well"


@pytest.mark.parametrize("name", ["talk", "senses"])
def test_lessons_that_read_the_eye_do_not_change_its_detection(name: str, agent: Agent, context: Context) -> None:
    lesson = lessons.in_turns(context, lessons.TALK) if name == "talk" else senses.lesson(context)
    learner = lesson.make_learner(agent, context)
    learner.steps = 4
    before = {name: value.clone() for name, value in agent.state_dict().items()}
    learner.begin(0)
    make = lessons.batch_in_turn if name == "talk" else None
    batch = make(context, lessons.TALK, 0, 4) if make else senses.lesson_batch(context, 0, 24)
    learner.update(batch, 0)
    changed = {name for name, value in agent.state_dict().items() if not torch.equal(value, before[name])}
    assert any(name.startswith("heads.text.") for name in changed)
    assert not any(name.startswith((*parts.EYE, *(f"heads.{head}." for head in CALLED))) for name in changed)
    # An untaught eye detects nothing and so gives no token; that its tokens learn is checked by what is trained.
    trained = {name for name, _ in learner.trained_parameters()}
    assert any(name.startswith(f"encoders.{DETAIL}.spread.") for name in trained)


def test_an_eye_from_an_earlier_stage_is_not_trained() -> None:
    agent = tiny_agent()
    agent.add_encoder("sight")
    agent.add_encoder(DETAIL, "encoder.language-detail", stage="voice")
    parts.admit(agent)
    agent.config.stages = ["reflex", "voice", "language"]
    for prefixes in (parts.trained_weights(agent), parts.trained_to_call(agent)):
        assert not any(prefix.startswith(f"encoders.{DETAIL}.") for prefix in prefixes)
    assert any(prefix.startswith("heads.nouns.") for prefix in parts.trained_to_call(agent))


def test_the_lesson_learns_what_is_in_a_cell(agent: Agent, context: Context) -> None:
    lesson = calling.lesson(context)
    learner = lesson.make_learner(agent, context)
    learner.steps = 48
    shown = calling.lesson_batch(context, 10_000, 40)
    with torch.no_grad():
        before = calling.loss(agent, shown)[1]
    learner.begin(0)
    for update in range(learner.steps):
        learner.update(calling.lesson_batch(context, update, 4), update)
    with torch.no_grad():
        behind = calling.loss(agent, shown)[1]
    assert behind["colour"] < 0.8 * before["colour"]
    assert behind["noun"] < 0.8 * before["noun"]
