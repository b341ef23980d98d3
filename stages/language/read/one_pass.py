"""A language model in one pass: the next byte by a linear read-out of features, solved in closed form.

The features are one of WAYS. `seed` is the model of "Deterministic AI training on GPU" (koo1140, 2025) as it is
written: the last 24 tokens' random embeddings through one random layer, regressed to the embedding of the next token.
Its layer is so small that tanh is a straight line (pre-activations have a standard deviation of 0.05), so it is a
linear model of 1,537 numbers however wide it is. `mended` scales the layer to a standard deviation of 1 and regresses
to the token itself. `trunk` reads the features of an agent's trunk, and random functions of these.
"""

from __future__ import annotations

import codecs
import hashlib
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from devmind.agent.agent import Agent
from devmind.agent.text import BEGIN
from devmind.algorithms.closed_form import Solution, Sums
from devmind.errors import ConfigError
from devmind.seeding import torch_generator
from stages.language.parts import TEXT, reader
from stages.language.read.corpus import BLOCK, as_bytes, of_caregiver
from stages.language.read.pages import LENGTHS

SEED, MENDED, TRUNK = WAYS = ("seed", "mended", "trunk")
CONTEXT, WIDTH = 24, 64
NEURONS, BESIDE_TRUNK = 1024, 512
"""Random functions of a window, and of the trunk's features beside these themselves."""
PENALTY = 0.5
"""The seed's, on all rows together."""
BYTES = 256
TOGETHER = 1024
ONE_IN = 10
"""One of so many blocks is held out, by a hash of what it says."""
MOST_TOLD = 100_000
"""Bytes of held-out blocks that are kept, to say how well the rest predicts them."""
HEADROOM = 4.0
"""A trunk feature is told apart up to so many times its size in the first block."""

Features = Callable[[np.ndarray], Tensor]
"""Of a block of bytes uint8 [N], what each byte is predicted from, float32 [N, F]."""


class Window:
    """Random functions of the 24 bytes before each; nothing (0) stands before the first."""

    def __init__(self, mended: bool, neurons: int = NEURONS, seed: int = 0) -> None:
        generator = torch_generator("one pass", seed)
        inputs = CONTEXT * WIDTH + 1
        self.codes = 0.1 * torch.randn(BYTES, WIDTH, generator=generator)
        limit = math.sqrt(6 / (inputs + neurons))
        layer = (2 * torch.rand(inputs, neurons, generator=generator) - 1) * limit
        spread = limit / math.sqrt(3) * math.sqrt(0.01 * (inputs - 1) + 1)
        if mended:
            layer, spread = layer / spread, 1.0
        self.scale = min(1.0, HEADROOM * spread)
        # The product of each embedding and its place's part of the layer, so that a window is a sum of 24 rows.
        self.table = (self.codes @ layer[:-1].view(CONTEXT, WIDTH, neurons)).flatten(0, 1)
        self.bias = layer[-1]

    def __call__(self, data: np.ndarray) -> Tensor:
        before = np.concatenate((np.zeros(CONTEXT, np.uint8), data))
        windows = np.lib.stride_tricks.sliding_window_view(before, CONTEXT)[: len(data)]
        numbers = torch.from_numpy(windows.astype(np.int64)) + torch.arange(CONTEXT) * BYTES
        return (F.embedding_bag(numbers, self.table, mode="sum") + self.bias).tanh_()


class OnTrunk:
    """An agent's trunk features of each byte of a page, and random functions of them."""

    def __init__(self, agent: Agent, neurons: int = BESIDE_TRUNK, seed: int = 0) -> None:
        if reader(agent).pieces is not None or reader(agent).patched:
            raise ConfigError("This agent does not read by bytes, so its trunk has no feature of each; take 'mended'.")
        self.agent, self.length = agent, LENGTHS[agent.config.size]
        generator, width = torch_generator("one pass on trunk", seed), agent.config.width
        self.layer = torch.randn(width, neurons, generator=generator) / math.sqrt(width)

    @torch.inference_mode()
    def __call__(self, data: np.ndarray) -> Tensor:
        # As in `page_nats`, each byte but the first ones has half a page before it.
        half = min(self.length, len(data)) // 2 or 1
        at = np.arange(0, len(data), half)
        opens = np.clip(at - half, 0, max(0, len(data) - 2 * half))
        found = []
        for some in np.array_split(np.arange(len(at)), -(-len(at) // 32)):
            pages = data[np.minimum(opens[some][:, None] + np.arange(2 * half), len(data) - 1)]
            features = self.of_pages(torch.from_numpy(pages.astype(np.int64)))
            ends = np.minimum(at[some] + half, len(data)) - opens[some]
            found += [page[begin:end] for page, begin, end in zip(features, at[some] - opens[some], ends, strict=True)]
        return torch.cat(found)

    def of_pages(self, pages: Tensor) -> Tensor:
        """Of bytes int64 [N, L], what each is predicted from, float32 [N, L, F]."""
        read = F.pad(pages[:, :-1], (1, 0), value=BEGIN)[:, None]
        here = torch.ones(len(pages), 1, dtype=torch.bool)
        page: dict[str, Any] = {"senses": {TEXT: read}, "present": {TEXT: here}, "first": here, "valid": here}
        plain = self.agent.perceive(page, [self.agent.tap_of(TEXT)]).of_senses[TEXT].tokens[:, 0].float().cpu()
        return torch.cat((plain, (plain @ self.layer).tanh()), -1)


@dataclass
class OnePass:
    """A model that has learned: `nats` of a text, and bytes that go on with one.

    Attributes:
        bytes_read: that were learned from. told: held-out blocks; nats: a character of these, on average, or
            without any a byte of the rows that calibrated it.
    """

    features: Features
    solution: Solution
    bytes_read: int
    told: tuple[str, ...] = ()
    nats: float = math.nan

    def nats_of(self, data: np.ndarray) -> np.ndarray:
        """Minus the log of the probability of each byte of `data` uint8 [N], float64 [N]."""
        found = []
        for block in _blocks(data, 64 * TOGETHER):
            logits = self.solution.scores(self.features(block))
            right = torch.from_numpy(block.astype(np.int64))
            found.append(F.cross_entropy(logits, right, reduction="none").numpy())
        return np.concatenate(found)

    def go_on(self, text: str, most: int, generator: torch.Generator) -> Iterator[str]:
        """What it writes behind `text`, `most` bytes, and what is missing of its last character at most."""
        written, decoder = text.encode(), codecs.getincrementaldecoder("utf-8")("replace")
        length = self.features.length // 2 if isinstance(self.features, OnTrunk) else CONTEXT
        for _ in range(most):
            data = np.frombuffer(written[-length:] + b" ", np.uint8)  # the last one stands for what is asked for
            logits = self.solution.scores(self.features(data)[-1:])
            logits[:, 0] = -math.inf
            byte = int(torch.multinomial(logits.softmax(-1)[0], 1, generator=generator))
            written += bytes([byte])
            yield decoder.decode(bytes([byte]))


def learn(
    blocks: Iterable[str], way: str, agent: Agent | None = None, seed: int = 0, neurons: int = NEURONS
) -> OnePass:
    """The model after one pass over blocks of text.

    Args:
        blocks: of which about a tenth are held out; they may come in any order.
        agent: whose trunk is read, for TRUNK.
    """
    if way == TRUNK:
        assert agent is not None, "trunk features are an agent's"
        features: Features = OnTrunk(agent, min(neurons, BESIDE_TRUNK), seed)
    else:
        features = Window(way == MENDED, neurons, seed)
    sums, read, kept, told = None, 0, list[str](), 0
    for text in blocks:
        data = as_bytes(text)
        if _held_out(text):
            if told < MOST_TOLD:
                kept.append(text)
                told += len(data)
            continue
        for block in _blocks(data, TOGETHER * 8):
            rows, right = features(block), torch.from_numpy(block.astype(np.int64))
            if sums is None:
                scale: float | Tensor = HEADROOM * rows.square().mean(0).sqrt().clamp_min(1e-3)
                scale = features.scale if isinstance(features, Window) else scale
                sums = Sums(rows.shape[1], BYTES, scale)
            sums.update(rows, right)
            read += len(block)
    if sums is None:
        raise ConfigError("There is no text to learn from; give a longer one.")
    solution = _solved(sums, features, way)
    model = OnePass(features, solution, read, tuple(kept), solution.nats)
    if kept:
        # Blocks, not the rows that calibrated it, since windows of rows overlap.
        nats = sum(float(model.nats_of(as_bytes(text)).sum()) for text in kept)
        model.nats = nats / sum(map(len, kept))
    return model


def caregivers_blocks(characters: int = 200_000) -> list[str]:
    """The caregiver's sentences in blocks, as text to learn from where none is given."""
    return blocks_in(of_caregiver(0, characters, BLOCK).taught)


def blocks_in(text: str) -> list[str]:
    """A text in blocks of BLOCK characters."""
    return [text[at : at + BLOCK] for at in range(0, len(text), BLOCK)]


def _solved(sums: Sums, features: Features, way: str) -> Solution:
    if way != SEED:
        return sums.solve()
    assert isinstance(features, Window)
    # As the seed decodes: the nearest embedding, whose negative squared distance is the score.
    codes = features.codes.double()
    found = sums.solve(PENALTY / max(sums.rows, 1), codes=codes, standard=False)
    near = Solution(codes @ found.weight, -codes.square().sum(1) / 2, found.penalty, found.condition, found.rows)
    return sums.calibrated(near)


def _held_out(text: str) -> bool:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest(), "little") % ONE_IN == 0


def _blocks(data: np.ndarray, length: int) -> list[np.ndarray]:
    return np.array_split(data, max(1, -(-len(data) // length)))
