"""Checks for plugins, in this tree and in others, and small stand-ins for tests.

Each check states its law and raises `BrokenLawError` with the law's text and what was found. Heavy packages are
imported only when a check needs them.
"""

from devmind.testing.fakes import (
    LampRules,
    lamp_moments,
    short_session,
    tiny_agent,
    tiny_config,
    tiny_context,
)
from devmind.testing.laws import BrokenLawError
from devmind.testing.living import check_ability, check_director, check_voice
from devmind.testing.parts import check_head, check_learner
from devmind.testing.sensors import check_sensor
from devmind.testing.stages import check_episodes, check_stage
from devmind.testing.stores import check_store
from devmind.testing.worlds import check_world

__all__ = [
    "BrokenLawError",
    "LampRules",
    "check_ability",
    "check_director",
    "check_episodes",
    "check_head",
    "check_learner",
    "check_sensor",
    "check_stage",
    "check_store",
    "check_voice",
    "check_world",
    "lamp_moments",
    "short_session",
    "tiny_agent",
    "tiny_config",
    "tiny_context",
]
