"""Lessons in turns: their order, that each part is trained by its own loss, and what stays unchanged."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from devmind.agent.agent import Agent
from devmind.agent.decoders import pass_by
from devmind.curriculum.ablation import Control, control, identity_trunk, trained_by_controls
from devmind.curriculum.rehearsal import undoes_earlier
from devmind.curriculum.stage import ROWS_SHARE, Context, Lesson
from devmind.learners.gradient import LAYERS, without_shared
from devmind.learners.joint import JointLoss
from stages.language import lessons, parts
from stages.language.answering import answers_with_confidence
from stages.language.caregiver.scene import TAUGHT
from stages.language.follow import learner as follow_learner
from stages.language.follow import lesson as follow
from stages.language.name import lesson as name
from stages.language.name.scenes import scenes
from stages.language.read import lesson as read
from stages.language.senses import lesson as senses
from stages.language.stage import LanguageStage

TURNS = lessons.TURNS[lessons.TALK]


def test_each_part_has_its_turns_and_continues_from_its_last(context: Context) -> None:
    batches = [lessons.batch_in_turn(context, lessons.TALK, update, 4) for update in range(2 * len(TURNS))]
    assert [part for batch in batches for part in batch] == [*TURNS, *TURNS]
    second = batches[len(TURNS) + TURNS.index("name")]["name"]
    expected = name.lesson_batch(context, TURNS.count("name"), 4)
    assert torch.equal(second["written"], expected["written"])
    assert torch.equal(second["senses"]["sight"], expected["senses"]["sight"])
    pages = next(batch["read"]["pieces"] for batch in batches if "read" in batch)
    assert len(pages) == 2
    assert torch.equal(pages, read.lesson_batch(context, lessons._ELSEWHERE, 2)["pieces"]), "pages of its own"
    before = lessons.batch_in_turn(context, lessons.READ, 0, 4)
    assert torch.equal(before["read"]["pieces"], read.lesson_batch(context, 0, 2)["pieces"])


def test_without_minigrid_no_turn_follows_instructions(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lessons, "minigrid_installed", lambda: False)
    parts_met = {
        part for update in range(len(TURNS)) for part in lessons.batch_in_turn(context, lessons.TALK, update, 2)
    }
    assert parts_met == set(TURNS) - {"follow"}
    assert "follow" not in lessons.in_turns(context, lessons.TALK).skills


def test_each_part_is_trained_by_its_own_loss(context: Context, agent: Agent) -> None:
    learner = lessons.in_turns(context, lessons.TALK).make_learner(agent, context)
    learner.steps = len(TURNS)
    learner.begin(0)
    for update, part in enumerate(TURNS):
        batch = lessons.batch_in_turn(context, lessons.TALK, update, 4)
        with torch.no_grad():
            of = {"read": read.loss, "follow": follow.loss, "senses": JointLoss(senses.LOSSES, senses.WEIGHTS)}
            expected = of.get(part, lessons.seeing.loss)(agent, batch[part])[0]
        told = learner.update(batch, update)
        assert float(told["loss"]) == pytest.approx(float(expected), rel=1e-5)
        assert {name.split("/")[0] for name in told if "/" in name} == {part}


def test_a_pair_of_grammar_weighs_a_tenth_of_the_pages_beside_it(context: Context, agent: Agent) -> None:
    """At weight 1 reading was worse by 0.15 nats a character behind 540 steps."""
    learner = lessons.in_turns(context, lessons.READ).make_learner(agent, context)
    learner.steps = 1
    learner.begin(0)
    batch = lessons.batch_in_turn(context, lessons.READ, 0, lessons.ROWS)
    assert set(batch) == {"read", lessons.GRAMMAR}
    with torch.no_grad():
        pages, pair = (lessons.LOSSES[part](agent, batch[part])[0] for part in ("read", lessons.GRAMMAR))
    told = learner.update(batch, 0)
    assert float(told["loss"]) == pytest.approx(float(pages + 0.1 * pair), rel=1e-5)


def test_muon_steps_the_grown_layers_and_the_projections_of_looks(context: Context, agent: Agent) -> None:
    learner = lessons.in_turns(context, lessons.TALK).make_learner(agent, context)
    names = {id(parameter): name for name, parameter in agent.named_parameters()}
    by_rate = {
        names[id(parameter)]: group["rate"] for group in learner.optimizer.param_groups for parameter in group["params"]
    }
    muon = {
        names[id(parameter)]
        for group in learner.optimizer.param_groups
        if group.get("orthogonal")
        for parameter in group["params"]
    }
    told = {name for name in muon if name.startswith("heads.text.tells.")}
    assert told
    assert {by_rate[name] for name in told} == {learner.muon_rate}
    grown = {name for name in muon if name.startswith(f"{LAYERS}{agent.config.layers - len(agent.config.grown)}.")}
    assert grown
    assert {by_rate[name] for name in told | grown} == {learner.muon_rate}
    assert muon == told | grown


def test_the_control_trains_heads_and_not_the_trunk(context: Context, agent: Agent) -> None:
    taught = lessons.in_turns(context, lessons.TALK)
    assert taught.control is not None
    learner = control(taught, agent, context)
    learner.steps = taught.steps
    before = {name: value.clone() for name, value in agent.state_dict().items()}
    learner.begin(0)
    learner.update(lessons.batch_in_turn(context, lessons.TALK, 0, 4), 0)
    changed = {name for name, value in agent.state_dict().items() if not torch.equal(value, before[name])}
    assert any(name.startswith("heads.text.") for name in changed)
    assert not any(name.startswith(("trunk.", "encoders.sight.")) for name in changed)


@pytest.mark.parametrize("number", range(6))
def test_the_stage_changes_nothing_that_earlier_stages_taught(
    number: int, context: Context, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without any rehearsal, no parameter that an earlier stage taught changes by a bit."""
    monkeypatch.setattr(follow_learner, "STEPS", 2)
    context = replace(context, rows_share=ROWS_SHARE)
    taught = lessons.lessons(context)[number]
    learner = taught.make_learner(agent, context)
    learner.steps = len(TURNS)
    before = {name: value.clone() for name, value in agent.state_dict().items()}
    batches = taught.make_batches(agent, context, learner.steps)
    learner.begin(0)
    for update, batch in enumerate(batches):
        learner.update(batch, update)
    learner.end()
    changed = {name for name, value in agent.state_dict().items() if not torch.equal(value, before[name])}
    mine = {entry["name"] for entry in agent.config.heads + agent.config.encoders if entry["stage"] == parts.NAME}
    for each in changed:
        assert each.startswith(f"{LAYERS}{agent.config.layers - 1}.") or each.split(".")[1] in mine, each
    assert changed
    assert not undoes_earlier(taught, agent, context)


def test_a_twin_starts_the_whole_stage_anew(agent: Agent, context: Context, tmp_path: Path) -> None:
    """Every lesson has a control, so heads on an identity trunk are taught as long as the agent's."""
    prefixes = (*without_shared(parts.trained_weights(agent)), *parts.trained_to_call(agent))
    own = {name for name in agent.state_dict() if name.startswith(prefixes)}
    assert own
    assert set(trained_by_controls(agent, LanguageStage(), context)) == own
    start = copy.deepcopy(agent)
    with torch.no_grad():
        for parameter in agent.parameters():
            parameter.add_(1.0)
    twin = Agent.from_pretrained(identity_trunk(agent, tmp_path / "twin", start, LanguageStage(), context)).state_dict()
    for part, value in twin.items():
        if not part.startswith("trunk."):
            assert torch.equal(value, (start if part in own else agent).state_dict()[part]), part


def test_identity_layers_are_skipped_without_changing_any_output(
    agent: Agent, context: Context, tmp_path: Path
) -> None:
    """In lessons and exams alike; a layer that is no identity is computed as usual."""
    whole = Agent.from_pretrained(identity_trunk(agent, tmp_path / "twin", agent, LanguageStage(), context))
    twin, bent = copy.deepcopy(whole), copy.deepcopy(whole)
    Control(LanguageStage()).admit(twin)
    found = []
    for one in (whole, twin):
        batch = lessons.batch_in_turn(context, lessons.TALK, 0, 4)
        value, _ = JointLoss(lessons.LOSSES, lessons.WEIGHTS)(one, batch)
        value.backward()
        gradient = [p.grad for name, p in one.named_parameters() if p.grad is not None and name.startswith("heads.")]
        said, sure = answers_of(one.eval(), context)
        found.append((value.detach(), torch.cat([each.flatten() for each in gradient]), said, torch.tensor(sure)))
    assert found[0][2] == found[1][2]
    for at in (0, 1, 3):
        torch.testing.assert_close(found[0][at], found[1][at], rtol=0, atol=0)
    with torch.no_grad():
        bent.trunk.decoder.layers[0].mlp.down_proj.weight.fill_(0.01)
    pass_by(bent.trunk.decoder)
    calls = []
    for number, layer in enumerate(bent.trunk.decoder.layers):
        layer.mlp.register_forward_hook(lambda *_, number=number: calls.append(number))
    answers_of(bent.eval(), context)
    assert set(calls) == {0}


def answers_of(agent: Agent, context: Context) -> tuple[list[str], list[float]]:
    """What an agent writes about a few scenes, and how certain it is."""
    shown = scenes(context, np.arange(4), TAUGHT, TAUGHT, np.ones(4, bool))
    said, sure = answers_with_confidence(agent, {parts.SIGHT: shown.sight, parts.TEXT: ["what is that?"] * 4}, 8)
    return said, sure.tolist()


def test_the_twin_keeps_what_a_lesson_without_a_control_taught(agent: Agent, context: Context) -> None:
    class Partly(LanguageStage):
        def lessons(self, context: Context) -> list[Lesson]:
            return [replace(one, control=None) if one.name == "read" else one for one in super().lessons(context)]

    called = [name for name in agent.state_dict() if name.startswith(parts.trained_to_call(agent))]
    assert sorted(trained_by_controls(agent, Partly(), context)) == sorted(called), "which `read` did not teach"
