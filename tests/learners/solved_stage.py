"""The stage voice with its lesson `kinds` alone, which is solved in closed form, for a newborn agent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from devmind.curriculum import machine, plan
from devmind.curriculum.stage import Context, Lesson
from stages.voice.stage import VoiceStage
from tests.curriculum import short

LESSON, SKILL, STEPS = "kinds", "sounds", 12


class SolvedStage(short.Short):
    """Voice, of which only `kinds` is taught and `sounds` examined, and which needs no earlier stage."""

    requires = ()

    def __init__(self, stage: Any) -> None:
        super().__init__(stage)
        self.skills = [short._alone(skill) for skill in stage.skills if skill.name == SKILL]

    def lessons(self, context: Context) -> Sequence[Lesson]:
        """The lesson, cut to some steps."""
        return [replace(one, steps=STEPS) for one in self.stage.lessons(context) if one.name == LESSON]


def __getattr__(name: str) -> SolvedStage:
    """The entry point that `installed` writes leads here."""
    if name != "voice":
        raise AttributeError(name)
    plan.step_s, machine.PRODUCTS_S = lambda *_: 1.0, 0.0  # only the forecast depends on the machine's speed
    return SolvedStage(VoiceStage())


def installed(site: Path, root: Path) -> dict[str, str]:
    """An environment whose processes find this stage in place of voice."""
    env = short.installed(site, root)
    [points] = site.glob("*/entry_points.txt")
    points.write_text(points.read_text().replace(f"{short.__name__}:voice", f"{__name__}:voice"))
    return env
