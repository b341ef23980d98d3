"""Batches and losses of lessons about pictures: a picture and a page about it in one Moment, with the answer that is
written behind the page, the cell that is pointed at, and the words for each cell.

Colour and noun are learned apart. The noun is learned in light of one colour, in which things have no colour of their
own, behind a word for any colour. Asked for both in plain light, the agent learns which pairs do not occur instead of
looking at the thing (colour 0.92, noun 0.01 on held-out pairs); so does a convolutional classifier of nouns on pixels.
An earlier lesson (`calling.py`) teaches the words for each cell, colours in plain light and nouns in light of one
colour.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from devmind.agent.agent import Agent
from devmind.agent.output import masked_mean
from devmind.agent.text import BEGIN
from devmind.moment import SIGHT_SIZE
from stages.language.caregiver.grammar import a
from stages.language.caregiver.scene import COLOURS, NOUNS
from stages.language.caregiver.views import Views, in_light_of_one_colour
from stages.language.eye import SIDE
from stages.language.parts import CALLED, OBJECTS, POINT, SIGHT, TEXT, reader
from stages.language.read.pages import pad_pages


@dataclass(frozen=True)
class Page:
    """A question and the answer `said` behind it. Bytes of the answer before `given` are given and those from `until`
    on are not asked for; the others are learned. With `one_colour` the light has one colour, and things none.
    """

    question: str
    said: str = ""
    given: int = 0
    until: int | None = None
    one_colour: bool = False


def named_apart(rng: np.random.Generator, question: str, colour: int, noun: int) -> Page:
    """A question answered by both words; what the picture tells of them is learned: the colour, or the noun behind any
    colour.

    Of "any colour" the first letter is given, by which colours differ. The others are learned, so that each colour is
    spelled to its end beside any form: without this a yellow ball of a held-out pair became "yella" (docs/language.md).
    """
    if rng.random() < 0.5:
        any_colour = COLOURS[rng.integers(len(COLOURS))]
        beginning = f" {a(any_colour)} "
        given = beginning.index(any_colour) + 1
        return Page(question, f"{beginning}{NOUNS[noun]}.", given=given, one_colour=True)
    beginning = f" {a(COLOURS[colour])} "
    return Page(question, f"{beginning}{NOUNS[noun]}.", until=len(beginning))


def batch_of(
    scene_views: Views, pages: Sequence[Page], rng: np.random.Generator, targets: np.ndarray | None = None
) -> dict[str, Any]:
    """N pictures, each in the light that its page asks for, and the pages, as a Batch of one Moment a row.

    Args:
        targets: which things each page is about, bool [N, K]; by default none.

    Returns:
        Beside the Batch: `written` int64 [N, 1, L], the byte behind each byte of the page where it is learned, else -1;
        `pointed` float [N, 1, 64], the target distribution of the cell that is meant, zeros where none is; `plain`
        and `lit`, the pictures uint8 [N, 64, 64, 3] in plain light and in light of one colour; `called` by head int64
        [N, 64]: whether each cell holds the centre of a thing, its colour and its noun; -1 where there is none.
    """
    read, written = pages_of(pages)
    cell, pointed = cells(scene_views.boxes), np.zeros((len(pages), SIDE**2), np.float32)
    labels = {head: np.full(pointed.shape, 0 if head == OBJECTS else -1) for head in CALLED}
    for row, thing in np.argwhere(is_seen(scene_views.boxes)):
        at = row, cell[row, thing]
        pointed[at] += 0.0 if targets is None else targets[row, thing]
        for head, word in zip(CALLED, (1, *scene_views.pairs[row, thing]), strict=True):
            labels[head][at] = word
    in_one_light = in_light_of_one_colour(scene_views.sight, rng)
    one_colour = np.array([page.one_colour for page in pages])
    sight = np.where(one_colour[:, None, None, None], in_one_light, scene_views.sight)
    always = torch.ones(len(pages), 1, dtype=torch.bool)
    return {
        "senses": {SIGHT: torch.from_numpy(sight)[:, None], TEXT: read[:, None]},
        "present": {SIGHT: always, TEXT: always},
        "first": always,
        "valid": always,
        "written": written[:, None],
        "pointed": torch.from_numpy(pointed / np.maximum(pointed.sum(1, keepdims=True), 1))[:, None],
        "plain": torch.from_numpy(scene_views.sight),
        "lit": torch.from_numpy(in_one_light),
        "called": {head: torch.from_numpy(each) for head, each in labels.items()},
    }


def pages_of(texts: Sequence[Page]) -> tuple[Tensor, Tensor]:
    """Pages of bytes, and the byte to be written behind each: int64 [N, L] each, -1 where there is none."""
    rows = [(page.question.encode(), page.said.encode()) for page in texts]
    pages = torch.full((len(rows), max(len(question) + len(reply) for question, reply in rows) + 1), -1)
    written = pages.clone()
    for row, ((question, reply), page) in enumerate(zip(rows, texts, strict=True)):
        tokens = torch.tensor([BEGIN, *question, *reply])
        pages[row, : len(tokens)] = tokens
        behind, learned = written[row, len(question) : len(tokens) - 1], slice(page.given, page.until)
        behind[learned] = tokens[len(question) + 1 :][learned]
    return pages, written


def as_read(agent: Agent, batch: Mapping[str, Any]) -> dict[str, Any]:
    """A batch with pages of bytes, as the agent reads it. With a vocabulary, each run of learned bytes, and each run of
    others, is cut into pieces by itself, so that a learned answer begins and ends with a piece.

    Args:
        batch: `text` of its senses int64 [B, T, L]; `written`, if it has that, is converted alike.
    """
    encoder = reader(agent)
    if encoder.pieces is None:
        return dict(batch)
    pages, ticks = batch["senses"][TEXT].flatten(0, 1), batch["senses"][TEXT].shape[:2]
    learned = batch["written"].flatten(0, 1) >= 0 if "written" in batch else torch.zeros_like(pages, dtype=torch.bool)
    read: list[list[int]] = []
    written: list[list[int]] = []
    for page, each in zip(pages.tolist(), learned.tolist(), strict=True):
        tokens, targets = [-1 if encoder.begin is None else encoder.begin], [-1]
        for is_learned, run in groupby(zip(page[1:], each, strict=False), lambda one: one[1]):
            text = bytes(byte for byte, _ in run if byte >= 0).decode()
            pieces = encoder.pieces.encode(text, add_special_tokens=False).ids
            tokens += pieces
            targets += pieces if is_learned else [-1] * len(pieces)
        read.append(tokens if page[0] >= 0 else [])
        written.append(targets[1:])  # the target of each token is the next one
    result = {**batch, "senses": {**batch["senses"], TEXT: pad_pages(read, pages.device).unflatten(0, ticks)}}
    if "written" in batch:
        width = result["senses"][TEXT].shape[-1]
        result["written"] = F.pad(pad_pages(written, pages.device), (0, width), value=-1)[:, :width].unflatten(0, ticks)
    return result


def is_seen(boxes: np.ndarray) -> np.ndarray:
    """Which things of boxes [..., 4] are seen, bool [...]."""
    return boxes[..., 2] > boxes[..., 0]


def centres(boxes: np.ndarray) -> np.ndarray:
    """Centres of boxes [..., 4] in pixels, [..., 2] (x, y)."""
    return (boxes[..., :2] + boxes[..., 2:]) / 2


def cells(boxes: np.ndarray) -> np.ndarray:
    """The cell of the picture that holds the centre of each box [..., 4], int64 [...]."""
    cell = np.clip(centres(boxes) * SIDE // SIGHT_SIZE, 0, SIDE - 1).astype(np.int64)
    return cell[..., 1] * SIDE + cell[..., 0]


def loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Nats a byte of the written answer and of the look for it, and the cross-entropy of the cell pointed at."""
    batch, pointed = as_read(agent, batch), batch["pointed"]
    points = pointed.any()
    outputs: Any = agent.forward(dict(batch), [TEXT, POINT] if points else [TEXT])
    says, right = nats_of(outputs[TEXT].logits, batch["written"])
    look_nats = nats_looked(outputs[TEXT], batch)
    scalars = {"says": says.detach(), "said right": right, "looks": look_nats.detach()}
    says = says + look_nats
    if not points:
        return says, scalars
    has_target = pointed.any(-1)
    where = outputs[POINT].loss(pointed, has_target)
    hits = pointed.gather(-1, outputs[POINT].mode()[..., None])[has_target] > 0
    return says + where, scalars | {"points": where.detach(), "cell right": hits.float().mean()}


def nats_looked(output: Any, batch: Mapping[str, Any]) -> Tensor:
    """Nats a byte of looking, for each byte that is written, at the things that the page is about and at no others; 0
    for a head that does not look.
    """
    if getattr(output, "looked", None) is None:
        return torch.zeros(())
    targets, looked = torch.broadcast_tensors((batch["pointed"] > 0).float()[..., None, :], output.looked)
    nats = F.binary_cross_entropy_with_logits(looked, targets, reduction="none")
    things = (batch["called"][OBJECTS] > 0)[:, None, None]
    return masked_mean((nats * things).sum(-1), batch["written"] >= 0)


def nats_of(logits: Tensor, written: Tensor) -> tuple[Tensor, Tensor]:
    """Nats a byte of `written` int64 [..., L] (-1: nothing), and the share of texts whose likeliest bytes are all
    right, given the bytes before.
    """
    wrote = written >= 0
    right = ((logits.argmax(-1) == written) | ~wrote).all(-1)[wrote.any(-1)].float().mean()
    return masked_mean(_each(logits, written), wrote), right


def _each(logits: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, -2), targets.clamp_min(0).flatten(), reduction="none").view(targets.shape)
