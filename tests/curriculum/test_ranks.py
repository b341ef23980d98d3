"""One training in two processes equals one with batches twice as large; a killed process ends it with a sentence."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from devmind.agent.agent import Agent
from devmind.config import load
from devmind.curriculum import ranks
from devmind.curriculum.rehearsal import mix_rehearsal
from devmind.curriculum.stage import Batches, Lesson
from devmind.curriculum.start import make_context
from devmind.curriculum.teaching import position
from devmind.errors import ConfigError
from devmind.learners.gradient import GradientLearner
from devmind.learners.policy import PolicyLearner
from tests.curriculum import rank_lesson
from tests.curriculum.test_run import config

ROOT = Path(__file__).parents[2]


def start(out: Path, *words: str, launcher: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    out.mkdir()
    command = [sys.executable, *launcher, "-m", "tests.curriculum.rank_lesson", str(out), *words]
    return subprocess.run(
        command, cwd=ROOT, env=os.environ | {"OMP_NUM_THREADS": "1"}, text=True, capture_output=True, check=False
    )


def free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])


def furthest(one: Agent, other: Agent) -> float:
    there = other.state_dict()
    return max(float((value.float() - there[name].float()).abs().max()) for name, value in one.state_dict().items())


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_two_ranks_equal_one_with_batches_twice_as_large(tmp_path: Path) -> None:
    ran = start(tmp_path / "two", "2")
    assert ran.returncode == 0, ran.stderr
    two = Agent.from_pretrained(tmp_path / "two" / "agent")
    (tmp_path / "one").mkdir()
    one = rank_lesson.teach(tmp_path / "one", 1, one_batch=True)
    (tmp_path / "half").mkdir()
    half = rank_lesson.teach(tmp_path / "half", 1)
    assert furthest(one, two) < 1e-5
    assert furthest(half, two) > 1e-3, "it is seen when the second rank's batches are missing"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_torchrun_teaches_the_same(tmp_path: Path) -> None:
    port = str(free_port())
    ran = start(tmp_path / "torch", "1", launcher=(
        "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-addr", "127.0.0.1", "--master-port", port,
    ))  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    (tmp_path / "one").mkdir()
    one = rank_lesson.teach(tmp_path / "one", 1, one_batch=True)
    assert furthest(one, Agent.from_pretrained(tmp_path / "torch" / "agent")) < 1e-5


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_killed_rank_ends_the_training_which_goes_on_with_another_number_of_ranks(tmp_path: Path) -> None:
    ran = start(tmp_path / "two", "2", "dies")
    assert ran.returncode == 2, ran.stderr
    assert "Another process of this training has ended" in ran.stdout
    context = make_context(config(), tmp_path / "two", None, ())
    saved = position(context)
    assert saved is not None
    assert 0 < saved["update"] <= 3
    rank_lesson.teach(tmp_path / "two", 1, resume=saved)
    assert (position(context) or {})["update"] == rank_lesson.STEPS


def test_ranks_take_all_batches_in_turn() -> None:
    lesson = Lesson("one", lambda *_: None, lambda agent, context, steps: Batches(lambda at: at, steps), 4, 1.0)

    class Learner:
        agent = None

    taken = [list(mix_rehearsal(lesson, Learner(), None, 4, (), 0, (rank, 3))) for rank in range(3)]  # type: ignore[arg-type]
    assert sorted(at for own in taken for at in own) == list(range(12))
    assert list(mix_rehearsal(lesson, Learner(), None, 4, (), 0)) == [0, 1, 2, 3]  # type: ignore[arg-type]


def test_learners_with_an_update_of_their_own_are_taught_by_one_process() -> None:
    class Own(GradientLearner):
        def update(self, batch, step):  # type: ignore[no-untyped-def]
            return {}

    assert GradientLearner.distributes.fget(object.__new__(GradientLearner))  # type: ignore[attr-defined]
    assert not object.__new__(Own).distributes
    assert not PolicyLearner.distributes


def test_process_alone_is_rank_0_of_1(tmp_path: Path) -> None:
    with ranks.joined(1, tmp_path):
        assert (ranks.rank(), ranks.world(), ranks.most(5), ranks.threads()) == (0, 1, 5, None)
        ranks.send({"nobody": "hears"})


def test_number_of_devices_is_checked() -> None:
    with pytest.raises(ConfigError, match="devices"):
        load("tiny", {"devices": 0})
    assert load("tiny", {"devices": 2}).devices == 2
