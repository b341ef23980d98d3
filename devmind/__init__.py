"""devmind raises one multimodal agent through developmental stages, and examines at every gate what it has learned.

Names are imported on first use, so `import devmind` itself is fast:

    agent = devmind.Agent.from_pretrained("newborn")  # or the folder of a milestone
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from devmind.acting.actor import Actor
    from devmind.acting.rollout import rollout
    from devmind.agent.agent import Agent
    from devmind.config import RunConfig
    from devmind.curriculum.runner import examine, run_stage
    from devmind.moment import Action, Moment
    from devmind.sessions import Recorder, import_media, open_session
    from devmind.worlds import make as make_world

_NAMES = {
    "Action": ("devmind.moment", "Action"),
    "Actor": ("devmind.acting.actor", "Actor"),
    "Agent": ("devmind.agent.agent", "Agent"),
    "Moment": ("devmind.moment", "Moment"),
    "Recorder": ("devmind.sessions", "Recorder"),
    "RunConfig": ("devmind.config", "RunConfig"),
    "examine": ("devmind.curriculum.runner", "examine"),
    "import_media": ("devmind.sessions", "import_media"),
    "make_world": ("devmind.worlds", "make"),
    "open_session": ("devmind.sessions", "open_session"),
    "rollout": ("devmind.acting.rollout", "rollout"),
    "run_stage": ("devmind.curriculum.runner", "run_stage"),
}

__all__ = [
    "Action", "Actor", "Agent", "Moment", "Recorder", "RunConfig", "examine", "import_media", "make_world",
    "open_session", "rollout", "run_stage",
]  # fmt: skip


if "DEVMIND_SKIPS_UNREADABLE" in os.environ:  # the process that started this one has found a broken neighbour
    from devmind.plugins import skip_unreadable

    skip_unreadable()


def __getattr__(name: str) -> Any:
    """Import a public name, or read the installed version, when it is asked for."""
    if name == "__version__":
        from importlib.metadata import version

        return version("devmind")
    if name not in _NAMES:
        raise AttributeError(f"module 'devmind' has no attribute '{name}'")
    module, attribute = _NAMES[name]
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
