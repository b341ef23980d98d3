"""What the trunk adds to language: an agent on an identity trunk that does not learn, beside a run.

    python benchmarks/language_twin.py teach --seed 100 --data DIR --out TWIN [--device cuda] [--eye CHECKPOINT]
    python benchmarks/language_twin.py compare RUN TWIN

It is the twin that `devmind stage run language --ablate` raises: lessons, steps and exams are the stage's, and each
lesson is taught by its control. Nothing passes between the tokens of such a trunk, so nothing that earlier stages
taught reaches these exams; the twin therefore starts as a newborn that was admitted to the stage, with the same initial
learning parts as a run of the same seed. Lessons may be left out. `--eye` takes what the lesson `call` taught, in which
no trunk has a part, from a checkpoint of a run or its agent's folder. `--whole AGENT` continues from an agent, whose
trunk learns too. `--pause SECONDS` stops that long after the start, and the same command continues from there; without
`--skills` nothing is examined meanwhile, and `examine` examines the agent in `--work` as far as it was taught.

Exams ask the agent alone ('retention': all episodes, no floors and rows). `compare` prints the gain of the run's agent
on the same episodes, with a paired bootstrap's 95 % bounds, as the report does.
"""

from __future__ import annotations

import argparse
import copy
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from devmind import raised, worlds
from devmind.agent.agent import Agent
from devmind.agent.config import AgentConfig
from devmind.agent.decoders import pass_by
from devmind.agent.device import place
from devmind.checkpointing import bundle
from devmind.config import load
from devmind.curriculum import run_exams
from devmind.curriculum.ablation import Control, differences, identity_trunk
from devmind.curriculum.exam import Measure
from devmind.curriculum.examining import examination
from devmind.curriculum.journal import Journal
from devmind.curriculum.stage import Context, Lesson, Stage
from devmind.curriculum.teaching import Interrupted, position, teach
from stages.language import parts
from stages.language.follow.exam import FURTHER, further
from stages.language.stage import LanguageStage

RESAMPLES = 2000
TALKING = ("name", "answer", "converse", "grammar", "read")
"""Skills that the lesson `follow` changes nothing of: asked while that is taught."""


def main() -> None:
    """Teach and examine, examine some skills, or compare."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("what", choices=("teach", "examine", "compare"))
    options.add_argument("folders", type=Path, nargs="*")
    options.add_argument("--out", type=Path)
    options.add_argument("--seed", type=int, default=100)
    options.add_argument("--size", default="nursery")
    options.add_argument("--data", type=Path)
    options.add_argument("--device", default="cpu")
    options.add_argument("--eye", type=Path, help="a run's checkpoint after its lesson 'call', or its agent")
    options.add_argument("--lessons", nargs="+", default=["read", "call", "senses", "talk", "follow"])
    options.add_argument("--steps", type=float, default=1.0, help="factor on the lessons' steps")
    options.add_argument("--skills", nargs="*", default=[*TALKING])
    options.add_argument("--whole", metavar="AGENT", help="name of a packaged agent, or a folder")
    options.add_argument("--work", type=Path, help="folder of agents and checkpoints; default: --out")
    options.add_argument("--until", type=float, nargs=2, help="seconds from the start at which `talk` and `follow` end")
    options.add_argument("--pause", type=float, help="seconds after which it stops, to be resumed later")
    given = options.parse_args()
    given.work = given.work or given.out
    if given.what == "compare":
        compare(*given.folders)
    elif given.what == "examine":
        examine(given)
    else:
        teach_all(given)


def context_of(given: argparse.Namespace) -> Context:
    """A run of the stage on that device."""
    config = load(given.size, sets=[f"device={given.device}", "threads=1", "loggers=[]", f"seed={given.seed}"])
    return Context(config, given.seed, given.device, given.work, worlds.make, given.data)


def begun(given: argparse.Namespace, context: Context) -> tuple[Agent, Stage]:
    """The agent before its lessons, and the stage that teaches it."""
    stage: Stage = LanguageStage()
    if given.whole:
        agent = Agent.from_pretrained(raised.raised().get(given.whole, Path(given.whole)))
        agent.config.seed = given.seed
    else:
        agent = Agent(AgentConfig(size=given.size, seed=given.seed))
    stage.admit(agent)
    agent.config.stages = [*(agent.config.stages or stage.requires), stage.name]
    if not given.whole:
        folder = identity_trunk(agent, given.work / "newborn", copy.deepcopy(agent), stage, context)
        agent, stage = Agent.from_pretrained(folder), Control(stage)
        stage.admit(agent)
    if given.eye:
        eye = {
            name: value for name, value in _saved(given.eye).items() if name.startswith(parts.trained_to_call(agent))
        }
        assert eye, f"{given.eye} has no eye"
        agent.load_state_dict(eye, strict=False)
    return place(agent, context.device), stage


def _saved(folder: Path) -> dict[str, torch.Tensor]:
    """The weights in an agent's folder or a checkpoint, by name."""
    if (folder / "config.json").exists():
        return Agent.from_pretrained(folder).state_dict()
    state = bundle.load(folder)
    found: dict[str, torch.Tensor] = state.get("agent", state)
    return found


def teach_all(given: argparse.Namespace) -> None:
    """Teach the agent and examine what its lessons have taught so far; its own parts are saved after each lesson."""
    torch.set_num_threads(1)
    for folder in (given.out, given.work):
        folder.mkdir(parents=True, exist_ok=True)
    start_s, context, asking = time.monotonic(), context_of(given), list[subprocess.Popen[bytes]]()
    agent, stage = begun(given, context)
    journal = Journal(given.work / "journal.jsonl")
    resume = position(given.work / "checkpoints") if given.pause else None
    for lesson in left_to_teach(given, stage, context, resume):
        steps = max(1, round(given.steps * lesson.steps))
        begun_s, cpu_s = time.monotonic(), time.process_time()
        if given.until or given.pause:
            stopped_at(start_s + (given.pause or given.until[lesson.name == "follow"]))
        at = resume if resume and resume["lesson"] == lesson.name else None
        try:
            teach(lesson, steps, agent, context, journal, every=0, resume=at)
        except Interrupted:
            print(f"{lesson.name} was stopped at its time limit", flush=True)
            agent = place(agent, context.device)
            if given.pause:
                print(
                    f"{time.process_time() - cpu_s:.0f} CPU s of it so far; run the same command to continue",
                    flush=True,
                )
                return
        signal.setitimer(signal.ITIMER_REAL, 0)
        spent = f"{time.monotonic() - begun_s:.0f} s, {time.process_time() - cpu_s:.0f} CPU s"
        last = list(journal.events("progress"))[-1]
        print(f"{lesson.name}: {last['step']} of {steps} steps, {spent}; {last['scalars']}", flush=True)
        if lesson.name == "talk" and given.skills:
            asking.append(_asked_beside(given, agent, given.work / "agent"))
        if lesson.name == "follow" and given.skills:
            given.skills = ["follow"]
            asked(given, agent, context)
    if not asking:
        agent.save_pretrained(given.work / "agent")
    for process in asking:
        process.wait()


def left_to_teach(
    given: argparse.Namespace, stage: Stage, context: Context, resume: Mapping[str, Any] | None
) -> list[Lesson]:
    """The lessons of `--lessons` from the one in which the checkpoint `resume` was made."""
    lessons = [lesson for lesson in stage.lessons(context) if lesson.name in given.lessons]
    names = [lesson.name for lesson in lessons]
    return lessons[names.index(resume["lesson"]) if resume else 0 :]


def stopped_at(when_s: float) -> None:
    """Ask this process to stop its lesson at that time, as a user who ends a run does."""
    signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    signal.setitimer(signal.ITIMER_REAL, max(1.0, when_s - time.monotonic()))


def _asked_beside(given: argparse.Namespace, agent: Agent, folder: Path) -> subprocess.Popen[bytes]:
    """Run exams in a separate process."""
    agent.save_pretrained(folder)
    words = ["examine", "--out", given.out, "--seed", given.seed, "--size", given.size, "--device", given.device]
    words += ["--work", given.work, *(["--data", given.data] if given.data else [])]
    words += ["--skills", *given.skills, *(["--whole", given.whole] if given.whole else [])]
    return subprocess.Popen([sys.executable, __file__, *map(str, words)], env=dict(os.environ))


def examine(given: argparse.Namespace) -> None:
    """Examine the agent in the folder `--work`."""
    torch.set_num_threads(1)
    context = context_of(given)
    agent = Agent.from_pretrained(given.work / "agent")
    if not given.whole:
        pass_by(agent.trunk.decoder)
    asked(given, place(agent, context.device), context)


def asked(given: argparse.Namespace, agent: Agent, context: Context) -> None:
    """Examine the skills, save in `exams` and print."""
    known = {skill.name: skill for skill in LanguageStage().skills}
    for name in given.skills:
        begun_s = time.monotonic()
        with examination(agent):
            measures = list(known[name].examine(agent, context, "retention"))
            run_exams.save(given.out / "exams" / name, "", {one.name: one for one in measures})
            print_measures(measures, begun_s)
            for measure in FURTHER if name == "follow" else ():
                measures.append(further(agent, context, measure))
                run_exams.save(given.out / "exams" / name, "", {one.name: one for one in measures})
                print_measures(measures[-1:], begun_s)


def print_measures(measures: list[Measure], begun_s: float) -> None:
    """Print a line for each measure."""
    for measure in measures:
        low, high = measure.interval(RESAMPLES)
        spent_s = time.monotonic() - begun_s
        print(
            f"  {measure.name}: {measure.score:.3f} [{low:.3f}, {high:.3f}] n={measure.n}, {spent_s:.0f} s", flush=True
        )


def compare(run: Path, twin: Path) -> None:
    """Print the paired differences of the common measures."""
    theirs = _kept(twin / "exams")
    mine = _kept(run / "exams")
    print("| measure | agent | twin | better by [95 %], paired | n |\n|---|---|---|---|---|")
    for name, found in differences(mine, theirs, RESAMPLES).items():
        print(
            f"| {name} | {mine[name].score:.3f} | {theirs[name].score:.3f} | {found['gained']:+.3f} "
            f"[{found['low']:+.3f}, {found['high']:+.3f}] | {found['n']} |"
        )


def _kept(folder: Path) -> dict[str, Measure]:
    """Measures of all exams in a folder, the latest where a skill has several."""
    found: dict[str, Measure] = {}
    for exam in sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime):
        if (weights := bundle.load(exam)["agent"]) is not None:
            found |= run_exams.load(exam, weights) or {}
    return found


if __name__ == "__main__":
    main()
