"""The thousand small readers of `see`: what they know comes from the labels, and strangers are told from digits."""

from __future__ import annotations

import numpy as np
import torch
from sklearn.metrics import roc_auc_score

from devmind.agent.agent import Agent
from devmind.raised import raised_agents
from devmind.sessions.written import Pictures, pictures
from stages.reflex.see.readers import Readers, mixed_halves, told_apart


def test_area_is_that_of_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    digits, strangers = rng.integers(0, 20, 300), rng.integers(5, 25, 200)  # with ties
    area = roc_auc_score(np.r_[np.zeros(300), np.ones(200)], np.r_[digits, strangers])
    assert np.isclose(told_apart(digits, strangers).mean(), area)


def test_strangers_are_halves_of_two_digits() -> None:
    known = pictures(None).take(np.arange(200))
    made = mixed_halves(known)
    half = known.images.shape[2] // 2
    assert (made.images[:, :, :half] == known.images[:, :, :half]).all()
    for row, image in enumerate(made.images):
        owners = (known.images[:, :, half:] == image[:, half:]).all((1, 2))
        assert (known.labels[owners] != known.labels[row]).any()


def test_readers_know_what_they_are_taught_and_nothing_of_shuffled_labels() -> None:
    agent, known = Agent.from_pretrained(raised_agents()["newborn"]), pictures(None)
    taught, unseen = known.take(np.arange(0, 1200)), known.take(np.arange(1200, 1500))
    shuffled = Pictures(taught.images, np.random.default_rng(0).permutation(taught.labels), taught.source)
    with torch.inference_mode():
        first, again, fooled = (Readers(agent, one, 24, 0).ask(unseen) for one in (taught, taught, shuffled))
        strangers = Readers(agent, taught, 24, 0).ask(mixed_halves(unseen))
    assert (first.probability == again.probability).all()
    assert first.shares.mean() > 0.9
    assert (first.probability.argmax(1) == unseen.labels).mean() >= first.shares.mean()
    assert fooled.shares.mean() < 0.2
    assert np.allclose(first.probability.sum(1), 1, atol=1e-5)
    assert told_apart(first.disagreement, strangers.disagreement).mean() > 0.75
    assert told_apart(first.disagreement, first.disagreement).mean() == 0.5
