"""What reinforcement adds to the planner of a maze: implicit Q-learning, and a denoiser taught by returns.

    OMP_NUM_THREADS=1 python benchmarks/plan_reinforce.py --steps 450 --more 120 --episodes 100
    OMP_NUM_THREADS=1 python benchmarks/plan_reinforce.py --raised after-planning --maze large --episodes 0

The planner's head is taught alone, with places, goals and the maze as numbers (no trunk), in an agent of size tiny with
a planner of size nursery; or, with `--raised`, it is the planner of a packaged agent, queried with the same numbers.
Several agents continue from it, each from the same weights:

    as it is          no further training
    more steps        `--more` steps of the same lesson
    AWR, offline      as many, with plans weighted by their advantage under V of implicit Q-learning
    AWR, online       as many, with half of the plans from the agent's own walks
    policy gradient   `--gradient` steps over denoising; the reward of a plan is the walking cost of its strides by that
    V
    IQL's marks       no further training; V chooses among the candidates instead of the critic of strides

For all of them, the first plans of the same `--asked` episodes are checked: whether the chosen one crosses no wall.
With `--episodes` above 0 all walk the same episodes of OGBench's five tasks. Beside each stands the paired difference
with its 95 % interval (bootstrap): for weighted regression to as many more steps, for everything else to the agent as
it is. HIQL's published figure is 0.79 (OGBench's table, 1,000,000 steps of data). With `--out` a stopped run continues.
"""

from __future__ import annotations

import argparse
import copy
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from planning import first_plans, paired

from devmind.acting import Actor
from devmind.agent.agent import Agent
from devmind.agent.config import AgentConfig
from devmind.agent.device import pick_device, place
from devmind.config import RunConfig
from devmind.curriculum.exam import wilson
from devmind.curriculum.stage import Context
from devmind.raised import raised
from devmind.seeding import exam_seeds, lesson_seeds, numpy_rng
from devmind.worlds import make as make_world
from devmind.worlds.pointmaze import TASKS
from stages.planning import parts
from stages.planning.planner import TRUNK, PlannerHead
from stages.planning.reinforce.finetune import PolicyGradient, advantages, own_trips, weights
from stages.planning.reinforce.plans import Plans, drawn, teach, walked
from stages.planning.reinforce.values import StrideValues, teach_values
from stages.planning.route import exam, trips
from stages.planning.route.exam import Walked

ROWS, RATE, TUNED = 256, 2e-3, 5e-4
"""Batches and learning rates: of the lesson, and of what goes on from it."""


class Came(NamedTuple):
    """Of one agent: whether each first plan holds, its walks, and the seconds of teaching."""

    holds: np.ndarray
    walked: Walked
    spent_s: float


def main() -> None:
    """Teach, continue in each way, walk, and print each row at once."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--base", type=Path, metavar="DIR", help="an agent taught before; if missing, it is taught and saved here"
    )
    parser.add_argument("--only", nargs="+", metavar="ROW", help="the rows to measure now")
    parser.add_argument(
        "--out", type=Path, metavar="FILE.json", help="results of each episode by row; rows in it are not run again"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=450, help="of the lesson")
    parser.add_argument("--more", type=int, default=120)
    parser.add_argument("--gradient", type=int, default=60, help="steps of the policy gradient")
    parser.add_argument("--values", type=int, default=2000, help="steps of implicit Q-learning")
    parser.add_argument("--plans", type=int, default=30_000)
    parser.add_argument("--episodes", type=int, default=100)
    parser.add_argument("--asked", type=int, default=400, help="episodes whose first plan is checked")
    parser.add_argument("--walks", type=int, default=120, help="own walks from which it learns online")
    parser.add_argument("--ticks", type=int, default=400, help="after which an episode is cut; OGBench's are 1,000")
    parser.add_argument("--raised", choices=sorted(raised()), help="whose planner goes on, in place of one taught here")
    parser.add_argument("--maze", default="medium", choices=("medium", "large"))
    parser.add_argument("--device", default="cpu")
    run(parser.parse_args())


def run(asked: argparse.Namespace) -> None:
    """Run all of it."""
    torch.set_num_threads(1)
    shown = trips.made(asked.maze, asked.seed, 50_000)
    joined = trips.joined(shown, 12_000, numpy_rng(asked.seed, "joined", asked.maze))
    data = drawn([joined], asked.plans, numpy_rng(asked.seed, "plans")).to(pick_device(asked.device))
    agent = base(asked, data)
    values = values_of(head_of(agent), shown, asked)
    found = known(asked.out)
    for name, (way, beside) in ways(asked, data, values).items():
        if name not in found and (asked.only is None or name in asked.only):
            begun_s = time.process_time()
            taught = gone_on(agent, way)
            spent_s = time.process_time() - begun_s
            none = Walked(np.zeros(0), np.zeros(0))
            found[name] = Came(planned(taught, asked), walk(taught, asked) if asked.episodes else none, spent_s)
            if asked.out is not None:
                results = {
                    each: (c.holds.tolist(), c.walked.arrived.tolist(), c.walked.spl.tolist(), c.spent_s)
                    for each, c in found.items()
                }
                asked.out.write_text(json.dumps(results), encoding="utf-8")
        if name in found:
            row(name, found[name], beside, found.get(beside))


def planned(agent: Agent, asked: argparse.Namespace) -> np.ndarray:
    """Whether the first plan holds, in `episodes` of the exam's episodes, float [N]."""
    seeds = exam_seeds(asked.asked, asked.seed, "route", asked.maze)
    return first_plans(head_of(agent), asked.maze + TASKS, seeds).chosen.astype(float)


def known(out: Path | None) -> dict[str, Came]:
    """Rows that were measured before."""
    if out is None or not out.exists():
        return {}
    results = json.loads(out.read_text(encoding="utf-8"))
    return {
        name: Came(np.array(holds), Walked(np.array(arrived), np.array(spl)), spent_s)
        for name, (holds, arrived, spl, spent_s) in results.items()
    }


def base(asked: argparse.Namespace, data: Plans) -> Agent:
    """The agent from which all others start."""
    device = pick_device(asked.device)
    if asked.raised or (asked.base is not None and asked.base.exists()):
        return place(
            Agent.from_pretrained(raised()[asked.raised] if asked.raised else asked.base).float(), device
        ).eval()
    torch.manual_seed(asked.seed)
    agent = Agent(AgentConfig(size="tiny"))
    options = parts.SIZES["tiny"]
    parts.SIZES["tiny"] = parts.SIZES["nursery"]  # a planner of that size, in an agent whose trunk is not used
    parts.admit(agent)
    parts.SIZES["tiny"] = options
    place(agent, device)
    begun_s = time.process_time()
    teach(agent, data, asked.steps, ROWS, RATE, asked.seed)
    print(f"taught in {time.process_time() - begun_s:.0f} CPU s", flush=True)
    if asked.base is not None:
        agent.save_pretrained(asked.base)
    return agent.eval()


def head_of(agent: Agent) -> PlannerHead:
    """The planner."""
    head = agent.head(parts.ROUTE)
    assert isinstance(head, PlannerHead)
    return head


def values_of(head: PlannerHead, shown: trips.Trips, asked: argparse.Namespace) -> StrideValues:
    """Values learned from the oracle's own trips; saved beside the agent from which all others start."""
    torch.manual_seed(asked.seed)
    values = StrideValues().to(pick_device(asked.device))
    kept = None if asked.base is None else asked.base.with_suffix(".values.pt")
    if kept is not None and kept.exists():
        values.load_state_dict(torch.load(kept, weights_only=True))
        return values
    begun_s = time.process_time()
    scalars = teach_values(values, [shown], asked.values, numpy_rng(asked.seed, "values"))
    print(f"implicit Q-learning: {scalars[-1]}, {time.process_time() - begun_s:.0f} CPU s", flush=True)
    if kept is not None:
        torch.save(values.state_dict(), kept)
    return values


def gone_on(agent: Agent, way: Callable[[Agent], Any]) -> Agent:
    """Another agent with the same weights, taught in this way."""
    other = copy.deepcopy(agent)
    way(other)
    return other.eval()


def walk(agent: Agent, asked: argparse.Namespace) -> Walked:
    """The exam's episodes with the trunk silenced."""
    seeds = exam_seeds(asked.episodes, asked.seed, "route", asked.maze)
    context = Context(RunConfig(size="tiny"), asked.seed, "cpu", Path(tempfile.gettempdir()), make_world)
    head_of(agent).silenced = frozenset({TRUNK})
    with torch.inference_mode():
        actor = Actor(agent, len(seeds), effectors=[parts.WALK])
        return exam.walk(actor, context, asked.maze, seeds, ticks=asked.ticks)


def ways(asked: argparse.Namespace, data: Plans, values: StrideValues) -> dict[str, tuple[Callable[[Agent], Any], str]]:
    """By name, how an agent continues, and what it is compared with."""

    def marked(agent: Agent) -> None:
        head_of(agent).marks = values.marks  # type: ignore[method-assign]

    def more(agent: Agent) -> None:
        teach(agent, data, asked.more, ROWS, TUNED, asked.seed + 1)

    def offline(agent: Agent) -> None:
        advantage = advantages(values, data)
        print(f"  advantages, strides: mean {advantage.mean():.2f}, standard deviation {advantage.std():.2f}")
        teach(agent, data, asked.more, ROWS, TUNED, asked.seed + 1, weights(values, data))

    def online(agent: Agent) -> None:
        head_of(agent).silenced = frozenset({TRUNK})
        seeds = lesson_seeds(asked.walks, asked.seed, "own walks")
        own = walked(own_trips(agent, asked.maze, seeds, asked.ticks), numpy_rng(asked.seed, "own walks"), 8)
        own = own.to(agent.device)
        both = own.joined(data)
        print(f"  {len(own)} plans of its own walks, {len(own) // 8} of {asked.walks} arrived", flush=True)
        share = weights(values, both)
        mine, others = share[: len(own)], share[len(own) :]
        teach(
            agent, both, asked.more, ROWS, TUNED, asked.seed + 1, torch.cat((mine / mine.sum(), others / others.sum()))
        )

    def gradient(agent: Agent) -> None:
        def worth(plans: torch.Tensor, maze: torch.Tensor) -> torch.Tensor:
            with torch.no_grad():
                return values.marks(plans[:, None], maze)[:, 0]

        learner = PolicyGradient(agent, worth, 1e-4)
        draws = torch.Generator().manual_seed(asked.seed)
        found = []
        for _ in range(asked.gradient):
            found.append(learner.update(data.rows(torch.randint(len(data), (32,), generator=draws)), draws))
        first, last = (np.mean([one[0] for one in some]) for some in (found[:10], found[-10:]))
        spread = np.mean([one[1] for one in found])
        print(f"  worth of drawn plans {first:.2f} to {last:.2f}, spread within a goal {spread:.2f}", flush=True)

    return {
        "as it is": (lambda agent: None, ""),
        "IQL's marks": (marked, "as it is"),
        "more steps": (more, "as it is"),
        "AWR, offline": (offline, "more steps"),
        "policy gradient": (gradient, "as it is"),
        "AWR, online": (online, "more steps"),
    }


def row(name: str, ours: Came, what: str, beside: Came | None) -> None:
    """One line for each measure."""
    measures = ("first plan holds", "arrived", "SPL")
    of = [(c.holds, c.walked.arrived, c.walked.spl) for c in (ours, beside) if c is not None]
    for number, measure in enumerate(measures):
        mine, *other = (each[number] for each in of)
        if not len(mine):
            continue
        low, high = wilson(int(mine.sum()), len(mine))
        line = f"{name:16} {measure:17} {len(mine):4} {mine.mean():6.3f}"
        line += f" [{low:.3f}, {high:.3f}]" if number < 2 else " " * 15
        line += f"  beside {what} {paired(mine, other[0])}" if other and len(other[0]) else ""
        print(line + ("" if number else f"; taught in {ours.spent_s:.0f} CPU s"), flush=True)


if __name__ == "__main__":
    main()
