"""Our denoiser beside diffusers' UNet of as many parameters: milliseconds a step, and first plans after equal lessons.

    OMP_NUM_THREADS=1 python benchmarks/plan_unet.py [--steps 600] [--rows 256] [--pairs 200] [--mazes medium]
        [--kinds ours@200 unet@200] [--folder DIR]
    OMP_NUM_THREADS=1 python benchmarks/plan_unet.py --steps 0 --threads 1 2            # milliseconds alone

**UNet**: diffusers' `UNet1DModel` as in Janner et al. (2022, "Planning with diffusion"). It takes the denoiser's place
in a planner of its own, so lesson, noise, scheduler, loss, learner, critic, search and check are the same for both. It
reads all that ours reads of a plan: noised points spread out, given points marked, and the condition (place, goal,
maze, code of the pair of cells) as channels that are the same at each point. It has no symbols; ours draws them first.
**Milliseconds a step** are CPU time at a horizon of 64 points, in turns; ours with the hint of its condition, which is
asked once a plan. The goal is at most half of the UNet's time at equal success.
**Lessons**: plans of the lesson `route`, numbers alone, the same batches in the same order for each kind. `unet` learns
by the lesson's Muon, `unet-adamw` by AdamW alone; `unet@50` at 50 % of the lesson's rates. Rates fall to zero by the
last step, so an earlier point of the curve is not what a shorter lesson reaches. With `--folder` the lesson is saved,
and the same command goes on with it, bit for bit.
**Success** is that a first plan crosses no wall, for pairs of cells of exam seeds: the chosen one of eight candidates,
and all candidates. Judges of plans have no say; the critic that chooses is learned along by each planner.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from diffusers import ConfigMixin, ModelMixin, UNet1DModel
from diffusers.configuration_utils import register_to_config
from planning import first_plans, paired, timed, told
from torch import Tensor, nn

from devmind.agent.agent import Agent
from devmind.agent.config import AgentConfig
from devmind.agent.threads import cores, intra_op_threads
from devmind.algorithms.diffusion import SPREAD_OUT, spread_out
from devmind.checkpointing import bundle
from devmind.curriculum.machine import gflops
from devmind.curriculum.stage import Learner
from devmind.errors import ConfigError
from devmind.learners.gradient import summed
from devmind.seeding import exam_seeds, numpy_rng
from stages.planning import parts
from stages.planning.planner import SYMBOLS, PlannerHead
from stages.planning.route import lesson, trips

RATIO, HORIZON, BATCHES = 0.5, 64, (1, 64)
"""The goal, the points of a plan, and the rows of a step that is timed."""
TOLD = 64
"""Channels in which the UNet reads the condition."""
OURS, UNET, ADAMW = "ours", "unet", "unet-adamw"
KINDS = f"{OURS}, {UNET} or {ADAMW}, with percent of the lesson's rates"
RECENT, SAVED_EVERY = 50, 25
"""Steps over which errors are averaged, and after which the lesson is saved."""
UNET_STEPS = (5, 15, 50)
"""Denoising steps of the UNet's plans: as many as our points have, as many as our plans have in all, and many."""


class UNetDenoiser(ModelMixin, ConfigMixin):
    """`UNet1DModel` with the interface of `HybridDenoiser`, for trajectories alone.

    Args:
        horizon: points, a multiple of four; channels: numbers of a point; words: as of `HybridDenoiser`, unused.
        condition, told_by: numbers of a token of the condition, and its tokens.
        width: channels of the first of three levels; each next level has twice as many.
        levels: noise levels in teaching, by which the time embedding counts.
    """

    @register_to_config
    def __init__(
        self,
        channels: int,
        horizon: int,
        words: int,
        condition: int,
        told_by: int,
        width: int,
        levels: int,
        length: int = 0,
        lent: bool = False,
    ) -> None:
        super().__init__()
        self.tell = nn.Linear(condition * told_by, TOLD)
        self.unet = UNet1DModel(
            in_channels=channels * (SPREAD_OUT + 1) + 1 + TOLD,
            out_channels=channels,
            down_block_types=("DownResnetBlock1D",) * 3,
            up_block_types=("UpResnetBlock1D",) * 2,
            mid_block_type="MidResTemporalBlock1D",
            out_block_type="OutConv1DBlock",
            block_out_channels=(width, 2 * width, 4 * width),
            time_embedding_type="positional",
            act_fn="mish",
            layers_per_block=1,
            use_timestep_embedding=True,
            flip_sin_to_cos=False,
            freq_shift=1,
        )

    def forward(
        self,
        trajectory: Tensor,
        given: Tensor,
        level: Tensor,
        symbols: Tensor,
        masked: Tensor,
        condition: Tensor,
        present: Tensor,
        hint: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The clean trajectory [B, H, C] and logits of no symbols [B, 0, words]; see `HybridDenoiser.forward`."""
        n, horizon = trajectory.shape[:2]
        mark = given[..., None].to(trajectory.dtype)
        told = (self.hint(condition, present) if hint is None else hint)[:, None].expand(-1, horizon, -1)
        seen = torch.cat((spread_out(trajectory), mark, mark * trajectory, told), -1).transpose(1, 2)
        timestep = self.config["levels"] * level - 1
        clean = self.unet(seen, timestep.expand(n)).sample.transpose(1, 2)
        return clean, clean.new_zeros(n, 0, self.config["words"])

    def hint(self, condition: Tensor, present: Tensor) -> Tensor:
        """What the condition tells [B, TOLD], the same in all steps."""
        told: Tensor = self.tell((condition * present[..., None]).flatten(1))
        return told


def main() -> None:
    """Time, teach, examine; print each row at once."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="nursery", help="size of the agent whose planners these are")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, nargs="+", default=[1], help="threads of torch for steps that are timed")
    parser.add_argument("--turns", type=int, default=20, help="turns over which medians are taken")
    parser.add_argument(
        "--kinds", nargs="+", default=[f"{OURS}@200", f"{UNET}@200"], type=kind, metavar="KIND[@PERCENT]", help=KINDS
    )
    parser.add_argument("--mazes", nargs="+", default=["medium"])
    parser.add_argument("--steps", type=int, default=600, help="optimizer steps; 0: milliseconds alone")
    parser.add_argument("--rows", type=int, default=256, help="plans of a step")
    parser.add_argument("--every", type=int, default=200, help="steps between two points of the curve")
    parser.add_argument("--pairs", type=int, default=200, help="pairs of cells of each maze")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="folder to save to and go on from, if stopped")
    asked = parser.parse_args()
    print(f"one core {gflops():.0f} GFLOP/s (float32); torch {torch.__version__}, {cores()} core(s), seed {asked.seed}")
    agent = planners(asked.size, asked.seed, asked.kinds)
    for name in dict.fromkeys((OURS, *asked.kinds)):
        print(f"{name}: {count(agent.head(name).denoiser):,} parameters")
    others = [name for name in asked.kinds if parted(name)[0] != OURS]
    if others:
        print(f"\n{f'ms a step, horizon {HORIZON}':28} {'ours':>8} {'UNet':>8} {'ratio':>7}  goal")
        for threads in asked.threads:
            with intra_op_threads(threads):
                beside(agent.head(OURS), agent.head(others[0]), asked.turns, threads)
    if asked.steps:
        with intra_op_threads(1):
            teach(agent, asked)
            examine(agent, asked)


def planners(size: str, seed: int, kinds: Iterable[str]) -> Agent:
    """An untaught agent with a planner of 64 points for ours and for each of `kinds`, under that name."""
    agent = Agent(AgentConfig(size=size, seed=seed))
    parts.admit(agent)
    options: dict[str, Any] = {**parts.SIZES[size], "horizon": HORIZON, "stride": parts.STRIDE, "doubt": 0.0}
    for name in dict.fromkeys((OURS, *kinds)):
        is_ours = parted(name)[0] == OURS
        own = {**options, "words": len(parts.WORDS), "length": HORIZON if is_ours else 0}
        agent.add_head(
            name, "head.planning-route", tap=parts.TAP, effector=parts.WALK, stage=parts.NAME, options=own, standby=True
        )
        if not is_ours:
            torch.manual_seed(seed)
            agent.head(name).denoiser = peer(agent.head(name), count(agent.head(OURS).denoiser))
    return agent.eval()


def kind(name: str) -> str:
    """The name, if it names a kind, with percent or without."""
    if parted(name)[0] not in (OURS, UNET, ADAMW):
        raise argparse.ArgumentTypeError(f"expected {KINDS}, as in {UNET}@50; got '{name}'")
    return name


def parted(name: str) -> tuple[str, float]:
    """The kind, and its share of the lesson's rates."""
    which, _, percent = name.partition("@")
    return which, int(percent or 100) / 100


def count(network: nn.Module) -> int:
    """Its parameters."""
    return sum(value.numel() for value in network.parameters())


def peer(head: PlannerHead, parameters: int) -> UNetDenoiser:
    """A UNet for this planner, with about that many parameters."""
    form = {name: head.denoiser.config[name] for name in ("channels", "horizon", "words", "condition", "told_by")}
    levels = head.scheduler.config.num_train_timesteps

    def made(width: int) -> UNetDenoiser:
        return UNetDenoiser(**form, width=width, levels=levels)

    return made(min(range(16, 129, 8), key=lambda width: abs(count(made(width)) - parameters)))


def beside(ours: PlannerHead, unet: PlannerHead, turns: int, threads: int) -> None:
    """One denoising step of each, in turn, in CPU seconds: either may be interrupted."""
    for rows in BATCHES:
        with torch.inference_mode():
            mine, theirs = (step_of(head.denoiser, rows) for head in (ours, unet))
            found = np.array(
                [(timed(mine, time.process_time), timed(theirs, time.process_time)) for _ in range(turns + 2)][2:]
            )
        ratio = float(np.median(found[:, 0] / found[:, 1]))
        a, b = np.median(found, 0)
        verdict = "reached" if ratio <= RATIO else "missed"
        what = f"batch {rows}, {threads} thread(s)"
        print(f"{what:28} {a:8.2f} {b:8.2f} {ratio:7.2f}  <= {RATIO} {verdict}", flush=True)


def step_of(denoiser: Any, rows: int) -> Callable[[], Any]:
    """One step as in the pipeline: what ours recalls of the condition exists by then."""
    form, generator = denoiser.config, torch.Generator().manual_seed(0)
    x = torch.randn(rows, HORIZON, 2, generator=generator)
    condition = torch.randn(rows, form["told_by"], form["condition"], generator=generator)
    present = torch.ones(rows, form["told_by"], dtype=torch.bool)
    given = torch.zeros(rows, HORIZON, dtype=torch.bool)
    symbols, level = torch.full((rows, form["length"]), form["words"]), torch.full((rows,), 0.5)
    hint = {"hint": denoiser.hint(condition, present)} if hasattr(denoiser, "hint") else {}
    return lambda: denoiser(x, given, level, symbols, level, condition, present, **hint)


def learner_of(agent: Agent, name: str, asked: argparse.Namespace) -> lesson.RouteLearner:
    """The lesson's learner for one planner."""
    which, share = parted(name)

    def loss(agent: Agent, batch: Mapping[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        head = agent.head(name)
        of = {key: batch[key] for key in ("plan", "symbols", "ahead", "walk")}
        of["symbols"] = of["symbols"][:, : head.denoiser.config["length"]]
        losses = head.thinking(batch["body"], batch["goal"], batch["maze"]).losses(of)
        return summed(losses)

    rate = share * lesson.LEARNING_RATE
    learner = lesson.RouteLearner(agent, loss, seed=asked.seed, learning_rate=rate, trains=(f"heads.{name}.",))
    learner.steps = asked.steps
    learner.orthogonal = () if which == ADAMW else (f"heads.{name}.denoiser.",)  # without any, all is AdamW's
    learner.muon_rate = share * lesson.RouteLearner.muon_rate
    return learner


class Spent(NamedTuple):
    """A lesson so far: the step that comes next, CPU seconds and recent errors of points by planner."""

    step: int
    cpu_s: dict[str, float]
    errors: dict[str, list[float]]


def teach(agent: Agent, asked: argparse.Namespace) -> None:
    """Teach all planners the same batches, and print how they get on."""
    learners = {name: learner_of(agent, name, asked) for name in asked.kinds}
    spent = gone_on(agent, learners, asked)
    ways = []
    for maze in asked.mazes:
        shown = trips.made(maze, asked.seed, lesson.ORACLE_TICKS[asked.size])
        ways.append(trips.joined(shown, lesson.JOINED[asked.size], numpy_rng(asked.seed, "joined", maze)))
    print(f"\n{asked.steps} steps of {asked.rows} plans of {HORIZON} points; mazes {', '.join(asked.mazes)}")
    print(f"{asked.pairs} pairs of cells a maze; from step {spent.step} on")
    print(f"{'step':>6} {'':12} {'CPU s':>7} {'error':>7}  first plans that hold: chosen of 8 [95 %], all candidates")
    for step in range(spent.step, asked.steps):
        batch = trips.batch(ways, 1, 1, asked.rows, numpy_rng(asked.seed, "plan unet", step), HORIZON)["asked"]
        agent.train()
        for name, learner in learners.items():
            begun_s = time.process_time()
            torch.manual_seed(step)
            error = float(learner.update(batch, step)["trajectory"])
            spent.cpu_s[name] += time.process_time() - begun_s
            spent.errors[name] = [*spent.errors[name], error][-RECENT:]
        agent.eval()
        spent = spent._replace(step=step + 1)
        if spent.step % asked.every == 0 or spent.step == asked.steps:
            for name in learners:
                print(f"{spent.step:6} {name:12} {spent.cpu_s[name]:7.0f} {np.mean(spent.errors[name]):7.4f}", end="")
                for maze in asked.mazes:
                    print(told(first_plans(agent.head(name), maze, pairs(maze, asked))), end="")
                print(flush=True)
        if spent.step % SAVED_EVERY == 0 or spent.step == asked.steps:
            keep(agent, learners, asked, spent)


def settings(asked: argparse.Namespace) -> dict[str, Any]:
    """What a saved lesson must have in common with the one that goes on with it."""
    return {name: getattr(asked, name) for name in ("size", "seed", "kinds", "mazes", "steps", "rows")}


def keep(agent: Agent, learners: Mapping[str, Learner], asked: argparse.Namespace, spent: Spent) -> None:
    """Save the lesson so far; do nothing without a folder."""
    if asked.folder is not None:
        asked.folder.mkdir(parents=True, exist_ok=True)
        state = {"settings": settings(asked), "agent": dict(agent.state_dict()), "spent": spent._asdict()}
        state["learners"] = {name: learner.state_dict() for name, learner in learners.items()}
        bundle.save(asked.folder / f"{spent.step:06}", state)
        bundle.retire(asked.folder)


def gone_on(agent: Agent, learners: Mapping[str, Learner], asked: argparse.Namespace) -> Spent:
    """The saved lesson so far, with agent and learners restored; else the beginning.

    Raises:
        ConfigError: the saved lesson has other settings.
    """
    newest = bundle.newest(asked.folder) if asked.folder is not None and asked.folder.is_dir() else None
    if newest is None:
        return Spent(0, dict.fromkeys(learners, 0.0), {name: [] for name in learners})
    state = bundle.load(newest)
    if state["settings"] != settings(asked):
        raise ConfigError(f"{asked.folder} has a lesson of other settings, {state['settings']}; give another --folder.")
    agent.load_state_dict(state["agent"])
    for name, learner in learners.items():
        learner.load_state_dict(state["learners"][name])
    return Spent(**state["spent"])


def pairs(maze: str, asked: argparse.Namespace) -> np.ndarray:
    """Seeds of the pairs of cells."""
    return exam_seeds(asked.pairs, asked.seed, "plan unet", maze)


class Way(NamedTuple):
    """A way to draw plans: the planner, denoising steps of the points, and what is silenced."""

    name: str
    steps: int
    silenced: frozenset[str] = frozenset()


def examine(agent: Agent, asked: argparse.Namespace) -> None:
    """First plans by symbols and points, by points alone, and by a UNet with as many or more steps."""
    ways: dict[str, Way] = {}
    for name in asked.kinds:
        head = agent.head(name)
        if parted(name)[0] == OURS:
            ways[f"{name}, {head.word_steps} + {head.steps} steps"] = Way(name, head.steps)
            ways[f"{name}, points alone, {head.steps} steps"] = Way(name, head.steps, frozenset({SYMBOLS}))
        else:
            ways |= {f"{name}, {steps} steps": Way(name, steps) for steps in UNET_STEPS}
    print(f"\n{'after the lesson':30} {'ms a plan':>9}  " + ", ".join(asked.mazes) + ": chosen of 8 [95 %], all")
    found: dict[str, np.ndarray] = {}
    for what, way in ways.items():
        head = agent.head(way.name)
        usual, head.steps, head.silenced = head.steps, way.steps, way.silenced
        plan_ms = np.median([plan_of_one_ms(head, asked.mazes[0]) for _ in range(asked.turns + 1)][1:])
        came = [first_plans(head, maze, pairs(maze, asked)) for maze in asked.mazes]
        found[what] = np.concatenate([first.chosen for first in came]).astype(float)
        print(f"{what:30} {plan_ms:9.1f}" + "".join(map(told, came)), flush=True)
        head.steps, head.silenced = usual, frozenset()
    first, *others = found
    for other in others:
        print(f"{first} above {other}: {paired(found[first], found[other])}", flush=True)


def plan_of_one_ms(head: PlannerHead, maze: str) -> float:
    """CPU milliseconds of a plan of one row, all candidates."""
    return timed(lambda: first_plans(head, maze, exam_seeds(1, "plan unet")), time.process_time)


if __name__ == "__main__":
    main()
