"""The error of a check: the broken law first, then what was found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

ATOL = 1e-5
"""How far two ways of computing the same float32 features may differ (the law of the trunk).

Stepping and all at once, or a row alone and beside others, are other shapes. For another shape a library may choose
another kernel, which adds in another order: on some processors and not on others. Each way of a tiny agent's trunk is
up to 1.8e-6 away from float64, on features of up to 3, so two ways can be twice that apart.
"""


class BrokenLawError(AssertionError):
    """A plugin breaks the law of its contract; the text names the law and what was found."""


def require(holds: bool, law: str, found: str) -> None:
    """Raise BrokenLawError unless `holds`."""
    if not holds:
        raise BrokenLawError(f"Law: {law}. Found: {found}.")


def difference(a: Mapping[str, Any], b: Mapping[str, Any], tolerance: Mapping[str, float] | None = None) -> str:
    """Where two mappings of arrays (or texts) differ, in words; '' if they are equal.

    Arrays must agree in dtype, shape and every bit; a name in `tolerance` may differ by that much.
    """
    if a.keys() != b.keys():
        return f"the names differ: {sorted(a)} and {sorted(b)}"
    for name, left in a.items():
        one, other = np.asarray(left), np.asarray(b[name])
        if (one.dtype, one.shape) != (other.dtype, other.shape):
            return f"'{name}' is {one.dtype} {list(one.shape)} and {other.dtype} {list(other.shape)}"
        if one.dtype.kind != "f":
            if not np.array_equal(one, other):
                return f"'{name}' differs in {int(np.sum(one != other))} of {one.size} values"
            continue
        allowed = (tolerance or {}).get(name, 0.0)
        unlike = (one != other) & ~(np.isnan(one) & np.isnan(other))
        worst = float(np.max(np.abs(one[unlike].astype(np.float64) - other[unlike]), initial=0.0))
        if not worst <= allowed:  # NaN beside a number gives NaN
            return f"'{name}' differs by up to {worst:.3g} (allowed {allowed:g})"
    return ""
