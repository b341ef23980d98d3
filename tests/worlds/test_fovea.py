"""The fovea: it shows what it is turned to, at the scale the nursery taught, and stays inside the frame."""

from __future__ import annotations

import math

import numpy as np
import pytest

from devmind.worlds.fovea import MAX_TURN_DEG, WIDE_HALF, Fovea


def spot(azimuth_deg: float, elevation_deg: float, height: int = 480, width: int = 640) -> np.ndarray:
    """A frame with one bright square where the wide view has this direction."""
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


def test_what_is_left_and_above_is_seen_left_and_above() -> None:
    row, column = centre(Fovea().see(spot(15.0, 8.0))["sight"])
    assert row < 28
    assert column < 24


@pytest.mark.parametrize("shape", [(480, 640), (64, 64), (1080, 1920), (30, 400), (400, 30)])
def test_it_stays_inside_frames_of_any_shape(shape: tuple[int, int]) -> None:
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
    assert fovea.see(brighter)["periphery"].mean() == pytest.approx(100 / 255, abs=0.01)
    fovea.blink()
    assert "periphery" not in fovea.see(frame)
