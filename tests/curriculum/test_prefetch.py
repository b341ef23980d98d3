"""Prefetched batches: the same stream from any position, faults with their batch, and no thread left over."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path

import numba
import pytest
import torch

from devmind.agent.threads import intra_op_threads
from devmind.curriculum.stage import Batches

WAIT_S = 20.0


def makers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("batches")]


def all_gone() -> bool:
    deadline = time.monotonic() + WAIT_S
    while makers() and time.monotonic() < deadline:
        time.sleep(0.005)
    return not makers()


@pytest.mark.parametrize("start", [0, 1, 4, 5])
def test_stream_is_the_same_from_any_position(start: int) -> None:
    for ahead in (False, True):
        batches = Batches(lambda update: update**2, 5, ahead)
        batches.load_state_dict({"update": start})
        assert list(batches) == [update**2 for update in range(start, 5)]
        assert batches.state_dict() == {"update": 5}


def test_position_counts_given_batches_not_prefetched_ones() -> None:
    batches = Batches(lambda update: update, 5, prefetch=True)
    stream = iter(batches)
    assert [next(stream), next(stream)] == [0, 1]
    assert batches.state_dict() == {"update": 2}
    batches.load_state_dict({"update": 0})
    assert list(stream) == [0, 1, 2, 3, 4], "what was begun for the old position was given at the new one"


def test_exactly_one_batch_is_prefetched() -> None:
    made = [threading.Event() for _ in range(3)]
    batches = Batches(lambda update: made[update].set(), 3, prefetch=True)
    for update, _ in enumerate(batches):
        if update < 2:
            assert made[update + 1].wait(WAIT_S), "nobody made the next batch"
        time.sleep(0.02)
        assert not any(event.is_set() for event in made[update + 2 :])
    assert all_gone()


def test_fault_is_raised_at_its_batch_with_its_traceback() -> None:
    def render_badly(update: int) -> int:
        if update == 2:
            raise ZeroDivisionError("no rooms")
        return update

    stream = iter(Batches(render_badly, 5, prefetch=True))
    assert [next(stream), next(stream)] == [0, 1]
    with pytest.raises(ZeroDivisionError, match="no rooms") as caught:
        next(stream)
    assert "render_badly" in [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert all_gone()


def test_abandoned_stream_leaves_no_thread() -> None:
    go_on = threading.Event()
    stream = iter(Batches(lambda update: update == 0 or go_on.wait(WAIT_S), 5, prefetch=True))
    next(stream)
    begun = time.monotonic()
    stream.close()
    assert time.monotonic() - begun < WAIT_S / 4
    go_on.set()
    assert all_gone()


def test_batches_use_half_of_the_threads_and_learning_keeps_its_own() -> None:
    most = numba.config.NUMBA_NUM_THREADS
    for threads, half in ((1, 1), (2, 1), (4, 2)):
        with intra_op_threads(threads):
            batches = Batches(lambda update: (torch.get_num_threads(), numba.get_num_threads()), 3, prefetch=True)
            for seen in batches:
                assert seen == (half, min(half, most))
                assert (torch.get_num_threads(), numba.get_num_threads()) == (threads, min(threads, most))


RENDER_ON_TWO_THREADS = """
import numba
import numpy as np
from devmind.curriculum.stage import Batches
from devmind.worlds.nursery import NurseryRules

def watched(update):
    rules = NurseryRules("room")
    state = rules.initial(np.arange(24) + 100 * update)
    for _ in range(6):
        state = rules.step(state, {})
    return rules.observe(state)

stream = iter(Batches(watched, 30, prefetch=True))
for update in range(20):
    theirs, ours = next(stream), watched(update)
    assert all(np.array_equal(theirs[name], ours[name]) for name in theirs)
assert numba.threading_layer() == "workqueue", numba.threading_layer()
print("ends with a batch on its way")
"""


def test_two_threads_render_on_the_workqueue_layer_of_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_THREADING_LAYER", "workqueue")
    ran = subprocess.run(
        [sys.executable, "-c", RENDER_ON_TWO_THREADS],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert "ends with a batch" in ran.stdout
