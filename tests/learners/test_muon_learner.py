"""Which parameters Muon steps, and with which settings."""

from __future__ import annotations

import torch

from devmind.learners.muon import TRUNK, MuonLearner
from devmind.testing import tiny_agent


def test_muon_steps_only_the_matrices_of_the_trunk() -> None:
    agent = tiny_agent()
    learner = MuonLearner(agent, lambda *given: None, seed=0, learning_rate=1e-3, trains=("trunk.", "readout"))
    matrices, others = list[torch.Tensor](), list[torch.Tensor]()
    for group in learner.optimizer.param_groups:
        (matrices if group.get("orthogonal") else others).extend(group["params"])
        assert (group["rate"] == learner.muon_rate) == bool(group.get("orthogonal"))
    named = {id(parameter): name for name, parameter in agent.named_parameters()}
    assert matrices
    assert all(named[id(one)].startswith(TRUNK) and one.ndim == 2 for one in matrices)
    left = [named[id(one)] for one in others if named[id(one)].startswith(TRUNK) and one.ndim == 2]
    assert not left
    assert len(matrices) + len(others) == len(dict(learner.trained_parameters()))


def test_subclass_can_name_other_parts_and_settings() -> None:
    agent = tiny_agent()
    first = next(name for name, one in agent.named_parameters() if name.endswith(".weight") and one.ndim == 2)
    part = first.rpartition("weight")[0]

    class OfOne(MuonLearner):
        orthogonal, muon_rate, muon_betas = (part,), 0.5, (0.7, 0.95)

    learner = OfOne(agent, lambda *given: None, seed=0, learning_rate=1e-3, trains=("",))
    (group,) = [group for group in learner.optimizer.param_groups if group.get("orthogonal")]
    assert len(group["params"]) == 1
    assert (group["rate"], group["betas"]) == (0.5, (0.7, 0.95))
