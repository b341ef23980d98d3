"""Runs a study: every leg of every seed is an ordinary stage run in its own folder, so nothing is done twice."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import as_completed
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from devmind import bounds
from devmind.agent.agent import Agent
from devmind.checkpointing.files import make_folder, sha256, write_atomically
from devmind.curriculum.ablation import fresh_parts
from devmind.curriculum.cluster import HERE, Cluster
from devmind.curriculum.finished import RunResult
from devmind.curriculum.pinned import versions
from devmind.curriculum.plan import LessonPlan
from devmind.curriculum.progress import say
from devmind.curriculum.ranks import ENDS
from devmind.curriculum.results import commit
from devmind.curriculum.runner import in_order
from devmind.curriculum.stage import Lesson, Stage
from devmind.curriculum.stage_run import StageRun
from devmind.curriculum.start import load_stage
from devmind.curriculum.study.arms import StudyPlan, plan
from devmind.curriculum.study.course import Course, Leg, Unexamined
from devmind.curriculum.study.file import Study
from devmind.errors import ConfigError, ExamError

FROZEN = "frozen.json"
PAUSE_S = 0.2


class LegRun(StageRun):
    """The run of a leg. Its steps come from the study, its speed is not measured, earlier stages are not examined, and
    its agent is no milestone that other runs would find.
    """

    leg: Leg

    def _earlier(self, agent: Agent) -> list[Stage]:
        return [Unexamined(stage) for stage in super()._earlier(agent)] if self.leg.rehearse else []

    def _check_lessons(self) -> None:
        """Do nothing: `plan` has checked the study's file against all its stages, of which this leg teaches some."""

    def _settle(self, plan: LessonPlan, left: Sequence[Lesson], saved: dict[str, Any] | None) -> None:
        plan.fix(Agent.from_pretrained(self.out / "start"))

    def _ends_in(self, agent: Agent, passed: bool) -> Path:
        return self.out / "agent"


class StudyRun:
    """Begins or continues a study in the folder `out`.

    Raises:
        ConfigError: there are fewer than two seeds, or the folder's study began with another file, other code, other
            packages, other gates or other seeds.
    """

    def __init__(self, study: Study, seeds: Sequence[int], out: Path, command: str = "") -> None:
        self.study, self.seeds, self.out, self.command = study, tuple(seeds), Path(out), command
        if len(set(self.seeds)) < 2:
            raise ConfigError(
                f"A study needs at least two seeds, because it compares differences with their spread over seeds; got "
                f"{', '.join(map(str, self.seeds)) or 'none'}. Give --seeds 100-104, for example."
            )
        self.plan: StudyPlan = plan(study)

    # -- what is fixed before the first step

    def freeze(self) -> dict[str, Any]:
        """What the folder's study depends on, written before its first run and never changed."""
        now = self._stands_on()
        path = self.out / FROZEN
        if not path.is_file():
            make_folder(self.out)
            made = now | {"begun": datetime.now(UTC).isoformat(timespec="seconds"), "command": self.command}
            write_atomically(path, json.dumps(made, indent=1) + "\n")
            return made
        sentence = f"'{path}' is damaged ({{}}); put back a copy of it, or begin anew with another --out."
        begun: dict[str, Any] = bounds.parse_json(bounds.read_file(path, ConfigError), ConfigError, sentence)
        for key, what in (
            ("file_sha256", f"The file of study '{self.study.name}' has changed"),
            ("code_sha256", "The code has changed"),
            ("versions", "The installed packages have changed"),
            ("gates", "The gates have changed"),
            ("seeds", "The seeds have changed"),
        ):
            if begun[key] != now[key]:
                raise ConfigError(
                    f"{what} since the study in {self.out} was begun ({_short(begun[key])}, now {_short(now[key])}); "
                    "what was fixed beforehand holds for all of its runs. Continue with what it began with, or begin "
                    "another study with another --out."
                )
        return begun

    def _stands_on(self) -> dict[str, Any]:
        return {
            "study": self.study.name,
            "file_sha256": self.study.sha256,
            "code_sha256": code_sha256(self.study.file.stages),
            "commit": commit(),
            "versions": versions(),
            "seeds": list(self.seeds),
            "gates": self.plan.gates(self.study),
            "steps": {name: dict(leg.steps) for name, leg in self.plan.legs.items()},
            "arms": {name: list(legs) for name, legs in self.plan.arms.items()},
        }

    # -- the runs

    def run(self, jobs: int = 1, on: str = HERE) -> None:
        """Make all runs that are missing, for `jobs` seeds at a time, or on a cluster as many as it has cores.

        Raises:
            ExamError: a seed's process failed, or a machine of the cluster does not have the study's folder.
        """
        self.freeze()
        if on != HERE:
            self._run_on(on)
            return
        if jobs == 1:
            for seed in self.seeds:
                self.run_seed(seed)
            return
        _beside_each_other([self._command(seed) for seed in self.seeds], jobs)

    def run_seed(self, seed: int) -> dict[str, RunResult]:
        """Make the runs of one seed, one after another; returns them by leg."""
        self.freeze()
        done: dict[str, RunResult] = {}
        for number, leg in enumerate(self.plan.legs.values(), 1):
            say(f"study {self.study.name}, seed {seed}: {leg.name}, run {number} of {len(self.plan.legs)}")
            done[leg.name] = self._leg(leg, seed, done[leg.before].agent if leg.before else None)
        return done

    def folder(self, leg: str, seed: int) -> Path:
        """The folder of a run."""
        return self.out / f"seed{seed}" / leg

    def _leg(self, leg: Leg, seed: int, agent: Path | None) -> RunResult:
        out = self.folder(leg.name, seed)
        if leg.fresh and agent:
            begun = out / "begun"
            if not (begun / "checksums.json").is_file():
                make_folder(out)
                fresh_parts(agent, begun, leg.fresh)
            agent = begun
        run = LegRun(
            Course(leg, self.plan.examined(leg)), self.study.config.model_copy(update={"seed": seed}), out, agent, None,
            (), self.command, ablate=False,
        )  # fmt: skip
        run.leg = leg
        return run.run()

    def _run_on(self, on: str) -> None:
        frozen = sha256(self.out / FROZEN)
        with closing(Cluster(on, {})) as cluster:
            runs = [cluster.submit(_seed_there, self._command(seed), self.out.resolve(), frozen) for seed in self.seeds]
            for done in as_completed(runs):
                cluster.result(done)

    def _command(self, seed: int) -> list[str]:
        """The command that makes the runs of one seed in a new process."""
        start, typed = "from devmind.cli import main; main()", shlex.split(self.command)[1:]
        at = {place for place, word in enumerate(typed) if word == "--on"}
        here = [word for place, word in enumerate(typed) if not {place, place - 1} & at and word[:5] != "--on="]
        return [sys.executable, "-c", start, *here, "--out", str(self.out.resolve()), "--only", str(seed)]


def code_sha256(stages: Iterable[str]) -> str:
    """SHA-256 over the sources of devmind and of the packages of `stages` and of the stages that they require."""
    homes = {Path(__file__).parents[2]} | {_home(type(load_stage(name)).__module__) for name in in_order(list(stages))}
    digest = hashlib.sha256()
    for home in sorted(homes):
        for path in sorted(home.rglob("*.py")) if home.is_dir() else [home]:
            digest.update(f"{home.name}/{path.relative_to(home)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _home(module: str) -> Path:
    """Where a stage's code is: devmind's own have a folder each; of others it is the whole package, which also has the
    worlds and heads that the stage uses, or the one file.
    """
    file, top = Path(sys.modules[module].__file__ or ""), module.partition(".")[0]
    whole = sys.modules[top].__file__
    if top == "stages" or whole is None:  # a namespace package, which others may share
        return file.parent
    return Path(whole).parent if Path(whole).name == "__init__.py" else file


def _short(value: Any) -> str:
    if isinstance(value, str):
        return value[:12]
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def _seed_there(command: Sequence[str], out: Path, frozen: str) -> None:
    """On a machine of a cluster: make the runs of one seed, in the study's folder that all machines share."""
    if not (out / FROZEN).is_file() or sha256(out / FROZEN) != frozen:
        raise ExamError(
            f"The machine {socket.gethostname()} does not have the study's folder {out}, in which its results would be "
            "written; give --out a folder that all machines of the cluster share."
        )
    _beside_each_other([[sys.executable, *command[1:]]], 1)


def _beside_each_other(commands: Sequence[list[str]], jobs: int) -> None:
    """Run processes, `jobs` at a time; they end with this one, however it ends.

    Raises:
        ExamError: one of them failed; those that were running have ended, and no more were begun.
    """
    waiting, failed = list(commands), 0
    running: list[subprocess.Popen[bytes]] = []
    try:
        while running or (waiting and not failed):
            while waiting and len(running) < jobs and not failed:
                running.append(subprocess.Popen(waiting.pop(0), stdin=subprocess.PIPE, env={**os.environ, ENDS: "1"}))
            time.sleep(PAUSE_S)
            ended = [code for one in running if (code := one.poll()) is not None]
            failed = failed or next((code for code in ended if code), 0)
            running = [one for one in running if one.returncode is None]
    finally:
        for one in running:
            one.terminate()
        for one in running:
            one.wait()
    if failed:
        raise ExamError(f"A process of the study ended with exit code {failed}; the same command continues the study.")
