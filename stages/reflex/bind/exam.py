"""The exam of bind: which of four visible objects made this sound.

The agent gets no boxes. Its scene head detects things in the picture, and its answer is the one nearest to the cell
that it takes the sound to come from. The answer is right if its box overlaps the box of the sounding object.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from devmind.agent.agent import Agent
from devmind.agent.batch import clip, one_tick
from devmind.algorithms.overlap import box_iou
from devmind.algorithms.ridge import fit_ridge
from devmind.curriculum.episodes import of_worlds
from devmind.curriculum.exam import Measure, Parts, in_parts
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Context
from devmind.seeding import exam_seeds, lesson_seeds
from stages.reflex.bind.lesson import CELL_PX, CELLS, centres, scenes
from stages.reflex.exhibits import picture_exhibits
from stages.reflex.hand_rules import sounding_box
from stages.reflex.left_out import looks_left_out, rows_by_looks
from stages.reflex.locate.scene import Scene
from stages.reflex.untaught import FLOOR, UntrainedEncoders

EPISODES, TICKS = 1000, 3
OVERLAP = 0.5
"""Least intersection over union of two boxes of one thing, as in `locate/boxes`."""
FLOOR_SCENES = 2000
"""Scenes of lesson seeds, of one Moment each, on which the ridge is fitted."""
GATE = Gate([Threshold("bind", 0.90), Threshold("bind/bind_trunk", 0.90, beats_twin=True)])


@in_parts
def examine(agent: Agent, context: Context) -> Parts:
    """Share of scenes in which the agent's detection at the answered place is the sounding object."""
    n = context.episodes(EPISODES)
    seeds = exam_seeds(n, context.seed, "bind")
    senses, truth = scenes(context, seeds, TICKS)
    boxes, target = truth["boxes"][:, :4], truth["target"]
    sounding = boxes[np.arange(n), target]
    pictures = senses["sight"][:, -1].numpy()
    detections = detect_boxes(agent, pictures)
    right = same_thing(_chosen(agent, "bind", senses, detections), sounding)
    things = np.mean([len(each) for each in detections])
    measure = Measure(
        "bind",
        "sounds assigned to the right thing",
        right,
        chance=0.25,
        rate=True,
        note=f"among the boxes that its own scene head detects, {things:.1f} a picture",
        episodes=of_worlds(context.make_world, "nursery", "bind", seeds),
    )
    by_itself = same_thing(_chosen(agent, "bind_trunk", senses, detections), sounding)
    by_trunk = measure.of("bind/bind_trunk", by_itself)
    yield [measure, by_trunk]
    left = looks_left_out(context, "bind", seeds)
    deaf, four = {"sight": senses["sight"]}, list(boxes)
    rows = {
        "sound off": float(same_thing(_chosen(agent, "bind", deaf, detections), sounding).mean()),
        "among the four true boxes": float((_chosen(agent, "bind", senses, four) == sounding).all(1).mean()),
        "the sounding thing is detected": float(_detected_at_all(detections, sounding).mean()),
        **rows_by_looks(agent, left, right),
    }
    ruled = sounding_box(pictures, senses["sound"].numpy())
    floors = {
        "odd colours, by the interaural delay": float(same_thing(ruled, sounding).mean()),
        FLOOR: float(same_thing(_by_ridge(agent, context, senses, detections), sounding).mean()),
    }
    wrong = np.flatnonzero(~right)[:6]
    captions = [f"object {target[i] + 1} of 4 sounded; the answer is not its box" for i in wrong]
    yield [
        replace(measure, floors=floors, rows=rows, exhibits=picture_exhibits("failure", pictures[wrong], captions)),
        replace(by_trunk, floors=floors, rows=rows_by_looks(agent, left, by_itself)),
    ]


def detect_boxes(agent: Agent, sight: np.ndarray) -> list[np.ndarray]:
    """Boxes [K, 4] that the agent's scene head finds in each picture of [N, 64, 64, 3]."""
    boxes = []
    for part in torch.from_numpy(sight).split(64):
        scene = agent(one_tick({"sight": part}), ["scene"])["scene"]
        assert isinstance(scene, Scene)
        boxes += [instances.boxes for instances in scene.instances()]
    return boxes


def same_thing(boxes: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Whether boxes [N, 4] overlap `others` [N, 4], row by row, by OVERLAP; bool [N]."""
    pairs = zip(boxes, others, strict=True)
    return np.array([box_iou(box[None], other[None])[0, 0] >= OVERLAP for box, other in pairs])


def _detected_at_all(detections: Sequence[np.ndarray], sounding: np.ndarray) -> np.ndarray:
    pairs = zip(detections, sounding, strict=True)
    return np.array([len(each) > 0 and box_iou(each, target[None]).max() >= OVERLAP for each, target in pairs])


def _chosen(agent: Agent, head: str, senses: Mapping[str, Tensor], detections: Sequence[np.ndarray]) -> np.ndarray:
    """The box found nearest to the likeliest cell over the ticks, for each scene, [N, 4]; zeros for none."""
    cells = []
    for start in range(0, len(detections), 100):
        part = clip({name: value[start : start + 100] for name, value in senses.items()})
        cells.append(agent(part, [head])[head].logits.log_softmax(-1).sum(1).argmax(-1))
    cell = torch.cat(cells).cpu().numpy()
    return _nearest((np.stack([cell % CELLS, cell // CELLS], 1) + 0.5) * CELL_PX, detections)


def _nearest(point: np.ndarray, detections: Sequence[np.ndarray]) -> np.ndarray:
    """The box found nearest to each scene's point [N, 2] in pixels, [N, 4]; zeros for none."""
    chosen = np.zeros((len(detections), 4), np.float32)
    for row, boxes in enumerate(detections):
        if len(boxes):
            chosen[row] = boxes[np.linalg.norm(centres(boxes) - point[row], axis=-1).argmin()]
    return chosen


def _by_ridge(agent: Agent, context: Context, senses: Mapping[str, Tensor], found: Sequence[np.ndarray]) -> np.ndarray:
    """The box found nearest to where a ridge on untaught tokens of both senses takes the sound to come from, [N, 4]."""
    untaught, seeds = (
        UntrainedEncoders(agent),
        lesson_seeds(context.episodes(FLOOR_SCENES), context.seed, "bind", "floor"),
    )

    def tokens(of: Mapping[str, Tensor], tick: int) -> np.ndarray:
        each = [untaught.tokens(sense, of[sense][:, tick]) for sense in ("sight", "sound")]
        return np.concatenate([x.reshape(len(x), -1) for x in each], 1)

    shown, truth = scenes(context, seeds, 1)
    at = centres(truth["boxes"])[np.arange(len(seeds)), truth["target"]]
    fitted = fit_ridge(tokens(shown, 0), at)
    return _nearest(np.mean([fitted.predict(tokens(senses, tick)) for tick in range(TICKS)], 0), found)
