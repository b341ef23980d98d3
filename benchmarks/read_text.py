"""Reading: nats a character after so many steps, and tokens a second, with bytes and with patches of eight bytes.

Each row is a run of its own from an untaught agent of size nursery (its schedule ends with its steps), taught to
read alone, as the lesson `read` has it in its turns, and examined on the whole held-out part. CPU seconds are of all
threads.

    OMP_NUM_THREADS=1 python benchmarks/read_text.py --data DIR --tokenizer bytes --steps 100 200
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from devmind import worlds
from devmind.agent.agent import Agent
from devmind.agent.config import AgentConfig
from devmind.config import load
from devmind.curriculum.examining import examination
from devmind.curriculum.journal import Journal
from devmind.curriculum.stage import Context
from devmind.curriculum.teaching import teach
from stages.language import lessons, parts
from stages.language.read import exam
from stages.language.read.pages import LENGTHS


def main() -> None:
    """Print a row for each number of steps."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--data", type=Path, help="a folder with text/*.txt; else the caregiver's sentences are read")
    options.add_argument("--tokenizer", default="bytes", choices=("bytes", "patches"))
    options.add_argument("--size", default="nursery")
    options.add_argument("--steps", type=int, nargs="+", default=[100, 200, 400])
    options.add_argument(
        "--set", action="append", default=[], help="a configuration key, such as lessons.read.batch=64"
    )
    given = options.parse_args()
    print("tokenizer  steps  bytes seen  CPU s  bytes/CPU s  nats/char  (floors)")
    for steps in given.steps:
        with tempfile.TemporaryDirectory() as folder:
            row(Path(folder), given, steps)


def row(folder: Path, given: argparse.Namespace, steps: int) -> None:
    """Teach and examine one agent."""
    config = load(given.size, sets=["device=cpu", "threads=1", "loggers=[]", *given.set])
    context = Context(config, config.seed, "cpu", folder, worlds.make, given.data)
    agent = Agent(AgentConfig(size=given.size, seed=config.seed))
    parts.admit(agent, given.tokenizer)
    reading, before = lessons.reading(context, steps), time.process_time()
    teach(reading, steps, agent, context, Journal(folder / "journal.jsonl"))
    spent = time.process_time() - before
    with examination(agent):
        (measure,) = exam.examine(agent, context, "full")
    changed = config.lessons.get("read")
    rows = (changed and changed.batch) or lessons.PAGES
    seen = steps * rows * LENGTHS[given.size]
    floors = ", ".join(f"{name} {value:.3f}" for name, value in measure.floors.items())
    print(
        f"{given.tokenizer:9} {steps:6} {seen:11,} {spent:6.0f} {seen / spent:12,.0f} {measure.score:10.3f}"
        f"  ({floors})",
        flush=True,
    )


if __name__ == "__main__":
    main()
