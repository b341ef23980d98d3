"""The trunk's lesson: its targets, what it may change, and what the twin of `--ablate` may not change."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaModel

from devmind import config
from devmind.agent.agent import Agent
from devmind.agent.config import AgentConfig
from devmind.curriculum.ablation import Control, differences, identity_trunk
from devmind.curriculum.exam import Measure
from devmind.curriculum.journal import Journal
from devmind.curriculum.stage import Context
from devmind.curriculum.start import make_context
from devmind.curriculum.teaching import teach
from devmind.testing import tiny_agent
from stages.reflex import together
from stages.reflex.foresee import exam as foresee_exam
from stages.reflex.foresee import lesson as foresee
from stages.reflex.parts import COPIES, FORESEEN
from stages.reflex.stage import ReflexStage


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Context:
    return make_context(config.load("tiny", sets=["device=cpu"]), tmp_path_factory.mktemp("together"), None, ())


@pytest.fixture
def agent() -> Agent:
    made = tiny_agent()
    ReflexStage().admit(made)
    return made


def test_heads_start_as_copies_and_the_trunk_as_the_identity(agent: Agent, context: Context) -> None:
    with torch.no_grad():
        for parameter in agent.parameters():
            parameter.add_(0.05 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0)))
    together.prepare(agent, context)
    for own, source in COPIES.items():
        inner = agent.head(own).inner.state_dict()  # type: ignore[union-attr]
        assert all(torch.equal(value, inner[name]) for name, value in agent.head(source).state_dict().items())
    tokens = torch.randn(1, 3, 4, agent.config.width)
    features = agent.trunk(tokens, torch.ones(1, 3, 4, dtype=torch.bool), torch.tensor([[True, False, False]]))
    expected = tokens * tokens.square().mean(-1, keepdim=True).rsqrt() * agent.trunk.decoder.norm.weight
    torch.testing.assert_close(features, expected, atol=1e-4, rtol=1e-4)
    for name in FORESEEN:
        assert not torch.equal(agent.head(name).whitening, torch.eye(agent.config.width))  # type: ignore[arg-type]


def test_a_trunk_that_other_stages_taught_is_kept(agent: Agent, context: Context) -> None:
    projection = agent.trunk.decoder.layers[0].self_attn.o_proj.weight
    for stages, kept in ((["reflex"], False), (["memory", "reflex"], True)):
        agent.config.stages = stages
        torch.nn.init.ones_(projection)
        learner = together.TrunkLearner(agent, context)
        learner.steps = 2
        learner.begin(0)
        assert bool(projection.any()) is kept, stages


def test_a_pretrained_trunk_is_not_wiped_before_the_lesson(tmp_path: Path, context: Context) -> None:
    torch.manual_seed(0)
    shape = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}
    LlamaModel(LlamaConfig(vocab_size=10, **shape)).save_pretrained(tmp_path / "decoder")
    agent = Agent(AgentConfig(size="tiny", pretrained=str(tmp_path / "decoder")))
    ReflexStage().admit(agent)
    agent.config.stages = ["reflex"]
    before = {name: value.clone() for name, value in agent.trunk.decoder.layers.state_dict().items()}
    assert before["1.self_attn.o_proj.weight"].any()
    learner = together.TrunkLearner(agent, context)
    learner.steps = 2
    learner.begin(0)
    after = agent.trunk.decoder.layers.state_dict()
    assert all(torch.equal(value, after[name]) for name, value in before.items())


def test_targets_are_true_of_each_moment(agent: Agent, context: Context) -> None:
    size = len(together.LEVELS) * 6
    batch = together.moved_rows(agent, context, 0, size)
    again = together.moved_rows(agent, context, 0, size)
    assert all(torch.equal(batch[name], again[name]) for name in ("turn", "withdraw", "quiet", "axes"))
    levels = sorted(together.LEVELS[row % len(together.LEVELS)] for row in range(size))
    at = {level: [i for i, one in enumerate(levels) if one == level] for level in set(levels)}
    assert batch["reaches"].nonzero()[:, 0].tolist() == at["reach"]
    judged = {level: batch["axes"][rows].flatten(0, 1).unique(dim=0).tolist() for level, rows in at.items()}
    assert judged["track"] == judged["orient/motion"] == [[1.0, 1.0]]
    assert judged["orient/empty"] == judged["clutter/empty"] == [[together.EMPTY_WEIGHT] * 2], "rest has no margin"
    assert judged["orient/sound"] == [[1.0, 0.0]]
    assert judged["room"] == judged["reach"] == judged["startle"] == [[0.0, 0.0]]
    assert set(batch["withdraw"].nonzero()[:, 0].tolist()) <= set(at["startle"])
    assert batch["withdraw"].sum() > 0
    # An event asks for two ticks, and nothing is judged after them.
    for row in batch["withdraw"].sum(1).nonzero()[:, 0].tolist():
        event = int(batch["withdraw"][row].argmax())
        assert batch["quiet"][row].tolist() == [tick < event + 2 for tick in range(together.TICKS)]
    look, hand = batch["senses"]["body"][..., 9:11], batch["senses"]["body"][..., 3:6]
    assert (look[at["reach"]] == 0).all()
    assert (look[at["startle"]] == 0).all()
    assert (look[at["track"]] != 0).any()
    assert torch.equal(hand[at["track"]].isnan(), ~batch["present"]["sound"][at["track"]][..., None].expand(-1, -1, 3))
    assert (hand[at["track"]].nan_to_num() == hand[at["track"]].nan_to_num()[:, :1]).all()
    # Some children that look sense only what a camera gives; none that needs ears or a hand does.
    filmed = ~batch["present"]["sound"].all(1)
    assert (
        0 < sum(filmed[at[level]].sum() for level in together.FILMED) < sum(len(at[level]) for level in together.FILMED)
    )
    assert not any(filmed[at[level]].any() for level in ("reach", "startle", "orient/sound"))


def test_the_batch_is_encoded_as_by_the_agent(agent: Agent, context: Context) -> None:
    batch = together.moved_rows(agent, context, 1, 6)
    seen = agent.perceive({name: batch[name] for name in ("senses", "present", "first", "valid")}, ["sight", "words"])
    torch.testing.assert_close(seen.encoded["sight"].tokens, batch["seen"].encoded["sight"].tokens)
    part = together._part(batch, np.array([1, 4]))
    assert torch.equal(part["seen"].encoded["sight"].tokens, batch["seen"].encoded["sight"].tokens[[1, 4]])
    assert torch.equal(part["senses"]["sight"], batch["senses"]["sight"][[1, 4]])


def test_batches_kept_for_rehearsal_hold_no_maps(agent: Agent, context: Context) -> None:
    """With maps, the 144 repeated batches at size nursery took 5.4 GB, too much for a laptop."""
    together.prepare(agent, context)
    batch = together.lesson_batch(agent, context, 0, 9, rehearsed=True)
    for seen in (batch["moved"][0]["seen"], batch["events"]["seen"]):
        assert seen.encoded["sight"].present.any()
        assert not any(encoded.maps for encoded in seen.encoded.values())
    with torch.no_grad():
        assert agent.encode_batch(batch["moved"][0], {"sight"}).encoded["sight"].maps, "which the encoder makes"


@pytest.mark.parametrize("size", [len(together.LEVELS), 3])
def test_reaching_children_are_told_the_colour_in_every_batch(agent: Agent, context: Context, size: int) -> None:
    told = 0
    for update in range(3):
        batch = together.moved_rows(agent, context, update, size)
        if batch["reaches"].any():
            assert torch.equal(batch["present"]["words"].any(1), batch["reaches"])
            told += 1
    assert told


def taught(agent: Agent, context: Context, out: Path, control: bool) -> dict[str, torch.Tensor]:
    stage = Control(ReflexStage()) if control else ReflexStage()
    lesson = next(one for one in stage.lessons(context) if one.name == "together")
    out.mkdir()
    before = {name: value.clone() for name, value in agent.state_dict().items()}
    teach(lesson, 3, agent, context, Journal(out / "journal.jsonl"))
    return {name: value for name, value in agent.state_dict().items() if not torch.equal(value, before[name])}


@pytest.fixture(scope="module")
def raised(context: Context, tmp_path_factory: pytest.TempPathFactory) -> tuple[Agent, dict[str, torch.Tensor]]:
    """An agent after three steps of the lesson, and what they changed."""
    agent = tiny_agent()
    ReflexStage().admit(agent)
    return agent, taught(agent, context, tmp_path_factory.mktemp("taught") / "run", control=False)


def test_the_lesson_changes_only_the_trunk_and_its_heads(raised: tuple[Agent, dict[str, torch.Tensor]]) -> None:
    _, changed = raised
    assert all(name.startswith(together.TRAINS) for name in changed)
    assert any("self_attn.q_proj" in name or "o_proj" in name for name in changed)
    for name in (*COPIES, *FORESEEN):
        assert any(one.startswith(f"heads.{name}.") for one in changed)


def test_the_twin_trains_only_the_heads_on_an_identity_trunk(
    raised: tuple[Agent, dict[str, torch.Tensor]], context: Context, tmp_path: Path
) -> None:
    agent, _ = raised
    twin = Agent.from_pretrained(identity_trunk(agent, tmp_path / "twin", agent, ReflexStage(), context))
    kept = {n: v for n, v in agent.state_dict().items() if not n.startswith("trunk.")}
    assert all(torch.equal(value, twin.state_dict()[name]) for name, value in kept.items())
    assert all(not layer.self_attn.o_proj.weight.any() for layer in twin.trunk.decoder.layers)
    changed = taught(twin, context, tmp_path / "control", control=True)
    assert changed
    assert all(name.startswith(together.HEADS) for name in changed)
    assert [lesson.name for lesson in Control(ReflexStage()).lessons(context)] == ["together"]


def test_a_twin_is_saved_only_after_its_trunk_is_reset(
    agent: Agent, context: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is saved once, after the reset, so a process that dies earlier leaves nothing to resume from."""
    saved: list[bool] = []
    save = Agent.save_pretrained

    def kept(one: Agent, folder: Path) -> None:
        saved.append(bool(one.trunk.decoder.layers[0].self_attn.o_proj.weight.any()))
        save(one, folder)

    torch.nn.init.ones_(agent.trunk.decoder.layers[0].self_attn.o_proj.weight)
    monkeypatch.setattr(Agent, "save_pretrained", kept)
    identity_trunk(agent, tmp_path, agent, ReflexStage(), context)
    assert saved == [False]
    assert agent.trunk.decoder.layers[0].self_attn.o_proj.weight.any(), "the agent itself stays as it is"


def test_updates_lower_the_loss_of_their_batch(agent: Agent, context: Context) -> None:
    together.prepare(agent, context)
    learner = together.TrunkLearner(agent, context)
    learner.steps = 40
    rates = {group.get("rate"): group for group in learner.optimizer.param_groups}
    assert rates[together.MUON_RATE]["orthogonal"]
    held = [id(parameter) for group in learner.optimizer.param_groups for parameter in group["params"]]
    assert len(held) == len(set(held)) == len(list(learner.trained_parameters()))
    batch = together.lesson_batch(agent, context, 0, 6)
    told = [learner.update(batch, step) for step in range(12)]
    losses = [float(scalars["loss"]) for scalars in told]
    scalars = told[-1]
    assert losses[-1] < 0.9 * losses[0]
    assert {"look", "reach", "startle", "see trunk", "hear trunk", "bind trunk", "foresee sight"} <= set(scalars)


def test_foreseeing_no_change_scores_one_and_the_truth_scores_zero(agent: Agent, context: Context) -> None:
    batch = foresee.rows(context, "room", np.arange(3), "test")
    seen = agent.perceive(batch, [agent.tap_of(name) for name in FORESEEN])
    outputs = agent.run_heads(list(FORESEEN), seen)
    for name, sense in FORESEEN.items():
        tokens = seen.encoded[sense].tokens
        truth = agent.head(name).changes(tokens[:, :-1], tokens[:, 1:])  # type: ignore[operator]
        right = torch.cat((truth, torch.zeros_like(truth[:, :1])), 1)
        for value, wanted in ((torch.zeros_like(right), 1.0), (right, 0.0), (2 * right, 1.0)):
            said = {name: outputs[name].with_numbers(value)}
            assert float(foresee.residuals(agent, said, seen, batch)[name].ratio()) == pytest.approx(wanted, abs=1e-5)
    with torch.inference_mode():
        measures = foresee_exam.examine(agent, context).in_full()
    assert [measure.name for measure in measures] == ["foresee/sight", "foresee/sound"]
    assert all("encoder" in measure.note and not measure.higher_is_better for measure in measures)
    assert len({measure.note for measure in measures}) == 2, "each names the hash of its own encoder"


def test_differences_are_paired_and_report_significance() -> None:
    rng = np.random.default_rng(0)
    base = (rng.random(400) < 0.5).astype(float)
    better = np.where(rng.random(400) < 0.1, 1.0, base)

    def measure(values: np.ndarray, up: bool = True) -> dict[str, Measure]:
        return {"x": Measure("x", "right", values, 0.0, 1.0, higher_is_better=up)}

    found = differences(measure(better), measure(base), 500)["x"]
    assert found["significant"]
    assert found["gained"] == pytest.approx((better - base).mean())
    assert found["low"] > 0.01, "unpaired, the interval would hold zero"
    assert not differences(measure(better, up=False), measure(base, up=False), 500)["x"]["significant"]
    assert not differences(measure(base), measure(base), 500)["x"]["significant"]
    assert differences(measure(base[:10]), measure(base), 500) == {}


def test_rehearsal_batches_do_not_depend_on_learned_weights(agent: Agent, context: Context) -> None:
    """Rehearsal batches are kept and repeated, and a resumed run makes the same ones, whatever the trunk learned."""
    together.prepare(agent, context)
    before = together.lesson_batch(agent, context, 3, 9, rehearsed=True)
    with torch.no_grad():
        for name, parameter in agent.named_parameters():
            if name.startswith(together.TRAINS):
                parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0)))
    after = together.lesson_batch(agent, context, 3, 9, rehearsed=True)
    assert len(before["moved"]) == 1
    for part in ("senses", "present"):
        assert before["moved"][0][part].keys() == after["moved"][0][part].keys()
        for name, value in before["moved"][0][part].items():
            # Dimensions that a body does not have are NaN.
            torch.testing.assert_close(value, after["moved"][0][part][name], rtol=0, atol=0, equal_nan=True)
    assert torch.equal(before["moved"][0]["turn"], after["moved"][0]["turn"])
    assert torch.equal(before["events"]["withdraw"], after["events"]["withdraw"])
    taught = together.moved_rows(agent, context, 3, 9)
    assert not torch.equal(taught["turn"], after["moved"][0]["turn"]), "in the lesson itself the trunk moves half"


def test_rehearsals_hold_many_events_that_startle(agent: Agent, context: Context) -> None:
    """Played rows hold few such events, and none that begin before the first tick of a pair; with the pairs, the
    startle head gets more targets than there are rows.
    """
    together.prepare(agent, context)
    batches = [together.lesson_batch(agent, context, update, 9, rehearsed=True) for update in range(3)]
    wanted = torch.cat([batch["events"]["withdraw"] for batch in batches])
    assert wanted.shape == (3 * 9 * together.PAIRS, 2)
    assert 0.3 < wanted[:, 1].float().mean() < 0.7
    lived = sum(int(part["withdraw"].sum()) for batch in batches for part in batch["moved"])
    assert wanted[:, 1].sum() > 2 * lived
    assert "events" not in together.lesson_batch(agent, context, 0, 9)

    agent.eval()
    whole, told = together.loss(agent, batches[0])
    without, _ = together.loss(agent, {name: part for name, part in batches[0].items() if name != "events"})
    torch.testing.assert_close(whole - without, together.WEIGHTS["startle"] * told["startle at pairs"])
    head = list(agent.head("move_trunk").parameters())
    slopes = torch.autograd.grad(whole - without, head, allow_unused=True)
    assert any(slope is not None and slope.abs().sum() > 0 for slope in slopes)
