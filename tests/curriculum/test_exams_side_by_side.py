"""Exams in worker processes: same results, sentences when a worker dies, and no process that stays behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from devmind.agent.agent import Agent
from devmind.agent.config import AgentConfig
from devmind.curriculum import results, run_exams, side_by_side
from devmind.curriculum.exam import Measure
from devmind.curriculum.journal import Journal
from devmind.curriculum.side_by_side import ExamResult, ExamTask, exam_folder, hold, hold_all, hold_in
from devmind.curriculum.stage import Context
from devmind.curriculum.start import make_context
from devmind.errors import ExamError
from tests.curriculum.test_run import config
from tests.curriculum.three_exams import STAGE, ThreeExams


@pytest.fixture(scope="module")
def agent() -> Agent:
    newborn = Agent(AgentConfig(size="tiny", seed=3))
    STAGE.admit(newborn)
    return newborn


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return make_context(config(), tmp_path, None, ())


def alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text()


def ends(process: int, within_s: float = 20) -> bool:
    until = time.monotonic() + within_s
    while alive(process) and time.monotonic() < until:
        time.sleep(0.05)
    return not alive(process)


def waiting(folder: Path) -> int:
    """The process that holds the exam `waits`, once it does."""
    until = time.monotonic() + 200  # a process starts in some seconds of a core, which other tests use too
    while not (found := list(folder.glob("*.pid"))):
        assert time.monotonic() < until
        time.sleep(0.05)
    return int(found[0].stem)


def test_workers_give_the_measures_of_this_process(agent: Agent, context: Context) -> None:
    dues = [
        ExamTask(STAGE, "lamps-lit"),
        ExamTask(STAGE, "threads"),
        ExamTask(STAGE, "lamps-lit", hold_one(agent, context)),
    ]
    begun: list[ExamTask] = []
    found = list(hold_in(2, dues, agent, context, begun.append))
    assert begun == dues
    assert len(found) == 3
    for due, held in found:
        here = hold(due, agent, context)
        for name, measure in here.measures.items():
            assert np.array_equal(held.measures[name].values, measure.values)
            assert held.measures[name].chance == measure.chance
        assert set(held.measures) == set(here.measures)
        assert held.seconds > 0
        assert held.peak_memory_mb > here.peak_memory_mb, "the memory of all processes"
    assert hold(dues[1], agent, context).measures["threads"].score == 1


def hold_one(agent: Agent, context: Context) -> dict[str, Measure]:
    return hold(ExamTask(STAGE, "lamps-lit"), agent, context).measures


def test_error_of_an_exam_arrives(agent: Agent, context: Context) -> None:
    with pytest.raises(ExamError, match="no recordings to ask about"):
        list(hold_in(1, [ExamTask(STAGE, "refuses")], agent, context, lambda due: None))


def test_worker_that_dies_is_a_sentence(agent: Agent, context: Context) -> None:
    with pytest.raises(ExamError, match="ended without a result; perhaps there was too little memory"):
        list(hold_in(1, [ExamTask(STAGE, "dies")], agent, context, lambda due: None))


@pytest.mark.slow
def test_run_whose_worker_was_killed_goes_on_with_the_exams_left(
    agent: Agent, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    def in_workers(dues: list[ExamTask], agent: Agent, context: Context, begins: Callable[[ExamTask], None]) -> Any:
        held_now.extend(due.skill for due in dues)
        return hold_in(len(dues), dues, agent, context, begins)

    held_now: list[str] = []
    monkeypatch.setattr(run_exams, "hold_all", in_workers)
    stage, journal = ThreeExams(), Journal(context.out / "journal.jsonl")
    stage.skills = tuple(skill for skill in stage.skills if skill.name in ("lamps-lit", "waits-once"))
    killed: list[int] = []

    def kill() -> None:
        while not list(journal.events("exam")):  # the other exam is over
            time.sleep(0.05)
        killed.append(waiting(context.out))
        os.kill(killed[0], signal.SIGKILL)

    killing = threading.Thread(target=kill)
    killing.start()
    with pytest.raises(ExamError, match=r"ended without a result.*a run goes on with the exams left"):
        run_exams.run_exams([stage], agent, context, journal, "end")
    killing.join()
    assert held_now == ["lamps-lit", "waits-once"]
    held_now.clear()
    assert len(run_exams.run_exams([stage], agent, context, journal, "end")) == 2
    assert held_now == ["waits-once"]
    assert [event["skill"] for event in journal.events("exam")] == ["lamps-lit", "waits-once"]


@pytest.mark.slow
def test_workers_end_with_the_iterator(agent: Agent, context: Context) -> None:
    dues = hold_in(2, [ExamTask(STAGE, "waits"), ExamTask(STAGE, "lamps-lit")], agent, context, lambda due: None)
    assert next(dues)[0].skill == "lamps-lit"
    worker = waiting(context.out)
    dues.close()  # type: ignore[attr-defined]
    assert ends(worker)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
@pytest.mark.slow
def test_workers_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    code = (
        "from pathlib import Path\n"
        "from tests.curriculum.test_exams_side_by_side import *\n"
        "newborn = Agent(AgentConfig(size='tiny', seed=3))\n"
        "STAGE.admit(newborn)\n"
        f"context = make_context(config(), Path({str(tmp_path)!r}), None, ())\n"
        "list(hold_in(1, [ExamTask(STAGE, 'waits')], newborn, context, lambda due: None))\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], cwd=Path(__file__).parents[2]) as parent:
        try:
            worker = waiting(tmp_path)
        finally:
            parent.kill()
    assert ends(worker)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs locks that end with a killed process")
def test_folder_of_a_killed_exam_is_removed_at_the_next_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression: a parent that was killed left a folder with a whole agent for good."""
    monkeypatch.setattr(side_by_side.tempfile, "tempdir", str(tmp_path))
    code = (
        "import time\n"
        "from devmind.curriculum.side_by_side import exam_folder\n"
        "with exam_folder() as folder:\n"
        "    (folder / 'model.safetensors').write_bytes(bytes(99))\n"
        "    print(folder, flush=True)\n"
        "    time.sleep(600)\n"
    )
    told = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=told) as parent:
        try:
            assert parent.stdout is not None
            held = Path(parent.stdout.readline().strip())
            with exam_folder() as own:
                assert {held, own} == set(tmp_path.iterdir()), "those of processes that live stay"
        finally:
            parent.kill()
    (tmp_path / "devmind-exam-just-made").mkdir()
    (tmp_path / "another").mkdir()
    with exam_folder() as own:
        assert {path.name for path in tmp_path.iterdir()} == {own.name, "devmind-exam-just-made", "another"}
    assert not own.exists()


def test_worker_may_need_more_memory_than_after_its_first_exam() -> None:
    """Regression: loky ended workers that had grown by 300 MB, with a warning in the terminal, and started others."""
    code = "from loky import process_executor as loky; print(loky._MAX_MEMORY_LEAK_SIZE)"
    ran = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | side_by_side.WORKER, capture_output=True, text=True, check=True
    )
    assert int(ran.stdout) == side_by_side.WORKER_GB * 1e9


@pytest.mark.parametrize(
    ("size", "device", "threads", "memory_gb", "processes"),
    [("nursery", "cpu", 2, 16, 2), ("nursery", "cpu", 8, 16, 3), ("nursery", "cpu", 1, 16, 0),
     ("tiny", "cpu", 2, 16, 0), ("nursery", "cuda", 2, 16, 0),
     ("nursery", "cpu", 8, 12, 2), ("nursery", "cpu", 8, 8, 0), ("nursery", "cpu", 8, 2, 0)],
)  # fmt: skip
def test_where_exams_are_held(
    agent: Agent, context: Context, monkeypatch: pytest.MonkeyPatch,
    size: str, device: str, threads: int, memory_gb: float, processes: int,
) -> None:  # fmt: skip
    used: list[int] = []
    monkeypatch.setattr(side_by_side, "hold", lambda due, *rest: ExamResult({}, 0, 0))
    monkeypatch.setattr(side_by_side, "hold_in", lambda workers, dues, *rest: used.append(workers) or [])
    monkeypatch.setattr(side_by_side, "_memory_gb", lambda: memory_gb)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    where = replace(context, device=device, config=context.config.model_copy(update={"size": size}))
    held = list(hold_all([ExamTask(STAGE, "lamps-lit")] * 3, agent, where))
    assert (len(held), used) == ((0, [processes]) if processes else (3, []))


def test_memory_of_the_machine_is_known() -> None:
    assert 1 < side_by_side._memory_gb() < 100_000


def test_exams_side_by_side_count_once_in_the_time_of_a_run() -> None:
    assert results.added_s({"seconds": 90.0, "added_s": 50.0}) == 50
    assert results.added_s({"seconds": 90.0}) == 90, "an older journal"
