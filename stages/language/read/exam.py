"""The skill `read`: nats a character over the held-out part of a text, beside n-gram baselines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import log

import numpy as np
import torch

from devmind.agent.agent import Agent
from devmind.agent.config import by_size
from devmind.agent.text import PATCH
from devmind.curriculum.episodes import identities
from devmind.curriculum.exam import Exam, Measure
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Context
from devmind.errors import ExamError
from stages.language.parts import reader
from stages.language.read.corpus import CAREGIVER, Corpus, as_bytes, corpus
from stages.language.read.lesson import group
from stages.language.read.ngrams import WittenBell
from stages.language.read.one_pass import WAYS, blocks_in, learn
from stages.language.read.pages import LENGTHS, page_batch, pieces_of, telling, telling_pieces
from stages.language.read.readout import ReadOut

NAME = "read"
ORDER = 5
"""Length of the baseline's n-grams: the best of 4 to 7 on Shakespeare."""
READ_ONCE = by_size(200_000, tiny=10_000)
"""Characters that models in one pass learn from, and are told at most."""
BLOCK = 512
"""Characters of one value of the measure."""
TOGETHER = 64
"""Pages of a batch."""
SHAKESPEARE = "6d37aeeec9d9967e"
"""The hash of tinyshakespeare's split begins so. Others have published figures for it, and it has a gate of its own."""
BOUND, REFERENCE = 1.58, "nanoGPT on this split: 1.886 in its recipe for CPUs, 1.470 in that for GPUs"


def gate(context: Context) -> Gate:
    """Better than the 5-gram; on tinyshakespeare also at most BOUND."""
    bound = BOUND if corpus(context).sha256.startswith(SHAKESPEARE) else None
    return Gate([Threshold(NAME, bound, beats_floor=True, lower_is_better=True)])


def examine(agent: Agent, context: Context) -> Exam:
    """Nats a character, the mean over all blocks of the held-out part; a glimpse reads a fifth of them."""
    text = corpus(context)
    _check_unseen(agent, text, group(context))
    part = text.held_out[: max(BLOCK, len(text.held_out) // context.one_in)]
    data, length = as_bytes(part), LENGTHS[context.config.size]
    values, tokens = by_block(nats_of(agent, part, length)), tokens_of(agent, part)
    bits = float(values.mean()) / log(2) * len(text.held_out) / len(data)
    measure = Measure(
        NAME,
        "nats a character",
        values,
        chance=log(256),
        ceiling=text.ceiling,
        higher_is_better=False,
        reference=REFERENCE if text.sha256.startswith(SHAKESPEARE) else text.ceiling_is,
        note=f"{source_of(text)}: {len(text.taught):,} characters taught, {len(text.held_out):,} held out, split "
        f"{text.sha256[:12]}; {len(data):,} bytes told, {tokens}pages of {length}",
        episodes=identities({"text": blocks(part, len(values))}),
    )

    def complete() -> list[Measure]:
        rows = {"bits a byte": bits} | by_one_pass(agent, text, READ_ONCE[context.config.size], part)
        return [replace(measure, floors=floors(text), rows=rows)]

    return Exam([measure], complete)


def by_one_pass(agent: Agent, text: Corpus, most: int, part: str) -> dict[str, float]:
    """Nats a character of models that read the last `most` bytes of the taught part once, and are solved in closed
    form: by the features of each way (`one_pass.py`) that this agent has.
    """
    taught, told, rows = text.taught[-most:], as_bytes(part[:most]), dict[str, float]()
    encoder = reader(agent)
    for way in WAYS[: 2 if encoder.pieces is not None or encoder.patched else 3]:
        model = learn(blocks_in(taught), way, agent)
        rows[f"one pass, features: {way}"] = float(model.nats_of(told).sum() / len(part[:most]))
    return rows


def source_of(text: Corpus) -> str:
    """The text that is read, and for the caregiver's own that the figures of others are about another one."""
    if text.source != CAREGIVER:
        return text.source
    return f"without --data or text.files, {CAREGIVER} (the gate of {BOUND} is for tinyshakespeare)"


def blocks(text: str, n: int) -> list[str]:
    """The `n` blocks of the text, one for each value."""
    return ["".join(part) for part in np.array_split(np.array(list(text)), n)]


def lesson_blocks(context: Context, n: int) -> np.ndarray:
    """The blocks of the held-out part that occur word for word anywhere in the taught part: int64, at best none."""
    text = corpus(context)
    all_blocks = blocks(text.held_out, max(1, round(len(text.held_out) / BLOCK)))
    return identities({"text": all_blocks})[[block in text.taught for block in all_blocks]]


def floors(text: Corpus) -> dict[str, float]:
    """Nats a character of character frequencies and of the Witten-Bell 5-gram, counted on the taught part, and of a
    linear read-out of the bytes before, fitted there in closed form.
    """
    characters = np.frombuffer(f"{text.taught}{text.held_out}".encode("utf-32-le"), np.uint32)
    alphabet, numbers = np.unique(characters, return_inverse=True)
    training, held_out = np.split(numbers, [len(text.taught)])
    counted = {
        name: float(WittenBell(training, len(alphabet), order).nats(held_out).mean())
        for name, order in (("frequency of characters", 1), (f"Witten-Bell {ORDER}-gram", ORDER))
    }
    read = ReadOut(as_bytes(text.taught)).nats(as_bytes(text.held_out))
    return counted | {"read-out in closed form": float(read.sum() / len(text.held_out))}


def nats_of(agent: Agent, text: str, length: int) -> np.ndarray:
    """Nats of each character of a text, float64 [N]; those of a token are counted at the character where it begins.

    Their sum is the cost of the text for any tokenizer. With a vocabulary it is the cost of one segmentation, which is
    never less than that of all segmentations together.

    Args:
        length: bytes of a page; a page of pieces has about as many pieces as make up so many bytes of the text.
    """
    encoder, data = reader(agent), as_bytes(text)
    if encoder.pieces is None:
        fits = min(length, len(data) - len(data) % PATCH)
        begins = (data & 0xC0) != 0x80  # all other bytes of UTF-8 continue a character
        nats = page_nats(data, fits, lambda pages: telling(agent, page_batch(pages)))
        return np.bincount(np.cumsum(begins) - 1, nats)
    pieces, begins = pieces_of(encoder, text)
    fits = max(2, min(length * len(pieces) // len(data), len(pieces)))
    nats = page_nats(pieces, fits, lambda pages: telling_pieces(agent, torch.from_numpy(pages)))
    return np.bincount(begins, nats, len(text))


def tokens_of(agent: Agent, text: str) -> str:
    """The number of tokens of a text, in words; '' for bytes."""
    encoder = reader(agent)
    if encoder.pieces is None:
        return ""
    return f"as {len(pieces_of(encoder, text)[0]):,} pieces of a vocabulary of {len(encoder.table.weight):,}, "


def page_nats(data: np.ndarray, length: int, telling: Callable[[np.ndarray], torch.Tensor]) -> np.ndarray:
    """Nats of each token of `data` [N], predicted from half a page of `length` before it or more, float64 [N].

    At the beginning of the text there is less before.

    Args:
        telling: nats [n, length] of the tokens of pages [n, length].
    """
    half = length // 2
    at = np.arange(0, len(data), half)
    # Each page ends half a page behind the beginning of its step, as far as the text goes.
    opens = np.clip(at - half, 0, len(data) - length)
    groups = np.split(opens, range(TOGETHER, len(opens), TOGETHER))
    pages = [telling(data[group[:, None] + np.arange(length)]) for group in groups]
    rows = torch.cat(pages).double().cpu().numpy()
    steps = zip(rows, at - opens, np.minimum(at + half, len(data)) - opens, strict=True)
    return np.concatenate([row[begin:end] for row, begin, end in steps])


def by_block(nats: np.ndarray) -> np.ndarray:
    """Mean of `nats` float64 [N] over each block of about BLOCK characters."""
    return np.array([block.mean() for block in np.array_split(nats, max(1, round(len(nats) / BLOCK)))])


def _check_unseen(agent: Agent, text: Corpus, group: str) -> None:
    """Refuse a text of the same name with another split than the agent learned from."""
    source = group.rpartition("#")[0] + "#"
    others = [taught for taught in agent.config.trained_on if taught.startswith(source) and taught != group]
    if others and text.source != CAREGIVER:
        raise ExamError(
            f"The agent learned from another text of the name '{text.source}' ({others[0]}), so what is held out here "
            "may not be new to it; give the text that it learned from, or one of another name."
        )
