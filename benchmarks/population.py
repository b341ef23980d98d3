"""Many small networks beside peers, in one run: steps of a network and generations of policies in a CPU second.

    python benchmarks/population.py [--rounds 5]

JAX and EvoTorch are peers where they are installed (`pip install jax evotorch`); the project needs neither. A network
is D-32-10 with ReLU, trained by gradient descent on the cross-entropy of 64 examples; every member has a learning rate,
weight decay and an order of the examples of its own. "rows": a way gets the numbers of the examples and
gathers them, as training does. "given": the batch lies ready in memory, which only the first step of a training has.
One thread; ways take turns in random order; the median of the rounds. Policies of CartPole are 4-32-2 with tanh (ours
reads 16 numbers), EvoTorch's live in Gymnasium's vectorised CartPole; a generation lasts while its best one balances.
"""

from __future__ import annotations

import argparse
import logging
import os
import random
import resource
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import gymnasium
import numba
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, stack_module_state, vmap
from torch.nn import functional as F

from devmind.algorithms import population as many
from devmind.curriculum.machine import gflops
from devmind.learners.population import EvolutionLearner, Niche
from devmind.testing import tiny_agent, tiny_context
from stages.planning.stage import PlanningStage

BATCH, HIDDEN, CLASSES, TOGETHER, ALONE = 64, 32, 10, 8, 5
Way = Callable[[], int]
"""Makes some steps; returns of how many networks, times steps."""


def images(size: int) -> tuple[Tensor, Tensor]:
    """Handwritten digits of 8 x 8 numbers in 0..1; noise of another size, as speed is all that is asked of it."""
    if size != 64:
        return torch.rand(10_000, size), torch.randint(CLASSES, (10_000,))
    digits = load_digits()
    return torch.from_numpy(digits.data / 16.0).float(), torch.from_numpy(digits.target).long()


def begun(size: int, members: int) -> many.Population:
    """Members with learning rates of 0.02 to 0.2 and a weight decay of 1e-4."""
    rates = torch.logspace(-1.7, -0.7, members)
    return many.make((size, HIDDEN, CLASSES), torch.arange(members), rates, 1e-4)


def kernel(population: many.Population, x: Tensor, y: Tensor, index: Tensor) -> Way:
    def work() -> int:
        many.train_rows(population, x, y, index)
        return index.shape[0] * index.shape[1]

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


def timed(way: Way) -> tuple[float, int]:
    """CPU seconds, and what was made."""
    start = time.process_time()
    made = way()
    return time.process_time() - start, made


def compare(size: int, members: int, rounds: int, x: Tensor, y: Tensor) -> None:
    """One table row a way: steps of a network in a CPU second, and how many times each peer's."""
    index = many.own_rows(torch.arange(members), 0, TOGETHER, BATCH, len(x))
    makers = {"plain loop": loop, "torch vmap, rows": by_vmap, "kernel, rows": kernel}
    ways = {name: make(begun(size, members), x, y, index) for name, make in makers.items()}
    ways |= by_jax(begun(size, members), x, y, index)
    found: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(rounds + 1):
        for name in random.sample(list(ways), len(ways)):
            seconds, steps = timed(ways[name])
            if turn:  # the first one compiles
                found[name].append(steps / seconds)
    ours, flop = median(found["kernel, rows"]), 2 * BATCH * (2 * size * HIDDEN + 3 * HIDDEN * CLASSES)
    print(
        f"\n{size}-{HIDDEN}-{CLASSES} x {members:,}\n\n| way | steps/s | GFLOP/s | the kernel is |\n|---|---|---|---|"
    )
    for name, speeds in found.items():
        speed = median(speeds)
        print(f"| {name} | {speed:,.0f} | {speed * flop / 1e9:.1f} | {ours / speed:.1f} x as fast |", flush=True)


def ours(world: str, members: int) -> Way:
    """A generation of a search in a world, one episode a member."""
    agent = tiny_agent()
    PlanningStage().admit(agent)
    level, hand, kind, tap, sizes = {
        "cartpole": ("", "push", "head.categorical", "raw:body", {"classes": 2, "hidden": HIDDEN}),
        "market": ("reverting", "trade", "head.normal", ("raw:returns", "raw:account"), {"size": 1, "hidden": 8}),
    }[world]
    agent.add_head("policy", kind, tap=tap, effector=hand, options={"activation": "tanh", **sizes})
    niche = Niche(hand, world, (level,), "policy", members=members, episodes=1, spread=0.3)
    learner, count = EvolutionLearner(agent, tiny_context(Path()), niche), iter(range(10**6))

    def work() -> int:
        learner.update({}, next(count))
        return 1

    return work


def by_evotorch(members: int) -> Way | None:
    try:
        from evotorch.algorithms import GeneticAlgorithm
        from evotorch.neuroevolution import VecGymNE
        from evotorch.operators import GaussianMutation
    except ImportError:
        return None
    logging.disable(logging.WARNING)

    def carts(num_envs: int, **more: Any) -> Any:
        return gymnasium.make_vec("CartPole-v1", num_envs=num_envs, vectorization_mode="vector_entry_point")

    problem = VecGymNE(carts, f"Linear(obs_length, {HIDDEN}) >> Tanh() >> Linear({HIDDEN}, act_length)")
    search = GeneticAlgorithm(problem, operators=[GaussianMutation(problem, stdev=0.3)], popsize=members)
    return lambda: search.step() or 1


def evolve(members: int, rounds: int) -> None:
    """One table row: generations a CPU second here and there, in turn; the first one is left out."""
    ways = {"here": ours("cartpole", members), "there": by_evotorch(members)}
    found: dict[str, list[float]] = {name: [] for name, way in ways.items() if way}
    for name in [*found] * (rounds + 1):
        found[name].append(timed(ways[name])[0])
    here, *there = (median(seconds[1:]) for seconds in found.values())
    beside = f"{1 / there[0]:.2f} | {there[0] / here:.1f} x" if there else "left out, as EvoTorch is not installed | -"
    print(f"| {members:,} | {1 / here:.2f} | {beside} |", flush=True)


def learn(size: int, hidden: int, members: int, x: Tensor, y: Tensor, held_out: int) -> None:
    """An epoch of all members, and their mean accuracy on unseen examples (a test holds them to torch alone)."""
    clock, start = time.perf_counter(), time.process_time()
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    taught, unseen = order[held_out:], order[:held_out]
    population, steps = many.make((size, hidden, CLASSES), torch.arange(members), 0.1, 1e-4), len(taught) // BATCH
    many.train(population, x[taught], y[taught], steps, BATCH)
    cpu, wall = time.process_time() - start, time.perf_counter() - clock
    right = many.accuracies(population, x[unseen], y[unseen]).mean()
    print(
        f"| {size}-{hidden}-{CLASSES} x {members:,} | {steps} | {cpu:.0f} ({wall:.0f}) | {right:.4f} | "
        f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} |",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tiny", action="store_true")
    words = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    numba.set_num_threads(1)
    print(f"{torch.backends.cpu.get_cpu_capability()}, one core, {gflops():.0f} GFLOP/s in float32")
    for size, members in ((64, 20),) if words.tiny else ((784, 1_000), (64, 1_000), (64, 10_000)):
        compare(size, members, 1 if words.tiny else words.rounds, *images(size))
    print("\nAn epoch\n\n| members | steps each | CPU s (wall) | mean accuracy | peak MB |\n|---|---|---|---|---|")
    numba.set_num_threads(numba.config.NUMBA_NUM_THREADS)
    learn(64, 16, 40 if words.tiny else 100_000, *images(64), held_out=197)
    print("\nGenerations of CartPole a CPU second\n\n| policies | here | EvoTorch | times |\n|---|---|---|---|")
    for members in (20,) if words.tiny else (128, 2_000, 10_000):
        evolve(members, 1 if words.tiny else min(3, words.rounds))
    print("\nA generation in the market\n\n| policies | CPU s | peak MB |\n|---|---|---|")
    for members in (20,) if words.tiny else (2_000, 100_000):
        cpu_s, _ = timed(ours("market", members))
        print(f"| {members:,} | {cpu_s:.1f} | {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} |")


if __name__ == "__main__":
    main()
