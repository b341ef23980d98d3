"""What `kill -9` costs: a recorded life is killed at random times; how much is lost, is the rest whole and repeatable?

Each life runs in a process of its own on synthetic devices and tells every tick it has lived. After the kill its
recording is repaired, and the repaired file is stepped through again with the same agent: every action must be the
recorded one, bit by bit. Lost is what was lived and is not in the repaired file. The goal is at most one second.

    OMP_NUM_THREADS=1 python benchmarks/live_kill.py --agent checkpoints/.../milestones/01-reflex --kills 50
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from devmind import plugins
from devmind.agent.agent import Agent
from devmind.live.checking import check_replay
from devmind.live.home import Wishes, at_home
from devmind.memory import open_store
from devmind.seeding import numpy_rng
from devmind.sessions import open_session, repair

GOAL_S = 1.0
WAKES_S = 120.0


def live(agent: Path, folder: Path) -> None:
    """In the process that will be killed: live, record, and print the seconds of each tick when it is over."""
    devices = {name: plugins.load("sensors", f"synthetic_{name}")() for name in ("camera", "microphone")}
    wishes = Wishes(agent, devices, memory=folder / "memory", record=folder / "life.mcap", page=False)
    with at_home(wishes) as (life, _):
        life.loop.watchers["telling"] = lambda tick: print(tick.moment.time_s, flush=True)
        life.run(None)


def lived_until_killed(agent: Path, folder: Path, after_s: float) -> float:
    """Start a life, kill it so long after its first tick, and give the last second it told."""
    command = [sys.executable, __file__, "--agent", str(agent), "--live", str(folder)]
    told: list[float] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        listener = threading.Thread(target=lambda: told.extend(map(float, process.stdout or ())))
        listener.start()
        give_up_s = time.monotonic() + WAKES_S
        while not told and process.poll() is None and time.monotonic() < give_up_s:
            time.sleep(0.01)
        time.sleep(after_s)
        process.kill()
        listener.join()
    if not told:
        raise SystemExit("The life to be killed never began; run it by hand with --live DIR to see why.")
    return told[-1]


def judge(folder: Path, agent: Agent, lived_s: float) -> tuple[float, int, int]:
    """(seconds lost, ticks kept, ticks that replay to the same actions) of what a killed life left."""
    found = repair(folder / "life.mcap", folder / "whole.mcap")
    kept = [moment.time_s for path in found.paths for moment, _ in open_session(path)]
    with open_store(folder / "memory") as store:
        senses = lambda number: found[0].senses if (found := store.get([number])) else None  # noqa: E731
        check = check_replay(found.paths, {agent.sha256(): agent}, senses)
    return lived_s - (kept[-1] if kept else 0.0), len(kept), check.checked - check.different


def main() -> None:
    """Print what was lost, and how many files were whole and repeatable."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--agent", type=Path, required=True, help="a saved agent")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--most", type=float, default=6.0, help="seconds after the first tick, at most")
    parser.add_argument("--live", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.live:
        return live(arguments.agent, arguments.live)
    agent, rng = Agent.from_pretrained(arguments.agent), numpy_rng("live_kill")
    rows = []
    for _ in range(arguments.kills):
        with tempfile.TemporaryDirectory() as name:
            lived_s = lived_until_killed(arguments.agent, Path(name), float(rng.uniform(0.0, arguments.most)))
            rows.append(judge(Path(name), agent, lived_s))
    lost_s, ticks, same = np.array(rows).T
    print(
        f"{len(rows)} kills: lost p50 {np.median(lost_s):.2f} s, max {lost_s.max():.2f} s (goal {GOAL_S:g}); "
        f"repaired {(ticks > 0).sum()}, replayed to equal actions {((same == ticks) & (ticks > 0)).sum()}; "
        f"{ticks.sum():.0f} ticks kept"
    )


if __name__ == "__main__":
    main()
