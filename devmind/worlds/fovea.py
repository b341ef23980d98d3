"""A digital fovea: the part of a camera's frame that the agent looks at, moved by `look` like the head in the nursery.

The whole frame counts as the nursery's wide view of 120 degrees, and the fovea as its 60 degrees, whatever the lens. So
a place in `sight` means the same turn here as in the nursery, where reflex arcs have learned it.
"""

from __future__ import annotations

import math

import numpy as np

from devmind.sessions.pictures import SIGHT_HALF, WIDE_HALF, brightness, change, fovea, fovea_box

MAX_TURN_DEG = 25.0
MAX_TILT_DEG = 60.0
BODY_SIZE = 12
PAN_SIN, PAN_COS, TILT, LOOK_PAN, LOOK_TILT = 0, 1, 2, 9, 10
"""Columns of the nursery's body that a camera has too; it has no hand, lean or grip."""
LOOK = ("pan", "tilt")
"""The numbers of the command `look`."""


class Fovea:
    """Gaze over frames uint8 [H, W, 3] of any size. Azimuth is positive to the left, elevation upwards, in degrees."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Look straight ahead, and forget the last frame."""
        self.pan_deg = self.tilt_deg = 0.0
        self.look = np.zeros(2, np.float32)
        self._before: np.ndarray | None = None

    def turn(self, look: np.ndarray) -> None:
        """Move by a command [2] in -1..1, up to 25 degrees; the frame's edge stops the gaze."""
        self.look = np.clip(np.asarray(look, np.float32).reshape(2), -1.0, 1.0)
        self._look_at(
            self.pan_deg + MAX_TURN_DEG * float(self.look[0]), self.tilt_deg + MAX_TURN_DEG * float(self.look[1])
        )

    def follow(self, body: np.ndarray) -> None:
        """Look where a head with the proprioception `body` [12] looks."""
        pan_deg = math.degrees(math.atan2(float(body[PAN_SIN]), float(body[PAN_COS])))
        self._look_at(pan_deg, MAX_TILT_DEG * float(body[TILT]))

    def _look_at(self, pan_deg: float, tilt_deg: float) -> None:
        edge_deg = math.degrees(math.atan(WIDE_HALF - SIGHT_HALF))
        self.pan_deg = min(max(pan_deg, -edge_deg), edge_deg)
        self.tilt_deg = min(max(tilt_deg, -edge_deg), edge_deg)

    def box(self, height: int, width: int) -> tuple[int, int, int]:
        """(top, left, side) in pixels of the fovea in a frame (`sessions.pictures.fovea_box`)."""
        return fovea_box(height, width, self.pan_deg, self.tilt_deg)

    def see(self, frame: np.ndarray) -> dict[str, np.ndarray]:
        """`sight` uint8 [64, 64, 3], and from the second frame on `periphery` float32 [1, 16, 16]."""
        senses = {"sight": fovea(frame, self.pan_deg, self.tilt_deg)}
        now = brightness(frame)
        if self._before is not None:
            senses["periphery"] = change(now, self._before).astype(np.float32)
        self._before = now
        return senses

    def blink(self) -> None:
        """A tick without a frame: the next frame is not compared with an earlier one."""
        self._before = None

    def body(self) -> np.ndarray:
        """The gaze as float32 [12], named as in the nursery; NaN for parts that a camera lacks."""
        values = np.full(BODY_SIZE, np.nan, np.float32)
        pan = math.radians(self.pan_deg)
        values[[PAN_SIN, PAN_COS]] = math.sin(pan), math.cos(pan)
        values[TILT] = self.tilt_deg / MAX_TILT_DEG
        values[[LOOK_PAN, LOOK_TILT]] = self.look
        return values
