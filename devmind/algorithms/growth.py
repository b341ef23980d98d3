"""Layers whose neurons and synapses are born and die: groups of neurons, blocks of synapses, and a pool for them.

A layer stands between an input and an output that are both cut into groups of g numbers. It has G groups of g neurons
of its own. Each reads K groups of the input and writes to M groups of the output, by blocks of g x g synapses; K and M
are the same for all groups of a layer (constant fan-in: Lasby et al., 2023), so every table is a plain tensor. A neuron
is silu(w x), or gated, silu(v x) * (u x), as in decoders of Llama's kind; P is 1 or 2, the blocks for each input group.

All blocks of all layers lie in one pool with a list of free places. How many are born and die is decided by a plan, so
the host knows every shape, and which ones it is stays on the device: nothing here waits for the device.

Notable choices: the neurons of a new group compute zero and their outgoing synapses are the top singular vectors of the
gradient, which makes the gradient of the incoming ones as large as it can be (GradMax: Evci et al., 2022). Blocks are
dropped by magnitude and regrown by gradient (RigL: Evci et al., 2020), with new ones at zero. What is to die fades to
zero over the steps before, so neither a birth nor a death changes what the layer computes.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from devmind.errors import ConfigError

BUNDLE = 8
"""Groups multiplied at once on a CPU: what they gather fits into the cache; all at once was up to 3 times slower."""


# -- the pool ---------------------------------------------------------------------------------------------------------


@dataclass
class Pool:
    """Blocks [C, g, g] with their Adam moments and ages in steps [C]; the first `n_free` entries of `free` int64 [C]
    are places that nobody uses."""

    values: Tensor
    first: Tensor
    second: Tensor
    age: Tensor
    free: Tensor
    n_free: int
    _blocks: tuple[Sequence[Tensor], ...] = ()

    @classmethod
    def empty(cls, capacity: int, size: int, like: Tensor) -> Pool:
        """A pool of free places for blocks of `size` x `size`, on the device and of the dtype of `like`."""
        values = like.new_zeros(capacity, size, size)
        # The lowest places are taken first.
        order = torch.arange(capacity - 1, -1, -1, device=like.device)
        moments = torch.zeros_like(values), torch.zeros_like(values)
        return cls(values, *moments, torch.zeros_like(order, dtype=torch.float32), order, capacity)

    def state(self) -> dict[str, Any]:
        """What a pool is made from."""
        return {name: value for name, value in vars(self).items() if name != "_blocks"}

    def blocks(self) -> tuple[Sequence[Tensor], ...]:
        """Every place's block, moments and age by themselves, made once, as making them costs as much as a step."""
        self._blocks = self._blocks or tuple(kept.unbind() for kept in (self.values, self.first, self.second, self.age))
        return self._blocks

    @property
    def used(self) -> int:
        """How many blocks are alive."""
        return len(self.values) - self.n_free

    @property
    def block_bytes(self) -> int:
        """Bytes of one block with its moments, its age and its entry among the free ones."""
        return 3 * self.values[:1].nbytes + self.age[:1].nbytes + self.free[:1].nbytes

    def check_room(self, blocks: int, freed: int = 0) -> None:
        """Refuse what does not fit, before anything is changed; `freed` places are given back before.

        Raises:
            ConfigError: fewer places are free.
        """
        if blocks > self.n_free + freed:
            raise ConfigError(
                f"{blocks:,} blocks are to be born and the pool of {len(self.values):,} has {self.n_free + freed:,} "
                "free: let fewer groups be born, or make the pool larger. Nothing was changed."
            )

    def take(self, blocks: int) -> Tensor:
        """Places int64 [blocks] of new blocks, which are zero and so are their moments."""
        self.check_room(blocks)
        self.n_free -= blocks
        places = self.free[self.n_free : self.n_free + blocks].clone()
        for kept in (self.values, self.first, self.second, self.age):
            kept.index_fill_(0, places, 0)
        return places

    def give(self, places: Tensor) -> None:
        """Take back the places of blocks that died, of any shape."""
        count = places.numel()
        self.free[self.n_free : self.n_free + count] = places.flatten()
        self.n_free += count

    def fragmentation(self) -> float:
        """The share of the free places outside their longest row; it waits for the device."""
        if not self.n_free:
            return 0.0
        places = self.free[: self.n_free].sort().values
        ends = torch.cat((places[1:] != places[:-1] + 1, places.new_ones(1, dtype=torch.bool))).nonzero().squeeze(-1)
        return 1 - int(torch.diff(ends, prepend=ends.new_full((1,), -1)).max()) / self.n_free

    def compact(self, layers: Iterable[Layer], spare: int) -> int:
        """Move the blocks of `layers` together, leave `spare` free places, and return the rest; the bytes freed.

        Moments and ages move along, and every storage is a new one, so the old memory goes back to its allocator.
        """
        layers, before = list(layers), len(self.values)
        places = torch.cat([self.values.new_zeros(0, dtype=torch.int64), *(layer.places() for layer in layers)])
        for name in ("values", "first", "second", "age"):
            kept = getattr(self, name)
            moved = kept.new_zeros((len(places) + spare, *kept.shape[1:]))
            setattr(self, name, moved.index_copy_(0, torch.arange(len(places), device=kept.device), kept[places]))
        begin = 0
        for layer in layers:
            begin = layer.renumber(begin)
        self.free = torch.arange(len(self.values) - 1, -1, -1, device=places.device)
        self.n_free, self._blocks = spare, ()
        return (before - len(self.values)) * self.block_bytes


# -- a layer: its tables ----------------------------------------------------------------------------------------------


@dataclass
class Layer:
    """The tables of a layer; every tensor is int64 but `useful`.

    Attributes:
        inputs, outputs: groups of the input and of the output.
        sources: [G, K], targets: [G, M], rising; into: [G, P, K], out: [G, M], the places of the blocks in the pool.
        useful: [G], running mean of what the loss would lose without the group, |sum of weight times gradient|
            over its outgoing synapses (Molchanov et al., 2019).
        ages: evolutions that each group has seen, [G]; recent: how many groups were born in the last one.
        fading: [F], groups that die at the next evolution.
        fading_into: [G, R], fading_out: [G, S], which of K and M die then; regrows: how many are born in their place.
    """

    inputs: int
    outputs: int
    sources: Tensor
    targets: Tensor
    into: Tensor
    out: Tensor
    useful: Tensor
    ages: Tensor
    fading: Tensor
    fading_into: Tensor
    fading_out: Tensor
    recent: int = 0
    regrows: tuple[int, int] = (0, 0)

    @classmethod
    def empty(cls, inputs: int, outputs: int, kinds: int, like: Tensor) -> Layer:
        """A layer without groups; `kinds` is P."""
        none = torch.zeros(0, dtype=torch.int64, device=like.device)
        tables = none.view(0, 0), none.view(0, 0), none.view(0, kinds, 0), none.view(0, 0)
        return cls(inputs, outputs, *tables, like.new_zeros(0), none, none, none.view(0, 0), none.view(0, 0))

    @property
    def groups(self) -> int:
        """G."""
        return len(self.sources)

    @property
    def blocks(self) -> int:
        """How many blocks are alive."""
        return self.into.numel() + self.out.numel()

    @property
    def is_full(self) -> bool:
        """Whether every group reads all of the input and writes to all of the output: it is a dense layer."""
        return self.sources.shape[1] == self.inputs and self.targets.shape[1] == self.outputs

    def places(self) -> Tensor:
        """The places of all blocks, int64 [blocks]: incoming ones, then outgoing ones."""
        return torch.cat((self.into.flatten(), self.out.flatten()))

    def renumber(self, begin: int) -> int:
        """Let the blocks lie at `begin` and behind it, in the order of `places`; where they end."""
        count = self.into.numel()
        places = torch.arange(begin, begin + self.blocks, device=self.into.device)
        self.into, self.out = places[:count].view_as(self.into), places[count:].view_as(self.out)
        return begin + self.blocks


def check_size(size: int, **widths: int) -> None:
    """Refuse a size of groups that does not divide a width.

    Raises:
        ConfigError: it does not.
    """
    for name, width in widths.items():
        if size < 1 or width % size:
            fits = [n for n in range(1, width + 1) if not width % n]
            raise ConfigError(
                f"Groups of {size} neurons do not divide the {name} of {width}: take one of "
                f"{', '.join(map(str, fits[-9:]))}. Nothing was changed."
            )


# -- products of gathered blocks --------------------------------------------------------------------------------------


SIDES, FLOATS = (16, 32, 64), (torch.float32, torch.bfloat16, torch.float16)
"""Sides of blocks, and kinds of numbers, that the Triton kernels take."""


@cache
def _load_kernels() -> Any:
    try:
        from devmind.algorithms import growth_kernel
    except ImportError as error:
        warnings.warn(
            f"The Triton kernels of growing layers cannot be loaded ({error}), so their blocks are gathered in memory "
            "and multiplied by torch, with the same result. Install the triton that belongs to this torch.",
            stacklevel=2,
        )
        return None
    return growth_kernel


def kernels_for(like: Tensor, *sides: int) -> Any:
    """The module of Triton kernels where they run products of blocks of these sides; None: torch does.

    They run on GPUs of CUDA and ROCm, and by Triton's interpreter (TRITON_INTERPRET=1) on any device.
    """
    fits = like.dtype in FLOATS and all(side in SIDES for side in sides)
    runs = like.is_cuda or os.environ.get("TRITON_INTERPRET") == "1"
    return _load_kernels() if fits and runs else None


def _bundles(groups: int, like: Tensor) -> list[slice]:
    step = BUNDLE if like.device.type == "cpu" else max(groups, 1)
    return [slice(begin, min(begin + step, groups)) for begin in range(0, groups, step)]


@torch.library.custom_op("devmind::gather_matmul", mutates_args=())
def gather_matmul(x: Tensor, weights: Tensor, sources: Tensor) -> Tensor:
    """Each group's weights [G, A, K g] times the K groups that it reads of x [S, g, N], sources int64 [G, K].

    Returns [G, A, N]. The work is that of the blocks that are there.
    """
    (groups, rows, depth), (_, size, columns) = weights.shape, x.shape
    if groups * depth * columns and (kernels := kernels_for(x, rows, size)):
        return kernels.gather_matmul(x, weights, sources)
    found = x.new_empty(groups, rows, columns)
    for some in _bundles(groups, x):
        read = x.index_select(0, sources[some].flatten()).view(-1, depth, columns)
        torch.bmm(weights[some], read, out=found[some])
    return found


@torch.library.custom_op("devmind::scatter_matmul", mutates_args=())
def scatter_matmul(h: Tensor, weights: Tensor, targets: Tensor, outputs: int) -> Tensor:
    """Add each group's weights [G, M g, A] times h [G, A, N] to the groups that it writes to, targets int64 [G, M].

    Returns [outputs, g, N]. On a GPU without Triton's kernels sums are in no fixed order, unless torch's deterministic
    algorithms are asked for.
    """
    (groups, writes), columns = targets.shape, h.shape[2]
    size = weights.shape[1] // max(writes, 1)
    if groups * writes * columns and (kernels := kernels_for(h, size, h.shape[1])):
        return kernels.scatter_matmul(h, weights, targets, outputs)
    found = h.new_zeros(outputs, size, columns)
    for some in _bundles(groups, h):
        written = torch.bmm(weights[some], h[some]).view(-1, size, columns)
        found.index_add_(0, targets[some].flatten(), written)
    return found


@torch.library.custom_op("devmind::gather_outer", mutates_args=())
def gather_outer(d: Tensor, x: Tensor, sources: Tensor) -> Tensor:
    """The gradient [G, A, K g] of `gather_matmul`'s weights from that of its result, d [G, A, N]."""
    (groups, reads), (_, size, columns) = sources.shape, x.shape
    if groups * reads * columns and (kernels := kernels_for(x, d.shape[1], size)):
        return kernels.gather_outer(d, x, sources)
    found = d.new_empty(groups, d.shape[1], reads * size)
    for some in _bundles(groups, x):
        read = x.index_select(0, sources[some].flatten()).view(-1, reads * size, columns)
        torch.bmm(d[some], read.mT, out=found[some])
    return found


@gather_matmul.register_fake
def _(x: Tensor, weights: Tensor, sources: Tensor) -> Tensor:
    return x.new_empty(weights.shape[0], weights.shape[1], x.shape[2])


@scatter_matmul.register_fake
def _(h: Tensor, weights: Tensor, targets: Tensor, outputs: int) -> Tensor:
    return h.new_empty(outputs, weights.shape[1] // max(targets.shape[1], 1), h.shape[2])


@gather_outer.register_fake
def _(d: Tensor, x: Tensor, sources: Tensor) -> Tensor:
    return d.new_empty(d.shape[0], d.shape[1], sources.shape[1] * x.shape[1])


def _keep_gather(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _gather_back(ctx: Any, d: Tensor) -> tuple[Tensor, Tensor, None]:
    x, weights, sources = ctx.saved_tensors
    d = d.contiguous()
    return scatter_matmul(d, weights.mT, sources, len(x)), gather_outer(d, x, sources), None


def _keep_scatter(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs[:3])


def _scatter_back(ctx: Any, d: Tensor) -> tuple[Tensor, Tensor, None, None]:
    h, weights, targets = ctx.saved_tensors
    d = d.contiguous()
    return gather_matmul(d, weights.mT, targets), gather_outer(h, d, targets).mT, None, None


gather_matmul.register_autograd(_gather_back, setup_context=_keep_gather)
scatter_matmul.register_autograd(_scatter_back, setup_context=_keep_scatter)


# -- the four functions of a layer ------------------------------------------------------------------------------------


def weights_of(layer: Layer, blocks: Tensor) -> tuple[Tensor, Tensor]:
    """The incoming weights [G, P g, K g] and the outgoing ones [G, M g, g] from blocks [n, g, g], as in `places`."""
    (groups, kinds, reads), writes, size = layer.into.shape, layer.out.shape[1], blocks.shape[-1]
    into, out = blocks.split((layer.into.numel(), layer.out.numel()))
    into = into.view(groups, kinds, reads, size, size).transpose(2, 3)
    return into.reshape(groups, kinds * size, reads * size), out.reshape(groups, writes * size, size)


def activate(pre: Tensor, kinds: int) -> Tensor:
    """What neurons [G, g, N] say from what comes in, [G, P g, N]."""
    if kinds == 1:
        return functional.silu(pre)
    gate, up = pre.chunk(2, 1)
    return functional.silu(gate) * up


def forward(layer: Layer, blocks: Tensor, x: Tensor) -> Tensor:
    """What the layer says, [N, outputs g], to x [N, inputs g]; zeros if all of its groups are dead."""
    size, kinds = blocks.shape[-1], layer.into.shape[1]
    if not layer.groups:
        return x.new_zeros(len(x), layer.outputs * size)
    if layer.is_full:  # dense products, without a transpose
        matrices, out = dense_of(layer, blocks)
        h = functional.silu(functional.linear(x, matrices[0]))
        return functional.linear(h if kinds == 1 else h * functional.linear(x, matrices[1]), out)
    into, out = weights_of(layer, blocks)
    columns = x.T.reshape(layer.inputs, size, len(x))
    h = activate(gather_matmul(columns, into, layer.sources), kinds)
    return scatter_matmul(h, out, layer.targets, layer.outputs).view(-1, len(x)).T


@torch.no_grad()
def activity(layer: Layer, blocks: Tensor, x: Tensor) -> Tensor:
    """Mean |activation| of the neurons of each group, [G], on x [N, inputs g]."""
    columns = x.T.reshape(layer.inputs, -1, len(x))
    pre = gather_matmul(columns, weights_of(layer, blocks)[0], layer.sources)
    return activate(pre, layer.into.shape[1]).abs().mean((1, 2))


@dataclass
class Probe:
    """What an evolution needs to know: the gradient of a dense bypass, [outputs g, inputs g], and the norms of the
    gradients of all blocks that are there or could be, [G, inputs] and [G, outputs]."""

    bypass: Tensor
    into: Tensor
    out: Tensor


@torch.no_grad()
def gradients(layer: Layer, blocks: Tensor, x: Tensor, d: Tensor) -> tuple[Tensor, Tensor, Probe]:
    """By hand, for a gradient d [N, outputs g] of what the layer said to x: that of blocks, of x, and the Probe."""
    (groups, kinds, reads), size, n = layer.into.shape, blocks.shape[-1], len(x)
    columns, back = x.T.reshape(layer.inputs, size, n), d.T.reshape(layer.outputs, size, n)
    into, out = weights_of(layer, blocks)
    pre = gather_matmul(columns, into, layer.sources)
    with torch.enable_grad():
        pre.requires_grad_()
        h = activate(pre, kinds)
    (d_pre,) = torch.autograd.grad(h, pre, gather_matmul(back, out.mT, layer.targets))
    d_into = gather_outer(d_pre, columns, layer.sources)
    d_into = d_into.view(groups, kinds, size, reads, size).transpose(2, 3).reshape(-1, size, size)
    d_out = gather_outer(h.detach(), back, layer.targets).mT.reshape(-1, size, size)
    d_x = scatter_matmul(d_pre, into.mT, layer.sources, layer.inputs).view(-1, n).T
    wide_into = (d_pre.flatten(0, 1) @ x).view(groups, kinds * size, layer.inputs, size)
    wide_out = (back.flatten(0, 1) @ h.detach().flatten(0, 1).T).view(layer.outputs, size, groups, size)
    probe = Probe(d.T @ x, wide_into.norm(dim=(1, 3)), wide_out.norm(dim=(1, 3)).T)
    return torch.cat((d_into, d_out)), d_x, probe


@torch.no_grad()
def apply(
    pool: Pool,
    layer: Layer,
    gradient: Tensor,
    rate: float,
    *,
    young: int = 0,
    young_rate: float = 1.0,
    decay: float = 0.0,
    left: int = 0,
    betas: tuple[float, float] = (0.9, 0.95),
) -> Tensor:
    """One step of AdamW on the layer's blocks, each with a step count of its own; how many were passed over.

    Where a group reads or writes only some of what it could, the rate of these blocks is higher by as much, since a
    neuron's input then changes as in a dense layer (Dey et al., 2024; at the dense rate, pruned layers hardly learned).
    A block whose gradient [n, g, g] is not finite stays as it is, with its moments.

    Args:
        young: steps for which a block has `young_rate` times the rate.
        left: steps until the next evolution, this one included; what then dies fades to zero. 0: none does.
    """
    places, count = layer.places(), layer.into.numel()
    saved = torch.linalg.vecdot(pool.values.index_select(0, places[count:]).flatten(1), gradient[count:].flatten(1))
    layer.useful = layer.useful.lerp(saved.view(layer.out.shape).nan_to_num(0, 0, 0).sum(1).abs(), 0.1)
    fine = gradient.flatten(1).sum(1).isfinite()
    rates = gradient.new_full((len(places),), rate * layer.inputs / max(layer.sources.shape[1], 1))
    rates[count:] = rate * layer.outputs / max(layer.targets.shape[1], 1)
    rates = torch.where(pool.age.index_select(0, places) < young, rates * young_rate, rates)
    pool.age.index_add_(0, places, fine.to(pool.age.dtype))
    step = _step_fused if gradient.device.type == "cpu" else _step
    step(pool, places, gradient, fine, rates, decay, betas)
    if left:
        _fade(layer, pool, (left - 1) / left)
    return (~fine).sum()


def _step(
    pool: Pool, places: Tensor, d: Tensor, fine: Tensor, rates: Tensor, decay: float, betas: tuple[float, float]
) -> None:
    """AdamW on the blocks at `places`, without asking a device which ones are `fine`."""
    there, d = fine[:, None, None].to(d.dtype), d.nan_to_num(0, 0, 0)
    # `index_select` is some times faster than indexing.
    values, first, second = (kept.index_select(0, places) for kept in (pool.values, pool.first, pool.second))
    first.lerp_(d, (1 - betas[0]) * there)
    second.lerp_(d.square_(), (1 - betas[1]) * there)
    steps = pool.age.index_select(0, places)[:, None, None].clamp_min(1).to(d.dtype)
    share = rates[:, None, None] * there
    spread = second.sqrt().mul_((1 - betas[1] ** steps).rsqrt()).add_(1e-8)
    values.mul_(1 - share * decay).sub_(spread.reciprocal_().mul_(first).mul_(share / (1 - betas[0] ** steps)))
    for kept, new in ((pool.values, values), (pool.first, first), (pool.second, second)):
        kept.index_copy_(0, places, new)


def _step_fused(
    pool: Pool, places: Tensor, d: Tensor, fine: Tensor, rates: Tensor, decay: float, betas: tuple[float, float]
) -> None:
    """The same on a CPU, in place and in one pass: 4 times as fast, and nobody waits for the host."""
    # Contiguous, as blocks are: the fused step reads memory in order, whatever strides say.
    numbers, each = places.tolist(), d.contiguous().unbind()
    for rate in rates.unique().tolist():
        if not (chosen := ((rates == rate) & fine).nonzero().squeeze(1).tolist()):
            continue
        values, first, second, age = ([kept[numbers[at]] for at in chosen] for kept in pool.blocks())
        # What AdamW(fused=True) calls; its own way there costs as much again.
        torch._fused_adamw_(
            values,
            [each[at] for at in chosen],
            first,
            second,
            [],
            age,
            lr=float(rate),
            beta1=betas[0],
            beta2=betas[1],
            weight_decay=decay,
            eps=1e-8,
            amsgrad=False,
            maximize=False,
        )


def _fade(layer: Layer, pool: Pool, factor: float) -> None:
    """Let what dies at the next evolution become smaller by this factor."""
    into = layer.into.gather(2, layer.fading_into[:, None].expand(-1, layer.into.shape[1], -1))
    for places in (into, layer.out.gather(1, layer.fading_out), layer.out[layer.fading]):
        some = places.flatten()
        pool.values.index_copy_(0, some, pool.values.index_select(0, some) * factor)


@dataclass(frozen=True)
class Evolution:
    """What one evolution does to a layer.

    Args:
        births: groups that are born; deaths: groups that begin to fade; no group dies in its first two evolutions.
        reads, writes: K and M that the layer has at least; a new group has so many, unless the layer has more.
        prunes: of a group's incoming and outgoing blocks, how many begin to fade and die at the next evolution;
            regrows: how many do besides, and are regrown then.
        scale: norm of the outgoing synapses of a new neuron; None: one over the root of the output's width.
    """

    births: int = 0
    deaths: int = 0
    reads: int = 1
    writes: int = 1
    prunes: tuple[int, int] = (0, 0)
    regrows: tuple[int, int] = (0, 0)
    scale: float | None = None


YOUNG = 2
"""Evolutions for which a new group cannot be chosen to die."""


@torch.no_grad()
def evolve(layer: Layer, pool: Pool, probe: Probe, plan: Evolution, generator: torch.Generator) -> None:
    """Free what has faded, let blocks regrow and groups be born, and choose what fades next.

    Raises:
        ConfigError: the pool is too small; nothing was changed.
    """
    kinds, size = layer.into.shape[1], pool.values.shape[-1]
    gone, staying = len(layer.fading), layer.groups - len(layer.fading)
    dropped = layer.fading_into.shape[1], layer.fading_out.shape[1]
    grown = layer.regrows
    reads = (layer.sources.shape[1] - dropped[0] + grown[0]) if staying else min(plan.reads, layer.inputs)
    writes = (layer.targets.shape[1] - dropped[1] + grown[1]) if staying else min(plan.writes, layer.outputs)
    freed = gone * (layer.blocks // max(layer.groups, 1)) + staying * (kinds * dropped[0] + dropped[1])
    needed = staying * (kinds * grown[0] + grown[1]) + plan.births * (kinds * reads + writes)
    pool.check_room(needed, freed)
    if gone:
        probe = _bury(layer, pool, probe)
    if dropped[0] or dropped[1]:
        _regrow(layer, pool, probe, grown)
    layer.ages += 1
    if plan.births:
        one = born(probe.bypass, plan.births, size, kinds, reads, writes, generator, plan.scale)
        _join(layer, pool, one)
    _choose(layer, pool, plan, min(plan.deaths, layer.groups - plan.births - layer.recent))
    layer.recent = plan.births


def _bury(layer: Layer, pool: Pool, probe: Probe) -> Probe:
    """Remove the groups that have faded; the Probe of the others."""
    dead = layer.fading
    pool.give(layer.into[dead])
    pool.give(layer.out[dead])
    is_dead = torch.zeros_like(layer.ages).index_fill_(0, dead, 1)
    alive = is_dead.argsort(stable=True)[: layer.groups - len(dead)]
    for name in ("sources", "targets", "into", "out", "useful", "ages", "fading_into", "fading_out"):
        setattr(layer, name, getattr(layer, name)[alive])
    layer.fading = dead[:0]
    return replace(probe, into=probe.into[alive], out=probe.out[alive])


def _regrow(layer: Layer, pool: Pool, probe: Probe, grown: Sequence[int]) -> None:
    """Free the blocks that have faded, and let so many incoming and outgoing ones be born at the largest gradients."""
    layer.sources, layer.into = _exchange(pool, layer.sources, layer.into, layer.fading_into, probe.into, grown[0])
    targets, out = _exchange(pool, layer.targets, layer.out[:, None], layer.fading_out, probe.out, grown[1])
    layer.targets, layer.out = targets, out.squeeze(1)
    layer.fading_into, layer.fading_out = layer.fading_into[:, :0], layer.fading_out[:, :0]


def _exchange(
    pool: Pool, ends: Tensor, places: Tensor, fading: Tensor, norms: Tensor, grown: int
) -> tuple[Tensor, Tensor]:
    """Ends [G, K] and places [G, P, K] without the `fading` ones [G, R], and with `grown` new ones at zero."""
    (groups, kinds, _), left = places.shape, ends.shape[1] - fading.shape[1]
    pool.give(places.gather(2, fading[:, None].expand(-1, kinds, -1)))
    staying = torch.zeros_like(ends).scatter_(1, fading, 1).argsort(dim=1, stable=True)[:, :left]
    ends, places = ends.gather(1, staying), places.gather(2, staying[:, None].expand(-1, kinds, -1))
    if grown:
        missing = norms.nan_to_num(0).scatter(1, ends, -1.0)
        ends = torch.cat((ends, missing.topk(grown, 1).indices), 1)
        places = torch.cat((places, pool.take(groups * kinds * grown).view(groups, kinds, grown)), 2)
        order = ends.argsort(1)
        ends, places = ends.gather(1, order), places.gather(2, order[:, None].expand(-1, kinds, -1))
    return ends, places


class Newborn(NamedTuple):
    """New groups: their ends [n, K] and [n, M], and their blocks [n, P, K, g, g] and [n, M, g, g]."""

    sources: Tensor
    targets: Tensor
    into: Tensor
    out: Tensor


def born(
    bypass: Tensor,
    groups: int,
    size: int,
    kinds: int,
    reads: int,
    writes: int,
    generator: torch.Generator,
    scale: float | None = None,
) -> Newborn:
    """Groups that compute zero, with the largest possible gradient of their incoming synapses (GradMax).

    In gated neurons the gates are random, as a neuron whose gate and value are both zero never learns.

    Args:
        bypass: the gradient [outputs g, inputs g] of a dense connection beside the layer.
    """
    check_size(size, input=bypass.shape[1], output=bypass.shape[0])
    gate, _, down = birth(bypass, groups * size, generator, scale)
    turned = down.T.reshape(groups, size, -1, size)  # [n, g, outputs, g]
    targets = turned.norm(dim=(1, 3)).topk(writes, 1).indices.sort(1).values
    wanted = (turned.flatten(2) @ bypass).view(groups, size, -1, size).norm(dim=(1, 3))
    sources = wanted.nan_to_num(0).topk(reads, 1).indices.sort(1).values
    out = turned.permute(0, 2, 3, 1).gather(1, targets[:, :, None, None].expand(-1, -1, size, size))
    into = bypass.new_zeros(groups, kinds, reads, size, size)
    if kinds == 2:
        gates = gate.view(groups, size, -1, size).transpose(1, 2)
        gates = gates.gather(1, sources[:, :, None, None].expand(-1, -1, size, size))
        into[:, 0] = gates * (bypass.shape[1] / (reads * size)) ** 0.5
    return Newborn(sources, targets, into, out)


def birth(
    bypass: Tensor, neurons: int, generator: torch.Generator, scale: float | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Gated neurons that compute zero: random gates [n, inputs], values of zero [n, inputs], and columns [outputs, n]
    of norm `scale` along the top singular vectors of `bypass` (see `born`); if that is zero, along random ones."""
    outputs, inputs = bypass.shape
    gate = torch.randn(neurons, inputs, generator=generator).to(bypass) * inputs**-0.5
    down = top_directions(bypass, neurons, generator) * (outputs**-0.5 if scale is None else scale)
    return gate, torch.zeros_like(gate), down


def top_directions(matrix: Tensor, count: int, generator: torch.Generator, rounds: int = 6) -> Tensor:
    """Orthonormal directions [R, count] about the top left singular vectors of `matrix` [R, C], by subspace iteration:
    a singular value decomposition would wait for the device. Beyond R they begin anew.
    """
    rows = len(matrix)
    matrix = matrix.nan_to_num(0, 0, 0)
    matrix = matrix / matrix.norm().clamp_min(1e-30)
    taken = min(count, rows)
    start = torch.randn(rows, taken, generator=generator, dtype=torch.float64).to(matrix)
    found = torch.linalg.qr(start).Q
    for _ in range(rounds):
        # What the matrix does not reach stays as it was.
        found = torch.linalg.qr(matrix @ (matrix.T @ found) + 1e-6 * found).Q
    if count > rows:
        found = found.repeat(1, -(-count // rows))[:, :count]
    return found


def _join(layer: Layer, pool: Pool, one: Newborn) -> None:
    groups = len(one.sources)
    into = pool.take(one.into[..., 0, 0].numel()).view(one.into.shape[:3])
    out = pool.take(one.out[..., 0, 0].numel()).view(one.out.shape[:2])
    pool.values.index_copy_(0, into.flatten(), one.into.flatten(0, 2))
    pool.values.index_copy_(0, out.flatten(), one.out.flatten(0, 1))
    if not layer.groups:
        layer.sources, layer.into = layer.sources.new_zeros(0, one.sources.shape[1]), into[:0]
        layer.targets, layer.out = layer.targets.new_zeros(0, one.targets.shape[1]), out[:0]
    for name, new in (("sources", one.sources), ("targets", one.targets), ("into", into), ("out", out)):
        setattr(layer, name, torch.cat((getattr(layer, name), new)))
    layer.useful = torch.cat((layer.useful, layer.useful.new_zeros(groups)))
    layer.ages = torch.cat((layer.ages, layer.ages.new_zeros(groups)))


def _choose(layer: Layer, pool: Pool, plan: Evolution, deaths: int) -> None:
    """Note which groups and blocks fade until the next evolution."""
    into, out = (pool.values[places].norm(dim=(-2, -1)) for places in (layer.into, layer.out))
    drops = [prune + regrow for prune, regrow in zip(plan.prunes, plan.regrows, strict=True)]
    # A group keeps one block at least.
    most = [max(0, ends.shape[1] - 1) for ends in (layer.sources, layer.targets)]
    layer.fading_into = into.norm(dim=1).topk(min(drops[0], most[0]), 1, largest=False).indices
    layer.fading_out = out.topk(min(drops[1], most[1]), 1, largest=False).indices
    layer.regrows = min(plan.regrows[0], layer.fading_into.shape[1]), min(plan.regrows[1], layer.fading_out.shape[1])
    old = layer.useful.where(layer.ages >= YOUNG, torch.full_like(layer.useful, torch.inf))
    layer.fading = old.topk(max(0, deaths), largest=False).indices


def dense_of(layer: Layer, blocks: Tensor) -> tuple[list[Tensor], Tensor]:
    """The layer as dense matrices: P incoming ones [G g, inputs g] and the outgoing one [outputs g, G g]; zeros where
    there is no block."""
    (groups, kinds, reads), size = layer.into.shape, blocks.shape[-1]
    into, out = blocks.split((layer.into.numel(), layer.out.numel()))
    wide, full = into.view(groups, kinds, reads, size, size), out.view(*layer.out.shape, size, size)
    if not layer.is_full:
        index = layer.sources[:, None, :, None, None].expand(-1, kinds, -1, size, size)
        wide = blocks.new_zeros(groups, kinds, layer.inputs, size, size).scatter(2, index, wide)
        index = layer.targets[:, :, None, None].expand(-1, -1, size, size)
        full = blocks.new_zeros(groups, layer.outputs, size, size).scatter(1, index, full)
    matrices = [wide[:, kind].transpose(1, 2).reshape(groups * size, layer.inputs * size) for kind in range(kinds)]
    return matrices, full.permute(1, 2, 0, 3).reshape(layer.outputs * size, groups * size)
