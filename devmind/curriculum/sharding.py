"""Teaching with the agent's weights, gradients and optimizer sharded over all ranks (`strategy: fsdp`).

A copy of the agent learns: `fully_shard` makes each of the trunk's layers, and the rest, gather its weights for the
forward and the backward pass and keep one part of them in between. The agent itself is empty meanwhile, so that whoever
reads it fails at once; behind the lesson it gets its weights back, whole.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from devmind.agent.agent import Agent
from devmind.curriculum.rehearsal import Mixed
from devmind.curriculum.stage import Batches, Learner
from devmind.learners.gradient import GradientLearner


def why_whole(learner: Learner, batches: Batches) -> str:
    """Why a lesson cannot be sharded, as a sentence; "" if it can."""
    if not isinstance(learner, GradientLearner) or type(learner).make_optimizer is not GradientLearner.make_optimizer:
        return "its optimizer needs whole matrices"
    every = [batches.own, *(one.batches for one in batches.others)] if isinstance(batches, Mixed) else [batches]
    if not all(one.prefetch for one in every):
        return "its batches, or those of what it rehearses, are made with the agent's weights"
    return ""


class _Step(nn.Module):
    """The agent, and as its forward pass a whole loss, which may begin by any of the agent's methods."""

    def __init__(self, agent: Agent) -> None:
        super().__init__()
        self.agent = agent

    def forward(self, loss: Callable[..., Any], *given: Any) -> Any:
        return loss(*given)


class ShardedAgent:
    """A learner, and those that it rehearses, whose agent is sharded, until `close`.

    Args:
        mesh: of all ranks, one dimension.
    """

    def __init__(self, learner: GradientLearner, others: Sequence[Learner], mesh: DeviceMesh) -> None:
        self.learners, self.whole = [learner, *others], learner.agent
        tensors = (*self.whole.parameters(), *self.whole.buffers())
        self.agent: Agent = copy.deepcopy(self.whole, {id(one): one for one in tensors})
        step = _Step(self.agent)
        alone = {one for one in self.agent.parameters() if one.ndim == 0}  # cannot be cut
        layers: Any = self.agent.trunk.decoder.layers
        for module in (*layers, step):
            fully_shard(module, mesh=mesh, ignored_params=alone)
        for parameter in self.whole.parameters():
            if parameter.ndim:
                parameter.data = parameter.data.new_empty(0)
        for one in self.learners:
            one.agent = self.agent
        self._plain = learner.loss
        learner.loss = partial(step, learner.loss)
        for other in others:
            other.rehearse = partial(step, other.rehearse)  # type: ignore[method-assign]

    def close(self) -> Agent:
        """Give the agent its weights back; all ranks call it together."""
        found = dict(self.agent.named_parameters())
        for name, parameter in self.whole.named_parameters():
            one = found[name]
            parameter.data = one.full_tensor().detach() if isinstance(one, DTensor) else one.detach()
        learner, *others = self.learners
        learner.loss = self._plain  # type: ignore[attr-defined]
        for other in others:
            del other.rehearse
        for one_learner in self.learners:
            one_learner.agent = self.whole
        return self.whole


def shard_optimizer(state: Mapping[str, Any], learner: GradientLearner) -> dict[str, Any]:
    """The state of a GradientLearner, of whole tensors, cut as the learner's parameters are."""
    kept = state["optimizer"]
    if kept is None:
        return dict(state)
    parameters: list[nn.Parameter] = [one for group in learner.optimizer.param_groups for one in group["params"]]
    cut = {
        at: {name: _cut(value, parameters[at]) for name, value in each.items()} for at, each in kept["state"].items()
    }
    return {"optimizer": {**kept, "state": cut}}


def _cut(value: Any, like: Tensor) -> Any:
    if not isinstance(value, Tensor) or not isinstance(like, DTensor) or value.shape != like.shape:
        return value
    placed: torch.Tensor = distribute_tensor(
        value.to(like.device), like.device_mesh, like.placements, src_data_rank=None
    )
    return placed
