"""Tokens a second of reading and of writing, ours and nanoGPT's own code, at equal size on the same cores in one run.

    git clone https://github.com/karpathy/nanoGPT /tmp/nanogpt
    python benchmarks/tokens.py --nanogpt /tmp/nanogpt [--size nursery] [--threads 2]

Training is a turn of reading through its learner, beside nanoGPT's `GPT` stepped as in its `train.py`: forward,
backward, clip the norm at 1, AdamW of its `configure_optimizers`. Ours steps the layers that were grown for pages, by
Muon, and passes gradients through the layers below; nanoGPT has as many layers, and all of them learn. Sampling is that
of `devmind say`, beside nanoGPT's `GPT.generate`, which has no cache: it reads the last page again for every token.
Ours starts a new page with the second half of a full one, so it reads half a page again; nanoGPT's window slides token
by token.

Equal on both sides are layers, width, heads, tokens of context, pages per step, and the vocabulary (bytes, and the
tokens that start and end a page); no dropout. The architectures differ: rotary positions, a gated MLP and an output
layer before the word table here, learned positions and one table there; both parameter counts are printed. Batches are
made beforehand. The two take turns, and each row is the median of its turns, so that other work on the machine affects
both alike.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import torch

from devmind import worlds
from devmind.agent.agent import Agent
from devmind.agent.config import AgentConfig
from devmind.agent.text import NOTHING
from devmind.agent.threads import cores, intra_op_threads
from devmind.config import load
from devmind.curriculum.machine import gflops
from devmind.curriculum.stage import Context
from devmind.errors import ConfigError
from devmind.seeding import torch_generator
from stages.language import lessons, parts
from stages.language.read import lesson
from stages.language.read.pages import LENGTHS
from stages.language.read.saying import go_on

GOAL = 1.0
VOCABULARY = NOTHING + 1
READS = ("trunk.", "readout", "encoders.text.", "heads.text.")
"""What reading and writing a page takes of the agent."""
OPENING = "First Citizen:"


class Speed(NamedTuple):
    """Tokens a second of wall time and of CPU time over all threads."""

    wall: float
    cpu: float


def main() -> None:
    """Print a row for training and for each length of sampling."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--nanogpt", type=Path, required=True, metavar="PATH", help="a checkout of nanoGPT")
    options.add_argument("--size", default="nursery")
    options.add_argument("--threads", type=int, default=cores(), help="threads of training; sampling runs on one")
    options.add_argument("--steps", type=int, default=10, help="training steps per turn")
    options.add_argument("--lengths", type=int, nargs="+", default=[50, 200, 1000], help="bytes to sample")
    options.add_argument("--turns", type=int, default=7)
    given = options.parse_args()
    theirs = nanogpt(given.nanogpt)
    with tempfile.TemporaryDirectory() as folder:
        config = load(given.size, sets=["device=cpu", "loggers=[]"])
        context = Context(config, config.seed, "cpu", Path(folder), worlds.make, None)
        agent = Agent(AgentConfig(size=given.size, seed=config.seed))
        parts.admit(agent)
        model = peer(theirs, agent)
        own = sum(value.numel() for name, value in agent.named_parameters() if name.startswith(READS))
        other = sum(value.numel() for value in model.parameters())
        print(f"one core {gflops():.0f} GFLOP/s (float32); torch {torch.__version__}, {cores()} core(s)")
        print(f"parameters used for a page: ours {own:,}, nanoGPT {other:,}")
        print("\nwhat                             ours/s    nanoGPT/s   ratio  of CPU time  goal")
        with intra_op_threads(given.threads):
            tokens = given.steps * lessons.PAGES * LENGTHS[given.size]
            row(f"train, {given.threads} thread(s)", tokens, given.turns,
                training(agent, context, given.steps), peer_training(model, context, given.steps))  # fmt: skip
        agent.eval()
        model.eval()
        with intra_op_threads(1):
            for length in given.lengths:
                pair = (lambda n=length: sample(agent, n)), (lambda n=length: peer_sample(model, n))
                row(f"sample {length:,} bytes, 1 thread", length, given.turns, *pair)


def nanogpt(folder: Path) -> ModuleType:
    """nanoGPT's file `model.py`, imported from a checkout.

    Raises:
        ConfigError: there is no checkout.
    """
    if not (folder / "model.py").is_file():
        raise ConfigError(f"There is no checkout of nanoGPT at '{folder}' (no model.py); clone it and give its folder.")
    sys.path.insert(0, str(folder))
    import model

    return model


def peer(code: ModuleType, agent: Agent) -> Any:
    """nanoGPT's GPT with the agent's size."""
    config = agent.config
    torch.manual_seed(config.seed)
    return code.GPT(
        code.GPTConfig(
            block_size=LENGTHS[config.size],
            vocab_size=VOCABULARY,
            n_layer=config.layers,
            n_head=config.attention_heads,
            n_embd=config.width,
            dropout=0.0,
            bias=False,
        )
    )


def training(agent: Agent, context: Context, steps: int) -> Callable[[], None]:
    """A turn of reading: `steps` updates of its learner, on the same batches each turn."""
    taught = lessons.reading(context, steps)
    learner = taught.make_learner(agent, context)
    learner.steps = taught.steps
    batches = [lesson.lesson_batch(context, update, lessons.PAGES) for update in range(steps)]
    agent.train()

    def turn() -> None:
        for step, batch in enumerate(batches):
            float(learner.update(batch, step)["loss"])

    return turn


def peer_training(model: Any, context: Context, steps: int) -> Callable[[], None]:
    """A turn of nanoGPT: as many steps on the same pages, each token predicted from those before it."""
    pages = [lesson.lesson_batch(context, update, lessons.PAGES)["pieces"][:, 0] for update in range(steps)]
    batches = [(page, page.roll(-1, 1)) for page in pages]
    optimizer = model.configure_optimizers(0.1, 1e-3, (0.9, 0.95), "cpu")
    model.train()

    def turn() -> None:
        for read, targets in batches:
            _, loss = model(read, targets)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            loss.item()

    return turn


def sample(agent: Agent, length: int) -> None:
    """Sample as `devmind say` does."""
    for _ in go_on(agent, OPENING, length, torch_generator("say", 0)):
        pass


def peer_sample(model: Any, length: int) -> None:
    """Sample as nanoGPT's `sample.py` does, with the same opening and from all tokens."""
    opening = torch.tensor([list(OPENING.encode())])
    with torch.no_grad():
        model.generate(opening, length, temperature=1.0)


def row(name: str, tokens: int, turns: int, ours: Callable[[], None], theirs: Callable[[], None]) -> None:
    """Let the two take turns, of which the first does not count, and print the result."""
    found: list[tuple[Speed, Speed]] = [(speed(ours, tokens), speed(theirs, tokens)) for _ in range(turns + 1)][1:]
    mine, peers = np.median(found, axis=0)
    ratio = float(np.median([a.wall / b.wall for a, b in found]))
    of_cpu = float(np.median([a.cpu / b.cpu for a, b in found]))
    verdict = "reached" if ratio >= GOAL else "missed"
    print(
        f"{name:28} {mine[0]:10,.0f} {peers[0]:12,.0f} {ratio:7.2f} {of_cpu:12.2f}  >= {GOAL:.1f} {verdict}", flush=True
    )


def speed(work: Callable[[], None], tokens: int) -> Speed:
    """The speed of one turn."""
    cpu_s, wall_s = time.process_time(), time.perf_counter()
    work()
    return Speed(tokens / (time.perf_counter() - wall_s), tokens / (time.process_time() - cpu_s))


if __name__ == "__main__":
    main()
