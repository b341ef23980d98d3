"""The scene head's maps and their inverse; boxes and average precision against known answers."""

import numpy as np
import pytest
import torch

from devmind.algorithms.overlap import box_iou, mask_iou
from devmind.seeding import lesson_seeds
from devmind.worlds import make
from stages.reflex.locate.exam import VISIBLE_PX, average_precision, boxes_of, colour_clusters
from stages.reflex.locate.lesson import targets
from stages.reflex.locate.scene import MIN_PIXELS, Scene


@pytest.fixture(scope="module")
def rooms():
    world = make("nursery", "room", lesson_seeds(12, "scene test"))
    return world.observe()["sight"], world.truth()


def as_scene(maps):
    logit = lambda p: torch.logit(p.clamp(1e-4, 1 - 1e-4))  # noqa: E731
    return Scene(logit(maps["thing"]), logit(maps["centre"]), maps["log_depth"], maps["offset"])


def test_perfect_maps_give_back_the_true_instances(rooms):
    _, truth = rooms
    maps = targets(truth["depth"], truth["mask"], 8)
    for found, mask in zip(as_scene(maps).instances(), truth["mask"], strict=True):
        wanted = [mask == k for k in range(1, 9) if (mask == k).sum() >= VISIBLE_PX]
        overlap = mask_iou(np.stack(wanted), found.masks) if wanted else np.ones((1, 1))
        # Two centres nearer than a peak's radius cannot be told apart, so not every overlap need be perfect.
        assert overlap.max(1).mean() > 0.85


def test_perfect_maps_have_almost_no_loss_and_the_true_depth(rooms):
    _, truth = rooms
    maps = targets(truth["depth"], truth["mask"], 8)
    scene = as_scene(maps)
    losses = scene.losses(maps)
    assert losses["offset"] == 0
    assert losses["log_depth"] == 0
    assert losses["thing"] < 1e-3
    assert np.allclose(scene.mode()[:, 0].numpy(), np.maximum(truth["depth"], 0.05), rtol=1e-4)


def test_small_things_are_no_targets():
    mask = np.zeros((1, 64, 64), np.uint8)
    mask[0, 0, : MIN_PIXELS - 1] = 1
    assert targets(np.ones((1, 64, 64), np.float32), mask, 8)["centre"].max() == 0


def test_boxes_are_the_extents_of_masks(rooms):
    _, truth = rooms
    for i, mask in enumerate(truth["mask"]):
        for k in np.flatnonzero(truth["visible"][i] > 0):
            assert np.array_equal(boxes_of((mask == k + 1)[None])[0], truth["boxes"][i, k])


def test_overlays_are_the_instances_and_the_depth(rooms):
    _, truth = rooms
    maps = targets(truth["depth"], truth["mask"], 8)
    scene = as_scene(maps)
    for row, found in enumerate(scene.instances()):
        shown = scene.overlays(row)
        assert np.allclose(shown["boxes"][:, :4] * 64, found.boxes)
        assert np.array_equal(shown["boxes"][:, 4], found.scores)
        assert all(np.array_equal(shown["masks"] == k + 1, mask) for k, mask in enumerate(found.masks))
        assert np.allclose(shown["depth"], np.maximum(truth["depth"][row], 0.05), rtol=1e-4)


def test_iou_of_known_boxes():
    a = np.array([[0, 0, 2, 2]], np.float32)
    b = np.array([[0, 0, 2, 2], [1, 0, 3, 2], [2, 2, 4, 4]], np.float32)
    assert box_iou(a, b)[0] == pytest.approx([1.0, 1 / 3, 0.0])


def test_average_precision_of_known_rankings():
    wanted = np.array([[0, 0, 10, 10], [20, 20, 30, 30]], np.float32)
    counts = np.array([True, True])
    away = np.array([[50, 50, 60, 60]], np.float32)
    assert average_precision(wanted, counts, wanted, np.array([0.9, 0.8])) == 1.0
    assert average_precision(wanted, counts, wanted[:1], np.array([0.9])) == 0.5
    # A false alarm between the two: precision 1 at the first, 2/3 at the second.
    ranked = np.concatenate([wanted[:1], away, wanted[1:]])
    assert average_precision(wanted, counts, ranked, np.array([0.9, 0.8, 0.7])) == pytest.approx((1 + 2 / 3) / 2)
    assert average_precision(wanted, counts, away, np.array([0.9])) == 0.0
    # A second box on the same thing is a false alarm.
    twice = wanted[[0, 0, 1]]
    assert average_precision(wanted, counts, twice, np.array([0.9, 0.8, 0.7])) == pytest.approx((1 + 2 / 3) / 2)


def test_a_thing_too_small_to_count_does_not_matter():
    wanted = np.array([[0, 0, 10, 10], [20, 20, 23, 23]], np.float32)
    counts = np.array([True, False])
    assert average_precision(wanted, counts, wanted, np.array([0.5, 0.9])) == 1.0
    assert average_precision(wanted, counts, wanted[:1], np.array([0.5])) == 1.0


def test_colour_clusters_find_a_plain_thing_on_a_plain_wall():
    picture = np.full((64, 64, 3), 120, np.uint8)
    picture[20:30, 20:34] = (220, 30, 30)
    found = colour_clusters(picture)
    assert found.boxes.tolist() == [[20, 20, 34, 30]]
