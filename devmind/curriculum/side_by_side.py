"""Holds exams side by side: an exam steps with one thread, so there is one worker process for each core."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import torch

from devmind.acting.rollout import Watch, watching
from devmind.agent.agent import Agent
from devmind.agent.device import place
from devmind.agent.threads import stepping_threads
from devmind.checkpointing.lock import LOCK, lock_folder
from devmind.config import TRIAL_SIZES
from devmind.curriculum.cluster import HERE, Cluster
from devmind.curriculum.exam import Exam, Measure
from devmind.curriculum.examining import examine_skill, pick_skills
from devmind.curriculum.progress import ExamsProgress, Rolled, RolloutClock, say
from devmind.curriculum.stage import Context, Stage
from devmind.curriculum.timing import peak_memory_mb
from devmind.errors import CheckpointError, ExamError

MOST = 4
"""Worker processes at most: more would wait for the longest exam of a stage."""
WORKER_GB, REST_GB = 3.0, 4.0
"""Memory of a worker at most (exams of planning), and of this process behind its lessons."""
WORKER = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS", "NUMBA")} | {
    "LOKY_MAX_MEMORY_LEAK_SIZE": f"{WORKER_GB * 1e9:.0f}"
}
"""Environment of a worker. By default loky takes 300 MB more than after the first exam for a leak: it ends the worker
with a warning, and starts another, which loads the agent again."""


class ExamTask(NamedTuple):
    """An exam to hold.

    Args:
        before: measures of an earlier exam of the skill. Then only the agent is examined again, on the same episodes;
            chance, ceiling and floors, which need no agent, are those of the earlier exam.
    """

    stage: Stage
    skill: str
    before: Mapping[str, Measure] | None = None


class ExamResult(NamedTuple):
    """An exam's result, its duration, the peak memory of the process that held it, and how much of the duration was
    spent on what the trunk's layers carry (`pass_through`)."""

    measures: dict[str, Measure]
    seconds: float
    peak_memory_mb: float
    passing_s: float = 0.0


def hold(due: ExamTask, agent: Agent, context: Context, watch: Watch | None = None) -> ExamResult:
    """Hold one exam, with one intra-op thread, so that scores do not depend on the number of cores.

    Args:
        watch: is told how far its rollouts are.
    """
    begun = time.monotonic()
    (skill,) = pick_skills(due.stage, due.skill)
    with stepping_threads(), nullcontext() if watch is None else watching(watch):
        if due.before is None:
            item = examine_skill(due.stage, skill, agent, context)
        else:
            item = examine_skill(due.stage, skill, agent, context, Exam.alone)
            if (beside := _beside(item.measures, due.before)) is None:
                item = examine_skill(due.stage, skill, agent, context)
            else:
                item = replace(item, measures=beside)
    return ExamResult(item.measures, time.monotonic() - begun, peak_memory_mb(), item.passing_s)


def _beside(after: Mapping[str, Measure], before: Mapping[str, Measure]) -> dict[str, Measure] | None:
    """Measures of exams that only the agent took, completed by the earlier exams of the same episodes.

    None if the episodes differ, as of an exam that has changed since; then it must be held in full.
    """
    if any(name not in before or before[name].n != measure.n for name, measure in after.items()):
        return None
    kept = ("chance", "ceiling", "floors", "reference")
    return {
        name: replace(measure, **{key: getattr(before[name], key) for key in kept}) for name, measure in after.items()
    }


def announce(due: ExamTask) -> None:
    """Tell the user that an exam begins."""
    say(f"exam of {due.skill}")


def say_passing(due: ExamTask, held: ExamResult) -> None:
    """Tell the user what it cost to ask what the trunk's layers carry, if it was asked."""
    if held.passing_s:
        rest = held.seconds - held.passing_s
        say(f"layers pass, {due.skill}: {held.passing_s:.1f} s behind {rest:.1f} s of exam")


def hold_all(
    dues: Sequence[ExamTask], agent: Agent, context: Context, begins: Callable[[ExamTask], None] = announce
) -> Iterator[tuple[ExamTask, ExamResult]]:
    """Hold exams on as many cores as the calling block has threads and memory has room for, and give each when it ends,
    in any order; or on a cluster, if the configuration says so (`on`).

    At size tiny, where an exam takes less time than the start of a process, and on an accelerator, which processes
    would share, one after another in this process.

    Args:
        begins: called when an exam begins.

    Raises:
        ExamError: a worker process ended without a result.
    """
    if context.config.on != HERE:
        with closing(Cluster(context.config.on, WORKER)) as cluster:
            yield from hold_on(cluster, dues, agent, context, begins)
        return
    workers = min(torch.get_num_threads(), len(dues), MOST, int((_memory_gb() - REST_GB) / WORKER_GB))
    if workers < 2 or context.config.size in TRIAL_SIZES or torch.device(context.device).type != "cpu":
        for due in dues:
            begins(due)
            with ExamsProgress() as progress:
                tell = partial(progress.show, due.skill)
                held = hold(due, agent, context, RolloutClock(tell, progress.every_s))
            yield due, held
    else:
        yield from hold_in(workers, dues, agent, context, begins)


FOLDERS = "devmind-exam-"
"""How the names of folders begin that exams need for a while; they stand among the system's temporary files."""


@contextmanager
def exam_folder() -> Iterator[Path]:
    """A temporary folder for exams. Those that killed processes left behind are removed first."""
    _remove_abandoned()
    with tempfile.TemporaryDirectory(prefix=FOLDERS, ignore_cleanup_errors=True) as folder, lock_folder(Path(folder)):
        yield Path(folder)


def _remove_abandoned() -> None:
    for folder in Path(tempfile.gettempdir()).glob(f"{FOLDERS}*"):
        with suppress(CheckpointError, OSError):  # another process has its lock, or has just removed it
            # Without a lock it is just being made. Those of other users are theirs.
            if _is_own(folder) and (folder / LOCK).is_file():
                with lock_folder(folder):
                    shutil.rmtree(folder, ignore_errors=True)


def _is_own(folder: Path) -> bool:
    return not hasattr(os, "geteuid") or folder.lstat().st_uid == os.geteuid()


def _memory_gb() -> float:
    """Memory of this machine in GB; room for one worker where the system does not tell."""
    if not hasattr(os, "sysconf"):
        return REST_GB + WORKER_GB
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9


def hold_in(
    workers: int, dues: Sequence[ExamTask], agent: Agent, context: Context, begins: Callable[[ExamTask], None]
) -> Iterator[tuple[ExamTask, ExamResult]]:
    """`hold_all` in that many worker processes, which end with the iterator, and with this process."""
    from loky import BrokenProcessPool, ProcessPoolExecutor

    with exam_folder() as folder, ExamsProgress() as progress:
        agent.save_pretrained(folder)
        pool = ProcessPoolExecutor(
            workers, initializer=_begin, initargs=(folder, context, os.getpid(), progress.every_s), env=WORKER
        )
        try:
            yield from _take_turns(
                workers, dues, begins, partial(pool.submit, _hold), Future.result, progress, partial(_read, folder)
            )
        except BrokenProcessPool as error:
            raise ExamError(
                f"A process that held exams of stage '{dues[0].stage.name}' ended without a result; perhaps there was "
                "too little memory. Close other programs and repeat the command: a run goes on with the exams left."
            ) from error
        finally:
            pool.shutdown(kill_workers=True)


def hold_on(
    cluster: Cluster, dues: Sequence[ExamTask], agent: Agent, context: Context, begins: Callable[[ExamTask], None]
) -> Iterator[tuple[ExamTask, ExamResult]]:
    """`hold_all` on the machines of a cluster, which is given the agent's saved files."""
    with exam_folder() as folder, ExamsProgress() as progress:
        agent.save_pretrained(folder)
        files = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file() and path.name != LOCK}
    given = cluster.put((agent.sha256(), files, context))
    submit = partial(cluster.submit, _hold_there, given)
    with ExamsProgress() as progress:
        yield from _take_turns(cluster.slots, dues, begins, submit, cluster.result, progress, lambda due: None)


def _take_turns(
    at_once: int,
    dues: Sequence[ExamTask],
    begins: Callable[[ExamTask], None],
    submit: Callable[[ExamTask], Future[Any]],
    result: Callable[[Future[Any]], tuple[str, ExamResult]],
    progress: ExamsProgress,
    read: Callable[[ExamTask], Rolled | None],
) -> Iterator[tuple[ExamTask, ExamResult]]:
    """Submit `at_once` exams and a further one whenever one has ended, in other processes.

    Args:
        result: gives the name of the process, and the result.
        read: how far the rollouts of a running exam are, if that is known.
    """
    left, running, peaks_mb = list(dues), dict[Future[Any], ExamTask](), dict[str, float]()
    while left or running:
        while left and len(running) < at_once:
            begins(due := left.pop(0))
            running[submit(due)] = due
        done = wait(running, timeout=progress.every_s, return_when=FIRST_COMPLETED).done
        for due in running.values():
            if (rolled := read(due)) is not None:
                progress.show(due.skill, rolled)
        for ended in done:
            due = running.pop(ended)
            progress.ended(due.skill)
            worker, held = result(ended)
            peaks_mb[worker] = held.peak_memory_mb
            yield due, held._replace(peak_memory_mb=peak_memory_mb() + sum(peaks_mb.values()))


# -- in a worker process

_given: list[tuple[Agent, Context, Path, float]] = []


def _begin(folder: Path, context: Context, parent: int, every_s: float) -> None:
    """Load the agent, and watch the parent; Ctrl-C, which a terminal sends to all processes, is for the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    _given[:] = [(place(Agent.from_pretrained(folder), context.device), context, folder, every_s)]


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(130)


def _hold(due: ExamTask) -> tuple[str, ExamResult]:
    agent, context, folder, every_s = _given[0]
    return str(os.getpid()), hold(due, agent, context, RolloutClock(partial(_write, folder, due), every_s))


def _write(folder: Path, due: ExamTask, rolled: Rolled) -> None:
    _progress_file(folder, due).write_text(rolled.written(), encoding="ascii")


def _read(folder: Path, due: ExamTask) -> Rolled | None:
    with suppress(OSError):
        return Rolled.read(_progress_file(folder, due).read_text(encoding="ascii"))
    return None


def _progress_file(folder: Path, due: ExamTask) -> Path:
    return folder / f"{quote(f'{due.stage.name} {due.skill}', safe='')}.progress"


# -- on a machine of a cluster

_agents: dict[str, Agent] = {}


def _hold_there(given: tuple[str, Mapping[str, bytes], Context], due: ExamTask) -> tuple[str, ExamResult]:
    sha256, files, context = given
    with exam_folder() as folder:
        if sha256 not in _agents:
            for name, content in files.items():
                (folder / name).write_bytes(content)
            _agents.clear()
            _agents[sha256] = place(Agent.from_pretrained(folder), context.device)
        return f"{socket.gethostname()} {os.getpid()}", hold(due, _agents[sha256], replace(context, out=folder))
