"""The view of a tick: strict JSON with known values only."""

from __future__ import annotations

import base64
import json
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import cv2
import numpy as np
import pytest
import torch

from devmind.acting.confidence import Confidence, LessonDensity
from devmind.agent.agent import Agent
from devmind.agent.batch import encode_words
from devmind.agent.features import level_db
from devmind.live.loop import LiveLoop, Tick
from devmind.live.viewing.drawing import draw_overlays, jpeg
from devmind.live.viewing.hearing import mel_columns
from devmind.live.viewing.overlay_confidence import OverlayConfidence
from devmind.live.viewing.view import View, follows, overlay_head, spoken_words
from devmind.memory import Named
from devmind.moment import Moment
from devmind.testing import tiny_agent
from devmind.worlds.room import Room, sensor_health
from sensors.browser import BrowserMicrophone
from sensors.frames import Health
from sensors.synthetic import SyntheticCamera, SyntheticMicrophone
from stages.reflex import parts
from stages.reflex.direction import direction_deg
from tests.agent.conftest import shake


@pytest.fixture(scope="module")
def agent() -> Agent:
    born = tiny_agent()
    parts.admit(born)
    return shake(born)


def views(agent: Agent, room: Room, ticks: int, **options: Any) -> list[dict[str, Any]]:
    view, found = View(agent, **options), []

    def watch(tick: Tick) -> None:
        found.append(
            view.of(tick, room, {"sight": Named(None, "cup", 0.25, 0.3, {"cup": 0.25})}, {"sight": 0.5}, {"age": "x"})
        )

    LiveLoop(agent, room, watchers={"page": watch}).run(stop=lambda: len(found) >= ticks)
    view.close()
    return found


def decoded(url: str) -> np.ndarray:
    head, data = url.split(",")
    assert head == "data:image/png;base64"
    return cv2.imdecode(np.frombuffer(base64.b64decode(data), np.uint8), cv2.IMREAD_UNCHANGED)


def test_view_of_a_tick_with_all_senses(agent: Agent) -> None:
    with SyntheticCamera() as eye, SyntheticMicrophone() as ear:
        shown = views(agent, Room({"eye": eye, "ear": ear}, hz=20), 3)[-1]
    assert json.loads(json.dumps(shown, allow_nan=False)) == shown
    assert shown["missing"] == {"sight": 0, "sound": 0}
    assert np.sum(shown["attention"]) == pytest.approx(1, abs=1e-2)
    assert np.shape(shown["attention"]) == (4, 4)
    assert shown["answered"]["look"] == "look_arc"
    assert "look_arc" in shown["arcs"]
    assert len(shown["look"]) == 2
    box = shown["fovea"]
    assert 0 <= box["x"] <= 1 - box["w"]
    assert 0 <= box["y"] <= 1 - box["h"]
    assert shown["names"] == {"sight": {"name": None, "nearest": "cup", "confidence": 0.25, "shares": {"cup": 0.25}}}
    assert shown["surprise"] == {"sight": 0.5}
    assert shown["age"] == "x"
    assert shown["sound"]["direction_deg"] is None, "one ear"
    assert {kind: (of["confidence"], of["sure"], len(of)) for kind, of in shown["overlays"].items()} == dict.fromkeys(
        ("boxes", "masks", "depth"), (0.0, False, 2)
    ), "a stream begins unsure, and then nothing is drawn"


def test_view_without_a_camera_has_no_sight(agent: Agent) -> None:
    with SyntheticMicrophone() as ear:
        shown = views(agent, Room({"ear": ear}, hz=20), 2)[-1]
    assert not {"fovea", "gaze", "attention", "overlays"} & shown.keys()
    assert "sound" in shown
    assert json.dumps(shown, allow_nan=False)


def test_agent_without_heads_has_a_view() -> None:
    born = tiny_agent()
    born.add_encoder("sight")
    assert overlay_head(born) is None
    with SyntheticCamera() as eye:
        shown = views(born, Room({"eye": eye}, hz=20), 1)[-1]
    assert "fovea" in shown
    assert "overlays" not in shown


def test_stream_becomes_confident_in_seconds(monkeypatch: pytest.MonkeyPatch, agent: Agent) -> None:
    monkeypatch.setattr(Confidence, "of", lambda self, *rest: {"depth": 0.9})
    measured = Confidence("", "", LessonDensity(np.zeros(1), np.zeros((1, 1)), 0.0), {})
    stream, shown = OverlayConfidence(agent, "scene", measured), []
    for number in range(100):
        moment = Moment(number / 10, {"sight": np.zeros((64, 64, 3), np.uint8)}, first=number == 0)
        tick: Any = SimpleNamespace(moment=moment, percepts=None)
        shown.append(stream.see(tick, {"depth": np.ones((64, 64))})["depth"])
    assert shown[0] == shown[1] == 0
    assert all(a <= b for a, b in pairwise(shown))
    assert shown[9] < 0.7
    assert shown[60] > 0.7
    assert shown[-1] == pytest.approx(0.9, abs=0.02)


def test_agent_that_was_never_measured_says_so(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    assert View(agent).fault == "", "it went through no stage"
    monkeypatch.setattr(agent.config, "stages", ["reflex"])
    assert "never measured" in View(agent).fault
    with SyntheticCamera() as eye:
        shown = views(agent, Room({"eye": eye}, hz=20), 12)[-1]
    assert not any(of["sure"] for of in shown["overlays"].values())


def test_confident_overlays_are_drawn() -> None:
    masks = np.zeros((64, 64), np.uint8)
    masks[:8], masks[8:16] = 1, 2
    depth = np.linspace(1, 4, 4096).reshape(64, 64)
    seen = {"boxes": np.array([[0, 0, 1, 0.25, 0.9]]), "masks": masks, "depth": depth}
    shown = draw_overlays(seen, {"boxes": 0.8, "masks": 0.8, "depth": 0.6999}, sure=0.7)
    assert shown["boxes"] == {"confidence": 0.8, "sure": True, "boxes": [[0, 0, 1, 0.25, 0.9]]}
    picture = decoded(shown["masks"]["png"])
    assert picture.shape == (64, 64, 4)
    assert (picture[16:, :, 3] == 0).all()
    assert (picture[:16, :, 3] > 0).all()
    assert (picture[0, 0] != picture[8, 0]).any()
    assert set(shown["depth"]) == {"confidence", "sure"}
    depths = draw_overlays(seen, {"depth": 1.0}, sure=0.7)["depth"]
    assert (depths["near_m"], depths["far_m"]) == (1, 4)
    assert decoded(depths["png"])[0, 0].sum() > decoded(depths["png"])[-1, -1].sum(), "near is bright"


def test_frame_is_sent_small_and_in_its_own_colours() -> None:
    frame = np.zeros((480, 640, 3), np.uint8)
    frame[..., 0] = 200
    sent = cv2.imdecode(np.frombuffer(jpeg(frame), np.uint8), cv2.IMREAD_COLOR)
    assert sent.shape == (360, 480, 3)
    assert np.abs(sent.reshape(-1, 3).mean(0) - [0, 0, 200]).max() < 5
    assert cv2.imdecode(np.frombuffer(jpeg(frame[:30, :40]), np.uint8), cv2.IMREAD_COLOR).shape == (30, 40, 3)


def tone(hz: float, amplitude: float = 0.5) -> np.ndarray:
    return (amplitude * np.sin(2 * np.pi * hz * np.arange(1600) / 16_000))[None].astype(np.float32)


def test_level_and_tones_of_sound_are_shown() -> None:
    assert level_db(tone(440, 1.0)) == pytest.approx(-3.01, abs=0.05)
    assert level_db(np.zeros((1, 1600), np.float32)) == -120
    peaks = [int(np.argmax(mel_columns(tone(hz))[1])) for hz in (200, 1000, 4000)]
    assert peaks == sorted(set(peaks))
    assert np.shape(mel_columns(tone(440))) == (4, 64)
    assert np.max(mel_columns(np.zeros((2, 700), np.float32))) == 0
    assert np.max(mel_columns(tone(440, 1.0))) <= 1


class Ears:
    """Answers with the lag between the ears, as a trained head does; `bias` moves it to one side."""

    heads = ("sound_direction",)

    def __init__(self, bias: float = 0.0) -> None:
        self.bias = bias

    def encode_senses(self, senses: dict[str, torch.Tensor], names: list[str]) -> torch.Tensor:
        return senses["sound"]

    def run_heads(self, names: list[str], sound: torch.Tensor) -> dict[str, Any]:
        later = torch.stack([torch.stack([(a[8:-8] * b.roll(-k)[8:-8]).sum() for k in range(-8, 9)]) for a, b in sound])
        sine = (later.argmax(-1) - 8) / 8 + self.bias
        return {"sound_direction": type("Answer", (), {"mode": lambda _: torch.stack([sine, 0 * sine], -1)})()}


def test_direction_is_shown_only_if_it_can_be_known() -> None:
    noise = np.random.default_rng(0).normal(0, 0.1, 1700).astype(np.float32)
    left_first = np.stack([noise[50:1650], noise[46:1646]])
    assert direction_deg(Ears(), left_first) == pytest.approx(30)  # type: ignore[arg-type]
    assert direction_deg(Ears(), left_first[::-1].copy()) == pytest.approx(-30)  # type: ignore[arg-type]
    assert direction_deg(Ears(bias=0.5), left_first) is None, "it leans to one side"  # type: ignore[arg-type]
    for untold in (left_first[:1], left_first[[0, 0]], left_first * 1e-3, np.stack([noise[:1600], tone(3000)[0]])):
        assert direction_deg(Ears(), untold) is None  # type: ignore[arg-type]


def test_health_of_sensors_is_json() -> None:
    eye, bare = SyntheticCamera(), SyntheticMicrophone()
    eye.health, eye.name = Health(), "window"  # type: ignore[attr-defined]
    eye.health.dropped(2, "It is dark.")  # type: ignore[attr-defined]
    health = sensor_health((eye, bare))
    assert health["window"] == {"sense": "sight", "rate_hz": None, "drops": 2, "reconnects": 0, "fault": "It is dark."}
    assert health["sound"] == {"sense": "sound"}
    page = BrowserMicrophone()
    page.health.dropped(8_000)
    told = sensor_health([page])["browser_microphone"]
    assert (told["drops"], told["samples_hz"]) == (8_000, 16_000), "half a second of samples, whatever its blocks are"


def test_view_reports_following_if_the_fovea_is_on_the_most_motion() -> None:
    room = Room({})
    room.frame = np.zeros((480, 640, 3), np.uint8)
    change = np.full((1, 16, 16), 0.01, np.float32)
    assert follows(None, room) is None
    assert follows(change, room) is None, "a camera's noise is no movement"
    change[0, 8, 8] = 0.3
    assert follows(change, room) is True
    change[0, 3, 15] = 0.5
    assert follows(change, room) is False
    room.fovea.turn(np.array([-1.0, 1.0]))  # to the right and up: 25 degrees of the 60 to the edge
    room.fovea.turn(np.array([-1.0, 1.0]))
    assert follows(change, room) is True
    room.frame = None
    assert follows(change, room) is None


def test_said_words_are_decoded_as_encoded() -> None:
    assert spoken_words(encode_words("ein Ball ö")) == "ein Ball ö"
    assert spoken_words(np.zeros(64, np.int64)) == ""
    assert spoken_words(np.array([*b"a cup", 0, *b"xyz"])) == "a cup", "zeros end the words, as in exams"
