"""Several losses in one step: it equals the step of their sum, and their gradients are compared."""

from __future__ import annotations

import pytest
import torch

from devmind.agent.agent import Agent
from devmind.curriculum.stage import Rehearsed
from devmind.learners.gradient import GradientLearner
from devmind.learners.joint import JointLearner, JointLoss, compare_gradients
from devmind.testing import tiny_agent


def reading(agent: Agent, sign: float) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """A loss of the trunk's first parameter alone."""
    first = next(parameter for name, parameter in agent.named_parameters() if name.startswith("trunk."))
    return sign * first.sum() + (first**2).sum(), {"size": first.detach().norm()}


LOSSES = {"up": reading, "down": reading}
BOTH = JointLoss(LOSSES, {"up": 1.0, "down": 0.5})


def learner_of(kind: type[GradientLearner], agent: Agent, loss: JointLoss = BOTH, **more) -> GradientLearner:
    learner = kind(agent, loss, seed=0, learning_rate=0.01, **{"trains": ("trunk.",), **more})
    learner.steps = 10
    return learner


def test_joint_step_equals_that_of_the_weighted_sum_and_reports_each_part() -> None:
    one, other = tiny_agent(), tiny_agent()
    batch = {"up": 1.0, "down": -2.0}
    told = learner_of(JointLearner, one).update(batch, 0)
    whole = learner_of(GradientLearner, other).update(batch, 0)
    for name, value in one.state_dict().items():
        torch.testing.assert_close(value, other.state_dict()[name])
    assert float(told["loss"]) == pytest.approx(float(whole["loss"]), rel=1e-5)
    assert float(told["up/loss"]) == pytest.approx(float(whole["up/loss"]))
    names = {"loss", "cosine/up with down"}
    names |= {f"{part}/{what}" for part in batch for what in ("loss", "size", "gradient norm")}
    assert told.keys() == names
    assert -1 <= float(told["cosine/up with down"]) < 0


def test_joint_step_skips_missing_parts_and_rehearses_as_usual() -> None:
    agent = tiny_agent()
    learner = learner_of(JointLearner, agent)
    assert learner.update({"up": 1.0}, 0).keys() == {"loss", "up/loss", "up/size", "up/gradient norm"}
    told = learner.update(Rehearsed(learner, {"up": 1.0, "down": 1.0}), 1)
    parts = {f"rehearsal/{part}/{what}" for part in ("up", "down") for what in ("loss", "size")}
    assert told.keys() == {"rehearsal/loss", *parts}


def test_gradients_are_not_compared_without_shared_parameters() -> None:
    agent = tiny_agent()

    def on_readout(agent: Agent, batch: float):
        return batch * (agent.readout**2).sum(), {}

    alone = JointLoss({"one": on_readout, "two": on_readout}, {"one": 1.0, "two": 1.0})
    told = learner_of(JointLearner, agent, alone, trains=("readout",)).update({"one": 1.0, "two": 2.0}, 0)
    assert told.keys() == {"loss", "one/loss", "two/loss"}


def test_compared_gives_known_norms_and_cosines() -> None:
    told = compare_gradients({"a": torch.tensor([3.0, 0.0]), "b": torch.tensor([1.0, 1.0]), "c": torch.zeros(2)})
    assert float(told["a/gradient norm"]) == 3
    assert float(told["cosine/a with b"]) == pytest.approx(0.5**0.5)
    assert float(told["cosine/a with c"]) == 0
    assert told.keys() == {
        *(f"{name}/gradient norm" for name in "abc"), "cosine/a with b", "cosine/a with c", "cosine/b with c",
    }  # fmt: skip
