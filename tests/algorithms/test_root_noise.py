"""Dirichlet noise and actions by temperature, against published values and NumPy's own draws."""

from __future__ import annotations

import numpy as np
import pytest

from devmind.algorithms.root_noise import by_temperature, dirichlet
from devmind.errors import ConfigError
from devmind.seeding import numpy_rng


def some_legal(n: int) -> np.ndarray:
    legal = numpy_rng("legal").random((n, 7)) < 0.5
    legal[np.arange(n), np.arange(n) % 7] = True
    return legal


@pytest.mark.parametrize("concentration", [10.0, 1.0, 1e-4])
def test_noise_sums_to_one_over_legal_actions_and_is_zero_elsewhere(concentration: float) -> None:
    legal = some_legal(500)
    noise = dirichlet(legal, numpy_rng("noise"), concentration)
    np.testing.assert_allclose(noise.sum(-1), 1)
    assert not noise[~legal].any()
    assert (noise >= 0).all()
    assert (noise[legal.sum(-1) == 1].max(-1) == 1).all()
    assert np.array_equal(noise, dirichlet(legal, numpy_rng("noise"), concentration))


@pytest.mark.parametrize("able", [2, 7, 40])
def test_noise_has_the_moments_of_the_dirichlet_distribution(able: int) -> None:
    """For n actions with 10 / n each: mean 1 / n, variance (1 / n) (1 - 1 / n) / (10 + 1), as in NumPy's draws."""
    n, rows = able + 3, 20_000
    noise = dirichlet(np.broadcast_to(np.arange(n) < able, (rows, n)), numpy_rng("moments"))[:, :able]
    own = numpy_rng("numpy").dirichlet(np.full(able, 10 / able), rows)
    variance = (1 / able) * (1 - 1 / able) / 11
    for drawn in (noise, own):
        np.testing.assert_allclose(drawn.mean(0), 1 / able, atol=5 * np.sqrt(variance / rows))
        np.testing.assert_allclose(drawn.var(0), variance, rtol=0.1)
    levels = [0.1, 0.25, 0.5, 0.75, 0.9]
    np.testing.assert_allclose(np.quantile(noise[:, 0], levels), np.quantile(own[:, 0], levels), atol=0.01)


def test_temperature_0_takes_the_highest_weight_and_the_lowest_index_of_equals() -> None:
    weights = np.array([[1, 5, 2], [3, 0, 3], [0, 0, 1], [4, 4, 4]])
    for seed in range(20):
        assert by_temperature(weights, 0.0, numpy_rng("choice", seed)).tolist() == [1, 0, 2, 0]


@pytest.mark.parametrize(("temperature", "power"), [(1.0, 1.0), (0.5, 2.0), (2.0, 0.5)])
def test_temperature_draws_in_proportion_to_powers_of_the_weights(temperature: float, power: float) -> None:
    weights, rows = np.array([0.0, 1.0, 3.0, 0.0, 6.0, 0.0]), 40_000
    drawn = by_temperature(np.tile(weights, (rows, 1)), temperature, numpy_rng("proportional"))
    wanted = weights**power / (weights**power).sum()
    got = np.bincount(drawn, minlength=6) / rows
    assert not got[weights == 0].any()
    np.testing.assert_allclose(got, wanted, atol=5 * np.sqrt(0.25 / rows))


def test_every_row_has_its_own_temperature() -> None:
    weights = np.tile([2.0, 1.0, 4.0], (3000, 1))
    heat = np.repeat([0.0, 1.0, 1e-3], 1000)
    drawn = by_temperature(weights, heat, numpy_rng("rows"))
    assert (drawn[heat < 1] == 2).all()
    assert len(np.unique(drawn[heat == 1])) == 3


def test_impossible_draws_raise_clear_errors() -> None:
    legal = np.array([[True, False], [False, False]])
    with pytest.raises(ConfigError, match="row 1 has none: leave out what has ended"):
        dirichlet(legal, numpy_rng("x"))
    with pytest.raises(ConfigError, match="above 0, such as 10; got 0"):
        dirichlet(legal[:1], numpy_rng("x"), 0.0)
    with pytest.raises(ConfigError, match="or above; got -1"):
        by_temperature(np.ones((2, 2)), np.array([0.0, -1.0]), numpy_rng("x"))
    with pytest.raises(ConfigError, match="row 1 has none above 0"):
        by_temperature(np.array([[1.0, 0.0], [0.0, 0.0]]), 1.0, numpy_rng("x"))
