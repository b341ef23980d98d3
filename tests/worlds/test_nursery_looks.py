"""Looks and tones held out of lessons: they are in no room of a lesson, and in rooms of exams."""

from __future__ import annotations

import numpy as np
import pytest

from devmind.seeding import EXAM_SEEDS_FROM, exam_seeds, lesson_seeds
from devmind.worlds.nursery import NurseryRules
from devmind.worlds.nursery.chance import integers
from devmind.worlds.nursery.looks import (
    BAND_M,
    GROUP,
    LARGEST_M,
    SMALLEST_M,
    TONES,
    WITHOUT,
    left_out,
    never_met,
    sizes,
    tone_held_out,
)
from devmind.worlds.nursery.state import COLOUR_NAMES, SHAPES, TEXTURES, NurseryState
from devmind.worlds.nursery.timbre import tone_hz
from stages.memory.recall.things import HELD_OUT
from stages.reflex import lessons, together
from stages.reflex.foresee import lesson as foresee_lesson
from stages.reflex.locate import lesson as locate_lesson
from stages.reflex.orient import lesson as orient_lesson
from stages.reflex.reach import lesson as reach_lesson

DRILLED = {level for drill in lessons.DRILLS.values() if drill.world == "nursery" for level in drill.levels}
TAUGHT = sorted(
    {*foresee_lesson.LEVELS, *locate_lesson.LEVELS, *orient_lesson.LEVELS, *reach_lesson.LEVELS, *together.LEVELS}
    | DRILLED
    | {"hear", "bind", "startle"}
)
EVERY = len(SHAPES) * len(COLOUR_NAMES) * len(TEXTURES)


def kinds(state: NurseryState) -> np.ndarray:
    """Numbers of the combinations of the things present."""
    there = state.present
    found = state.shape + len(SHAPES) * (state.colour + len(COLOUR_NAMES) * state.texture)
    return np.asarray(found[there])


@pytest.mark.parametrize("level", TAUGHT)
def test_reflex_lessons_never_show_held_out_looks_and_exams_do(level: str) -> None:
    rules = NurseryRules(level)
    shown = kinds(rules.initial(lesson_seeds(1500, "looks", level)))
    assert not np.isin(shown, HELD_OUT).any()
    asked = kinds(rules.initial(exam_seeds(1500, "looks", level)))
    if len(asked):  # some levels have no things
        assert 0.18 < np.isin(asked, HELD_OUT).mean() < 0.32


def test_a_quarter_of_the_combinations_is_held_out_and_every_pair_of_values_is_shown() -> None:
    shape, colour, texture = np.meshgrid(*(np.arange(len(x)) for x in (SHAPES, COLOUR_NAMES, TEXTURES)), indexing="ij")
    left = left_out(shape, colour, texture)
    assert left.sum() * 4 == left.size == EVERY
    for axis in range(3):
        assert (~left).any(axis).all()
        assert left.any(tuple(other for other in range(3) if other != axis)).all()


def test_lessons_show_all_other_combinations_about_equally_often() -> None:
    state = NurseryRules("room").initial(lesson_seeds(4000, "looks", "often"))
    often = np.bincount(kinds(state), minlength=EVERY)
    shown = np.delete(often, HELD_OUT)
    assert shown.min() > 0.6 * shown.mean()
    assert shown.max() < 1.5 * shown.mean()


def test_lessons_change_only_textures_of_held_out_looks_and_exams_keep_all() -> None:
    last, first = (NurseryRules("room").initial(EXAM_SEEDS_FROM + np.arange(0, 200) - begin) for begin in (200, 0))
    for state, of_a_lesson in ((last, True), (first, False)):
        drawn = integers(state.seed, "texture", len(TEXTURES), state.texture.shape[1:])
        changed = drawn != state.texture
        np.testing.assert_array_equal(changed, left_out(state.shape, state.colour, drawn) & of_a_lesson)


def sounding(state: NurseryState) -> np.ndarray:
    """Sizes of the things that sound or knock now."""
    return np.asarray(state.size[state.present & ((state.loudness > 0) | state.tapping)])


@pytest.mark.parametrize("level", TAUGHT)
def test_lessons_never_sound_held_out_tones_and_exams_do(level: str) -> None:
    rules = NurseryRules(level)
    taught, asked = (sounding(rules.initial(seeds(3000, "tones", level))) for seeds in (lesson_seeds, exam_seeds))
    assert not tone_held_out(taught).any()
    if len(asked) > 100 and level != "bind":  # `bind` uses four given sizes
        assert 0.14 < tone_held_out(asked).mean() < 0.25


def test_lessons_draw_other_sizes_about_equally_often_and_exams_draw_all() -> None:
    seeds, drawn = np.repeat([5, EXAM_SEEDS_FROM], 20_000), np.tile(np.linspace(SMALLEST_M, LARGEST_M, 20_000), 2)
    taught, asked = np.split(sizes(seeds, drawn), 2)
    np.testing.assert_array_equal(asked, drawn[:20_000])
    assert (np.diff(taught) > 0).all(), "in the order that they were drawn in"
    assert (taught[0], taught[-1]) == pytest.approx((SMALLEST_M, LARGEST_M))
    low, high = BAND_M
    share = (low - SMALLEST_M) / (LARGEST_M - SMALLEST_M - (high - low))
    assert (taught < low).mean() == pytest.approx(share, abs=1e-3)
    assert not ((taught >= low) & (taught < high)).any()
    assert tone_hz(np.array([high, low])) == pytest.approx([187.5, 219], abs=0.1)


def test_only_agents_that_list_held_out_groups_first_never_met_them() -> None:
    for met, looks, tones in (
        ([], False, False),
        ([GROUP, "pictures:digits"], True, False),
        ([GROUP, "pictures:digits", TONES], True, False),
        (["pictures:digits", GROUP, TONES], False, False),
        ([*WITHOUT, "pictures:digits"], True, True),
    ):
        assert (never_met(met, GROUP), never_met(met, TONES)) == (looks, tones)
