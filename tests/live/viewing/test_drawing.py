"""Pictures for the page, of cameras of any shape."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from devmind.live.viewing.drawing import WIDEST_PX, jpeg
from devmind.worlds.fovea import Fovea


@pytest.mark.parametrize("shape", [(1, 1), (1, 1000), (1000, 1), (480, 640), (1920, 1080), (2160, 3840)])
def test_frames_of_any_shape_are_sensed_and_shown(shape: tuple[int, int]) -> None:
    frame = np.full((*shape, 3), 90, np.uint8)
    shown = cv2.imdecode(np.frombuffer(jpeg(frame), np.uint8), cv2.IMREAD_COLOR)
    assert shown is not None
    assert 1 <= max(shown.shape[:2]) <= max(1, min(WIDEST_PX, max(shape)))
    assert abs(int(shown.mean()) - 90) <= 2
    fovea = Fovea()
    fovea.see(frame)
    again = fovea.see(frame)
    assert again["sight"].shape == (64, 64, 3)
    assert not again["periphery"].any()
