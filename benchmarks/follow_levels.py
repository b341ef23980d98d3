"""Following in further rooms of BabyAI: what a lesson alone makes of an untaught agent, with three ways to bind words.

    OMP_NUM_THREADS=1 python benchmarks/follow_levels.py --room BabyAI-GoToLocal-v0 --bind board cells --steps 250

`board`: the head of the stage, on the trunk's readout alone, with the sense of boards as it is. `cells`: a head looks
at the cells of the view with the readout, in which words may be, as its query (a dot product with what stands in each
cell and where that is), and chooses by what it found. `numbers`: the same over tables of MiniGrid's numbers, a vector
for each kind, colour and state, where the sense of boards reads a colour as one number's size.

Every row is a run of its own, of the lesson `follow` in that room and no other one. A return is normalised by what
random steps and the bot get in the same rooms: 0 and 1.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from devmind import worlds
from devmind.acting import Actor
from devmind.agent.agent import Agent
from devmind.agent.config import AgentConfig
from devmind.agent.encoders import Encoded
from devmind.agent.output import Categorical
from devmind.agent.symbols import BoardEncoder
from devmind.config import load
from devmind.curriculum.examining import examination
from devmind.curriculum.stage import Context
from devmind.learners.gradient import GradientLearner
from devmind.seeding import exam_seeds, numpy_rng, torch_generator
from devmind.worlds.minigrid import FORWARD, OBJECTS
from stages.language import parts
from stages.language.follow import lesson
from stages.language.follow.exam import earned
from stages.language.follow.hand_rules import at_random
from stages.language.follow.rooms import demonstrate
from stages.language.parts import BOARD, CHOICES, CHOOSE, TEXT

SIDE = 7
WAYS = ("board", "cells", "numbers")


def main() -> None:
    """Print the rooms' ends of the scale, then a row for each way."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--room", default="BabyAI-GoToLocal-v0")
    options.add_argument("--bind", nargs="+", choices=WAYS, default=list(WAYS))
    options.add_argument("--last", type=int, default=FORWARD, help="random steps are MiniGrid's actions up to this one")
    options.add_argument("--steps", type=int, default=400)
    options.add_argument("--rate", type=float, default=1e-3, help="of learning")
    options.add_argument(
        "--own", type=float, default=0.0, help="share of episodes of its own, told by the bot (DAgger)"
    )
    options.add_argument("--episodes", type=int, default=512, help="of the exam")
    options.add_argument("--size", default="nursery")
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    seeds = exam_seeds(given.episodes, given.seed, "follow", given.room)
    random = earned(seeds, at_random(numpy_rng(given.seed, "random"), given.last), given.room).mean()
    shown = [demonstrate(given.room, int(seed)) for seed in seeds[: max(8, len(seeds) // 4)]]
    bot = float(np.mean([one.reward if one else 0.0 for one in shown]))
    print(f"{given.room}, {len(seeds)} new rooms: random {random:.3f}, bot {bot:.3f} (of {len(shown)})")
    print(
        "bind      steps  CPU s  as the bot  success  normalised [95 %]     sampled  normalised  text off", flush=True
    )
    for way in given.bind:
        with tempfile.TemporaryDirectory() as folder:
            row(Path(folder), given, way, seeds, random, bot)


def row(folder: Path, given: argparse.Namespace, way: str, seeds: np.ndarray, random: float, bot: float) -> None:
    """Teach and examine one agent."""
    config = load(given.size, sets=["device=cpu", "threads=1", "loggers=[]"])
    context = Context(config, given.seed, "cpu", folder, worlds.make)
    agent = untaught(given.size, given.seed, way)
    learner = GradientLearner(
        agent, lesson.loss, seed=given.seed, learning_rate=given.rate, trains=parts.trained(agent)
    )
    learner.steps, begun_s, right = given.steps, time.process_time(), 0.0
    agent.train()
    for step in range(given.steps):
        torch.manual_seed(step)
        batch = lesson.mixed_batch(agent, context, step, 32, given.own, given.room)
        scalars = learner.update(batch, step)
        right = 0.95 * right + 0.05 * float(scalars["as the bot"])
        if step % 50 == 49:
            print(f"  {way} step {step + 1}: loss {float(scalars['loss']):.3f}, as the bot {right:.3f}", flush=True)
    spent_s = time.process_time() - begun_s
    with examination(agent):
        likeliest = earned(seeds, Actor(agent, effectors=[CHOOSE]), given.room)
        drawn = Actor(agent, effectors=[CHOOSE], generator=torch_generator(given.seed, "sampled"))
        sampled = earned(seeds, drawn, given.room)
        deaf = earned(seeds, Actor(agent, effectors=[CHOOSE], without=[TEXT]), given.room)
    rng = numpy_rng("bootstrap")
    means = [rng.choice(likeliest, len(likeliest)).mean() for _ in range(2000)]
    found = np.array([likeliest.mean(), *np.quantile(means, (0.025, 0.975)), sampled.mean(), deaf.mean()])
    score, low, high, other, unheard = (found - random) / (bot - random)
    print(f"{way:8} {given.steps:6} {spent_s:6.0f} {right:11.3f} {(likeliest > 0).mean():8.3f} {score:11.3f} "
          f"[{low:.3f}, {high:.3f}] {(sampled > 0).mean():8.3f} {other:11.3f} {unheard:9.3f}", flush=True)  # fmt: skip


def untaught(size: str, seed: int, way: str) -> Agent:
    """An agent that was taught nothing and binds words to what it sees in that way."""
    agent = Agent(AgentConfig(size=size, seed=seed))
    if way == "board":
        parts.admit(agent)
        return agent
    agent.add_encoder(BOARD, stage=parts.NAME)
    agent.add_head(CHOOSE, "head.categorical", (BOARD, "trunk"), CHOOSE, parts.NAME, {"classes": CHOICES})
    parts.admit(agent)
    torch.manual_seed(seed)
    agent.heads[CHOOSE] = Looking(agent.config.width)
    if way == "numbers":
        agent.encoders[BOARD] = Numbers(agent.config.width)
    return agent


class Looking(nn.Module):
    """One of seven actions, of the readout and of what it finds in the cells, by four attention heads whose query it
    is; cells are what the map `cells` has, with a vector for each place in the view.
    """

    takes_targets = carries = critic = False
    heads = 4

    def __init__(self, width: int) -> None:
        super().__init__()
        self.places = nn.Parameter(torch.randn(SIDE**2, width) * 0.5)
        self.query, self.keys_values = nn.Linear(width, width), nn.Linear(width, 2 * width)
        self.choose = nn.Sequential(nn.Linear(2 * width, 2 * width), nn.GELU(), nn.Linear(2 * width, CHOICES))

    def reading(self) -> tuple[()]:
        """None is shared."""
        return ()

    def respond(self, tapped: Any, targets: Any = None) -> Categorical:
        """As every head."""
        return self(tapped)

    def forward(self, tapped: Any) -> Categorical:
        readout = tapped.tokens[..., -1:, :]
        cells = tapped.maps["cells"].flatten(-2).mT + self.places
        keys, values = self.keys_values(cells).chunk(2, -1)
        query, keys, values = (self._split(each) for each in (self.query(readout), keys, values))
        found = nn.functional.scaled_dot_product_attention(query, keys, values).transpose(-3, -2).flatten(-2)
        return Categorical(self.choose(torch.cat((readout, found), -1)).squeeze(-2))

    def _split(self, tensor: Tensor) -> Tensor:
        return tensor.unflatten(-1, (self.heads, -1)).transpose(-3, -2)


class Numbers(BoardEncoder):
    """The sense of boards, whose map `cells` is made by tables: a vector for each kind, colour and state."""

    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.kinds, self.colours, self.states = (nn.Embedding(OBJECTS, width) for _ in range(3))

    def encode(self, x: Tensor, previous: Tensor | None, previous_present: Tensor | None) -> Encoded:
        """Tokens as ever, and the map."""
        encoded = super().encode(x, previous, previous_present)
        kind, colour, state = x[:, :OBJECTS].argmax(1), x[:, OBJECTS].long(), x[:, OBJECTS + 1].long()
        cells = self.kinds(kind) + self.colours(colour) + self.states(state)
        return replace(encoded, maps={"cells": cells.movedim(-1, 1)})


if __name__ == "__main__":
    main()
