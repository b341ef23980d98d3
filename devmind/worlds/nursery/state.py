"""The nursery's state: one struct of arrays with a row a child, and the names and sizes that other modules use.

Axes: x forward, y left, z up, metres. The torso frame's origin is the head's centre; the room frame is the torso frame
of a child that does not lean. Azimuth is positive to the left, elevation upwards, both in degrees.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from devmind.worlds.rules import Struct

TICK_S = 0.1
N_OBJECTS = 8

ROOM_LOW = np.array([-3.0, -3.0, -0.8])
ROOM_HIGH = np.array([3.0, 3.0, 2.2])

SHAPES = ("sphere", "box", "cylinder")
SPHERE, BOX, CYLINDER = range(3)
TEXTURES = ("plain", "bands", "stripes", "checks")
COLOURS = {
    "red": (215, 30, 30),
    "green": (30, 165, 45),
    "blue": (35, 70, 225),
    "yellow": (240, 215, 30),
    "magenta": (215, 40, 200),
    "cyan": (40, 205, 215),
    "orange": (245, 130, 20),
    "white": (245, 245, 245),
}
COLOUR_NAMES = tuple(COLOURS)

STILL, FREE, PATH, FLY, HELD = range(5)
"""How an object moves: not; rolling and bouncing; on a path around the head; straight through the air; by the hand."""

NO_EVENT, BANG, LOOM = range(3)
SOUND_CLASSES = ("quiet", "sphere tone", "box tone", "cylinder tone", "voice", "bang", "contact")
QUIET, VOICE, BANGS, CONTACT = 0, 4, 5, 6

MASK_HAND = 9
MASK_CAREGIVER = 10
"""Mask ids: 0 is the room, 1 + i object i, then the child's hand and the caregiver."""

MAX_TURN_DEG = 25.0
MAX_TILT_DEG = 60.0
MAX_REACH_M = 0.1
MAX_LEAN_M = 0.3
HAND_RADIUS_M = 0.05
HAND_LOW = np.array([0.05, -0.6, -0.55])
HAND_HIGH = np.array([0.75, 0.6, 0.3])
HAND_REST = (0.3, -0.1, -0.3)
WITHDRAWN = -0.5


@dataclass
class NurseryState(Struct):
    """N children in their rooms. Never change an array of a state that was observed: `step` makes a new state.

    Angles in degrees, lengths in metres, velocities in metres a second. O = N_OBJECTS; absent objects have present
    False. `*_before` is the value one tick ago: sound needs both ends of the tick, periphery the old wide view.
    """

    seed: np.ndarray  # int64 [N]
    tick: np.ndarray  # int64 [N]
    pan: np.ndarray  # [N] in (-180, 180]
    tilt: np.ndarray  # [N]
    lean: np.ndarray  # [N]
    pan_before: np.ndarray  # [N]
    lean_before: np.ndarray  # [N]
    look: np.ndarray  # [N, 2] last command
    grip: np.ndarray  # [N] last command
    hand: np.ndarray  # [N, 3] torso frame
    touch: np.ndarray  # bool [N, O]
    held: np.ndarray  # int64 [N] object in the hand, -1 none
    present: np.ndarray  # bool [N, O]
    shape: np.ndarray  # int64 [N, O]
    colour: np.ndarray  # int64 [N, O]
    texture: np.ndarray  # int64 [N, O]
    size: np.ndarray  # [N, O] radius of spheres and cylinders, half an edge of boxes, half a cylinder's height
    yaw: np.ndarray  # [N, O] degrees
    position: np.ndarray  # [N, O, 3] room frame
    position_before: np.ndarray  # [N, O, 3]
    velocity: np.ndarray  # [N, O, 3]
    motion: np.ndarray  # int64 [N, O]
    path: np.ndarray  # [N, O, 12] see dynamics.path_point
    graspable: np.ndarray  # bool [N, O]
    pushable: np.ndarray  # bool [N, O]
    loudness: np.ndarray  # [N, O] 0 is silent
    tapping: np.ndarray  # bool [N, O] makes a contact sound every tick
    contact: np.ndarray  # [N, O] strength of the contact within this tick
    voice: np.ndarray  # [N] the caregiver's loudness
    noise: np.ndarray  # [N] amplitude of the background noise
    caregiver: np.ndarray  # bool [N]
    caregiver_position: np.ndarray  # [N, 3] the head's centre
    bang_tick: np.ndarray  # int64 [N] first bang, -1 never
    bang_every: np.ndarray  # int64 [N] ticks between bangs, 0: only one
    bang_position: np.ndarray  # [N, 3]
    event: np.ndarray  # int64 [N] NO_EVENT, BANG or LOOM
    event_tick: np.ndarray  # int64 [N] first tick whose Moment carries the event, -1 never
    answered: np.ndarray  # bool [N]
    false_alarms: np.ndarray  # int64 [N]
    target: np.ndarray  # int64 [N] object asked for, -1 none
    sound_class: np.ndarray  # int64 [N] into SOUND_CLASSES
    backdrop: np.ndarray  # bool [N] a moving picture stands in place of the walls (see backdrop)
    planes: np.ndarray  # float32 [N, 6, 6] red, green, blue, two frequencies, contrast of x-, x+, y-, y+, z-, z+
    wide_before: np.ndarray  # uint8 [N, W, W] brightness of the wide view
    reward: np.ndarray  # float32 [N]
    terminal: np.ndarray  # bool [N]

    def __post_init__(self) -> None:
        # Not a field: copies and restored states render again; an observed state is rendered once for all callers.
        self.rendered: dict[str, np.ndarray] = {}

    def put(self, index: Any, other: Self) -> None:
        """As `Struct.put`; pictures of the rows that were there before are forgotten."""
        super().put(index, other)
        self.rendered.clear()
