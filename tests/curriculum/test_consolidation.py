"""The long night: one mind has the names of its specialist, learns its answers, and resumes exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from devmind.acting import Actor
from devmind.agent.agent import Agent
from devmind.agent.batch import collate
from devmind.agent.heads import Head, Inlet
from devmind.agent.one_mind import OneMind, one_mind, shared_share, weights_by_room
from devmind.agent.output import Categorical, Output, Regression
from devmind.curriculum import consolidation as night
from devmind.errors import CheckpointError, ConfigError
from devmind.learners import consolidation as learning
from devmind.learners.consolidation import ConsolidationLearner
from devmind.moment import Moment
from devmind.testing import tiny_agent
from tests.curriculum.lamp_stage import LampStage, shown

STAGES = (LampStage(name="lamps"), LampStage(name="lanterns", lesson_names=("one",)))


@pytest.fixture(scope="module")
def specialist() -> Agent:
    """An agent of two stages that learned to name lamps, and whose trunk's layers do something."""
    agent = tiny_agent()
    for stage in STAGES:
        stage.admit(agent)
        agent.config.stages = [*agent.config.stages, stage.name]
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in agent.named_parameters():
            if name.endswith(("o_proj.weight", "down_proj.weight")):
                parameter.copy_(0.5 * torch.randn(parameter.shape, generator=generator))
    optimizer = torch.optim.AdamW(agent.parameters(), lr=1e-2)
    for step in range(60):
        batch, lit = shown(range(32 * step, 32 * step + 32))
        optimizer.zero_grad()
        torch.stack([stage.loss(agent, batch | {"lit": lit[:, None]})[0] for stage in STAGES]).sum().backward()
        optimizer.step()
    return agent.eval()


@pytest.fixture
def folder(specialist: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The specialist, saved, whose stages the night finds."""
    monkeypatch.setattr(night, "stages_of", lambda agent: list(STAGES))
    specialist.save_pretrained(tmp_path / "specialist")
    return tmp_path / "specialist"


def test_one_mind_has_the_names_and_answers_by_the_trunk(specialist: Agent, tmp_path: Path) -> None:
    mind = one_mind(specialist)
    assert not mind.stays
    mind.agent.save_pretrained(tmp_path)
    agent = Agent.from_pretrained(tmp_path)
    assert list(agent.heads) == list(specialist.heads)
    assert agent.config.one_mind
    assert all(agent.tap_of(name).on_trunk for name in agent.heads)
    assert agent.trunk.decoder.config.hidden_size == 32
    assert agent.config.width == specialist.config.width
    batch, _ = shown(range(4))
    # An exam of an arc asks without the trunk: of readings, and in a rollout.
    whole = agent(batch, ["lamps-lit"], short_term=False)["lamps-lit"].logits
    alone = agent.run_heads(["lamps-lit"], agent.encode_batch(batch))["lamps-lit"].logits
    torch.testing.assert_close(alone, whole)
    actor = Actor(agent, effectors=[], heads=["lamps-lit"], trunk=False)
    moment = Moment(0.0, {"body": batch["senses"]["body"][0, 0].numpy()}, first=True)
    torch.testing.assert_close(actor.act(moment).outputs["lamps-lit"].logits, whole[:1, 0])
    actor = Actor(specialist, effectors=[], heads=["lamps-lit"], trunk=False)
    assert actor.act(moment).features is None  # a specialist's arcs still need no trunk


def test_at_birth_the_features_are_those_of_layers_that_pass_everything(specialist: Agent) -> None:
    plain = tiny_agent()
    plain.load_state_dict({n: x for n, x in specialist.state_dict().items() if n in plain.state_dict()}, strict=False)
    for stage in STAGES:
        stage.admit(plain)
    plain.load_state_dict(specialist.state_dict())
    for layer in plain.trunk.decoder.layers:
        torch.nn.init.zeros_(layer.self_attn.o_proj.weight)
        torch.nn.init.zeros_(layer.mlp.down_proj.weight)
    batch, _ = shown(range(8))
    seen = plain.perceive(batch, ["trunk"])
    born = one_mind(specialist).agent.perceive(batch, ["trunk"])
    torch.testing.assert_close(born.readout, seen.readout, atol=1e-3, rtol=1e-3)


def test_weights_by_room_add_up(specialist: Agent) -> None:
    mind = one_mind(specialist, width=64, layers=3).agent
    rooms = weights_by_room(mind)
    assert sum(rooms.values()) == sum(p.numel() for p in mind.parameters())
    assert rooms["shared layers"] == sum(
        p.numel() for n, p in mind.trunk.named_parameters() if not n.startswith("slots")
    )
    assert rooms["arcs"] == 0
    assert weights_by_room(specialist)["arcs"] > 0
    assert shared_share(rooms) > shared_share(weights_by_room(specialist))


class Pattern(Head):
    """As a plugin writes one: an answer from every token's own numbers, with no light form."""

    def __init__(self, inlet: Inlet) -> None:
        super().__init__(inlet)
        self.net = torch.nn.Linear(inlet.width, 2)

    def forward(self, tapped: Any) -> Output:
        return Regression(self.net(tapped.tokens).mean(-2))


def test_what_has_no_light_form_stays_and_is_named(specialist: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    from devmind import plugins

    load = plugins.load
    monkeypatch.setattr(plugins, "load", lambda group, name: Pattern if name == "head.pattern" else load(group, name))
    agent = tiny_agent()
    STAGES[0].admit(agent)
    agent.add_head("pattern", "head.pattern", tap="body", stage="lamps")
    mind: OneMind = one_mind(agent, reflexes=["lamps-lit"])
    assert mind.stays == {
        "pattern": "a Pattern has no light form (Head.light)",
        "lamps-lit": "a reflex has to be fast",
    }
    batch, _ = shown(range(4))
    for name in mind.stays:
        assert not mind.agent.tap_of(name).on_trunk
        before, after = agent(batch, [name])[name].numbers(), mind.agent(batch, [name])[name].numbers()
        torch.testing.assert_close(after, before, atol=0, rtol=0)


def test_a_width_that_does_not_divide_is_refused(specialist: Agent) -> None:
    with pytest.raises(ConfigError, match=r"multiple of 8, .* got 2 layers of width 20"):
        one_mind(specialist, width=20)


def test_an_agent_without_stages_is_refused(tmp_path: Path) -> None:
    tiny_agent().save_pretrained(tmp_path / "nobody")
    with pytest.raises(ConfigError, match="has been through no stage"):
        night.consolidate(tmp_path / "nobody", tmp_path / "out")


def _error(errors: Any, term: str) -> float:
    found = [value for name, value in errors.items() if name.endswith(term)]
    return sum(found) / len(found)


def test_a_night_teaches_features_and_answers(folder: Path, tmp_path: Path) -> None:
    done = night.consolidate(folder, tmp_path / "out", steps=40)
    for term, share in (("features", 0.3), ("lamps-lit", 0.5), ("lamps-deep", 0.85)):
        assert _error(done.after, term) < share * _error(done.before, term)
    specialist, agent = Agent.from_pretrained(folder), Agent.from_pretrained(done.agent)
    assert agent.sha256("encoders.") == specialist.sha256("encoders.")
    assert set(done.means) >= {"others/loss", "others/gradient norm"}
    assert not done.left_out
    assert not done.unreached
    moments = [[Moment(0.0, {"body": shown([0])[0]["senses"]["body"][0, 0].numpy()}, first=True)]]
    assert agent(collate(moments), ["lanterns-deep"])["lanterns-deep"].logits.shape == (1, 1, 3)
    with pytest.raises(CheckpointError, match="has ended"):
        night.consolidate(folder, tmp_path / "out", steps=40)


def test_with_shuffled_answers_a_night_learns_less(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The held-out errors of the test above fall by what the specialist says of each Moment, and by nothing else."""
    answers, error = learning.answer_tensors, ConsolidationLearner.errors
    measuring = False

    def shuffled(output: Output, lead: torch.Size) -> dict[str, Tensor]:
        found = answers(output, lead)
        return found if measuring else {name: x[torch.randperm(len(x))] for name, x in found.items()}

    def measured(self: ConsolidationLearner, batches: Any) -> dict[str, float]:
        nonlocal measuring
        measuring = True
        try:
            return error(self, batches)
        finally:
            measuring = False

    monkeypatch.setattr(learning, "answer_tensors", shuffled)
    monkeypatch.setattr(ConsolidationLearner, "errors", measured)
    done = night.consolidate(folder, tmp_path / "out", steps=40)
    for head in ("lamps-lit", "lanterns-lit"):
        assert _error(done.after, head) > 0.6 * _error(done.before, head)


class KilledError(Exception):
    """Like a kill: nothing handles it."""


def kill_in_step(monkeypatch: pytest.MonkeyPatch, last: int) -> None:
    """Let a night end in a step as by a kill."""
    update, steps = ConsolidationLearner.update, 0

    def dying(self: ConsolidationLearner, batch: Any, step: int) -> Any:
        nonlocal steps
        steps += 1
        if steps == last:
            raise KilledError
        return update(self, batch, step)

    monkeypatch.setattr(ConsolidationLearner, "update", dying)


def test_killed_night_resumes_bit_for_bit(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    straight = night.consolidate(folder, tmp_path / "straight", steps=12)
    with monkeypatch.context() as patch:
        kill_in_step(patch, 8)
        with pytest.raises(KilledError):
            night.consolidate(folder, tmp_path / "killed", steps=12)
    with pytest.raises(CheckpointError, match="another twin and steps; give another --out"):
        night.consolidate(folder, tmp_path / "killed", steps=13, twin=True)
    updates = []
    update = ConsolidationLearner.update
    monkeypatch.setattr(
        ConsolidationLearner, "update", lambda self, batch, step: updates.append(step) or update(self, batch, step)
    )
    resumed = night.consolidate(folder, tmp_path / "killed", steps=12)
    assert 0 < updates[0] <= 7
    assert Agent.from_pretrained(resumed.agent).sha256() == Agent.from_pretrained(straight.agent).sha256()
    assert (resumed.before, resumed.after, resumed.means) == (straight.before, straight.after, straight.means)


def test_a_twins_layers_pass_everything_through(folder: Path, tmp_path: Path) -> None:
    done = night.consolidate(folder, tmp_path / "out", steps=20, twin=True)
    agent = Agent.from_pretrained(done.agent)
    assert not any(bool(layer.mlp.down_proj.weight.any()) for layer in agent.trunk.decoder.layers)
    assert _error(done.after, "lamps-lit") < _error(done.before, "lamps-lit")
    assert isinstance(agent(shown(range(2))[0], ["lamps-lit"])["lamps-lit"], Categorical)
