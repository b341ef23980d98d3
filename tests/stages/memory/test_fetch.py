"""Reaching for hidden things: what its exam lets nobody see."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from devmind.seeding import exam_seeds
from devmind.testing import tiny_agent, tiny_context
from devmind.worlds.nursery.fetching import ASKS_FROM
from stages.memory.fetch import exam
from stages.memory.stage import MemoryStage
from stages.reflex.stage import ReflexStage


@pytest.fixture(scope="module")
def agent():
    agent = tiny_agent()
    ReflexStage().admit(agent)
    MemoryStage().admit(agent)
    return agent.eval()


def test_the_truth_and_a_picture_that_is_kept_find_what_a_look_at_the_screen_does_not(tmp_path):
    context, seeds = tiny_context(tmp_path), exam_seeds(60, "fetch", "test")
    assert exam.fetched(context, seeds, exam.ByTruth).mean() > 0.95
    assert exam.fetched(context, seeds, exam.Remembered).mean() > 0.85

    class Blind(exam.Remembered):
        def _ray(self, picture, word, tilt):
            return super()._ray(np.zeros_like(picture), word, tilt)

    assert not exam.fetched(context, seeds, Blind).any(), "where no colour fits, the hand rests"
    hasty = exam.fetched(context, seeds, lambda: lambda senses, first: {"reach": np.ones((len(first), 4))})
    assert hasty.mean() < 0.4


@torch.inference_mode()
def test_without_short_term_memory_what_was_seen_changes_nothing(agent, tmp_path, monkeypatch):
    context, seeds, said = tiny_context(tmp_path), exam_seeds(12, "fetch", "alone"), []
    real = exam.heard

    def noting(senses):
        said.append(real(senses))
        return said[-1]

    monkeypatch.setattr(exam, "heard", noting)
    for short_term in (True, False):
        actor = exam.by_trunk(agent, short_term=short_term)
        exam.fetched(context, seeds, lambda actor=actor: actor)
        assert set(actor.counts["reach"]) == {"reach_trunk"}, "arcs are silenced"
    assert not np.concatenate(said)[: 12 * ASKS_FROM].any()
