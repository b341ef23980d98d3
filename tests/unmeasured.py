"""What stands in the place of measuring a machine's speed in tests: nothing but the forecast that a run prints uses it.

A run measures the machine for 0.3 s and teaches each of its lessons for some steps, on an agent that it throws away,
before it begins. Of a run of two short lessons that was half of the time, and of a first run of `reflex` most of it.
`tests/curriculum/test_measuring.py` asks what is measured; `tests/curriculum/test_plan.py` and the first run of
docs/raise-one.md still measure as everybody does (`measured`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from devmind.curriculum import machine, plan

if TYPE_CHECKING:
    import pytest

PRODUCTS_S, STEP_S = machine.PRODUCTS_S, plan.step_s


def patched(patch: pytest.MonkeyPatch) -> None:
    """A step of every lesson takes a second, and of the machine's products five are timed."""
    patch.setattr(machine, "PRODUCTS_S", 0.0)
    patch.setattr(plan, "step_s", lambda *_: 1.0)


def measured(patch: pytest.MonkeyPatch) -> None:
    """Both are measured, as they are for everybody."""
    patch.setattr(machine, "PRODUCTS_S", PRODUCTS_S)
    patch.setattr(plan, "step_s", STEP_S)
