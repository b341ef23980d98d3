"""Growing layers beside two twins, one large from the start and one never grown, and a pruned layer beside a dense one.

    python benchmarks/growth.py [--data DIR] [--seeds 3] [--tiny]

DIR holds `text/*.txt`, of which the first is read, and `images/*.npz` with `images` uint8 [N, 28, 28] and `labels` [N];
without it the texts are this project's pages, and the pictures scikit-learn's digits. A tenth or more is held out.
Twins are plain `nn.Linear` and AdamW of torch. Ways take turns in one process on one thread; seconds are its CPU
seconds, and FLOPs are those of products, forwards and backwards. It prints Markdown.
"""

from __future__ import annotations

import argparse
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from devmind.algorithms import growth
from devmind.algorithms.growth import Evolution, Layer, Pool

CONTEXT, EMBEDDED, HIDDEN, GROUP = 16, 16, 128, 32
WIDTH, PIXELS = CONTEXT * EMBEDDED, 800
"""Inputs of the language model's layer, and of the pictures', with 16 columns of zeros, so that GROUP divides them."""


class Net(nn.Module):
    """Features, a linear way past them, and beside it neurons gated by silu; some of these may be born and die."""

    def __init__(self, kinds: int, width: int, neurons: int, classes: int) -> None:
        super().__init__()
        self.table = nn.Embedding(classes, EMBEDDED)
        self.past, self.norm, self.told = nn.Linear(width, HIDDEN), nn.LayerNorm(HIDDEN), nn.Linear(HIDDEN, classes)
        self.into = nn.ModuleList(nn.Linear(width, neurons, bias=False) for _ in range(kinds if neurons else 0))
        self.out = nn.Linear(neurons, HIDDEN, bias=False) if neurons else None
        self.neurons, like = neurons, torch.zeros(0)
        self.layer = Layer.empty(width // GROUP, HIDDEN // GROUP, kinds, like)
        self.pool = Pool.empty(40 * (kinds * width + HIDDEN) // GROUP, GROUP, like)
        self.blocks: Tensor | None = None

    def features(self, x: Tensor) -> Tensor:
        return x if x.is_floating_point() else self.table(x).flatten(1)

    def forward(self, x: Tensor) -> Tensor:
        self.seen = f = self.features(x)
        said = self.past(f)
        if self.out is not None:
            h = functional.silu(self.into[0](f))
            self.h = h if len(self.into) == 1 else h * self.into[1](f)
            said = said + self.out(self.h)
        if self.layer.groups:
            self.blocks = self.pool.values.index_select(0, self.layer.places()).requires_grad_()
            said = said + growth.forward(self.layer, self.blocks, f)
        self.said = said
        return self.told(self.norm(said))

    def flops(self, rows: int) -> float:
        """Of a step: products once forwards and twice backwards."""
        into = self.layer.into.numel() + self.layer.out.numel()
        of = (len(self.into) * self.past.in_features + HIDDEN) * self.neurons + into * GROUP**2
        return 6.0 * rows * (of + HIDDEN * (self.past.in_features + self.told.out_features))


Plan = Callable[[Net, int], Evolution | None]
"""What the net's layer does at the end of a step, if anything."""


def teach(
    net: Net, batch: Callable[[int], tuple[Tensor, Tensor]], steps: int, rate: float, plan: Plan, every: int
) -> dict[str, float]:
    """CPU seconds and GFLOPs of a lesson, the largest jump of the loss at an evolution, and what newborn neurons had
    beside the net's own: gradient (a weight's, root mean square) and activity (mean |activation|)."""
    optimizer = torch.optim.AdamW(net.parameters(), lr=rate, betas=(0.9, 0.95), weight_decay=0.01, foreach=True)
    begun, flops, jump, shares = time.process_time(), 0.0, 0.0, list[tuple[float, float]]()
    for step in range(steps):
        factor = min(1.0, (step + 1) / 20) * min(1.0, (steps - step) / (0.7 * steps))
        for group in optimizer.param_groups:
            group["lr"] = rate * factor
        x, wanted = batch(step)
        scores, due = net(x), plan(net, step)
        if due:
            net.said.retain_grad()
        loss = functional.cross_entropy(scores, wanted)
        optimizer.zero_grad()
        loss.backward()
        flops += net.flops(len(x))
        if net.layer.groups:
            gradient, young = net.blocks.grad, net.layer.recent
            if young and net.out is not None:
                mine = gradient[net.layer.into.numel() :].view(net.layer.groups, -1)[-young:].square().mean()
                active = growth.activity(net.layer, net.blocks.detach(), net.seen[:64].detach())[-young:].mean()
                share = (mine / net.out.weight.grad.square().mean()).sqrt()
                shares.append((float(share), float(active / net.h.detach()[:64].abs().mean())))
            left = every - step % every if len(net.layer.fading) + net.layer.fading_into.numel() else 0
            growth.apply(net.pool, net.layer, gradient, rate * factor, young=every, decay=0.01, left=left)
        optimizer.step()
        if due:
            blocks = net.pool.values[net.layer.places()]
            probe = growth.gradients(net.layer, blocks, net.seen.detach(), net.said.grad)[2]
            with torch.no_grad():
                before = functional.cross_entropy(net(x), wanted)
            growth.evolve(net.layer, net.pool, probe, due, torch.Generator().manual_seed(step))
            with torch.no_grad():
                jump = max(jump, abs(float(functional.cross_entropy(net(x), wanted) - before)))
                if step == 0:  # a layer that is whole from the start begins as a dense one does, not near linear
                    places = net.layer.into.flatten()
                    net.pool.values[places] = torch.randn(len(places), GROUP, GROUP) * net.past.in_features**-0.5
    return {
        "s": time.process_time() - begun,
        "gflop": flops / 1e9,
        "jump": jump,
        "share": median(share for share, _ in shares) if shares else 0.0,
        "active": median(active for _, active in shares) if shares else 0.0,
    }


def never(net: Net, step: int) -> None:
    """Nothing is born or dies."""


def read_data(folder: Path | None) -> tuple[bytes, Tensor, Tensor]:
    """A text, and pictures [N, PIXELS] with their labels [N]."""
    if folder is None:
        from sklearn.datasets import load_digits

        pages = sorted((Path(__file__).parents[1] / "docs").glob("*.md"))
        text, (x, y) = b"".join(page.read_bytes() for page in pages), load_digits(return_X_y=True)
        x = torch.from_numpy(x).float() / 16
    else:
        text, file = min(folder.glob("text/*.txt")).read_bytes(), np.load(min(folder.glob("images/*.npz")))
        x, y = torch.from_numpy(file["images"]).flatten(1).float() / 255, file["labels"]
    return text, functional.pad(x, (0, PIXELS - x.shape[1])), torch.from_numpy(y).long()


def language(text: bytes, seed: int, scale: float) -> dict[str, dict[str, float]]:
    """Nats a character held out: four ways by name."""
    data = np.frombuffer(text, np.uint8)
    alphabet, numbers = np.unique(data, return_inverse=True)
    numbers, cut = torch.from_numpy(numbers), int(0.9 * len(data))

    def pages(rows: int, generator: torch.Generator, begin: int, end: int) -> tuple[Tensor, Tensor]:
        at = torch.randint(begin, end - CONTEXT - 1, (rows,), generator=generator)
        page = numbers[at[:, None] + torch.arange(CONTEXT + 1)]
        return page[:, :-1], page[:, -1]

    steps, every, small, large, most = int(300 * scale), 20, 128, 768, 256
    longer = int(steps * 1.6)
    last = int(0.7 * longer) // every

    def plan(net: Net, step: int) -> Evolution | None:
        done = (step + 1) // every
        if (step + 1) % every or not last // 2 <= done <= last:
            return None
        wanted = (most - small) // GROUP * (done - last // 2 + 1) // (last - last // 2 + 1)
        return Evolution(
            births=max(0, wanted - net.layer.groups), reads=WIDTH // GROUP, writes=HIDDEN // GROUP, scale=0.3
        )

    ways: dict[str, tuple[int, int, Plan]] = {
        "large from the start": (large, steps, never),
        "never grown, as many steps": (small, steps, never),
        "grown": (small, longer, plan),
        "never grown, as many FLOPs as grown": (small, 0, never),
    }
    found: dict[str, dict[str, float]] = {}
    for name, (neurons, count, how) in ways.items():
        torch.manual_seed(seed)
        net = Net(2, WIDTH, neurons, len(alphabet))
        count = count or int(found["grown"]["gflop"] * 1e9 / net.flops(512))
        generator = torch.Generator().manual_seed(seed)
        found[name] = teach(net, lambda step, g=generator: pages(512, g, 0, cut), count, 2e-3, how, every)
        with torch.no_grad():
            x, wanted = pages(8192, torch.Generator().manual_seed(1), cut, len(data))
            found[name] |= {"result": float(functional.cross_entropy(net(x), wanted)), "steps": count}
    return found


def pictures(x: Tensor, y: Tensor, seed: int, scale: float) -> tuple[dict[str, dict[str, float]], Net]:
    """Share right of a fifth of the pictures: a dense layer, and one that is pruned and regrown, which is given too."""
    cut = len(x) * 4 // 5
    steps, every, found = int(500 * scale), max(2, int(20 * scale)), dict[str, dict[str, float]]()
    full, least = (PIXELS // GROUP, HIDDEN // GROUP), (4, 1)

    def plan(net: Net, step: int) -> Evolution | None:
        if step == 0:
            return Evolution(births=1024 // GROUP, reads=full[0], writes=full[1], scale=0.3)
        if (step + 1) % every or step > 0.4 * steps:
            return None
        layer, left = net.layer, max(0.0, 1 - (step + 1) / (0.3 * steps)) ** 3  # Zhu & Gupta's schedule
        there = (
            layer.sources.shape[1] - layer.fading_into.shape[1],
            layer.targets.shape[1] - layer.fading_out.shape[1],
        )
        wanted = [least[at] + round((full[at] - least[at]) * left) for at in (0, 1)]
        return Evolution(prunes=(max(0, there[0] - wanted[0]), max(0, there[1] - wanted[1])))

    for name, neurons, how in (("dense", 1024, never), ("80 % of the blocks gone", 0, plan)):
        torch.manual_seed(seed)
        net, generator = Net(1, PIXELS, neurons, 10), torch.Generator().manual_seed(seed)

        def batch(step: int, g: torch.Generator = generator) -> tuple[Tensor, Tensor]:
            at = torch.randint(0, cut, (256,), generator=g)
            return x[at], y[at]

        found[name] = teach(net, batch, steps, 4e-3, how, every)
        with torch.no_grad():
            found[name]["result"] = float((net(x[cut:]).argmax(1) == y[cut:]).float().mean())
    return found, net


def speeds(layer: Layer, is_tiny: bool) -> dict[str, float]:
    """Median CPU ms of a forward and a backward of 512 rows, dense, gathered and compiled for this topology, and what
    compiling took, s."""
    x, d = torch.randn(512, layer.inputs * GROUP, requires_grad=True), torch.randn(512, layer.outputs * GROUP)
    blocks = torch.randn(layer.blocks, GROUP, GROUP, requires_grad=True)
    into = nn.Linear(x.shape[1], layer.groups * GROUP, bias=False)
    out = nn.Linear(layer.groups * GROUP, d.shape[1], bias=False)
    # In this process, or its seconds would not count.
    os.environ |= {"TORCHINDUCTOR_COMPILE_THREADS": "1", "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}
    backend = "aot_eager" if is_tiny else "inductor"
    compiled: Any = torch.compile(lambda blocks, x: growth.forward(layer, blocks, x), dynamic=False, backend=backend)
    torch.compile(lambda x: (x.sin() * 2).sum(), backend=backend)(x).backward()  # loads the compiler
    begun = time.process_time() + sum(os.times()[2:4])
    compiled(blocks, x).backward(d)
    found = {"compiling": time.process_time() + sum(os.times()[2:4]) - begun}
    ways = {
        "dense": lambda: out(functional.silu(into(x))),
        "gathered": lambda: growth.forward(layer, blocks, x),
        "compiled": lambda: compiled(blocks, x),
    }
    took: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(5 if is_tiny else 41):
        for name in random.sample([*ways], len(ways)):
            begun = time.process_time()
            ways[name]().backward(d)
            took[name].append(1e3 * (time.process_time() - begun))
    return found | {name: median(values) for name, values in took.items()}


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tiny", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(1)
    scale, (text, x, y) = 0.1 if given.tiny else 1.0, read_data(given.data)
    rows, nets = dict[str, list[dict[str, float]]](), []
    for seed in range(given.seeds):
        found, net = pictures(x, y, seed, scale)
        nets.append(net)
        for name, values in (language(text, seed, scale) | found).items():
            rows.setdefault(name, []).append(values)
    print(f"{torch.backends.cpu.get_cpu_capability()}, one thread, {given.seeds} seeds; the first four rows: nats a")
    print("character held out; the last two: share right.\n")
    print("| way | result by seed | mean | GFLOP | CPU s | largest jump | gradient, activity of the newborn |")
    print("|---|---|---|---|---|---|---|")
    for name, each in rows.items():
        mean = {key: sum(one[key] for one in each) / len(each) for key in ("result", "gflop", "s", "share", "active")}
        results = ", ".join(f"{one['result']:.3f}" for one in each)
        print(f"| {name} | {results} | {mean['result']:.3f} | {mean['gflop']:.0f} | {mean['s']:.1f} ", end="")
        print(f"| {max(one['jump'] for one in each):.1e} | {mean['share']:.2f}, {mean['active']:.2f} |")
    pool, layer = nets[0].pool, nets[0].layer
    most, before = layer.groups * (layer.inputs + layer.outputs), len(pool.values) * pool.block_bytes
    print(f"\nBlocks alive {layer.blocks:,} of {most:,}; fragmentation of the pool {pool.fragmentation():.3f};")
    print(f"compacting frees {pool.compact([layer], 0):,} of {before:,} bytes.\n")
    took = speeds(layer, given.tiny)
    print("| that layer | forward and backward, ms | times as fast as dense |\n|---|---|---|")
    for name in ("dense", "gathered", "compiled"):
        print(f"| {name} | {took[name]:.2f} | {took['dense'] / took[name]:.2f} |")
    gain = (took["gathered"] - took["compiled"]) / 1e3
    even = f"{took['compiling'] / gain:,.0f} steps" if gain > 0 else "no number of steps: gathered is as fast"
    print(f"\nCompiling a topology anew costs {took['compiling']:.1f} CPU s a birth, won back after {even}.")


if __name__ == "__main__":
    main()
