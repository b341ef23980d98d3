"""Thousands of small networks at once: each member has its own weights, seed, learning rate, weight decay and data.

A member is a chain of linear layers with one activation between them. All its numbers are one row of `weights` [P, D]:
by layer the weights [in, out], then the biases [out]; `layers` gives them as stacked tensors [P, in, out] and [P, out],
views without a copy. Gradients are written by hand, and the update is part of the gradient's product. Float32 with ReLU
and cross-entropy on a CPU takes `population_kernel`, which keeps a member in a core's cache; all else takes stacked
products (`step`). A step is that of `torch.optim.SGD(lr=rate, weight_decay=decay)` on the member alone.

Everything of a member is a function of its own seed and the step's number, so a population goes on exactly where it
was, and has the same bits however it is cut into chunks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from devmind.errors import ConfigError, nearest
from devmind.seeding import derive_seed, torch_generator

ACTIVATIONS: Mapping[str, type[nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh, "gelu": nn.GELU}
LOSSES = ("cross-entropy", "mse")
SHARE_OF_MEMORY = 0.5
"""The largest share of the free memory that a population takes."""
Layers = list[tuple[Tensor, Tensor]]


@dataclass
class Population:
    """P members of one shape.

    Attributes:
        sizes: numbers in, of each hidden layer, and out.
        weights: [P, D], float32 or float64.
        seeds: int64 [P]; rates, decays: [P] in the weights' type.
        aside: bool [P], members whose loss was NaN or infinite once. They are counted and never chosen; since no member
            reads another's numbers, the others go on.
        steps: steps made so far.
    """

    sizes: tuple[int, ...]
    weights: Tensor
    seeds: Tensor
    rates: Tensor
    decays: Tensor
    aside: Tensor
    activation: str = "relu"
    loss: str = "cross-entropy"
    steps: int = 0

    def __len__(self) -> int:
        return len(self.weights)

    def part(self, of: slice) -> Population:
        """Some members, as views of these."""
        return replace(self, **{name: getattr(self, name)[of] for name in TENSORS})

    def state_dict(self) -> dict[str, Any]:
        """All tensors, and the steps made."""
        return {name: getattr(self, name) for name in TENSORS} | {"steps": self.steps}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from `state_dict`.

        Raises:
            ConfigError: it is of other members.
        """
        if state["weights"].shape != self.weights.shape:
            raise ConfigError(
                f"The stored population has weights {list(state['weights'].shape)} and this one "
                f"{list(self.weights.shape)}; give the members and sizes it was begun with."
            )
        for name in TENSORS:
            setattr(self, name, state[name].clone().to(self.weights.device))
        self.steps = int(state["steps"])


TENSORS = tuple(field.name for field in fields(Population) if field.type == "Tensor")


def count_numbers(sizes: tuple[int, ...]) -> int:
    """D, the numbers of one member."""
    return sum((inner + 1) * outer for inner, outer in pairwise(sizes))


def layers(weights: Tensor, sizes: tuple[int, ...]) -> Layers:
    """By layer the weights [..., in, out] and biases [..., out], as views of weights [..., D]."""
    found, at = Layers(), 0
    for inner, outer in pairwise(sizes):
        matrix = weights[..., at : at + inner * outer].unflatten(-1, (inner, outer))
        at += (inner + 1) * outer
        found.append((matrix, weights[..., at - outer : at]))
    return found


def make(
    sizes: tuple[int, ...],
    seeds: Tensor,
    rates: Tensor | float = 0.1,
    decays: Tensor | float = 0.0,
    activation: str = "relu",
    loss: str = "cross-entropy",
    dtype: torch.dtype = torch.float32,
    device: str | torch.device = "cpu",
) -> Population:
    """A population whose members begin as `nn.Linear` layers do, each by its own seed.

    Raises:
        ConfigError: it does not fit into the free memory, with the bytes; or a setting is not known.
    """
    for what, name, known in (("activation", activation, ACTIVATIONS), ("loss", loss, LOSSES)):
        if name not in known:
            raise ConfigError(f"A population has no {what} '{name}'{nearest(name, known)}")
    members = len(seeds)
    check_memory(members * count_numbers(sizes) * dtype.itemsize, f"The weights of {members:,} members", device)
    weights, generator = torch.empty(members, count_numbers(sizes), dtype=dtype), torch.Generator()
    for row, seed in zip(weights, seeds.tolist(), strict=True):
        row.uniform_(-1.0, 1.0, generator=generator.manual_seed(seed))
    for inner, (matrix, bias) in zip(sizes, layers(weights, sizes), strict=False):
        matrix.div_(inner**0.5)
        bias.div_(inner**0.5)

    def each(value: Tensor | float) -> Tensor:
        return torch.as_tensor(value, dtype=dtype, device=device).expand(members).clone()

    return Population(
        sizes,
        weights.to(device),
        seeds.to(device),
        each(rates),
        each(decays),
        torch.zeros(members, dtype=torch.bool, device=device),
        activation,
        loss,
    )


def free_bytes(device: str | torch.device = "cpu") -> int:
    """Bytes of memory that are free on a device now; without a count of them, 4 GiB."""
    if torch.device(device).type != "cpu":
        return torch.accelerator.get_memory_info(torch.device(device))[0]
    stated = Path("/proc/meminfo")
    lines = stated.read_text(encoding="ascii").splitlines() if stated.is_file() else []
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable")), 4 << 30)


def check_memory(need: int, what: str, device: str | torch.device = "cpu") -> None:
    """Refuse what needs more than `SHARE_OF_MEMORY` of the free memory.

    Raises:
        ConfigError: with the bytes needed and free.
    """
    most = int(SHARE_OF_MEMORY * free_bytes(device))
    if need > most:
        raise ConfigError(
            f"{what} need {need:,} bytes, and {most:,} may be used (half of what is free on '{device}'). Take fewer "
            f"members, at most {most / need:.2g} times as many, or smaller ones."
        )


def chunks(population: Population, batch: int, steps: int, most_bytes: int | None = None) -> Iterator[slice]:
    """Members that are trained together, so that all besides the weights stays within `most_bytes`."""
    size, width = population.weights.dtype.itemsize, sum(population.sizes)
    # A batch with each layer's values and gradients, its products' workspace, and the rows' numbers.
    one = 3 * batch * width * size + 4 * steps * batch
    most = int(SHARE_OF_MEMORY * free_bytes(population.weights.device) / 4) if most_bytes is None else most_bytes
    if one > most:
        raise ConfigError(f"One member's step needs {one:,} bytes, and {most:,} may be used; take a smaller batch.")
    together = most // one
    for begin in range(0, len(population), together):
        yield slice(begin, min(len(population), begin + together))


def own_rows(seeds: Tensor, first: int, steps: int, batch: int, n: int) -> Tensor:
    """Rows of `n` examples in the batches of steps `first` and following, int32 [P, steps, batch].

    A member goes through all examples in an order of its own, another one in each epoch; an incomplete last batch is
    left out.

    Raises:
        ConfigError: a batch has more rows than there are examples.
    """
    if not 0 < batch <= n:
        raise ConfigError(f"A batch has 1 to {n} rows, as there are {n} examples; got {batch}.")
    each, generator = n // batch, torch.Generator()
    rows = torch.empty(len(seeds), steps, batch, dtype=torch.int32)
    for member, seed in enumerate(seeds.tolist()):
        at = 0
        while at < steps:
            epoch, step = divmod(first + at, each)
            order = torch.randperm(n, generator=generator.manual_seed((seed * 1_000_003 + epoch + 1) % 2**63))
            some = min(each - step, steps - at)
            rows[member, at : at + some] = order[step * batch : (step + some) * batch].view(some, batch)
            at += some
    return rows


def train(
    population: Population, x: Tensor, wanted: Tensor, steps: int, batch: int, most_bytes: int | None = None
) -> Tensor:
    """Make `steps` steps of all members, each on batches of its own (`own_rows`); the losses [P, steps], in float64.

    Args:
        x: [N, in]; wanted: int64 [N] of classes, or [N, out] for the mean square error.
        most_bytes: bound on what is needed besides the weights; None: a share of the free memory.

    Raises:
        ConfigError: shapes do not match, or one member's step does not fit.
    """
    check_data(population, x, wanted)
    losses = []
    for some in chunks(population, batch, steps, most_bytes):
        members = population.part(some)
        index = own_rows(members.seeds, population.steps, steps, batch, len(x)).to(x.device)
        losses.append(train_rows(members, x, wanted, index))
    population.steps += steps
    found = torch.cat(losses)
    population.aside |= ~found.isfinite().all(1)
    return found


def train_rows(population: Population, x: Tensor, wanted: Tensor, index: Tensor) -> Tensor:
    """Steps on given rows, int32 [P, S, B], in place; the losses before each step, float64 [P, S]."""
    weights = population.weights
    of_kernel = (population.activation, population.loss) == ("relu", "cross-entropy")
    if of_kernel and weights.device.type == "cpu" and weights.dtype == torch.float32:
        from devmind.algorithms import population_kernel

        found = population_kernel.train(
            weights.numpy(), population.sizes, x.contiguous().numpy(), wanted.numpy(), index.numpy(),
            population.rates.numpy(), population.decays.numpy(),
        )  # fmt: skip
        return torch.from_numpy(found)
    losses = []
    for rows in index.unbind(1):
        losses.append(step(population, x[rows], wanted[rows]))
    return torch.stack(losses, 1)


def check_data(population: Population, x: Tensor, wanted: Tensor) -> None:
    """Refuse data of another shape or type than the members take.

    Raises:
        ConfigError: with what was expected and what came.
    """
    sizes, dtype = population.sizes, population.weights.dtype
    if x.ndim != 2 or x.shape[1] != sizes[0] or x.dtype != dtype:
        raise ConfigError(
            f"The members read [N, {sizes[0]}] numbers of type {dtype}; got {list(x.shape)} of {x.dtype}."
        )
    if population.loss == "mse":
        if wanted.shape != (len(x), sizes[-1]) or wanted.dtype != dtype:
            raise ConfigError(
                f"The targets of {len(x)} examples are [{len(x)}, {sizes[-1]}] of {dtype}; got {list(wanted.shape)} "
                f"of {wanted.dtype}."
            )
    elif wanted.shape != (len(x),) or wanted.dtype != torch.int64:
        raise ConfigError(f"The classes of {len(x)} examples are int64 [{len(x)}]; got {list(wanted.shape)}.")
    elif len(wanted) and not 0 <= int(wanted.min()) <= int(wanted.max()) < sizes[-1]:
        raise ConfigError(
            f"Classes are 0 to {sizes[-1] - 1}; got {int(wanted.min())} to {int(wanted.max())}. Give the members as "
            "many outputs as there are classes."
        )


def step(population: Population, x: Tensor, wanted: Tensor) -> Tensor:
    """One step by stacked products on x [P, B, in] and classes [P, B] or targets [P, B, out]; losses float64 [P]."""
    stack, rates = layers(population.weights, population.sizes), population.rates
    keep, scale = 1 - rates * population.decays, -rates / x.shape[1]
    inputs, slopes, h = list[Tensor](), list[Tensor](), x
    for n, (matrix, bias) in enumerate(stack):
        inputs.append(h)
        h = torch.baddbmm(bias[:, None], h, matrix)
        if n < len(stack) - 1:
            h, slope = _value_and_slope(h, population.activation)
            slopes.append(slope)
    if population.loss == "mse":
        error = h - wanted
        losses = error.square().double().mean((1, 2))
        delta = error * (2 / h.shape[-1] * scale)[:, None, None]
    else:
        log_p = F.log_softmax(h, -1)
        losses = -log_p.gather(-1, wanted[..., None].long()).double().mean((1, 2))
        delta = log_p.exp()
        delta.scatter_add_(-1, wanted[..., None].long(), delta.new_full((1, 1, 1), -1.0).expand(*wanted.shape, 1))
        delta *= scale[:, None, None]
    for n in range(len(stack) - 1, -1, -1):
        matrix, bias = stack[n]
        below = torch.bmm(delta, matrix.mT) if n else None
        matrix.mul_(keep[:, None, None]).baddbmm_(inputs[n].mT, delta)
        bias.mul_(keep[:, None]).add_(delta.sum(1))
        if below is not None:
            delta = below.mul_(slopes[n - 1])
    return losses


def _value_and_slope(x: Tensor, kind: str) -> tuple[Tensor, Tensor]:
    """An activation, and its slope at x."""
    if kind == "relu":
        return x.relu(), (x > 0).to(x.dtype)
    if kind == "tanh":
        value = x.tanh()
        return value, 1 - value.square()
    normal = 0.5 * (1 + torch.erf(x * 0.5**0.5))
    return x * normal, normal + x * torch.exp(-0.5 * x.square()) * (2 * torch.pi) ** -0.5


def answers(weights: Tensor, sizes: tuple[int, ...], activation: str, x: Tensor) -> Tensor:
    """The answers [P, N, out] of members with weights [P, D] to x [P, N, in], or to one [N, in] that all read."""
    h, activate = x.expand(len(weights), *x.shape[-2:]), ACTIVATIONS[activation]()
    for n, (matrix, bias) in enumerate(layers(weights, sizes)):
        h = torch.baddbmm(bias[:, None], activate(h) if n else h, matrix)
    return h


def accuracies(population: Population, x: Tensor, labels: Tensor) -> Tensor:
    """The share of examples that each member answers rightly, [P]."""
    found = [
        answers(population.weights[some], population.sizes, population.activation, x).argmax(-1) == labels
        for some in chunks(population, len(x), 0)
    ]
    return torch.cat([right.double().mean(1) for right in found])


def module(weights: Tensor, sizes: tuple[int, ...], activation: str) -> nn.Sequential:
    """One member of weights [D] as ordinary layers, whose state dict any head of that shape loads."""
    made = list[nn.Module]()
    for matrix, bias in layers(weights, sizes):
        linear = nn.utils.skip_init(nn.Linear, *matrix.shape, dtype=matrix.dtype, device=matrix.device)
        linear.load_state_dict({"weight": matrix.T, "bias": bias})
        made += [linear, ACTIVATIONS[activation]()]
    return nn.Sequential(*made[:-1])


def ensemble(weights: Tensor, sizes: tuple[int, ...], activation: str) -> nn.Sequential:
    """The mean of n members' answers as one network, their hidden units side by side; weights [n, D], three sizes."""
    (first, begin), (last, end) = layers(weights, sizes)
    wide = (first.permute(1, 0, 2).flatten(), begin.flatten(), (last / len(last)).flatten(), end.mean(0))
    return module(torch.cat(wide), (sizes[0], len(first) * sizes[1], sizes[2]), activation)


def ranked(population: Population, losses: Tensor) -> Tensor:
    """Members from the lowest loss to the highest; those set aside, and those without a finite loss, come last."""
    return torch.where(population.aside | ~losses.isfinite(), torch.inf, losses).argsort(stable=True)


def exploit(population: Population, losses: Tensor, seed: int, share: float = 0.2, factor: float = 1.25) -> int:
    """Population-based training (Jaderberg et al. 2017, arXiv 1711.09846): the worst copy the best, with new settings.

    The worst `share` and all that were set aside take the weights of a member of the best `share`, its rate and its
    decay, each multiplied or divided by `factor`, and, in place, their `losses`. Copies keep their own seed, so their
    data differ.

    Returns:
        The number of members replaced.
    """
    order, n = ranked(population, losses), max(1, int(share * len(population)))
    n_bad = max(n, int(population.aside.sum()))
    if n_bad + n > len(population) or not bool(losses[order[:n]].isfinite().all()):
        return 0
    generator = torch_generator("exploit", derive_seed(seed, population.steps))
    bad, good = order[-n_bad:], order[torch.randint(n, (n_bad,), generator=generator).to(order.device)]
    population.weights[bad] = population.weights[good]
    losses[bad] = losses[good]
    for settings in (population.rates, population.decays):
        up = (torch.rand(n_bad, generator=generator) < 0.5).to(settings.device)
        settings[bad] = settings[good] * torch.where(up, factor, 1 / factor).to(settings.dtype)
    population.aside[bad] = False
    return n_bad
