"""A Batch holds rewards and actions, and an encoder reads the last action, both in stepping and all at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from devmind.agent.agent import Agent
from devmind.agent.batch import Batch, collate, collate_tick
from devmind.errors import MomentError, PluginError
from devmind.moment import Action, Moment
from devmind.testing.laws import ATOL
from tests.agent.conftest import make_rows, shake, tick_of
from tests.agent.test_stepping import all_at_once

FEW = ("body", "words")


def doer(small_agent: Callable[..., Agent]) -> Agent:
    agent = small_agent(senses=FEW, layers=2, window=4, shaken=False)
    agent.add_encoder("steered", "encoder.done", options={"effector": "look", "shape": [2]})
    agent.add_encoder("chosen", "encoder.done", options={"effector": "choose", "classes": 3})
    return shake(agent)


def lived(seed: int = 0) -> tuple[list, list, Batch]:
    rows, rng = make_rows(3, 14, seed, FEW), np.random.default_rng(seed)
    rows[2] = rows[2][:9]
    actions = [
        [
            Action(
                {"look": rng.normal(0, 1, 2).astype(np.float32)}
                | ({"choose": np.array(rng.integers(3))} if rng.random() < 0.6 else {})
            )
            for _ in row
        ]
        for row in rows
    ]
    return rows, actions, collate(rows, actions=actions)


def test_batch_holds_rewards_and_actions() -> None:
    moments = [[Moment(0.0, first=True), Moment(0.1, reward=2.5)], [Moment(0.0, reward=-1.0, first=True)]]
    acted = [[Action({"move": np.array(2)}), Action()], [Action({"look": np.array([1.0, 2.0])})]]
    batch = collate(moments, actions=acted)
    assert batch["reward"].tolist() == [[0.0, 2.5], [-1.0, 0.0]]
    assert batch["actions"]["move"].tolist() == [[2, 0], [0, 0]]
    assert batch["actions"]["move"].dtype == torch.int64
    assert batch["acted"]["move"].tolist() == [[True, False], [False, False]]
    assert batch["actions"]["look"].shape == (2, 2, 2)
    assert batch["actions"]["look"].dtype == torch.float32
    assert "actions" not in collate(moments)
    tick = collate_tick({"body": np.zeros((2, 4), np.float32)}, np.array([True, False]), np.array([0.5, 1.0]))
    assert tick["reward"].tolist() == [[0.5], [1.0]]
    with pytest.raises(MomentError, match="Effector 'move' must have one shape in a batch"):
        collate([[Moment(0.0), Moment(0.1)]], actions=[[Action({"move": np.zeros(2)}), Action({"move": np.zeros(3)})]])


def test_last_action_is_read_equally_in_stepping_and_all_at_once(small_agent: Callable[..., Agent]) -> None:
    agent = doer(small_agent)
    _, _, batch = lived()
    state, features = agent.new_state(3), []
    for t in range(14):
        tick = tick_of(batch, t)
        del tick["actions"], tick["acted"]
        state, out = agent.step(state, agent.encode(state, tick), effectors=[])
        done = {name: value[:, t] for name, value in batch["actions"].items()}
        agent.note_actions(state, done, {name: value[:, t] for name, value in batch["acted"].items()})
        features.append(out.features)
    valid = batch["valid"]
    torch.testing.assert_close(torch.stack(features, 1)[valid], all_at_once(agent, batch)[valid], atol=ATOL, rtol=0)


def test_action_affects_only_later_moments_of_its_episode(small_agent: Callable[..., Agent]) -> None:
    agent = doer(small_agent)
    _, _, batch = lived(1)
    batch["first"][:, 1:] = False
    batch["first"][0, 5] = True
    before = all_at_once(agent, batch)
    for t, seen_from in ((2, 3), (4, 99)):
        changed = {**batch, "actions": dict(batch["actions"])}
        changed["actions"]["look"] = batch["actions"]["look"].clone()
        changed["actions"]["look"][0, t] += 1.0
        moved = (all_at_once(agent, changed) - before).abs().amax(-1)[0, :5] > 1e-6
        assert moved.tolist() == [u >= seen_from for u in range(5)]
        assert torch.equal(all_at_once(agent, changed)[0, 5:], before[0, 5:])


def test_agent_reads_its_own_answers(small_agent: Callable[..., Agent]) -> None:
    agent = doer(small_agent)
    _, _, batch = lived(2)
    ticks = [{k: v for k, v in tick_of(batch, t).items() if k not in ("actions", "acted")} for t in range(4)]
    state, done = agent.new_state(3), []
    for tick in ticks:
        state, out = agent.step(state, agent.encode(state, tick), effectors=["look"])
        done.append(out.action["look"])
        last = out.features
    short = {k: ({n: x[:, :4] for n, x in v.items()} if isinstance(v, dict) else v[:, :4]) for k, v in batch.items()}
    short["actions"], short["acted"] = {"look": torch.stack(done, 1)}, {"look": torch.ones(3, 4, dtype=torch.bool)}
    torch.testing.assert_close(last, all_at_once(agent, short)[:, 3], atol=ATOL, rtol=0)


def test_shapes_of_actions_are_checked(small_agent: Callable[..., Agent]) -> None:
    agent = doer(small_agent)
    with pytest.raises(PluginError, match=r"one of 2 classes or more, without a shape; got 3 and \[2\]"):
        agent.add_encoder("odd", "encoder.done", options={"effector": "look", "classes": 3, "shape": [2]})
    _, _, batch = lived(3)
    batch["actions"]["look"] = torch.zeros(3, 14, 5)
    with pytest.raises(MomentError, match=r"done with 'look' expected \[2\]; got \[5\]"):
        all_at_once(agent, batch)
