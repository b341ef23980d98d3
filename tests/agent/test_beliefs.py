"""Beliefs about where things are: they sharpen when seen, spread when unseen, and fade if a look finds nothing."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from devmind.agent.output import Detections
from devmind.agent.tracker import (
    Beliefs,
    FilterParams,
    Gaze,
    direction,
    greedy_assignment,
    kalman_update,
    no_beliefs,
    numbers_of,
    point,
    polar_noise,
    project,
    recall,
    shares,
    update,
)
from devmind.agent.tracker import entries as entries_of
from devmind.errors import ConfigError

DT_S = 0.1
CLASSES = 8
BELIEF_NUMBERS = numbers_of(CLASSES)
FAR, NEAR = 5.0, 0.6


def seen(*things: tuple[int, float, float], n: int = 1, sure: float = 0.98) -> Detections:
    """N children that all see (kind, azimuth_deg, distance_m) at eye level."""
    rows = np.array(things, float).reshape(-1, 3)
    kind, azimuth, distance = (np.tile(column, (n, 1)) for column in rows.T)
    here = np.ones_like(kind, bool)
    return Detections(here, kind.astype(int), azimuth, np.zeros_like(azimuth), distance, np.full(kind.shape, sure))


def nothing(n: int = 1) -> Detections:
    return seen(n=n)


def gaze(pan_deg: float = 0.0, depth_m: float = FAR, known: bool = True, n: int = 1, lean_m: float = 0.0) -> Gaze:
    eye = np.zeros((n, 3))
    eye[:, 0] = lean_m
    return Gaze(np.full(n, pan_deg), np.zeros(n), eye, np.full((n, 8, 8), depth_m), np.full(n, known))


def entries(beliefs: Beliefs) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return entries_of(beliefs, CLASSES)


def after(beliefs: Beliefs, what: Detections, look: Gaze, ticks: int) -> Beliefs:
    for _ in range(ticks):
        beliefs = update(beliefs, what, look, DT_S)
    return beliefs


def red_ahead() -> Beliefs:
    return after(no_beliefs(1), seen((0, 10.0, 1.5)), gaze(depth_m=1.5), 5)


def test_two_detections_make_a_belief_and_one_does_not() -> None:
    once = after(no_beliefs(1), seen((0, 10.0, 1.5)), gaze(), 1)
    assert not entries(once)[2].any()
    values, age_s, valid = entries(red_ahead())
    assert valid.sum() == 1
    assert values.shape == (1, 8, BELIEF_NUMBERS)
    azimuth, _, distance = direction(red_ahead().mean[0, 0])
    assert abs(azimuth - 10) < 0.5
    assert abs(distance - 1.5) < 0.02
    assert age_s[0, 0] == 0
    gone = after(once, nothing(), gaze(known=False), 12)
    assert not gone.used.any()


def test_belief_is_never_certain() -> None:
    surest = FilterParams().surest
    assert surest < 1
    long = after(no_beliefs(1), seen((0, 10.0, 1.5)), gaze(depth_m=1.5), 60)
    assert long.there[0, 0] == pytest.approx(surest)


def test_new_thing_takes_the_place_of_an_unconfirmed_belief_before_that_of_a_confirmed_one() -> None:
    beliefs = after(no_beliefs(1, things=2), seen((0, 10.0, 1.5)), gaze(), 5)
    beliefs = after(beliefs, nothing(), gaze(known=False), 3)
    beliefs = update(beliefs, seen((1, -10.0, 1.5)), gaze(), DT_S)
    assert sorted(beliefs.kind[0].tolist()) == [0, 1]
    beliefs = update(beliefs, seen((2, 30.0, 1.5)), gaze(), DT_S)
    assert sorted(beliefs.kind[0].tolist()) == [0, 2]


def test_uncertainty_grows_to_the_prior_out_of_view_and_falls_when_seen() -> None:
    beliefs, habits = red_ahead(), FilterParams()
    start, spreads, trust = beliefs.spread_m[0, 0], [], []
    for _ in range(200):
        beliefs = update(beliefs, nothing(), gaze(pan_deg=90), DT_S)
        spreads.append(beliefs.spread_m[0, 0])
        trust.append(beliefs.there[0, 0])
    assert (np.diff([start, *spreads]) > 0).all()
    assert (np.diff(trust) < 0).all()
    assert beliefs.age_s[0, 0] == pytest.approx(20.0)
    again = after(beliefs, seen((0, 10.0, 1.5)), gaze(depth_m=1.5), 1)
    assert again.spread_m[0, 0] < spreads[-1]
    assert again.there[0, 0] > trust[-1]
    late = update(beliefs, nothing(), gaze(pan_deg=90), 1e6)
    assert late.there[0, 0] < 1e-6
    assert 0.9 * habits.spread_m < late.spread_m[0, 0]
    assert np.allclose(shares(late, np.array([0]), _places(1)), 1 / 3, atol=1e-3)


def test_spread_never_exceeds_the_prior() -> None:
    beliefs = after(red_ahead(), nothing(), gaze(pan_deg=90), 1)
    for _ in range(50):
        beliefs = update(beliefs, nothing(), gaze(pan_deg=90), 1e3)
        assert beliefs.spread_m.max() <= FilterParams().spread_m * 1.001


def test_order_of_detections_does_not_matter() -> None:
    rng, n, m = np.random.default_rng(0), 40, 6
    one, other = no_beliefs(n), no_beliefs(n)
    for _ in range(30):
        here = rng.random((n, m)) < 0.7
        kind = np.argsort(rng.random((n, 8)), 1)[:, :m]
        numbers = [rng.uniform(-40, 40, (n, m)), rng.uniform(-20, 20, (n, m)), rng.uniform(0.5, 2.5, (n, m))]
        told = Detections(here, kind, *numbers, rng.uniform(0.5, 1.0, (n, m)))
        order = np.argsort(rng.random((n, m)), 1)
        shuffled = Detections(*(np.take_along_axis(getattr(told, f.name), order, 1) for f in fields(told)[:6]))
        look = gaze(pan_deg=float(rng.uniform(-60, 60)), depth_m=float(rng.uniform(0.5, 3)), n=n)
        one, other = update(one, told, look, DT_S), update(other, shuffled, look, DT_S)
    assert all(np.allclose(a, b, atol=1e-9) for a, b in zip(entries(one), entries(other), strict=True))


def test_rows_of_beliefs_are_independent() -> None:
    both = Detections(*(np.concatenate([getattr(seen((0, 10.0, 1.5)), f.name), getattr(seen((3, -20.0, 1.0)), f.name)])
                       for f in fields(Detections)[:6]))  # fmt: skip
    beliefs = after(no_beliefs(2), both, gaze(n=2), 3)
    alone = after(no_beliefs(1), seen((3, -20.0, 1.0)), gaze(), 3)
    assert all(np.allclose(a[1], b[0]) for a, b in zip(entries(beliefs), entries(alone), strict=True))
    assert np.allclose(beliefs.take(np.array([1])).mean, alone.mean)


def _places(n: int) -> np.ndarray:
    azimuth = np.tile([29.0, 10.0, -9.0], (n, 1))
    return point(azimuth, np.zeros_like(azimuth), np.full_like(azimuth, 1.5))


def test_hidden_thing_keeps_its_place() -> None:
    hidden = after(red_ahead(), nothing(), gaze(depth_m=NEAR), 40)
    assert hidden.there[0, 0] > 0.9
    assert shares(hidden, np.array([0]), _places(1))[0].argmax() == 1


def test_thing_absent_from_a_clear_look_is_believed_elsewhere() -> None:
    gone = after(red_ahead(), nothing(), gaze(depth_m=FAR), 3)
    share = shares(gone, np.array([0]), _places(1))[0]
    assert share[1] < 0.05
    assert share[0] == pytest.approx(0.5, abs=0.03)
    assert share[2] == pytest.approx(0.5, abs=0.03)
    unasked = after(red_ahead(), nothing(), gaze(depth_m=FAR, known=False), 3)
    assert unasked.there[0, 0] > 0.9
    away = after(red_ahead(), nothing(), gaze(pan_deg=90, depth_m=FAR), 3)
    assert away.there[0, 0] > 0.9


def test_weak_detection_keeps_a_belief_in_place() -> None:
    hint = seen((0, 30.0, 1.5), sure=FilterParams().hint + 0.01)
    unseen = Detections(
        np.zeros_like(hint.here), hint.kind, hint.azimuth_deg, hint.elevation_deg, hint.distance_m, hint.sure
    )
    assert after(red_ahead(), unseen, gaze(depth_m=FAR), 3).there[0, 0] > 0.9
    assert after(red_ahead(), nothing(), gaze(depth_m=FAR), 3).there[0, 0] < 0.1


def test_thing_is_gone_if_another_thing_takes_its_place() -> None:
    taken = after(red_ahead(), seen((4, 10.0, 1.5)), gaze(depth_m=1.5), 3)
    assert taken.there[0, 0] < 0.01
    assert taken.elsewhere[0, 0] > 0.95
    unclear = after(red_ahead(), nothing(), gaze(depth_m=1.5), 3)
    assert unclear.there[0, 0] > 0.5


def test_nearer_thing_hides_a_belief_at_any_depth() -> None:
    behind = after(red_ahead(), seen((4, 12.0, 1.0)), gaze(depth_m=FAR), 3)
    assert behind.there[0, 0] > 0.9


def test_doubtful_detection_elsewhere_moves_no_belief() -> None:
    kept = after(red_ahead(), seen((0, -20.0, 1.2), sure=0.7), gaze(depth_m=NEAR), 3)
    assert kept.used.sum() == 1
    assert direction(kept.mean[0, 0])[0] == pytest.approx(10, abs=1)


def test_confident_detection_elsewhere_moves_the_belief() -> None:
    moved = after(red_ahead(), seen((0, -20.0, 1.2)), gaze(depth_m=NEAR), 2)
    assert moved.used.sum() == 1
    assert direction(moved.mean[0, 0])[0] == pytest.approx(-20, abs=1)
    two = after(red_ahead(), seen((0, 10.0, 1.5), (0, -20.0, 1.2)), gaze(depth_m=NEAR), 2)
    assert two.used.sum() == 2


def test_leaning_does_not_move_the_belief() -> None:
    at = point(np.array(10.0), np.array(0.0), np.array(1.5))
    azimuth, _, distance = direction(at - np.array([0.3, 0, 0]))
    leant = after(red_ahead(), seen((0, float(azimuth), float(distance))), gaze(depth_m=1.2, lean_m=0.3), 5)
    assert np.allclose(leant.mean[0, 0], at, atol=0.02)


def test_full_beliefs_drop_the_stalest_first() -> None:
    beliefs = no_beliefs(1, things=3)
    for kind in range(5):
        beliefs = after(beliefs, seen((kind, 40.0 - 20 * kind, 1.0)), gaze(pan_deg=170), 3)
    assert set(beliefs.kind[0]) == {2, 3, 4}
    with pytest.raises(ConfigError, match="room for one"):
        no_beliefs(1, things=0)


def test_entries_list_unseen_things_first() -> None:
    beliefs = after(no_beliefs(1), seen((0, 10.0, 1.5), (1, -10.0, 1.5)), gaze(), 3)
    beliefs = after(beliefs, seen((1, -10.0, 1.5)), gaze(depth_m=NEAR), 2)
    values, age_s, _ = entries(beliefs)
    assert values[0, 0, :8].argmax() == 0
    assert age_s[0, 0] == pytest.approx(0.2)
    assert recall(entries(beliefs))[0].shape == (1, 4, BELIEF_NUMBERS)
    named = np.eye(8)[[1]]
    first = recall(entries(beliefs), named, k=1)
    assert first[0][0, 0, :8].argmax() == 1
    assert first[0][0, 0, -1] == 1
    assert first[2].all()
    assert recall(entries(beliefs), np.eye(8)[[5]], k=1)[0][0, 0, :8].argmax() == 0


def test_unknown_kind_has_equal_shares_everywhere() -> None:
    assert np.allclose(shares(red_ahead(), np.array([5]), _places(1)), 1 / 3)


def test_seen_from_converts_directions_from_gaze_to_torso() -> None:
    head = replace(seen((2, 15.0, 1.2), (4, 0.0, 1.0)), elevation_deg=np.full((1, 2), -3.0))
    told = head.seen_from(np.array([20.0]), np.array([-10.0]), np.ones(1, bool))
    assert told.azimuth_deg[0].tolist() == pytest.approx([35, 20])
    assert told.elevation_deg[0].tolist() == pytest.approx([-13, -13])
    assert told.distance_m[0, 0] == pytest.approx(1.2)
    assert not head.seen_from(np.zeros(1), np.zeros(1), np.zeros(1, bool)).here.any()  # no picture, no detection


def test_embeddings_distinguish_things_of_one_class() -> None:
    # Two red things swap places while unseen: by class and place alone, each is mistaken for the other.
    both = seen((0, 15.0, 1.5), (0, -15.0, 1.5))
    ways = np.eye(2)[None]
    beliefs = after(no_beliefs(1, embedding=2), replace(both, embedding=ways), gaze(), 4)
    left = int(beliefs.embedding[0, :, 0].argmax())
    beliefs = after(beliefs, nothing(), gaze(known=False), 5)
    swapped = after(beliefs, replace(both, embedding=ways[:, ::-1]), gaze(), 2)
    assert direction(swapped.mean[0, left])[0] == pytest.approx(-15, abs=1)
    plain = after(after(no_beliefs(1), both, gaze(), 4), nothing(), gaze(known=False), 5)
    first = int((direction(plain.mean[0])[0] > 5).argmax())
    assert direction(after(plain, both, gaze(), 2).mean[0, first])[0] == pytest.approx(15, abs=1)


def test_belief_keeps_the_size_that_a_head_gives() -> None:
    beliefs = after(no_beliefs(1), replace(seen((0, 0.0, 1.5)), size_m=np.array([[0.3]])), gaze(), 2)
    assert beliefs.size_m[0].max() == 0.3
    assert not red_ahead().size_m.any()


def test_kalman_update_is_the_product_of_two_normals() -> None:
    rng = np.random.default_rng(1)
    a, b = (x @ x.T + 0.1 * np.eye(3) for x in rng.normal(size=(2, 3, 3)))
    m, z = rng.normal(size=(2, 3))
    mean, covariance = kalman_update(m, a, z, b)
    together = np.linalg.inv(np.linalg.inv(a) + np.linalg.inv(b))
    assert np.allclose(covariance, together)
    assert np.allclose(mean, together @ (np.linalg.inv(a) @ m + np.linalg.inv(b) @ z))


def test_polar_noise_matches_the_covariance_of_samples() -> None:
    rng, at = np.random.default_rng(2), np.array([30.0, 10.0, 1.5])
    samples = point(at[0] + rng.normal(0, 3, 40000) / np.cos(np.deg2rad(10)), at[1] + rng.normal(0, 3, 40000),
                    at[2] * np.exp(rng.normal(0, 0.05, 40000)))  # fmt: skip
    told = polar_noise(point(*at), 3.0, 0.05)
    assert np.allclose(np.cov(samples.T), told, atol=0.1 * told.max())


def test_greedy_assignment_takes_the_cheapest_pairs_without_repeats() -> None:
    cost = np.array([[[1.0, 0.5, 9.0], [0.9, 0.4, 9.0], [9.0, 9.0, 9.0]]])
    assert greedy_assignment(cost, 2.0).tolist() == [[0, 1, -1]]
    rng = np.random.default_rng(3)
    track = greedy_assignment(rng.random((50, 6, 4)), 1.0)
    for row in track:
        used = row[row >= 0]
        assert len(set(used)) == len(used) == 4


def test_gaze_points_at_the_centre_of_the_picture() -> None:
    at = point(np.array([[40.0, 55.0, -140.0]]), np.array([[-20.0, -20.0, 20.0]]), np.array([[2.0, 2.0, 2.0]]))
    column, row, ahead = project(at, np.array([40.0]), np.array([-20.0]), 30.0)
    assert abs(column[0, 0]) < 1e-9
    assert abs(row[0, 0]) < 1e-9
    assert ahead[0, 0] == pytest.approx(2.0)
    assert -1 < column[0, 1] < 0  # to the left
    assert np.isinf(column[0, 2])
