"""Rooms of the nursery with known truth, corrupted in the ways in which a real camera's pictures differ from them.

They teach how far an overlay can be trusted: from rooms as in the lessons, over noisy, blurred, oddly lit and strangely
textured ones, to pictures that show no nursery at all. The latter are made of overlapping discs ("dead leaves") or of
noise with the spectrum of photographs, both as in Lee, Mumford and Huang 2001.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from devmind.moment import SIGHT_SIZE
from devmind.seeding import numpy_rng
from devmind.worlds.nursery.rules import NurseryRules
from devmind.worlds.nursery.views import views

LEVELS = ("room", "room", "bind", "reach", "orient/motion")
THINGS = 8
LARGEST_TURN = 0.2

Corruption = Callable[[np.ndarray, np.random.Generator, float], np.ndarray]
"""(pictures float32 [2, 64, 64, 3] of a tick and the one before, generator, strength in 0..1) to pictures alike."""


@dataclass(frozen=True)
class Rooms:
    """N pictures with their truth.

    Attributes:
        before, sight: uint8 [N, 64, 64, 3], a tick earlier and now.
        things: uint8 [N, 64, 64]: 1..8 for the things, 0 for everything else.
        depth: float32 [N, 64, 64] in metres.
        shown: bool [N]; False where the picture shows nothing of its room.
        kinds: the corruption of each.
    """

    before: np.ndarray
    sight: np.ndarray
    things: np.ndarray
    depth: np.ndarray
    shown: np.ndarray
    kinds: np.ndarray

    def __len__(self) -> int:
        return len(self.sight)


def corrupted_rooms(
    seeds: np.ndarray, kinds: Sequence[str], corruptions: Mapping[str, Corruption] | None = None
) -> Rooms:
    """One room for each seed, with a corruption of `kinds`; the same for the same seeds.

    Args:
        seeds: int64 [N] of the rooms.
        kinds: names among CORRUPTIONS or `corruptions`, drawn at random; repeat one to draw it more often.
        corruptions: further ways.
    """
    known = {**CORRUPTIONS, **(corruptions or {})}
    rng = numpy_rng("spoilt", *(int(seed) for seed in seeds[:1]), len(seeds))
    before, sight, mask, depth = _rooms(seeds, rng)
    drawn = np.array(kinds)[rng.integers(len(kinds), size=len(seeds))]
    for i, kind in enumerate(drawn):
        pair = np.stack([before[i], sight[i]]).astype(np.float32)
        before[i], sight[i] = np.clip(known[kind](pair, rng, float(rng.random())), 0, 255).astype(np.uint8)
    things = np.where(mask <= THINGS, mask, 0).astype(np.uint8)
    return Rooms(before, sight, things, depth, ~np.isin(drawn, NOT_SHOWN), drawn)


def _rooms(seeds: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """(sight a tick before, sight, mask, depth) of rooms of all levels; in half of them the head turns."""
    parts = []
    for part, level in zip(np.array_split(seeds, len(LEVELS)), LEVELS, strict=True):
        if not len(part):
            continue
        rules = NurseryRules(level)
        state = rules.initial(part)
        look = rng.uniform(-LARGEST_TURN, LARGEST_TURN, (len(part), 2)) * (rng.random((len(part), 1)) < 0.5)
        after = views(rules.step(state, {"look": look.astype(np.float32)}))
        parts.append((views(state)["sight"].copy(), after["sight"].copy(), after["mask"], after["depth"]))
    return tuple(np.concatenate(arrays) for arrays in zip(*parts, strict=True))


def dead_leaves(rng: np.random.Generator) -> np.ndarray:
    """Overlapping discs of similar colours and all sizes, float32 [64, 64, 3] in 0..255."""
    import cv2

    middle, spread = rng.uniform(30, 220, 3), rng.uniform(10, 70)
    picture = np.empty((SIGHT_SIZE, SIGHT_SIZE, 3), np.uint8)
    picture[:] = middle
    for _ in range(rng.integers(20, 200)):
        radius = min(40, 2 / max(rng.random(), 0.03))
        colour = np.clip(middle + rng.normal(0, spread) + rng.normal(0, spread / 3, 3), 0, 255)
        x, y = rng.integers(SIGHT_SIZE, size=2)
        cv2.circle(picture, (int(x), int(y)), int(radius), colour.tolist(), -1)
    return picture.astype(np.float32)


def pink(rng: np.random.Generator) -> np.ndarray:
    """Noise with an amplitude that falls with frequency, mostly grey, float32 [64, 64, 3]."""
    frequency = np.hypot(*np.meshgrid(np.fft.fftfreq(SIGHT_SIZE), np.fft.fftfreq(SIGHT_SIZE)))
    white = np.fft.fft2(rng.normal(size=(3, SIGHT_SIZE, SIGHT_SIZE)))
    noise = np.fft.ifft2(white / np.maximum(frequency, 1 / SIGHT_SIZE)).real
    noise = noise[:1] + 0.3 * noise
    return (128 + rng.uniform(20, 60) * noise / noise.std()).transpose(1, 2, 0).astype(np.float32)


def _noise(pair: np.ndarray, rng: np.random.Generator, strength: float) -> np.ndarray:
    return pair + rng.normal(0, 60 * strength, pair.shape)


def _blur(pair: np.ndarray, rng: np.random.Generator, strength: float) -> np.ndarray:
    import cv2

    return np.stack([cv2.GaussianBlur(picture, (0, 0), 0.3 + 4 * strength) for picture in pair])


def _light(pair: np.ndarray, rng: np.random.Generator, strength: float) -> np.ndarray:
    return 128 + (pair - 128) * rng.uniform(0.2, 1.6) + rng.uniform(-70, 70)


def _colour(pair: np.ndarray, rng: np.random.Generator, strength: float) -> np.ndarray:
    return pair @ ((1 - strength) * np.eye(3) + strength * rng.dirichlet(np.ones(3), 3)).T


def _over(made: Callable[[np.random.Generator], np.ndarray]) -> Corruption:
    return lambda pair, rng, strength: (1 - strength) * pair + strength * made(rng)


def _instead(made: Callable[[np.random.Generator], np.ndarray]) -> Corruption:
    return lambda pair, rng, strength: np.broadcast_to(made(rng), pair.shape)


CORRUPTIONS: Mapping[str, Corruption] = {
    "clean": lambda pair, rng, strength: pair,
    "noise": _noise,
    "blur": _blur,
    "light": _light,
    "colour": _colour,
    "leaves": _over(dead_leaves),
    "pink": _over(pink),
    "only leaves": _instead(dead_leaves),
    "only pink": _instead(pink),
}
NOT_SHOWN = ("only leaves", "only pink")
