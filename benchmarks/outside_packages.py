"""The overhead of devmind for external packages: its speed against bare modules, in one run, on one thread.

    python benchmarks/outside_packages.py [--size nursery] [--rounds 3]

1. Tokens/s of docs/example-reader's lesson, taught by the runner's Learner, journal and Trainer, against a bare loop of
torch on the same trunk, table and pages, with the same optimizer. Both take turns; the ratio is of CPU seconds.
2. Positions/s of `Agent.evaluate` at batch 64 on boards of eight tokens, against encoder, decoder and head called
directly.
3. Milliseconds per byte of writing with the cache, and when the whole page is run again for each byte.

It needs the example: `pip install -e docs/example-reader`, or this checkout, whose copy is used otherwise.
"""

from __future__ import annotations

import argparse
import copy
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from evaluate_speed import BOARD, bare, board_player
from torch import Tensor, nn
from torch.nn import functional as F

from devmind.agent import Agent, AgentConfig
from devmind.agent.threads import stepping_threads
from devmind.agent.writing import write
from devmind.config import load
from devmind.curriculum.journal import Journal
from devmind.curriculum.machine import gflops
from devmind.curriculum.stage import Context
from devmind.curriculum.teaching import teach
from devmind.moment import Moment
from devmind.worlds import make as make_world

EXAMPLE = Path(__file__).parent.parent / "docs" / "example-reader"
PAGE = "Once upon a time there was a child who read one letter after the other, " * 2


def taught_by_devmind(agent: Agent, context: Context, lesson: Any, steps: int) -> float:
    """CPU seconds of `steps` steps of the lesson."""
    with tempfile.TemporaryDirectory() as folder:
        started = time.process_time()
        teach(lesson, steps, agent, context, Journal(Path(folder, "journal.jsonl")))
        return time.process_time() - started


def taught_barely(agent: Agent, context: Context, lesson: Any, steps: int) -> float:
    """CPU seconds of the same steps in a custom script: decoder, table, cross-entropy, AdamW."""
    encoder, head, decoder = agent.encoder("text"), agent.head("text"), agent.trunk.decoder
    table, out, norm = encoder.table, head.out, encoder.norm
    parameters = [*decoder.parameters(), *encoder.parameters(), *head.parameters()]
    groups = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": 0.02},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    started = time.process_time()
    optimizer = torch.optim.AdamW(groups, lr=3e-3, betas=(0.9, 0.95))
    for batch in lesson.make_batches(agent, context, steps):
        pages: Tensor = batch["senses"]["text"][:, 0].long()
        numbers = F.pad(pages, (1, 0), value=256)
        targets = F.pad(pages, (0, 1), value=257)
        features = decoder(inputs_embeds=norm(table(numbers)), use_cache=False).last_hidden_state
        loss = F.cross_entropy(F.linear(out(features), table.weight).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0, foreach=True)
        optimizer.step()
    return time.process_time() - started


def compare_lessons(size: str, rounds: int, steps: int) -> None:
    """Print tokens/s of both ways to teach the reader."""
    from devmind_reader.stage import ROWS, ReaderStage
    from devmind_reader.text import PAGE_BYTES

    config = load(size).model_copy(update={"device": "cpu", "threads": 1, "loggers": (), "checkpoint_every_s": 1e9})
    stage, agent = ReaderStage(), Agent(AgentConfig(size=size))
    stage.admit(agent)
    with tempfile.TemporaryDirectory() as folder:
        context = Context(config, 0, "cpu", Path(folder), make_world)
        (lesson,) = stage.lessons(context)
        tokens = ROWS * (PAGE_BYTES + 1) * steps
        ways = {"bare loop": taught_barely, "lesson by its Learner": taught_by_devmind}
        spent = dict.fromkeys(ways, 0.0)
        for turn in range(rounds + 1):
            for name, teach_it in ways.items():
                seconds = teach_it(copy.deepcopy(agent).train(), context, lesson, steps)
                # The first turn warms up what is compiled or cached, and does not count.
                spent[name] += seconds if turn else 0.0
    for name, seconds in spent.items():
        print(f"{name:>24}: {rounds * tokens / seconds:8.0f} tokens/s")
    print(f"{'ratio':>24}: {spent['bare loop'] / spent['lesson by its Learner']:8.2f}  (goal 0.9)", flush=True)


def compare_evaluations(size: str, calls: int) -> None:
    """Print positions/s of `evaluate` and of the bare modules."""
    agent = board_player(size)
    boards = torch.randint(-1, 2, (64, *BOARD), dtype=torch.int8, generator=torch.Generator().manual_seed(0))
    sides = {
        "bare modules": bare(agent),
        "evaluate": lambda x: agent.evaluate({"board": x}, ["choose"])["choose"].logits,
    }
    torch.testing.assert_close(*[side(boards) for side in sides.values()], atol=1e-5, rtol=0)
    spent = dict.fromkeys(sides, 0.0)
    for _ in range(calls):
        for name, side in sides.items():
            started = time.process_time()
            side(boards)
            spent[name] += time.process_time() - started
    for name, seconds in spent.items():
        print(f"{name:>24}: {64 * calls / seconds:8.0f} positions/s at batch 64")
    print(f"{'ratio':>24}: {spent['bare modules'] / spent['evaluate']:8.2f}  (goal 0.8)", flush=True)


def time_writing(size: str, most: int) -> None:
    """Print milliseconds per byte of continuing a page, with the cache and without."""
    from devmind_reader.stage import ReaderStage

    agent = Agent(AgentConfig(size=size)).eval()
    ReaderStage().admit(agent)
    state = agent.new_state()
    percepts = agent.encode(state, Moment(0.0, {"text": PAGE}, first=True))
    state, output = agent.begin(state, percepts, heads=["text"])
    # An untaught agent would end its page at any point, but a page that never ends is to be timed.
    agent.encoder("text").end = None
    started = time.process_time()
    write(agent, state, percepts, output, most)
    cached = (time.process_time() - started) / most * 1000
    started, again = time.process_time(), 8
    for _ in range(again):
        state = agent.new_state()
        agent.begin(state, agent.encode(state, Moment(0.0, {"text": PAGE}, first=True)), heads=["text"])
    anew = (time.process_time() - started) / again * 1000
    print(f"{'writing with the cache':>24}: {cached:8.2f} ms a byte  (goal 5)")
    print(f"{'the page run again':>24}: {anew:8.2f} ms a byte, for {len(PAGE)} bytes before it", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="nursery", help="the agent's size")
    parser.add_argument("--rounds", type=int, default=3, help="teaching turns of each side")
    parser.add_argument("--steps", type=int, default=12, help="steps per turn")
    parser.add_argument("--calls", type=int, default=100, help="calls of evaluate, and bytes to write")
    options = parser.parse_args()
    torch.set_num_threads(1)
    sys.path.append(str(EXAMPLE))
    print(f"{'one core':>24}: {gflops():8.1f} GFLOP/s (float32)")
    compare_lessons(options.size, options.rounds, options.steps)
    with stepping_threads(), torch.no_grad():
        compare_evaluations(options.size, options.calls)
        time_writing(options.size, options.calls)


if __name__ == "__main__":
    main()
