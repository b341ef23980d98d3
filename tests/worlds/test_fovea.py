"""The fovea shows what it is turned to, at the scale that the nursery taught, and stays inside the frame."""

from __future__ import annotations

import math

import numpy as np
import pytest

from devmind.sessions.pictures import WIDE_HALF, central_square, change_in_view, fovea
from devmind.worlds.fovea import MAX_TURN_DEG, Fovea


def spot(azimuth_deg: float, elevation_deg: float, height: int = 480, width: int = 640) -> np.ndarray:
    """A frame with one bright square at this direction of the wide view."""
    frame = np.full((height, width, 3), 40, np.uint8)
    x = width / 2 * (1 - math.tan(math.radians(azimuth_deg)) / WIDE_HALF)
    y = height / 2 - width / 2 * math.tan(math.radians(elevation_deg)) / WIDE_HALF
    frame[max(0, round(y) - 8) : round(y) + 8, max(0, round(x) - 8) : round(x) + 8] = 255
    return frame


def centre(sight: np.ndarray) -> tuple[float, float]:
    rows, columns = np.nonzero(sight[..., 0] > 150)
    return float(rows.mean()), float(columns.mean())


@pytest.mark.parametrize("target", [(0.0, 0.0), (20.0, 10.0), (-25.0, -12.0), (24.0, -5.0)])
def test_turning_by_the_angle_brings_a_thing_to_the_middle(target: tuple[float, float]) -> None:
    fovea = Fovea()
    fovea.turn(np.array(target) / MAX_TURN_DEG)
    row, column = centre(fovea.see(spot(*target))["sight"])
    assert row == pytest.approx(31.5, abs=1.5)
    assert column == pytest.approx(31.5, abs=1.5)


def test_a_thing_on_the_upper_left_is_seen_on_the_upper_left() -> None:
    row, column = centre(Fovea().see(spot(15.0, 8.0))["sight"])
    assert row < 28
    assert column < 24


@pytest.mark.parametrize("shape", [(480, 640), (64, 64), (1080, 1920), (30, 400), (400, 30)])
def test_the_fovea_stays_inside_frames_of_any_shape(shape: tuple[int, int]) -> None:
    fovea = Fovea()
    for look in ([1, 1], [1, 1], [1, 1], [-1, -1], *[[-1, -1]] * 6):
        fovea.turn(np.array(look))
        top, left, side = fovea.box(*shape)
        assert 0 <= top <= shape[0] - side
        assert 0 <= left <= shape[1] - side
        senses = fovea.see(np.zeros((*shape, 3), np.uint8))
        assert senses["sight"].shape == (64, 64, 3)


def test_change_is_between_frames_and_not_across_a_gap() -> None:
    fovea, frame = Fovea(), np.zeros((48, 64, 3), np.uint8)
    assert "periphery" not in fovea.see(frame)
    brighter = frame + np.uint8(100)
    change = fovea.see(brighter)["periphery"][0]
    assert change[2:14].mean() == pytest.approx(100 / 255, abs=0.01)
    assert not change[[0, 1, 14, 15]].any()  # above and below a 4:3 frame the wide view is empty
    fovea.blink()
    assert "periphery" not in fovea.see(frame)


def test_the_fovea_of_sessions_equals_a_rooms_straight_ahead() -> None:
    frame = np.random.default_rng(0).integers(0, 256, (480, 640, 3), dtype=np.uint8)
    assert np.array_equal(fovea(frame), Fovea().see(frame)["sight"])
    assert Fovea().box(480, 640) == (134, 214, 213)
    assert not np.array_equal(fovea(frame), central_square(frame))


@pytest.mark.parametrize("elevation_deg", [-20.0, 0.0, 25.0])
def test_a_change_is_in_the_row_of_its_direction_as_in_the_nursery(elevation_deg: float) -> None:
    change = change_in_view(spot(0.0, elevation_deg), np.full((480, 640, 3), 40, np.uint8))[0]
    rows = np.arange(16) @ change.sum(1) / change.sum()
    wanted = 7.5 - 8 * math.tan(math.radians(elevation_deg)) / WIDE_HALF
    assert rows == pytest.approx(wanted, abs=0.5)
