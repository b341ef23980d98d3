"""The stages on one agent: a name means one part in any order of stages, and the last stage rehearses all of them."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from devmind.agent.agent import Agent
from devmind.curriculum.rehearsal import rehearsals, undoes_earlier
from devmind.curriculum.start import load_stage, missing_parts
from devmind.testing import tiny_agent, tiny_context
from devmind.testing.parts import hash_after_lesson

STAGES = ("memory", "language", "voice", "reasoning", "planning")
Parts = dict[tuple[str, str], dict[str, Any]]


def added(*stages: str) -> Parts:
    """The parts of an agent of `reflex`, these stages and those that they require, by kind and name."""
    agent = tiny_agent()
    for name in ("reflex", *stages):
        _admitted(name, agent)
    return {
        (kind, entry["name"]): {key: value for key, value in entry.items() if key not in ("stage", "seed")}
        for kind, entries in (("encoder", agent.config.encoders), ("head", agent.config.heads))
        for entry in entries
    }


def _admitted(name: str, agent: Agent) -> None:
    """As in a run: the stages that a stage requires come before it."""
    stage = load_stage(name)
    for required in stage.requires:
        _admitted(required, agent)
    stage.admit(agent)


@pytest.mark.parametrize(("one", "other"), combinations(STAGES, 2))
def test_a_name_in_two_stages_means_the_same_part(one: str, other: str) -> None:
    """The second stage takes over the existing part of that name; a head of another kind once broke its lessons."""
    here, there = added(one), added(other)
    for name in here.keys() & there.keys():
        assert here[name] == there[name], f"{name} of '{one}' and of '{other}'"


@pytest.mark.parametrize("name", ["language", "voice", "reasoning", "planning"])
def test_a_stage_with_own_layers_or_heads_trains_no_earlier_parameter(name: str, tmp_path: Path) -> None:
    """It rehearses no earlier stage either: what those taught is kept by construction."""
    agent, context = tiny_agent(), tiny_context(tmp_path)
    order = ("reflex", *STAGES)
    earlier = [load_stage(before) for before in order[: order.index(name)]]
    for before in earlier:
        before.admit(agent)
    there = {name for name, _ in agent.named_parameters()}
    stage = load_stage(name)
    stage.admit(agent)
    agent.config.stages = [*(before.name for before in earlier), name]
    lessons = stage.lessons(context)
    for lesson in lessons:
        trained = {name for name, _ in lesson.make_learner(agent, context).trained_parameters()}
        assert trained, lesson.name
        assert not trained & there, lesson.name
        assert rehearsals(replace(lesson, rehearses=()), [], earlier, agent, context) == [], lesson.name


def test_all_stages_together_have_every_part_of_each() -> None:
    every = added(*STAGES)
    assert all(part in every for name in STAGES for part in added(name))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_stage_that_trains_the_trunk_rehearses_every_earlier_lesson(tmp_path: Path) -> None:
    """The memory stage after all others. The law check of a stage has only the stages before it that it requires."""
    last = load_stage("memory")
    earlier = [load_stage(name) for name in ("reflex", *STAGES) if name != last.name]
    agent, context = tiny_agent(), tiny_context(tmp_path / "run")
    for stage in (*earlier, last):
        stage.admit(agent)
    agent.config.stages = [stage.name for stage in (*earlier, last)]
    lesson = next(one for one in last.lessons(context) if undoes_earlier(one, agent, context))
    found = rehearsals(lesson, [], earlier, agent, context)
    assert [one.lesson.name for one in found] == [
        "together", "read", "senses", "talk", "follow", "new_words", "words", "kinds",
        "tictactoe", "connect4", "othello", "imagine", "explain", "route",
    ]  # fmt: skip
    hash_after_lesson(
        lesson, agent, context, len(found), every=2,
        rehearsal=lambda pupil: rehearsals(lesson, [], earlier, pupil, context),
    )  # fmt: skip


def test_an_agent_without_the_grown_layers_is_told_so() -> None:
    agent = tiny_agent()
    _admitted("voice", agent)
    assert missing_parts(load_stage("voice"), agent) == ""
    agent.config.grown = ["language"]
    assert missing_parts(load_stage("voice"), agent) == "the trunk's layers of 'voice'"
