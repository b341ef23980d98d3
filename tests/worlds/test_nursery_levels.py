"""How episodes start, what is rewarded, and what a perfect child gets."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from devmind.worlds.nursery import LEVELS, NurseryRules, NurseryState, spawning
from devmind.worlds.nursery.caregiver import gap_to_caregiver
from devmind.worlds.nursery.levels import SLOWNESS, WRONG_TOUCH
from devmind.worlds.nursery.spawning import empty_room, put_object, settle
from devmind.worlds.nursery.state import BANG, COLOUR_NAMES, LOOM, NO_EVENT, ROOM_HIGH, ROOM_LOW, TICK_S

SEEDS = np.arange(400)
Policy = Callable[[NurseryRules, NurseryState], dict[str, np.ndarray]]


def play(level: str, policy: Policy, n: int = 60) -> tuple[NurseryRules, NurseryState, np.ndarray]:
    """The rules, the last states and the returns of `n` episodes."""
    rules = NurseryRules(level)
    state, total = rules.initial(SEEDS[:n]), np.zeros(n)
    for _ in range(rules.horizon):
        state = rules.step(state, policy(rules, state))
        total += rules.outcome(state).reward
    return rules, state, total


def look_at_target(rules: NurseryRules, state: NurseryState) -> dict[str, np.ndarray]:
    truth = rules.truth(state)
    pan = (truth["target_azimuth_deg"] - state.pan + 180) % 360 - 180
    tilt = truth["target_elevation_deg"] - state.tilt
    return {"look": np.clip(np.stack([pan, tilt], axis=1) / 25, -1, 1)}


def idle(rules: NurseryRules, state: NurseryState) -> dict[str, np.ndarray]:
    return {}


@pytest.mark.parametrize("level", LEVELS)
def test_every_start_is_a_valid_room(level: str) -> None:
    rules = NurseryRules(level)
    state = rules.initial(SEEDS)
    seen = state.present
    radius = state.size[..., None]
    assert ((state.position - radius >= ROOM_LOW - 1e-6) | ~seen[..., None])[..., 2].all()
    assert (((state.position > ROOM_LOW) & (state.position < ROOM_HIGH)) | ~seen[..., None]).all()
    assert (np.sort(state.colour, axis=1) == np.arange(8)).all()
    assert not (state.loudness[~seen] > 0).any()
    assert (state.target < 8).all()
    has = state.target >= 0
    assert seen[has, state.target[has]].all()
    moved = (state.position - state.position_before) / TICK_S
    assert np.allclose(moved[seen], state.velocity[seen])


def test_rooms_hold_three_to_six_objects_of_all_kinds() -> None:
    rules = NurseryRules("room")
    truth = rules.truth(rules.initial(SEEDS))
    count = truth["present"].sum(1)
    assert set(count) == {3, 4, 5, 6}
    assert set(truth["shape"][truth["present"]]) == {0, 1, 2}
    for share in (truth["moving"].any(1), truth["sounding"].any(1), truth["caregiver"], truth["graspable"].any(1)):
        assert 0.2 < share.mean() < 0.98
    assert (truth["visible"] > 0).any(1).mean() > 0.9


@pytest.mark.parametrize(("level", "before"), [("room", 0.11), ("startle", 0.045), ("hear", 0.0026)])
def test_no_thing_begins_inside_the_caregiver_and_other_rooms_are_as_before(
    level: str, before: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Things kept away from the caregiver's head alone, so those on the floor could stand in the body below it."""
    rules, seeds = NurseryRules(level), np.arange(4000)
    state = rules.initial(seeds)

    def inside(state: NurseryState) -> np.ndarray:
        return (state.present & (gap_to_caregiver(state, state.position, state.size) < -1e-9)).any(1)

    monkeypatch.setattr(spawning, "gap_to_caregiver", lambda state, at, size: np.full(at.shape[:2], np.inf))
    was = rules.initial(seeds)
    moved = (state.position != was.position).any((1, 2))
    assert not inside(state).any()
    assert inside(was).mean() == pytest.approx(before, rel=0.3)
    assert (moved == inside(was)).all()
    # By hand: the centres of some are in the body, whose radius is 0.22 m, below the head.
    off = was.position - was.caregiver_position[:, None]
    within = (np.hypot(off[..., 0], off[..., 1]) < 0.22) & (off[..., 2] < -0.2)
    in_body = (was.present & was.caregiver[:, None] & within).any(1)
    assert in_body.any()
    assert inside(was)[in_body].all()


def test_rolling_objects_collide_audibly_and_stay_in_the_room() -> None:
    rules = NurseryRules("room")
    state = rules.initial(SEEDS[:100])
    hits = np.zeros(len(state), bool)
    for _ in range(rules.horizon):
        state = rules.step(state, {})
        hits |= (state.contact > 0).any(1)
        inside = (state.position[..., :2] > -3.01) & (state.position[..., :2] < 3.01)
        assert inside[state.present].all()
    assert 0.2 < hits.mean() < 1.0


def test_orient_sight_starts_in_sight_but_off_centre() -> None:
    rules = NurseryRules("orient/sight")
    truth = rules.truth(rules.initial(SEEDS))
    assert ((truth["error_deg"] > 10.0) & (truth["error_deg"] < 26.0)).all()
    assert (truth["visible"][:, 0] >= 8).all()
    assert not truth["moving"].any()
    assert (truth["sounding_index"] == -1).all()


def test_orient_sound_comes_from_all_directions() -> None:
    rules = NurseryRules("orient/sound")
    truth = rules.truth(rules.initial(SEEDS))
    share, _ = np.histogram(truth["target_azimuth_deg"], bins=6, range=(-180, 180))
    assert (share > len(SEEDS) / 12).all()
    assert (np.abs(truth["target_elevation_deg"]) <= 8.01).all()
    assert (truth["sounding_index"] == truth["target"]).all()
    assert (truth["sounding"].sum(1) == 1).all()


def test_orient_motion_has_one_mover_of_four() -> None:
    rules = NurseryRules("orient/motion")
    truth = rules.truth(rules.initial(SEEDS))
    assert (truth["present"].sum(1) == 4).all()
    assert (truth["moving"].sum(1) == 1).all()
    assert truth["moving"][np.arange(len(SEEDS)), truth["target"]].all()
    assert (np.abs(truth["target_azimuth_deg"]) < 60).all()


@pytest.mark.parametrize("level", ["orient/sight", "orient/sound", "orient/motion"])
def test_orienting_pays_and_idling_does_not(level: str) -> None:
    rules, state, total = play(level, look_at_target)
    assert rules.truth(state)["success"].all()
    _, _, idle_total = play(level, idle)
    assert total.min() > 0.9
    assert idle_total.mean() < 0.3
    start = NurseryRules(level).truth(NurseryRules(level).initial(SEEDS[:60]))["error_deg"]
    end = rules.truth(state)["error_deg"]
    assert np.allclose(total, (start - end) / 90 + 1, atol=1e-5)


def test_sound_error_counts_azimuth_alone() -> None:
    rules = NurseryRules("orient/sound")
    state = rules.initial(SEEDS)
    state.tilt[:] = 50.0
    truth = rules.truth(state)
    assert np.allclose(truth["error_deg"], np.abs(truth["target_azimuth_deg"]))


def test_track_starts_in_the_fovea_moves_smoothly_and_can_be_followed() -> None:
    rules = NurseryRules("track")
    state = rules.initial(SEEDS[:120])
    assert (rules.truth(state)["visible"][:, 0] >= 8).all()
    before = rules.truth(state)
    for _ in range(rules.horizon):
        state = rules.step(state, {})
        truth = rules.truth(state)
        azimuth = np.abs(truth["target_azimuth_deg"] - before["target_azimuth_deg"])
        elevation = np.abs(truth["target_elevation_deg"] - before["target_elevation_deg"])
        assert (np.hypot(azimuth, elevation) <= 2.6).all()
        assert (state.position[:, 0, 2] - state.size[:, 0] >= ROOM_LOW[2] - 1e-6).all()
        before = truth
    _, _, total = play("track", look_at_target)
    _, _, idle_total = play("track", idle)
    assert total.min() > 28
    assert idle_total.mean() < 15


def test_reach_names_the_colour_of_a_thing_in_view_and_within_reach() -> None:
    rules = NurseryRules("reach")
    state = rules.initial(SEEDS)
    truth, words = rules.truth(state), rules.observe(state)["words"]
    assert set(truth["present"].sum(1)) == {3, 4}
    assert (truth["visible"][truth["present"]] > 0).mean() > 0.99
    assert not truth["touched"].any()
    for i, word in enumerate(words):
        assert word == COLOUR_NAMES[truth["colour"][i, truth["target"][i]]]


def _reach_for(pick: Callable[[NurseryState], np.ndarray]) -> Policy:
    def policy(rules: NurseryRules, state: NurseryState) -> dict[str, np.ndarray]:
        goal = state.position[np.arange(len(state)), pick(state)]
        command = np.zeros((len(state), 4))
        # First back and up to where nothing is, then sideways, then forwards: the straight path may touch another
        # thing.
        early = state.tick[:, None] < 8
        waypoint = np.stack([np.full(len(state), 0.2), goal[:, 1], goal[:, 2]], axis=1)
        command[:, :3] = np.clip((np.where(early, waypoint, goal) - state.hand) / 0.1, -1, 1)
        return {"reach": command}

    return policy


def test_touching_the_named_object_ends_with_a_point_and_another_with_none() -> None:
    rules, state, total = play("reach", _reach_for(lambda s: s.target), 100)
    right = rules.truth(state)["success"]
    assert right.mean() > 0.9
    assert state.terminal[right].all()
    start = rules.truth(rules.initial(SEEDS[:100]))["hand_distance_m"]
    ticks = (1 + start[right] - total[right]) / SLOWNESS
    assert np.allclose(ticks, ticks.round(), atol=1e-3)
    assert ticks.min() > 8.5
    assert ticks.max() < rules.horizon
    rules, state, total = play("reach", _reach_for(lambda s: (s.target + 1) % s.present.sum(1)), 100)
    assert rules.truth(state)["success"].mean() < 0.1
    assert state.terminal.mean() > 0.9
    assert total[state.terminal].max() < start.max() - WRONG_TOUCH


def test_startle_has_bangs_looming_and_harmless_episodes() -> None:
    rules = NurseryRules("startle")
    state = rules.initial(SEEDS)
    for kind, low, high in ((BANG, 0.17, 0.33), (LOOM, 0.17, 0.33), (NO_EVENT, 0.4, 0.6)):
        assert low < (state.event == kind).mean() < high
    assert ((state.event_tick >= 3) == (state.event != NO_EVENT)).all()
    assert (state.event_tick <= 16).all()


def _withdraw(delay: int) -> Policy:
    def policy(rules: NurseryRules, state: NurseryState) -> dict[str, np.ndarray]:
        now = (state.event != NO_EVENT) & (state.tick == state.event_tick + delay)
        return {"move": np.where(now, -1.0, 0.3)[:, None]}

    return policy


@pytest.mark.parametrize(("delay", "right"), [(0, True), (1, True), (2, False), (-1, False)])
def test_withdrawing_counts_within_one_tick(delay: int, right: bool) -> None:
    rules, state, total = play("startle", _withdraw(delay))
    event = state.event != NO_EVENT
    assert (rules.truth(state)["success"] == (~event | right)).all()
    assert np.allclose(total, np.where(event, 1.0 if right else -1.2, 0.0))


def test_bangs_begin_anywhere_in_their_tick_and_some_rooms_are_noisy() -> None:
    rules = NurseryRules("startle")
    state = rules.initial(SEEDS)
    state = state.take(state.event == BANG)
    begins = []
    for tick in range(rules.horizon):
        here = state.event_tick == tick
        level = np.abs(rules.observe(state)["sound"][here]).max(1)
        begins += [int(np.argmax(row > 0.5 * row.max())) for row in level]
        state = rules.step(state, {})
    assert np.quantile(begins, 0.1) < 400
    assert np.quantile(begins, 0.9) > 1100
    assert state.noise.min() < 0.002
    assert state.noise.max() > 0.05


def test_the_event_is_in_its_moment_and_not_before() -> None:
    rules = NurseryRules("startle")
    state = rules.initial(SEEDS[:150])
    bang, loom = state.event == BANG, state.event == LOOM
    assert bang.any()
    for tick in range(rules.horizon):
        level = np.abs(rules.observe(state)["sound"]).max((1, 2))
        at, before = state.event_tick == tick, state.event_tick > tick
        assert (level[bang & at] > 0.2).all()
        moving = rules.truth(state)["moving"][:, 0]
        assert not moving[loom & before].any()
        assert moving[loom & at].all()
        filled = rules.truth(state)["visible"][:, 0]
        state = rules.step(state, {})
    assert (filled[loom] > 1500).mean() > 0.8


def test_bind_shows_four_different_objects_of_which_one_sounds() -> None:
    rules = NurseryRules("bind")
    state = rules.initial(SEEDS)
    truth = rules.truth(state)
    four = slice(0, 4)
    assert (truth["present"].sum(1) == 4).all()
    assert (truth["visible"][:, four] >= 8).mean() > 0.995
    assert (np.diff(np.sort(truth["object_azimuth_deg"][:, four], axis=1), axis=1) > 8).all()
    assert (np.diff(np.sort(truth["size"][:, four], axis=1), axis=1) > 0.02).all()
    assert all(len(set(shapes)) == 3 for shapes in truth["shape"][:, four])
    assert (truth["sounding"].sum(1) == 1).all()
    assert set(truth["sounding_index"]) == {0, 1, 2, 3}


def test_the_empty_rooms_of_orient_equal_those_of_sight_without_the_object() -> None:
    full, empty = NurseryRules("orient/sight").initial(SEEDS), NurseryRules("orient/empty").initial(SEEDS)
    for name in ("pan", "tilt", "planes", "noise", "backdrop"):
        assert np.array_equal(getattr(full, name), getattr(empty, name)), name
    assert full.present.any(1).all()
    assert not empty.present.any()
    assert (empty.target == -1).all()


@pytest.mark.parametrize("level", ["orient/empty", "clutter/empty"])
def test_every_turn_costs_where_there_is_no_target(level: str) -> None:
    rules = NurseryRules(level)
    state = rules.initial(SEEDS)
    still = rules.step(state, {"look": np.zeros((len(SEEDS), 2))}).reward
    turned = rules.step(state, {"look": np.tile([0.4, 0.0], (len(SEEDS), 1))}).reward
    assert still == pytest.approx(0.0, abs=1e-9)
    assert (turned < 0).all()


def test_hear_has_all_classes_equally_often() -> None:
    rules = NurseryRules("hear")
    state = rules.initial(SEEDS)
    share = np.bincount(state.sound_class, minlength=7) / len(SEEDS)
    assert ((share > 0.08) & (share < 0.21)).all()
    tone = (state.sound_class >= 1) & (state.sound_class <= 3)
    truth = rules.truth(state)
    assert (truth["sounding_index"] >= 0)[tone].all()
    assert (state.shape[tone, truth["sounding_index"][tone]] + 1 == state.sound_class[tone]).all()


def _hand_at(graspable: bool, pushable: bool) -> tuple[NurseryRules, NurseryState]:
    state = empty_room(np.array([1]))
    state.hand[:] = (0.4, 0.0, 0.0)
    state.shape[:, 0], state.size[:, 0] = 0, 0.05
    put_object(state, 0, np.array([[0.49, 0.0, 0.0]]))
    state.graspable[:, 0], state.pushable[:, 0] = graspable, pushable
    return NurseryRules("room"), settle(state)


def test_a_grasped_object_moves_with_the_hand_until_released() -> None:
    rules, state = _hand_at(True, False)
    state = rules.step(state, {"reach": np.array([[0.0, 0.0, 0.0, 1.0]])})
    assert state.held[0] == 0
    assert rules.observe(state)["body"][0, 7] == 1
    before = state.position[0, 0].copy()
    state = rules.step(state, {"reach": np.array([[0.0, 1.0, 0.5, 1.0]])})
    assert np.allclose(state.position[0, 0] - before, [0.0, 0.1, 0.05])
    state = rules.step(state, {"reach": np.array([[-1.0, 0.0, 0.0, -1.0]])})
    assert state.held[0] == -1
    assert np.allclose(state.position[0, 0] - before, [0.0, 0.1, 0.05])


def test_a_touched_pushable_object_is_pushed_away() -> None:
    rules, state = _hand_at(False, True)
    state = rules.step(state, {"reach": np.array([[0.5, 0.0, 0.0, 1.0]])})
    assert state.held[0] == -1
    assert state.position[0, 0, 0] == pytest.approx(0.54)
    kept = state.position[0, 0].copy()
    state = rules.step(state, {"reach": np.array([[-1.0, 0.0, 0.0, 0.0]])})
    assert np.array_equal(state.position[0, 0], kept)


def test_the_heads_pan_wraps_and_its_tilt_is_limited() -> None:
    rules = NurseryRules("room")
    state = rules.initial(SEEDS[:1])
    state.pan[:], state.tilt[:] = 170.0, 50.0
    state = rules.step(state, {"look": np.array([[1.0, 1.0]])})
    assert state.pan[0] == pytest.approx(-165.0)
    assert state.tilt[0] == 60.0
    state.pan[:] = -180.0 + 25.0
    assert rules.step(state, {"look": np.array([[-1.0, 0.0]])}).pan[0] == 180.0
