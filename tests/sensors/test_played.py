"""Sensors with known content: synthetic events, a film, a recording."""

from __future__ import annotations

import time

import numpy as np
import pytest

from devmind.errors import SensorError, StaleReading
from devmind.testing import check_sensor
from sensors.audio_file import AudioFile
from sensors.synthetic import SyntheticCamera, SyntheticMicrophone, event_times
from sensors.video_file import VideoFile

FPS = 20


@pytest.fixture
def film(tmp_path):
    """A film of 0.7 s; frame k is uniformly grey, 10 k."""
    import cv2

    path = tmp_path / "film.mp4"
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"mp4v"), FPS, (96, 64))
    for frame in range(14):
        writer.write(np.full((64, 96, 3), 10 * frame, np.uint8))
    writer.release()
    return path


@pytest.fixture
def song(tmp_path):
    """A recording of 0.65 s at 44.1 kHz: a tone of 440 Hz on the left, silence on the right."""
    import soundfile

    path = tmp_path / "song.wav"
    tone = 0.5 * np.sin(2 * np.pi * 440 * np.arange(28_665) / 44_100)
    soundfile.write(path, np.stack([tone, 0 * tone], 1), 44_100)
    return path


def wait_for(read, seconds=5.0):
    """The first result of `read` that is not stale."""
    until = time.monotonic() + seconds
    while True:
        try:
            return read()
        except StaleReading:
            if time.monotonic() > until:
                raise
            time.sleep(0.005)


def test_sensors_keep_their_laws(film, song):
    check_sensor(SyntheticCamera)
    check_sensor(SyntheticMicrophone)
    check_sensor(lambda: VideoFile(film, loop=True))
    check_sensor(lambda: AudioFile(song, loop=True))


def test_flash_and_click_come_at_the_known_times():
    with SyntheticCamera(period_s=0.25, flash_s=0.1) as camera, SyntheticMicrophone(period_s=0.25) as microphone:
        begun, sound, frames = time.monotonic(), None, {}
        # A busy machine misses some frames.
        while sound is None or (sum(frames.values()) < 2 and time.monotonic() < begun + 60):
            try:
                frame, at_s = camera.read_latest(1.0)
                frames[at_s] = frame.min() == 255
            except StaleReading:
                pass
            if sound is None and time.monotonic() > begun + 0.6:
                sound = wait_for(lambda: microphone.read_window(begun, begun + 0.6))[0]
            time.sleep(0.005)
    known, flashes = event_times(begun, begun + 0.6, 0.25), event_times(begun - 0.2, max(frames) + 0.1, 0.25)
    assert 2 <= len(known) <= 3
    assert frames == {at_s: any(-1e-6 <= at_s - event < 0.1 - 1e-6 for event in flashes) for at_s in frames}
    assert sum(frames.values()) >= 2
    loud = begun + np.flatnonzero(np.abs(sound) > 0.7) / 16_000
    onsets = loud[np.diff(loud, prepend=-1.0) > 0.1]
    # Of a click at the very edge of the window some samples lie outside.
    heard, wanted = ([at_s for at_s in some if 0.001 < at_s - begun < 0.599] for some in (onsets, known))
    assert len(wanted) >= 2
    assert heard == pytest.approx(wanted, abs=0.001)


@pytest.mark.slow
def test_a_film_plays_at_its_own_speed_and_ends(film):
    with VideoFile(film) as player:
        read = {}
        until = time.monotonic() + 30
        while "end" not in player.health.fault and time.monotonic() < until:
            try:
                frame, at_s = player.read_latest(1.0)
                read[at_s] = frame[32, 48, 0]
            except StaleReading:
                pass
            time.sleep(0.01)
        time.sleep(0.02)
        with pytest.raises(StaleReading, match="has ended"):
            player.read_latest(0.01)
    times, greys = np.array(list(read)), np.array(list(read.values()), float)
    assert len(times) >= 6
    assert np.polyfit(times, greys, 1)[0] == pytest.approx(10 * FPS, rel=0.1)


@pytest.mark.slow
def test_a_recording_plays_at_16_khz_and_ends(song):
    with AudioFile(song) as player:
        start_s = time.monotonic() + 0.1
        window = wait_for(lambda: player.read_window(start_s, start_s + 0.5))
        until = time.monotonic() + 30
        while "end" not in player.health.fault and time.monotonic() < until:
            time.sleep(0.02)
        assert player._ring.written == pytest.approx(10_400, abs=1)
        with pytest.raises(StaleReading, match="has ended"):
            player.read_window(start_s + 1, start_s + 1.1)
    assert (window.dtype, window.shape) == (np.float32, (2, 8000))
    spectrum = np.abs(np.fft.rfft(window[0] * np.hanning(8000)))
    assert np.argmax(spectrum) * 2 == pytest.approx(440, abs=2)
    assert np.abs(window[1]).max() < 0.01


def test_a_recording_louder_than_full_scale_is_clipped_and_one_without_numbers_ends(tmp_path):
    import soundfile

    loud = np.full(16_000, 3.0, np.float32)
    soundfile.write(tmp_path / "loud.wav", loud, 16_000, subtype="FLOAT")
    with AudioFile(tmp_path / "loud.wav") as player:
        start_s = time.monotonic() + 0.1
        assert np.abs(wait_for(lambda: player.read_window(start_s, start_s + 0.2))).max() > 0.999
    loud[3000] = np.nan
    soundfile.write(tmp_path / "broken.wav", loud, 16_000, subtype="FLOAT")
    with AudioFile(tmp_path / "broken.wav") as player:
        until = time.monotonic() + 30
        while "no numbers" not in player.health.fault and time.monotonic() < until:
            time.sleep(0.01)
        assert "save it anew" in player.health.fault


@pytest.mark.parametrize("player", [VideoFile, AudioFile])
def test_an_invalid_file_raises_a_sensor_error(player, tmp_path):
    with pytest.raises(SensorError, match="check the path"), player(tmp_path / "nothing.wav"):
        pass
    (tmp_path / "text.wav").write_text("these are words")
    with pytest.raises(SensorError, match="convert it"), player(tmp_path / "text.wav"):
        pass
