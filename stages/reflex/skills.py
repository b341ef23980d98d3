"""The nine skills of the stage, each with its exam and its gate."""

from __future__ import annotations

from devmind.curriculum.stage import Skill
from stages.reflex import see

SKILLS = (Skill("see", see.examine, see.gate, "unseen handwritten digits"),)
