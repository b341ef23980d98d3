"""Many senses in one step, or one sense after the other: from one agent, with equal steps and examples of each.

    OMP_NUM_THREADS=1 python benchmarks/many_senses.py [AGENT] --steps 90 --seeds 0 1 2 3 4 5 [--write]

`together`: the lesson `senses` with all weights 1. `balanced`: the same with weights that make the parts' gradients on
the trained part of the trunk equally large, by their norms in the first steps of `together`. `in turn`: a third of the
steps each for sight, hearing and reading; examples with both senses in `together` are divided between the first two.
Without AGENT each seed has a fresh small agent. All are asked the same questions about held-out pairs and the same
pages of held-out text; nats per byte of the right answer are compared, paired by seed. `--write` saves the result where
the lesson takes its weights and the report its verdict from (`stages/language/senses/measured.json`).
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from devmind import raised, worlds
from devmind.agent.agent import Agent
from devmind.agent.batch import to_device
from devmind.agent.config import AgentConfig
from devmind.agent.device import place
from devmind.config import load
from devmind.curriculum.examining import examination
from devmind.curriculum.stage import Context, Scalars
from devmind.learners.joint import JointLearner, JointLoss
from devmind.seeding import exam_seeds, numpy_rng
from stages.language import parts
from stages.language.caregiver.grammar import a
from stages.language.caregiver.scene import COLOURS, HELD_OUT, NOUNS
from stages.language.name.lesson import COLOUR, KIND
from stages.language.parts import SIGHT, SOUND, TEXT
from stages.language.read.corpus import as_bytes, corpus
from stages.language.read.pages import LENGTHS, page_batch, telling
from stages.language.seeing import Page, batch_of
from stages.language.senses.lesson import BOTH, LOSSES, ROWS, THINGS, lesson_batch, part_batch, sounding, writing_loss
from stages.language.senses.measured import BALANCED, FILE, IN_TURN, TOGETHER, Measured

TURNS = (SIGHT, SOUND, TEXT)
FIRST = 20
"""Steps of `together` by whose norms the weights are balanced."""
SMALL: dict[str, Any] = {"size": "tiny", "width": 48, "layers": 1, "attention_heads": 4}
PAGES = 16


def beginner(seed: int, given: Path | None) -> Agent:
    """The agent from which all ways of a seed start."""
    if given:
        agent = Agent.from_pretrained(raised.raised().get(str(given), given))
        agent.config.seed = seed
        agent.config.stages = [*dict.fromkeys((*agent.config.stages, parts.NAME))]
    else:
        agent = Agent(AgentConfig(seed=seed, **SMALL))
        for sense in (SIGHT, SOUND):
            agent.add_encoder(sense)
    parts.admit(agent)
    return agent


def taught(
    start: Agent, context: Context, steps: int, rate: float, way: str, weights: dict[str, float]
) -> tuple[Agent, list[Scalars]]:
    """The agent taught in one way, and the scalars of each step."""
    agent = copy.deepcopy(start).train()
    loss, trains = JointLoss(LOSSES, weights), parts.trained(agent)
    learner = JointLearner(agent, loss, seed=context.seed, learning_rate=rate, trains=trains)
    learner.steps, scalars = steps, list[Scalars]()
    learner.begin(0)
    for step in range(steps):
        part = TURNS[min(step * len(TURNS) // steps, len(TURNS) - 1)]
        rows = 3 * ROWS // 4 if part == TEXT else 9 * ROWS // 8  # as many of each as three steps of `together` have
        batch = part_batch(context, step, rows, part) if way == IN_TURN else lesson_batch(context, step, ROWS)
        scalars.append({k: float(v) for k, v in learner.update(to_device(batch, agent.device), step).items()})
    learner.end()
    return agent.eval(), scalars


@torch.no_grad()
def asked(agent: Agent, context: Context, n: int) -> dict[str, float]:
    """Nats per byte of the right answers to each kind of question, and of held-out pages."""
    of = sounding(context, exam_seeds(n, context.seed, "senses"), HELD_OUT)
    colours, nouns = of.shown.pairs[:, 0].T
    forms = [Page(KIND, f" {a(NOUNS[noun])}.") for noun in nouns]
    kinds = {f"form by {part}": (forms, kept) for part, kept in THINGS.items()}
    said = [Page(COLOUR, f" {COLOURS[colour]}.") for colour in colours]
    kinds |= {f"colour by {part}": (said, THINGS[part]) for part in (SIGHT, BOTH)}
    found = {}
    for name, (pages, kept) in kinds.items():
        batch = batch_of(of.shown, pages, numpy_rng("asked"))
        batch["senses"][SOUND], batch["present"][SOUND] = torch.from_numpy(of.sound)[:, None], batch["present"][TEXT]
        for about in ("senses", "present"):
            batch[about] = {sense: value for sense, value in batch[about].items() if sense in (*kept, TEXT)}
        found[name] = float(writing_loss(agent, to_device(batch, agent.device))[0])
    text, length = as_bytes(corpus(context).held_out), LENGTHS[context.config.size]
    read = text[: len(text) // length * length].reshape(-1, length)[:PAGES]
    return found | {"reading": float(telling(agent, page_batch(read)).mean())}


def balance(scalars: list[Scalars]) -> dict[str, float]:
    """The weights that make the parts' gradients equally large, by their norms in the first steps."""
    norms = {part: np.mean([float(x[f"{part}/gradient norm"]) for x in scalars[:FIRST]]) for part in (*THINGS, TEXT)}
    return {part: float(np.mean(list(norms.values())) / norm) for part, norm in norms.items()}


def pair(seed: int, given: Any) -> tuple[dict[str, dict[str, float]], dict[str, float]]:
    """The results of each way of one seed, and the weights that balanced it."""
    start = place(beginner(seed, given.agent), given.device)
    context = Context(load(start.config.size), seed, given.device, Path("."), worlds.make, given.data)
    weights, found = dict.fromkeys((*THINGS, TEXT), 1.0), dict[str, dict[str, float]]()
    for way in (TOGETHER, BALANCED, IN_TURN):
        began_s, began_cpu_s = time.monotonic(), time.process_time()
        agent, scalars = taught(start, context, given.steps, given.rate, way, weights)
        with examination(agent):
            found[way] = asked(agent, context, given.n)
        shown = {name: round(value, 3) for name, value in found[way].items()}
        spent = f"{time.monotonic() - began_s:.0f} s, {time.process_time() - began_cpu_s:.0f} CPU s"
        print(seed, way, spent, json.dumps(shown), flush=True)
        if way == TOGETHER:
            balancing = balance(scalars)
            cosines = {name: np.mean([float(x[name]) for x in scalars if name in x]) for name in scalars[-1]
                       if name.startswith("cosine/")}  # fmt: skip
            print(seed, "weights", {k: round(v, 2) for k, v in balancing.items()}, "cosines",
                  {k: round(float(v), 3) for k, v in cosines.items()}, flush=True)  # fmt: skip
        weights = balancing if way == TOGETHER else dict.fromkeys(weights, 1.0)
    return found, balancing


def main() -> None:
    """Teach each way of every seed, examine and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("agent", type=Path, nargs="?", help="name of a packaged agent, or a folder")
    parser.add_argument("--data", type=Path, help="a folder with text/*.txt; default: the caregiver's sentences")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, default=90)
    parser.add_argument("--rate", type=float, default=3e-3)
    parser.add_argument("--n", type=int, default=96)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(6)))
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    each = [pair(seed, given) for seed in given.seeds]
    ways, names = each[0][0], each[0][0][TOGETHER]
    found = Measured(
        agent=f"agents that go on from {given.agent.name}" if given.agent else "fresh small agents",
        steps=given.steps,
        seeds=given.seeds,
        nats={way: {name: [round(found[way][name], 4) for found, _ in each] for name in names} for way in ways},
        balancing={part: round(float(np.mean([w[part] for _, w in each])), 3) for part in each[0][1]},
    )
    for way, than in ((TOGETHER, IN_TURN), (BALANCED, IN_TURN), (BALANCED, TOGETHER)):
        print(f"\n{way} and {than}: nats a byte fewer, paired by seed [95 %]")
        for name in (*names, None):
            mean, low, high = found.fewer(way, than, name)
            print(f"  {name or 'all'}: {mean:+.3f} [{low:+.3f}, {high:+.3f}]")
    print(f"\n{found.verdict()}")
    if given.write:
        FILE.write_text(json.dumps(asdict(found), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
