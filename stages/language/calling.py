"""The lesson `call`: the eye `detail` by itself, before anything is asked about pictures. For each cell it learns
whether the cell holds the centre of a thing, the colour in plain light, and the noun in light of one colour
(`seeing.py`).

Later lessons about pictures rest on these cells. Taught within them, by AdamW at the trunk's learning rate, the eye
took boxes for cans in one of eleven and did not improve; by itself, with Muon on its kernels, it does
(docs/language.md). Pictures are not mirrored: light falls from one side, and its shading tells round from
flat.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from devmind.agent.agent import Agent
from devmind.curriculum.stage import Context, Lesson
from devmind.learners.gradient import gradient_lesson
from devmind.learners.muon import MuonLearner
from devmind.seeding import lesson_seeds, numpy_rng
from stages.language.caregiver.scene import TAUGHT
from stages.language.name.scenes import scenes
from stages.language.parts import COLOUR_OF, DETAIL, NOUN_OF, OBJECTS, SIGHT, TEXT, trained_to_call
from stages.language.seeing import Page, batch_of

NAME = "call"
STEPS = {"tiny": 8, "nursery": 2000, "child": 4000, "adult": 8000}
ROWS, LEARNING_RATE, MINUTES = 32, 3e-3, 2.5
SKILLS = ("name", "new_words", "answer", "converse")
"""Skills that rest on this lesson."""
KERNELS = (f"encoders.{DETAIL}.form.", f"encoders.{DETAIL}.colour.")


class CallingLearner(MuonLearner):
    """Muon on the eye's kernels; AdamW on the rest of the eye and on the heads that classify cells."""

    orthogonal: ClassVar[tuple[str, ...]] = KERNELS


def lesson(context: Context) -> Lesson:
    """The lesson as data. Nothing passes through the trunk, so the control is taught alike."""
    return gradient_lesson(
        context, NAME, loss, lambda agent, context, update, rows, steps: lesson_batch(context, update, rows),
        steps=STEPS, rows=ROWS, learning_rate=LEARNING_RATE, minutes=MINUTES, trains=trained_to_call,
        learner=CallingLearner, prefetch=True, control=(), skills=SKILLS,
    )  # fmt: skip


def lesson_batch(context: Context, update: int, rows: int) -> dict[str, Any]:
    """`rows` scenes of four things of taught pairs; in every second scene one thing is looked at. As `batch_of`, with
    empty pages, as the eye is absent without a page.
    """
    looks = np.arange(rows) % 2 == 0
    drawn_scenes = scenes(context, lesson_seeds(rows, context.seed, NAME, update), TAUGHT, TAUGHT, looks)
    return batch_of(drawn_scenes, [Page("")] * rows, numpy_rng(context.seed, NAME, update))


def loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Nats per thing: finding it, its colour and its noun."""
    colour, noun = nats_called(agent, batch, "plain", COLOUR_OF), nats_called(agent, batch, "lit", NOUN_OF)
    return colour + noun, {"colour": colour.detach(), "noun": noun.detach()}


def nats_called(agent: Agent, batch: Mapping[str, Any], light: str, head: str) -> Tensor:
    """Nats per thing, in pictures of a `light` ('plain' or 'lit'): finding it, and its word by `head`."""
    seen = agent.encode_senses({SIGHT: batch[light], TEXT: batch["senses"][TEXT][:, 0]}, names=[DETAIL])
    outputs: Any = agent.run_heads([OBJECTS, head], seen)
    targets = batch["called"]
    nats = [
        F.cross_entropy(outputs[name].logits.flatten(0, -2), targets[name].flatten(), ignore_index=-1, reduction="sum")
        for name in (OBJECTS, head)
    ]
    return torch.stack(nats).sum() / (targets[OBJECTS] > 0).sum().clamp_min(1)
