"""The last two seconds: a picture is always meant, a sound only while it stands out."""

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


def test_in_a_quiet_room_this_is_what_is_seen() -> None:
    assert set(lived([0.001] * 40).example().senses) == {"sight"}
    assert set(lived([0.0] * 40).example().senses) == {"sight"}


def test_a_sound_louder_than_usual_is_meant_too_for_two_seconds() -> None:
    heard = lived([0.001] * 40 + [0.1] + [0.001] * 5).example()
    assert set(heard.senses) == {"sight", "sound"}
    assert heard.senses["sound"].shape == (1, 20 * TICK_SAMPLES)
    assert np.array_equal(heard.senses["sight"], PICTURE + 45 % 9)
    assert set(lived([0.001] * 40 + [0.1] + [0.001] * 25).example().senses) == {"sight"}


def test_a_room_that_is_always_loud_has_nothing_that_stands_out() -> None:
    assert not lived([0.1] * 40).stands_out()


def test_one_can_say_which_is_meant() -> None:
    recent = lived([0.001] * 40)
    assert set(recent.example("heard").senses) == {"sound"}
    assert set(recent.example("both").senses) == {"sight", "sound"}
    with pytest.raises(StoreError, match="auto, seen, heard, both"):
        recent.example("smelled")


def test_nothing_is_a_sentence() -> None:
    with pytest.raises(StoreError, match="no picture in the last"):
        lived([0.001] * 40, sight=False).example()
    with pytest.raises(StoreError, match="no picture"):
        RecentBuffer().example("seen")


def test_what_was_loud_before_the_microphone_went_is_not_meant_for_ever() -> None:
    recent = lived([0.001] * 40 + [0.1])
    for number in range(41, 90):
        recent.add(Moment(number / 10, {"sight": PICTURE}))
    assert not recent.stands_out()
    assert set(recent.example().senses) == {"sight"}
