"""Tasks for names: labelled things, drawn into a few taught names, their queries, and strangers.

For `fit_names.py`, which fits the confidence on generated data, and `names_calibrated.py`, which examines it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from held_up import HEIGHT, WIDTH, Pose, camera, held, thing

from devmind.agent.agent import Agent
from devmind.agent.describing import describe, describe_many
from devmind.agent.features import log_mel
from devmind.live.remembering.held_object import Square
from devmind.live.remembering.made_pictures import nursery_things, picture_example
from devmind.live.remembering.made_sounds import (
    as_recorded,
    mixture,
    mixture_example,
    sibling,
    sound_example,
    sound_kind,
)
from devmind.live.remembering.press import turns
from devmind.live.remembering.show_and_tell import cut_examples
from devmind.moment import SIGHT_SIZE, Sense
from devmind.sessions.media import media_moments
from devmind.sessions.pictures import sight_of

ASKED = 60
"""So many known things at most, and as many strangers, are asked in a draw."""


@dataclass(frozen=True)
class Task:
    """n things of one sense.

    Args:
        features: what the agent's names are fitted on, [n, F].
        plain: what floors are fitted on: [n, D] of pixels, or of log-mel.
        groups: sources [n]; taught and asked things, strangers included, never share one.
        families: only names of one family are in a draw; None: all in one.
        taught: features of the same things as they are kept when taught, [n, F]; None: the same.
        scenes: features [m, F] shown as no name whenever something is taught; None: nothing.
    """

    title: str
    sense: str
    features: np.ndarray
    labels: np.ndarray
    groups: np.ndarray
    plain: np.ndarray
    families: np.ndarray | None = None
    taught: np.ndarray | None = None
    scenes: np.ndarray | None = None


@dataclass(frozen=True)
class Draw:
    """Indices in a task of the taught things, of queries for their names, and of strangers."""

    taught: np.ndarray
    known: np.ndarray
    strangers: np.ndarray


def draws(task: Task, names: int, shots: int, count: int, seed: int = 7) -> Iterator[Draw]:
    """`count` draws of `shots` examples of each of `names` names."""
    for number in range(count):
        rng = np.random.default_rng([seed, names, shots, number])
        here = np.ones(len(task.labels), dtype=bool)
        if task.families is not None:
            here = np.isin(task.families, rng.permutation(np.unique(task.families))[:2])
        chosen = rng.permutation(np.unique(task.labels[here]))[:names]
        taught, asked, sources = [], [], []
        for name in chosen:
            own = rng.permutation(np.unique(task.groups[task.labels == name]))
            rows = [np.flatnonzero((task.labels == name) & (task.groups == group)) for group in own]
            counts = np.cumsum([len(part) for part in rows])
            used = min(int(np.searchsorted(counts, shots)) + 1, len(rows) - 1)
            taught.append(rng.permutation(np.concatenate(rows[:used]))[:shots])
            asked.append(np.concatenate(rows[used:]))
            sources.append(own[:used])
        free = ~np.isin(task.groups, np.concatenate(sources))
        known = rng.permutation(np.concatenate(asked))
        others = rng.permutation(np.flatnonzero(here & ~np.isin(task.labels, chosen) & free))
        yield Draw(np.concatenate(taught), known[free[known]][:ASKED], others[:ASKED])


def described(agent: Agent, sense: str, values: list[Sense]) -> np.ndarray:
    """Features [n, F] of payloads."""
    parts = [values[start : start + 32] for start in range(0, len(values), 32)]
    return np.stack([what.features for part in parts for what in describe_many(agent, sense, part)])


def plain_sound(sound: np.ndarray, parts: int = 8) -> np.ndarray:
    """Log-mel of [C, S]: mean, spread and, normalised in time, the mean of each of eight parts; [640]."""
    frames = log_mel(torch.from_numpy(np.asarray(sound, np.float32)).mean(0)).numpy()
    course = [part.mean(0) for part in np.array_split(frames, parts)]
    return np.concatenate([frames.mean(0), frames.std(0), *course])


def recorded_sounds(agent: Agent, title: str, files: list[Path], labels: list[str], groups: list[str]) -> Task:
    """Sound files, each described whole, as by `devmind teach`."""
    features, plain = [], []
    for file in files:
        sound = np.asarray(cut_examples(media_moments(file))[0].senses["sound"])
        features.append(describe(agent, {"sound": sound})["sound"].features)
        plain.append(plain_sound(sound))
    return Task(title, "sound", np.stack(features), np.array(labels), np.array(groups), np.stack(plain))


def pictures(agent: Agent, title: str, frames: list[np.ndarray], labels: np.ndarray) -> Task:
    """Pictures uint8 [64, 64, 3]; each is a source of its own."""
    plain = np.stack([frame.reshape(32, 2, 32, 2, 3).mean((1, 3)).ravel() / 255 for frame in frames])
    features = described(agent, "sight", list(frames))
    return Task(title, "sight", features, np.asarray(labels).astype(str), np.arange(len(frames)), plain)


def made_sounds(agent: Agent, seed: int, siblings: bool) -> Task:
    """60 kinds of six examples; with `siblings`, groups of six kinds are similar, vary more, and meet in draws."""
    rng = np.random.default_rng(seed)
    if siblings:
        alike = [sibling(parent, rng) for parent in [sound_kind(rng) for _ in range(10)] for _ in range(6)]
        once = [sound_example(kind, rng, 1.5, 1.6) for kind in alike for _ in range(6)]
    else:
        kinds = [mixture(rng) for _ in range(60)]
        once = [mixture_example(kind, rng, rng.uniform(0.8, 2.4)) for kind in kinds for _ in range(6)]
    sounds = [as_recorded(sound, rng) for sound in once]
    labels = np.repeat(np.arange(60), 6).astype(str)
    plain = np.stack([plain_sound(sound) for sound in sounds])
    features = described(agent, "sound", list(sounds))
    families = np.repeat(np.arange(10), 36) if siblings else None
    title = "alike made-up sounds" if siblings else "made-up sounds"
    return Task(title, "sound", features, labels, np.arange(len(sounds)), plain, families)


def things(agent: Agent, seed: int) -> Task:
    """60 things of the nursery, with six looks each."""
    rng = np.random.default_rng(seed)
    looks = np.stack(np.unravel_index(rng.permutation(96)[:60], (3, 8, 4)), 1)
    seen = [picture_example(tile, rng, 0.7) for tile in nursery_things(np.repeat(looks, 6, 0), rng)]
    return pictures(agent, "nursery things", seen, np.repeat(np.arange(60), 6))


def held_things(agent: Agent, seed: int) -> Task:
    """60 drawn things, each held up six times before a generated background: numbers 300 to 359 of `held_up.py`."""
    rng = np.random.default_rng(seed)
    seen = []
    for number in range(300, 360):
        sprite = thing(number)
        for look in range(6):
            pose = Pose(
                rng.uniform(0.3, 0.7), rng.uniform(0.35, 0.55), rng.uniform(0.36, 0.54), rng.uniform(-18, 18),
                rng.uniform(0.85, 1), rng.uniform(0.88, 1.12),
            )  # fmt: skip
            frame = camera(held(ground(rng), sprite, pose, number + look), rng)
            x, y, side = np.array([pose.x, pose.y, 0.0]) + rng.normal(0, 0.02, 3)
            seen.append(Square(x, y, (pose.size * HEIGHT / WIDTH + side) * rng.uniform(0.85, 1.25)).crop(frame))
    task = pictures(agent, "held things", seen, np.repeat(np.arange(60), 6))
    kept = [np.mean(described(agent, "sight", list(turns(crop[None]))), axis=0) for crop in seen]
    grounds = [ground(rng) for _ in range(6)]
    scenes = [Square(x, 0.5, 0.35).crop(camera(each, rng)) for each in grounds for x in (0.2, 0.5, 0.8)]
    return replace(task, taught=np.stack(kept), scenes=described(agent, "sight", list(scenes)))


def ground(rng: np.random.Generator) -> np.ndarray:
    """A generated background to hold things before: soft colours and some boxes, float32 [240, 320, 3]."""
    import cv2

    colours = np.clip(rng.normal(120, 50, (1, 1, 3)) + rng.normal(0, 40, (3, 4, 3)), 0, 255).astype(np.float32)
    picture = cv2.resize(colours, (WIDTH, HEIGHT), interpolation=cv2.INTER_CUBIC)
    for _ in range(int(rng.integers(2, 9))):
        left, top = int(rng.integers(WIDTH)), int(rng.integers(HEIGHT))
        corner = (left + int(rng.integers(20, 140)), top + int(rng.integers(20, 140)))
        cv2.rectangle(picture, (left, top), corner, rng.uniform(10, 245, 3).tolist(), -1)
    return np.clip(picture, 0, 255)


def small_digits(agent: Agent, each: int = 25) -> Task:
    """The written digits that come with scikit-learn."""
    import cv2
    from sklearn.datasets import load_digits

    digits = load_digits()
    rows = np.concatenate([np.flatnonzero(digits.target == digit)[:each] for digit in range(10)])
    grey = [(digits.images[row] * 15.9).astype(np.uint8)[:, :, None].repeat(3, 2) for row in rows]
    seen = [cv2.resize(picture, (SIGHT_SIZE, SIGHT_SIZE), interpolation=cv2.INTER_CUBIC) for picture in grey]
    return pictures(agent, "small digits", seen, digits.target[rows])


def written_digits(agent: Agent, path: Path, rows: slice) -> Task:
    """Digits of `images/mnist_10k.npz`."""
    with np.load(path, allow_pickle=False) as file:
        images, labels = file["images"][rows], file["labels"][rows]
    return pictures(agent, "written digits", [sight_of(np.repeat(image[:, :, None], 3, 2)) for image in images], labels)
