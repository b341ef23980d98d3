"""Time lost to a checkpoint of one state, beside peers, in one run: methods take turns in random order.

    python benchmarks/saving.py [--tensors 50] [--width 1024] [--rounds 7] [--seconds 40]

`blocked` is how long the call holds up the loop, `lost` what the steps behind it took more than as many steps without.
The bare copy writes nothing: it is the least that a snapshot costs. Then the loop is saved continuously for so long.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from lightning.pytorch.plugins.io import AsyncCheckpointIO, TorchCheckpointIO
from torch.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType as Kind

from devmind.checkpointing.engine import Every, SavingEngine

State = dict[str, torch.Tensor]
Save = Callable[[State, Path], Callable[[], Any] | None]
"""Saves a state in a new place; what it returns waits until that is on the disk."""
ABOUT = {"lesson": "benchmark", "step": 0, "steps": 0, "updates": 0}


def ways(folder: Path, state: State, is_tiny: bool) -> dict[str, Save]:
    """The ways to save by name."""
    lightning, held = AsyncCheckpointIO(TorchCheckpointIO()), [torch.zeros_like(tensor) for tensor in state.values()]
    engine = SavingEngine(folder / "ours", Every(seconds=1e9), checked="state/w")

    def ours(state: State, path: Path) -> Callable[[], Any]:
        engine.snapshot(state, ABOUT)
        return engine.drain

    def threaded(state: State, path: Path) -> Callable[[], Any]:
        lightning.save_checkpoint(state, path)
        return lightning._executor.submit(int).result  # one thread: this comes after the file

    every: dict[str, Save] = {
        "bare copy": lambda state, path: torch._foreach_copy_(held, list(state.values())),
        "devmind": ours,
        "torch.save": torch.save,
        "Lightning AsyncCheckpointIO": threaded,
    }
    for kind in (Kind.THREAD, Kind.PROCESS)[: 2 - is_tiny]:
        every[f"torch.distributed.checkpoint, {kind.value}"] = lambda state, path, kind=kind: (
            dcp.async_save(state, checkpoint_id=path, async_checkpointer_type=kind).result
        )
    return every


def step(state: State, x: torch.Tensor, number: int) -> None:
    """One step of a loop that learns: products, and another value for every number of two tensors."""
    for name in (f"w{number % len(state)}", f"w{(number + 1) % len(state)}"):
        state[name].add_(x.T @ (x @ state[name]), alpha=-1e-9)


def measure(save: Save, state: State, x: torch.Tensor, path: Path, steps: int) -> tuple[float, float]:
    """Milliseconds for which a save blocks, and of it and so many steps."""
    begun = time.perf_counter()
    wait = save(state, path)
    blocked = time.perf_counter() - begun
    for number in range(steps):
        step(state, x, number)
    took = time.perf_counter() - begun
    if callable(wait):
        wait()
    return 1e3 * blocked, 1e3 * took


def continuous(state: State, x: torch.Tensor, folder: Path, seconds: float) -> None:
    """The speed of the loop while it is saved continuously, over that without, in turns."""
    made, spent = [0, 0], [0.0, 0.0]
    engine, turn = SavingEngine(folder / "continuous", Every(), checked="state/w"), seconds / 10
    while sum(spent) < seconds:
        for saving in (0, 1):
            begun = time.perf_counter()
            while time.perf_counter() < begun + turn:
                made[saving] += 1
                step(state, x, made[saving])
                if saving and engine.is_due(made[1]):
                    engine.snapshot(state, ABOUT | {"updates": made[1]})
            spent[saving] += time.perf_counter() - begun
            engine.drain()
    without, beside = (count / s for count, s in zip(made, spent, strict=True))
    print(f"{engine.count} checkpoints in {spent[1]:.0f} s: {beside / without:.3f} of {without:.1f} steps/s")


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, usual in (("tensors", 50), ("width", 1024), ("rounds", 7), ("steps", 15)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    parser.add_argument("--seconds", type=float, default=40.0)
    parser.add_argument("--tiny", action="store_true")
    asked = parser.parse_args()
    if asked.tiny:
        asked.tensors, asked.width, asked.rounds, asked.steps, asked.seconds = 2, 8, 1, 2, 1.0
    state = {f"w{i}": torch.randn(asked.width, asked.width) for i in range(asked.tensors)}
    x, rng = torch.randn(64, asked.width), random.Random(0)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=0, world_size=1)
        every = ways(folder, state, asked.tiny)
        blocked, lost = ({name: list[float]() for name in every} for _ in range(2))
        for number in range(-1, asked.rounds):  # the first warms up: buffers, processes, pages
            for name in rng.sample(list(every), len(every)):
                _, alone = measure(lambda *_: None, state, x, folder, asked.steps)
                held, took = measure(every[name], state, x, folder / f"{name}-{number}", asked.steps)
                if number >= 0:
                    blocked[name].append(held)
                    lost[name].append(took - alone)
        size, bare = sum(tensor.nbytes for tensor in state.values()) / 1e6, median(blocked["bare copy"])
        print(f"{size:.0f} MB, {torch.get_num_threads()} threads; ms, median of {asked.rounds} (least)")
        print("| way | blocked | of the bare copy | lost |\n|---|---|---|---|")
        for name, times in blocked.items():
            middle, whole = median(times), median(lost[name])
            print(f"| {name} | {middle:.0f} ({min(times):.0f}) | {middle / bare:.2f} | {whole:.0f} |", flush=True)
        continuous(state, x, folder, asked.seconds)
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
