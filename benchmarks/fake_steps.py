"""One step of a lesson on fake tensors: its peak memory, without using the memory or doing the arithmetic.

The parameters are fake (`FakeTensorMode`: shapes and dtypes without numbers); the batch is the lesson's own. All live
storages are counted: parameters, gradients, the optimizer's states and everything that backward has saved. Control flow
that depends on fake numbers cannot be followed, and such a lesson says so; masks of a batch are real, so what they
select has its true size.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from devmind.agent.agent import Agent
from devmind.agent.config import AgentConfig
from devmind.curriculum.runner import in_order
from devmind.curriculum.stage import Context, Lesson
from devmind.curriculum.start import load_stage
from devmind.learners.gradient import GradientLearner

PICKED = ("aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_", "aten::_unsafe_index")
"""Operations that may be given masks."""


class LiveBytes(TorchDispatchMode):
    """Counts storages while it is entered: `live` bytes now, and the `most` at any time since that was last set."""

    def __init__(self) -> None:
        super().__init__()
        self.live = self.most = 0
        self._known: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        if func._schema.name in PICKED:
            args = (args[0], _numbers(args[1]), *args[2:])
        found = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(found):
            if isinstance(leaf, Tensor):
                self.count(leaf)
        return found

    def count(self, tensor: Tensor) -> None:
        """Count a tensor's storage until it is freed."""
        storage = tensor.untyped_storage()
        key, size = storage._cdata, storage.nbytes()
        if key in self._known:
            return
        self._known.add(key)
        self.live += size
        self.most = max(self.most, self.live)
        weakref.finalize(storage, self._freed, key, size)

    def _freed(self, key: int, size: int) -> None:
        self._known.discard(key)
        self.live -= size


def _numbers(indices: Any) -> list[Any]:
    """Replace real masks by the indices that they select: a fake operation cannot count them."""
    found: list[Any] = []
    for index in indices:
        real = isinstance(index, Tensor) and not isinstance(index, FakeTensor)
        found += index.nonzero().unbind(-1) if real and index.dtype == torch.bool else [index]
    return found


def newborn(size: str, stages: list[str]) -> Agent:
    """An agent of a size with the parts of all stages, whose parameters are fake and whose buffers are real."""
    drawn = [name for name in dir(torch.nn.init) if name.endswith("_") and not name.startswith("_")]
    with ExitStack() as unfilled:
        # Memory pages that are never written use no memory, so a large agent costs nothing until its numbers are
        # dropped.
        for name in drawn:
            unfilled.enter_context(patch.object(torch.nn.init, name, lambda tensor, *_, **__: tensor))
        agent = Agent(AgentConfig(size=size))
        for name in in_order(stages):
            load_stage(name).admit(agent)
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    for module in agent.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None:
                module._parameters[name] = mode.from_tensor(parameter)  # type: ignore[assignment]
    return agent


def foretold(lesson: Lesson, agent: Agent, context: Context) -> dict[str, Any]:
    """The row of a lesson: the peak in GB of its second step (the first one creates the optimizer's states).

    Raises:
        TypeError: the lesson has no single loss to minimise.
    """
    learner = lesson.make_learner(agent, context)
    if not isinstance(learner, GradientLearner):
        raise TypeError(f"A lesson that goes down one loss can be foretold; '{lesson.name}' is of another kind.")
    learner.steps = 2
    batch = next(iter(lesson.make_batches(agent, context, 2)))
    counter = LiveBytes()
    with counter:
        for tensor in (*agent.parameters(), *agent.buffers()):
            counter.count(tensor)
        agent.train()
        weights = counter.live
        with torch.autocast("cpu", torch.bfloat16, enabled=context.config.precision != "32-true"):
            loss, _ = learner.loss(agent, batch)
        saved = counter.live - weights
        loss.backward()
        walked, counter.most, before = counter.most, counter.live, counter.live
        learner.step_down()
        states = counter.live - before
    for parameter in agent.parameters():
        parameter.grad = None
    sizes = {"weights": weights, "saved for backward": saved, "optimizer": states}
    peak = max(walked + states, counter.most)
    return {"predicted peak GB": peak / 1e9} | {f"{name} GB": size / 1e9 for name, size in sizes.items()}
