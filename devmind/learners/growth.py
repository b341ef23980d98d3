"""Growth: beside the MLPs of the trunk's layers that a lesson trains, groups of neurons are born and die.

Any gradient lesson can grow (`gradient_lesson`, its options GROW). While it does, new neurons and their blocks of
synapses lie in one pool (`devmind.algorithms.growth`), with moments and a rate of their own, and what they say is added
to what the layer's own neurons say. The agent's state always shows them as further rows of the layer's matrices, with
zeros where a synapse is dead, and at the end of the lesson they become these rows. So an agent that has grown is like
any other, at any time, and a lesson that was killed goes on with its pool from the learner's state.

The layers' own neurons can die too, by the same measure: the least useful fade to zero until the next evolution, and
then the matrices and the optimizer's moments become smaller.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from devmind.algorithms import growth
from devmind.algorithms.growth import Evolution, Layer, Pool, check_size
from devmind.errors import ConfigError
from devmind.seeding import derive_seed

if TYPE_CHECKING:
    from devmind.agent.agent import Agent

EVOLUTIONS = 16
"""Evolutions of a lesson, if `grow_every` is not given."""
BORN_UNTIL, UNTIL = 0.5, 0.75
"""Shares of the lesson after which no more groups are added to the largest number, and after which nothing evolves."""
PROBED = 64
"""Rows of which the activity of newborn neurons is measured."""
KINDS = 2
"""Incoming blocks of a gated neuron for each group that it reads: of its gate and of its value."""


@dataclass(frozen=True)
class Options:
    """What a lesson's options say (`devmind.learners.gradient.GROW`), in their order.

    Args:
        groups: the most groups of `size` neurons that each layer gains, 0: none; every: steps between evolutions, 0:
            the lesson has EVOLUTIONS; deaths: groups that die at each; synapses: the share of its blocks that a group
            is pruned to; regrow: the share of them that is dropped and regrown at each; rate: a new block's rate until
            the next evolution, as a share of the lesson's; own_deaths: neurons of each layer's own that die at each,
            as long as `size` of them stay.
    """

    groups: int
    size: int
    every: int
    deaths: int
    synapses: float
    regrow: float
    rate: float
    own_deaths: int

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> Options:
        """From the options of a lesson.

        Raises:
            ConfigError: one is out of its range.
        """
        made = cls(*said.values())
        whole = min(made.groups, made.every, made.deaths, made.own_deaths) >= 0 and made.size > 0
        if not (whole and 0 < made.synapses <= 1 and 0 <= made.regrow < 1 and made.rate > 0):
            raise ConfigError(
                "A lesson grows by grow >= 0 groups of grow_size >= 1 neurons, grow_every, grow_deaths and "
                "grow_own_deaths >= 0, grow_synapses in (0, 1], grow_regrow in [0, 1) and grow_rate > 0; "
                f"got {dict(said)}."
            )
        return made


@dataclass
class Own:
    """A layer's own neurons: how `useful` each is, [n], as `growth.Layer` has it, and which are `fading`, int64 [F]."""

    useful: Tensor
    fading: Tensor


class Growth:
    """The groups that are born and die beside the MLPs of some layers of the trunk.

    Args:
        layers: numbers of the trunk's layers; learning_rate: of AdamW, which steps all blocks.

    Attributes:
        step: updates so far; base: neurons of each layer's own matrices; passed_over: blocks whose gradient was not
            finite, summed over the steps; freed_bytes: what deaths gave back to the pool.
    """

    def __init__(
        self,
        agent: Agent,
        options: Options,
        layers: tuple[int, ...],
        *,
        learning_rate: float,
        weight_decay: float,
        seed: int,
    ) -> None:
        self.agent, self.options, self.numbers, self.seed = agent, options, layers, seed
        self.learning_rate, self.weight_decay = learning_rate, weight_decay
        self.step, self.steps, self.every, self.freed_bytes = 0, 0, 1, 0
        self.mlps: list[Any] = []
        self.layers: list[Layer] = []
        self.own: list[Own] = []
        self._hooks: list[Any] = []
        self._leaves: dict[int, Tensor] = {}
        self._seen: dict[int, list[tuple[Tensor, Tensor]]] = {}
        self._active: dict[int, Tensor] = {}
        self.scalars: dict[str, Tensor | float] = {}
        check_growable(agent, options, layers)

    @property
    def is_due(self) -> bool:
        """Whether the layers evolve at the end of this update."""
        return (self.step + 1) % self.every == 0 and self.step < UNTIL * self.steps

    @property
    def _left(self) -> int:
        """Updates until the next evolution, this one included; 0: there is none."""
        return self.every - self.step % self.every if self.step < UNTIL * self.steps else 0

    def begin(self, steps: int) -> None:
        """Put empty layers and a pool beside the MLPs, for a lesson of `steps` updates."""
        options = self.options
        self.steps, self.every = steps, options.every or max(1, steps // EVOLUTIONS)
        self.mlps = [self.agent.trunk.decoder.layers[number].mlp for number in self.numbers]
        self.base = [mlp.gate_proj.out_features for mlp in self.mlps]
        like = self.mlps[0].gate_proj.weight.detach()
        width = like.shape[1] // options.size
        self.layers = [Layer.empty(width, width, KINDS, like) for _ in self.mlps]
        self.own = [
            Own(like.new_zeros(base), torch.zeros(0, dtype=torch.int64, device=like.device)) for base in self.base
        ]
        # Every group may have all of its blocks, and those that fade still have theirs.
        groups = options.groups + options.deaths
        self.pool = Pool.empty(len(self.layers) * groups * (KINDS + 1) * width, options.size, like)
        self.passed_over = like.new_zeros(())
        for at, mlp in enumerate(self.mlps):
            self._hooks.append(mlp.register_forward_hook(self._beside(at)))
            self._hooks.append(mlp.register_state_dict_post_hook(self._merged(at)))

    def leaves(self) -> list[Tensor]:
        """The blocks of the layers that took part in this update, each with its gradient."""
        return [leaf for leaf in self._leaves.values() if leaf.grad is not None]

    def _leaf(self, at: int) -> Tensor:
        if at not in self._leaves:
            self._leaves[at] = self.pool.values.index_select(0, self.layers[at].places()).requires_grad_()
        return self._leaves[at]

    def _beside(self, at: int) -> Callable[..., Tensor]:
        """A hook that adds what the groups say to what the MLP says."""

        def hook(mlp: nn.Module, given: tuple[Tensor, ...], said: Tensor) -> Tensor:
            layer, flat = self.layers[at], given[0].flatten(0, -2).to(self.pool.values.dtype)
            if layer.groups:
                said = said + growth.forward(layer, self._leaf(at), flat).view(said.shape).to(said.dtype)
            if layer.recent and said.requires_grad and at not in self._active:
                self._active[at] = self._activity(at, flat[:PROBED].detach())
            if self.options.groups and self.is_due and said.requires_grad:
                seen, kept = self._seen.setdefault(at, []), flat.detach()
                said.register_hook(lambda d: seen.append((kept, d.flatten(0, -2).to(kept.dtype))))
            return said

        return hook

    def _merged(self, at: int) -> Callable[..., None]:
        """A hook that shows the groups as further rows of the MLP's matrices."""

        def hook(mlp: nn.Module, state: dict[str, Tensor], prefix: str, _: Any) -> None:
            for name, rows in zip(NAMES, self._matrices(at), strict=True):
                key, dim = f"{prefix}{name}.weight", name == "down_proj"
                state[key] = torch.cat((state[key], rows.to(state[key])), int(dim))

        return hook

    def _matrices(self, at: int) -> tuple[Tensor, Tensor, Tensor]:
        layer = self.layers[at]
        (gate, up), down = growth.dense_of(layer, self.pool.values[layer.places()])
        return gate, up, down

    def update(self, factor: float, optimizer: torch.optim.Optimizer) -> None:
        """One step of all blocks with the gradients of this update, at `factor` times the rate; then evolve if due.

        Births and deaths are decided on the device, from counts that the host knows. `optimizer` has stepped the
        layers' own neurons; the moments of those that die are taken from it.
        """
        self._measure()
        for at, layer in enumerate(self.layers):
            if not layer.groups:
                continue
            leaf = self._leaf(at)
            self.passed_over += growth.apply(
                self.pool,
                layer,
                torch.zeros_like(leaf) if leaf.grad is None else leaf.grad,
                factor * self.learning_rate,
                young=self.every,
                young_rate=self.options.rate,
                decay=self.weight_decay,
                left=self._left,
            )
        for at in range(len(self.mlps) if self.options.own_deaths else 0):
            self._thin(at, optimizer)
        if self.is_due:
            for at, layer in enumerate(self.layers):
                self._evolve(at, layer)
            self._note_width()
        self._leaves.clear()
        self._seen.clear()
        self._active.clear()
        self.step += 1
        self.scalars |= {
            "growth/neurons": float(sum(self.base) + self.options.size * sum(layer.groups for layer in self.layers)),
            "growth/synapses": float(
                sum(mlp.gate_proj.weight.numel() * 3 for mlp in self.mlps) + self.pool.used * self.options.size**2
            ),
            "growth/freed_mb": self.freed_bytes / 1e6,
        }

    def _evolve(self, at: int, layer: Layer) -> None:
        pairs = self._seen.get(at)
        if not pairs:  # none is born, or the update was a rehearsal that does not pass the layer
            return
        x, d = (torch.cat(tensors) for tensors in zip(*pairs, strict=True))
        probe = growth.gradients(layer, self.pool.values[layer.places()], x, d)[2]
        before = self.pool.used
        generator = torch.Generator().manual_seed(derive_seed(self.seed, "growth", at, self.step))
        plan = self._plan(layer)
        growth.evolve(layer, self.pool, probe, plan, generator)
        made = plan.births * layer.blocks // max(layer.groups, 1)
        self.freed_bytes += max(0, before + made - self.pool.used) * self.pool.block_bytes

    @torch.no_grad()
    def _thin(self, at: int, optimizer: torch.optim.Optimizer) -> None:
        """Let the layer's own neurons that were chosen fade; if due, free them and choose the next ones."""
        own, mlp, left = self.own[at], self.mlps[at], self._left
        down = mlp.down_proj.weight
        if down.grad is not None:
            saved = (down * down.grad).nan_to_num(0, 0, 0).sum(0).abs()
            own.useful = own.useful.lerp(saved.to(own.useful), 0.1)
        if left:
            down.index_copy_(1, own.fading, down.index_select(1, own.fading) * ((left - 1) / left))
        if not self.is_due:
            return
        alive = torch.zeros_like(own.useful).index_fill_(0, own.fading, 1).argsort(stable=True)
        alive = alive[: self.base[at] - len(own.fading)]
        if len(own.fading):
            before = sum(kept.nbytes for kept in self._memory(at, optimizer))
            for name in NAMES:
                weight, dim = getattr(mlp, name).weight, int(name == "down_proj")
                moments = optimizer.state[weight]
                for key, kept in moments.items():
                    if isinstance(kept, Tensor) and kept.shape == weight.shape:
                        moments[key] = kept.index_select(dim, alive)
            self.agent.keep_neurons(self.numbers[at], alive)
            self.base[at] = len(alive)
            self.freed_bytes += before - sum(kept.nbytes for kept in self._memory(at, optimizer))
        last = self.step + self.every >= UNTIL * self.steps
        deaths = 0 if last else max(0, min(self.options.own_deaths, len(alive) - self.options.size))
        own.useful = own.useful[alive]
        own.fading = own.useful.topk(deaths, largest=False).indices

    def _memory(self, at: int, optimizer: torch.optim.Optimizer) -> list[Tensor]:
        """The layer's own weights with what the optimizer keeps for them."""
        weights = [getattr(self.mlps[at], name).weight for name in NAMES]
        kept = [value for weight in weights for value in optimizer.state[weight].values()]
        return [*weights, *(value for value in kept if isinstance(value, Tensor))]

    def _plan(self, layer: Layer) -> Evolution:
        """What this evolution does, from counts that the host knows."""
        options, done = self.options, (self.step + 1) // self.every
        last = max(1, int(UNTIL * self.steps) // self.every)
        staying = layer.groups - len(layer.fading)
        each = -(-options.groups // max(1, int(BORN_UNTIL * self.steps) // self.every))
        births = min(each + options.deaths, options.groups - staying)
        least = max(1, round(options.synapses * layer.inputs))
        there = layer.sources.shape[1] - layer.fading_into.shape[1] + layer.regrows[0]
        prune = -(-max(0, there - least) // max(1, last - done)) if staying and done < last else 0
        regrow = round(options.regrow * there) if staying and done < last else 0
        return Evolution(
            births=max(0, births),
            deaths=options.deaths if done < last else 0,
            reads=layer.inputs,
            writes=layer.outputs,
            prunes=(prune, prune),
            regrows=(regrow, regrow),
        )

    def _note_width(self) -> None:
        """Write the present widths into the agent's config, so that it can be saved at any time."""
        widths = self.agent.neurons()
        for number, base, layer in zip(self.numbers, self.base, self.layers, strict=True):
            widths[number] = base + layer.groups * self.options.size
        self.agent.config.neurons = widths

    @torch.no_grad()
    def _activity(self, at: int, x: Tensor) -> Tensor:
        """How active the neurons of the last born groups are, mean |activation|, beside all others; x [N, D]."""
        layer, mlp = self.layers[at], self.mlps[at]
        each = growth.activity(layer, self._leaf(at), x)
        gate, up = (nn.functional.linear(x, part.weight.to(x.dtype)) for part in (mlp.gate_proj, mlp.up_proj))
        own = (nn.functional.silu(gate) * up).abs().mean()
        older, young = each.split((layer.groups - layer.recent, layer.recent))
        total = own * self.base[at] + older.sum() * self.options.size
        return young.mean() * (self.base[at] + len(older) * self.options.size) / total.clamp_min(1e-30)

    @torch.no_grad()
    def _measure(self) -> None:
        """How strong the gradients of the last born groups' synapses are, beside those of all other neurons, and how
        active these groups are."""
        if self._active:
            self.scalars["growth/newborn_activity"] = torch.stack([*self._active.values()]).mean()
        young, old = [], []
        for at, (layer, mlp) in enumerate(zip(self.layers, self.mlps, strict=True)):
            gradient = None if at not in self._leaves else self._leaves[at].grad
            if gradient is None or not layer.recent or mlp.gate_proj.weight.grad is None:
                continue
            into, out = gradient.square().mean((1, 2)).split((layer.into.numel(), layer.out.numel()))
            each = torch.cat((into.view(layer.groups, -1), out.view(layer.groups, -1)), 1)
            young.append(each[-layer.recent :].mean())
            base = torch.cat([getattr(mlp, name).weight.grad.flatten() for name in NAMES])
            grown = each[: -layer.recent] * self.options.size**2
            count = base.numel() + grown.numel() * self.options.size**2
            old.append((base.square().sum() + grown.sum()) / count)
        if young:
            share = (torch.stack(young).mean() / torch.stack(old).mean().clamp_min(1e-30)).sqrt()
            self.scalars["growth/newborn_gradient"] = share

    def summary(self) -> str:
        """What there is, in words; it waits for the device."""
        pool, alive = self.pool, sum(layer.groups for layer in self.layers)
        return (
            f"{alive} groups of {self.options.size} neurons in {pool.used:,} blocks of synapses; "
            f"{pool.used * pool.block_bytes / 1e6:.2f} MB of a pool of {len(pool.values) * pool.block_bytes / 1e6:.2f} "
            f"MB used, {self.freed_bytes / 1e6:.2f} MB freed by deaths, fragmentation {pool.fragmentation():.3f}"
        )

    def end(self) -> None:
        """Make the groups rows of the MLPs' matrices, and say so if gradients were not finite."""
        while self._hooks:
            self._hooks.pop().remove()
        for at, layer in enumerate(self.layers):
            if layer.groups:
                self.agent.add_neurons(self.numbers[at], *self._matrices(at))
        self.layers = []
        if passed := int(self.passed_over):
            warnings.warn(
                f"{passed:,} times the gradient of a grown block was not finite: the block stayed as it was in these "
                "steps. Lower the lesson's learning_rate or its grow_rate.",
                stacklevel=2,
            )

    def state_dict(self) -> dict[str, Any]:
        """Everything that the next update depends on, besides the agent's own matrices."""
        return {
            "step": self.step,
            "base": list(self.base),
            "freed_bytes": self.freed_bytes,
            "passed_over": self.passed_over,
            "pool": self.pool.state(),
            "layers": [dict(vars(layer)) for layer in self.layers],
            "own": [dict(vars(own)) for own in self.own],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore it behind `begin`, in an agent whose matrices show the groups as rows."""
        device = self.pool.values.device

        def placed(value: Any) -> Any:
            return value.to(device).clone() if isinstance(value, Tensor) else value

        self.step, self.base, self.freed_bytes = state["step"], list(state["base"]), state["freed_bytes"]
        self.passed_over = placed(state["passed_over"])
        self.pool = Pool(**{name: placed(value) for name, value in state["pool"].items()})
        self.layers = [Layer(**{name: placed(value) for name, value in one.items()}) for one in state["layers"]]
        self.own = [Own(**{name: placed(value) for name, value in one.items()}) for one in state["own"]]
        for number, base in zip(self.numbers, self.base, strict=True):
            self.agent.set_neurons(number, base)
        self._note_width()


NAMES = ("gate_proj", "up_proj", "down_proj")
"""The matrices of an MLP, as every decoder of Llama's kind names them."""


def check_growable(agent: Agent, options: Options, layers: tuple[int, ...]) -> None:
    """Refuse layers beside which no groups can be born.

    Raises:
        ConfigError: there are none, an MLP is not gated by silu without biases, or the size does not divide the width.
    """
    if not layers:
        raise ConfigError("The lesson trains no layer of the trunk, so nothing can grow: leave its option `grow` out.")
    check_size(options.size, width=agent.trunk.decoder.config.hidden_size)
    for number in layers:
        mlp: Any = agent.trunk.decoder.layers[number].mlp
        parts = [getattr(mlp, name, None) for name in NAMES]
        silent = agent.trunk.decoder.config.hidden_act in ("silu", "swish")
        if not silent or any(part is None or part.bias is not None for part in parts):
            raise ConfigError(
                f"Layer {number} of the trunk cannot grow: its MLP must be gated by silu and have no biases, as "
                "Llama's. Leave the lesson's option `grow` out."
            )
