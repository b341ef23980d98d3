"""Reading: nats per character after a number of steps, and bytes a second, by bytes, by a vocabulary and by patches.

Each row is a separate run from an untaught agent of size nursery (its schedule ends with its steps). It is taught
reading alone, as the lesson `read` does in its turns, and examined on the whole held-out part. CPU seconds are of all
threads. `--pretrained` gives a decoder of transformers for the trunk (a folder), and `--tokenizer own` uses its
vocabulary.

    OMP_NUM_THREADS=1 python benchmarks/read_text.py --data DIR --tokenizers bytes bpe patches --steps 100 200
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from pathlib import Path

from devmind import worlds
from devmind.agent.agent import Agent
from devmind.agent.config import AgentConfig
from devmind.agent.device import place
from devmind.config import load
from devmind.curriculum.examining import examination
from devmind.curriculum.journal import Journal
from devmind.curriculum.stage import Context
from devmind.curriculum.start import give_reading
from devmind.curriculum.teaching import teach
from stages.language import lessons, parts
from stages.language.read import exam
from stages.language.read.corpus import corpus
from stages.language.read.pages import LENGTHS
from stages.language.stage import LanguageStage


def main() -> None:
    """Print a row for each number of steps."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--data", type=Path, help="a folder with text/*.txt; default: the caregiver's sentences")
    options.add_argument("--tokenizers", nargs="+", default=["bytes"], choices=("bytes", "patches", "bpe", "own"))
    options.add_argument("--pieces", type=int, default=1024, help="size of the vocabulary that bpe makes from the text")
    options.add_argument("--pretrained", help="a folder with a decoder of transformers, for the trunk")
    options.add_argument("--device", default="cpu")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--size", default="nursery")
    options.add_argument("--steps", type=int, nargs="+", default=[100, 200, 400])
    options.add_argument(
        "--set", action="append", default=[], help="a configuration key, such as lessons.read.batch=64"
    )
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        floors = exam.floors(corpus(context_of(Path(folder), given, "bytes")))
    print("floors: " + ", ".join(f"{name} {value:.3f}" for name, value in floors.items()))
    print("tokenizer  steps  bytes seen  seconds  CPU s  bytes/CPU s  nats/char [95 %]        bits/byte")
    for steps in given.steps:
        for tokenizer in given.tokenizers:
            with tempfile.TemporaryDirectory() as folder:
                row(Path(folder), given, tokenizer, steps)


def context_of(folder: Path, given: argparse.Namespace, tokenizer: str) -> Context:
    """A run of the stage with this tokenizer."""
    sets = [f"device={given.device}", "threads=1", "loggers=[]", f"seed={given.seed}", f"text.pieces={given.pieces}"]
    config = load(given.size, sets=[*sets, f"text.tokenizer={tokenizer}", *given.set])
    return Context(config, given.seed, given.device, folder, worlds.make, given.data)


def row(folder: Path, given: argparse.Namespace, tokenizer: str, steps: int) -> None:
    """Teach and examine one agent."""
    context = context_of(folder, given, tokenizer)
    agent = Agent(AgentConfig(size=given.size, seed=given.seed, pretrained=given.pretrained))
    if tokenizer in ("bpe", "own"):
        give_reading(LanguageStage(), agent, context)
    parts.admit(agent, tokenizer)
    place(agent, given.device)
    reading, before, begun_s = lessons.reading(context, steps), time.process_time(), time.monotonic()
    teach(reading, steps, agent, context, Journal(folder / "journal.jsonl"))
    took, spent = time.monotonic() - begun_s, time.process_time() - before
    with examination(agent):
        (measure,) = exam.examine(agent, context, "retention")
    changed = context.config.lessons.get("read")
    seen = steps * ((changed and changed.batch) or lessons.PAGES) * LENGTHS[given.size]
    low, high = measure.interval(2000)
    text = corpus(context).held_out
    bits = measure.score / math.log(2) * len(text) / len(text.encode())
    print(
        f"{tokenizer:9} {steps:6} {seen:11,} {took:8.0f} {spent:6.0f} {seen / spent:12,.0f} {measure.score:10.3f} "
        f"[{low:.3f}, {high:.3f}] {bits:10.3f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
