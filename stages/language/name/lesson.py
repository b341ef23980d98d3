"""The lesson `name`: "what is that?" of the thing looked at, and "where is the red ball?" among four.

The first question and the picture are one Moment, and the answer is written behind it by the head that reads and
writes. Colour and noun are learned apart: the noun in light of one colour, in which no thing has its own, and behind
words for any colour. Asked for both in plain light a child learns which pairs do not occur instead of looking at the
thing (colour 0.92, noun 0.01 on held-out pairs); so does a convolutional classifier of nouns on pixels.

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
from stages.language.caregiver.views import in_light_of_one_colour
from stages.language.name.scenes import Scenes, scenes
from stages.language.parts import CELLS, POINT, SIGHT, TEXT
from stages.language.teaching import taught

STEPS = {"tiny": 12, "nursery": 1400, "child": 4000, "adult": 12000}
WHAT = "what is that?"
COLOUR = "what colour is that?"
KIND = "is that a ball, a box or a can?"
APART = 0.5
"""Of those who are asked what they look at, the share who are asked for the colour or the noun alone."""


def where(name: str) -> str:
    """'where is the red ball?'"""
    return f"where is the {name}?"


def answer(name: str) -> str:
    """' a red ball.', as it stands behind the question."""
    return f" {a(name)}."


@dataclass(frozen=True)
class Page:
    """A question, what is written behind it, and which bytes of that are learned: those before `given` are given, and
    what comes from `until` on is not asked for. With `one_colour` the picture is lit so that no thing has its own.
    """

    question: str
    said: str = ""
    given: int = 0
    until: int | None = None
    one_colour: bool = False


def lesson(context: Context) -> Lesson:
    """The lesson as data."""
    return taught(context, "name", loss, lesson_batch, STEPS, 32, 3e-3, 5.0, rehearses=("read",))


def lesson_batch(context: Context, update: int, rows: int) -> dict[str, Any]:
    """`rows` scenes of pairs that are taught: in every second one the child is asked what it looks at, else where."""
    what = np.arange(rows) % 2 == 0
    shown = scenes(context, lesson_seeds(rows, context.seed, "name", update), TAUGHT, TAUGHT, what)
    rng = numpy_rng(context.seed, "name", update)
    pages = [
        _asked_what(rng, *pair) if what[row] else Page(where(name_of(*pair))) for row, pair in enumerate(shown.meant)
    ]
    shown.sight = lit(shown.sight, pages, rng)
    return asked(shown, what, pages)


def _asked_what(rng: np.random.Generator, colour: int, noun: int) -> Page:
    """What a child is asked about the thing it looks at, and what is written behind it."""
    if rng.random() >= APART:
        return named_apart(rng, WHAT, colour, noun)
    if rng.random() < 0.5:
        return Page(KIND, f" {a(NOUNS[noun])}.", one_colour=True)
    return Page(COLOUR, f" {COLOURS[colour]}.")


def named_apart(rng: np.random.Generator, question: str, colour: int, noun: int) -> Page:
    """A question that is answered by both words, of which one is learned: the colour, or the noun behind any colour."""
    if rng.random() < 0.5:
        told = f" {a(COLOURS[rng.integers(len(COLOURS))])} "
        return Page(question, f"{told}{NOUNS[noun]}.", given=len(told), one_colour=True)
    told = f" {a(COLOURS[colour])} "
    return Page(question, f"{told}{NOUNS[noun]}.", until=len(told))


def lit(sight: np.ndarray, pages: Sequence[Page], rng: np.random.Generator) -> np.ndarray:
    """Pictures uint8 [N, H, W, 3] in the light that each page wants."""
    rows = np.array([page.one_colour for page in pages])
    light = sight.copy()
    light[rows] = in_light_of_one_colour(sight[rows], rng)
    return light


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
    rows = [(page.question.encode(), page.said.encode()) for page in texts]
    pages = torch.full((len(rows), max(len(question) + len(said) for question, said in rows) + 1), -1)
    written = pages.clone()
    for row, ((question, said), page) in enumerate(zip(rows, texts, strict=True)):
        tokens = torch.tensor([BEGIN, *question, *said])
        pages[row, : len(tokens)] = tokens
        behind, learned = written[row, len(question) : len(tokens) - 1], slice(page.given, page.until)
        behind[learned] = tokens[len(question) + 1 :][learned]
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
    cell = batch["cell"]
    pointed = cell >= 0
    says, right = nats_of(outputs[TEXT].logits, batch["written"])
    points = masked_mean(_each(outputs[POINT].logits, cell), pointed)
    found = (outputs[POINT].mode() == cell)[pointed].float().mean()
    return says + points, {"says": says.detach(), "points": points.detach(), "said right": right, "cell right": found}


def nats_of(logits: Tensor, written: Tensor) -> tuple[Tensor, Tensor]:
    """Nats a byte of what is `written` int64 [..., L] (-1: nothing), and the share of texts whose likeliest bytes are
    all right, given those before.
    """
    wrote = written >= 0
    right = ((logits.argmax(-1) == written) | ~wrote).all(-1)[wrote.any(-1)].float().mean()
    return masked_mean(_each(logits, written), wrote), right


def _each(logits: Tensor, wanted: Tensor) -> Tensor:
    return torch.nn.functional.cross_entropy(
        logits.flatten(0, -2), wanted.clamp_min(0).flatten(), reduction="none"
    ).view(wanted.shape)
