"""How far what is seen can be trusted: overlays judged by truth and by mirroring, pictures unlike those of lessons."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import islice, pairwise
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from safetensors.numpy import save

from devmind.acting import confidence
from devmind.acting.confidence import (
    DENSITY_SHRINKAGE,
    FILE,
    SENSE,
    Confidence,
    LessonDensity,
    accuracy,
    agreement,
    back,
    lesson_pictures,
    measure,
    mirror_output,
    overlay_evidence,
    pool_features,
    read_confidence,
    seal_confidence,
    share_by_agreement,
    true_rooms,
)
from devmind.agent.agent import Agent
from devmind.agent.batch import clip
from devmind.agent.taps import Percepts
from devmind.errors import CheckpointError
from devmind.live.remembering.made_pictures import THINGS, picture_example, tiles
from devmind.raised import FOLDER, raised_agents
from devmind.sessions.pictures import fovea
from devmind.testing import tiny_agent
from stages.reflex import parts
from tests.agent.conftest import shake
from tests.live import drawn_room

FEW = 0.03


@pytest.fixture(scope="module")
def agent() -> Agent:
    born = tiny_agent()
    parts.admit(born)
    born.config.stages = ["reflex"]
    return shake(born).eval()


@pytest.fixture(scope="module")
def measured(agent: Agent) -> Confidence:
    return measure(agent, FEW)


def look_at(agent: Agent, before: np.ndarray, sight: np.ndarray) -> Percepts:
    """The agent's percepts of pictures, each with the one before it."""
    batch = clip({SENSE: torch.from_numpy(np.stack([before, sight], 1))})
    return Percepts(agent.encode_batch(batch, [SENSE]).map(lambda x: x[:, 1]), {}, batch)


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


def test_mirrored_output_equals_the_output_of_mirrored_pictures(agent: Agent) -> None:
    before, sight, _, _ = true_rooms(10)
    flipped = look_at(agent, np.ascontiguousarray(before[:, :, ::-1]), np.ascontiguousarray(sight[:, :, ::-1]))
    found = mirror_output(agent, "scene", look_at(agent, before, sight))
    assert found is not None
    with torch.no_grad():
        wanted = agent.run_heads(["scene"], flipped.seen)["scene"]
    torch.testing.assert_close(found.mode(), wanted.mode(), atol=1e-5, rtol=1e-5)
    assert not torch.allclose(found.mode(), found.mode().flip(-1), atol=1e-3)


def test_rooms_with_truth_are_always_the_same_and_some_heads_turn() -> None:
    before, sight, things, depth = rooms = true_rooms(20)
    assert all(np.array_equal(one, other) for one, other in zip(rooms, true_rooms(20), strict=True))
    assert 0 < things.max() <= 8
    assert (depth > 0).all()
    changed = (before != sight).any((1, 2, 3))
    assert changed.any()
    assert not changed.all()


def test_learned_confidence_is_the_true_share_and_never_falls_with_agreement() -> None:
    rng = np.random.default_rng(0)
    agreed = rng.random(2000)
    truth = 1 / (1 + np.exp(-(6 * agreed - 3)))
    line = share_by_agreement(agreed, (rng.random(2000) < truth).astype(float))
    found = np.interp(agreed, *line)
    assert np.abs(found - truth).mean() < 0.06
    assert all(a <= b for a, b in pairwise(line[1].tolist()))
    assert found.min() >= 0.0199
    assert found.max() <= 0.9801, "never certain"
    backwards = share_by_agreement(agreed, (rng.random(2000) < 1 - truth).astype(float))
    assert np.interp(0.95, *backwards) - np.interp(0.05, *backwards) < 0.1, "evidence never counts the wrong way"


def test_untrained_head_that_agrees_with_itself_is_not_confident() -> None:
    born = tiny_agent()
    parts.admit(born)
    rooms = true_rooms(40)
    depth = overlay_evidence(born.eval(), "scene", rooms)["depth"]
    assert (depth[:, 0] > 0.9).all(), "a constant answer is the same in every mirror"
    found = measure(born, FEW)
    assert set(found.shares) == {"depth"}, "it finds no thing, so nothing is known of its boxes"
    percepts = look_at(born, rooms[0][:1], rooms[1][:1])
    with torch.no_grad():
        seen = born.run_heads(["scene"], percepts.seen)["scene"].overlays()
    assert found.of(born, "scene", percepts, rooms[1][0], seen)["depth"] < 0.7


def test_overlays_of_a_picture_unlike_lessons_have_no_confidence(agent: Agent, measured: Confidence) -> None:
    before, sight, _, _ = true_rooms(10)
    percepts = look_at(agent, before[:1], sight[:1])
    with torch.no_grad():
        seen = agent.run_heads(["scene"], percepts.seen)["scene"].overlays()
    density = measured.density
    far, near = (replace(measured, density=replace(density, bound=bound)) for bound in (0.0, np.inf))
    assert all(share > 0 for share in near.of(agent, "scene", percepts, sight[0], seen).values())
    shown = far.of(agent, "scene", percepts, sight[0], seen)
    assert shown
    assert not any(shown.values())


def test_confidence_is_kept_with_the_agent_and_holds_for_its_eye_alone(
    agent: Agent, measured: Confidence, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent.save_pretrained(tmp_path)
    assert read_confidence(tmp_path, agent) is None
    seal_confidence(agent, tmp_path, measured)
    found = read_confidence(tmp_path, Agent.from_pretrained(tmp_path))
    assert found is not None
    assert found.density.bound == measured.density.bound
    assert np.array_equal(found.density.whitening, measured.density.whitening)
    assert found.shares.keys() == measured.shares.keys()
    assert all(np.array_equal(found.shares[kind], line) for kind, line in measured.shares.items())
    other = tiny_agent()
    parts.admit(other)
    assert read_confidence(tmp_path, other) is None, "another eye"
    other.load_state_dict(agent.state_dict())
    with torch.no_grad():
        other.readout.add_(1.0)
    assert read_confidence(tmp_path, other) is not None, "the trunk has no part in it"
    monkeypatch.setattr(confidence, "measure", lambda *given: pytest.fail("measured"))
    other.config.stages = []
    other.save_pretrained(tmp_path / "young")
    seal_confidence(other, tmp_path / "young")
    assert not (tmp_path / "young" / FILE).exists(), "it went through no stage"
    texts, triangle = np.zeros(1, np.uint8), np.ones(3, np.float32)
    for mean, says in ((np.zeros(50, np.float32), "do not go together"), (np.full(2, np.nan), "not finite")):
        forged = {"eye": texts, "head": texts, "mean": mean, "whitening": triangle, "bound": np.ones(1)}
        with pytest.raises(ValueError, match=says):
            Confidence.from_bytes(save(forged))
    (tmp_path / FILE).write_bytes(b"no tensors")
    with pytest.raises(CheckpointError, match="damaged"):
        read_confidence(tmp_path, agent)


def test_every_packaged_agent_brings_its_confidence() -> None:
    for name, folder in raised_agents().items():
        found = read_confidence(folder, Agent.from_pretrained(folder))
        assert found is not None, name
        assert found.shares.keys() == {"boxes", "masks", "depth"}, name


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
    features = pool_features(agent, pictures)
    assert np.allclose(features[3], pool_features(agent, pictures[3:4])[0], atol=1e-5), "alone as among others"
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


def dead_leaves(rng: np.random.Generator) -> np.ndarray:
    """Overlapping discs of similar colours and all sizes, float32 [64, 64, 3] in 0..255."""
    middle, spread = rng.uniform(30, 220, 3), rng.uniform(10, 70)
    picture = np.empty((64, 64, 3), np.uint8)
    picture[:] = middle
    for _ in range(rng.integers(20, 200)):
        radius = min(40, 2 / max(rng.random(), 0.03))
        colour = np.clip(middle + rng.normal(0, spread) + rng.normal(0, spread / 3, 3), 0, 255)
        x, y = rng.integers(64, size=2)
        cv2.circle(picture, (int(x), int(y)), int(radius), colour.tolist(), -1)
    return picture.astype(np.float32)


def pink(rng: np.random.Generator) -> np.ndarray:
    """Noise with an amplitude that falls with frequency, mostly grey, float32 [64, 64, 3]."""
    frequency = np.hypot(*np.meshgrid(np.fft.fftfreq(64), np.fft.fftfreq(64)))
    white = np.fft.fft2(rng.normal(size=(3, 64, 64)))
    noise = np.fft.ifft2(white / np.maximum(frequency, 1 / 64)).real
    noise = noise[:1] + 0.3 * noise
    return (128 + rng.uniform(20, 60) * noise / noise.std()).transpose(1, 2, 0).astype(np.float32)


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
    measured = read_confidence(FOLDER, agent)
    assert measured is not None
    density = measured.density
    monkeypatch.setattr("devmind.acting.confidence.lesson_seeds", lambda n, *names: 1_000_000 + np.arange(n))
    unused = lesson_pictures(600, "exam")
    monkeypatch.undo()
    elsewhere = {**from_elsewhere(), "a webcam": of_a_webcam(), **of_films(data_folder / "video")}

    def flagged(
        features: Callable[[np.ndarray], np.ndarray], by: LessonDensity
    ) -> tuple[list[float], dict[str, float]]:
        rates = [float((by.distance(features(one)) > by.bound).mean()) for one in (*unused, *elsewhere.values())]
        return rates[: len(unused)], dict(zip(elsewhere, rates[len(unused) :], strict=True))

    false_alarms, found = flagged(lambda pictures: pool_features(agent, pictures), density)
    assert max(false_alarms) <= 0.05, false_alarms
    assert np.mean(list(found.values())) >= 0.95, found
    assert min(found.values()) >= 0.85, found
    usual = np.concatenate([by_pixels(kind) for kind in lesson_pictures(600, "usual")])
    rule = LessonDensity.of(usual, [by_pixels(kind) for kind in lesson_pictures(200, "bound")])
    rule_alarms, by_rule = flagged(by_pixels, rule)
    assert np.mean(list(found.values())) > np.mean(list(by_rule.values())), by_rule
    print(f"unused rooms {false_alarms} (rule {rule_alarms}); elsewhere {found} (rule {by_rule})")


@pytest.mark.slow
def test_overlays_that_are_shown_are_right_in_unused_rooms_and_behind_bad_cameras(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agent = Agent.from_pretrained(FOLDER).eval()
    measured = read_confidence(FOLDER, agent)
    assert measured is not None
    monkeypatch.setattr("devmind.acting.confidence.lesson_seeds", lambda n, *names: 2_000_000 + np.arange(n))
    before, sight, things, depth = true_rooms(100)
    rng = np.random.default_rng(4)
    ways: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "clean": lambda pictures: pictures,
        "noise": lambda pictures: pictures + rng.normal(0, 30, pictures.shape),
        "blur": lambda pictures: np.stack([cv2.GaussianBlur(one, (0, 0), 1.5) for one in pictures]),
        "light": lambda pictures: 128 + (pictures - 128) * 0.5 + 40,
        "leaves": lambda pictures: 0.6 * pictures + 0.4 * dead_leaves(rng),
    }
    right: dict[str, list[float]] = {}
    for way, spoil in ways.items():
        pair = [np.clip(spoil(one.astype(np.float32)), 0, 255).astype(np.uint8) for one in (before, sight)]
        shown = 0
        for row in range(len(sight)):
            percepts = look_at(agent, *(one[row : row + 1] for one in pair))
            with torch.no_grad():
                seen = agent.run_heads(["scene"], percepts.seen)["scene"].overlays()
            for kind, share in measured.of(agent, "scene", percepts, pair[1][row], seen).items():
                if share >= 0.7:
                    shown += 1
                    judged = accuracy(kind, seen, things[row], depth[row])
                    right.setdefault(kind, []).append(0.0 if judged is None else judged)
        assert way != "clean" or shown >= 150, "half of them, where the agent is at home"
    print({kind: (len(found), float(np.mean(found))) for kind, found in right.items()})
    assert all(np.mean(found) >= 0.75 for found in right.values())
