"""Trainers killed at random times, half of them behind their writer: each goes on from what is saved, to equal bits.

    python -m tests.checkpointing.kills --kills 100 [--seed 0]

Each start checks that it takes up what was acknowledged before. The last one must have what an undisturbed run has.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from devmind.checkpointing.engine import Every, SavingEngine
from devmind.checkpointing.generations import load, load_newest, newest
from devmind.checkpointing.lock import lock_folder

EVERY = 5


def train(place: Path, until: int, pause_s: float = 0.002) -> None:
    """Learn from the newest checkpoint to step `until`, as lessons do: a step is a function of its number."""
    torch.set_num_threads(1)
    shelf, backup, acknowledged = place / "shelf", place / "backup", list[int]()
    torch.manual_seed(0)
    agent = torch.nn.Linear(200, 200)
    optimizer = torch.optim.AdamW(agent.parameters(), lr=1e-3)
    with lock_folder(shelf, 60):
        saved = load_newest(shelf, backup, lambda sentence: None)
    if saved:
        agent.load_state_dict(saved["agent"])
        optimizer.load_state_dict(saved["optimizer"])
    first = saved["step"] if saved else 0
    with (
        open(place / "journal", "a", buffering=1) as journal,
        SavingEngine(
            shelf, Every(updates=EVERY), backup, saved=lambda saved: acknowledged.append(saved.about["step"])
        ) as engine,
    ):
        journal.write(f"from {first}\n")
        for step in range(first, until):
            torch.manual_seed(step)
            optimizer.zero_grad()
            agent(torch.randn(32, 200)).square().mean().backward()
            optimizer.step()
            done = step + 1
            state = {"agent": agent.state_dict(), "optimizer": optimizer.state_dict(), "step": done}
            about = {"lesson": "one", "step": done, "steps": until, "updates": done}
            if done == until:
                engine.finish(state, about)
            elif engine.is_due(done):
                engine.snapshot(state, about)
            while acknowledged:
                journal.write(f"saved {acknowledged.pop(0)}\n")
            journal.write(f"step {done}\n")
            time.sleep(pause_s)


def fork(place: Path, until: int, pause_s: float = 0.002) -> int:
    """A process that does `train`; forked, since torch loads slowly."""
    child = os.fork()
    if child == 0:
        code = 99
        try:
            train(place, until, pause_s)
            code = 0
        finally:
            os._exit(code)
    return child


def last(journal: Path, word: str) -> int:
    """The number that stands last behind `word`; 0 if none does."""
    lines = journal.read_text().splitlines() if journal.is_file() else []
    return max((int(line.split()[1]) for line in lines if line.startswith(word) and len(line.split()) == 2), default=0)


def attack(place: Path, kills: int, seed: int = 0) -> dict[str, Any]:
    """Kill a trainer so often; gives what was found.

    Raises:
        AssertionError: no whole generation is left, an acknowledged one is not taken up, or other bits come out.
    """
    rng, straight, killed, begun_at = random.Random(seed), place / "straight", place / "killed", 0
    found, steps_lost = {"kills": kills, "with writer": 0, "lost": 0, "kills in the first steps": 0}, list[int]()
    for folder in (straight, killed):
        folder.mkdir(parents=True)
    for _ in range(kills):
        lines = killed / "journal"
        before = lines.stat().st_size if lines.is_file() else 0
        child = fork(killed, 1 << 30)
        while (lines.stat().st_size if lines.is_file() else 0) == before:
            time.sleep(0.005)
        began = int(lines.read_bytes()[before:].split()[1])
        assert began >= begun_at, f"{begun_at} was on the disk, and the next start took up {began}"
        time.sleep(rng.uniform(0.0, 1.5))
        writers = Path(f"/proc/{child}/task/{child}/children").read_text().split()
        if rng.random() < 0.5:
            found["with writer"] += len(writers)
            for writer in writers:
                os.kill(int(writer), signal.SIGKILL)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        with lock_folder(killed / "shelf", 60), lock_folder(killed / "backup", 60):
            path = newest(killed / "shelf", killed / "backup")
            begun_at = load(path)["step"] if path else 0
        assert begun_at >= last(killed / "journal", "saved"), "what was acknowledged is lost"
        found["lost"] += path is None and last(killed / "journal", "saved") > 0
        tail = killed / "tail"
        tail.write_bytes(lines.read_bytes()[before:])
        reached = last(tail, "step")
        found["kills in the first steps"] += reached <= began + EVERY
        steps_lost.append(max(0, reached - begun_at))
    for folder in (killed, straight):
        assert os.waitpid(fork(folder, begun_at + 20, 0.0), 0)[1] == 0
    ends = [newest(folder / "shelf") for folder in (straight, killed)]
    assert ends[0] is not None
    assert ends[1] is not None
    one, other = load(ends[0]), load(ends[1])
    assert all(value.equal(other["agent"][name]) for name, value in one["agent"].items()), "other weights"
    for at, each in one["optimizer"]["state"].items():
        assert all(value.equal(other["optimizer"]["state"][at][key]) for key, value in each.items()), "other moments"
    saved = [int(line.split()[1]) for line in lines.read_text().splitlines() if line.startswith("saved")]
    widest = max((after - before for before, after in pairwise(saved)), default=0)
    middle = sorted(steps_lost)[len(steps_lost) // 2]
    lost = {"most steps lost": max(steps_lost), "median": middle, "most steps from one checkpoint to the next": widest}
    return found | {"steps": begun_at + 20} | lost


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        print(attack(Path(made), asked.kills, asked.seed))
