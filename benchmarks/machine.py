"""What this machine can do: GFLOP/s of one core and of all, steps/s of a stage's lessons, and the expected minutes.

    python benchmarks/machine.py [--stage reflex] [--size nursery]

Times are wall times: with other work on the machine they predict a run beside that work. The measured agent is untaught
and has the parts of the stage and of those before it. Rehearsals, at most a fifth of a run's time, are left out.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path


def main() -> None:
    """Measure, and print each row at once."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stage", default="reflex")
    parser.add_argument("--size", default="nursery")
    parser.add_argument("--tiny", action="store_true", help="only show that everything runs: one lesson of size tiny")
    given = parser.parse_args()
    given.size = "tiny" if given.tiny else given.size
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as the command devmind does, before torch is loaded
    from devmind.agent.agent import Agent
    from devmind.agent.config import AgentConfig
    from devmind.agent.device import place
    from devmind.agent.threads import cores, training_threads
    from devmind.config import load
    from devmind.curriculum.machine import gflops, step_s
    from devmind.curriculum.runner import in_order
    from devmind.curriculum.start import load_stage, make_context

    print(f"one core    {gflops():8.1f} GFLOP/s (float32)")
    print(f"{cores()} core(s)   {gflops(threads=cores()):8.1f} GFLOP/s")
    with tempfile.TemporaryDirectory() as folder:
        context = make_context(load(given.size), Path(folder), None, ())
        if context.device != "cpu":
            print(f"{context.device:<11} {gflops(context.device):8.1f} GFLOP/s")
        *earlier, stage = map(load_stage, in_order([given.stage]))
        agent = Agent(AgentConfig(size=context.config.size))
        for one in (*earlier, stage):
            one.admit(agent)
        place(agent, context.device)
        print(f"\n{'lesson':<12} {'steps/s':>8} {'steps':>8} {'minutes':>8} {'planned':>8}", flush=True)
        whole, lessons = 0.0, list(stage.lessons(context))[: 1 if given.tiny else None]
        with training_threads():
            for lesson in lessons:
                speed = 1 / step_s(lesson, agent, context, lesson.steps)
                minutes = lesson.steps / speed / 60
                whole += minutes
                print(
                    f"{lesson.name:<12} {speed:8.2f} {lesson.steps:8,} {minutes:8.1f} {lesson.minutes:8.1f}", flush=True
                )
    print(f"\n{whole:.0f} minutes expected for the lessons of '{stage.name}' at size {given.size}, without exams;")
    print("the planned minutes are for size nursery on two cores of 100 GFLOP/s each.")


if __name__ == "__main__":
    main()
