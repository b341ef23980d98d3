"""Procedures: speed beside python-agentspeak, applicable plans among many, interrupts, and Tileworld's curves.

    python benchmarks/procedures.py [--worlds 100]

python-agentspeak is GPL-3.0 and no part of devmind: it is measured where the user has installed it (`pip install
agentspeak`), and left out otherwise. Both count down by subgoals, and again beside 1,000 beliefs and 200 plans.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import io
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from devmind.curriculum.exam import bootstrap
from devmind.seeding import exam_seeds, numpy_rng
from stages.reasoning.procedures.beliefs import Beliefs
from stages.reasoning.procedures.commitment import Forced, live, reactive
from stages.reasoning.procedures.interpreter import Interpreter
from stages.reasoning.procedures.jets import Jets
from stages.reasoning.procedures.library import ACHIEVE
from stages.reasoning.procedures.parser import read, shipped

COUNT = 10_000
BELIEFS, PLANS = 1000, 200
OURS = """
plan stop { for achieve count(0) do { } }
plan count { for achieve count(N) when N > 0 do { achieve count(N - 1) } }
"""
THEIRS = """
!count({n}).
+!count(0).
+!count(N) : N > 0 <- !count(N-1).
"""
MIXED = """
plan stop {{ for achieve mend(0) do {{ }} }}
plan mend {{ for achieve mend(N) when N > 0 and worn(N mod {beliefs}, W) do {{ achieve mend(N - 1) }} }}
"""
THEIRS_MIXED = """
!mend({n}).
+!mend(0).
+!mend(N) : N > 0 & worn(N mod {beliefs}, W) <- !mend(N-1).
"""


def best(measure: Callable[[], float], times: int = 3) -> float:
    """The highest of some rates, each per CPU second of this process."""
    return max(measure() for _ in range(times))


def ours(text: str, goal: str, n: int, beliefs: Beliefs | None = None) -> tuple[float, float]:
    """Subgoals and cycles a second."""
    it = Interpreter(read(text), beliefs)
    began = time.process_time()
    assert it.solve((goal, n))
    took = time.process_time() - began
    return n / took, it.now / took


def theirs(text: str) -> float:
    """Seconds that python-agentspeak takes for a program, from its first step to its last."""
    import agentspeak.runtime
    import agentspeak.stdlib

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "program.asl")
        file.write_text(text, encoding="utf-8")
        environment = agentspeak.runtime.Environment()
        with file.open(encoding="utf-8") as source:
            environment.build_agent(source, agentspeak.stdlib.actions)
        began = time.process_time()
        environment.run()
        return time.process_time() - began


def steps(text: str) -> int:
    """The number of its interpreter's steps."""
    import agentspeak.runtime
    import agentspeak.stdlib

    environment = agentspeak.runtime.Environment()
    source = io.StringIO(text)
    source.name = "program.asl"
    agent = environment.build_agent(source, agentspeak.stdlib.actions)
    count = 0
    while agent.step():
        count += 1
    return count


def speed() -> None:
    """Print subgoals and cycles a second, alone and beside many beliefs and plans."""
    gc.freeze()  # else each garbage collection would scan all imported objects
    goals = best(lambda: ours(OURS, "count", COUNT)[0])
    cycles = best(lambda: ours(OURS, "count", COUNT)[1])
    print(f"procedures: {goals:,.0f} counting subgoals/s, {cycles:,.0f} cycles/s (goals 10,000 and 20,000)")
    n = 2000
    facts = [("worn", k, 1) for k in range(BELIEFS)]
    others = "".join(f"plan other{k} {{ for achieve fix(d{k}) when worn({k}, 2) do {{ }} }}\n" for k in range(PLANS))
    mixed = best(lambda: ours(others + MIXED.format(beliefs=BELIEFS), "mend", n, Beliefs(facts))[0])
    print(f"procedures: {mixed:,.0f} subgoals/s whose context queries {BELIEFS:,} beliefs, beside {PLANS} other plans")
    if importlib.util.find_spec("agentspeak") is None:
        print("python-agentspeak: not installed (pip install agentspeak), so nothing is compared")
        return
    text = THEIRS.format(n=COUNT)
    their = best(lambda: COUNT / theirs(text), 2)
    print(f"python-agentspeak: {their:,.0f} counting subgoals/s, {their * steps(text) / COUNT:,.0f} steps/s")
    lines = "".join(f"worn({k}, 1).\n" for k in range(BELIEFS))
    lines += "".join(f"+!fix(d{k}) : worn({k}, 2) <- true.\n" for k in range(PLANS))
    their_mixed = best(lambda: n / theirs(lines + THEIRS_MIXED.format(n=n, beliefs=BELIEFS)), 2)
    print(f"python-agentspeak: {their_mixed:,.0f} subgoals/s beside as many beliefs and plans")
    print(f"ratios: counting {goals / their:.1f}, with beliefs {mixed / their_mixed:.1f} (goal 10)")


def choosing() -> None:
    """Print the time to find applicable plans among 200 with 1,000 beliefs, with the indexes."""
    rng = numpy_rng("benchmark", "choosing")
    text = "".join(
        f"plan p{k} {{ for achieve fix(d{k % 20}) when broken(d{k % 20}, W) and W > {k // 20} do {{ }} }}\n"
        for k in range(PLANS)
    )
    library = read(text)
    facts = {("broken", f"d{rng.integers(200)}", int(rng.integers(100))) for _ in range(2 * BELIEFS)}
    beliefs, found = Beliefs(sorted(facts)[:BELIEFS]), 0
    began = time.process_time()
    for k in range(400):
        found += len(list(library.applicable(ACHIEVE, ("fix", f"d{k % 20}"), beliefs)))
    print(
        f"choosing: {(time.process_time() - began) / 400 * 1000:.3f} ms for {found / 400:.0f} applicable instances of"
        f" {PLANS} plans among {BELIEFS:,} beliefs (goal < 1 ms)"
    )


def interrupts(n: int = 1000) -> None:
    """Print the cycles from a jet's failure to the first response."""
    late = []
    for seed in range(n):
        rng = numpy_rng("benchmark", "jets", seed)
        jets = Jets([(int(rng.integers(5, 60)), ("failed_on", f"jet_{rng.integers(1, 5)}"))])
        jets.run(shipped("jets"))
        late += jets.latencies()
    print(f"jets: {n} failures, answered after at most {max(late)} cycle, mean {np.mean(late):.2f}")


def curves(n: int) -> None:
    """Print effectiveness against the rate of change."""
    print(f"Tileworld, {n} worlds a rate\n rate    bold  cautious  reactive  bold - cautious [95 %]")
    seeds = exam_seeds(n, "benchmark", "tileworld").tolist()
    for rate in (0.25, 0.5, 1.0, 1.4, 2.0, 4.0, 6.0, 8.0, 16.0):
        bold, cautious = (
            np.array([live(seed, rate, Forced(plan))[0] for seed in seeds]) for plan in ("bold", "cautious")
        )
        planless = np.mean([reactive(seed, rate) for seed in seeds])
        low, high = bootstrap(bold - cautious, 2000, f"benchmark {rate}")
        print(
            f"{rate:5.2f}  {bold.mean():6.3f}  {cautious.mean():8.3f}  {planless:8.3f}"
            f"  {(bold - cautious).mean():+.3f} [{low:+.3f}, {high:+.3f}]"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=100, help="worlds of each rate")
    given = parser.parse_args()
    speed()
    choosing()
    interrupts()
    curves(given.worlds)
