"""Overlays judged by truth and by mirroring, and the learned confidence: more agreement never means less of it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice, pairwise
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

from devmind.agent.agent import Agent
from devmind.live.remembering.made_pictures import THINGS, picture_example, tiles
from devmind.live.remembering.strangers import density_of_lessons
from devmind.live.viewing import overlay_confidence
from devmind.live.viewing.agreement import accuracy, agreement, back, mirrored
from devmind.live.viewing.confidence import (
    DENSITY_SHRINKAGE,
    Calibration,
    Evidence,
    LessonDensity,
    Reliability,
    TokenDensity,
    gather,
    learn,
    lesson_pictures,
    look_at,
    pooled,
)
from devmind.live.viewing.corruptions import CORRUPTIONS, Rooms, corrupted_rooms, dead_leaves, pink
from devmind.live.viewing.overlay_confidence import OverlayConfidence
from devmind.raised import FOLDER
from devmind.seeding import lesson_seeds
from devmind.sessions.pictures import fovea
from devmind.testing import tiny_agent
from stages.reflex import parts
from tests.agent.conftest import shake
from tests.live import drawn_room


@pytest.fixture(scope="module")
def agent() -> Agent:
    born = tiny_agent()
    parts.admit(born)
    return shake(born)


@pytest.fixture(scope="module")
def rooms() -> Rooms:
    return corrupted_rooms(lesson_seeds(30, "view test"), ("clean", "only pink"))


def two_things() -> dict[str, np.ndarray]:
    masks = np.zeros((64, 64), np.uint8)
    masks[0:16, 0:32], masks[40:48, 40:56] = 1, 2
    boxes = np.array([[0, 0, 0.5, 0.25, 0.9], [0.625, 0.625, 0.875, 0.75, 0.4]], np.float32)
    return {"boxes": boxes, "masks": masks, "depth": np.linspace(1, 3, 4096, dtype=np.float32).reshape(64, 64)}


def test_mirroring_twice_restores_the_overlay() -> None:
    seen = two_things()
    for kind, value in back(back(seen)).items():
        assert np.allclose(value, seen[kind])
    assert back(seen)["boxes"][0, :4].tolist() == [0.5, 0, 1, 0.25]
    assert (back(seen)["masks"][0:16, 32:] == 1).all()


def test_agreement_of_known_overlays_has_its_known_value() -> None:
    seen, none = two_things(), {"boxes": np.zeros((0, 5), np.float32), "masks": np.zeros((64, 64), np.uint8)}
    for kind in seen:
        assert agreement(kind, seen, seen) == pytest.approx(1)
    for kind in none:
        assert agreement(kind, none, none) is None
        assert agreement(kind, seen, none) == agreement(kind, none, seen) == 0
        one = {"boxes": seen["boxes"][:1], "masks": np.where(seen["masks"] == 1, 1, 0)}
        assert agreement(kind, seen, one) == pytest.approx(2 / 3), "two of three find their like"
    assert agreement("depth", seen, {"depth": seen["depth"] * np.exp(0.25)}) == pytest.approx(np.exp(-1))


def test_rightness_of_known_overlays_has_its_known_value() -> None:
    seen = two_things()
    assert [accuracy(kind, seen, seen["masks"], seen["depth"]) for kind in seen] == [1, 1, 1]
    half = np.where(seen["masks"] == 1, 7, 0).astype(np.uint8)
    assert [accuracy(kind, seen, half, seen["depth"] * 1.3) for kind in seen] == [0.5, 0.5, 0]
    nothing = np.zeros((64, 64), np.uint8)
    assert accuracy("boxes", seen, nothing, seen["depth"]) == 0
    assert accuracy("masks", {"masks": nothing}, half, seen["depth"]) is None


def test_mirrored_output_equals_the_output_of_mirrored_pictures(agent: Agent, rooms: Rooms) -> None:
    flipped = Rooms(rooms.before[:, :, ::-1], rooms.sight[:, :, ::-1], *(getattr(rooms, n) for n in (
        "things", "depth", "shown", "kinds")))  # fmt: skip
    found = mirrored(agent, "scene", look_at(agent, rooms))
    assert found is not None
    with torch.no_grad():
        wanted = agent.run_heads(["scene"], look_at(agent, flipped).seen)["scene"]
    torch.testing.assert_close(found.mode(), wanted.mode(), atol=1e-5, rtol=1e-5)
    assert not torch.allclose(found.mode(), found.mode().flip(-1), atol=1e-3)


def test_rooms_follow_their_seeds_and_requested_corruptions(rooms: Rooms) -> None:
    again = corrupted_rooms(lesson_seeds(30, "view test"), ("clean", "only pink"))
    assert np.array_equal(rooms.sight, again.sight)
    assert np.array_equal(rooms.shown, rooms.kinds == "clean")
    assert 0 < rooms.shown.sum() < len(rooms)
    assert rooms.things.max() <= 8
    changed = (rooms.before != rooms.sight).any((1, 2, 3))
    assert changed[rooms.shown].any()
    assert not changed[~rooms.shown].any()


@pytest.mark.parametrize("kind", CORRUPTIONS)
def test_every_corruption_except_clean_changes_a_picture(kind: str) -> None:
    pair = np.random.default_rng(0).uniform(0, 255, (2, 64, 64, 3)).astype(np.float32)
    spoilt = CORRUPTIONS[kind](pair, np.random.default_rng(1), 0.5)
    assert spoilt.shape == pair.shape
    assert np.array_equal(spoilt, pair) == (kind == "clean")


def test_spectrum_of_made_pictures_falls_as_in_photographs() -> None:
    for make in (dead_leaves, pink):
        power = np.mean([np.abs(np.fft.rfft(make(np.random.default_rng(i))[..., 1])).mean(0) for i in range(8)], 0)
        assert power[1:4].mean() > 4 * power[16:].mean()


def test_learned_confidence_is_the_true_share_and_never_falls_with_agreement() -> None:
    rng = np.random.default_rng(0)
    evidence = np.column_stack([rng.random(2000), rng.normal(0, 1, 2000)])
    truth = 1 / (1 + np.exp(-(6 * evidence[:, 0] - 3 - evidence[:, 1])))
    learned = Reliability.of(evidence, (rng.random(2000) < truth).astype(float))
    found = np.array([learned.share(*row) for row in evidence])
    assert np.abs(found - truth).mean() < 0.06
    line = [learned.share(x, 0.0) for x in np.linspace(0, 1, 50)]
    assert all(a <= b for a, b in pairwise(line))
    assert learned.share(0.5, 2.0) < learned.share(0.5, -2.0)
    backwards = Reliability.of(evidence, (rng.random(2000) < 1 - truth).astype(float))
    assert backwards.share(1.0, 0.0) == pytest.approx(backwards.share(0.0, 0.0)), "evidence never counts the wrong way"


def test_usual_tokens_have_a_small_distance() -> None:
    rng = np.random.default_rng(0)
    tokens = rng.normal(3, 2, (4000, 8))
    density = TokenDensity.of(tokens)
    assert abs(density.distance(tokens[:16])) < 0.5
    assert density.distance(tokens[:16] + 8) > 1.5


def test_untrained_head_that_agrees_with_itself_is_not_confident(rooms: Rooms) -> None:
    born = tiny_agent()
    parts.admit(born)
    evidence = Evidence.joined(list(gather(born.eval(), "scene", rooms)))
    depth = evidence.kinds["depth"]
    assert (depth[:, 0] > 0.9).all(), "a constant answer is the same in every mirror"
    calibration = learn("scene", evidence, rooms)
    assert set(calibration.kinds) == {"depth"}, "it finds no thing, so nothing is known of its boxes"
    percepts = look_at(born, rooms, 0, 1)
    with torch.no_grad():
        seen = born.run_heads(["scene"], percepts.seen)["scene"].overlays()
    assert calibration.confidences(born, percepts, seen)["depth"] < 0.7


def test_stream_becomes_confident_in_seconds_and_another_encoder_is_judged_again(
    agent: Agent, rooms: Rooms, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overlay_confidence, "_rooms", lambda: rooms)
    stream = OverlayConfidence(agent, "scene")
    assert stream.wait(60)
    percepts = look_at(agent, rooms, 0, 1)
    monkeypatch.setattr(Calibration, "confidences", lambda self, *rest: {"depth": 0.9})
    shown = [stream.see(percepts, {"depth": np.ones((64, 64))}, tick / 10)["depth"] for tick in range(100)]
    assert shown[0] == shown[1] == 0
    assert all(a <= b for a, b in pairwise(shown))
    assert shown[9] < 0.7
    assert shown[60] > 0.7
    assert shown[-1] == pytest.approx(0.9, abs=0.02)
    other = tiny_agent()
    parts.admit(other)
    assert not stream.fits(other, "scene")
    other.load_state_dict(agent.state_dict())
    with torch.no_grad():
        other.readout.add_(1.0)
    assert stream.fits(other, "scene"), "the trunk has no part in it"


def test_close_cancels_a_running_calibration(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    rooms = corrupted_rooms(lesson_seeds(12, "many"), ("clean",))
    monkeypatch.setattr(overlay_confidence, "_rooms", lambda: rooms)
    monkeypatch.setattr(overlay_confidence, "gather", lambda *given: iter(lambda: None, 1))
    stream = OverlayConfidence(agent, "scene")
    assert not stream.wait(0.05)
    stream.close()
    assert not stream.wait(10)
    assert not stream._thread.is_alive()


def test_distance_from_lessons_is_that_of_their_gaussian() -> None:
    rng = np.random.default_rng(1)
    fitted = rng.normal(0, 1, (20_000, 2)) @ np.array([[3.0, 0.0], [1.5, 0.5]]) + [5.0, -2.0]
    wide, narrow = fitted[:4_000], fitted[:4_000] * 0.5 + fitted.mean(0) * 0.5
    density = LessonDensity.of(fitted, [narrow, wide])
    spread = fitted.std(0)
    covariance = np.cov((fitted / spread).T)
    shrunk = (1 - DENSITY_SHRINKAGE) * covariance + DENSITY_SHRINKAGE * np.eye(2)
    for point in ([5.0, -2.0], [8.0, -2.0], [5.0, 0.0], [-1.0, 3.0]):
        away = (np.array(point) - fitted.mean(0)) / spread
        assert density.distance(np.array([point]))[0] == pytest.approx(
            away @ np.linalg.solve(shrunk, away) / 2, rel=1e-3
        )
    assert (density.distance(wide) > density.bound).mean() == pytest.approx(0.03, abs=0.002), "the widest kind decides"
    assert (density.distance(narrow) > density.bound).mean() < 0.001


def test_picture_is_unlike_lessons_beyond_the_bound_alone(agent: Agent) -> None:
    pictures = np.random.default_rng(2).integers(0, 255, (40, 64, 64, 3)).astype(np.uint8)
    features = pooled(agent, pictures)
    assert np.allclose(features[3], pooled(agent, pictures[3:4])[0], atol=1e-5), "alone as among others"
    density = LessonDensity.of(features, [features])
    grey = np.full((64, 64, 3), 128, np.uint8)
    assert density.is_unlike(agent, grey)
    assert not LessonDensity(density.mean, density.whitening, np.inf).is_unlike(agent, grey)


def test_pictures_of_lessons_are_of_both_kinds_and_always_the_same() -> None:
    rooms, near = lesson_pictures(30, "test")
    assert (rooms.shape, near.shape) == ((20, 64, 64, 3), (10, 64, 64, 3))
    assert all(
        np.array_equal(one, other) for one, other in zip(lesson_pictures(30, "test"), (rooms, near), strict=True)
    )
    assert not np.array_equal(lesson_pictures(30, "other")[1], near)


def from_elsewhere() -> dict[str, np.ndarray]:
    """Pictures of sources that no calibration saw, uint8 [60, 64, 64, 3] each, as a camera's fovea would give them."""
    from sklearn.datasets import load_sample_images

    rng = np.random.default_rng(5)

    def parts(photograph: np.ndarray) -> np.ndarray:
        found = []
        for _ in range(60):
            side = int(rng.integers(96, min(photograph.shape[:2])))
            top, left = (int(rng.integers(length - side + 1)) for length in photograph.shape[:2])
            piece = np.ascontiguousarray(photograph[top : top + side, left : left + side])
            found.append(cv2.resize(piece, (64, 64), interpolation=cv2.INTER_AREA))
        return np.stack(found)

    def made(make: Callable[[np.random.Generator], np.ndarray]) -> np.ndarray:
        return np.stack([np.clip(make(rng), 0, 255).astype(np.uint8) for _ in range(60)])

    photographs = load_sample_images().images
    surfaces = tiles()[THINGS:]
    return {
        "a photograph of a temple": parts(photographs[0]),
        "a photograph of a flower": parts(photographs[1]),
        "leaves": made(dead_leaves),
        "noise": made(pink),
        "surfaces": np.stack([picture_example(tile, rng) for tile in surfaces for _ in range(2)]),
        "a grey wall": made(lambda rng: 128 + rng.normal(0, 2, (64, 64, 3))),
    }


def of_a_webcam() -> np.ndarray:
    """A drawn room, a drawn hand and drawn things."""
    rng = np.random.default_rng(3)
    frames = islice(drawn_room.scene(), 0, 300, 5)
    return np.stack([fovea(frame.astype(np.uint8), rng.uniform(-20, 20), rng.uniform(-10, 10)) for frame in frames])


def of_films(folder: Path) -> dict[str, np.ndarray]:
    rng, found = np.random.default_rng(0), {}
    for path in sorted(folder.glob("*.mp4")):
        film, frames = cv2.VideoCapture(str(path)), []
        while (read := film.read())[0]:
            frames.append(cv2.cvtColor(read[1], cv2.COLOR_BGR2RGB))
        chosen = [frames[at] for at in np.linspace(0, len(frames) - 1, 60).astype(int)]
        found[path.stem] = np.stack([fovea(one, rng.uniform(-25, 25), rng.uniform(-12, 12)) for one in chosen])
    return found


def by_pixels(pictures: np.ndarray) -> np.ndarray:
    """The simple rule: mean and deviation of each colour, and how much neighbouring pixels differ."""
    wide = pictures.astype(np.float32) / 255
    steps = [np.abs(np.diff(wide, axis=axis)).mean((1, 2, 3)) for axis in (1, 2)]
    return np.column_stack([wide.mean((1, 2)), wide.std((1, 2)), *steps])


@pytest.mark.slow
def test_pictures_from_elsewhere_are_told_from_unused_rooms(monkeypatch: pytest.MonkeyPatch, data_folder: Path) -> None:
    """The exam of `LessonDensity`: at least 0.95 of pictures of other sources, at most 0.05 of unused rooms.

    The floor is a Gaussian of eight numbers of the pixels, with a bound found in the same way.
    """
    agent = Agent.from_pretrained(FOLDER).eval()
    density = density_of_lessons(agent)
    assert density is not None
    monkeypatch.setattr("devmind.live.viewing.confidence.lesson_seeds", lambda n, *names: 1_000_000 + np.arange(n))
    unused = lesson_pictures(600, "exam")
    monkeypatch.undo()
    elsewhere = {**from_elsewhere(), "a webcam": of_a_webcam(), **of_films(data_folder / "video")}

    def flagged(
        features: Callable[[np.ndarray], np.ndarray], by: LessonDensity
    ) -> tuple[list[float], dict[str, float]]:
        rates = [float((by.distance(features(one)) > by.bound).mean()) for one in (*unused, *elsewhere.values())]
        return rates[: len(unused)], dict(zip(elsewhere, rates[len(unused) :], strict=True))

    false_alarms, found = flagged(lambda pictures: pooled(agent, pictures), density)
    assert max(false_alarms) <= 0.05, false_alarms
    assert np.mean(list(found.values())) >= 0.95, found
    assert min(found.values()) >= 0.85, found
    usual = np.concatenate([by_pixels(kind) for kind in lesson_pictures(600, "usual")])
    rule = LessonDensity.of(usual, [by_pixels(kind) for kind in lesson_pictures(200, "bound")])
    rule_alarms, by_rule = flagged(by_pixels, rule)
    assert np.mean(list(found.values())) > np.mean(list(by_rule.values())), by_rule
    print(f"unused rooms {false_alarms} (rule {rule_alarms}); elsewhere {found} (rule {by_rule})")
