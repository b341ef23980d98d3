"""What the page is told of the agent's beliefs: where it thinks each thing is in the frame, and which it has lost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from devmind.agent.beliefs import Beliefs
from devmind.agent.tracking import project
from devmind.sessions.pictures import WIDE_HALF_DEG

TOLD = 0.2
"""Share of belief, of being there or elsewhere, below which a thing is as good as forgotten."""
LOST = 0.5
"""Share of belief that a thing is elsewhere from which it counts as lost."""


def believed(beliefs: Beliefs | None, labels: Sequence[str], height: int, width: int) -> list[dict[str, Any]] | None:
    """The beliefs of one agent, those seen last first; None where it keeps none up.

    Each has its class's `name`, `x` and `y` as fractions of a frame of this size (what lies beyond its edge stands at
    the edge, and `beyond` is true), the `radius` of its uncertainty as a fraction of the width, `there` (the share of
    belief that it is there), `age_s`, `in_sight` and `lost`.
    """
    if beliefs is None:
        return None
    told = beliefs.used[0] & (beliefs.hits[0] > 1) & (beliefs.there[0] + beliefs.elsewhere[0] >= TOLD)
    level = np.zeros(1)
    column, row, ahead = (value[0] for value in project(beliefs.mean[:1], level, level, WIDE_HALF_DEG))
    shown = []
    for slot in sorted(np.flatnonzero(told), key=lambda slot: beliefs.age_s[0, slot]):
        side, down = column[slot], row[slot] * width / height
        if not np.isfinite(side):  # behind: at the edge to which the head would turn
            side, down = -np.copysign(2.0, beliefs.mean[0, slot, 1]), 0.0
        shown.append(
            {
                "name": labels[beliefs.kind[0, slot]],
                "x": round(float(np.clip(side, -1, 1) + 1) / 2, 4),
                "y": round(float(np.clip(down, -1, 1) + 1) / 2, 4),
                "beyond": bool(abs(side) > 1 or abs(down) > 1),
                "radius": round(_radius(beliefs.spread_m[0, slot], beliefs.size_m[0, slot], ahead[slot]), 4),
                "there": round(float(beliefs.there[0, slot]), 3),
                "age_s": round(float(beliefs.age_s[0, slot]), 1),
                "in_sight": bool(beliefs.in_sight[0, slot]),
                "lost": bool(beliefs.elsewhere[0, slot] >= LOST),
            }
        )
    return shown


def _radius(spread_m: float, size_m: float, ahead_m: float) -> float:
    """Half the thing and one standard deviation as a fraction of the frame's width, kept between what can be seen and
    a quarter of it."""
    across = 2 * np.tan(np.deg2rad(WIDE_HALF_DEG)) * max(ahead_m, 0.1)
    return float(np.clip((spread_m + size_m / 2) / across, 0.02, 0.25))
