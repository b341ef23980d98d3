"""The lesson `name`: "what is that?" of the thing looked at, and "where is the red ball?" among four.

The first question and the picture are one Moment, and the answer is written behind it by the head that reads and
writes. Colour and noun are also asked for apart, and sometimes another colour than the true one stands before the
noun: asked for both alone, and always told the colour, a child learns which pairs do not occur instead of looking at
the thing (colour 0.92, noun 0.01 on held-out pairs).

The second question is heard, and answered a tick later by pointing into the picture, from the trunk's features of what
is seen then. Within a Moment what is seen stands before what is read, so those of the same tick would not know the
question; and the readout cannot tell where in the picture a token stands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from devmind.agent.agent import Agent
from devmind.agent.output import masked_mean
from devmind.agent.text import BEGIN
from devmind.curriculum.stage import Context, Lesson
from devmind.moment import SIGHT_SIZE
from devmind.seeding import lesson_seeds, numpy_rng
from stages.language.caregiver.grammar import a
from stages.language.caregiver.scene import COLOURS, NOUNS, TAUGHT, name_of
from stages.language.name.scenes import Scenes, scenes
from stages.language.parts import CELLS, POINT, SIGHT, TEXT
from stages.language.teaching import taught

STEPS = {"tiny": 12, "nursery": 700, "child": 4000, "adult": 12000}
WHAT = "what is that?"
COLOUR = "what colour is that?"
KIND = "is that a ball, a box or a can?"
APART = 0.5
"""Of those who are asked what they look at, the share who are asked for the colour or the noun alone."""
MISTOLD = 0.5
"""Of the answers of two words, the share in which another colour stands before the noun; only the noun is learned."""


def where(name: str) -> str:
    """'where is the red ball?'"""
    return f"where is the {name}?"


def answer(name: str) -> str:
    """' a red ball.', as it stands behind the question."""
    return f" {a(name)}."


@dataclass(frozen=True)
class Page:
    """A question, what is written behind it, and of that the first bytes that are given instead of learned."""

    question: str
    said: str = ""
    given: int = 0


def lesson(context: Context) -> Lesson:
    """The lesson as data."""
    return taught(context, "name", loss, lesson_batch, STEPS, 64, 3e-3, 5.0, rehearses=("read",))


def lesson_batch(context: Context, update: int, rows: int) -> dict[str, Any]:
    """`rows` scenes of pairs that are taught: in every second one the child is asked what it looks at, else where."""
    what = np.arange(rows) % 2 == 0
    shown = scenes(context, lesson_seeds(rows, context.seed, "name", update), TAUGHT, TAUGHT, what)
    rng = numpy_rng(context.seed, "name", update)
    pages = [
        _asked_what(rng, *pair) if what[row] else Page(where(name_of(*pair))) for row, pair in enumerate(shown.meant)
    ]
    return asked(shown, what, pages)


def _asked_what(rng: np.random.Generator, colour: int, noun: int) -> Page:
    """What a child is asked about the thing it looks at, and what is written behind it."""
    if rng.random() < APART:
        return Page(COLOUR, f" {COLOURS[colour]}.") if rng.random() < 0.5 else Page(KIND, f" {a(NOUNS[noun])}.")
    if rng.random() >= MISTOLD:
        return Page(WHAT, answer(name_of(colour, noun)))
    told = f" {a(COLOURS[rng.integers(len(COLOURS))])} "
    return Page(WHAT, f"{told}{NOUNS[noun]}.", len(told))


def asked(shown: Scenes, what: np.ndarray, texts: Sequence[Page]) -> dict[str, Any]:
    """Scenes and what is asked about them as a Batch of two Moments; the second sees the same and hears nothing.

    `written` int64 [N, 2, L] is what follows each byte of the page where that is the answer, else -1; `cell` int64
    [N, 2] where to point in the second Moment, where `what` bool [N] is false, else -1.
    """
    pages, written = pages_of(texts)
    nothing, here = torch.full_like(pages, -1), torch.ones(len(what), 2, dtype=torch.bool)
    opens = torch.tensor([True, False]).expand(len(what), 2)
    cell = torch.from_numpy(np.where(what, -1, cells(shown)))
    return {
        "senses": {
            SIGHT: torch.from_numpy(shown.sight)[:, None].expand(-1, 2, -1, -1, -1),
            TEXT: torch.stack((pages, nothing), 1),
        },
        "present": {SIGHT: here, TEXT: opens},
        "first": opens,
        "valid": here,
        "written": torch.stack((written, nothing), 1),
        "cell": torch.stack((torch.full_like(cell, -1), cell), 1),
    }


def pages_of(texts: Sequence[Page]) -> tuple[Tensor, Tensor]:
    """Pages of bytes, and what is to be written behind each byte: int64 [N, L] each, -1 where there is none."""
    rows = [(page.question.encode(), page.said.encode(), page.given) for page in texts]
    pages = torch.full((len(rows), max(len(question) + len(said) for question, said, _ in rows) + 1), -1)
    written = pages.clone()
    for row, (question, said, given) in enumerate(rows):
        page = torch.tensor([BEGIN, *question, *said])
        pages[row, : len(page)] = page
        learned = len(question) + given
        written[row, learned : len(page) - 1] = page[learned + 1 :]
    return pages, written


def cells(shown: Scenes) -> np.ndarray:
    """The cell of the picture that holds the middle of what is meant, int64 [N]."""
    middle = centres(shown.boxes)[np.arange(len(shown.target)), shown.target]
    cell = np.clip(middle * CELLS // SIGHT_SIZE, 0, CELLS - 1).astype(np.int64)
    return cell[:, 1] * CELLS + cell[:, 0]


def centres(boxes: np.ndarray) -> np.ndarray:
    """Middles of boxes [..., 4] in pixels, [..., 2] (x, y)."""
    return (boxes[..., :2] + boxes[..., 2:]) / 2


def loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Nats a byte of the answers that are written, and cross-entropy of the cells that are pointed at."""
    outputs: Any = agent.forward(dict(batch), [TEXT, POINT])
    written, cell = batch["written"], batch["cell"]
    wrote, pointed = written >= 0, cell >= 0
    logits = outputs[TEXT].logits
    says = masked_mean(_each(logits, written), wrote)
    points = masked_mean(_each(outputs[POINT].logits, cell), pointed)
    right = ((logits.argmax(-1) == written) | ~wrote).all(-1)[wrote.any(-1)].float().mean()
    found = (outputs[POINT].mode() == cell)[pointed].float().mean()
    return says + points, {"says": says.detach(), "points": points.detach(), "said right": right, "cell right": found}


def _each(logits: Tensor, wanted: Tensor) -> Tensor:
    return torch.nn.functional.cross_entropy(
        logits.flatten(0, -2), wanted.clamp_min(0).flatten(), reduction="none"
    ).view(wanted.shape)
