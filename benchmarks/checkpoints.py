"""The cost of checkpoints: how long a save stalls teaching, what a kill loses, and the time until a run resumes.

    python benchmarks/checkpoints.py [--stage reflex] [--size nursery] [--saves 20] [--folder DIR]

The saved state is that of a gradient lesson that trains the whole agent: the weights, and AdamW's two moments of each;
other lessons save less. Times are wall times on the disk of --folder (by default that of temporary files).
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path


def main() -> None:
    """Save, retire and load as a lesson does, and print one line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stage", default="reflex")
    parser.add_argument("--size", default="nursery")
    parser.add_argument("--saves", type=int, default=20)
    parser.add_argument("--folder", type=Path, help="folder to write to; removed afterwards")
    given = parser.parse_args()

    import torch

    from devmind.agent.agent import Agent
    from devmind.agent.config import AgentConfig
    from devmind.checkpointing import bundle
    from devmind.config import load
    from devmind.curriculum.runner import in_order
    from devmind.curriculum.start import load_stage
    from devmind.curriculum.teaching import position

    config = load(given.size)
    agent = Agent(AgentConfig(size=config.size))
    for stage in map(load_stage, in_order([given.stage])):
        stage.admit(agent)
    optimizer = torch.optim.AdamW(agent.parameters(), lr=1e-4)
    for parameter in agent.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    numbers = sum(parameter.numel() for parameter in agent.parameters())
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        shelf, saves, retires = Path(name), [], []
        for update in range(given.saves):
            state = {"update": update, "agent": agent.state_dict(), "learner": {"optimizer": optimizer.state_dict()}}
            saves.append(_seconds(lambda: bundle.save(shelf / f"0-one-{update:08d}", state)))  # noqa: B023
            retires.append(_seconds(lambda: bundle.retire(shelf, keep=2)))
        size = sum(path.stat().st_size for path in (shelf / f"0-one-{given.saves - 1:08d}").iterdir())
        loads = [_seconds(lambda: position(shelf)) for _ in range(5)]
    stalls = [save + retire for save, retire in zip(saves, retires, strict=True)]
    starts = [_seconds(_start) for _ in range(3)]
    every_s = config.checkpoint_every_s
    stall_s, back_s = statistics.median(stalls), statistics.median(loads) + statistics.median(starts)
    print(f"size {given.size}, {given.stage}: {numbers:,} parameters, {size / 1e6:.1f} MB a checkpoint")
    print(
        f"stall per save        {stall_s:7.3f} s (median of {given.saves}; worst {max(stalls):.3f} s; retiring takes "
        f"{statistics.median(retires):.3f} s), {100 * stall_s / (every_s + stall_s):.1f} % of a lesson at one in "
        f"{every_s:g} s"
    )
    print(
        f"work lost by a kill   {(every_s + stall_s) / 2:7.1f} s on average, {every_s + max(stalls):.1f} s and the "
        "current step at most"
    )
    print(
        f"time to resume        {back_s:7.3f} s: {statistics.median(starts):.3f} s until the libraries are loaded, "
        f"{statistics.median(loads):.3f} s to verify and read the newest checkpoint"
    )


def _seconds(act: Callable[[], object]) -> float:
    begun = time.perf_counter()
    act()
    return time.perf_counter() - begun


def _start() -> None:
    subprocess.run([sys.executable, "-c", "import devmind.curriculum.runner"], check=True)


if __name__ == "__main__":
    main()
