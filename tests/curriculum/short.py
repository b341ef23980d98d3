"""The installed stages, shortened for childhoods that are killed again and again; nothing in them is simulated.

Some lessons of every stage run for `STEPS` steps, with their own learners, batches and rehearsals; that each lesson of
all goes on exactly where it was is a law of its stage (`check_learner`). Only short exams are held, and only of the
agent, without floors. One batch of each earlier lesson shows that earlier stages are untouched. The speed of the
machine is not measured, because only the forecast depends on it. Nothing waits for the disk, because a kill loses no
written data. `installed` replaces the stages by their short versions in processes with its environment.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import distribution, distributions
from pathlib import Path
from typing import Any

from devmind import plugins
from devmind.agent.agent import Agent
from devmind.curriculum import machine, plan, untouched
from devmind.curriculum.exam import Exam
from devmind.curriculum.stage import Context, Lesson, Skill, Stage
from tests import unsynced

PACKAGE, GROUP = "devmind", "devmind.stages"
STEPS = 2
EXAMS = frozenset(
    {
        *("hear", "bind", "foresee"),
        "match",
        *("grammar", "name"),
        "explain",
        "criticise",
        *("hear_words", "sounds"),
    }
)
"""Examined skills; each stage has at least one."""
LESSONS = frozenset(
    {
        *("perceive", "motor", "together"),
        *("fetch", "tests", "match"),
        *("read", "call"),
        *("navigate", "othello", "explain"),
        *("route", "criticise"),
        *("sounds", "words"),
    }
)
"""Taught lessons; each stage has at least two, and what trains the trunk rehearses what came before."""
OPTIONS = ("--set", "exam.episodes_scale=0.01")


class Short:
    """A stage with a few steps of some lessons and some of its exams; everything else is unchanged."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.skills = [_alone(skill) for skill in stage.skills if skill.name in EXAMS]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stage, name)

    def lessons(self, context: Context) -> Sequence[Lesson]:
        """Those of `LESSONS`."""
        return [
            replace(
                lesson,
                steps=min(STEPS, lesson.steps),
                skills=tuple(skill for skill in lesson.skills if skill in EXAMS),
                rehearses=tuple(name for name in lesson.rehearses if name in LESSONS),
            )
            for lesson in self.stage.lessons(context)
            if lesson.name in LESSONS
        ]


def _alone(skill: Skill) -> Skill:
    """The skill without the floors of its exam, as when a later stage examines retention."""

    def examine(agent: Agent, context: Context) -> Exam:
        return Exam(skill.examine(agent, context).alone())

    return replace(skill, examine=examine)


def __getattr__(name: str) -> Short:
    """The short stage of this name; the entry points that `installed` writes lead here."""
    every = [point for one in distributions(name=PACKAGE) for point in one.entry_points.select(group=GROUP, name=name)]
    real = [point for point in every if not point.value.startswith(__name__)]
    if not real:
        raise AttributeError(name)
    plan.step_s, machine.PRODUCTS_S, untouched.BATCHES = lambda *_: 1.0, 0.0, 1
    os.fsync = unsynced.fsync
    return Short(real[0].load()())


def installed(site: Path, root: Path) -> dict[str, str]:
    """Make a package in the folder `site` that stands in devmind's place, with the short stages and all other plugins;
    return an environment that finds it first.
    """
    real = distribution(PACKAGE)
    info = site / f"{PACKAGE}-{real.version}.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: {real.version}\n")
    points = [
        f"[{one.group}]\n{one.name} = {f'{__name__}:{one.name}' if one.group == GROUP else one.value}\n"
        for one in real.entry_points
    ]
    # A short stage's class does not name parts, so they get entry points.
    points += [f"[devmind.parts]\n{one.name} = {one.value}\n" for one in plugins.available("parts").values()]
    (info / "entry_points.txt").write_text("".join(sorted({*points})))
    # Processes also find the packages on the caller's path, in case nothing can be installed.
    path = os.pathsep.join([str(site), str(root), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
