"""Training in closed form beside the script "Deterministic AI training on GPU" (koo1140, 2025), as it is, in one run.

Its sizes: a context of 24 tokens, embeddings of 64 numbers, 2,000 neurons, 65,536 patterns of a real text in words.
Patterns a CPU second of one thread; the ways take turns in random order, and each has its best round. Every solution is
compared with float64. Run: `python benchmarks/closed_form.py [TEXT]` (about four minutes).
"""

from __future__ import annotations

import argparse
import random
import re
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from scipy.linalg.blas import ssyrk
from torch import Tensor
from torch.nn import functional as F

from devmind.algorithms.closed_form import LEVELS, TOGETHER, Sums, add_gram

CONTEXT, WIDTH, PENALTY = 24, 64, 0.5
BATCH, SCRIPT = 16384, "the seed's script"
SHARD = 65_536
"""Windows whose neurons are in memory at once."""
SLAB = 80
"""Neurons whose table is in memory."""


class Task:
    """The seed's numbers: tokens, embeddings and the first layer."""

    def __init__(self, text: str, patterns: int, neurons: int) -> None:
        words = text.split()[: patterns + CONTEXT]
        if len(words) < patterns + CONTEXT:
            words = (words * (1 + (patterns + CONTEXT) // max(1, len(words))))[: patterns + CONTEXT]
        number = {word: at for at, word in enumerate(sorted(set(words)))}
        torch.manual_seed(0)
        self.ids, self.neurons = torch.tensor([number[word] for word in words]), neurons
        self.embeddings = torch.randn(len(number), WIDTH) * 0.1
        inputs = CONTEXT * WIDTH + 1
        limit = float(np.sqrt(6 / (inputs + neurons)))
        self.layer = torch.rand(inputs, neurons) * 2 * limit - limit
        self.windows = self.ids.unfold(0, CONTEXT + 1, 1)
        self.room = torch.empty(min(SHARD, len(self.windows)), neurons)
        self.scale = 4 * limit / 3**0.5 * (0.01 * (inputs - 1) + 1) ** 0.5

    def hidden(self, windows: Tensor) -> Tensor:
        """The neurons of windows [n, K], a slab of neurons after the other.

        A window is a sum of 24 rows of a table: for each place and word the product of its embedding and the place's
        part of the layer. Only the table of one slab is in memory. What it gives is overwritten by the next call.
        """
        words = len(self.embeddings)
        places = (windows[:, :-1] + torch.arange(CONTEXT) * words).to(torch.int32)
        parts, made = self.layer[:-1].view(CONTEXT, WIDTH, self.neurons), self.room[: len(windows)]
        table = torch.empty(CONTEXT * words, SLAB)
        for slab in range(0, self.neurons, SLAB):
            width = min(SLAB, self.neurons - slab)
            here = table[:, :width] if width == SLAB else torch.empty(CONTEXT * words, width)
            for place, part in enumerate(parts):
                torch.mm(self.embeddings, part[:, slab : slab + width], out=here[place * words : (place + 1) * words])
            here[:words] += self.layer[-1, slab : slab + width]  # the bias comes with the first word
            for rows, into in zip(places.split(4096), made.split(4096), strict=True):
                into[:, slab : slab + width] = F.embedding_bag(rows, here, mode="sum")
        for some in made.split(512):  # whole rows that are in the cache
            some.tanh_()
        return made


def by_seed(task: Task) -> Tensor:
    """The script's own loop and solve, on the processor."""
    embeddings, w1, k = task.embeddings, task.layer, task.neurons
    a, b = torch.zeros((k, k)), torch.zeros((k, WIDTH))
    windows = task.windows
    for i in range(0, windows.size(0), BATCH):
        batch = windows[i : i + BATCH]
        ctx_ids = batch[:, :-1]
        tgt_ids = batch[:, -1]
        x_batch = embeddings[ctx_ids].view(ctx_ids.size(0), -1)
        bias = torch.ones((x_batch.size(0), 1))
        x_batch = torch.cat([x_batch, bias], dim=1)
        y_batch = embeddings[tgt_ids]
        h = torch.tanh(x_batch @ w1)
        a += h.t() @ h
        b += h.t() @ y_batch
    a += PENALTY * torch.eye(k)
    return torch.linalg.solve(a, b)


def by_table(task: Task) -> Tensor:
    """The same numbers in float32: a table of products, half of the Gram matrix (BLAS ssyrk), class sums, Cholesky."""
    k = task.neurons
    gram = np.zeros((k, k), np.float32, order="F")
    b = torch.zeros(k, WIDTH)
    for windows in task.windows.split(SHARD):
        for some, right in zip(task.hidden(windows).split(4096), windows[:, -1].split(4096), strict=True):
            gram = ssyrk(1.0, some.numpy().T, beta=1.0, c=gram, overwrite_c=1)
            b += some.T @ task.embeddings[right]
    full = torch.from_numpy(gram).T.tril()
    full.diagonal().add_(PENALTY)
    return torch.cholesky_solve(b, torch.linalg.cholesky(full))


def by_integers(task: Task) -> Tensor:
    """devmind's sums of integers, which do not depend on the order, and its solve in float64."""
    return solved(task, sums_of(task, task.windows.split(SHARD)))


def sums_of(task: Task, parts: tuple[Tensor, ...]) -> Sums:
    """The sums of windows in parts."""
    largest = float(task.embeddings.abs().max())
    sums = Sums(task.neurons, WIDTH, task.scale, classes=False, target_scale=largest)
    for windows in parts:
        sums.update(task.hidden(windows), task.embeddings[windows[:, -1]])
    return sums


def solved(task: Task, sums: Sums) -> Tensor:
    found = sums.solve(PENALTY / len(task.windows), standard=False)
    return found.weight.T


def reference(task: Task, quantised: bool) -> Tensor:
    """The solution in float64, of the neurons as they are, or of the rounded ones."""
    k = task.neurons
    a, b = torch.zeros(k, k, dtype=torch.float64), torch.zeros(k, WIDTH, dtype=torch.float64)
    rounding = Sums(k, 2, task.scale)
    for windows in task.windows.split(SHARD):
        for some, rows in zip(windows.split(4096), task.hidden(windows).split(4096), strict=True):
            if quantised:
                hidden = rounding.quantise(rows).double() * (task.scale / LEVELS)
            else:
                x = task.embeddings[some[:, :-1]].flatten(1).double()
                hidden = (x @ task.layer[:-1].double() + task.layer[-1].double()).tanh_()
            a += hidden.T @ hidden
            b += hidden.T @ task.embeddings[some[:, -1]].double()
    a.diagonal().add_(PENALTY)
    return torch.cholesky_solve(b, torch.linalg.cholesky(a))


def instructions() -> str:
    """The processor's wide instructions, and its float32 speed by one thread."""
    info = Path("/proc/cpuinfo")
    flags = set(re.findall(r"\w+", info.read_text())) if info.exists() else set()
    known = [name for name in ("avx2", "avx512f", "avx512_vnni", "avx_vnni", "amx_int8") if name in flags]
    one = torch.rand(2048, 2048)
    best = min(_seconds(lambda: one @ one) for _ in range(4))
    return f"{' '.join(known) or 'unknown instructions'}, {2 * 2048**3 / best / 1e9:.0f} GFLOP/s in float32"


def _seconds(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def main() -> None:
    """Print the table."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("text", nargs="?", type=Path, help="a text in UTF-8; by default made-up words by Zipf's law")
    asked.add_argument("--patterns", type=int, default=65_536)
    asked.add_argument("--neurons", type=int, default=2_000)
    asked.add_argument("--rounds", type=int, default=3)
    asked.add_argument("--tiny", action="store_true")
    given = asked.parse_args()
    if given.tiny:
        given.patterns, given.neurons, given.rounds = 2_048, 128, 1
    torch.set_num_threads(1)
    drawn = (np.random.default_rng(0).zipf(1.1, given.patterns + CONTEXT) % 20_000).astype(str)
    text = given.text.read_text() if given.text else " ".join(drawn)
    task = Task(text, given.patterns, given.neurons)
    ways = {SCRIPT: by_seed, "float32: table, ssyrk, Cholesky": by_table,
            "integers: table, exact Gram, Cholesky": by_integers}  # fmt: skip
    seconds, found = dict.fromkeys(ways, float("inf")), dict[str, Tensor]()
    order = random.Random(0)
    for _ in range(given.rounds):
        for name in order.sample(sorted(ways), len(ways)):
            begun = time.process_time()
            found[name] = ways[name](task)
            seconds[name] = min(seconds[name], time.process_time() - begun)
    print(f"{len(task.windows):,} patterns, {len(task.embeddings):,} words, K {task.neurons:,}; {instructions()}\n")
    print("| way | patterns/s | beside the seed | error against float64 |\n|---|---|---|---|")
    whole, rounded = reference(task, False), reference(task, True)
    for name, way in ways.items():
        wanted = rounded if way is by_integers else whole
        error = float((found[name].double() - wanted).norm() / wanted.norm())
        rate, beside = len(task.windows) / seconds[name], seconds[SCRIPT] / seconds[name]
        print(f"| {name} | {rate:,.0f} | {beside:.2f} | {error:.1e} |")
    held = task.hidden(task.windows[-4096:]).double()
    apart = float((held @ (rounded - whole)).norm() / (held @ whole).norm())
    print(f"\nrounding the neurons to integers changes the predictions by {apart:.1e} of their size")
    few = task.windows[:4096]
    mixed = few[torch.randperm(len(few), generator=torch.Generator().manual_seed(1))]
    states = [sums_of(task, parts).state_dict() for parts in (few.split(4096), mixed.split(1500))]
    same = all(torch.equal(states[0][key], states[1][key]) for key in states[0])
    loose = [sum(h.T @ h for h in (task.hidden(w) for w in few[order].split(2048)))
             for order in (torch.arange(len(few)), torch.arange(len(few)).flip(0))]  # fmt: skip
    print(f"integers, another order and split: {'the same bits' if same else 'OTHER BITS'}; "
          f"float32: {'the same bits' if torch.equal(*loose) else 'other bits'}")  # fmt: skip
    rows = Sums(task.neurons, 2, 1.0).quantise(torch.randn(8 * TOGETHER, task.neurons))
    total, loose_total = (torch.zeros(task.neurons, task.neurons, dtype=kind) for kind in (torch.int64, torch.float32))
    exact = min(_seconds(lambda: [add_gram(total, part) for part in rows.split(TOGETHER)]) for _ in range(3))
    plain = min(_seconds(lambda: loose_total.add_(rows.T @ rows)) for _ in range(3))
    print(f"Gram matrix alone: exact in integers {plain / exact:.2f} times as fast as `A += H.T @ H`")


if __name__ == "__main__":
    main()
