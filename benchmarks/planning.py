"""How long a plan takes, how well plans are followed by steps and candidates, and our denoiser beside diffusers' UNet.

    python benchmarks/planning.py [--agent DIR] [--out plans.svg] [--threads 1 2] [--size nursery]
    python benchmarks/planning.py --agent DIR --episodes 20 --steps 1 5 --candidates 1 8     # a short run

**Latency** is that of an Actor's tick in which a plan is made: encoders, trunk, moves, points, the critic's choice.
Cold: from noise alone; warm: from the rest of the last plan. A tick that only follows a plan stands beside them. Beside
the medians stand the minimum, which other work on the machine affects least, and the median of CPU seconds, which
equals wall time on a free core. Goals are judged by wall time.
**UNet**: diffusers' `UNet1DModel` as in Janner et al. (2022), with as many parameters as our denoiser, at a horizon of
64 points; ours reads a condition and denoises symbols too, the UNet points alone. The two take turns.
**Success** needs an agent that was taught `route`: the exam's own episodes of one maze, by denoising steps with the
agent's candidates, and by candidates with its steps. The share of episodes that arrive is printed with 95 % intervals
(Wilson), and drawn into `--out` (SVG).
**A tree of plans** (Monte Carlo Tree Diffusion, `--simulations`) stands beside candidates with the same number of
network calls, on the same episodes, with the paired difference and its interval (bootstrap): first plans that cross no
wall and, unless `--ticks 0` leaves out the walks, arrival and SPL.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from diffusers import UNet1DModel

from devmind.acting import Actor
from devmind.agent.agent import Agent
from devmind.agent.config import AgentConfig
from devmind.agent.threads import cores, intra_op_threads
from devmind.algorithms.diffusion import HybridDenoiser
from devmind.config import RunConfig
from devmind.curriculum.exam import wilson
from devmind.curriculum.machine import gflops
from devmind.curriculum.stage import Context
from devmind.seeding import exam_seeds, numpy_rng
from devmind.worlds import make as make_world
from devmind.worlds.pointmaze import TASKS, PointMazeRules
from stages.planning import parts
from stages.planning.following import TRUNK
from stages.planning.planner import PlannerHead
from stages.planning.reinforce.plans import holding
from stages.planning.route import exam
from stages.planning.tree import search_in_a_tree

COLD_S, WARM_S, RATIO = 0.5, 0.1, 0.5
"""Goals."""
HORIZON, BATCHES = 64, (1, 64)


class Came(NamedTuple):
    """Episodes with one setting: share that arrived, its interval, SPL, CPU milliseconds of a cold plan."""

    setting: int
    arrived: float
    low: float
    high: float
    spl: float
    plan_ms: float


def main() -> None:
    """Measure, and print each row at once."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--agent", type=Path, metavar="DIR", help="an agent taught `route`; without it, success is not measured"
    )
    parser.add_argument("--size", default="nursery", help="size of the untaught agent, if no --agent is given")
    parser.add_argument("--threads", type=int, nargs="+", default=[1], help="threads of torch; agents step with one")
    parser.add_argument("--turns", type=int, default=20, help="turns over which medians are taken")
    parser.add_argument("--maze", default="medium")
    parser.add_argument("--episodes", type=int, default=100, help="episodes of each setting")
    parser.add_argument("--steps", type=int, nargs="*", default=[1, 2, 5, 10, 20], help="denoising steps")
    parser.add_argument("--candidates", type=int, nargs="*", default=[1, 2, 4, 8, 16, 50])
    parser.add_argument("--simulations", type=int, nargs="*", default=[20, 60], help="simulations of a tree of plans")
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
    print(f"\n{f'ms a step, horizon {HORIZON}':28} {'ours':>8} {'UNet':>8} {'ratio':>7}  goal")
    for threads in asked.threads:
        with intra_op_threads(threads):
            beside_unet(agent, asked.turns, threads)
    if asked.agent is not None:
        with tempfile.TemporaryDirectory() as folder, intra_op_threads(1):
            context = Context(RunConfig(size=agent.config.size), 0, "cpu", Path(folder), make_world)
            head_of(agent).silenced = frozenset({TRUNK} if asked.no_trunk else ())
            success(agent, context, asked)
            if asked.out is not None:
                print(f"plot: {asked.out}")
            beside_candidates(agent, context, asked)


def planner_of(folder: Path | None, size: str) -> Agent:
    """The saved agent, or an untaught one, which plans as fast."""
    if folder is not None:
        return Agent.from_pretrained(folder).eval()
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


def beside_unet(agent: Agent, turns: int, threads: int) -> None:
    """One denoising step of each, in turn, in CPU seconds: either may be interrupted."""
    form = dict(head_of(agent).denoiser.config)
    known = {name: form[name] for name in ("words", "condition", "told_by", "width", "layers", "attention_heads")}
    ours = HybridDenoiser(2, HORIZON, length=form["length"], memory=form["memory"], pieces=form["pieces"], **known)
    own = sum(value.numel() for value in ours.parameters())
    unet = peer(own)
    other = sum(value.numel() for value in unet.parameters())
    print(f"parameters: ours {own:,}, UNet1DModel {other:,}; {threads} thread(s)")
    for rows in BATCHES:
        with torch.inference_mode():
            mine, theirs = step_of(ours.eval(), rows), step_of_peer(unet.eval(), rows)
            found = np.array(
                [(timed(mine, time.process_time), timed(theirs, time.process_time)) for _ in range(turns + 2)][2:]
            )
        ratio = float(np.median(found[:, 0] / found[:, 1]))
        a, b = np.median(found, 0)
        verdict = "reached" if ratio <= RATIO else "missed"
        print(f"{f'batch {rows}':28} {a:8.2f} {b:8.2f} {ratio:7.2f}  <= {RATIO} {verdict}", flush=True)


def peer(parameters: int) -> UNet1DModel:
    """Janner's UNet with about that many parameters: three levels, each twice as wide as the one above it."""

    def made(width: int) -> UNet1DModel:
        return UNet1DModel(
            in_channels=2,
            out_channels=2,
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

    def off(model: UNet1DModel) -> int:
        return abs(sum(value.numel() for value in model.parameters()) - parameters)

    return min((made(width) for width in range(16, 129, 8)), key=off)


def step_of(denoiser: HybridDenoiser, rows: int) -> Callable[[], Any]:
    """One step of ours as in the pipeline: the cache of the condition exists by then."""
    form, generator = denoiser.config, torch.Generator().manual_seed(0)
    x = torch.randn(rows, HORIZON, 2, generator=generator)
    condition = torch.randn(rows, form["told_by"], form["condition"], generator=generator)
    present = torch.ones(rows, form["told_by"], dtype=torch.bool)
    given = torch.zeros(rows, HORIZON, dtype=torch.bool)
    symbols = torch.full((rows, form["length"]), form["words"])
    level, hint = torch.full((rows,), 0.5), denoiser.hint(condition, present)
    return lambda: denoiser(x, given, level, symbols, level, condition, present, hint)


def step_of_peer(unet: UNet1DModel, rows: int) -> Callable[[], Any]:
    """One step of the UNet."""
    x = torch.randn(rows, 2, HORIZON, generator=torch.Generator().manual_seed(0))
    return lambda: unet(x, torch.full((rows,), 50)).sample


def success(agent: Agent, context: Context, asked: argparse.Namespace) -> dict[str, list[Came]]:
    """By steps and by candidates."""
    head = head_of(agent)
    usual = head.steps, head.warm_steps, head.candidates
    seeds = exam_seeds(asked.episodes, context.seed, "route", asked.maze)
    found: dict[str, list[Came]] = {"denoising steps": [], "candidates": []}
    print(f"\n{asked.maze}, {asked.episodes} episodes; else {usual[0]} steps, {usual[2]} candidates")
    print(f"{'':16} {'n':>4} {'arrived':>8} {'95 %':>16} {'SPL':>6} {'plan, ms':>10} {'CPU s':>7}")
    for kind, settings in (("denoising steps", asked.steps), ("candidates", asked.candidates)):
        for setting in settings:
            head.steps, head.warm_steps, head.candidates = usual
            if kind == "candidates":
                head.candidates = setting
            else:
                # As for the agent's own settings: continuing the last plan takes more than half as many steps.
                head.steps, head.warm_steps = setting, max(1, round(setting * usual[1] / usual[0]))
            begun_s = time.process_time()
            walked = walk_of(agent, context, asked, seeds)
            low, high = wilson(int(walked.arrived.sum()), len(seeds))
            plan_ms = float(np.median([ticks(agent, time.process_time)[0] for _ in range(5)]))
            came = Came(setting, float(walked.arrived.mean()), low, high, float(walked.spl.mean()), plan_ms)
            found[kind].append(came)
            if asked.out is not None:  # as far as it got: the run may be stopped
                asked.out.write_text(plot(found, asked.maze, asked.episodes), encoding="utf-8")
            print(
                f"{kind:16} {setting:4} {came.arrived:8.3f}   [{low:.3f}, {high:.3f}] {came.spl:6.3f} {plan_ms:10.1f} "
                f"{time.process_time() - begun_s:7.0f}",
                flush=True,
            )
    head.steps, head.warm_steps, head.candidates = usual
    return found


def walk_of(agent: Agent, context: Context, asked: argparse.Namespace, seeds: np.ndarray) -> exam.Walked:
    """The exam's episodes with the agent's current settings."""
    with torch.inference_mode():
        actor = Actor(agent, len(seeds), effectors=[parts.WALK])
        return exam.walk(actor, context, asked.maze, seeds, ticks=asked.ticks)


def beside_candidates(agent: Agent, context: Context, asked: argparse.Namespace) -> None:
    """A tree of plans, and independent candidates with the same number of network calls."""
    head, usual = head_of(agent), head_of(agent).candidates
    seeds = exam_seeds(asked.episodes, context.seed, "route", asked.maze)
    one = head.word_steps + head.steps
    for simulations in asked.simulations:
        search_in_a_tree(agent, simulations)
        calls, found = calls_of(agent), []
        for tree in (simulations, 0):
            search_in_a_tree(agent, tree)
            head.candidates = usual if tree else max(1, round(calls / one))
            name = f"tree, {tree} simulations" if tree else f"{head.candidates} candidates"
            plan_ms = float(np.median([ticks(agent)[0] for _ in range(5)]))
            print(f"\n{name}: {calls_of(agent)} calls, {plan_ms:.0f} ms a plan of one row", flush=True)
            begun_s = time.process_time()
            results = {"first plans hold": first_plans(agent, asked, seeds)}
            print(f"  first plans of {len(seeds)} rows: {time.process_time() - begun_s:.0f} CPU s", flush=True)
            if asked.ticks != 0:
                walked = walk_of(agent, context, asked, seeds)
                results |= {"arrived": walked.arrived, "SPL": walked.spl}
            for what, values in results.items():
                low, high = wilson(int(values.sum()), len(values))
                print(f"  {what:18} {values.mean():.3f}" + ("" if what == "SPL" else f" [{low:.3f}, {high:.3f}]"))
            found.append(results)
        head.candidates = usual
        for what, ours in found[0].items():
            apart, rng = ours - found[1][what], numpy_rng("beside candidates")
            means = apart[rng.integers(len(apart), size=(2000, len(apart)))].mean(1)
            low, high = np.quantile(means, [0.025, 0.975])
            print(f"the tree's above theirs, {what}: {apart.mean():+.3f} [{low:+.3f}, {high:+.3f}]", flush=True)


@torch.inference_mode()
def first_plans(agent: Agent, asked: argparse.Namespace, seeds: np.ndarray) -> np.ndarray:
    """Whether the first plan of each episode crosses no wall, float [N]; the trunk is not used."""
    rules, head = PointMazeRules(asked.maze + TASKS), head_of(agent)
    seen = rules.observe(rules.initial(seeds))
    found = head.search(head.thinking(*(torch.from_numpy(seen[sense]) for sense in ("body", "goal", "maze"))))
    chosen = found.plans[torch.arange(len(seeds)), found.chosen]
    return holding(asked.maze, chosen.numpy()).astype(float)


@torch.inference_mode()
def calls_of(agent: Agent) -> int:
    """Network calls for a plan from noise alone; a call with n rows counts n."""
    counted: list[int] = []
    hook = head_of(agent).denoiser.register_forward_hook(lambda _, given, __: counted.append(len(given[0])))
    actor = Actor(agent, 1, effectors=[parts.WALK])
    actor(make_world("pointmaze", "medium", [0]).observe(), np.array([True]))
    hook.remove()
    return sum(counted)


WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 340, 240, 44, 34, 44


def plot(found: dict[str, Sequence[Came]], maze: str, episodes: int) -> str:
    """Both curves side by side with their intervals, as a self-contained SVG."""
    panels = [panel(kind, rows, number * WIDTH) for number, (kind, rows) in enumerate(found.items()) if rows]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH * len(found)} {HEIGHT}" font-family="sans-serif" '
        f'font-size="11"><rect width="100%" height="100%" fill="white"/>'
        f'<text x="{LEFT}" y="16">arrived in {maze}, {episodes} episodes each, 95 % intervals</text>'
        + "".join(panels)
        + "</svg>\n"
    )


def panel(kind: str, rows: Sequence[Came], left: int) -> str:
    """One curve; settings are spaced equally."""
    wide, high = WIDTH - LEFT - 16, HEIGHT - TOP - BOTTOM

    def at(number: int, value: float) -> tuple[float, float]:
        return left + LEFT + wide * (number + 0.5) / len(rows), TOP + high * (1 - value)

    body = []
    for value in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = at(0, value)[1]
        body.append(f'<line x1="{left + LEFT}" x2="{left + LEFT + wide}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        body.append(f'<text x="{left + LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>')
    for number, row in enumerate(rows):
        (x, low), (_, top), (_, y) = at(number, row.low), at(number, row.high), at(number, row.arrived)
        body.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{low:.1f}" y2="{top:.1f}" stroke="#1f6f8b"/>')
        body.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="#1f6f8b"/>')
        body.append(f'<text x="{x:.1f}" y="{HEIGHT - 26}" text-anchor="middle">{row.setting}</text>')
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in (at(number, row.arrived) for number, row in enumerate(rows)))
    body.append(f'<polyline points="{line}" fill="none" stroke="#1f6f8b"/>')
    body.append(f'<text x="{left + LEFT + wide / 2}" y="{HEIGHT - 8}" text-anchor="middle">{kind}</text>')
    return "".join(body)


if __name__ == "__main__":
    main()
