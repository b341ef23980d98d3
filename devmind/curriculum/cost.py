"""What a step of a lesson costs, foretold on fake tensors: shapes without numbers, of any size on any machine.

The agent's parameters are fake (`FakeTensorMode`), the batch is the lesson's own, and one step forward and backward is
made with them. So masks select what they really select, and nothing is guessed of a lesson's architecture. What is
counted is what PyTorch allocates, without what a kernel takes and gives back within one operation.
"""

from __future__ import annotations

import gc
import tempfile
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count

from devmind import plugins, worlds
from devmind.agent.agent import Agent
from devmind.agent.config import SIZES, AgentConfig
from devmind.agent.precision import DOUBLE
from devmind.config import load
from devmind.curriculum.runner import in_order
from devmind.curriculum.stage import Context, Lesson
from devmind.curriculum.start import load_stage
from devmind.errors import ConfigError, nearest
from devmind.learners.gradient import GradientLearner

PICKED = ("aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_", "aten::_unsafe_index")
"""Operations that may be given masks."""


@dataclass(frozen=True)
class StepCost:
    """The cost of one step of a lesson in one process.

    Attributes:
        parameters: of the agent; trained: of them, those that the lesson changes.
        tokens: that pass the trunk's decoder, or for a lesson without it the encoders.
        flops: of forward and backward; a multiplication and an addition are two. Products of matrices, convolutions
            and attention, as `torch.utils.flop_counter` counts.
        weights, gradients, optimizer, saved: bytes of parameters and buffers; of gradients; of the optimizer's states;
            of what the forward pass keeps for the backward pass.
        peak: the most bytes at any time of the second step (the first one creates the optimizer's states).
    """

    parameters: int
    trained: int
    tokens: int
    flops: int
    weights: int
    gradients: int
    optimizer: int
    saved: int
    peak: int

    @property
    def checkpoint(self) -> int:
        """Bytes of the tensors of a checkpoint."""
        return self.weights + self.optimizer

    def ddp(self, world: int) -> int:
        """Bytes that each of `world` processes sends a step: all gradients, zeros too, scattered and then gathered."""
        return 2 * 4 * self.trained * (world - 1) // world

    def fsdp(self, world: int) -> int:
        """The same if parameters are sharded: those are gathered for either pass, and gradients scattered."""
        return 4 * (2 * self.parameters + self.trained) * (world - 1) // world


class LiveBytes(TorchDispatchMode):
    """Counts storages while it is entered: `live` bytes now, and the `most` at any time since that was last set."""

    def __init__(self) -> None:
        super().__init__()
        self.live = self.most = 0
        self._known: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        found = func(*picked(func, args), **(kwargs or {}))
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


def picked(func: Any, args: Any) -> Any:
    """An operation's arguments, with real masks replaced by the indices that they select: a fake operation cannot count
    them."""
    if func._schema.name not in PICKED:
        return args
    found: list[Any] = []
    for index in args[1]:
        real = isinstance(index, Tensor) and not isinstance(index, FakeTensor)
        found += index.nonzero().unbind(-1) if real and index.dtype == torch.bool else [index]
    return (args[0], found, *args[2:])


class FlopCounter(FlopCounterMode):
    """The library's counter, which knows no attention of CPUs."""

    def __init__(self) -> None:
        aten = torch.ops.aten
        super().__init__(
            display=False,
            custom_mapping={
                aten._scaled_dot_product_flash_attention_for_cpu: lambda q, k, v, *_, **__: sdpa_flop_count(q, k, v),
                aten._scaled_dot_product_flash_attention_for_cpu_backward: (
                    lambda grad, q, k, v, *_, **__: sdpa_backward_flop_count(grad, q, k, v)
                ),
            },
        )


def fake_newborn(size: str, stages: Sequence[str]) -> Agent:
    """An agent of a size with the parts of `stages` and of what they require; its parameters are fake, buffers real.

    Memory pages that are never written use no memory, so a large agent costs nothing until its numbers are dropped.
    """
    drawn = [name for name in dir(torch.nn.init) if name.endswith("_") and not name.startswith("_")]
    with ExitStack() as unfilled:
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


def cost_of_step(lesson: Lesson, agent: Agent, context: Context) -> StepCost:
    """The cost of a step of `lesson`; the agent's parameters are fake or real.

    Raises:
        ConfigError: the lesson has no single loss to minimise, or fake numbers decide what it does; or the precision
            is double, which fake parameters cannot be turned into.
    """
    if context.config.precision == DOUBLE:
        raise ConfigError("A step is foretold in 32-true or bf16-mixed; 64-true takes twice the bytes of 32-true.")
    learner = lesson.make_learner(agent, context)
    if not isinstance(learner, GradientLearner) or not learner.distributes:
        raise ConfigError(f"A lesson that goes down one loss can be foretold; '{lesson.name}' is of another kind.")
    learner.steps = 2
    batch = next(iter(lesson.make_batches(agent, context, 2)))
    agent.train()
    learner.begin(0)
    try:
        found = _step(learner, batch, context)
    except (RuntimeError, TypeError) as error:
        raise ConfigError(
            f"What the lesson '{lesson.name}' does follows from its numbers, so it cannot be foretold without them "
            f"({str(error).splitlines()[0][:100]})."
        ) from error
    finally:
        learner.end()
        for parameter in agent.parameters():
            parameter.grad = None
    trained = sum(parameter.numel() for _, parameter in learner.trained_parameters())
    return StepCost(agent.num_parameters(), trained, **found)


@contextmanager
def _counting_tokens(agent: Agent) -> Iterator[dict[str, int]]:
    """How many tokens pass the trunk's decoder, and how many the encoders, within the block."""
    through = {"trunk": 0, "encoders": 0}

    def pass_trunk(module: Any, args: Any, given: Mapping[str, Any]) -> None:
        through["trunk"] += given["inputs_embeds"].shape[:-1].numel()

    def pass_encoder(module: Any, args: Any, found: Any) -> None:
        through["encoders"] += getattr(found, "tokens", found).shape[:-1].numel()

    hooks = [agent.trunk.decoder.register_forward_pre_hook(pass_trunk, with_kwargs=True)]
    hooks += [encoder.register_forward_hook(pass_encoder) for encoder in agent.encoders.values()]
    try:
        yield through
    finally:
        for hook in hooks:
            hook.remove()


def _step(learner: GradientLearner, batch: Any, context: Context) -> dict[str, int]:
    """Make one step, and count. The counter of FLOPs takes operations apart, so it stands below that of bytes."""
    agent = learner.agent
    with _counting_tokens(agent) as through, FlopCounter() as flops, LiveBytes() as counter:
        for tensor in (*agent.parameters(), *agent.buffers()):
            counter.count(tensor)
        weights = counter.live
        with torch.autocast("cpu", torch.bfloat16, enabled=context.config.precision != "32-true"):
            loss, _ = learner.loss(agent, batch)
        saved = counter.live - weights
        loss.backward()
        gc.collect()  # what is left of the walk back refers to itself, and would be freed at some time in the step
        walked, counter.most, before = counter.most, counter.live, counter.live
        gradients = sum(one.grad.nbytes for one in agent.parameters() if one.grad is not None)
        made = flops.get_total_flops()  # an optimizer may multiply matrices, too
        learner.step_down()
        optimizer = counter.live - before
    return {
        "tokens": through["trunk"] or through["encoders"],
        "flops": made,
        "weights": weights,
        "gradients": gradients,
        "optimizer": optimizer,
        "saved": saved,
        "peak": max(walked + optimizer, counter.most),
    }


def costs(
    lesson: str = "", sizes: Sequence[str] = tuple(SIZES), sets: Sequence[str] = ()
) -> tuple[str, dict[str, StepCost]]:
    """The cost of a step of the lesson STAGE/LESSON at each size, and its name; "" is the first one of the first stage.

    Raises:
        ConfigError: there is no such lesson, or it cannot be foretold.
    """
    stage, _, name = lesson.partition("/")
    stage = plugins.find("stages", stage).name if stage else in_order(sorted(plugins.available("stages")))[0]
    found = dict[str, StepCost]()
    for size in sizes:
        config, agent = load(size, sets=[*sets, "device=cpu"]), fake_newborn(size, [stage])
        with tempfile.TemporaryDirectory() as folder:
            context = Context(config, config.seed, "cpu", Path(folder), worlds.make)
            lessons = {one.name: one for one in load_stage(stage).lessons(context)}
            name = name or next(iter(lessons))
            if name not in lessons:
                raise ConfigError(f"The stage '{stage}' has no lesson '{name}'{nearest(name, lessons)}")
            found[size] = cost_of_step(lessons[name], agent, context)
    return f"{stage}/{name}", found
