"""Pictures, depth, masks and periphery against geometry computed by hand."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest

from devmind.moment import WIDE_SIZE
from devmind.worlds.nursery import NurseryRules, NurseryState
from devmind.worlds.nursery import views as module
from devmind.worlds.nursery.geometry import angles_deg, direction
from devmind.worlds.nursery.spawning import empty_room, put_object, settle
from devmind.worlds.nursery.state import (
    BOX,
    COLOUR_NAMES,
    COLOURS,
    CYLINDER,
    MASK_CAREGIVER,
    MASK_HAND,
    MAX_LEAN_M,
    SPHERE,
)
from devmind.worlds.nursery.truth import PLACE_SCALE_DEG, places_by_colour
from devmind.worlds.nursery.views import periphery, views, visible_boxes, wide_view

HALF = np.tan(np.deg2rad(30.0))


def room_with(*bodies: tuple[int, float, tuple[float, float, float]]) -> NurseryState:
    """One child whose hand is out of view, with (shape, size, position) bodies in slots 0, 1, ..."""
    state = empty_room(np.array([5]))
    state.hand[:] = (0.05, -0.6, -0.55)
    state.yaw[:] = 0.0
    state.texture[:] = 0
    for slot, (shape, size, position) in enumerate(bodies):
        state.shape[:, slot], state.size[:, slot] = shape, size
        put_object(state, slot, np.array([position]))
    state = settle(state)
    state.wide_before = wide_view(state, state.position_before, state.tick - 1)
    return state


def ray(row: int, column: int) -> np.ndarray:
    """Direction through a pixel's centre for an unturned head; its forward part is 1, so t is planar depth."""
    return np.array([1.0, HALF * (1 - (2 * column + 1) / 64), HALF * (1 - (2 * row + 1) / 64)])


def test_depth_of_a_sphere_is_analytic_at_every_pixel() -> None:
    centre, radius = np.array([1.6, 0.2, -0.1]), 0.2
    pictures = views(room_with((SPHERE, radius, tuple(centre))))
    inside = 0
    for row in range(64):
        for column in range(64):
            d = ray(row, column)
            a, b, c = d @ d, d @ centre, centre @ centre - radius**2
            disc = b * b - a * c
            if abs(disc) < 1e-4:
                continue  # rounding decides at the rim
            hit = disc > 0
            assert (pictures["mask"][0, row, column] == 1) == hit
            if hit:
                inside += 1
                assert pictures["depth"][0, row, column] == pytest.approx((b - np.sqrt(disc)) / a, abs=2e-5)
    assert inside > 100
    wall = ray(0, 63)
    assert pictures["depth"][0, 0, 63] == pytest.approx(min(3.0, 2.2 / wall[2], 3.0 / abs(wall[1])), abs=1e-4)
    floor = ray(63, 32)
    assert pictures["depth"][0, 63, 32] == pytest.approx(0.8 / -floor[2], abs=1e-4)


@pytest.mark.parametrize("shape", [BOX, CYLINDER])
def test_the_front_of_boxes_and_cylinders_is_at_its_depth(shape: int) -> None:
    pictures = views(room_with((shape, 0.25, (1.5, 0.0, 0.0))))
    assert pictures["mask"][0, 32, 32] == 1
    assert pictures["depth"][0, 32, 32] == pytest.approx(1.25, abs=1e-3)
    _, columns = np.nonzero(pictures["mask"][0] == 1)
    edge = 0.25 / (1.25 if shape == BOX else np.sqrt(1.5**2 - 0.25**2)) / HALF * 32
    assert columns.min() == pytest.approx(32 - edge, abs=1)
    assert columns.max() + 1 == pytest.approx(32 + edge, abs=1)


def test_yaw_turns_a_box_and_brings_its_corner_nearer() -> None:
    state = room_with((BOX, 0.2, (1.5, 0.0, 0.0)))
    state.yaw[:, 0] = 45.0
    assert views(state)["depth"][0, 32, 32] == pytest.approx(1.5 - 0.2 * np.sqrt(2), abs=0.02)


def test_the_nearer_body_hides_the_farther_one() -> None:
    near_first = room_with((SPHERE, 0.1, (1.0, 0.0, 0.0)), (BOX, 0.3, (2.0, 0.0, 0.0)))
    near_last = room_with((BOX, 0.3, (2.0, 0.0, 0.0)), (SPHERE, 0.1, (1.0, 0.0, 0.0)))
    assert views(near_first)["mask"][0, 32, 32] == 1
    assert views(near_last)["mask"][0, 32, 32] == 2
    assert np.array_equal(views(near_first)["depth"], views(near_last)["depth"])
    hidden = room_with((SPHERE, 0.1, (2.5, 0.0, 0.0)), (BOX, 0.3, (1.5, 0.0, 0.0)))
    boxes, visible = visible_boxes(hidden)
    assert visible[0, 0] == 0
    assert not boxes[0, 0].any()


def test_left_and_up_are_left_and_up_in_the_picture() -> None:
    boxes, _ = visible_boxes(room_with((SPHERE, 0.1, (1.5, 0.4, 0.3)), (SPHERE, 0.1, (1.5, -0.4, -0.3))))
    left_up, right_down = boxes[0, 0], boxes[0, 1]
    assert left_up[2] < 32 < right_down[0]
    assert left_up[3] < 32 < right_down[1]


@pytest.mark.parametrize(("pan", "tilt"), [(120.0, 20.0), (-170.0, -30.0), (180.0, 0.0)])
def test_a_body_straight_ahead_of_a_turned_head_is_in_the_middle(pan: float, tilt: float) -> None:
    state = room_with((SPHERE, 0.15, (1.5, 0.0, 0.0)))
    flat, up = np.cos(np.deg2rad(tilt)), np.sin(np.deg2rad(tilt))
    ahead = np.array([flat * np.cos(np.deg2rad(pan)), flat * np.sin(np.deg2rad(pan)), up])
    state.position[0, 0] = 1.4 * ahead
    state.pan[:], state.tilt[:] = pan, tilt
    boxes, _ = visible_boxes(state)
    assert (boxes[0, 0, 0] + boxes[0, 0, 2]) / 2 == pytest.approx(32, abs=0.6)
    assert (boxes[0, 0, 1] + boxes[0, 0, 3]) / 2 == pytest.approx(32, abs=0.6)
    assert views(state)["depth"][0, 31:33, 31:33].min() == pytest.approx(1.25, abs=1e-2)


def test_pixels_have_the_named_colour() -> None:
    for number, name in enumerate(COLOUR_NAMES):
        state = room_with((SPHERE, 0.3, (1.2, 0.0, 0.0)))
        state.colour[:, 0] = number
        seen = views(state)["sight"][0][views(state)["mask"][0] == 1].astype(float).mean(0)
        palette = np.array(list(COLOURS.values()), float)
        unit = palette / np.linalg.norm(palette, axis=1, keepdims=True)
        assert np.argmax(unit @ (seen / np.linalg.norm(seen))) == number, name


def test_boxes_masks_and_depth_agree_in_crowded_rooms() -> None:
    rules = NurseryRules("room")
    state = rules.initial(np.arange(40))
    truth = rules.truth(state)
    assert set(np.unique(truth["mask"])) <= set(range(MASK_CAREGIVER + 1))
    for child in range(40):
        for slot in range(8):
            rows, columns = np.nonzero(truth["mask"][child] == slot + 1)
            assert truth["visible"][child, slot] == len(rows)
            if len(rows):
                assert truth["present"][child, slot]
                box = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
                assert np.array_equal(truth["boxes"][child, slot], box)
                distance = np.linalg.norm(truth["position"][child, slot])
                size = truth["size"][child, slot] * np.sqrt(3)
                depth = truth["depth"][child][rows, columns]
                reach = np.sqrt(1 + 2 * HALF**2)
                assert ((distance - size) / reach <= depth).all()
                assert (depth <= distance + size).all()
    assert (truth["mask"] == MASK_HAND).any()
    assert (truth["mask"] == MASK_CAREGIVER).any()


def test_the_screen_boxes_of_the_renderer_cut_no_body() -> None:
    """The mask equals one from NumPy that tries all bodies at every pixel."""
    state = room_with(
        (SPHERE, 0.2, (1.0, 0.45, 0.3)), (SPHERE, 0.18, (1.3, -0.6, -0.2)), (SPHERE, 0.1, (0.7, -0.1, 0.3))
    )
    mask = views(state)["mask"][0]
    for row in range(64):
        for column in range(64):
            d = ray(row, column)
            best, owner, close = np.inf, 0, False
            for slot in range(3):
                centre = state.position[0, slot]
                a, b, c = d @ d, d @ centre, centre @ centre - state.size[0, slot] ** 2
                disc = b * b - a * c
                close |= abs(disc) < 1e-4
                t = (b - np.sqrt(disc)) / a if disc > 0 else np.inf
                if t < best:
                    best, owner = t, slot + 1
            assert close or mask[row, column] == owner


def test_periphery_is_dark_when_only_the_head_turns() -> None:
    state = room_with((SPHERE, 0.2, (1.5, 0.5, 0.0)), (BOX, 0.2, (1.5, -0.5, 0.0)))
    rules = NurseryRules("room")
    for _ in range(4):
        state = rules.step(state, {"look": np.array([[1.0, -0.3]])})
        assert not periphery(state).any()


def test_periphery_lights_up_where_something_moves() -> None:
    rules = NurseryRules("orient/motion")
    state = rules.initial(np.arange(60))
    for _ in range(4):
        change, truth = periphery(state)[:, 0], rules.truth(state)
        assert change.max() <= 1.0
        rows, columns = np.divmod(change.reshape(60, -1).argmax(1), 16)
        left = np.tan(np.deg2rad(60)) * (1 - (columns + 0.5) / 8)
        up = np.tan(np.deg2rad(60)) * (1 - (rows + 0.5) / 8)
        azimuth, elevation = angles_deg(np.stack([np.ones(60), left, up], axis=1))
        off = np.hypot(azimuth - truth["target_azimuth_deg"], elevation - truth["target_elevation_deg"])
        assert np.mean(change.reshape(60, -1).max(1) > 0.02) >= 0.95  # also in the very first Moment
        assert np.mean(off < 15) >= 0.95
        state = rules.step(state, {"look": np.random.default_rng(0).uniform(-1, 1, (60, 2))})
    assert state.wide_before.shape == (60, WIDE_SIZE, WIDE_SIZE)


def test_the_caregivers_nose_points_where_it_looks() -> None:
    rules = NurseryRules("room")
    state = rules.initial(np.arange(80))
    truth = rules.truth(state)
    at = truth["caregiver_looks_at"]
    assert (at[~truth["caregiver"]] == -1).all()
    looks = np.nonzero(at >= 0)[0]
    assert len(looks) > 20
    toward = truth["position"][looks, at[looks]] - truth["caregiver_position"][looks]
    toward /= np.linalg.norm(toward, axis=1, keepdims=True)
    assert np.allclose(toward, truth["caregiver_gaze"][looks], atol=1e-9)


def test_the_notice_of_the_renderer_says_compiling_or_loading(monkeypatch: pytest.MonkeyPatch) -> None:
    said = []
    monkeypatch.setattr(module, "_notice", lambda text: nullcontext(said.append(text)))
    monkeypatch.setattr(module, "in_turn", lambda *kernel: None)
    module._raster.__wrapped__()
    assert said == ["compiling or loading the nursery's renderer (compiling: once, about 15 s)"]


def test_places_are_measured_from_the_leaning_head() -> None:
    rules = NurseryRules("orient/sight")
    state = rules.initial(np.arange(4))
    for _ in range(3):
        state = rules.step(state, {"move": np.ones((4, 1))})
    truth, rows = rules.truth(state), np.arange(4)
    _, left, up, far = places_by_colour(truth)[rows, state.colour[:, 0]].T
    gaze = (truth["pan_deg"] + PLACE_SCALE_DEG * left, truth["tilt_deg"] + PLACE_SCALE_DEG * up)
    found = np.exp(far)[:, None] * direction(*gaze) + [MAX_LEAN_M, 0.0, 0.0]
    assert found == pytest.approx(state.position[:, 0], abs=1e-5)
