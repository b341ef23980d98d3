"""The agent beside a GRU of the same size, on the tests of short-term memory: same lessons, seeds and exams.

Both start untaught, with the same encoders and heads. The GRU replaces the trunk: it reads each Moment's concatenated
tokens, and the heads read its features, normalised like the trunk's. `memory off` is the agent with a window of one
Moment and no slots. With `--cards` both learn RepeatPrevious alone, for that many steps.

    OMP_NUM_THREADS=1 python benchmarks/memory_tests.py --seed 0 [--device cuda]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from devmind import worlds
from devmind.agent.agent import Agent
from devmind.agent.config import AgentConfig
from devmind.agent.device import pick_device, place
from devmind.agent.ring import Ring
from devmind.config import load
from devmind.curriculum.exam import Measure
from devmind.curriculum.examining import examine_skill
from devmind.curriculum.journal import Journal
from devmind.curriculum.stage import Context, Lesson
from devmind.curriculum.teaching import teach
from devmind.worlds.memory_len import LENGTHS
from stages.memory import lessons, parts, short_term
from stages.memory.repeat_previous import exam as repeat_previous
from stages.memory.short_term import SHORT_OFF
from stages.memory.stage import MemoryStage
from stages.reflex import parts as reflex

SKILLS = ("memory_len", "maze", "repeat_previous")
GRU_LAYERS = 2
LEARNED_BELOW = 0.75
"""bsuite counts a length as learned when its regret is below this share of a random agent's."""


class GruTrunk(nn.Module):
    """A GRU in place of the trunk: one step per Moment, from its concatenated tokens to the readout's feature.

    Args:
        width: of the tokens.
        hidden: of the GRU.
        tokens: how many tokens the tests' senses have; a Moment has those of one sense, and the readout.
    """

    slots = None
    n_layers = 0

    def __init__(self, width: int, hidden: int, tokens: Sequence[int]) -> None:
        super().__init__()
        self.inlets = nn.ModuleDict({str(n): nn.Linear(n * width, width) for n in tokens})
        self.gru = nn.GRU(width, hidden, GRU_LAYERS, batch_first=True)
        self.outlet = nn.Linear(hidden, width)
        # A trunk ends in a norm. Without one, these features are so small beside a head's initial weights that nothing
        # is learned within the lesson.
        self.norm = nn.LayerNorm(width)

    @property
    def decoder(self) -> nn.Module:
        """The module that the runner's stopwatch times."""
        return self.gru

    def forward(
        self, tokens: Tensor, present: Tensor, first: Tensor, short_term: bool = True, deep: Any = ()
    ) -> Tensor:
        """Features [B, T, n, D], equal for all tokens of a Moment; each row is one episode, as in the lessons."""
        features, _ = self._run(tokens, None)
        return features

    def step(
        self, tokens: Tensor, present: Tensor, first: Tensor, ring: Ring, slots: Any = None, deep: Any = ()
    ) -> Tensor:
        """Features [B, n, D] of one tick; the GRU's state is stored on the ring, which is otherwise unused."""
        before: Tensor | None = getattr(ring, "gru", None)
        carried = None if before is None else before * ~first[None, :, None]
        features, ring.gru = self._run(tokens[:, None], carried)  # type: ignore[attr-defined]
        return features[:, 0]

    def _run(self, tokens: Tensor, carried: Tensor | None) -> tuple[Tensor, Tensor]:
        senses = tokens[..., :-1, :]  # the readout is a query to a trunk; a GRU needs none
        found, carried = self.gru(self.inlets[str(senses.shape[-2])](senses.flatten(-2)), carried)
        return self.norm(self.outlet(found))[..., None, :].expand_as(tokens), carried


def untaught(size: str, seed: int, slots: int | None = None) -> Agent:
    """An untaught agent admitted to both stages."""
    agent = Agent(AgentConfig(size=size, seed=seed, slots=slots))
    reflex.admit(agent)
    parts.admit(agent)
    return agent


def with_gru(size: str, seed: int) -> Agent:
    """The same with a GRU as trunk, sized to the same number of trained parameters."""
    wanted, agent = trained(untaught(size, seed)), untaught(size, seed, slots=0)
    tokens = [agent.encoder(sense).n_tokens for sense in ("signal", "board")]

    def build(hidden: int) -> int:
        agent.trunk = GruTrunk(agent.config.width, hidden, tokens)  # type: ignore[assignment]
        return trained(agent)

    torch.manual_seed(seed)
    best = min(range(16, 2048, 8), key=lambda hidden: abs(gru_parameters(agent.config.width, hidden) - wanted))
    best = min(range(max(8, best - 256), best + 8, 8), key=lambda hidden: abs(build(hidden) - wanted))
    build(best)
    return agent


def gru_parameters(width: int, hidden: int) -> int:
    """Parameters of the GRU alone, approximately."""
    return 3 * (width * hidden + (2 * GRU_LAYERS - 1) * hidden * hidden)


def trained(agent: Agent) -> int:
    """The number of parameters that the lessons change, without heads of the reflex stage."""
    names = ("trunk.", "readout", "encoders.signal.", "encoders.board.", "heads.choose.", "heads.told.")
    return sum(p.numel() for name, p in agent.named_parameters() if name.startswith(names))


def cards_alone(context: Context, steps: int) -> list[Lesson]:
    """`steps` batches of RepeatPrevious as in the lesson `tests`, and nothing else."""

    def make(agent: Agent, context: Context, update: int, size: int, steps: int) -> Any:
        return short_term.episode_batch(context, repeat_previous.NAME, repeat_previous.LEVEL, update, size)

    return [replace(lessons.taught(context, "tests", short_term.loss, make, 16, 1e-3, 1.0), steps=steps)]


def raise_and_examine(
    agent: Agent, context: Context, course: Sequence[Lesson], skills: Sequence[str]
) -> dict[str, Measure]:
    """Teach the lessons, then examine; prints the seconds."""
    stage, measures = MemoryStage(), {}
    context.out.mkdir(parents=True)
    for lesson in course:
        taught = teach(lesson, lesson.steps, agent, context, Journal(context.out / "journal.jsonl"))
        print(f"  {lesson.name}: {taught.steps} steps, {taught.seconds:.0f} s", flush=True)
    begun = time.monotonic()
    for skill in stage.skills:
        if skill.name in skills:
            measures |= (found := examine_skill(stage, skill, agent, context).measures)
            for name, m in found.items():
                low, high = m.interval()
                print(f"  {name}: {m.score:.3f} [{low:.3f}, {high:.3f}], n = {m.n}", flush=True)
    print(f"  exams: {time.monotonic() - begun:.0f} s", flush=True)
    return measures


def bsuite_score(measure: Measure) -> float:
    """Share of bsuite's lengths whose regret is below 0.75 of a random agent's; bsuite counts the learning too."""
    correct = [measure.rows[f"length {length}"] for length in LENGTHS if length != 35]
    return sum((1 - rate) / 0.5 < LEARNED_BELOW for rate in correct) / len(correct)


def table(found: Mapping[str, Mapping[str, Measure]]) -> str:
    """One row per measure: each agent with its interval, memory off, the best floor; then the curve of memory_len. A
    GRU's memory cannot be switched off, so that column is the agent's.
    """
    pupils = list(found.values())
    rows = [f"{'':31}" + "".join(f"{name:24}" for name in found) + "memory off   floor"]
    for name, first in pupils[0].items():
        measures = [pupil[name] for pupil in pupils]
        cells = "".join(f"{m.score:.3f} [{m.interval()[0]:.3f}, {m.interval()[1]:.3f}]".ljust(24) for m in measures)
        off = f"{found['agent'][name].rows[SHORT_OFF]:.3f}" if "agent" in found else "-"
        rows.append(f"{name:24}n={first.n:<5}{cells}{off:>10}{first.floor:8.3f}")
    if "memory_len" not in pupils[0]:
        return "\n".join(rows)
    curves = [pupil["memory_len"] for pupil in pupils]
    rows.append(f"{'bsuite-like score':31}" + "".join(f"{bsuite_score(curve):<24.2f}" for curve in curves))
    for length in LENGTHS:
        at = "".join(f"{curve.rows[f'length {length}']:<24.3f}" for curve in curves)
        rows.append(f"  {f'memory_len, length {length}':29}{at}")
    return "\n".join(rows)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="nursery")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sign", type=int, help="steps of the lesson 'sign' (its own by default)")
    parser.add_argument("--tests", type=int, help="steps of the lesson 'tests'")
    parser.add_argument("--only", choices=("agent", "GRU"), help="raise only one of the two")
    parser.add_argument("--device", default="cpu", help="device of lessons and exams")
    parser.add_argument("--cards", type=int, help="steps of RepeatPrevious alone, instead of all lessons")
    options = parser.parse_args()
    wanted = {"boards": None, "sign": options.sign, "tests": options.tests}
    device = str(pick_device(options.device))
    config = load(options.size, {"seed": options.seed, "device": device})
    config = config.model_copy(update={"loggers": (), "checkpoint_every_s": 1e9})
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, make in (("GRU", with_gru), ("agent", untaught)):
            if options.only not in (None, name):
                continue
            agent = place(make(options.size, options.seed), device)
            print(f"{name}: {trained(agent):,} trained parameters", flush=True)
            context = Context(config, options.seed, device, Path(folder, name), worlds.make)
            every = [lesson for lesson in MemoryStage().lessons(context) if lesson.name in wanted]
            course = [replace(lesson, steps=wanted[lesson.name] or lesson.steps) for lesson in every]
            if options.cards:
                course = cards_alone(context, options.cards)
            skills = ("repeat_previous",) if options.cards else SKILLS
            found[name] = raise_and_examine(agent, context, course, skills)
    print(table(found))


if __name__ == "__main__":
    main()
