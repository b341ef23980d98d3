"""Many small networks: steps of a network in a CPU second, beside peers, in one run; then what 100,000 learn.

    python benchmarks/population.py [--rounds 5] [--mnist mnist_10k.npz]

JAX is one of the peers where it is installed (`pip install jax`; the project does not need it). A network is D-32-10
with ReLU, trained by stochastic gradient descent on the cross-entropy of 64 examples; every member has a learning
rate, a weight decay and an order of the examples of its own. "rows": a way gets the numbers of the examples and
gathers them, as training does. "given": the batch lies ready in memory, which only the first step of a training has.
One thread; ways take turns in random order; the median of the rounds.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import numba
import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, stack_module_state, vmap
from torch.nn import functional as F

from devmind.algorithms import population as many

BATCH, HIDDEN, CLASSES, TOGETHER, ALONE = 64, 32, 10, 8, 5
Way = Callable[[], int]
"""Makes some steps; returns of how many networks, times steps."""


def images(mnist: Path | None, size: int) -> tuple[Tensor, Tensor]:
    """Handwritten digits of 8 x 8 or, from a file, 28 x 28 numbers in 0..1; without the file, noise of that shape."""
    if size == 64:
        digits = load_digits()
        return torch.from_numpy(digits.data / 16.0).float(), torch.from_numpy(digits.target).long()
    if mnist is None:
        return torch.rand(10_000, size), torch.randint(CLASSES, (10_000,))
    stored = np.load(mnist)
    x = torch.from_numpy(stored["images"].reshape(-1, size)).float() / 255.0
    return x, torch.from_numpy(stored["labels"]).long()


def begun(size: int, members: int) -> many.Population:
    """Members with learning rates of 0.02 to 0.2 and a weight decay of 1e-4."""
    rates = torch.logspace(-1.7, -0.7, members)
    return many.make((size, HIDDEN, CLASSES), torch.arange(members), rates, 1e-4)


def kernel(population: many.Population, x: Tensor, y: Tensor, index: Tensor) -> Way:
    def work() -> int:
        many.train_rows(population, x, y, index)
        return index.shape[0] * index.shape[1]

    return work


def stacked(population: many.Population, x: Tensor, y: Tensor, index: Tensor) -> Way:
    rows = index[:, 0].long()

    def work() -> int:
        many.step(population, x[rows], y[rows])
        return len(rows)

    return work


def loop(population: many.Population, x: Tensor, y: Tensor, index: Tensor) -> Way:
    nets = [many.module(row, population.sizes, population.activation) for row in population.weights[:ALONE]]
    optimizers = [torch.optim.SGD(net.parameters(), lr=0.1, weight_decay=1e-4) for net in nets]

    def work() -> int:
        for net, optimizer, rows in zip(nets, optimizers, index, strict=False):
            for row in rows.long():
                optimizer.zero_grad()
                F.cross_entropy(net(x[row]), y[row]).backward()
                optimizer.step()
        return ALONE * index.shape[1]

    return work


def by_vmap(population: many.Population, x: Tensor, y: Tensor, index: Tensor) -> Way:
    size = population.sizes[0]
    shape = nn.Sequential(nn.Linear(size, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, CLASSES))
    params, _ = stack_module_state([shape])
    parts = [p for pair in many.layers(population.weights, population.sizes) for p in pair]
    copies = (part.mT.contiguous() if part.ndim == 3 else part.clone() for part in parts)
    params = dict(zip(params, copies, strict=True))
    rows, rates = index[:, 0].long(), population.rates

    def loss(params: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(functional_call(shape, params, (x,)), y)

    step = vmap(grad_and_value(loss))

    def work() -> int:
        gradients, _ = step(params, x[rows], y[rows])
        for name, gradient in gradients.items():
            rate = rates.view(-1, *[1] * (gradient.ndim - 1))
            params[name].mul_(1 - rate * 1e-4).sub_(gradient.mul_(rate))
        return len(rows)

    return work


def by_jax(population: many.Population, x: Tensor, y: Tensor, index: Tensor) -> dict[str, Way]:
    try:
        import jax
        from jax import numpy as jnp
    except ImportError:
        return {}
    parts = [p.numpy() for pair in many.layers(population.weights, population.sizes) for p in pair]
    rates, rows = jnp.asarray(population.rates.numpy()), jnp.asarray(index[:, 0].numpy())
    every, labels = jnp.asarray(x.numpy()), jnp.asarray(y.numpy())

    def loss(p: Any, x: Any, y: Any) -> Any:
        logits = jax.nn.relu(x @ p[0] + p[1]) @ p[2] + p[3]
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], 1).mean()

    def step(p: Any, rate: Any, x: Any, y: Any) -> Any:
        value, gradient = jax.value_and_grad(loss)(p, x, y)
        return [a * (1 - rate * 1e-4) - rate * b for a, b in zip(p, gradient, strict=True)], value

    def gathered(p: Any, rates: Any, rows: Any) -> Any:
        return jax.vmap(step)(p, rates, every[rows], labels[rows])

    def way(function: Any, *rest: Any) -> Way:
        jitted, held = jax.jit(function, donate_argnums=0), [[jnp.array(part) for part in parts]]

        def work() -> int:
            held[0], value = jitted(held[0], rates, *rest)
            value.block_until_ready()
            return len(rates)

        return work

    return {"JAX, rows": way(gathered, rows), "JAX, given": way(jax.vmap(step), every[rows], labels[rows])}


def compare(size: int, members: int, rounds: int, x: Tensor, y: Tensor) -> None:
    """One table row a way: steps of a network in a CPU second, and how many times each peer's."""
    index = many.own_rows(torch.arange(members), 0, TOGETHER, BATCH, len(x))
    makers = {"plain loop": loop, "torch vmap, rows": by_vmap, "stacked, rows": stacked, "kernel, rows": kernel}
    ways = {name: make(begun(size, members), x, y, index) for name, make in makers.items()}
    ways |= by_jax(begun(size, members), x, y, index)
    found: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(rounds + 1):
        for name in random.sample(list(ways), len(ways)):
            start = time.process_time()
            steps = ways[name]()
            if turn:  # the first one compiles
                found[name].append(steps / (time.process_time() - start))
    ours, flop = median(found["kernel, rows"]), 2 * BATCH * (2 * size * HIDDEN + 3 * HIDDEN * CLASSES)
    print(
        f"\n{size}-{HIDDEN}-{CLASSES} x {members:,}\n\n| way | steps/s | GFLOP/s | the kernel is |\n|---|---|---|---|"
    )
    for name, speeds in found.items():
        speed = median(speeds)
        print(f"| {name} | {speed:,.0f} | {speed * flop / 1e9:.1f} | {ours / speed:.1f} x as fast |", flush=True)


def peak_mb() -> float:
    """The most memory since `forget_peak`, or of the whole process where Linux does not count it."""
    status = Path("/proc/self/status")
    lines = status.read_text(encoding="ascii").splitlines() if status.is_file() else []
    stated = [int(line.split()[1]) for line in lines if line.startswith("VmHWM")]
    return (stated[0] if stated else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) / 1024


def forget_peak() -> None:
    counter = Path("/proc/self/clear_refs")
    if counter.is_file():
        counter.write_text("5", encoding="ascii")


def learn(size: int, hidden: int, members: int, x: Tensor, y: Tensor, held_out: int) -> None:
    """An epoch of all members, their mean accuracy on unseen examples, and that of a few trained alone by torch."""
    forget_peak()
    before, clock, start = peak_mb(), time.perf_counter(), time.process_time()
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    taught, unseen = order[held_out:], order[:held_out]
    population = many.make((size, hidden, CLASSES), torch.arange(members), 0.1, 1e-4)
    some = population.weights[:: max(1, members // 20)]
    alone = [many.module(row, population.sizes, population.activation) for row in some]
    steps = len(taught) // BATCH
    many.train(population, x[taught], y[taught], steps, BATCH)
    cpu, wall = time.process_time() - start, time.perf_counter() - clock
    right = many.accuracies(population, x[unseen], y[unseen])
    singles = []
    for member, net in zip(range(0, members, max(1, members // 20)), alone, strict=True):
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, weight_decay=1e-4)
        for row in many.own_rows(population.seeds[[member]], 0, steps, BATCH, len(taught))[0].long():
            optimizer.zero_grad()
            F.cross_entropy(net(x[taught][row]), y[taught][row]).backward()
            optimizer.step()
        singles.append((net(x[unseen]).argmax(1) == y[unseen]).double().mean().item())
    same = right[:: max(1, members // 20)]
    print(
        f"| {size}-{hidden}-{CLASSES} x {members:,} | {steps} | {cpu:.0f} ({wall:.0f}) | {right.mean():.4f} | "
        f"{np.mean(singles):.4f}, theirs here {same.mean():.4f} | {peak_mb() - before:,.0f} |",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--mnist", type=Path)
    parser.add_argument("--tiny", action="store_true")
    words = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    numba.set_num_threads(1)
    a = torch.randn(1024, 1024)
    a @ a
    start = time.process_time()
    for _ in range(10):
        a @ a
    speed = 10 * 2 * 1024**3 / (time.process_time() - start) / 1e9
    print(f"{torch.backends.cpu.get_cpu_capability()}, one core, {speed:.0f} GFLOP/s in float32")
    wide, small = images(words.mnist, 784), images(None, 64)
    for size, members in ((64, 20),) if words.tiny else ((784, 1_000), (64, 1_000), (64, 10_000)):
        compare(size, members, 1 if words.tiny else words.rounds, *(wide if size == 784 else small))
    print("\nAn epoch\n\n| members | steps each | CPU s (wall) | mean accuracy | 20 of them alone | peak MB more |")
    print("|---|---|---|---|---|---|")
    numba.set_num_threads(numba.config.NUMBA_NUM_THREADS)
    learn(64, 16, 40 if words.tiny else 100_000, *small, held_out=197)
    if words.mnist:
        learn(784, HIDDEN, 40 if words.tiny else 10_000, *wide, held_out=1_000)


if __name__ == "__main__":
    main()
