"""Whether the process of a long life grows: a whole life on a virtual clock, as fast as it goes.

A tiny agent looks and listens, recalls and keeps Moments, records with its camera's frames, and is watched now and
then. It prints the resident memory every thousand ticks, and how much larger the process has become since the warm-up,
the first quarter. Eight hours at ten ticks a second are 288,000 ticks.

OMP_NUM_THREADS=1 python benchmarks/long_life.py --ticks 36000
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import torch

from devmind.agent.threads import stepping_threads
from devmind.config import LiveConfig, MemoryConfig
from devmind.live.life import Life
from devmind.live.options import LiveOptions
from devmind.live.recording import Recording
from devmind.live.serving.hub import Hub
from devmind.live.virtual import Mailbox, SoundMailbox, VirtualClock
from devmind.memory import Memory, open_store
from devmind.moment import TICK_HZ, TICK_SAMPLES
from devmind.seeding import numpy_rng
from devmind.testing import tiny_agent
from devmind.worlds.room import Room
from stages.reflex import parts

GROWTH_MAX = 0.02
WARM_UP = 4
"""One of so many ticks is warm-up."""
SCENE_TICKS, WATCHED_TICKS = 40, 100
FRAME = (120, 160, 3)


def resident_mb() -> float:
    """Resident memory of this process in megabytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6


class Scenes:
    """What the camera sees: a square that moves before a wall, and another wall every four seconds."""

    def __init__(self) -> None:
        self.rng = numpy_rng("long life")
        self.wall = np.zeros(FRAME, np.uint8)

    def frame(self, tick: int) -> np.ndarray:
        """The picture of this tick, uint8 [H, W, 3]."""
        if tick % SCENE_TICKS == 0:
            small = self.rng.integers(0, 256, (3, 4, 3), dtype=np.uint8)
            self.wall = np.kron(small, np.ones((40, 40, 1), np.uint8))
        seen = self.wall.copy()
        at = 2 * (tick % SCENE_TICKS)
        seen[at : at + 24, at : at + 24] = (250, 40, 30)
        return seen

    def sound(self) -> np.ndarray:
        """The sound of one tick, float32 [1, S]."""
        return self.rng.normal(0, 0.01, (1, TICK_SAMPLES)).astype(np.float32)


def live(folder: Path, ticks: int, every: int) -> list[dict[str, float]]:
    """Live for so many ticks; a row of figures every `every` ticks."""
    agent = tiny_agent(0)
    parts.admit(agent)
    agent.eval().save_pretrained(folder / "agent")
    clock, scenes, hub, rows = VirtualClock(), Scenes(), Hub(), list[dict[str, float]]()
    eye, ear = Mailbox("sight", clock), SoundMailbox()
    room = Room({"eye": eye, "ear": ear}, TICK_HZ, now=clock.now, sleep=clock.sleep)
    config = LiveConfig(memory=MemoryConfig(use="always", longest_s=5.0))
    recording = Recording(folder / "life.mcap", {}, config)
    options = LiveOptions(folder / "agent", {}, record=recording.path, config=config)
    with ExitStack() as closing:
        memory = Memory(closing.enter_context(open_store(folder / "memory.sqlite")))
        life = Life(agent, room, memory, options, recording=recording, hub=hub)
        closing.enter_context(life)
        closing.enter_context(stepping_threads())
        eye.post(scenes.frame(0))
        ear.post(scenes.sound())
        begun_s = time.perf_counter()
        watching = ExitStack()
        for tick, _ in enumerate(life.loop.ticks(), 1):
            if tick % every == 1:
                viewer = watching.enter_context(hub.viewer())
            elif tick % every > min(WATCHED_TICKS, every - 1):
                watching.close()
            if hub.watched and (shown := viewer.take()) is not None:
                len(shown.text)
            if tick % TICK_HZ == 0 and recording.recorder is not None:
                recording.recorder.flush()  # the disk has no virtual clock: nothing may be dropped
            if tick % every == 0:
                took_ms = 1e3 * (time.perf_counter() - begun_s) / tick
                rows.append({"ticks": tick, "MB": round(resident_mb(), 1), "entries": memory.store.sizes().entries})
                print(json.dumps({**rows[-1], "ms a tick": round(took_ms, 2)}), flush=True)
            if tick == ticks:
                break
            eye.post(scenes.frame(tick))
            ear.post(scenes.sound())
        watching.close()
        if recording.recorder is not None and recording.recorder.dropped:
            raise SystemExit(f"The recording has gaps: {dict(recording.recorder.dropped)}.")
    return rows


def growth(rows: list[dict[str, float]]) -> float:
    """How much larger the process has become since the warm-up, as a share of what it was then."""
    after = [row["MB"] for row in rows[max(0, len(rows) // WARM_UP - 1) :]]
    return max(after) / after[0] - 1


def main() -> None:
    """Print the rows, and exit with 1 where the process grows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ticks", type=int, default=36_000)
    parser.add_argument("--every", type=int, default=1000, help="ticks between two rows")
    parser.add_argument("--tiny", action="store_true", help="only show that everything runs: 24 ticks")
    args = parser.parse_args()
    if args.tiny:
        args.ticks, args.every = 24, 8
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        rows = live(Path(folder), args.ticks, args.every)
    grown = growth(rows)
    flat = grown <= GROWTH_MAX
    print(f"{'flat' if flat else 'GROWS'}: {grown:+.2%} since the warm-up, of {GROWTH_MAX:.0%} allowed")
    sys.exit(not flat and not args.tiny)


if __name__ == "__main__":
    main()
