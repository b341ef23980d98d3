"""The confidence of overlays on unlabelled pictures, learned on rooms whose truth is known; and whether a picture is
unlike those of lessons, where no confidence that an agent learned there means anything.

The confidence uses two measurements of a picture: the agreement of its overlays with those of the mirrored picture, and
the distance of the encoder's tokens from the nursery's (Mahalanobis distance, as in Lee et al. 2018, arXiv 1807.03888).
Least squares weighs the two, and isotonic regression (Zadrozny and Elkan 2002) turns the result into the share of such
overlays that were right. Whether a picture is unlike lessons is decided by the same distance, of what the tokens of a
whole picture are like on average and how much they differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from devmind.agent.agent import Agent
from devmind.agent.batch import clip
from devmind.agent.taps import Percepts
from devmind.live.viewing.agreement import KINDS, SENSE, Overlays, accuracy, agreement, back, mirrored
from devmind.live.viewing.corruptions import LEVELS, Rooms, corrupted_rooms
from devmind.seeding import lesson_seeds, numpy_rng

ROOMS = 250
TAUGHT = (
    "clean", "clean", "clean", "noise", "blur", "light", "colour", "leaves", "pink", "only leaves", "only pink",
)  # fmt: skip
AT_ONCE = 5
SHRINKAGE = 0.1
NEVER_CERTAIN = 0.02
USUAL_ROOMS, BOUND_ROOMS = 1_200, 400
"""Pictures of lessons that the density of such pictures is fitted to, and others that give its bound."""
FAMILIAR = 0.97
"""Of pictures of lessons, the share that counts as such; the others are false alarms."""
FINE = "stride2"
"""A map of the eye in which noise, grain and sharpness show; its tokens hardly see them."""
DENSITY_SHRINKAGE = 0.05
NEAR_LEVEL, NEAR_THINGS = "bind", 4
ENCODED_TOGETHER = 50


@dataclass(frozen=True)
class TokenDensity:
    """The Gaussian of usual tokens: mean [D], and whitening [D, D]."""

    mean: np.ndarray
    whitening: np.ndarray

    @classmethod
    def of(cls, tokens: np.ndarray) -> TokenDensity:
        """From tokens [n, D]; the covariance is shrunk towards a round one."""
        covariance = np.cov(tokens.T)
        width = len(covariance)
        shrunk = (1 - SHRINKAGE) * covariance + SHRINKAGE * np.eye(width) * (np.trace(covariance) / width + 1e-9)
        return cls(tokens.mean(0), np.linalg.cholesky(np.linalg.inv(shrunk)).astype(np.float32))

    def distance(self, tokens: np.ndarray) -> float:
        """Log of the mean squared distance of a picture's tokens [K, D]; about 0 for usual ones."""
        white = (tokens - self.mean) @ self.whitening
        return float(np.log(np.square(white).mean() + 1e-9))


@dataclass(frozen=True)
class LessonDensity:
    """The Gaussian of pictures as lessons show them, and the distance beyond which a picture is unlike them.

    Attributes:
        mean: of the features of `pooled`, [F]; whitening: [F, F], lower triangular.
    """

    mean: np.ndarray
    whitening: np.ndarray
    bound: float

    @classmethod
    def of(cls, fitted: np.ndarray, others: Sequence[np.ndarray]) -> LessonDensity:
        """From features [n, F], and further ones of each kind of lesson, of which FAMILIAR of the widest kind lie below
        the bound.
        """
        spread = fitted.std(0) + 1e-6
        covariance = np.cov((fitted / spread).T)
        shrunk = (1 - DENSITY_SHRINKAGE) * covariance + DENSITY_SHRINKAGE * np.eye(len(covariance))
        whitening = np.linalg.cholesky(np.linalg.inv(shrunk)) / spread[:, None]
        found = cls(fitted.mean(0).astype(np.float32), whitening.astype(np.float32), np.inf)
        bound = max(float(np.quantile(found.distance(kind), FAMILIAR)) for kind in others)
        return cls(found.mean, found.whitening, bound)

    def distance(self, features: np.ndarray) -> np.ndarray:
        """Mean squared distance of pictures with features [n, F], float64 [n]; about 1 for usual ones."""
        return np.asarray(np.square((features - self.mean) @ self.whitening).mean(-1, dtype=np.float64))

    def is_unlike(self, agent: Agent, picture: np.ndarray) -> bool:
        """Whether a picture uint8 [64, 64, 3] is unlike those of lessons, for the eye that this was made with."""
        return bool(self.distance(pooled(agent, picture[None]))[0] > self.bound)


def pooled(agent: Agent, pictures: np.ndarray) -> np.ndarray:
    """Features float32 [n, F] of pictures uint8 [n, 64, 64, 3], each seen without one before it: mean and deviation of
    the eye's tokens, and of its map FINE if it has one.
    """
    rows = []
    for start in range(0, len(pictures), ENCODED_TOGETHER):
        together = torch.from_numpy(np.ascontiguousarray(pictures[start : start + ENCODED_TOGETHER]))
        with torch.no_grad():
            eye = agent.encode_senses({SENSE: together[:, None]})[SENSE]
        parts = [eye.tokens[:, 0]]
        if FINE in eye.maps:
            parts.append(eye.maps[FINE][:, 0].flatten(2).mT)
        moments = [value for part in parts for value in (part.mean(1), part.std(1))]
        rows.append(torch.cat(moments, -1).float().cpu().numpy())
    return np.concatenate(rows)


def lesson_density(agent: Agent) -> LessonDensity:
    """The density of lessons' pictures for this agent's eye, the same for the same eye; takes some ten seconds."""
    fitted = [pooled(agent, pictures) for pictures in lesson_pictures(USUAL_ROOMS, "usual")]
    others = [pooled(agent, pictures) for pictures in lesson_pictures(BOUND_ROOMS, "bound")]
    return LessonDensity.of(np.concatenate(fitted), others)


def lesson_pictures(n: int, name: str) -> tuple[np.ndarray, np.ndarray]:
    """About `n` pictures of lessons, uint8 [m, 64, 64, 3] each: two thirds of rooms as they are at an episode's start,
    and a third of things near enough to be named, half of them in the middle of the view.
    """
    from devmind.worlds.nursery.in_cells import CELLS, put_in_cells
    from devmind.worlds.nursery.rules import NurseryRules
    from devmind.worlds.nursery.state import COLOUR_NAMES, SHAPES
    from devmind.worlds.nursery.truth import truth
    from devmind.worlds.nursery.views import views

    near = n // 3
    seeds, rng = lesson_seeds(n, "lesson pictures", name), numpy_rng("lesson pictures", name)
    levels = sorted(set(LEVELS))
    rooms = [
        views(rules.initial(part))[SENSE].copy()
        for part, rules in zip(np.array_split(seeds[near:], len(levels)), map(NurseryRules, levels), strict=True)
    ]
    rules = NurseryRules(NEAR_LEVEL)
    cells = np.stack([rng.permutation(CELLS)[:NEAR_THINGS] for _ in range(near)])
    cells = np.where(np.arange(NEAR_THINGS) < rng.integers(2, NEAR_THINGS + 1, (near, 1)), cells, -1)
    colours, shapes = (rng.integers(len(kinds), size=cells.shape) for kinds in (COLOUR_NAMES, SHAPES))
    state = put_in_cells(rules.initial(seeds[:near]), seeds[:near], colours, shapes, cells)
    true, rows = truth(state, rules.spec), np.arange(near)
    looked_at, looks = (cells >= 0).argmax(1), rng.random(near) < 0.5
    state.pan = np.where(looks, true["object_azimuth_deg"][rows, looked_at], state.pan)
    state.tilt = np.where(looks, true["object_elevation_deg"][rows, looked_at], state.tilt)
    state.pan_before = state.pan.copy()
    return np.concatenate(rooms), views(state)[SENSE].copy()


@dataclass(frozen=True)
class Reliability:
    """Maps evidence (agreement, distance) to the share that is right, by an increasing line through n known cases."""

    weights: np.ndarray
    scores: np.ndarray
    shares: np.ndarray

    @classmethod
    def of(cls, evidence: np.ndarray, right: np.ndarray) -> Reliability:
        """Fit to evidence [n, 2] and shares [n]. Less agreement or more distance never increases the confidence."""
        from scipy.optimize import isotonic_regression

        design = np.column_stack([evidence, np.ones(len(evidence))])
        solved = np.linalg.lstsq(design, right, rcond=None)[0]
        weights = np.array([max(0.0, solved[0]), min(0.0, solved[1])])
        scores = evidence @ weights
        order = np.argsort(scores, kind="stable")
        return cls(weights, scores[order], isotonic_regression(right[order]).x)

    def share(self, agreement: float, distance: float) -> float:
        """The share of such overlays that was right."""
        score = float(np.array([agreement, distance]) @ self.weights)
        return float(np.clip(np.interp(score, self.scores, self.shares), NEVER_CERTAIN, 1 - NEVER_CERTAIN))


@dataclass(frozen=True)
class Calibration:
    """The usual tokens of one agent's eye, and the reliability of one head's overlays, by kind."""

    head: str
    density: TokenDensity
    kinds: dict[str, Reliability]

    def confidences(self, agent: Agent, percepts: Percepts, seen: Overlays, row: int = 0) -> dict[str, float]:
        """The share of such overlays that is right, by kind; without the kinds that show nothing."""
        distance = self.density.distance(tokens_of(percepts)[row])
        other = mirrored(agent, self.head, percepts)
        if other is None:
            return {}
        turned = back(other.overlays(row))
        found = {kind: agreement(kind, seen, turned) for kind in self.kinds if kind in seen}
        return {kind: self.kinds[kind].share(agreed, distance) for kind, agreed in found.items() if agreed is not None}


@dataclass(frozen=True)
class Evidence:
    """The training data of a calibration, from N pictures.

    Attributes:
        tokens: sight's [N, K, D].
        kinds: by kind of overlay, agreement and accuracy [N, 2]; NaN where nothing is shown.
    """

    tokens: np.ndarray
    kinds: dict[str, np.ndarray]

    @classmethod
    def joined(cls, parts: Sequence[Evidence]) -> Evidence:
        """All parts joined."""
        kinds = {kind: np.concatenate([part.kinds[kind] for part in parts]) for kind in parts[0].kinds}
        return cls(np.concatenate([part.tokens for part in parts]), kinds)


def calibration_rooms() -> Rooms:
    """The rooms to calibrate on; always the same."""
    return corrupted_rooms(lesson_seeds(ROOMS, "confidence"), TAUGHT)


def tokens_of(percepts: Percepts) -> np.ndarray:
    """Sight's tokens [B, K, D]."""
    return percepts.encoded[SENSE].tokens.detach().float().cpu().numpy()


def look_at(agent: Agent, rooms: Rooms, start: int = 0, stop: int | None = None) -> Percepts:
    """The agent's percepts of pictures, each with the one before it."""
    pair = np.stack([rooms.before[start:stop], rooms.sight[start:stop]], 1)
    batch = clip({SENSE: torch.from_numpy(pair)})
    return Percepts(agent.encode_batch(batch, [SENSE]).map(lambda x: x[:, 1]), {}, batch)


@torch.no_grad()
def gather(agent: Agent, head: str, rooms: Rooms) -> Iterator[Evidence]:
    """Evidence of the head on rooms, a few at a time: this may run beside a living agent, and be stopped."""
    for start in range(0, len(rooms), AT_ONCE):
        percepts = look_at(agent, rooms, start, start + AT_ONCE)
        tokens = tokens_of(percepts)
        plain, other = agent.run_heads([head], percepts.seen)[head], mirrored(agent, head, percepts)
        rows: dict[str, list[tuple[float, float]]] = {}
        for row in range(len(tokens)):
            seen, turned = plain.overlays(row), back(other.overlays(row)) if other else {}
            for kind in [kind for kind in KINDS if kind in seen and kind in turned]:
                rows.setdefault(kind, []).append(_judge(kind, seen, turned, rooms, start + row))
        yield Evidence(tokens, {kind: np.array(found) for kind, found in rows.items()})


def _judge(kind: str, seen: Overlays, turned: Overlays, rooms: Rooms, index: int) -> tuple[float, float]:
    agreed = agreement(kind, seen, turned)
    right = accuracy(kind, seen, rooms.things[index], rooms.depth[index])
    if agreed is None or right is None:
        return float("nan"), float("nan")
    return agreed, right if rooms.shown[index] else 0.0


def learn(head: str, evidence: Evidence, rooms: Rooms) -> Calibration:
    """The calibration fitted to evidence on rooms whose truth is known."""
    clean = evidence.tokens[rooms.kinds == "clean"]
    density = TokenDensity.of(clean.reshape(-1, clean.shape[-1]))
    unlike = np.array([density.distance(tokens) for tokens in evidence.tokens])
    kinds = {}
    for kind, found in evidence.kinds.items():
        shown = ~np.isnan(found[:, 1])
        if shown.any():
            kinds[kind] = Reliability.of(np.column_stack([found[:, 0], unlike])[shown], found[shown, 1])
    return Calibration(head, density, kinds)
