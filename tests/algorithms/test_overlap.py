"""Overlap of masks against plain sets, and with empty inputs."""

import numpy as np

from devmind.algorithms.overlap import box_iou, mask_iou


def test_mask_iou_equals_that_of_plain_sets() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random((3, 8, 8)) < 0.4, rng.random((2, 8, 8)) < 0.4
    found = mask_iou(a, b)
    for i, left in enumerate(a):
        for j, right in enumerate(b):
            assert np.isclose(found[i, j], (left & right).sum() / (left | right).sum())


def test_iou_of_no_masks_and_no_boxes_is_empty() -> None:
    assert mask_iou(np.zeros((0, 8, 8), bool), np.ones((2, 8, 8), bool)).shape == (0, 2)
    assert box_iou(np.zeros((0, 4)), np.ones((2, 4))).shape == (0, 2)
