"""The motor lesson: exact resume, what it may change, and that it learns."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from devmind import worlds
from devmind.agent.agent import Agent
from devmind.agent.config import AgentConfig
from devmind.config import load
from devmind.curriculum.stage import Context
from devmind.learners.policy import PolicyLearner
from stages.reflex import lessons, parts


def make_context(folder: Path, seed: int = 0) -> Context:
    return Context(load("tiny"), seed, "cpu", folder, worlds.make)


def make_agent() -> Agent:
    agent = Agent(AgentConfig(size="tiny"))
    parts.admit(agent)
    return agent.eval()


def start(agent: Agent, context: Context, crowd: float = 0.1, steps: int = 8) -> PolicyLearner:
    """A learner outside of any trainer."""
    learner = lessons.motor_learner(agent, context, crowd)
    learner.steps = steps
    learner.begin(0)
    return learner


def practise(learner: PolicyLearner, names: list[str], begin: int = 0) -> None:
    for step, name in enumerate(names, begin):
        learner.update({"drill": name}, step)


def test_a_resumed_lesson_ends_with_identical_weights(tmp_path: Path) -> None:
    context, names = make_context(tmp_path), ["orient", "balance", "startle", "balance"]
    straight = start(make_agent(), context)
    practise(straight, names)

    first = start(make_agent(), context)
    practise(first, names[:2])
    second = lessons.motor_learner(make_agent(), context, 0.1)
    second.steps = first.steps
    second.agent.load_state_dict(first.agent.state_dict())
    second.begin(2)
    second.load_state_dict(first.state_dict())
    practise(second, names[2:], begin=2)

    wanted = straight.agent.state_dict()
    assert all(torch.equal(value, wanted[name]) for name, value in second.agent.state_dict().items())
    stands, should = (learner.state_dict()["lasting"]["balance"] for learner in (second, straight))
    assert all(torch.equal(value, should[name]) for name, value in stands.items())


def test_only_the_current_arc_and_its_critic_change(tmp_path: Path) -> None:
    agent = make_agent()
    learner = start(agent, make_context(tmp_path))
    before = {name: value.clone() for name, value in agent.state_dict().items()}
    practise(learner, ["reach"])
    changed = {name for name, value in agent.state_dict().items() if not torch.equal(value, before[name])}
    assert {name.split(".")[1] for name in changed} == {"reach_arc", "reach_value"}
    assert not any(".places." in name for name in changed), "how places are read stays as perception taught it"
    learner.end()
    assert all(parameter.requires_grad for parameter in agent.parameters())


def test_arcs_start_from_perceptions_weights_at_every_start_of_the_lesson(tmp_path: Path) -> None:
    agent = make_agent()
    learner = start(agent, make_context(tmp_path))
    places = agent.head("whereabouts").places.state_dict()  # type: ignore[union-attr]
    for name in ("reach_arc", "reach_value"):
        mine = agent.head(name).places.state_dict()  # type: ignore[union-attr]
        assert all(torch.equal(mine[key], value) for key, value in places.items())
    assert torch.equal(
        agent.get_parameter("heads.move_arc.read.net.0.weight"), agent.get_parameter("heads.event.read.net.0.weight")
    )
    practise(learner, ["startle"])
    answer = agent.get_parameter("heads.move_arc.read.net.2.weight").clone()
    assert torch.equal(
        agent.get_parameter("heads.move_arc.read.net.0.weight"), agent.get_parameter("heads.event.read.net.0.weight")
    ), "rewards change what it answers, not how it reads"
    with torch.no_grad():
        agent.get_parameter("heads.event.read.net.0.weight").zero_()
    learner.begin(1)
    assert agent.get_parameter("heads.move_arc.read.net.0.weight").any(), "a resumed lesson keeps its arcs"
    later = lessons.motor_learner(agent, make_context(tmp_path))
    later.again = True
    later.begin(0)
    assert not agent.get_parameter("heads.move_arc.read.net.0.weight").any(), "perception was taught again meanwhile"
    assert torch.equal(agent.get_parameter("heads.move_arc.read.net.2.weight"), answer), "what it answers stays"


def test_the_cycle_holds_every_drill_and_every_drill_has_its_heads() -> None:
    agent = make_agent()
    assert set(lessons.MOTOR_CYCLE) == set(lessons.DRILLS)
    for drill in lessons.DRILLS.values():
        assert f"{drill.effector}_arc" in agent.heads_of(drill.effector)
        assert agent.tap_of(f"{drill.effector}_value") == agent.tap_of(f"{drill.effector}_arc")


def test_the_lesson_has_a_budget_for_every_size(tmp_path: Path) -> None:
    context = make_context(tmp_path)
    lesson = lessons._motor(context)
    batches = lesson.make_batches(make_agent(), context, lesson.steps)
    cycle = lessons.MOTOR_CYCLE
    assert [batch["drill"] for batch in batches] == [cycle[u % len(cycle)] for u in range(lesson.steps)]
    assert set(lessons.STEPS["motor"]) == {"tiny", "nursery", "child", "adult"}


@pytest.mark.slow
def test_balance_improves_after_some_updates(tmp_path: Path) -> None:
    from devmind.curriculum.examining import examination
    from stages.reflex.balance import exam as balance

    agent, context = make_agent(), make_context(tmp_path)
    learner = start(agent, context, crowd=1.0, steps=80)
    practise(learner, ["balance"] * 80)
    with examination(agent):
        (measure,) = balance.examine(agent, context.glimpse()).alone()
    assert measure.score > 200
