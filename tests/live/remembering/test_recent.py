"""The last two seconds as an example: always a picture, and a sound only while it stands out."""

from __future__ import annotations

import numpy as np
import pytest

from devmind.errors import StoreError
from devmind.live.remembering.recent import RecentBuffer
from devmind.moment import TICK_SAMPLES, Moment

PICTURE = np.full((64, 64, 3), 7, np.uint8)


def tick(number: int, loudness: float, sight: bool = True) -> Moment:
    sound = np.full((1, TICK_SAMPLES), loudness, np.float32)
    return Moment(number / 10, {"sound": sound, **({"sight": PICTURE + number % 9} if sight else {})})


def lived(levels: list[float], sight: bool = True) -> RecentBuffer:
    recent = RecentBuffer()
    for number, level in enumerate(levels):
        recent.add(tick(number, level, sight))
    return recent


def test_example_in_a_quiet_room_is_the_picture() -> None:
    assert set(lived([0.001] * 40).example().senses) == {"sight"}
    assert set(lived([0.0] * 40).example().senses) == {"sight"}


def test_loud_sound_is_part_of_the_example_for_two_seconds() -> None:
    heard = lived([0.001] * 40 + [0.1] + [0.001] * 5).example()
    assert set(heard.senses) == {"sight", "sound"}
    assert heard.senses["sound"].shape == (1, 20 * TICK_SAMPLES)
    assert np.array_equal(heard.senses["sight"], PICTURE + 45 % 9)
    assert set(lived([0.001] * 40 + [0.1] + [0.001] * 25).example().senses) == {"sight"}


def test_constant_loud_sound_does_not_stand_out() -> None:
    assert not lived([0.1] * 40).stands_out()


def test_senses_of_the_example_can_be_chosen() -> None:
    recent = lived([0.001] * 40)
    assert set(recent.example("heard").senses) == {"sound"}
    assert set(recent.example("both").senses) == {"sight", "sound"}
    with pytest.raises(StoreError, match="auto, seen, heard, both"):
        recent.example("smelled")


def test_example_without_a_picture_gives_a_clear_error() -> None:
    with pytest.raises(StoreError, match="no picture in the last"):
        lived([0.001] * 40, sight=False).example()
    with pytest.raises(StoreError, match="no picture"):
        RecentBuffer().example("seen")


def test_loud_sound_before_a_lost_microphone_stops_standing_out() -> None:
    recent = lived([0.001] * 40 + [0.1])
    for number in range(41, 90):
        recent.add(Moment(number / 10, {"sight": PICTURE}))
    assert not recent.stands_out()
    assert set(recent.example().senses) == {"sight"}


def test_slow_machine_forgets_what_is_older_than_two_seconds() -> None:
    """Moments were counted, not seconds: at one Moment a second, "this" was what was heard within twenty."""
    recent = RecentBuffer()
    for second in range(30):
        recent.add(tick(10 * second, 0.1 if second == 10 else 0.001))
        assert recent.stands_out() == (second in (10, 11))
    assert recent.since_s == 28
    assert recent.example("heard").senses["sound"].shape == (1, 2 * TICK_SAMPLES)
