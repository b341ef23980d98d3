"""The lesson `name`: "what is that?" of the thing looked at, and "where is the red ball?" among four.

The first question and the picture are one Moment, and the answer is written behind it by the head that reads and
writes. The second is heard, and answered a tick later by pointing into the picture, from the trunk's features of what
is seen then. Within a Moment what is seen stands before what is read, so those of the same tick would not know the
question; and the readout cannot tell where in the picture a token stands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from devmind.agent.agent import Agent
from devmind.agent.output import masked_mean
from devmind.agent.text import BEGIN
from devmind.curriculum.stage import Context, Lesson
from devmind.moment import SIGHT_SIZE
from devmind.seeding import lesson_seeds
from stages.language.caregiver.grammar import a
from stages.language.caregiver.scene import TAUGHT
from stages.language.name.scenes import Scenes, scenes
from stages.language.parts import CELLS, POINT, SIGHT, TEXT
from stages.language.teaching import taught

STEPS = {"tiny": 12, "nursery": 700, "child": 4000, "adult": 12000}
WHAT = "what is that?"


def where(name: str) -> str:
    """'where is the red ball?'"""
    return f"where is the {name}?"


def answer(name: str) -> str:
    """' a red ball.', as it stands behind the question."""
    return f" {a(name)}."


def lesson(context: Context) -> Lesson:
    """The lesson as data."""
    return taught(context, "name", loss, lesson_batch, STEPS, 64, 3e-3, 5.0, rehearses=("read",))


def lesson_batch(context: Context, update: int, rows: int) -> dict[str, Any]:
    """`rows` scenes of pairs that are taught: in every second one the child is asked what it looks at, else where."""
    what = np.arange(rows) % 2 == 0
    return asked(scenes(context, lesson_seeds(rows, context.seed, "name", update), TAUGHT, TAUGHT, what), what)


def asked(shown: Scenes, what: np.ndarray) -> dict[str, Any]:
    """Scenes as a Batch of two Moments, the second of which sees the same and hears nothing.

    `written` int64 [N, 2, L] is what follows each byte of the page where that is the answer, else -1; `cell` int64
    [N, 2] where to point in the second Moment, where `what` bool [N] is false, else -1.
    """
    texts = [
        (WHAT, answer(name)) if is_what else (where(name), "") for name, is_what in zip(shown.names, what, strict=True)
    ]
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


def pages_of(texts: Sequence[tuple[str, str]]) -> tuple[Tensor, Tensor]:
    """Questions with their answers as pages of bytes, and what is to be written behind each byte: int64 [N, L] each, -1
    where there is none.
    """
    rows = [(question.encode(), said.encode()) for question, said in texts]
    pages = torch.full((len(rows), max(len(question) + len(said) for question, said in rows) + 1), -1)
    written = pages.clone()
    for row, (question, said) in enumerate(rows):
        page = torch.tensor([BEGIN, *question, *said])
        pages[row, : len(page)] = page
        written[row, len(question) : len(page) - 1] = page[len(question) + 1 :]
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
