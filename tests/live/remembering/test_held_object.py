"""Held-up things are found by their difference from the scene; a moving or changed scene is none."""

from __future__ import annotations

import numpy as np
import pytest

from devmind.live.remembering.held_object import STEADY, HeldFinder, Square

HEIGHT, WIDTH = 120, 160


def scene(tick: int = 0) -> np.ndarray:
    """A room with a pattern, grain, and something in a corner that swings."""
    rng = np.random.default_rng(tick)
    picture = np.random.default_rng(99).integers(60, 190, (6, 8, 3)).repeat(20, 0).repeat(20, 1).astype(float)
    left = 8 + round(6 * np.sin(tick / 2))
    picture[6:26, left : left + 14] = 20
    return np.clip(picture + rng.normal(0, 3, picture.shape), 0, 255).astype(np.uint8)


def with_thing(tick: int, x: int, y: int, side: int = 36, arm: bool = True) -> np.ndarray:
    """A red thing centred at (x, y), on an arm from below."""
    picture = scene(tick)
    if arm:
        picture[y:, x - 7 : x + 7] = (225, 180, 150)
    picture[y - side // 2 : y + side // 2, x - side // 2 : x + side // 2] = (250, 10, 10)
    return picture


def watched(ticks: int = 40) -> HeldFinder:
    finder = HeldFinder()
    for tick in range(ticks):
        finder.see(scene(tick), tick / 10)
    return finder


@pytest.mark.parametrize(("x", "y"), [(40, 40), (80, 50), (120, 60)])
def test_square_surrounds_a_held_thing_at_any_place(x: int, y: int) -> None:
    finder = watched()
    for tick in range(40, 50):
        square = finder.see(with_thing(tick, x, y), tick / 10)
    assert square is not None
    assert square.overlap(Square(x / WIDTH, y / HEIGHT, 36 / WIDTH)) > 0.5
    red = square.crop(with_thing(50, x, y))
    assert (red[24:40, 24:40, 0] > 200).all(), "the thing is in the middle of the crop"
    assert (red[24:40, 24:40, 1] < 60).all()


def test_moving_scene_is_no_held_thing() -> None:
    finder = HeldFinder()
    assert [tick for tick in range(120) if finder.see(scene(tick), tick / 10)] == []


@pytest.mark.parametrize("every", [1, 3])
def test_circling_thing_is_followed_and_stays_in_the_middle(every: int) -> None:
    """Half a picture a second is faster than a trembling hand; a slow machine sees every third frame."""
    finder, found = watched(), []
    for tick in range(42, 100, every):
        x, y = 80 + round(36 * np.cos(tick / 5)), 56 + round(22 * np.sin(tick / 5))
        square = finder.see(with_thing(tick, x, y, arm=False), tick / 10)
        found.append(square is not None and square.overlap(Square(x / WIDTH, y / HEIGHT, 1.25 * 36 / WIDTH)) > 0.4)
    assert np.mean(found[STEADY:]) > 0.9


def test_flash_every_second_never_starts_a_new_scene() -> None:
    finder, found = HeldFinder(), []
    for tick in range(120):
        frame = scene(tick) if tick < 80 else with_thing(tick, 80, 50)
        found.append(finder.see(np.full_like(frame, 255) if tick % 20 < 3 else frame, tick / 20) is not None)
    assert not any(found[:80])
    assert all(found[90:])


def test_thing_held_still_stays_found_for_a_minute_and_a_removed_one_is_gone() -> None:
    finder = watched()
    found = [finder.see(with_thing(tick, 80, 50), tick / 10) is not None for tick in range(40, 400)]
    assert all(found[STEADY:])
    gone = [finder.see(scene(tick), tick / 10) for tick in range(400, 412)]
    assert gone[-1] is None


def test_thing_is_found_only_after_some_steady_frames() -> None:
    finder = watched()
    found = [finder.see(with_thing(tick, 80, 50), tick / 10) is not None for tick in range(40, 44)]
    assert found == [False] * (STEADY - 1) + [True] * (4 - STEADY + 1)


def test_turned_camera_or_lamp_starts_a_new_scene() -> None:
    finder = watched()
    turned = [finder.see(scene(tick)[::-1, ::-1], tick / 10) for tick in range(40, 60)]
    assert turned == [None] * 20
    lit = [
        finder.see(np.clip(scene(tick)[::-1, ::-1].astype(int) + 12, 0, 255).astype(np.uint8), tick / 10)
        for tick in range(60, 70)
    ]
    assert lit == [None] * 10, "a camera that sets its exposure"


def test_flash_starts_no_new_scene() -> None:
    finder = watched()
    for tick in range(40, 50):
        finder.see(with_thing(tick, 80, 50), tick / 10)
    found = [
        finder.see(np.full_like(scene(0), 255) if tick == 52 else with_thing(tick, 80, 50), tick / 10)
        for tick in range(50, 60)
    ]
    assert all(found)


def test_missing_frames_change_nothing_but_a_lost_camera_does() -> None:
    finder = watched()
    for tick in range(40, 50):
        finder.see(with_thing(tick, 80, 50), tick / 10)
    assert finder.square is not None
    for tick in range(50, 60):
        assert finder.see(None if tick % 2 else with_thing(tick, 80, 50), tick / 10) is not None
    assert [finder.see(None, 7.0) is None for _ in range(8)][-1]


def found_after_s(rate_hz: float, has_gaps: bool) -> float | None:
    """Seconds from the first frame with a thing that is held still until it is found, within 22 s; None: never.

    `has_gaps`: the loop ticks ten times a second, and most ticks have no frame; else only ticks with a frame happen.
    """
    finder, frames, shown_s = HeldFinder(), 0, 8.0
    begun_s = float("nan")
    for tick in range(300):
        time_s, is_frame = tick / 10, tick >= round(frames * 10 / rate_hz)
        frames += is_frame
        if is_frame and time_s >= shown_s and np.isnan(begun_s):
            begun_s = time_s
        frame = scene(tick) if time_s < shown_s else with_thing(tick, 80, 50)
        if not is_frame and not has_gaps:
            continue
        if finder.see(frame if is_frame else None, time_s) is not None and time_s >= shown_s:
            return time_s - begun_s
    return None


@pytest.mark.parametrize("has_gaps", [True, False])
@pytest.mark.parametrize("rate_hz", [10, 3, 1.5, 0.7])
def test_slow_machine_finds_a_still_thing_in_its_third_frame(rate_hz: float, has_gaps: bool) -> None:
    """At 1.5 frames a second and less, with ticks in between, it was never found: frames counted as missing."""
    found_s = found_after_s(rate_hz, has_gaps)
    assert found_s is not None
    assert found_s == pytest.approx((STEADY - 1) / rate_hz, abs=0.11)


def test_slow_camera_that_is_lost_shows_nothing_after_some_frames_are_missing() -> None:
    finder = HeldFinder()
    for tick in range(0, 160, 10):
        finder.see(scene(tick) if tick < 80 else with_thing(tick, 80, 50), tick / 10)
    assert finder.square is not None
    assert finder.usual_gap_s == pytest.approx(1)
    assert [finder.see(None, 15 + tick / 10) is not None for tick in range(1, 60)] == [True] * 25 + [False] * 34
    assert not finder.sees


def test_flash_in_one_frame_of_a_slow_camera_starts_no_new_scene() -> None:
    finder = HeldFinder()
    found = []
    for tick in range(0, 200, 10):
        frame = scene(tick) if tick < 100 else with_thing(tick, 80, 50)
        found.append(finder.see(np.full_like(frame, 255) if tick == 150 else frame, tick / 10) is not None)
    assert found == [False] * 12 + [True] * 8


def test_overlap_of_squares_is_that_of_their_areas() -> None:
    one = Square(0.5, 0.5, 0.2)
    assert one.overlap(one) == pytest.approx(1)
    assert one.overlap(Square(0.6, 0.5, 0.2)) == pytest.approx(1 / 3)
    assert one.overlap(Square(0.5, 0.5, 0.1)) == pytest.approx(0.25)
    assert one.overlap(Square(0.8, 0.5, 0.2)) == 0
    assert one.towards(Square(0.6, 0.7, 0.4), 0.5) == pytest.approx((0.55, 0.6, 0.3))
