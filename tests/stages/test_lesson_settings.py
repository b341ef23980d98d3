"""Every lesson of every stage takes the settings that a configuration gives it, or refuses them."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from devmind.curriculum.stage import check_lessons
from devmind.errors import ConfigError
from devmind.testing import tiny_agent, tiny_context

RATE = 1.25e-5
STAGES = ("reflex", "memory", "language", "reasoning", "planning", "voice")


def stage_of(name: str) -> Any:
    return getattr(import_module(f"stages.{name}.stage"), f"{name.title()}Stage")()


@pytest.mark.parametrize("name", STAGES)
def test_a_learning_rate_reaches_the_learner_or_is_refused(name: str, tmp_path: Path) -> None:
    """Those of `together`, `motor` and each `review` were ignored."""
    stage, agent = stage_of(name), tiny_agent()
    for earlier in STAGES[: STAGES.index(name) + 1]:
        stage_of(earlier).admit(agent)
    for lesson in stage.lessons(tiny_context(tmp_path)):
        context = tiny_context(tmp_path, f"lessons.{lesson.name}.learning_rate={RATE}")
        if "learning_rate" not in lesson.settings:
            with pytest.raises(ConfigError, match=f"'{lesson.name}' has no learning_rate that can be set"):
                check_lessons([stage], context)
            continue
        check_lessons([stage], context)
        (said,) = (one for one in stage.lessons(context) if one.name == lesson.name)
        learner: Any = said.make_learner(agent, context)
        assert learner.learning_rate == RATE, lesson.name
