"""The exam of locate: boxes, masks and depth of things in unseen rooms, by the scene head."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import cv2
import numpy as np
import torch
from scipy.optimize import linear_sum_assignment

from devmind.agent.agent import Agent
from devmind.agent.batch import one_tick
from devmind.algorithms.overlap import box_iou, mask_iou
from devmind.curriculum.episodes import of_worlds
from devmind.curriculum.exam import Exam, Exhibit, Measure
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Context
from devmind.report.exhibits import png
from devmind.seeding import exam_seeds, lesson_seeds
from stages.reflex.exhibits import side_by_side
from stages.reflex.locate.lesson import THINGS, rooms
from stages.reflex.locate.scene import Instances, Scene

EPISODES, VISIBLE_PX = 1000, 20
UNKNOWN_DEPTH = 0.5
"""AbsRel of half or one and a half times the true depth: knowing only the order of magnitude."""
GATE = Gate(
    [
        Threshold("locate/masks", 0.75),
        Threshold("locate/depth", 0.10, lower_is_better=True),
        Threshold("locate/boxes", 0.85),
    ]
)


def examine(agent: Agent, context: Context) -> Exam:
    """Mean IoU, AP50 and AbsRel a room, beside colour clustering and the median depth of the lessons' rooms."""
    n = max(4, context.episodes(EPISODES))  # in one room alone there may be nothing to see
    seeds = exam_seeds(n + n // 2, context.seed, "locate")
    senses, truth = rooms(context, "room", seeds, "exam")
    # A room in which nothing is in view has no masks to find.
    with_things = np.flatnonzero((truth["visible"] >= VISIBLE_PX).any(1))[:n]
    sight, mask, depth = senses["sight"][with_things], truth["mask"][with_things], truth["depth"][with_things]
    instances, distances = [], []
    for part in torch.from_numpy(sight).split(64):
        scene = agent(one_tick({"sight": part}), ["scene"])["scene"]
        assert isinstance(scene, Scene)
        instances += scene.instances()
        distances.append(scene.mode()[:, 0].cpu().numpy())
    distance = np.concatenate(distances)
    masks, boxes = _score(instances, mask)
    error = _abs_rel(distance, depth)
    episodes = of_worlds(context.make_world, "nursery", "room", seeds[with_things])
    note = f"things with at least {VISIBLE_PX} visible pixels; the hand and the caregiver are no things"
    measures = [
        Measure("locate/masks", "mean IoU", masks, 0.0, 1.0, note=note, episodes=episodes),
        Measure("locate/depth", "AbsRel", error, UNKNOWN_DEPTH, 0.0, higher_is_better=False, episodes=episodes),
        Measure("locate/boxes", "AP50", boxes, 0.0, 1.0, note=f"average precision a room; {note}", episodes=episodes),
    ]

    def complete() -> list[Measure]:
        exhibits = {"locate/masks": _exhibits(sight, mask, instances, distance, depth, masks)}
        floors = _floors(context, sight, mask, depth)
        return [replace(one, floors=floors[one.name], exhibits=exhibits.get(one.name, ())) for one in measures]

    return Exam(measures, complete)


def _abs_rel(distance: np.ndarray, depth: np.ndarray) -> np.ndarray:
    """Mean of |predicted - true| / true over each picture's pixels, [N] (Eigen et al. 2014, arXiv 1406.2283)."""
    return (np.abs(distance - depth) / np.maximum(depth, 0.05)).mean((1, 2))


def _score(instances: Sequence[Instances], mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(mean IoU of the things [N], average precision of boxes at IoU 0.5 [N])."""
    pairs = [_score_room(predicted, target) for predicted, target in zip(instances, mask, strict=True)]
    return np.array([m for m, _ in pairs]), np.array([b for _, b in pairs])


def _score_room(instances: Instances, mask: np.ndarray) -> tuple[float, float]:
    present = [k for k in range(1, THINGS + 1) if (mask == k).any()]
    true_masks = np.stack([mask == k for k in present])
    large = true_masks.sum((1, 2)) >= VISIBLE_PX
    if not len(instances.masks):
        return 0.0, 0.0
    overlap = mask_iou(true_masks, instances.masks)
    rows, columns = linear_sum_assignment(-overlap[large])
    matched = np.zeros(int(large.sum()))
    matched[rows] = overlap[large][rows, columns]
    return float(matched.mean()), average_precision(boxes_of(true_masks), large, instances.boxes, instances.scores)


def boxes_of(masks: np.ndarray) -> np.ndarray:
    """Extents of masks bool [K, H, W] as float32 [K, 4]: x0, y0, x1, y1, ends exclusive."""
    boxes = np.zeros((len(masks), 4), np.float32)
    for k, mask in enumerate(masks):
        rows, columns = np.nonzero(mask)
        boxes[k] = columns.min(), rows.min(), columns.max() + 1, rows.max() + 1
    return boxes


def average_precision(true_boxes: np.ndarray, counts: np.ndarray, boxes: np.ndarray, scores: np.ndarray) -> float:
    """AP at IoU 0.5 of one picture, all-point interpolation; boxes whose `counts` is False may be found or not."""
    order = np.argsort(-scores, kind="stable")
    overlap = box_iou(true_boxes, boxes[order])
    taken = np.zeros(len(true_boxes), bool)
    hits = []
    for column in range(overlap.shape[1]):
        free = np.where(taken, 0.0, overlap[:, column])
        best = int(free.argmax())
        if free[best] >= 0.5:
            taken[best] = True
            if counts[best]:
                hits.append(1.0)
        elif not (overlap[:, column] >= 0.5)[~counts].any():
            hits.append(0.0)
    if not hits:
        return 0.0
    right = np.cumsum(hits)
    precision = np.maximum.accumulate((right / np.arange(1, len(hits) + 1))[::-1])[::-1]
    return float((precision * np.array(hits)).sum() / counts.sum())


def _floors(context: Context, sight: np.ndarray, mask: np.ndarray, depth: np.ndarray) -> dict[str, dict[str, float]]:
    clustered = [colour_clusters(picture) for picture in sight]
    masks, boxes = _score(clustered, mask)
    _, truth = rooms(context, "room", lesson_seeds(256, context.seed, "locate", "floor"), "floor")
    middle = np.median(truth["depth"], axis=0)[None]
    return {
        "locate/masks": {"colour clustering": float(masks.mean())},
        "locate/boxes": {"colour clustering": float(boxes.mean())},
        "locate/depth": {"median depth of every pixel": float(_abs_rel(middle, depth).mean())},
    }


def colour_clusters(picture: np.ndarray, clusters: int = 8) -> Instances:
    """Connected regions of like colour (k-means in Lab), those of a thing's size, the more saturated first."""
    lab = cv2.cvtColor(picture, cv2.COLOR_RGB2LAB).reshape(-1, 3).astype(np.float32)
    cv2.setRNGSeed(0)
    stop = (cv2.TERM_CRITERIA_EPS + cv2.TERM_CRITERIA_MAX_ITER, 10, 1.0)
    start = np.zeros((len(lab), 1), np.int32)
    _, label, _ = cv2.kmeans(lab, clusters, start, stop, 1, cv2.KMEANS_PP_CENTERS)
    label = label.reshape(picture.shape[:2])
    saturation = np.hypot(lab[:, 1] - 128, lab[:, 2] - 128).reshape(label.shape)
    masks, scores = [], []
    for k in range(clusters):
        count, region = cv2.connectedComponents((label == k).astype(np.uint8))
        for part in range(1, count):
            mask = region == part
            if 12 <= mask.sum() <= 700 and saturation[mask].mean() > 25:
                masks.append(mask)
                scores.append(saturation[mask].mean())
    stacked = np.stack(masks) if masks else np.zeros((0, *label.shape), bool)
    return Instances(stacked, boxes_of(stacked), np.array(scores, np.float32))


STRIP = ("boxes found", "masks found", "masks true", "depth found", "depth true")
"""What the pictures of an exhibit show."""


def _exhibits(
    sight: np.ndarray,
    mask: np.ndarray,
    instances: Sequence[Instances],
    distance: np.ndarray,
    depth: np.ndarray,
    value: np.ndarray,
) -> tuple[Exhibit, ...]:
    """The middle and the worst rooms: picture with boxes, masks found and true, depth found and true."""
    order = np.argsort(value, kind="stable")
    middle, worst = order[len(order) // 2 - 2 : len(order) // 2 + 2], order[:4]
    exhibits = []
    for kind, rows in (("example", middle), ("failure", worst)):
        for i in rows:
            masks, true_masks = _coloured(instances[i].masks), _coloured(_things(mask[i]))
            strip = side_by_side(_boxed(sight[i], instances[i]), masks, true_masks, _grey(distance[i]), _grey(depth[i]))
            text = f"mean IoU {value[i]:.2f}"
            exhibits.append(Exhibit(kind, text, png=png(strip), labels=STRIP))  # type: ignore[arg-type]
    return tuple(exhibits)


def _things(mask: np.ndarray) -> np.ndarray:
    return np.stack([mask == k for k in range(1, THINGS + 1)])


def _boxed(picture: np.ndarray, instances: Instances) -> np.ndarray:
    drawn = np.ascontiguousarray(picture)
    for x0, y0, x1, y1 in instances.boxes.astype(int):
        cv2.rectangle(drawn, (x0, y0), (x1 - 1, y1 - 1), (255, 255, 255), 1)
    return drawn


def _coloured(masks: np.ndarray) -> np.ndarray:
    picture = np.full((64, 64, 3), 30, np.uint8)
    for k, mask in enumerate(masks):
        hue = np.array([[[k * 67 % 180, 200, 230]]], np.uint8)
        picture[mask] = cv2.cvtColor(hue, cv2.COLOR_HSV2RGB)[0, 0]
    return picture


def _grey(depth: np.ndarray) -> np.ndarray:
    near = np.clip(255 * (1 - depth / 5.0), 0, 255).astype(np.uint8)
    return np.repeat(near[..., None], 3, -1)
