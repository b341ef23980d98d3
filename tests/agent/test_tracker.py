"""The tracker as a part of the agent: its state belongs to the agent's state, and rows are independent."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from devmind.acting import Actor
from devmind.agent.agent import Agent
from devmind.agent.config import AgentConfig
from devmind.agent.rows import initial_carry
from devmind.agent.tracker import SENSE, TRACKER, Beliefs, numbers_of
from devmind.errors import PluginError
from devmind.moment import Moment
from stages.memory import parts as memory
from stages.reflex import parts as reflex
from stages.reflex.heads import Located

EAST, SOUTH = 120, 200
"""Brightness of pictures of the first and of the second class."""


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch) -> Agent:
    """An agent that sees class 0 in pictures of one brightness, class 1 in another, and nothing in black ones."""
    agent = Agent(AgentConfig(size="tiny")).eval()
    reflex.admit(agent)
    memory.admit(agent)
    head, asked = agent.head("things"), agent.run_heads

    def eyes(names: Any, seen: Any, *rest: Any) -> Any:
        outputs = asked(names, seen, *rest)
        if "things" in outputs:
            told = torch.full_like(outputs["things"].places, -5.0)
            for kind, level in enumerate((EAST, SOUTH)):
                sees = (eyes.sight == level).all(-1).all(-1).all(-1)  # type: ignore[attr-defined]
                told[:, kind] = torch.where(sees[:, None], torch.tensor([4.0, 0.5 - kind, 0.0, 0.3]), told[:, kind])
            outputs["things"] = Located(told, outputs["things"].logits, head.places.cells)
        if "scene" in outputs:
            outputs["scene"].log_depth = torch.full_like(outputs["scene"].log_depth, 1.0)
        return outputs

    encode = agent.encode

    def watched(state: Any, moments: Any) -> Any:
        percepts = encode(state, moments)
        sight = percepts.batch["senses"].get("sight")
        eyes.sight = sight[:, 0] if sight is not None else torch.zeros(1)  # type: ignore[attr-defined]
        return percepts

    monkeypatch.setattr(agent, "run_heads", eyes)
    monkeypatch.setattr(agent, "encode", watched)
    return agent


def moment(level: int | None, tick: int, first: bool = False) -> Moment:
    body = np.zeros(12, np.float32)
    body[1] = 1.0
    senses: dict[str, Any] = {"body": body}
    if level is not None:
        senses["sight"] = np.full((64, 64, 3), level, np.uint8)
    return Moment(tick / 10, senses, first=first)


def lives(agent: Agent, rows: list[list[int | None]], at: int = 0, actor: Actor | None = None) -> tuple[Actor, Beliefs]:
    """Rows of pictures, acted on tick by tick."""
    actor = actor or Actor(agent, len(rows), effectors=[])
    for tick, levels in enumerate(zip(*rows, strict=True)):
        actor.act([moment(level, at + tick, first=at + tick == 0) for level in levels])
    assert actor.output is not None
    assert actor.output.beliefs is not None
    return actor, actor.output.beliefs


def same(one: Beliefs, other: Beliefs) -> bool:
    return all(np.array_equal(getattr(one, f.name), getattr(other, f.name)) for f in fields(one))


def test_seen_thing_is_believed_until_a_look_finds_nothing(agent: Agent) -> None:
    actor, seen = lives(agent, [[EAST] * 4])
    slot = int(seen.used[0].argmax())
    assert seen.kind[0, slot] == 0
    assert seen.in_sight[0, slot]
    _, hidden = lives(agent, [[None] * 5], 4, actor)  # no picture: the belief only ages
    assert hidden.age_s[0, slot] == pytest.approx(0.5)
    assert hidden.there[0, slot] > 0.9
    _, lost = lives(agent, [[0] * 3], 9, actor)  # a look at its place finds nothing
    assert lost.elsewhere[0, slot] > 0.9


def test_rows_of_the_tracker_are_independent(agent: Agent) -> None:
    pictures = [[EAST] * 3 + [0] * 3, [SOUTH] * 6, [0] * 2 + [EAST] * 2 + [None] * 2]
    _, together = lives(agent, pictures)
    for row, one in enumerate(pictures):
        assert same(lives(agent, [one])[1], together.take(np.array([row])))


def test_beliefs_are_taken_put_repeated_and_cloned_with_the_state(agent: Agent) -> None:
    rows = [[EAST] * 4, [SOUTH] * 4]
    actor, _ = lives(agent, rows)
    after = [[0] * 2, [0] * 2]
    copied, doubled = actor.state.clone(), actor.state.repeat(2)
    exchanged = actor.state.clone()
    exchanged.put([0, 1], actor.state.take([1, 0]))
    _, plain = lives(agent, after, 4, actor)

    def going_on(state: Any, n: int) -> Beliefs:
        other = Actor(agent, n, effectors=[])
        other.state = state
        return lives(agent, [[0] * 2] * n, 4, other)[1]

    assert same(going_on(copied, 2), plain)
    assert same(going_on(doubled, 4).take(np.array([0, 2])), plain)
    assert same(going_on(exchanged, 2).take(np.array([1, 0])), plain)


def test_beliefs_stay_on_the_cpu_where_they_are_computed(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    state = agent.new_state()
    percepts = agent.encode(state, moment(EAST, 0, first=True))
    monkeypatch.setattr(type(agent), "device", torch.device("meta"))  # MPS would refuse their float64
    assert agent.tracker is not None
    beliefs, carry = agent.tracker.track(percepts, initial_carry(agent.tracker.carry_spec, 1), agent.run_head)
    assert beliefs.used.any()
    assert {value.device.type for value in carry.values()} == {"cpu"}


def test_episode_begins_without_beliefs(agent: Agent) -> None:
    actor, _ = lives(agent, [[EAST] * 4, [EAST] * 4])
    actor.act([moment(0, 0, first=True), moment(0, 4)])
    assert actor.output is not None
    assert actor.output.beliefs is not None
    assert actor.output.beliefs.used.any(1).tolist() == [False, True]


def test_belief_tokens_follow_memory_tokens_unchanged(agent: Agent) -> None:
    given: list[Tensor] = []
    for recalled in (None, "memory"):
        actor, _ = lives(agent, [[EAST] * 3])
        percepts = actor.encode(moment(0, 3))
        memories = None
        if recalled:
            picture = torch.full((1, 2, 64, 64, 3), 9, dtype=torch.uint8)
            here = torch.ones(1, 2, dtype=torch.bool)
            memories = agent.encode_recalled(
                {"senses": {"sight": picture}, "present": {"sight": here}, "age_s": torch.ones(1, 2), "valid": here}
            )
        output = actor.step(percepts, memories)
        assert output.recalled is not None
        given.append(output.recalled.tokens)
        if memories is not None:
            assert torch.equal(output.recalled.tokens[:, :2], memories.tokens)
    assert torch.equal(given[1][:, 2:], given[0])


def test_trunk_gets_no_belief_tokens_until_something_is_seen_twice(agent: Agent) -> None:
    features = []
    for beliefs in (True, False):
        actor = Actor(agent, 1, effectors=[], beliefs=beliefs)
        outputs = [actor.act(moment(level, tick, first=tick == 0)) for tick, level in enumerate((None, EAST))]
        assert [output.recalled for output in outputs] == [None, None]
        features.append(torch.cat([output.features for output in outputs if output.features is not None]))
    assert torch.equal(*features)
    _, seen = lives(agent, [[None, EAST, EAST]])
    assert seen.confirmed.sum() == 1
    actor, _ = lives(agent, [[None, EAST, EAST]])
    assert actor.output is not None
    assert actor.output.recalled is not None


def test_row_that_senses_nothing_believes_as_beside_one_that_sees(agent: Agent) -> None:
    blind: list[int | None] = [None] * 3
    _, together = lives(agent, [blind, [EAST] * 3])
    assert not together.used[0].any()
    assert not lives(agent, [blind])[1].used.any()
    assert same(lives(agent, [[EAST] * 3])[1], together.take(np.array([1])))


def test_actor_can_run_without_beliefs(agent: Agent) -> None:
    actor = Actor(agent, 1, effectors=[], heads=["place"], beliefs=False)
    output = actor.act(moment(EAST, 0, first=True))
    assert output.beliefs is None
    assert output.recalled is None
    assert "tracker" not in actor.state.carry


def test_who_never_saw_anything_carries_no_beliefs_and_thinks_as_without() -> None:
    agent = Agent(AgentConfig(size="tiny")).eval()
    reflex.admit(agent)
    memory.admit(agent)
    actors = [Actor(agent, 2, effectors=[], beliefs=beliefs) for beliefs in (True, False)]
    for tick in range(3):
        heard = [Moment(tick / 10, {"words": word}, first=tick == 0) for word in ("red", "blue")]
        believing, plain = (actor.act(heard) for actor in actors)
        assert believing.beliefs is not None
        assert not believing.beliefs.used.any()
        assert believing.recalled is None
        assert believing.features is not None
        assert plain.features is not None
        assert torch.equal(believing.features, plain.features)
    assert TRACKER not in actors[0].state.carry


def test_tracker_needs_a_head_that_detects_named_classes(agent: Agent) -> None:
    assert agent.tracker is not None
    assert agent.labels_of(agent.tracker.detects)[0] == "red"
    assert agent.encoder(SENSE).net[0].in_features >= numbers_of(8)  # type: ignore[operator]
    with pytest.raises(PluginError, match="gives none"):
        agent.add_tracker("see")
    with pytest.raises(PluginError, match="have no names"):
        agent.add_tracker("whereabouts")


def test_the_tracker_is_saved_with_the_agent(agent: Agent, tmp_path: Any) -> None:
    agent.save_pretrained(tmp_path / "agent")
    assert Agent.from_pretrained(tmp_path / "agent").tracker == agent.tracker
    agent.config.tracker = {**agent.config.tracker, "detects": "gone"}  # type: ignore[dict-item]
    assert agent.tracker is None
