"""The plan that an agent follows, for the page to draw into the picture."""

from __future__ import annotations

from typing import Any

import numpy as np

from devmind.agent.agent import StepOutput
from devmind.agent.plans import Plan


def view_plan(output: StepOutput, height: int, width: int) -> dict[str, Any] | None:
    """The plan of the first head that decided in this tick and follows one; None without one.

    It has the `head`, its `effector`, and `points` of `x` and `y` as fractions of a frame of this size (below 0 or
    above 1 outside it), each with its `word` and whether a hand is `closed` after it. It also has `at`, the number of
    the next point, `now` as x and y, `share` and `number` (see `Plan`).
    """
    for effector, name in output.decided():
        plan = output.outputs[name].planned(0) if name in output.outputs else None
        if plan is not None:
            return {"head": name, "effector": effector, **_drawable(plan, width / height)}
    return None


def _drawable(plan: Plan, ratio: float) -> dict[str, Any]:
    places = _fractions(plan.points_halfwidths, ratio)
    now = plan.now_halfwidths
    return {
        "points": [
            {"x": x, "y": y, "word": word, "closed": bool(closed)}
            for (x, y), word, closed in zip(places, plan.words, plan.grips, strict=True)
        ],
        "at": plan.at,
        "now": None if now is None else _fractions(now[None], ratio)[0],
        "share": None if plan.share is None else round(plan.share, 3),
        "number": plan.number,
    }


def _fractions(halfwidths: np.ndarray, ratio: float) -> list[list[float]]:
    """Places [K, 2], in halves of a picture's width from its middle, as fractions of its width and height."""
    fractions = 0.5 + 0.5 * np.asarray(halfwidths, np.float64) * (1.0, ratio)
    return [[round(float(x), 4), round(float(y), 4)] for x, y in fractions]
