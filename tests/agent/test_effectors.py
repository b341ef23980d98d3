"""Effectors are declared and their heads checked; the rest of a sequence waits in the state."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from devmind.agent.agent import Agent
from devmind.agent.batch import collate
from devmind.agent.heads import RegressionHead
from devmind.agent.output import Categorical, Regression
from devmind.errors import ConfigError, PluginError
from devmind.testing.laws import ATOL
from tests.agent.conftest import make_rows, shake, tick_of

FEW = ("body", "words")


def planner(small_agent: Callable[..., Agent], follow: int | None = None, arc: bool = False) -> Agent:
    agent = small_agent(senses=FEW, shaken=False)
    agent.add_effector("reach", (2,), horizon=5)
    if arc:
        # It fires if class 1 is likelier than class 0; the table turns classes into numbers.
        options = {"classes": 2, "threshold": 0.5, "table": [[0.0, 0.0], [9.0, 9.0]]}
        agent.add_head("flinch", "head.categorical", tap="body", effector="reach", options=options)
    options = {"shape": 2, "horizon": 5} | ({"follow": follow} if follow else {})
    agent.add_head("plan", "head.regression", effector="reach", options=options)
    return shake(agent)


def ticks(n: int, rows: int = 3, absent: float = 0.0) -> dict:
    batch = collate(make_rows(rows, n, seed=5, senses=FEW, absent=absent))
    batch["first"][:, 1:] = False
    return batch


@pytest.mark.parametrize("follow", [None, 1, 3])
def test_sequence_is_carried_out_and_then_replanned(small_agent: Callable[..., Agent], follow: int | None) -> None:
    agent, batch = planner(small_agent, follow), ticks(11)
    with torch.no_grad():
        plans = agent.forward(batch, ["plan"])["plan"].value
    assert plans.shape == (3, 11, 5, 2)
    state, every = agent.new_state(3), follow or 5
    for t in range(11):
        state, out = agent.step(state, agent.encode(state, tick_of(batch, t)), effectors=["reach"])
        asked = t % every == 0
        assert ("plan" in out.outputs) == asked
        assert out.answered["reach"] == {"plan": 3}
        torch.testing.assert_close(out.action["reach"], plans[:, t - t % every, t % every], atol=ATOL, rtol=0)


def test_sequence_follows_its_row_and_ends_with_its_episode(small_agent: Callable[..., Agent]) -> None:
    agent, batch = planner(small_agent), ticks(4)
    batch["first"][1, 2] = True
    state, given = agent.new_state(3), []
    with torch.no_grad():
        plans = agent.forward(batch, ["plan"])["plan"].value
    for t in range(2):
        state, out = agent.step(state, agent.encode(state, tick_of(batch, t)), effectors=["reach"])
    for one, rows in ((state.take([2, 1]), [2, 1]), (state, [0, 1, 2])):
        tick = {k: v for k, v in tick_of(batch, 2).items() if k in ("senses", "present", "first", "valid")}
        tick = {
            "senses": {k: v[rows] for k, v in tick["senses"].items()},
            "present": {k: v[rows] for k, v in tick["present"].items()},
            "first": tick["first"][rows],
            "valid": tick["valid"][rows],
        }
        one, out = agent.step(one, agent.encode(one, tick), effectors=["reach"])
        given = out.action["reach"]
        for i, row in enumerate(rows):
            wanted = plans[row, 2, 0] if row == 1 else plans[row, 0, 2]
            torch.testing.assert_close(given[i], wanted, atol=ATOL, rtol=0)


def test_firing_arc_drops_the_rest_of_a_sequence(small_agent: Callable[..., Agent]) -> None:
    agent, batch = planner(small_agent, arc=True), ticks(7, rows=8)
    with torch.no_grad():
        outputs = agent.forward(batch, ["plan", "flinch"])
    fires = Categorical(outputs["flinch"].logits, 0.5).fires()
    assert 3 < int(fires.sum()) < 53, "the test needs some of both"
    state, begun = agent.new_state(8), [None] * 8
    for t in range(7):
        state, out = agent.step(state, agent.encode(state, tick_of(batch, t)), effectors=["reach"])
        for row in range(8):
            if fires[row, t]:
                begun[row], wanted = None, torch.tensor([9.0, 9.0])
            else:
                if begun[row] is None or t - begun[row] == 5:
                    begun[row] = t
                wanted = outputs["plan"].value[row, begun[row], t - begun[row]]
            torch.testing.assert_close(out.action["reach"][row], wanted, atol=ATOL, rtol=0)


def test_effector_takes_the_shape_of_its_first_head(small_agent: Callable[..., Agent], tmp_path: Path) -> None:
    agent = small_agent()
    assert str(agent.declared("move")) == "int64 [], sequences of up to 1"
    assert str(agent.declared("look")) == "float32 [2], sequences of up to 1"
    with pytest.raises(PluginError, match=r"'look' takes float32 \[2\].*; the head 'far' answers with float32 \[3\]"):
        agent.add_head("far", "head.normal", effector="look", options={"size": 3})
    with pytest.raises(PluginError, match=r"answers with float32 \[16, 2\], a sequence of 16"):
        agent.add_head("plan", "head.regression", effector="look", options={"shape": 2, "horizon": 16})
    with pytest.raises(PluginError, match=r"'move' takes int64 \[\].*float32 \[1\]"):
        agent.add_head("slide", "head.normal", tap="body", effector="move", options={"size": 1})
    assert "far" not in agent.heads
    assert len(agent.config.heads) == 3
    agent.save_pretrained(tmp_path)
    assert Agent.from_pretrained(tmp_path).declared("look") == agent.declared("look")


def test_declarations_of_effectors_are_checked(small_agent: Callable[..., Agent]) -> None:
    agent = small_agent()
    agent.add_effector("look", (2,))
    with pytest.raises(PluginError, match=r"'look' takes float32 .2., .* already; got float32 .3."):
        agent.add_effector("look", (3,))
    with pytest.raises(PluginError, match="'float32' or 'int64' and sequences of 1 tick or more; got 'int8' and 1"):
        agent.add_effector("reach", (2,), "int8")
    with pytest.raises(ConfigError, match="followed for 1 to 4 of them; got a horizon of 4 and follow=5"):
        agent.add_head("plan", "head.regression", effector="reach", options={"shape": 2, "horizon": 4, "follow": 5})


class Shy(RegressionHead):
    """Raises an error for zeros, and otherwise answers in another shape."""

    def forward(self, tapped, *targets):
        if not tapped.tokens.any():
            raise ValueError("nothing to read")
        return Regression(super().forward(tapped).value[..., :1])


def test_head_that_fails_its_trial_is_checked_when_it_answers(small_agent: Callable[..., Agent]) -> None:
    agent = small_agent(senses=FEW)
    agent.add_head("shy", "head.regression", tap="body", effector="look", options={"shape": 2})
    agent.heads["shy"] = Shy(agent.inlet("body"), 2)
    state = agent.new_state(3)
    with pytest.raises(PluginError, match=r"the head 'shy' answers with float32 \[1\], no sequence"):
        agent.step(state, agent.encode(state, tick_of(ticks(1), 0)), effectors=["look"])


def test_head_that_can_never_answer_gives_a_warning(small_agent: Callable[..., Agent]) -> None:
    agent = small_agent()
    with pytest.warns(UserWarning, match="only 'steer', which was added first, will answer"):
        agent.add_head("other", "head.normal", effector="look", options={"size": 2})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        agent.add_head("arc", "head.normal", tap="body", effector="look", options={"size": 2})
        table = {"classes": 2, "threshold": 0.5, "table": [[0.0, 0.0], [1.0, 1.0]]}
        agent.add_head("startle", "head.categorical", tap="body", effector="look", options=table)


def test_loss_of_soft_targets_is_the_mean_of_class_losses() -> None:
    torch.manual_seed(0)
    output = Categorical(torch.randn(2, 3, 4, requires_grad=True))
    classes = torch.randint(0, 4, (2, 3))
    one_hot = torch.nn.functional.one_hot(classes, 4).float()
    mask = torch.tensor([[True, False, True], [True, True, False]])
    torch.testing.assert_close(output.loss(one_hot, mask), output.loss(classes, mask))
    other = torch.nn.functional.one_hot((classes + 1) % 4, 4).float()
    mixed = 0.7 * output.loss(one_hot, mask) + 0.3 * output.loss(other, mask)
    torch.testing.assert_close(output.loss(0.7 * one_hot + 0.3 * other, mask), mixed)


class Speller(RegressionHead):
    """Answers with the running sum of the earlier targets, or of its own numbers if it has no targets."""

    takes_targets = True

    def forward(self, tapped, targets=None):
        own = super().forward(tapped).value
        known = own if targets is None else targets
        return Regression(own + torch.nn.functional.pad(known, (1, 0))[..., :-1].cumsum(-1))


def test_heads_that_take_targets_get_them_in_training(small_agent: Callable[..., Agent]) -> None:
    agent = small_agent(senses=FEW)
    agent.add_head("spell", "head.regression", options={"shape": 3})
    agent.heads["spell"] = Speller(agent.inlet("trunk"), 3)
    batch, targets = ticks(2), torch.randn(3, 2, 3)
    taught = agent.forward(batch, ["spell", "guess"], targets={"spell": targets})["spell"].value
    free = agent.forward(batch, ["spell"])["spell"].value
    own = RegressionHead.forward(agent.head("spell"), _readout(agent, batch)).value
    torch.testing.assert_close(taught[..., 2], own[..., 2] + targets[..., 0] + targets[..., 1])
    torch.testing.assert_close(free[..., 2], own[..., 2] + own[..., 0] + own[..., 1])


def _readout(agent: Agent, batch: dict):
    return agent._read("spell", agent.perceive(batch, ["trunk"]))
