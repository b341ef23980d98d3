"""Outputs against torch.distributions, taps, and which head answers for an effector."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import distributions

from devmind.agent.agent import Agent, StepOutput
from devmind.agent.batch import collate
from devmind.agent.heads import CategoricalHead, Inlet, WithReadoutHead
from devmind.agent.output import Categorical, Normal, Regression, masked_mean
from devmind.agent.taps import Perceived, Tap, Tapped
from devmind.errors import ConfigError, DevmindError, PluginError
from devmind.moment import Moment
from devmind.testing.laws import ATOL
from tests.agent.conftest import make_rows


def test_categorical_against_torch() -> None:
    logits = torch.randn(4, 3, 5, generator=torch.Generator().manual_seed(0))
    ours, reference = Categorical(logits), distributions.Categorical(logits=logits)
    target = torch.randint(0, 5, (4, 3), generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(ours.log_prob(target), reference.log_prob(target))
    torch.testing.assert_close(ours.entropy(), reference.entropy())
    torch.testing.assert_close(ours.loss(target), -reference.log_prob(target).mean())
    mask = torch.tensor([True, False, True, True])
    torch.testing.assert_close(ours.loss(target, mask), -reference.log_prob(target)[mask].mean())
    drawn = torch.stack([ours.sample(torch.Generator().manual_seed(i)) for i in range(400)])
    share = torch.nn.functional.one_hot(drawn, 5).float().mean(0)
    assert (share - reference.probs).abs().max() < 0.12


def test_among_allows_only_legal_choices() -> None:
    legal = torch.tensor([[True, False, True]])
    output = Categorical(torch.tensor([[0.0, 9.0, 1.0]])).among(legal)
    assert output.mode().tolist() == [2]
    assert output.probabilities()[0, 1] == 0


def test_normal_against_torch() -> None:
    generator = torch.Generator().manual_seed(0)
    mean, log_std = torch.randn(6, 2, generator=generator), 0.3 * torch.randn(6, 2, generator=generator)
    ours, reference = Normal(mean, log_std), distributions.Normal(mean, log_std.exp())
    value = torch.randn(6, 2, generator=generator)
    torch.testing.assert_close(ours.log_prob(value), reference.log_prob(value).sum(-1))
    torch.testing.assert_close(ours.entropy(), reference.entropy().sum(-1))
    torch.testing.assert_close(ours.loss(value), -reference.log_prob(value).sum(-1).mean())
    noise = torch.randn(6, 2, generator=torch.Generator().manual_seed(3))
    torch.testing.assert_close(ours.sample(torch.Generator().manual_seed(3)), mean + noise * reference.stddev)


def test_regression_is_masked_over_its_leading_dimensions() -> None:
    value, target = torch.zeros(2, 3, 4), torch.arange(24.0).reshape(2, 3, 4)
    mask = torch.tensor([[True, False, False], [False, False, True]])
    assert Regression(value, "l1").loss(target, mask) == target[mask].mean()
    assert masked_mean(target, torch.zeros(2, 3, dtype=torch.bool)) == 0
    with pytest.raises(ConfigError, match="one of mse, l1, smooth_l1; got 'huber'"):
        Regression(value, "huber")


def test_threshold_decides_firing_and_rest_is_never_answered() -> None:
    output = Categorical(torch.tensor([[2.0, 1.5, 0.0], [5.0, 0.0, 0.0]]), threshold=0.4, rest=0)
    assert output.fires().tolist() == [True, False]
    assert output.answer().tolist() == [1, 1]
    table = torch.tensor([[0.0], [-1.0], [1.0]])
    assert Categorical(output.logits, 0.4, 0, table).answer().tolist() == [[-1.0], [-1.0]]
    drawn = [Categorical(output.logits, 0.4).answer(torch.Generator().manual_seed(i)) for i in range(20)]
    assert not (torch.stack(drawn) == 0).any()


def test_first_firing_arc_decides_and_other_rows_fall_to_the_next_head(
    small_agent: Callable[..., Agent], monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, present = small_agent(), torch.ones(3, 1, dtype=torch.bool)
    present[2] = False
    arc = Categorical(torch.tensor([[0.0, 9.0], [9.0, 0.0], [0.0, 9.0]]), threshold=0.5)
    replies = {
        "arc": (Tapped(torch.zeros(3, 1, 4), present), arc),
        "trunk": (Tapped(torch.zeros(3, 1, 4), torch.ones(3, 1, dtype=torch.bool)), Regression(torch.full((3,), 7))),
    }
    monkeypatch.setattr(agent, "_ask", lambda name, *_: replies.get(name))

    def asked(*names: str) -> StepOutput:
        result = StepOutput()
        agent._answer("move", names, Perceived({}), agent.new_state(3), result, None)
        return result

    # Row 1 does not fire; row 2 has nothing for the arc to read.
    both = asked("arc", "trunk")
    assert both.action["move"].tolist() == [1, 7, 7]
    assert both.answered["move"] == {"arc": 1, "trunk": 2}
    assert asked("arc").acted["move"].tolist() == [True, False, False]
    assert "move" not in asked("silent").action


def test_heads_know_all_parts_in_whatever_order_these_were_added(
    small_agent: Callable[..., Agent], monkeypatch: pytest.MonkeyPatch
) -> None:
    known: dict[str, tuple[list[str], list[str]]] = {}

    def bind(self: CategoricalHead, agent: Agent, tap: Tap) -> None:
        known[str(tap)] = list(agent.heads), list(agent.encoders)

    monkeypatch.setattr(CategoricalHead, "bind", bind)
    agent = small_agent(senses=("sight", "sound"), shaken=False)
    agent.add_encoder("body")
    assert known["trunk"] == known["sound"] == (["guess", "flinch", "steer"], ["sight", "sound", "body"])
    known.clear()
    Agent(agent.config)
    assert known["trunk"] == known["sound"] == (["guess", "flinch", "steer"], ["sight", "sound", "body"])


def test_tap_says_what_it_reads() -> None:
    tap = Tap.of(("trunk:sight", "raw:body", "words", "trunk"), {"sight": 16, "words": 8}.__getitem__)
    assert (tap.senses, tap.encoded, tap.raw, tap.on_trunk) == (("sight", "words"), ("words",), ("body",), True)
    assert [part.n_tokens for part in tap.parts] == [16, 1, 8, 1]
    assert str(tap) == "trunk:sight, raw:body, words, trunk"
    assert Tap.of(tap) is tap
    assert [tap.can_read(senses) for senses in (["body"], ["words"], ["sound"])] == [True, True, False]
    assert Tap.of("trunk").can_read([])


def test_arcs_answer_without_the_trunk(small_agent: Callable[..., Agent]) -> None:
    agent = small_agent()
    agent.add_head("turn", "head.normal", tap=("sight", "sound"), effector="look", options={"size": 2})
    assert agent.heads_of("look") == ["turn", "steer"]
    state = agent.new_state()
    percepts = agent.encode(state, make_rows(1, 1, seed=0, absent=0.0)[0])
    before = agent.new_state().ring.tick
    state, out = agent.step(state, percepts, trunk=False)
    assert state.ring.tick == before
    assert out.features is None
    assert out.answered["look"] == {"turn": 1, "steer": 0}
    assert out.to_action().effectors["look"].shape == (2,)
    _, out = agent.step(state, agent.encode(state, Moment(0.1, {"body": np.zeros(2, np.float32)})))
    assert out.answered["look"] == {"turn": 0, "steer": 1}
    assert "move" not in out.to_action().effectors


@pytest.mark.parametrize(
    ("tap", "shape"),
    [("trunk", (2, 3)), ("trunk:sight", (2, 3)), (("sight", "words"), (2, 3)), ("raw:body", (2, 3)), ("board", (2, 3))],
)
def test_every_tap_gives_an_output(small_agent: Callable[..., Agent], tap: str, shape: tuple[int, int]) -> None:
    agent = small_agent()
    agent.add_head("probe", "head.value", tap=tap)
    batch = collate(make_rows(2, 3, seed=0, absent=0.0))
    assert agent.forward(batch, ["probe"])["probe"].value.shape == shape


def test_trunk_tap_on_a_sense_reads_the_tokens_of_that_sense(small_agent: Callable[..., Agent]) -> None:
    agent = small_agent(shaken=False)
    batch = collate(make_rows(2, 3, seed=0))
    seen = agent.perceive(batch, ["trunk"])
    # A newborn's layers are the identity, so the features are the normed tokens.
    for name, features in seen.of_senses.items():
        expected = agent.trunk.decoder.norm(seen.encoded[name].tokens + agent.encoder(name).type_embedding)
        here = features.present
        torch.testing.assert_close(features.tokens[here], expected[here])


def test_heads_on_senses_do_not_run_the_trunk(
    small_agent: Callable[..., Agent], monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = small_agent()
    monkeypatch.setattr(agent.trunk, "forward", lambda *_: pytest.fail("the trunk was run"))
    encoded = []
    monkeypatch.setattr(agent.encoder("sight"), "forward", lambda *_: encoded.append("sight"))
    agent.forward(collate(make_rows(2, 2, seed=0)), ["flinch"])
    assert not encoded


def test_heads_run_on_cached_tokens(small_agent: Callable[..., Agent]) -> None:
    agent = small_agent()
    batch = collate(make_rows(2, 3, seed=0, absent=0.0))
    kept = agent.encode_senses(batch["senses"], batch["present"], names=["sound"])
    again = agent.run_heads(["flinch"], kept)["flinch"]
    torch.testing.assert_close(again.logits, agent.forward(batch, ["flinch"])["flinch"].logits)
    body = batch["senses"]["body"]
    agent.add_head("balance", "head.value", tap="raw:body", options={"hidden": 64, "depth": 2, "activation": "tanh"})
    assert agent.run_heads(["balance"], Perceived({}, {"body": (body, None)}))["balance"].value.shape == (2, 3)


def test_tap_of_an_absent_or_unknown_sense_raises(small_agent: Callable[..., Agent]) -> None:
    agent = small_agent()
    batch = collate(make_rows(1, 1, seed=0, senses=("body",), absent=0.0))
    with pytest.raises(DevmindError, match="'flinch' taps 'sound', which is not among what was perceived"):
        agent.forward(batch, ["flinch"])
    with pytest.raises(PluginError, match="no encoder for the sense 'smell'"):
        agent.add_head("sniff", "head.value", tap="smell")
    with pytest.raises(PluginError, match="no head 'flinc'; did you mean 'flinch'"):
        agent.head("flinc")
    with pytest.raises(PluginError, match="has the head 'flinch' already"):
        agent.add_head("flinch", "head.value")


def test_slots_give_several_choices_at_once(small_agent: Callable[..., Agent]) -> None:
    agent = small_agent()
    agent.add_head("spell", "head.categorical", effector="say", options={"classes": 256, "slots": 8})
    out = agent.forward(collate(make_rows(2, 3, seed=0)), ["spell"])["spell"]
    assert out.sample(torch.Generator().manual_seed(0)).shape == (2, 3, 8)
    assert out.loss(torch.zeros(2, 3, 8, dtype=torch.long), torch.ones(2, 3, dtype=torch.bool)).ndim == 0


def test_row_without_the_sense_keeps_what_a_head_carries_whoever_is_beside_it(
    small_agent: Callable[..., Agent],
) -> None:
    agent = small_agent(senses=("sound", "body"))
    agent.add_head("noted", "head.voice-words", tap="sound", options={"words": 5})
    heard = [make_rows(1, 4, seed=row, senses=("sound", "body"), absent=0.0)[0] for row in range(2)]
    deaf = [Moment(m.time_s, {"body": m.senses["body"]} if t == 1 else m.senses) for t, m in enumerate(heard[0])]

    def last(rows: list[list[Moment]]) -> torch.Tensor:
        state = agent.new_state(len(rows))
        for moments in zip(*rows, strict=True):
            heads = ["noted"] if any("sound" in moment.senses for moment in moments) else []
            state, output = agent.step(state, agent.encode(state, moments), effectors=(), heads=heads, trunk=False)
        return output.outputs["noted"].logits[0]

    torch.testing.assert_close(last([deaf, heard[1]]), last([deaf]), atol=ATOL, rtol=0)


def test_start_from_copies_the_reading_layers_of_the_same_tap() -> None:
    one, other = CategoricalHead(Inlet(16, 4), classes=3), CategoricalHead(Inlet(16, 4), classes=2)
    answers = other.read.net[-1].weight.clone()
    other.start_from(one)
    assert torch.equal(other.read.squeeze.weight, one.read.squeeze.weight)
    assert torch.equal(other.read.net[0].weight, one.read.net[0].weight)
    assert torch.equal(other.read.net[-1].weight, answers)
    with pytest.raises(ConfigError, match="same tap"):
        other.start_from(CategoricalHead(Inlet(16, 5), classes=3))
    with pytest.raises(ConfigError, match="WithReadoutHead"):
        other.start_from(WithReadoutHead(Inlet(16, 5), "head.categorical", {"classes": 3}))
