"""What is held up is found by what differs from the scene; a scene that moves by itself, or all at once, is nothing."""

from __future__ import annotations

import numpy as np
import pytest

from devmind.live.remembering.held_object import STEADY, HeldFinder, Square

HEIGHT, WIDTH = 120, 160


def scene(tick: int = 0) -> np.ndarray:
    """A room with a pattern, grain, and something in a corner that swings to and fro."""
    rng = np.random.default_rng(tick)
    picture = np.random.default_rng(99).integers(60, 190, (6, 8, 3)).repeat(20, 0).repeat(20, 1).astype(float)
    left = 8 + round(6 * np.sin(tick / 2))
    picture[6:26, left : left + 14] = 20
    return np.clip(picture + rng.normal(0, 3, picture.shape), 0, 255).astype(np.uint8)


def with_thing(tick: int, x: int, y: int, side: int = 36, arm: bool = True) -> np.ndarray:
    """A red thing with its middle at (x, y), on an arm from below."""
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
def test_the_square_is_round_what_is_held_up_wherever_that_is(x: int, y: int) -> None:
    finder = watched()
    for tick in range(40, 50):
        square = finder.see(with_thing(tick, x, y), tick / 10)
    assert square is not None
    assert square.overlap(Square(x / WIDTH, y / HEIGHT, 36 / WIDTH)) > 0.5
    red = square.crop(with_thing(50, x, y))
    assert (red[24:40, 24:40, 0] > 200).all(), "the thing is in the middle of the crop"
    assert (red[24:40, 24:40, 1] < 60).all()


def test_a_scene_that_moves_by_itself_is_nothing_held_up() -> None:
    finder = HeldFinder()
    assert [tick for tick in range(120) if finder.see(scene(tick), tick / 10)] == []


@pytest.mark.parametrize("every", [1, 3])
def test_what_goes_round_before_the_camera_is_followed_and_stays_in_the_middle(every: int) -> None:
    """Half a picture a second is no trembling hand; a slow machine sees every third of its frames."""
    finder, found = watched(), []
    for tick in range(42, 100, every):
        x, y = 80 + round(36 * np.cos(tick / 5)), 56 + round(22 * np.sin(tick / 5))
        square = finder.see(with_thing(tick, x, y, arm=False), tick / 10)
        found.append(square is not None and square.overlap(Square(x / WIDTH, y / HEIGHT, 1.25 * 36 / WIDTH)) > 0.4)
    assert np.mean(found[STEADY:]) > 0.9


def test_a_flash_every_second_is_never_a_new_scene() -> None:
    finder, found = HeldFinder(), []
    for tick in range(120):
        frame = scene(tick) if tick < 80 else with_thing(tick, 80, 50)
        found.append(finder.see(np.full_like(frame, 255) if tick % 20 < 3 else frame, tick / 20) is not None)
    assert not any(found[:80])
    assert all(found[90:])


def test_what_is_held_still_stays_found_for_a_minute_and_what_went_is_gone() -> None:
    finder = watched()
    found = [finder.see(with_thing(tick, 80, 50), tick / 10) is not None for tick in range(40, 400)]
    assert all(found[STEADY:])
    gone = [finder.see(scene(tick), tick / 10) for tick in range(400, 412)]
    assert gone[-1] is None


def test_what_comes_steadily_is_found_only_when_it_is_steady() -> None:
    finder = watched()
    found = [finder.see(with_thing(tick, 80, 50), tick / 10) is not None for tick in range(40, 44)]
    assert found == [False] * (STEADY - 1) + [True] * (4 - STEADY + 1)


def test_a_camera_that_turns_and_a_lamp_begin_a_new_scene() -> None:
    finder = watched()
    turned = [finder.see(scene(tick)[::-1, ::-1], tick / 10) for tick in range(40, 60)]
    assert turned == [None] * 20
    lit = [
        finder.see(np.clip(scene(tick)[::-1, ::-1].astype(int) + 12, 0, 255).astype(np.uint8), tick / 10)
        for tick in range(60, 70)
    ]
    assert lit == [None] * 10, "a camera that sets its exposure"


def test_a_flash_is_no_new_scene() -> None:
    finder = watched()
    for tick in range(40, 50):
        finder.see(with_thing(tick, 80, 50), tick / 10)
    found = [
        finder.see(np.full_like(scene(0), 255) if tick == 52 else with_thing(tick, 80, 50), tick / 10)
        for tick in range(50, 60)
    ]
    assert all(found)


def test_a_frame_missing_here_and_there_changes_nothing_and_a_camera_that_is_gone_does() -> None:
    finder = watched()
    for tick in range(40, 50):
        finder.see(with_thing(tick, 80, 50), tick / 10)
    assert finder.square is not None
    for tick in range(50, 60):
        assert finder.see(None if tick % 2 else with_thing(tick, 80, 50), tick / 10) is not None
    assert [finder.see(None, 7.0) is None for _ in range(8)][-1]


def test_squares_overlap_as_their_areas_do() -> None:
    one = Square(0.5, 0.5, 0.2)
    assert one.overlap(one) == pytest.approx(1)
    assert one.overlap(Square(0.6, 0.5, 0.2)) == pytest.approx(1 / 3)
    assert one.overlap(Square(0.5, 0.5, 0.1)) == pytest.approx(0.25)
    assert one.overlap(Square(0.8, 0.5, 0.2)) == 0
    assert one.towards(Square(0.6, 0.7, 0.4), 0.5) == pytest.approx((0.55, 0.6, 0.3))
