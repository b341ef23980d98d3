"""How far what an agent sees can be trusted: measured once where the truth is known, after exams, and kept with it.

Two things are measured. A picture is like those of lessons if what its tokens are like, on average and in their
deviation, is not too far from lessons' pictures (Mahalanobis distance, as in Lee et al. 2018, arXiv 1807.03888).
Overlays of such a picture (boxes, masks, depth) are right as often as overlays were in rooms of the nursery that agreed
as well with those of the mirrored picture: isotonic regression (Zadrozny and Elkan 2002). A mirror shows the same room
reversed; a reliable head finds the same things there, and one that guesses seldom makes the same guess twice. Of a
picture unlike those of lessons nothing is known, so its overlays have the confidence 0.

`python -m devmind.acting.confidence AGENT` measures a saved agent again.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from devmind.agent.agent import Agent
from devmind.agent.batch import clip
from devmind.agent.output import Output
from devmind.agent.saving import folders_of, hash_tensors, read_sealed, seal
from devmind.agent.taps import Percepts
from devmind.algorithms.overlap import box_iou, mask_iou
from devmind.bounds import damage
from devmind.errors import CheckpointError
from devmind.seeding import lesson_seeds, numpy_rng

SENSE = "sight"
FILE = "confidence.safetensors"
"""Beside the weights of a saved agent: the hashes of what it holds for, the density, and by kind the shares."""
KINDS = ("boxes", "masks", "depth")
SAME_THING = 0.5
"""Least overlap of a right box or mask with a true one, as in AP50."""
SAME_DEPTH = 1.25
"""A pixel's depth is right within this factor of the true one (Eigen et al. 2014, arXiv 1406.2283)."""
NEVER_CERTAIN = 0.02
FINE = "stride2"
"""A map of the eye in which noise, grain and sharpness show; its tokens hardly see them."""
DENSITY_SHRINKAGE = 0.05
FAMILIAR = 0.97
"""Of pictures of lessons, the share that counts as such; the others are false alarms."""
USUAL_ROOMS, BOUND_ROOMS, TRUE_ROOMS, LEAST_ROOMS = 1_200, 400, 250, 40
"""Pictures that the density is fitted to, others that give its bound, and rooms with their truth."""
LEVELS = ("room", "room", "bind", "reach", "orient/motion")
NEAR_LEVEL, NEAR_THINGS = "bind", 4
THINGS, LARGEST_TURN = 8, 0.2
ENCODED_TOGETHER = 50

Overlays = dict[str, np.ndarray]


@dataclass(frozen=True)
class LessonDensity:
    """The Gaussian of pictures as lessons show them, and the distance beyond which a picture is unlike them.

    Attributes:
        mean: of the features of `pool_features`, [F]; whitening: [F, F], lower triangular.
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
        return bool(self.distance(pool_features(agent, picture[None]))[0] > self.bound)


@dataclass(frozen=True)
class Confidence:
    """What was measured of one agent.

    Attributes:
        eye, head: SHA-256 of the encoder of sight and of the head whose overlays were measured ('' without one).
        shares: by kind of overlay float32 [2, n]: agreements, rising, and the share of such overlays that was right.
    """

    eye: str
    head: str
    density: LessonDensity
    shares: Mapping[str, np.ndarray]

    def fits(self, agent: Agent) -> bool:
        """Whether it holds for this agent: it sees with the same weights."""
        return SENSE in agent.encoders and (self.eye, self.head) == _hashes(agent)

    def of(self, agent: Agent, head: str, percepts: Percepts, picture: np.ndarray, seen: Overlays) -> dict[str, float]:
        """The share of such overlays that is right, by kind; without the kinds that show nothing.

        Args:
            percepts: of one tick; picture: its sight uint8 [64, 64, 3]; seen: the head's overlays on it.
        """
        other = mirror_output(agent, head, percepts)
        if other is None:
            return {}
        turned = back(other.overlays())
        found = {kind: agreement(kind, seen, turned) for kind in self.shares if kind in seen}
        unlike = self.density.is_unlike(agent, picture)
        return {
            kind: 0.0 if unlike else float(np.interp(agreed, *self.shares[kind]))
            for kind, agreed in found.items()
            if agreed is not None
        }

    def to_bytes(self) -> bytes:
        """The content of FILE."""
        from safetensors.numpy import save

        hashes = {"eye": self.eye, "head": self.head}
        texts = {name: np.frombuffer(text.encode(), np.uint8) for name, text in hashes.items()}
        of = self.density
        # Of the lower triangular matrix its values, row by row.
        density = {"mean": of.mean, "whitening": of.whitening[np.tril_indices(len(of.mean))]}
        arrays = texts | density | {"bound": np.array([of.bound])} | dict(self.shares)
        return save({name: np.ascontiguousarray(value) for name, value in arrays.items()})

    @classmethod
    def from_bytes(cls, content: bytes) -> Confidence:
        """From the content of FILE; raises what its parser raises."""
        from safetensors.numpy import load

        arrays = load(content)
        eye, head = (arrays.pop(name).tobytes().decode("ascii") for name in ("eye", "head"))
        mean, values = arrays.pop("mean"), arrays.pop("whitening")
        bound = float(arrays.pop("bound")[0])
        # Before any array of the square of its length is made, which a forged file could let be of any size.
        if mean.ndim != 1 or values.size != len(mean) * (len(mean) + 1) // 2:
            raise ValueError(f"a mean of {mean.size} numbers and a triangle of {values.size} do not go together")
        if not all(np.isfinite(array).all() for array in (mean, values, *arrays.values())):
            raise ValueError("a number is not finite")
        whitening: np.ndarray = np.zeros((len(mean), len(mean)), np.float32)
        whitening[np.tril_indices(len(mean))] = values
        for kind, line in arrays.items():
            if line.ndim != 2 or len(line) != 2 or not line.size:
                raise ValueError(f"{kind} is {list(line.shape)}, not [2, n]")
        return cls(eye, head, LessonDensity(mean, whitening, bound), arrays)


def read_confidence(folder: Path, agent: Agent) -> Confidence | None:
    """What was measured of the agent saved in `folder`, or of one that it was saved over and sees as; None if nothing.

    Raises:
        CheckpointError: the file is damaged, or not the one that was saved with the agent.
    """
    for each in reversed(folders_of(Path(folder))):
        if (content := read_sealed(each, FILE)) is not None:
            with damage(CheckpointError, f"'{each / FILE}' is damaged ({{}}); measure the agent again, or remove it."):
                found = Confidence.from_bytes(content)
            if found.fits(agent):
                return found
    return None


def seal_confidence(agent: Agent, folder: Path, known: Confidence | None = None, scale: float = 1.0) -> None:
    """Keep with the agent saved in `folder` what is `known` of it, if that fits, or measure it.

    An agent without sight, or one that went through no stage, has nothing to measure.

    Args:
        scale: factor on the number of rooms.
    """
    if SENSE in agent.encoders and agent.config.stages:
        found = known if known and known.fits(agent) else measure(agent, scale)
        seal(folder, FILE, found.to_bytes())


def overlay_head(agent: Agent) -> str | None:
    """The first head on sight whose output offers overlays."""
    grey = torch.full((1, 64, 64, 3), 128, dtype=torch.uint8)
    on_sight = [name for name in agent.heads if str(agent.tap_of(name)) == SENSE]
    with torch.no_grad():
        seen = agent.encode_senses({SENSE: grey}) if on_sight else {}
        return next((name for name in on_sight if agent.run_heads([name], seen)[name].overlays()), None)


def _hashes(agent: Agent) -> tuple[str, str]:
    head = overlay_head(agent)
    eye = hash_tensors(agent.encoder(SENSE).state_dict())
    return eye, hash_tensors(agent.head(head).state_dict()) if head else ""


@torch.no_grad()
def mirror_output(agent: Agent, head: str, percepts: Percepts) -> Output | None:
    """The head's output [B] for the same ticks seen in a mirror; None where sight's encoder keeps no picture.

    Args:
        percepts: of the tick; the picture and its change are read from the encoder's finest map (`SightEncoder`).
    """
    planes = percepts.encoded[SENSE].maps.get("stride1") if SENSE in percepts.encoded else None
    if planes is None or planes.shape[1] % 2:
        return None
    flipped = planes.flip(-1)
    picture, change = flipped.chunk(2, 1)
    now, before = (value.permute(0, 2, 3, 1) for value in (picture + 0.5, picture + 0.5 - change))
    known = torch.ones(len(planes), dtype=torch.bool, device=planes.device)
    seen = agent.encode_senses({SENSE: now}, previous={SENSE: (before, known)})
    return agent.run_heads([head], seen)[head]


def back(overlays: Overlays) -> Overlays:
    """Overlays of a mirrored picture, reversed to lie on the picture itself, or the other way round."""
    turned = {kind: value[:, ::-1] for kind, value in overlays.items() if kind in ("masks", "depth")}
    if "boxes" in overlays:
        boxes = overlays["boxes"].copy()
        boxes[:, [0, 2]] = 1 - boxes[:, [2, 0]]
        turned["boxes"] = boxes
    return turned


def agreement(kind: str, seen: Overlays, other: Overlays) -> float | None:
    """The similarity of two overlays of one picture, 0..1; None where neither shows anything.

    Boxes and masks: the mean, over both sides, of each one's best overlap with one of the other side. Depth: falls with
    the mean difference of log depth, to 1/e at a quarter.
    """
    if kind == "depth":
        return float(np.exp(-4 * np.abs(np.log(seen[kind] / other[kind])).mean()))
    overlap = box_iou(seen[kind][:, :4], other[kind][:, :4]) if kind == "boxes" else _masks_iou(seen[kind], other[kind])
    count = sum(overlap.shape)
    if not count:
        return None
    return float((overlap.max(1).sum() + overlap.max(0).sum()) / count) if overlap.size else 0.0


def accuracy(kind: str, seen: Overlays, things: np.ndarray, depth: np.ndarray) -> float | None:
    """The share of what is shown that is right, 0..1; None where nothing is shown.

    Args:
        things: uint8 [64, 64], the number of the thing at each pixel, 0 for none; depth: float32 [64, 64] in metres.
    """
    if kind == "depth":
        ratio = seen[kind] / np.maximum(depth, 0.05)
        return float((np.maximum(ratio, 1 / ratio) < SAME_DEPTH).mean())
    overlap = box_iou(seen[kind][:, :4], _extents(things)) if kind == "boxes" else _masks_iou(seen[kind], things)
    if not len(overlap):
        return None
    return float((overlap.max(1) >= SAME_THING).mean()) if overlap.size else 0.0


def _apart(numbered: np.ndarray) -> np.ndarray:
    """Masks bool [K, H, W] of the numbers above 0 in a picture."""
    return numbered == np.unique(numbered[numbered > 0])[:, None, None]


def _masks_iou(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return mask_iou(_apart(a), _apart(b))


def _extents(things: np.ndarray) -> np.ndarray:
    """Boxes [K, 4] around numbered things, in 0..1 of the picture."""
    boxes = []
    for mask in _apart(things):
        rows, columns = np.nonzero(mask)
        boxes.append((columns.min(), rows.min(), columns.max() + 1, rows.max() + 1))
    return np.array(boxes, np.float32).reshape(-1, 4) / len(things)


def pool_features(agent: Agent, pictures: np.ndarray) -> np.ndarray:
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


def measure(agent: Agent, scale: float = 1.0) -> Confidence:
    """What is known of this agent, the same for the same weights; takes some twenty seconds, longest for the rooms.

    Args:
        scale: factor on the number of rooms.
    """
    usual, bound, true = (max(LEAST_ROOMS, round(scale * n)) for n in (USUAL_ROOMS, BOUND_ROOMS, TRUE_ROOMS))
    fitted = np.concatenate([pool_features(agent, pictures) for pictures in lesson_pictures(usual, "usual")])
    density = LessonDensity.of(fitted, [pool_features(agent, pictures) for pictures in lesson_pictures(bound, "bound")])
    head, shares = overlay_head(agent), {}
    for kind, found in (overlay_evidence(agent, head, true_rooms(true)) if head else {}).items():
        if len(known := found[~np.isnan(found[:, 1])]):
            shares[kind] = share_by_agreement(*known.T)
    return Confidence(*_hashes(agent), density, shares)


def share_by_agreement(agreements: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The increasing line through cases [n] whose share of right overlays is known: its corners, float32 [2, m]."""
    from sklearn.isotonic import IsotonicRegression

    line = IsotonicRegression(y_min=NEVER_CERTAIN, y_max=1 - NEVER_CERTAIN).fit(agreements, right)
    return np.stack([line.X_thresholds_, line.y_thresholds_]).astype(np.float32)


def overlay_evidence(agent: Agent, head: str, rooms: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    """By kind of overlay, agreement and accuracy [N, 2] of the head in `true_rooms`; NaN where nothing is shown."""
    rows: dict[str, list[tuple[float | None, float | None]]] = {}
    for start in range(0, len(rooms[0]), ENCODED_TOGETHER):
        before, sight, things, depth = (array[start : start + ENCODED_TOGETHER] for array in rooms)
        batch = clip({SENSE: torch.from_numpy(np.stack([before, sight], 1))})
        with torch.no_grad():
            percepts = Percepts(agent.encode_batch(batch, [SENSE]).map(lambda x: x[:, 1]), {}, batch)
            plain, other = agent.run_heads([head], percepts.seen)[head], mirror_output(agent, head, percepts)
        for row in range(len(sight)):
            seen, turned = plain.overlays(row), back(other.overlays(row)) if other else {}
            for kind in [kind for kind in KINDS if kind in seen and kind in turned]:
                found = agreement(kind, seen, turned), accuracy(kind, seen, things[row], depth[row])
                rows.setdefault(kind, []).append(found)
    return {kind: np.array(found, np.float64) for kind, found in rows.items()}


def true_rooms(n: int) -> tuple[np.ndarray, ...]:
    """`n` rooms with their truth: sight a tick before and now, uint8 [n, 64, 64, 3], the numbers of the things, uint8
    [n, 64, 64] with 0 for everything else, and depth in metres, float32 [n, 64, 64]. In half of them the head turns.
    """
    from devmind.worlds.nursery.rules import NurseryRules
    from devmind.worlds.nursery.views import views

    rng, parts = numpy_rng("rooms with truth", n), []
    for part, level in zip(np.array_split(lesson_seeds(n, "confidence"), len(LEVELS)), LEVELS, strict=True):
        rules = NurseryRules(level)
        state = rules.initial(part)
        look = rng.uniform(-LARGEST_TURN, LARGEST_TURN, (len(part), 2)) * (rng.random((len(part), 1)) < 0.5)
        after = views(rules.step(state, {"look": look.astype(np.float32)}))
        things = np.where(after["mask"] <= THINGS, after["mask"], 0).astype(np.uint8)
        parts.append((views(state)[SENSE].copy(), after[SENSE].copy(), things, after["depth"]))
    return tuple(np.concatenate(arrays) for arrays in zip(*parts, strict=True))


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


if __name__ == "__main__":
    place = Path(sys.argv[1])
    seal_confidence(Agent.from_pretrained(place).eval(), place)
    print(f"{place / FILE}: {(place / FILE).stat().st_size:,} bytes")
