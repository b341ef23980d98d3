"""Lessons with batches made ahead: each batch is a function of (seed, lesson, update), whichever thread makes it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch

from devmind.agent.threads import intra_op_threads
from devmind.config import load
from devmind.curriculum.stage import Context, Lesson
from devmind.curriculum.start import make_context
from devmind.testing import tiny_agent
from stages.reflex.lessons import PERCEIVE_CYCLE, lessons, perceive_cycle


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Context:
    folder = tmp_path_factory.mktemp("data")
    (folder / "speech" / "set").mkdir(parents=True)
    for digit, speaker in ((d, s) for d in range(10) for s in ("ann", "bob")):
        wave = np.sin(np.arange(3000) * 0.02 * (digit + 1)) * np.hanning(3000)
        soundfile.write(folder / "speech" / "set" / f"{digit}_{speaker}_0.wav", wave, 8000)
    (folder / "images").mkdir()
    np.savez(folder / "images" / "set.npz", images=np.zeros((20, 9, 9), np.uint8), labels=np.arange(20) % 10)
    return make_context(load("tiny", sets=["device=cpu"]), folder, folder, ())


def lesson_named(context: Context, name: str) -> Lesson:
    return next(lesson for lesson in lessons(context) if lesson.name == name)


def flat(batch: Any, path: str = "") -> dict[str, Any]:
    if isinstance(batch, dict):
        return {name: x for key, value in batch.items() for name, x in flat(value, f"{path}/{key}").items()}
    return {path: batch}


def test_batches_that_need_the_agent_are_not_made_ahead(context: Context) -> None:
    ahead = {lesson.name: lesson.make_batches(tiny_agent(), context, 1).prefetch for lesson in lessons(context)}
    assert ahead == {"watch": True, "perceive": True, "gaze": True, "motor": False, "together": False}


@pytest.mark.parametrize("name", ["watch", "perceive"])
def test_a_batch_made_ahead_equals_the_batch_made_in_turn(context: Context, name: str) -> None:
    lesson, steps = lesson_named(context, name), len(perceive_cycle(context)) if name == "perceive" else 2
    in_turn = lesson.make_batches(tiny_agent(), context, steps)
    with intra_op_threads(2):
        for update, given in enumerate(lesson.make_batches(tiny_agent(), context, steps)):
            torch.rand(update + 1)  # learning draws random numbers meanwhile
            told, wanted = flat(given), flat(in_turn.make(update))
            assert told.keys() == wanted.keys()
            for key, value in wanted.items():
                if isinstance(value, torch.Tensor):
                    assert told[key].dtype == value.dtype
                    assert torch.equal(told[key].nan_to_num(), value.nan_to_num()), f"update {update}, {key}"
                else:
                    assert told[key] == value


def test_the_number_of_threads_changes_no_batch(context: Context) -> None:
    steps = len(perceive_cycle(context))
    make = lesson_named(context, "perceive").make_batches(tiny_agent(), context, steps).make
    for update in range(steps):
        seen = []
        for threads in (1, 2):
            with intra_op_threads(threads):
                seen.append(flat(make(update)))
        for key, value in seen[0].items():
            if isinstance(value, torch.Tensor):
                assert torch.equal(value, seen[1][key]), f"update {update}, {key}"


def test_recordings_are_added_to_the_other_tasks(context: Context, tmp_path: Path) -> None:
    bare = make_context(load("tiny", sets=["device=cpu"]), tmp_path, None, ())
    assert perceive_cycle(bare) == PERCEIVE_CYCLE
    extra = Counter(perceive_cycle(context)) - Counter(PERCEIVE_CYCLE)
    assert set(extra) == {"see", "speech"}
    assert not Counter(PERCEIVE_CYCLE) - Counter(perceive_cycle(context))
    steps = {name: lesson_named(c, "perceive").steps for name, c in (("bare", bare), ("given", context))}
    assert steps["given"] == steps["bare"] * len(perceive_cycle(context)) // len(PERCEIVE_CYCLE)
