"""Ridge against numpy's solver; which penalty leaves least error is scikit-learn's to test."""

import numpy as np
import pytest

from devmind.algorithms.ridge import fit_ridge, fit_ridge_classifier
from devmind.errors import DevmindError


def data(n, d, k=2, noise=0.5, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d)) * rng.uniform(0.1, 20, d) + rng.normal(size=d) * 5
    return x, x @ rng.normal(size=(d, k)) / 10 + 3 + noise * rng.normal(size=(n, k))


@pytest.mark.parametrize(("n", "d"), [(60, 8), (20, 50)])
def test_weights_equal_the_normal_equations(n, d):
    x, y = data(n, d)
    fitted = fit_ridge(x, y, penalty=2.5)
    z = (x - x.mean(0)) / x.std(0)
    weights = np.linalg.solve(z.T @ z + 2.5 * np.eye(d), z.T @ (y - y.mean(0)))
    np.testing.assert_allclose(fitted.predict(x), z @ weights + y.mean(0), atol=1e-9)
    np.testing.assert_allclose(fitted.weights * x.std(0)[:, None], weights, atol=1e-9)


def test_classifier_answers_the_class_of_the_highest_score_with_its_label():
    rng = np.random.default_rng(1)
    labels = np.array(["cat", "dog", "owl"])[np.arange(90) % 3]
    x = rng.normal(size=(90, 6)) + (np.arange(90) % 3)[:, None] * rng.normal(size=6)
    fitted = fit_ridge_classifier(x, labels)
    scores = fit_ridge(x, np.where(labels[:, None] == ["cat", "dog", "owl"], 1.0, -1.0)).predict(x)
    np.testing.assert_allclose(fitted.scores(x), scores, atol=1e-9)
    assert (fitted.predict(x) == np.array(["cat", "dog", "owl"])[scores.argmax(1)]).all()
    assert (fitted.predict(x) == labels).mean() > 0.6


def test_constant_features_get_no_weight_and_one_dimensional_targets_work():
    x, y = data(30, 3, k=1)
    widened = np.hstack([x, np.full((30, 1), 0.1)])
    fitted = fit_ridge(widened, y[:, 0], penalty=1.0)
    assert fitted.weights[3] == 0
    np.testing.assert_allclose(fitted.predict(widened), fit_ridge(x, y, penalty=1.0).predict(x))


@pytest.mark.parametrize(
    ("x", "y", "penalty", "says"),
    [
        (np.ones((3, 2)), np.ones(4), None, "same n"),
        (np.ones((1, 2)), np.ones(1), None, "n >= 2"),
        (np.full((3, 2), np.nan), np.ones(3), None, "finite"),
        (np.ones((3, 2)), np.ones(3), 0.0, "above 0"),
    ],
)
def test_errors_name_the_invalid_input(x, y, penalty, says):
    with pytest.raises(DevmindError, match=says):
        fit_ridge(x, y, penalty)


def test_one_class_is_refused():
    with pytest.raises(DevmindError, match="two classes"):
        fit_ridge_classifier(np.ones((3, 2)), np.zeros(3))
