"""A thousand small readers of digits on the agent's eye: a second opinion on what a digit is, and on what is none."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from devmind.agent.agent import Agent
from devmind.algorithms import population
from devmind.seeding import derive_seed, torch_generator
from devmind.sessions.written import Pictures
from stages.reflex.see.lesson import as_sight

READERS, STEPS, BATCH, TAUGHT = 1000, 400, 64, 3000
SIZES = (64, 16, 10)
"""Numbers of the eye's tokens that a reader sees (their principal components), its hidden units, digits."""
RATES = (0.1, 1.0)
"""Learning rates, even in their logarithm: nobody has to know the right one."""


class Opinion(NamedTuple):
    """What the readers say of N pictures.

    Attributes:
        shares: of the pictures that each reader names as labelled [P].
        probability: of each digit, the mean of all readers [N, 10].
        disagreement: of the readers [N], in nats: the mutual information of reader and digit (Houlsby et al. 2011,
            arXiv 1112.5745).
    """

    shares: np.ndarray
    probability: np.ndarray
    disagreement: np.ndarray


class Readers:
    """Small readers of the frozen eye's tokens, taught on TAUGHT of `taught` at most."""

    def __init__(self, agent: Agent, taught: Pictures, count: int, seed: int) -> None:
        self.agent = agent
        some = taught.take(np.linspace(0, len(taught.labels) - 1, min(TAUGHT, len(taught.labels))).astype(int))
        tokens = eye_tokens(agent, some).double()
        self.mean = tokens.mean(0)
        # In float64, since LAPACK's last bits depend on where the numbers lie, and a training makes more of them.
        self.axes = torch.linalg.svd(tokens - self.mean, full_matrices=False).Vh[: SIZES[0]].T
        self.spread = ((tokens - self.mean) @ self.axes).std(0).clamp_min(1e-6)
        drawn = torch.rand(count, generator=torch_generator("see", "rates", seed))
        seeds = derive_seed("see", "reader", seed) % 2**31 + torch.arange(count)
        crowd = population.make(SIZES, seeds, RATES[0] * (RATES[1] / RATES[0]) ** drawn)
        labels = torch.from_numpy(some.labels).long()
        population.train(crowd, self._features(tokens), labels, STEPS, min(BATCH, len(labels)))
        self.weights, self.activation = crowd.weights[~crowd.aside], crowd.activation

    def ask(self, seen: Pictures) -> Opinion:
        """What they say of pictures."""
        labels, shares = torch.from_numpy(seen.labels), []
        features = self._features(eye_tokens(self.agent, seen).double())
        sums, entropy = torch.zeros(len(labels), SIZES[-1]), torch.zeros(len(labels))
        for part in self.weights.split(100):
            probability = population.answers(part, SIZES, self.activation, features).softmax(-1)
            shares.append((probability.argmax(-1) == labels).double().mean(1))
            sums += probability.sum(0)
            entropy += _nats(probability).sum(0)
        probability = sums / len(self.weights)
        disagreement = _nats(probability) - entropy / len(self.weights)
        return Opinion(torch.cat(shares).numpy(), probability.numpy(), disagreement.numpy())

    def _features(self, tokens: Tensor) -> Tensor:
        return ((tokens - self.mean) @ self.axes / self.spread).float()


def eye_tokens(agent: Agent, shown: Pictures) -> Tensor:
    """The tokens of the agent's eye, flat, float32 [N, ...] on the CPU."""
    parts = as_sight(shown.images).split(256)
    return torch.cat([agent.encode_senses({"sight": part})["sight"].tokens.flatten(1) for part in parts]).float().cpu()


def mixed_halves(unseen: Pictures) -> Pictures:
    """Pictures that are no digit: the left half of each, and the right half of the next one with another label."""
    images = unseen.images.copy()
    half = images.shape[2] // 2
    for row, label in enumerate(unseen.labels):
        others = np.flatnonzero(np.roll(unseen.labels, -row) != label)
        images[row, :, half:] = unseen.images[(row + int(others[0])) % len(images), :, half:]
    return Pictures(images, unseen.labels, unseen.source)


def told_apart(of_digits: np.ndarray, of_strangers: np.ndarray) -> np.ndarray:
    """For each stranger the share of digits with a smaller number [N]; a half where they are equal. The mean is the
    area under the curve of hits over false alarms."""
    ordered = np.sort(of_digits)
    below, upto = (np.searchsorted(ordered, of_strangers, side) for side in ("left", "right"))
    return (below + upto) / 2 / len(ordered)


def _nats(probability: Tensor) -> Tensor:
    """The entropy of the last dimension."""
    return -(probability * probability.clamp_min(1e-12).log()).sum(-1)
