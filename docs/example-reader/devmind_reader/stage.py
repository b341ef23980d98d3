"""The stage `reader`: predict a text byte by byte, and continue a text with the cache."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from devmind.agent import Agent, collate_tick
from devmind.agent.text import add_text, page_nats, text_loss
from devmind.agent.writing import write
from devmind.curriculum.episodes import identities
from devmind.curriculum.exam import Exam, Exhibit, Measure
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Batches, Context, Lesson, Skill
from devmind.learners.gradient import GradientLearner
from devmind.moment import Moment
from devmind.seeding import numpy_rng, torch_generator
from devmind_reader.text import apart, count, counted_nats, pages, split

ROWS = 16
STEPS = {"tiny": 400, "nursery": 600}


def batch_of(texts: Sequence[str]) -> dict[str, Any]:
    """Pages as a Batch of one Moment each."""
    return collate_tick({"text": texts}, np.ones(len(texts), dtype=bool))


def say(agent: Agent, beginning: str, most: int = 80, seed: int | None = 0) -> str:
    """The agent's continuation of `beginning`, at most so many bytes; without a seed the likeliest ones."""
    state = agent.new_state()
    percepts = agent.encode(state, Moment(0.0, {"text": beginning}, first=True))
    state, output = agent.begin(state, percepts, heads=["text"])
    generator = None if seed is None else torch_generator("reader", seed, device=agent.device)
    state, written = write(agent, state, percepts, output, most, generator)
    agent.end(state, percepts)
    return written[0]


def examine(agent: Agent, context: Context) -> Exam:
    """Nats a byte of pages of the held-out part, one value a page; the baselines are n-grams."""
    taught, held_out = split(context.data)
    texts = apart(held_out, context.episodes(160))
    chunks = [texts[i : i + ROWS] for i in range(0, len(texts), ROWS)]
    nats = torch.cat([page_nats(agent, batch_of(chunk))[:, 0] for chunk in chunks]).cpu().numpy()
    orders = {"unigram": 1, "5-gram": 5}
    floors = {name: float(np.mean([counted_nats(count(taught)[:n], t) for t in texts])) for name, n in orders.items()}
    opening = texts[0][:40]
    shown = Exhibit("example", f"It was given {opening!r} and wrote {say(agent, opening)!r}.")
    note = f"{len(taught):,} bytes were taught, {len(held_out):,} held out; pages of {len(texts[0])} bytes."
    measure = Measure("read", "nats a byte", nats, math.log(256), 0.0, floors, higher_is_better=False,
                      note=note, exhibits=(shown,), episodes=identities({"page": texts}))  # fmt: skip
    return Exam([measure])


def taught(context: Context, n: int) -> np.ndarray:
    """Pages that lessons show; the exam has none of them."""
    return identities({"page": pages(split(context.data)[0], n, numpy_rng("reader", context.seed, "episodes"))})


class ReaderStage:
    """Read and continue a text, by default Python's own manual."""

    name = "reader"
    requires = ()
    skills = (
        Skill("read", examine, Gate([Threshold("read", 2.7, lower_is_better=True)]), "foretells what it reads", taught),
    )

    def admit(self, agent: Agent) -> None:
        """Add the sense of pages, and the head that writes them."""
        if "text" not in agent.encoders:
            add_text(agent, "bytes", stage=self.name)

    def lessons(self, context: Context) -> Sequence[Lesson]:
        """One lesson; a batch is a function of (seed, update), so a thread can make the next one in the meantime."""

        def learner(agent: Agent, context: Context) -> GradientLearner:
            return GradientLearner(agent, text_loss, seed=context.seed, learning_rate=3e-3)

        def batches(agent: Agent, context: Context, steps: int) -> Batches:
            rows, (taught, _) = context.rows(ROWS), split(context.data)

            def make(update: int) -> dict[str, Any]:
                return batch_of(pages(taught, rows, numpy_rng("reader", context.seed, update)))

            return Batches(make, steps, prefetch=True)

        steps = STEPS.get(context.config.size, 2000)
        return [Lesson("pages", learner, batches, steps=steps, minutes=10.0, skills=("read",))]
