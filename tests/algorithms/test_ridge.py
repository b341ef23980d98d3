"""Ridge against numpy's solver, scikit-learn, and refits that leave out each example in turn."""

import numpy as np
import pytest
from sklearn.linear_model import RidgeClassifierCV, RidgeCV
from sklearn.preprocessing import StandardScaler

from devmind.algorithms.ridge import PENALTIES, fit_ridge, fit_ridge_classifier
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


@pytest.mark.parametrize(("n", "d"), [(60, 8), (20, 50)])
def test_penalty_and_predictions_equal_scikit_learn(n, d):
    x, y = data(n, d, noise=2.0)
    fitted = fit_ridge(x, y)
    scaler = StandardScaler().fit(x)
    theirs = RidgeCV(alphas=PENALTIES).fit(scaler.transform(x), y)
    assert fitted.penalty == pytest.approx(theirs.alpha_)
    np.testing.assert_allclose(fitted.predict(x), theirs.predict(scaler.transform(x)), atol=1e-8)


def test_chosen_penalty_is_the_best_of_leave_one_out_refits():
    x, y = data(14, 5, k=1, noise=3.0)
    x = (x - x.mean(0)) / x.std(0)

    def left_out_error(penalty):
        total = 0.0
        for i in range(len(x)):
            keep = np.arange(len(x)) != i
            a = np.hstack([x[keep], np.ones((len(x) - 1, 1))])
            w = np.linalg.solve(a.T @ a + penalty * np.diag([1.0] * 5 + [0.0]), a.T @ y[keep])
            total += ((y[i] - np.append(x[i], 1) @ w) ** 2).sum()
        return total

    assert fit_ridge(x, y).penalty == min(PENALTIES, key=left_out_error)


def test_classifier_equals_scikit_learn_and_keeps_its_labels():
    rng = np.random.default_rng(1)
    labels = np.array(["cat", "dog", "owl"])[np.arange(90) % 3]
    x = rng.normal(size=(90, 6)) + (np.arange(90) % 3)[:, None] * rng.normal(size=6)
    fitted = fit_ridge_classifier(x, labels)
    scaler = StandardScaler().fit(x)
    theirs = RidgeClassifierCV(alphas=PENALTIES).fit(scaler.transform(x), labels)
    assert fitted.penalty == pytest.approx(theirs.alpha_)
    assert (fitted.predict(x) == theirs.predict(scaler.transform(x))).all()
    np.testing.assert_allclose(fitted.scores(x), theirs.decision_function(scaler.transform(x)), atol=1e-8)


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
