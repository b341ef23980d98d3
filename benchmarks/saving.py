"""Time lost to a checkpoint of one state, beside peers, in one run: methods take turns in random order.

    python benchmarks/saving.py [--tensors 50] [--width 1024] [--rounds 7] [--continuous 30]

`blocked` is how long the call holds up the loop, `lost` what the steps until the file is on the disk took more than as
many steps without saving. The bare copy writes nothing: it is the least that a snapshot costs.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from lightning.pytorch.plugins.io import AsyncCheckpointIO, TorchCheckpointIO
from torch.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType

from devmind.checkpointing.engine import Every, HostBuffer, SavingEngine

Wait = Callable[[], Any]
Save = Callable[[dict[str, torch.Tensor], Path], Wait]
"""Saves a state in a new folder; what it returns waits until that is on the disk."""
ABOUT = {"lesson": "benchmark", "step": 0, "steps": 0, "updates": 0}


def ways(folder: Path) -> dict[str, Save]:
    """The ways to save by name."""
    lightning, buffer = AsyncCheckpointIO(TorchCheckpointIO()), HostBuffer()
    engine = SavingEngine(folder / "ours", Every(seconds=1e9), checked="")
    engine.checked = "state/w"

    def plain(state: dict[str, torch.Tensor], path: Path) -> Wait:
        torch.save(state, path)
        return lambda: None

    def in_thread(state: dict[str, torch.Tensor], path: Path) -> Wait:
        lightning._ensure_setup()
        before = len(lightning._error_queue) if hasattr(lightning, "_error_queue") else 0
        lightning.save_checkpoint(state, path)
        assert not before
        return lightning._executor.submit(int).result  # one thread: it comes after the file

    def distributed(kind: AsyncCheckpointerType) -> Save:
        return lambda state, path: dcp.async_save(state, checkpoint_id=path, async_checkpointer_type=kind).result

    def ours(state: dict[str, torch.Tensor], path: Path) -> Wait:
        engine.snapshot(state, ABOUT)
        return engine.drain

    def copy(state: dict[str, torch.Tensor], path: Path) -> Wait:
        buffer.take(state)
        return lambda: None

    return {
        "bare copy": copy,
        "devmind": ours,
        "torch.save": plain,
        "Lightning AsyncCheckpointIO": in_thread,
        "DCP async_save, thread": distributed(AsyncCheckpointerType.THREAD),
        "DCP async_save, process": distributed(AsyncCheckpointerType.PROCESS),
    }


def step(state: dict[str, torch.Tensor], x: torch.Tensor, number: int) -> None:
    """One step of a loop that learns: a product, and another value for every number of two tensors."""
    for name in (f"w{number % len(state)}", f"w{(number + 7) % len(state)}"):
        state[name].add_((x.T @ (x @ state[name])), alpha=-1e-9)


def measure(save: Save, state: dict[str, torch.Tensor], x: torch.Tensor, path: Path, steps: int) -> tuple[float, float]:
    """Seconds blocked by a save, and of so many steps behind it, the save included."""
    begun = time.perf_counter()
    wait = save(state, path)
    blocked = time.perf_counter() - begun
    for number in range(steps):
        step(state, x, number)
    took = time.perf_counter() - begun
    wait()
    return blocked, took


def continuous(state: dict[str, torch.Tensor], x: torch.Tensor, folder: Path, seconds: float) -> None:
    """The speed of the loop while it is saved continuously, over that without, in turns of two seconds."""
    made, spent = [0, 0], [0.0, 0.0]
    engine = SavingEngine(folder / "continuous", Every(), checked="state/w")
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        for saving in (0, 1):
            begun = time.perf_counter()
            while time.perf_counter() < begun + 4:
                step(state, x, made[saving])
                made[saving] += 1
                if saving and engine.is_due(made[1]):
                    engine.snapshot(state, ABOUT | {"updates": made[1]})
            spent[saving] += time.perf_counter() - begun
            engine.drain()
    without, beside = (count / s for count, s in zip(made, spent, strict=True))
    print(f"continuous: {beside:.1f} steps/s, {without:.1f} without: {beside / without:.3f}; "
          f"{engine.count} checkpoints in {spent[1]:.0f} s, {engine.skipped} skipped")  # fmt: skip


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tensors", type=int, default=50)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=60, help="behind each save")
    parser.add_argument("--continuous", type=float, default=30.0, help="seconds of it")
    asked = parser.parse_args()
    state = {f"w{i}": torch.randn(asked.width, asked.width) for i in range(asked.tensors)}
    x, rng = torch.randn(256, asked.width), random.Random(0)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=0, world_size=1)
        every, nothing = (
            ways(folder),
            [measure(lambda s, p: lambda: None, state, x, folder, asked.steps)[1] for _ in range(3)][1:],
        )
        blocked: dict[str, list[float]] = {name: [] for name in every}
        lost: dict[str, list[float]] = {name: [] for name in every}
        for number in range(-1, asked.rounds):  # the first warms up: buffers, processes, pages
            for name in rng.sample(list(every), len(every)):
                nothing.append(measure(lambda s, p: lambda: None, state, x, folder, asked.steps)[1])
                held, took = measure(every[name], state, x, folder / f"{len(nothing)}", asked.steps)
                if number >= 0:
                    blocked[name].append(1e3 * held)
                    lost[name].append(1e3 * (took - statistics.median(nothing[-3:])))
        bare = statistics.median(blocked["bare copy"])
        size = sum(tensor.nbytes for tensor in state.values()) / 1e6
        print(f"{size:.0f} MB, {asked.rounds} rounds, {torch.get_num_threads()} threads; median (least) ms")
        print("| way | blocked | times the bare copy | lost in all |\n|---|---|---|---|")
        for name in every:
            middle = statistics.median(blocked[name])
            least, whole = min(blocked[name]), statistics.median(lost[name])
            print(f"| {name} | {middle:.0f} ({least:.0f}) | {middle / bare:.2f} | {whole:.0f} |")
        continuous(state, x, folder, asked.continuous)
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
