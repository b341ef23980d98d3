"""What a night keeps and costs, night by night and test by test: the exam of sleep on some of its lives.

    OMP_NUM_THREADS=1 python benchmarks/nights.py --agent DIR --nights 0 6 9 [--device cuda] [--steps 320 --every 3]

Each row is one life of the exam: the share of the gain that is kept with the store off, the change on other lives with
their stores, and the loss in each test of short-term memory, as a skill score. With `--out` the values of all questions
are saved too, so that nights of several processes make one exam.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np

from devmind.agent.agent import Agent
from devmind.agent.device import pick_device, place
from devmind.agent.threads import training_threads
from devmind.config import load
from devmind.curriculum import sleep as nights
from devmind.curriculum.stage import Context
from devmind.curriculum.start import make_context
from devmind.raised import raised
from devmind.seeding import exam_seeds
from devmind.worlds import minigrid
from stages.memory.maze import exam as maze
from stages.memory.maze.rooms import ROOMS
from stages.memory.sleep import exam


def main() -> None:
    """Sleep and examine; print a row after each night."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agent", default="after-memory", help="a folder, or the name of a packaged agent")
    parser.add_argument("--nights", type=int, nargs="+", default=[0], help="numbers of the exam's lives")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, help="steps of a night over few memories; default: its own")
    parser.add_argument("--every", type=int, help="one rehearsal per this many updates, for such a night")
    parser.add_argument("--out", type=Path, metavar="FILE.json")
    asked = parser.parse_args()
    folder = raised().get(asked.agent, Path(asked.agent))
    agent = place(Agent.from_pretrained(folder).float().eval(), pick_device(asked.device))
    size = agent.config.size
    if asked.steps:
        nights.STEPS = {**nights.STEPS, size: asked.steps * nights.FEW}
    if asked.every:
        nights.REHEARSAL_EVERY = 1 + (asked.every - 1) * nights.FEW
    seeds = exam_seeds(exam.NIGHTS[size], asked.seed, "sleep")
    kept = {}
    with tempfile.TemporaryDirectory() as out, training_threads(1):
        config = load(size, {"seed": asked.seed, "device": asked.device})
        context = make_context(config.model_copy(update={"loggers": ()}), Path(out), None, ())
        counts, sleeper = tests(context), exam.Sleeper(agent)
        named = " ".join(f"{name:>9}" for name in counts)
        print(f"night   kept  others {named}     all     s", flush=True)
        for number in asked.nights:
            begun_s = time.monotonic()
            night = exam.night_of(sleeper, context, int(seeds[number]))
            row(number, night, counts, time.monotonic() - begun_s)
            kept[number] = {name: value.tolist() for name, value in vars(night).items() if name != "slept"}
            if asked.out is not None:
                asked.out.write_text(json.dumps(kept), encoding="utf-8")


def tests(context: Context) -> dict[str, int]:
    """The tests that are played before and after a night, in order, with the number of episodes of each."""
    rooms = {name: ROOMS[side] for name, side in maze.SIZES.items()} if minigrid.installed() else {}
    shown = {name.split("/")[1]: n for name, n in rooms.items()}
    signs, corridors, decks = (context.episodes(n) for n in (exam.SIGNS, exam.CORRIDORS, exam.DECKS))
    return {"sign": signs, "corridor": corridors, **shown, "cards": decks}


def row(number: int, night: exam.Night, counts: dict[str, int], seconds: float) -> None:
    """One line of the table."""
    share = exam.shares(*(exam.by_thing(one) for one in (night.awake, night.before, night.after))).mean()
    parts = np.split(night.lost, np.cumsum(list(counts.values()))[:-1])
    columns = " ".join(f"{part.mean():9.3f}" for part in parts)
    print(
        f"{number:5} {share:6.3f} {night.change.mean():7.3f} {columns} {night.lost.mean():7.3f} {seconds:5.0f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
