"""A session as camera and microphone: its Moments come at their times, again in every round."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from devmind.errors import SessionError, StaleReading
from devmind.live.demo import Tape, TapeCamera, TapeMicrophone
from devmind.moment import TICK_SAMPLES, Moment
from devmind.sessions.recorder import Recorder


@pytest.fixture
def session(tmp_path: Path) -> Path:
    path = tmp_path / "s.mcap"
    with Recorder(path, source="test") as recorder:
        for number in range(5):
            sight = np.full((64, 64, 3), 10 * number, np.uint8)
            sound = np.full((2, TICK_SAMPLES), number / 8, np.float32)
            recorder.write(Moment(3 + number / 10, {"sight": sight, **({"sound": sound} if number != 2 else {})}))
    return path


def test_pictures_come_at_their_times_in_every_round(session: Path) -> None:
    now_s = [100.0]
    tape = Tape(session, now=lambda: now_s[0])
    assert tape.length_s == pytest.approx(0.5)
    with TapeCamera(tape) as camera:
        for at_s, value, captured_s in (
            (100.0, 0, 100.0),
            (100.19, 10, 100.1),
            (100.45, 40, 100.4),
            (100.71, 20, 100.7),
        ):
            now_s[0] = at_s
            picture, found_s = camera.read_latest(0.2)
            assert (picture[0, 0, 0], found_s) == (value, pytest.approx(captured_s))
        with pytest.raises(StaleReading):
            camera.read_latest(0.005)
    with pytest.raises(StaleReading):
        camera.read_latest(1.0)


def test_sound_comes_sample_by_sample_and_only_where_recorded(session: Path) -> None:
    tape = Tape(session, now=lambda: 102.0)
    tape.begun_s = 100.0
    with TapeMicrophone(tape) as ear:
        both = ear.read_window(100.25, 100.35)  # the sound of the Moments at 0.3 and 0.4
        assert (both.shape, both.dtype) == ((1, TICK_SAMPLES), np.float32)
        assert both[0, [0, 799, 800, -1]].tolist() == [3 / 8, 3 / 8, 4 / 8, 4 / 8]
        with pytest.raises(StaleReading):
            ear.read_window(100.15, 100.25)
        assert np.array_equal(ear.read_window(100.3, 100.4), ear.read_window(100.8, 100.9))
        assert not ear.read_window(100.4, 100.5).any()
        with pytest.raises(StaleReading, match="no sound"):
            ear.read_window(101.95, 102.05)


def test_session_without_pictures_and_sound_is_refused(tmp_path: Path) -> None:
    with Recorder(tmp_path / "w.mcap", source="test") as recorder:
        recorder.write(Moment(0.0, {"words": "hello"}))
    with pytest.raises(SessionError, match="no picture and no sound"):
        Tape(tmp_path / "w.mcap")


def test_episodes_whose_clocks_begin_anew_are_played_one_after_the_other(tmp_path: Path) -> None:
    path = tmp_path / "episodes.mcap"
    with Recorder(path, source="test") as recorder:
        for number in range(6):
            sight = np.full((64, 64, 3), 10 * number, np.uint8)
            recorder.write(Moment(number % 3 / 10, {"sight": sight}, first=number % 3 == 0))
    now_s = [100.0]
    tape = Tape(path, now=lambda: now_s[0])
    assert tape.length_s == pytest.approx(0.6)
    with TapeCamera(tape) as camera:
        seen = []
        for number in range(6):
            now_s[0] = 100.05 + number / 10
            seen.append(int(camera.read_latest(0.2)[0][0, 0, 0]))
    assert seen == [0, 10, 20, 30, 40, 50]


def test_whole_frames_of_the_camera_are_played_where_the_session_has_them(tmp_path: Path) -> None:
    path = tmp_path / "whole.mcap"
    with Recorder(path, source="test") as recorder:
        for number in range(4):
            recorder.write(Moment(3 + number / 10, {"sight": np.zeros((64, 64, 3), np.uint8)}))
            recorder.frame(np.full((120, 160, 3), 50 * number, np.uint8), 3 + number / 10 + 0.02)
    now_s = [100.0]
    tape = Tape(path, now=lambda: now_s[0])
    assert tape.senses == {"sight"}
    with TapeCamera(tape) as camera:
        with pytest.raises(StaleReading):
            camera.read_latest(0.2)  # the first frame came after the first Moment
        for at_s, value in ((100.03, 0), (100.15, 50), (100.33, 150), (100.43, 0)):
            now_s[0] = at_s
            picture, captured_s = camera.read_latest(0.2)
            assert picture.shape == (120, 160, 3)
            assert abs(int(picture[60, 80, 0]) - value) <= 1, at_s
            assert captured_s <= at_s


def test_too_many_whole_frames_for_memory_play_the_pictures_of_moments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("devmind.live.demo.MOST_FRAME_BYTES", 100)
    path = tmp_path / "long.mcap"
    with Recorder(path, source="test") as recorder:
        recorder.write(Moment(0.0, {"sight": np.full((64, 64, 3), 7, np.uint8)}))
        recorder.frame(np.zeros((120, 160, 3), np.uint8), 0.0)
    tape = Tape(path, now=lambda: 100.0)
    with TapeCamera(tape) as camera:
        assert camera.read_latest(0.2)[0].shape == (64, 64, 3)
