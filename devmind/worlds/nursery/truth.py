"""The truth of the nursery, for lessons and exams, never for the agent."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from devmind.worlds.nursery.caregiver import gaze_direction, gazed_object
from devmind.worlds.nursery.dynamics import hand_in_room
from devmind.worlds.nursery.geometry import angles_deg, length
from devmind.worlds.nursery.goals import first_touched, gaze_error_deg, hand_distance, target_vector
from devmind.worlds.nursery.levels import NurseryLevel
from devmind.worlds.nursery.state import COLOUR_NAMES, NurseryState
from devmind.worlds.nursery.views import views, visible_boxes

MOVING_M_S = 0.02
VISIBLE_PX = 6
"""The fewest pixels of a thing that counts as in view when places are asked."""
PLACE_SCALE_DEG = 30.0


def truth(state: NurseryState, level: NurseryLevel) -> dict[str, np.ndarray]:
    """Arrays [N, ...]; O = 8 object slots.

    Pictures: depth float32 [N, 64, 64] (m along the optical axis), mask uint8 [N, 64, 64] (0 room, 1 + i object i,
        9 hand, 10 caregiver), boxes float32 [N, O, 4] (x0, y0, x1, y1 of the visible pixels, ends exclusive; zeros
        when unseen), visible int32 [N, O] pixels.
    Objects: present, moving, sounding, graspable, pushable, touched bool [N, O]; shape, colour, texture int [N, O];
        size [N, O]; position, velocity [N, O, 3] in the room frame; object_azimuth_deg, object_elevation_deg [N, O]
        in the torso frame; contact [N, O] strength; held int [N] (-1 none).
    Sound: sounding_index int [N] (the first, -1 none), sound_class int [N] (into SOUND_CLASSES; of the whole episode).
    Target: target int [N] (-1 none; what follows then speaks of slot 0), target_azimuth_deg, target_elevation_deg [N]
        (torso frame), error_deg [N] (gaze to target; azimuth alone in orient/sound), hand_distance_m [N] (between
        surfaces; infinite when absent), touched_index int [N] (-1 none), success bool [N].
    Child: pan_deg, tilt_deg, lean_m, tick [N], hand [N, 3] (room frame).
    Caregiver: caregiver bool [N], caregiver_position, caregiver_gaze [N, 3], caregiver_looks_at int [N] (-1 the child).
    Events: event int [N] (0 none, 1 bang, 2 looming), event_tick int [N] (-1 never), answered bool [N],
        false_alarms int [N].
    For the levels `hide/*` also `hiding.facts`.
    """
    boxes, visible = visible_boxes(state)
    return {
        "depth": views(state)["depth"],
        "mask": views(state)["mask"],
        "boxes": boxes,
        "visible": visible,
        **_objects(state),
        **_target(state, level),
        "tick": state.tick,
        "pan_deg": state.pan,
        "tilt_deg": state.tilt,
        "lean_m": state.lean,
        "hand": hand_in_room(state),
        "caregiver": state.caregiver,
        "caregiver_position": state.caregiver_position,
        "caregiver_gaze": gaze_direction(state),
        "caregiver_looks_at": gazed_object(state),
        "event": state.event,
        "event_tick": state.event_tick,
        "answered": state.answered,
        "false_alarms": state.false_alarms,
        **(level.facts(state) if level.facts else {}),
    }


def _objects(state: NurseryState) -> dict[str, np.ndarray]:
    sounding = state.present & (state.loudness > 0)
    from_head = state.position.copy()
    from_head[..., 0] -= state.lean[:, None]
    azimuth, elevation = angles_deg(from_head)
    return {
        "present": state.present,
        "moving": state.present & (length(state.velocity) > MOVING_M_S),
        "sounding": sounding,
        "graspable": state.graspable,
        "pushable": state.pushable,
        "touched": state.touch,
        "shape": state.shape,
        "colour": state.colour,
        "texture": state.texture,
        "size": state.size,
        "position": state.position,
        "velocity": state.velocity,
        "object_azimuth_deg": azimuth,
        "object_elevation_deg": elevation,
        "contact": state.contact,
        "held": state.held,
        "sounding_index": np.where(sounding.any(axis=1), np.argmax(sounding, axis=1), -1),
        "sound_class": state.sound_class,
    }


def _target(state: NurseryState, level: NurseryLevel) -> dict[str, np.ndarray]:
    azimuth, elevation = angles_deg(target_vector(state))
    return {
        "target": state.target,
        "target_azimuth_deg": azimuth,
        "target_elevation_deg": elevation,
        "error_deg": gaze_error_deg(state, level.azimuth_only),
        "hand_distance_m": hand_distance(state),
        "touched_index": first_touched(state),
        "success": level.succeeded(state),
    }


def places_by_colour(truth: Mapping[str, np.ndarray]) -> np.ndarray:
    """For every colour: in view?, left and up of the gaze (/30 deg), log of the distance (m); float32 [N, 8, 4].

    If two things share a colour, the one in the later slot counts.
    """
    values = np.zeros((len(truth["colour"]), len(COLOUR_NAMES), 4), np.float32)
    left = (truth["object_azimuth_deg"] - truth["pan_deg"][:, None] + 180) % 360 - 180
    up = truth["object_elevation_deg"] - truth["tilt_deg"][:, None]
    from_head = truth["position"].copy()
    from_head[..., 0] -= truth["lean_m"][:, None]
    far = np.log(np.maximum(np.linalg.norm(from_head, axis=-1), 0.1))
    rows, slots = np.nonzero((truth["visible"] >= VISIBLE_PX) & truth["present"])
    columns = [np.ones(len(rows)), left[rows, slots] / PLACE_SCALE_DEG, up[rows, slots] / PLACE_SCALE_DEG]
    values[rows, truth["colour"][rows, slots]] = np.stack([*columns, far[rows, slots]], 1)
    return values


def with_one_named(places: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Places [..., 8, 4] with the place of one drawn colour in view appended, [..., 9, 4]; and the colour, int64 [...].

    If nothing is in view, any colour is drawn, and its place is all zeros.
    """
    named = np.argmax(places[..., 0] * rng.uniform(0.1, 1.0, places.shape[:-1]), -1)
    return np.concatenate((places, np.take_along_axis(places, named[..., None, None], -2)), -2), named
