"""How long a plan takes, and our denoiser beside diffusers' UNet of as many parameters, after equal lessons.

    OMP_NUM_THREADS=1 python benchmarks/planning.py [latency] [step] [lesson] [--agent after-planning]

**latency** is that of an Actor's tick in which a plan is made: encoders, trunk, moves, points, the critic's choice.
Cold: from noise alone; warm: from the rest of the last plan. A tick that only follows a plan stands beside them. Beside
the medians stand the minimum, which other work on the machine affects least, and the median of CPU seconds, which
equals wall time on a free core. Goals are judged by wall time.
**step**: CPU milliseconds of one denoising step at a horizon of 64 points, in turns; ours with the hint of its
condition, which is asked once a plan. The goal is at most half of the UNet's time at equal success.
**lesson**: plans of the lesson `route`, numbers alone, the same batches in the same order and the lesson's own learner
for both, at `--rate` times its rates, which fall to zero by the last step. Success is that a first plan crosses no
wall, for pairs of cells of exam seeds: the chosen one of eight candidates, and all candidates. Judges of plans have no
say; the critic that chooses is learned along by each planner.

The UNet is diffusers' `UNet1DModel` as in Janner et al. (2022, "Planning with diffusion"). It takes the denoiser's
place in a planner of its own, so noise, scheduler, loss, critic, search and check are the same for both. It reads all
that ours reads of a plan: noised points spread out, given points marked, and the condition (place, goal, maze, code of
the pair of cells) as channels that are the same at each point. It has no symbols; ours draws them first.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from diffusers import ConfigMixin, ModelMixin, UNet1DModel
from diffusers.configuration_utils import register_to_config
from torch import Tensor, nn

from devmind.acting import Actor
from devmind.agent.agent import Agent
from devmind.agent.config import AgentConfig
from devmind.agent.threads import cores, intra_op_threads
from devmind.algorithms.diffusion import SPREAD_OUT, spread_out
from devmind.curriculum.exam import bootstrap, wilson
from devmind.curriculum.machine import gflops
from devmind.learners.gradient import sum_losses
from devmind.raised import raised_agents
from devmind.seeding import exam_seeds, numpy_rng
from devmind.worlds import make as make_world
from devmind.worlds.pointmaze import TASKS, PointMazeRules
from stages.planning import parts
from stages.planning.planner import SYMBOLS, PlannerHead
from stages.planning.reinforce.plans import holding
from stages.planning.route import lesson as route
from stages.planning.route import trips

COLD_S, WARM_S, RATIO = 0.5, 0.1, 0.5
"""Goals: of a plan from noise and from the last plan, and of our step by the UNet's."""
HORIZON, BATCHES = 64, (1, 64)
"""The points of a plan, and the rows of a step that is timed."""
TOLD = 64
"""Channels in which the UNet reads the condition."""
OURS, UNET = "ours", "unet"
UNET_STEPS = (5, 15, 50)
"""Denoising steps of the UNet's plans: as many as our points have, as many as our plans have in all, and many."""


class First(NamedTuple):
    """First plans of N pairs of cells: whether the chosen one crosses no wall, bool [N], and the share of its
    candidates that do not, [N]."""

    chosen: np.ndarray
    candidates: np.ndarray


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
    """Measure the named parts, by default all; print each row at once."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}; default: all")
    parser.add_argument("--agent", help="who plans in `latency`: saved, or a packaged one; default: an untaught one")
    parser.add_argument("--size", default="nursery", help="of untaught agents")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--turns", type=int, default=20, help="turns over which medians are taken")
    parser.add_argument("--maze", default="medium", help="maze of lessons and first plans")
    parser.add_argument("--steps", type=int, default=600, help="optimizer steps of the lesson")
    parser.add_argument("--rows", type=int, default=256, help="plans of a step")
    parser.add_argument("--rate", type=float, default=2.0, help="times the lesson's rates")
    parser.add_argument("--every", type=int, default=100, help="steps between two points of the curve")
    parser.add_argument("--pairs", type=int, default=200, help="pairs of cells")
    parser.add_argument("--tiny", action="store_true", help="only show that everything runs")
    asked = parser.parse_args()
    if asked.tiny:
        asked.size, asked.turns, asked.steps, asked.rows, asked.every, asked.pairs = "tiny", 1, 2, 4, 1, 4
    print(f"one core {gflops():.0f} GFLOP/s (float32); torch {torch.__version__}, {cores()} core(s), seed {asked.seed}")
    with intra_op_threads(1):
        for name in asked.parts or PARTS:
            print(f"\n{name}", flush=True)
            PARTS[name](asked)


def timed(work: Callable[[], Any], clock: Callable[[], float] = time.perf_counter) -> float:
    """Milliseconds by a clock; `time.process_time` counts CPU time alone."""
    begun_s = clock()
    work()
    return 1000 * (clock() - begun_s)


def latency(asked: argparse.Namespace) -> None:
    """Print a tick in which a row plans from noise, one in which it plans from the last plan, and one that follows."""
    if asked.agent is not None:
        agent = Agent.from_pretrained(raised_agents().get(asked.agent, Path(asked.agent))).eval()
    else:
        agent = Agent(AgentConfig(size=asked.size))
        parts.admit(agent)
        agent.eval()
    wall = np.array([ticks(agent) for _ in range(asked.turns + 1)][1:])
    own = np.array([ticks(agent, time.process_time) for _ in range(asked.turns)])
    print(f"{f'ms a tick, {asked.turns} turns':28} {'cold':>8} {'warm':>8} {'following':>10}")
    for what, row in (("median", np.median(wall, 0)), ("least", wall.min(0)), ("median, CPU", np.median(own, 0))):
        print(f"{what:28} {row[0]:8.1f} {row[1]:8.1f} {row[2]:10.1f}")
    for name, value, goal in zip(("cold", "warm"), np.median(wall, 0), (COLD_S, WARM_S), strict=False):
        print(
            f"  {name}, median <= {1000 * goal:.0f} ms: {'reached' if value <= 1000 * goal else 'missed'}", flush=True
        )


@torch.inference_mode()
def ticks(agent: Agent, clock: Callable[[], float] = time.perf_counter) -> tuple[float, float, float]:
    """Milliseconds of three ticks of a new row: cold, warm, following."""
    actor, head = Actor(agent, 1, effectors=[parts.WALK]), agent.head(parts.ROUTE)
    senses = make_world("pointmaze", "medium", [0]).observe()
    cold = timed(lambda: actor(senses, np.array([True])), clock)
    follows = timed(lambda: actor(senses, np.array([False])), clock)
    actor.state.carry[f"head.{parts.ROUTE}"]["age"].fill_(head.follow)
    actor.state.carry[f"head.{parts.ROUTE}"]["along"].fill_(head.follow / head.stride)
    # It stands where the plan has it by now, so that the plan is continued and not contradicted.
    reached = actor.state.carry[f"head.{parts.ROUTE}"]["plan"][:, head.follow // head.stride]
    there = {**senses, "body": reached.numpy().copy()}
    return cold, timed(lambda: actor(there, np.array([False])), clock), follows


@torch.inference_mode()
def first_plans(head: PlannerHead, level: str, seeds: np.ndarray) -> First:
    """The first plan of each of `seeds` in a level of `pointmaze`, made without the trunk's features."""
    rules = PointMazeRules(level)
    seen, device = rules.observe(rules.initial(seeds)), head.begins.weight.device
    found = head.search(head.thinking(*(torch.from_numpy(seen[sense]).to(device) for sense in parts.SENSES)))
    hold = holding(level.removesuffix(TASKS), found.plans.flatten(0, 1).cpu().numpy()).reshape(found.plans.shape[:2])
    return First(hold[np.arange(len(seeds)), found.chosen.cpu().numpy()], hold.mean(1))


def told(first: First) -> str:
    """The share of chosen plans that hold with its interval, and that of all candidates."""
    low, high = wilson(int(first.chosen.sum()), len(first.chosen))
    return f"  {first.chosen.mean():.3f} [{low:.3f}, {high:.3f}] {first.candidates.mean():.3f} "


def planners(size: str, seed: int) -> Agent:
    """An untaught agent with a planner of 64 points of each kind, under its name."""
    agent = Agent(AgentConfig(size=size, seed=seed))
    parts.admit(agent)
    options: dict[str, Any] = {**parts.SIZES[size], "horizon": HORIZON, "stride": parts.STRIDE, "doubt": 0.0}
    for name, length in ((OURS, HORIZON), (UNET, 0)):
        own = {**options, "words": len(parts.WORDS), "length": length}
        agent.add_head(
            name, "head.planning-route", tap=parts.TAP, effector=parts.WALK, stage=parts.NAME, options=own, standby=True
        )
    torch.manual_seed(seed)
    agent.head(UNET).denoiser = peer(agent.head(UNET), count(agent.head(OURS).denoiser))
    return agent.eval()


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


def step(asked: argparse.Namespace) -> None:
    """Print one denoising step of each, in turn, in CPU milliseconds: either may be interrupted."""
    agent = planners(asked.size, asked.seed)
    print(f"{f'ms a step, horizon {HORIZON}':28} {'ours':>8} {'UNet':>8} {'ratio':>7}  goal")
    for rows in BATCHES:
        with torch.inference_mode():
            mine, theirs = (step_of(agent.head(name).denoiser, rows) for name in (OURS, UNET))
            turns = [[timed(one, time.process_time) for one in (mine, theirs)] for _ in range(asked.turns + 2)]
        found = np.array(turns[2:])
        ratio, (a, b) = float(np.median(found[:, 0] / found[:, 1])), np.median(found, 0)
        verdict = "reached" if ratio <= RATIO else "missed"
        print(f"{f'batch {rows}':28} {a:8.2f} {b:8.2f} {ratio:7.2f}  <= {RATIO} {verdict}", flush=True)


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


def learner_of(agent: Agent, name: str, asked: argparse.Namespace) -> route.RouteLearner:
    """The lesson's learner for one planner."""

    def loss(agent: Agent, batch: Mapping[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        head = agent.head(name)
        of = {key: batch[key] for key in ("plan", "symbols", "ahead", "walk")}
        of["symbols"] = of["symbols"][:, : head.denoiser.config["length"]]
        return sum_losses(head.thinking(batch["body"], batch["goal"], batch["maze"]).losses(of))

    rate = asked.rate * route.LEARNING_RATE
    learner = route.RouteLearner(agent, loss, seed=asked.seed, learning_rate=rate, trains=(f"heads.{name}.",))
    learner.steps, learner.orthogonal = asked.steps, (f"heads.{name}.denoiser.",)
    learner.muon_rate = asked.rate * route.RouteLearner.muon_rate
    return learner


def lesson(asked: argparse.Namespace) -> None:
    """Teach both planners the same batches, print how they get on, and compare their first plans."""
    agent = planners(asked.size, asked.seed)
    learners = {name: learner_of(agent, name, asked) for name in (OURS, UNET)}
    for name in learners:
        print(f"{name}: {count(agent.head(name).denoiser):,} parameters")
    shown = trips.make_trips(asked.maze, asked.seed, route.ORACLE_TICKS[asked.size])
    ways = [trips.join_trips(shown, route.JOINED[asked.size], numpy_rng(asked.seed, "joined", asked.maze))]
    pairs, cpu_s = exam_seeds(asked.pairs, asked.seed, "plan unet", asked.maze), dict.fromkeys(learners, 0.0)
    print(
        f"{asked.steps} steps of {asked.rows} plans of {HORIZON} points in {asked.maze}; {asked.pairs} pairs of cells"
    )
    print(f"{'step':>6} {'':12} {'CPU s':>7}  first plans that hold: chosen of 8 [95 %], all candidates")
    for number in range(asked.steps):
        batch = trips.batch(ways, 1, 1, asked.rows, numpy_rng(asked.seed, "plan unet", number), HORIZON)["asked"]
        agent.train()
        for name, learner in learners.items():
            torch.manual_seed(number)
            cpu_s[name] += timed(partial(learner.update, batch, number), time.process_time) / 1000
        agent.eval()
        if (number + 1) % asked.every == 0 or number + 1 == asked.steps:
            for name in learners:
                first = told(first_plans(agent.head(name), asked.maze, pairs))
                print(f"{number + 1:6} {name:12} {cpu_s[name]:7.0f}{first}", flush=True)
    compare(agent, asked, pairs)


def compare(agent: Agent, asked: argparse.Namespace, pairs: np.ndarray) -> None:
    """Print first plans by symbols and points, by points alone, and by a UNet with as many or more steps."""
    ours: PlannerHead = agent.head(OURS)
    ways = {f"{OURS}, {ours.word_steps} + {ours.steps} steps": (OURS, ours.steps, frozenset())}
    ways[f"{OURS}, points alone, {ours.steps} steps"] = (OURS, ours.steps, frozenset({SYMBOLS}))
    ways |= {f"{UNET}, {steps} steps": (UNET, steps, frozenset()) for steps in UNET_STEPS}
    print(f"\n{'after the lesson':30} {'ms a plan':>9}  chosen of 8 [95 %], all")
    found = dict[str, np.ndarray]()
    for what, (name, steps, silenced) in ways.items():
        head = agent.head(name)
        usual, head.steps, head.silenced = head.steps, steps, silenced
        plan_one = partial(first_plans, head, asked.maze, exam_seeds(1, "plan unet"))
        times = [timed(plan_one, time.process_time) for _ in range(asked.turns + 1)]
        came = first_plans(head, asked.maze, pairs)
        found[what] = came.chosen.astype(float)
        print(f"{what:30} {np.median(times[1:]):9.1f}{told(came)}", flush=True)
        head.steps, head.silenced = usual, frozenset()
    first, *others = found
    for other in others:
        apart = found[first] - found[other]
        low, high = bootstrap(apart, 2000, "planning")
        print(f"{first} above {other}: {apart.mean():+.3f} [{low:+.3f}, {high:+.3f}], paired", flush=True)


PARTS: dict[str, Callable[[argparse.Namespace], None]] = dict(latency=latency, step=step, lesson=lesson)

if __name__ == "__main__":
    main()
