"""The interval of a relative error is that of a ratio, whose two parts vary together."""

from __future__ import annotations

import numpy as np
import pytest

from devmind.curriculum.exam import Measure
from stages.reflex.foresee.exam import relative


def test_rows_that_change_much_do_not_widen_the_bounds_of_a_relative_error() -> None:
    rng = np.random.default_rng(2)
    change = rng.lognormal(0, 2, 1000)
    off = 0.9 * change * rng.uniform(0.9, 1.1, 1000)
    measure = Measure("m", "u", relative(off, change), 1.0, 0.0, higher_is_better=False)
    assert measure.score == pytest.approx(off.sum() / change.sum())
    drawn = rng.integers(0, 1000, (4000, 1000))
    ratios = off[drawn].sum(1) / change[drawn].sum(1)
    assert measure.interval() == pytest.approx(tuple(np.quantile(ratios, (0.025, 0.975))), abs=3e-3)


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_whoever_foresees_all_or_nothing_is_so_in_every_row(share: float) -> None:
    change = np.random.default_rng(3).lognormal(0, 2, 50)
    assert relative(share * change, change) == pytest.approx(np.full(50, share))
