"""How long a plan takes, and how well first plans and walks do by steps and candidates.

    python benchmarks/planning.py [--agent DIR] [--out plans.svg] [--threads 1 2] [--size nursery]
    python benchmarks/planning.py --agent DIR --pairs 20 --steps 1 5 --candidates 1 8     # a short run

**Latency** is that of an Actor's tick in which a plan is made: encoders, trunk, moves, points, the critic's choice.
Cold: from noise alone; warm: from the rest of the last plan. A tick that only follows a plan stands beside them. Beside
the medians stand the minimum, which other work on the machine affects least, and the median of CPU seconds, which
equals wall time on a free core. Goals are judged by wall time.
**First plans** need an agent that was taught `route`: for `--pairs` pairs of cells of each maze, the share of first
plans that cross no wall, by denoising steps of the points, by denoising steps of the moves and by candidates, the other
two as the agent has them. Plans are made without the trunk's features, as in the exam's row. Intervals of 95 % are
Wilson's. The shares are drawn into `--out` (SVG). With `--episodes N`, N of the exam's episodes are walked with each
setting besides; nearly all arrive whatever the setting, as the agent plans anew and feels walls.
`benchmarks/plan_unet.py` compares our denoiser with diffusers' UNet.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from devmind.acting import Actor
from devmind.agent.agent import Agent
from devmind.agent.config import AgentConfig
from devmind.agent.threads import cores, intra_op_threads
from devmind.config import RunConfig
from devmind.curriculum.exam import wilson
from devmind.curriculum.machine import gflops
from devmind.curriculum.stage import Context
from devmind.raised import raised
from devmind.seeding import exam_seeds, numpy_rng
from devmind.worlds import make as make_world
from devmind.worlds.pointmaze import TASKS, PointMazeRules
from stages.planning import parts
from stages.planning.planner import TRUNK, PlannerHead
from stages.planning.reinforce.plans import holding
from stages.planning.route import exam

COLD_S, WARM_S = 0.5, 0.1
"""Goals."""
STEPS, MOVES, CANDIDATES = "steps of the points", "steps of the moves", "candidates"
SET_BY = {STEPS: "steps", MOVES: "word_steps", CANDIDATES: "candidates"}
"""What is varied, and the planner's attribute for it."""


class First(NamedTuple):
    """First plans of N pairs of cells: whether the chosen one crosses no wall, bool [N], and the share of its
    candidates that do not, [N]."""

    chosen: np.ndarray
    candidates: np.ndarray


def main() -> None:
    """Measure, and print each row at once."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--agent",
        type=Path,
        metavar="DIR",
        help="an agent taught `route`, or after-planning; without it, plans are only timed",
    )
    parser.add_argument("--size", default="nursery", help="size of the untaught agent, if no --agent is given")
    parser.add_argument("--threads", type=int, nargs="+", default=[1], help="threads of torch; agents step with one")
    parser.add_argument("--turns", type=int, default=20, help="turns over which medians are taken")
    parser.add_argument("--mazes", nargs="+", default=["medium", "large"], help="mazes of first plans")
    parser.add_argument("--pairs", type=int, default=200, help="pairs of cells of each maze")
    parser.add_argument("--steps", type=int, nargs="*", default=[1, 2, 5, 10, 20], help="denoising steps of the points")
    parser.add_argument("--moves", type=int, nargs="*", default=[1, 2, 5, 10, 20], help="denoising steps of the moves")
    parser.add_argument("--candidates", type=int, nargs="*", default=[1, 2, 5, 10, 20, 50])
    parser.add_argument("--maze", default="medium", help="maze of episodes")
    parser.add_argument("--episodes", type=int, default=0, help="episodes that are walked with each setting")
    parser.add_argument("--ticks", type=int, help="ticks after which episodes are cut; default: 1,000")
    parser.add_argument(
        "--no-trunk", action="store_true", help="silence the trunk's features, for a planner taught alone"
    )
    parser.add_argument("--out", type=Path, metavar="FILE.svg", help="the plot of success")
    asked = parser.parse_args()
    print(f"one core {gflops():.0f} GFLOP/s (float32); torch {torch.__version__}, {cores()} core(s)")
    agent = planner_of(asked.agent, asked.size)
    print(f"\n{f'ms, {asked.turns} turns':28} {'cold':>8} {'warm':>8} {'following':>10}")
    for threads in asked.threads:
        with intra_op_threads(threads):
            latency(agent, asked.turns, threads)
    if asked.agent is not None:
        with tempfile.TemporaryDirectory() as folder, intra_op_threads(1):
            context = Context(RunConfig(size=agent.config.size), 0, "cpu", Path(folder), make_world)
            head_of(agent).silenced = frozenset({TRUNK} if asked.no_trunk else ())
            success(agent, context, asked)
            if asked.out is not None:
                print(f"plot: {asked.out}")


def planner_of(folder: Path | None, size: str) -> Agent:
    """The saved agent, or an untaught one, which plans as fast."""
    if folder is not None:
        return Agent.from_pretrained(raised().get(str(folder), folder)).eval()
    agent = Agent(AgentConfig(size=size))
    parts.admit(agent)
    return agent.eval()


def head_of(agent: Agent) -> PlannerHead:
    """The planner."""
    head = agent.head(parts.ROUTE)
    assert isinstance(head, PlannerHead)
    return head


def timed(work: Callable[[], Any], clock: Callable[[], float] = time.perf_counter) -> float:
    """Milliseconds by a clock; `time.process_time` counts CPU time alone."""
    begun_s = clock()
    work()
    return 1000 * (clock() - begun_s)


def latency(agent: Agent, turns: int, threads: int) -> None:
    """A tick in which a row plans from noise, one in which it plans from the last plan, and one in which it follows."""
    medians = np.array([ticks(agent) for _ in range(turns + 1)][1:])
    own = np.array([ticks(agent, time.process_time) for _ in range(turns)])
    rows = {"median": np.median(medians, 0), "least": medians.min(0), "median, CPU": np.median(own, 0)}
    for what, row in rows.items():
        print(f"{f'a tick, {threads} thread(s), {what}':28} {row[0]:8.1f} {row[1]:8.1f} {row[2]:10.1f}")
    for name, value, goal in zip(("cold", "warm"), np.median(medians, 0), (COLD_S, WARM_S), strict=False):
        verdict = "reached" if value <= 1000 * goal else "missed"
        print(f"  {name}, median <= {1000 * goal:.0f} ms: {verdict}", flush=True)


@torch.inference_mode()
def ticks(agent: Agent, clock: Callable[[], float] = time.perf_counter) -> tuple[float, float, float]:
    """Milliseconds of three ticks of a new row: cold, warm, following."""
    actor, head = Actor(agent, 1, effectors=[parts.WALK]), head_of(agent)
    senses = make_world("pointmaze", "medium", [0]).observe()
    cold = timed(lambda: actor(senses, np.array([True])), clock)
    follows = timed(lambda: actor(senses, np.array([False])), clock)
    actor.state.carry[f"kept.{parts.ROUTE}"]["age"].fill_(head.follow)
    actor.state.carry[f"kept.{parts.ROUTE}"]["along"].fill_(head.follow / head.stride)
    # It stands where the plan has it by now, so that the plan is continued and not contradicted.
    reached = actor.state.carry[f"kept.{parts.ROUTE}"]["plan"][:, head.follow // head.stride]
    there = {**senses, "body": reached.numpy().copy()}
    return cold, timed(lambda: actor(there, np.array([False])), clock), follows


def success(agent: Agent, context: Context, asked: argparse.Namespace) -> None:
    """First plans, and walks if asked for, by steps and by candidates."""
    head, found = head_of(agent), dict[str, dict[int, list[First]]]()
    usual = {name: getattr(head, name) for name in (*SET_BY.values(), "warm_steps")}
    seeds = {maze: exam_seeds(asked.pairs, context.seed, "first plans", maze) for maze in asked.mazes}
    print(f"\nfirst plans that cross no wall, {asked.pairs} pairs of cells a maze; chosen [95 %], all candidates")
    else_ = (
        f"{usual['steps']} steps of the points, {usual['word_steps']} of the moves, {usual['candidates']} candidates"
    )
    print(f"else {else_}")
    print(f"{'':20} {'n':>4}  " + "  ".join(f"{maze:28}" for maze in asked.mazes) + f"{'plan, ms':>9}")
    for kind, settings in ((STEPS, asked.steps), (MOVES, asked.moves), (CANDIDATES, asked.candidates)):
        for setting in settings:
            for name, value in usual.items():
                setattr(head, name, value)
            setattr(head, SET_BY[kind], setting)
            if kind == STEPS:
                # As for the agent's own settings: continuing the last plan takes more than half as many steps.
                head.warm_steps = max(1, round(setting * usual["warm_steps"] / usual["steps"]))
            came = [first_plans(head, maze, seeds[maze]) for maze in asked.mazes]
            found.setdefault(kind, {})[setting] = came
            plan_ms = float(np.median([ticks(agent, time.process_time)[0] for _ in range(5)]))
            print(f"{kind:20} {setting:4}" + "".join(map(told, came)) + f" {plan_ms:8.1f}", flush=True)
            if asked.out is not None:  # as far as it got: the run may be stopped
                asked.out.write_text(plot(found, asked.mazes, asked.pairs), encoding="utf-8")
            if asked.episodes:
                walked = walk_of(agent, context, asked, exam_seeds(asked.episodes, context.seed, "route", asked.maze))
                low, high = wilson(int(walked.arrived.sum()), asked.episodes)
                print(f"{'':25}  arrived {walked.arrived.mean():.3f} [{low:.3f}, {high:.3f}]", end="")
                print(f" of {asked.episodes} in {asked.maze}, SPL {walked.spl.mean():.3f}", flush=True)
    for name, value in usual.items():
        setattr(head, name, value)


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


def paired(ours: np.ndarray, theirs: np.ndarray) -> str:
    """The mean difference on the same episodes with its 95 % interval, by bootstrap."""
    apart = ours - theirs
    means = apart[numpy_rng("paired").integers(len(apart), size=(2000, len(apart)))].mean(1)
    low, high = np.quantile(means, [0.025, 0.975])
    return f"{apart.mean():+.3f} [{low:+.3f}, {high:+.3f}]"


def walk_of(agent: Agent, context: Context, asked: argparse.Namespace, seeds: np.ndarray) -> exam.Walked:
    """The exam's episodes with the agent's current settings."""
    with torch.inference_mode():
        actor = Actor(agent, len(seeds), effectors=[parts.WALK])
        return exam.walk(actor, context, asked.maze, seeds, ticks=asked.ticks)


WIDTH, HEIGHT, LEFT, TOP, BOTTOM, RIGHT = 320, 260, 44, 40, 44, 16
COLOURS = ("#1f5fbf", "#c0561f", "#2f8f4f", "#7f3fbf")


def plot(found: Mapping[str, Mapping[int, Sequence[First]]], mazes: Sequence[str], pairs: int) -> str:
    """A panel for each kind of setting, a line for each maze; a self-contained SVG."""
    panels = "".join(panel(kind, rows, mazes, number * WIDTH) for number, (kind, rows) in enumerate(found.items()))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH * len(found)} {HEIGHT}" font-family="sans-serif" '
        f'font-size="11"><rect width="100%" height="100%" fill="white"/><text x="{LEFT}" y="14">First plans that cross '
        f"no wall, {pairs} pairs of cells a maze, 95 % intervals</text>{panels}</svg>\n"
    )


def panel(kind: str, rows: Mapping[int, Sequence[First]], mazes: Sequence[str], left: int) -> str:
    """The shares of one kind of setting; settings are spaced equally, and mazes stand a little aside of each other."""
    x0, x1, y0, y1 = left + LEFT, left + WIDTH - RIGHT, HEIGHT - BOTTOM, TOP

    def x(number: int, maze: int) -> float:
        return x0 + (x1 - x0) * (number + 0.5) / len(rows) + 6 * (maze - (len(mazes) - 1) / 2)

    def y(share: float) -> float:
        return y0 + (y1 - y0) * share

    drawn = [f'<path d="M{x0} {y1}V{y0}H{x1}" fill="none" stroke="black"/>']
    drawn.append(f'<text x="{x1}" y="{y0 + 28}" text-anchor="end">{kind}</text>')
    for share in (0.0, 0.5, 1.0):
        drawn.append(f'<text x="{x0 - 4}" y="{y(share) + 4:.1f}" text-anchor="end">{100 * share:.3g} %</text>')
    for number, setting in enumerate(rows):
        middle = x0 + (x1 - x0) * (number + 0.5) / len(rows)
        drawn.append(f'<text x="{middle:.1f}" y="{y0 + 14}" text-anchor="middle">{setting}</text>')
    for maze, name in enumerate(mazes):
        colour, points = COLOURS[maze % len(COLOURS)], []
        for number, came in enumerate(rows.values()):
            chosen = came[maze].chosen
            across, down = x(number, maze), y(float(chosen.mean()))
            low, high = wilson(int(chosen.sum()), len(chosen))
            drawn.append(f'<path d="M{across:.1f} {y(low):.1f}V{y(high):.1f}" stroke="{colour}"/>')
            drawn.append(f'<circle cx="{across:.1f}" cy="{down:.1f}" r="2.5" fill="{colour}"/>')
            points.append(f"{across:.1f},{down:.1f}")
        drawn.append(f'<polyline points="{" ".join(points)}" fill="none" stroke="{colour}" stroke-width="2"/>')
        drawn.append(f'<text x="{x1}" y="{y0 - 8 - 12 * maze}" text-anchor="end" fill="{colour}">{name}</text>')
    return "".join(drawn)


if __name__ == "__main__":
    main()
