"""Microphone and speaker on a stand-in for PyAudio that calls back from a thread; test_pulse.py uses the real one."""

from __future__ import annotations

import sys
import threading
import time
from types import ModuleType

import numpy as np
import pytest

from devmind.errors import SensorError, StaleReading
from devmind.live.speaking import Speaking
from devmind.sessions.messages import as_s16
from devmind.testing import check_sensor
from sensors import device, microphone
from sensors.microphone import BlockRing, Microphone
from sensors.speaker import Speaker


class SoundCard:
    """The behaviour of the stand-in's devices, shared by all streams.

    Attributes:
        rates: sample rates that the device supports; the last is its default.
        latency_s: from the air to the callback.
        heard: samples that were played.
        gone: whether there is no device.
        skips: samples to lose at the next callback, without any flag.
    """

    def __init__(self):
        self.rates, self.channels = [16_000, 48_000], 2
        self.latency_s, self.skips, self.gone, self.opened = 0.03, 0, False, 0
        self.heard, self.silent = [], threading.Event()

    def sound(self, index, rate_hz):
        """A tone of 440 Hz."""
        return 0.5 * np.sin(2 * np.pi * 440 * index / rate_hz)


class FakeStream:
    def __init__(self, card, rate, channels, frames, callback, output):
        self._card, self._rate, self._channels, self._frames, self._callback = card, rate, channels, frames, callback
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._speak if output else self._listen, daemon=True)
        self._thread.start()

    def _pace(self):
        begun, index = time.monotonic(), 0
        while not self._stop.is_set():
            index += self._frames
            if self._stop.wait(max(0.0, begun + index / self._rate - time.monotonic())):
                return
            if self._card.silent.is_set():
                continue
            begun += self._card.skips / self._rate
            self._card.skips = 0
            yield index

    def _listen(self):
        for index in self._pace():
            at = np.arange(index - self._frames, index)
            samples = np.repeat(self._card.sound(at, self._rate), self._channels)
            now = time.monotonic()
            times = {
                "current_time": now,
                "input_buffer_adc_time": now - self._frames / self._rate - self._card.latency_s,
            }
            self._callback((samples * 32767).astype(np.int16).tobytes(), self._frames, times, 0)

    def _speak(self):
        for _ in self._pace():
            data, _ = self._callback(None, self._frames, {}, 0)
            assert len(data) == 2 * self._frames * self._channels
            self._card.heard.append(np.frombuffer(data, np.int16)[:: self._channels])

    def get_input_latency(self):
        return 0.0

    get_output_latency = get_input_latency

    def close(self):
        self._stop.set()
        self._thread.join(5)


@pytest.fixture
def card(monkeypatch):
    """A sound card behind a stand-in for the module pyaudio."""
    card = SoundCard()

    class PyAudio:
        def get_device_count(self):
            return 1

        def get_device_info_by_index(self, index):
            return {
                "index": 0,
                "name": "Fine Card (hw:0)",
                "maxInputChannels": card.channels,
                "maxOutputChannels": card.channels,
                "defaultSampleRate": float(card.rates[-1]),
            }

        def get_default_input_device_info(self):
            if card.gone:
                raise OSError("No Default Input Device Available")
            return self.get_device_info_by_index(0)

        get_default_output_device_info = get_default_input_device_info

        def is_format_supported(self, rate, **words):
            if rate not in card.rates:
                raise ValueError("Invalid sample rate")
            return True

        def open(self, rate, channels, format, stream_callback, frames_per_buffer, output=False, **words):
            assert rate in card.rates
            card.opened += 1
            return FakeStream(card, rate, channels, frames_per_buffer, stream_callback, output)

        def terminate(self):
            pass

    module = ModuleType("pyaudio")
    vars(module).update(PyAudio=PyAudio, paInt16=8)
    monkeypatch.setitem(sys.modules, "pyaudio", module)
    monkeypatch.setattr(device, "FIRST_PAUSE_S", 0.05)
    return card


def window(sensor, seconds=0.2, patience_s=10.0):
    """The first complete window from now on, and its start."""
    start_s = time.monotonic()
    while True:
        try:
            return sensor.read_window(start_s, start_s + seconds), start_s
        except StaleReading as error:
            if time.monotonic() > start_s + patience_s:
                raise
            if "lost" in str(error) or "opened" in str(error) or "nothing" in str(error):
                start_s = time.monotonic()
            time.sleep(0.01)


def played_out(mouth, card):
    """Wait until nothing is left to play and the card has heard some blocks after it."""
    until, blocks = time.monotonic() + 30, None
    while blocks is None or len(card.heard) < blocks:
        assert time.monotonic() < until
        if blocks is None and not mouth.pending_s:
            blocks = len(card.heard) + 10
        time.sleep(0.01)


def pitch_hz(samples):
    """The loudest frequency of a window at 16 kHz."""
    return np.argmax(np.abs(np.fft.rfft(samples * np.hanning(len(samples)), 16_000)))


@pytest.mark.parametrize("rates", [pytest.param([16_000], marks=pytest.mark.slow), [44_100]])
def test_the_microphone_keeps_its_laws_and_gives_16_khz(card, rates):
    card.rates = rates
    check_sensor(Microphone)
    with Microphone(channels=2) as ears:
        heard, _ = window(ears)
        assert heard.shape == (2, 3200)
        assert pitch_hz(heard[0]) == pytest.approx(440, abs=5)
        assert abs(heard).max() == pytest.approx(0.5, abs=0.02)


def test_samples_carry_the_time_of_their_capture(card):
    """A click has the time at which it was made, though the callback comes 0.03 s later."""
    made = []

    def click(index, rate_hz):
        if not made and index[0] > 4000:
            made.append(time.monotonic() - 0.03 - len(index) / rate_hz)
            return np.eye(1, len(index))[0]
        return np.zeros(len(index))

    card.sound = click
    with Microphone() as ear:
        while not made:
            time.sleep(0.01)
        heard, start_s = None, made[0] - 0.1
        until = time.monotonic() + 30
        while heard is None and time.monotonic() < until:
            try:
                heard = ear.read_window(start_s, start_s + 0.2)[0]
            except StaleReading:
                time.sleep(0.01)
    assert start_s + np.argmax(heard) / 16_000 == pytest.approx(made[0], abs=0.02)


def test_a_silent_device_is_reopened(card, monkeypatch):
    monkeypatch.setattr(microphone, "SILENT_S", 0.2)
    with Microphone() as ear:
        window(ear)
        card.silent.set()
        now = time.monotonic()
        with pytest.raises(StaleReading):
            ear.read_window(now + 0.2, now + 0.3)
        while card.opened < 2:
            assert time.monotonic() < now + 10
            time.sleep(0.01)
        card.silent.clear()
        window(ear)
        assert ear.health.reconnects >= 1


@pytest.mark.slow
def test_samples_lost_without_a_flag_are_detected(card):
    with Microphone() as ear:
        window(ear)
        card.skips = 4800
        until = time.monotonic() + 30
        while not ear.drops and time.monotonic() < until:
            time.sleep(0.02)
        assert ear.drops == pytest.approx(4800, rel=0.2)


def test_a_missing_device_is_stale_with_the_reason(card):
    card.gone = True
    with Microphone() as ear:
        until = time.monotonic() + 30
        while not ear.health.fault and time.monotonic() < until:
            time.sleep(0.01)
        with pytest.raises(StaleReading, match="No Default Input Device"):
            ear.read_window(time.monotonic() - 0.1, time.monotonic())


def test_a_device_is_found_by_part_of_its_name_or_the_devices_are_listed(card):
    with Microphone("fine") as ear:
        window(ear)
    with Microphone("gold") as ear:
        until = time.monotonic() + 30
        while not ear.health.fault and time.monotonic() < until:
            time.sleep(0.01)
        assert "named 'gold'; there are: 'Fine Card (hw:0)'" in ear.health.fault


def test_overrun_blocks_are_counted_and_leave_a_gap():
    ring = BlockRing(blocks=2, samples=4, channels=1)
    block = np.full(4, 16384, np.int16).tobytes()
    for k in range(5):
        ring.put(block, float(k), lost=False)
    assert ring.overruns == 3
    assert [ring.take()[1:] for _ in range(2)] == [(0.0, False), (1.0, False)]
    ring.put(block, 9.0, lost=False)
    samples, made_s, lost = ring.take()
    assert (samples.tolist(), made_s, lost) == ([[0.5]] * 4, 9.0, True)
    assert ring.take() is None


@pytest.mark.parametrize("rates", [pytest.param([16_000], marks=pytest.mark.slow), [48_000]])
def test_the_speaker_plays_its_input_without_blocking(card, rates):
    card.rates = rates
    tone = (0.5 * np.sin(2 * np.pi * 440 * np.arange(4800) / 16_000)).astype(np.float32)[None]
    with Speaker() as mouth:
        card.silent.set()  # nothing is played, so who waited for the sound would wait for ever
        mouth.act(tone)
        assert mouth.pending_s == pytest.approx(0.3, abs=0.05), "but for a block that was on its way"
        card.silent.clear()
        played_out(mouth, card)
    heard = np.concatenate(card.heard) / 32767
    heard = heard[np.flatnonzero(heard)[0] :][: rates[0] * 3 // 10]
    assert np.argmax(np.abs(np.fft.rfft(heard, rates[0]))) == pytest.approx(440, abs=3)
    assert mouth.drops == 0


def test_a_speaker_of_another_rate_adds_no_tones_and_plays_to_the_end(card):
    card.rates = [44_100]
    tone = (0.5 * np.sin(2 * np.pi * 3000 * np.arange(4800) / 16_000)).astype(np.float32)[None]
    with Speaker() as mouth:
        mouth.act(tone)
        played_out(mouth, card)
    heard = np.concatenate(card.heard) / 32767
    loud = np.flatnonzero(np.abs(heard) > 0.1)
    assert len(heard[loud[0] : loud[-1]]) == pytest.approx(0.3 * 44_100, abs=100)
    middle = heard[loud[0] : loud[-1]][1000:-1000]
    power = np.abs(np.fft.rfft(middle * np.hanning(len(middle)))) ** 2
    hz = np.fft.rfftfreq(len(middle), 1 / 44_100)
    assert power[np.abs(hz - 3000) > 100].sum() < 1e-4 * power.sum()


@pytest.mark.parametrize("rates", [pytest.param([16_000], marks=pytest.mark.slow), [44_100]])
def test_loud_sound_stays_within_full_scale(card, rates, monkeypatch):
    """Resampling square waves overshoots."""
    card.rates = rates
    monkeypatch.setattr(card, "sound", lambda index, rate_hz: np.sign(np.sin(2 * np.pi * 700 * index / rate_hz)))
    with Microphone() as ear:
        heard, _ = window(ear)
    assert 0.9 < np.abs(heard).max() <= 1
    assert as_s16(heard) is not None, "a recording keeps it as plain PCM"


def test_a_speaker_without_its_device_keeps_nobody_waiting(card):
    """A life is deaf as long as its speaker has something to say; without a device it would be deaf for ever."""
    card.gone = True
    sound = np.full((1, 1600), 0.5, np.float32)
    with Speaker() as mouth, Speaking(mouth) as voice:
        mouth.act(sound)  # perhaps before the device was looked for
        until = time.monotonic() + 30
        while not (mouth.health.fault and mouth.drops) and time.monotonic() < until:
            time.sleep(0.01)
        voice.act(sound)
        assert mouth.pending_s == 0
        assert mouth.drops == 3200
        while voice.is_heard and time.monotonic() < until:
            time.sleep(0.01)
        assert not voice.is_heard
        card.gone = False
        while not mouth.health.captures and time.monotonic() < until:
            time.sleep(0.01)
        voice.act(sound)
        played_out(mouth, card)
    assert mouth.drops == 3200
    assert np.abs(np.concatenate(card.heard)).max() > 16_000


def test_the_speakers_queue_is_bounded_and_emptied_on_close(card):
    card.silent.set()
    with Speaker(queue_s=1.0) as mouth:
        for _ in range(30):
            mouth.act(np.zeros((2, 1600), np.float32))
        assert mouth.pending_s == pytest.approx(1.0)
        assert mouth.drops == 2 * 16_000
    assert mouth.pending_s == 0
    mouth.act(np.zeros((1, 1600), np.float32))
    assert mouth.pending_s == 0, "a closed speaker queues nothing"
    with pytest.raises(SensorError, match=r"float32 \[C, S\]"):
        mouth.act(np.zeros(1600))


@pytest.mark.parametrize("sensor", [Microphone, Speaker])
def test_a_missing_pyaudio_error_names_the_extra(sensor, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyaudio", None)
    with pytest.raises(SensorError, match=r"devmind\[live\]"), sensor():
        pass
