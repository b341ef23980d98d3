"""A lesson in which neurons of the trunk are born and die: it resumes to the bit, and the agent loads at any time."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from devmind.agent.agent import Agent
from devmind.agent.batch import Batch, collate
from devmind.agent.config import AgentConfig
from devmind.curriculum.stage import Context, Lesson
from devmind.errors import CheckpointError, ConfigError
from devmind.learners.gradient import GradientLearner, gradient_lesson, head_loss
from devmind.moment import Moment
from devmind.seeding import numpy_rng
from devmind.testing import check_learner, tiny_context

GROW = {"grow": 4, "grow_size": 8, "grow_every": 2, "grow_deaths": 1, "grow_synapses": 0.5, "grow_rate": 2.0}
THIN = {"grow": 0, "grow_deaths": 0, "grow_every": 3, "grow_own_deaths": 6}
"""Nothing is born, and the trunk's own neurons die."""


def make_agent() -> Agent:
    agent = Agent(AgentConfig(size="tiny"))
    agent.add_encoder("signal", "encoder.vector", options={"size": 3})
    agent.add_head("choose", "head.categorical", effector="choose", options={"classes": 4})
    return agent


def batch(update: int, rows: int) -> Batch:
    """Signals of two Moments; the class is given by the signs of two of their numbers."""
    signal = numpy_rng(0, "signal", update).normal(size=(rows, 2, 3)).astype("float32")
    made = collate([[Moment(float(t), {"signal": row[t]}) for t in range(2)] for row in signal])
    signs = torch.from_numpy(signal[..., :2] > 0).long()
    made["class"] = signs[..., 0] * 2 + signs[..., 1]
    return made


def lesson_in(folder: Path, **options: Any) -> tuple[Lesson, Context]:
    context = tiny_context(folder)
    lessons = {"signs": {"options": {**GROW, **options}}}
    config = type(context.config).model_validate({**context.config.model_dump(), "lessons": lessons})
    context = replace(context, config=config)

    def make(agent: Agent, context: Context, update: int, rows: int, steps: int) -> Mapping[str, Any]:
        return batch(update, rows)

    made = gradient_lesson(
        context,
        "signs",
        head_loss("choose", "class"),
        make,
        steps={"tiny": 12},
        rows=16,
        learning_rate=3e-3,
        minutes=0.1,
    )
    return made, context


def learner_of(agent: Agent, folder: Path, steps: int = 12, **options: Any) -> GradientLearner:
    lesson, context = lesson_in(folder, **options)
    learner = lesson.make_learner(agent, context)
    assert isinstance(learner, GradientLearner)
    learner.steps = steps
    learner.begin(0)
    return learner


def answers(agent: Agent) -> Tensor:
    with torch.no_grad():
        return agent(batch(99, 32), ["choose"])["choose"].logits


@pytest.mark.parametrize("options", [{}, {"grow_own_deaths": 5}])
def test_a_lesson_that_grows_keeps_the_laws_of_a_learner(options: Any, tmp_path: Path) -> None:
    lesson, context = lesson_in(tmp_path, **options)
    check_learner(lesson, make_agent(), context, steps=9)


@pytest.mark.parametrize("options", [THIN, {"grow_own_deaths": 6, "grow_every": 3}])
def test_own_neurons_die_without_a_jump_and_a_stopped_lesson_goes_on_to_the_bit(options: Any, tmp_path: Path) -> None:
    agent, jumps = make_agent(), list[float]()
    nn.init.normal_(agent.trunk.decoder.layers[0].mlp.down_proj.weight, std=0.3)
    first = deepcopy(agent)
    learner, mlp, keep = learner_of(agent, tmp_path, **options), agent.trunk.decoder.layers[0].mlp, agent.keep_neurons
    weight, born, stopped = mlp.down_proj.weight, agent.neurons()[0], []

    def bury(layer: int, alive: Tensor) -> None:
        before = answers(agent)
        keep(layer, alive)
        jumps.append(float((answers(agent) - before).abs().max()))

    agent.keep_neurons = bury  # type: ignore[method-assign]
    for step in range(12):
        learner.update(batch(step, 16), step)
        stopped.append(deepcopy((agent.config, agent.state_dict(), learner.state_dict())))
    # They are chosen in the first of three evolutions, and die in the second and in the third.
    assert len(jumps) == 2
    assert max(jumps) < 1e-6
    growth = learner.growth
    assert growth is not None
    assert growth.base == [born - 12]
    assert mlp.down_proj.weight is weight
    assert weight.shape == learner.optimizer.state[weight]["exp_avg"].shape == (16, born - 12)
    if options is THIN:
        assert agent.neurons() == [born - 12]
        assert growth.freed_bytes == 3 * 12 * 3 * 16 * 4  # weights and two moments of three matrices
    for at in (3, 5, 7):  # in the middle of fading, behind a death, and between two
        config, weights, state = deepcopy(stopped[at])
        other = deepcopy(first)
        other.load_state_dict(weights)
        again = learner_of(other, tmp_path, **options)
        again.load_state_dict(state)
        assert other.config.neurons == config.neurons
        for step in range(at + 1, 12):
            again.update(batch(step, 16), step)
        for name, value in agent.state_dict().items():
            assert torch.equal(other.state_dict()[name], value), (at, name)


def test_agent_with_fewer_neurons_is_smaller_loads_and_answers_the_same(tmp_path: Path) -> None:
    agent = make_agent()
    down = agent.trunk.decoder.layers[0].mlp.down_proj
    nn.init.normal_(down.weight)
    down.weight.data[:, 3:9] = 0
    before, numbers, alive = answers(agent), agent.config.neurons, [0, 1, 2, *range(9, agent.neurons()[0])]
    count = sum(parameter.numel() for parameter in agent.parameters())
    agent.keep_neurons(0, torch.tensor(alive))
    assert not numbers
    assert agent.config.neurons == agent.neurons() == [len(alive)]
    assert count - sum(parameter.numel() for parameter in agent.parameters()) == 3 * 6 * 16
    torch.testing.assert_close(answers(agent), before, atol=1e-5, rtol=0)
    agent.save_pretrained(tmp_path)
    loaded = Agent.from_pretrained(tmp_path)
    assert loaded.neurons() == [len(alive)]
    assert torch.equal(answers(loaded), answers(agent))
    other = make_agent()
    other.load_state_dict(agent.state_dict())
    assert torch.equal(answers(other), answers(agent))


def test_an_agent_that_grows_can_be_saved_and_loaded_at_any_time(tmp_path: Path) -> None:
    agent = make_agent()
    born = agent.neurons()[0]
    learner, widths, jumps = learner_of(agent, tmp_path), [], []
    for step in range(12):
        learner.update(batch(step, 16), step)
        widths.append(agent.config.neurons[0] if agent.config.neurons else born)
        agent.save_pretrained(tmp_path / "agent")
        jumps.append(float((answers(Agent.from_pretrained(tmp_path / "agent")) - answers(agent)).abs().max()))
    before = answers(agent)
    assert learner.growth is not None
    assert learner.growth.freed_bytes > 0
    assert "freed by deaths" in learner.growth.summary()
    learner.end()
    # Three groups are born, then one; from then on the one that has faded is replaced.
    assert widths[0] == born < widths[1] < widths[-1] == agent.neurons()[0]
    assert max(jumps) < 1e-5
    torch.testing.assert_close(answers(agent), before, atol=1e-5, rtol=0)
    other = make_agent()
    other.load_state_dict(agent.state_dict())
    assert torch.equal(answers(other), answers(agent))
    assert learner.growth.scalars["growth/newborn_gradient"] > 0
    assert 0 < learner.growth.scalars["growth/newborn_activity"] < 10


def test_agent_that_gains_neurons_and_layers_answers_as_before(tmp_path: Path) -> None:
    agent = make_agent()
    nn.init.normal_(agent.trunk.decoder.layers[0].mlp.down_proj.weight)
    before, born = answers(agent), agent.neurons()[0]
    agent.grow(0, neurons=8)
    agent.grow(1)
    torch.testing.assert_close(answers(agent), before, atol=1e-5, rtol=0)
    assert agent.neurons() == [born + 8, born]
    agent.save_pretrained(tmp_path)
    assert torch.equal(answers(Agent.from_pretrained(tmp_path)), answers(agent))
    agent(batch(0, 16), ["choose"])["choose"].logits.square().sum().backward()
    mlp = agent.trunk.decoder.layers[0].mlp
    assert mlp.up_proj.weight.grad[born:].abs().sum() > 0
    down = mlp.down_proj.weight[:, born:]
    torch.testing.assert_close(down.T @ down, torch.eye(8) / 16, atol=1e-5, rtol=0)


def test_weights_of_another_width_than_the_config_says_are_refused(tmp_path: Path) -> None:
    agent = make_agent()
    agent.add_neurons(0, *(torch.ones(8, 16), torch.ones(8, 16), torch.zeros(16, 8)))
    agent.config.neurons = []
    agent.save_pretrained(tmp_path)
    with pytest.raises(CheckpointError, match="do not fit its config"):
        Agent.from_pretrained(tmp_path)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"grow_size": 5}, "Groups of 5 neurons do not divide the width of 16: take one of 1, 2, 4, 8, 16"),
        ({"grow_synapses": 0.0}, r"grow_synapses in \(0, 1\]"),
        ({"grow": "four"}, "takes a value of that type"),
    ],
)
def test_what_cannot_grow_is_refused_before_the_lesson(options: Any, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=sentence):
        learner_of(make_agent(), tmp_path, **options)


def test_a_lesson_without_a_layer_of_the_trunk_cannot_grow(tmp_path: Path) -> None:
    lesson, context = lesson_in(tmp_path)
    lesson = gradient_lesson(
        context, "signs", head_loss("choose", "class"), lambda *_: batch(0, 8), steps={"tiny": 4}, rows=8,
        learning_rate=1e-3, minutes=0.1, trains=lambda _: ("heads.choose.",),
    )  # fmt: skip
    with pytest.raises(ConfigError, match="trains no layer of the trunk, so nothing can grow"):
        lesson.make_learner(make_agent(), context)


def test_gradients_that_are_not_finite_are_told_in_the_end(tmp_path: Path) -> None:
    agent = make_agent()
    learner = learner_of(agent, tmp_path)
    for step in range(4):
        learner.update(batch(step, 16), step)
    growth = learner.growth
    assert growth is not None
    values = growth.pool.values.clone()
    growth._leaf(0).grad = torch.full_like(growth._leaf(0), torch.nan)
    growth.update(1.0, learner.optimizer)
    # What fades goes on fading.
    assert torch.isfinite(growth.pool.values).all()
    assert torch.equal(growth.pool.values == 0, values == 0)
    with pytest.warns(UserWarning, match="the gradient of a grown block was not finite"):
        learner.end()
