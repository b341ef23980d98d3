"""The lesson `senses`: many senses in one step, some of them left out.

The agent looks at a thing that sounds. The overtones follow the thing's form, so "is that a ball, a box or a can?" can
be answered by sight and by hearing. Each row has both senses, sight alone, or hearing alone; colour is asked only with
sight. The same step reads pages of text. Each of these four parts has its own loss, and its own gradient on the trunk
(`devmind.learners.joint`), whose norm and cosines with the others are reported with every step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from devmind.agent.agent import Agent
from devmind.curriculum.stage import Context, Lesson
from devmind.learners.joint import JointLearner, JointLoss
from devmind.seeding import lesson_seeds, numpy_rng
from devmind.worlds.nursery.chance import uniform
from devmind.worlds.nursery.in_cells import CELLS
from stages.language.caregiver.grammar import a
from stages.language.caregiver.scene import COLOURS, NOUNS, TAUGHT, Pair
from stages.language.caregiver.views import Views, as_views, place_things
from stages.language.name.lesson import COLOUR, KIND
from stages.language.parts import SIGHT, SOUND, TEXT
from stages.language.read import lesson as read_lesson
from stages.language.seeing import Page, as_read, batch_of, nats_of
from stages.language.senses.measured import measured_senses
from stages.language.teaching import supervised_lesson

NAME = "senses"
STEPS = {"tiny": 6, "nursery": 240, "child": 1200, "adult": 4000}
ROWS = 32
BOTH = "both"
THINGS: Mapping[str, tuple[str, ...]] = {SIGHT: (SIGHT,), SOUND: (SOUND,), BOTH: (SIGHT, SOUND)}
"""The senses of a thing, by part of a step."""
WEIGHTS = {SIGHT: 1.0, SOUND: 1.0, BOTH: 1.0, TEXT: 1.0}
"""Weights of the losses, as measured (`measured.py`): 1 each, as weights that balance the gradients are not better."""
LOUDNESS = (0.8, 1.4)
_PAGES = 1_000_000
"""The number of the first page, so that pages differ from those of the lesson `read`."""


@dataclass
class Sounding:
    """N things that are looked at and sound.

    Attributes:
        shown: pictures with one thing in the middle.
        sound: its sound meanwhile, float32 [N, 2, 1600].
    """

    shown: Views
    sound: np.ndarray


def lesson(context: Context) -> Lesson:
    """The lesson as data."""
    more: dict[str, Any] = {
        "learner": JointLearner,
        "skills": ("name", "read"),
        "learns_from": (read_lesson.group(context),),
        "compared": measured_senses().verdict(),
    }
    return supervised_lesson(context, NAME, JointLoss(LOSSES, WEIGHTS), lesson_batch, STEPS, ROWS, 1e-3, 2.0, **more)


def writing_loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, Mapping[str, Tensor]]:
    """Nats a byte of the answers behind the questions."""
    batch = as_read(agent, batch)
    output: Any = agent.forward(batch, [TEXT])[TEXT]
    nats, right = nats_of(output.logits, batch["written"])
    return nats, {"said right": right}


LOSSES = {SIGHT: writing_loss, SOUND: writing_loss, BOTH: writing_loss, TEXT: read_lesson.loss}


def lesson_batch(context: Context, update: int, rows: int) -> dict[str, Any]:
    """A step, with a Batch for each part: three quarters of `rows` are things, each seen, heard or both at random, and
    the others pages of text.
    """
    pages = max(1, rows // 4)
    rng = numpy_rng(context.seed, NAME, update)
    drawn = rng.integers(0, len(THINGS), rows - pages)
    seeds = lesson_seeds(rows - pages, context.seed, NAME, update)
    whole = things(context, seeds, [list(THINGS)[at] for at in drawn], rng)
    parts = {part: _rows(whole, np.flatnonzero(drawn == at), THINGS[part]) for at, part in enumerate(THINGS)}
    parts[TEXT] = read_lesson.lesson_batch(context, _PAGES + update, pages)
    return {part: batch for part, batch in parts.items() if len(batch["first"])}


def things(context: Context, seeds: np.ndarray, parts: list[str], rng: np.random.Generator) -> dict[str, Any]:
    """A thing for each of `seeds`, with a question that the senses of its part can answer: as `batch_of`, with sound.

    With sight the question asks for the form, in light of one colour, or for the colour; with sound alone for the form.
    """
    of = sounding(context, seeds, TAUGHT)
    pages = []
    for part, (colour, noun) in zip(parts, of.shown.pairs[:, 0].tolist(), strict=True):
        if part == SOUND or rng.random() < 0.5:
            pages.append(Page(KIND, f" {a(NOUNS[noun])}.", one_colour=True))
        else:
            pages.append(Page(COLOUR, f" {COLOURS[colour]}."))
    batch = batch_of(of.shown, pages, rng)
    batch["senses"][SOUND] = torch.from_numpy(of.sound)[:, None]
    batch["present"][SOUND] = batch["present"][SIGHT]
    return batch


def sounding(context: Context, seeds: np.ndarray, of: tuple[Pair, ...]) -> Sounding:
    """For each of seeds int64 [N] a thing of one of the pairs `of`, which is looked at and sounds all the time."""
    rng = [numpy_rng("sounding", seed) for seed in seeds.tolist()]
    pairs = np.array([[of[int(one.integers(len(of)))]] for one in rng])
    cells = np.array([[int(one.integers(CELLS))] for one in rng])
    world, state = place_things(context, seeds, pairs, cells, np.zeros(len(seeds), np.int64))
    state.loudness[:, 0] = uniform(seeds, "loudness", *LOUDNESS)
    sensed = world.restore(state)
    return Sounding(as_views(world, sensed[SIGHT], pairs), sensed[SOUND])


def _rows(batch: Mapping[str, Any], rows: np.ndarray, senses: tuple[str, ...]) -> dict[str, Any]:
    """These rows of a batch of things, with these senses and the page alone."""
    at = torch.from_numpy(rows)
    tensors = {
        about: {name: value[at] for name, value in batch[about].items() if name in (*senses, TEXT)}
        for about in ("senses", "present")
    }
    return {**tensors, **{name: batch[name][at] for name in ("first", "valid", "written")}}
