"""One training in two processes equals one with batches twice as large; a killed process ends it with a sentence."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from devmind.agent.agent import Agent
from devmind.checkpointing.generations import SHARDS, load, on_shelf
from devmind.config import load as load_config
from devmind.curriculum import ranks
from devmind.curriculum.rehearsal import mix_rehearsal
from devmind.curriculum.sharding import why_whole
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
    out.mkdir(exist_ok=True)
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
    ran = start(tmp_path / "two", "2", "ddp", "dies")
    assert ran.returncode == 2, ran.stderr
    assert "Another process of this training has ended" in ran.stdout
    context = make_context(config(), tmp_path / "two", None, ())
    saved = position(context)
    assert saved is not None
    assert 0 < saved["update"] <= 3
    rank_lesson.teach(tmp_path / "two", 1, resume=saved)
    assert (position(context) or {})["update"] == rank_lesson.STEPS


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_two_sharded_ranks_equal_one_and_their_checkpoints_go_on_in_any_number(tmp_path: Path) -> None:
    ran = start(tmp_path / "two", "2", "fsdp")
    assert ran.returncode == 0, ran.stderr
    (tmp_path / "one").mkdir()
    one = rank_lesson.teach(tmp_path / "one", 1, one_batch=True)
    assert furthest(one, Agent.from_pretrained(tmp_path / "two" / "agent")) < 1e-5
    newest, before = on_shelf(tmp_path / "two" / "checkpoints")
    assert len(list(newest.glob(SHARDS))) == 2
    alone, both = load(newest), load(on_shelf(tmp_path / "one" / "checkpoints")[0])
    moments = [state["learner"]["optimizer"]["state"] for state in (alone, both)]
    assert moments[0].keys() == moments[1].keys()
    for at, each in moments[1].items():
        for name, value in each.items():
            assert torch.allclose(moments[0][at][name], value, atol=1e-5), "the optimizer's state is gathered"
    # The last checkpoint is lost; the one before goes on alone, sharded, and with the whole agent in each process.
    for name, words in {"alone": None, "shards": ("2", "fsdp"), "whole": ("2", "ddp")}.items():
        out = tmp_path / name
        shutil.copytree(before, out / "checkpoints" / before.name)
        if words is None:
            agent = rank_lesson.teach(out, 1, resume=load(before), one_batch=True)
        else:
            ran = start(out, *words, "goes on")
            assert ran.returncode == 0, ran.stderr
            agent = Agent.from_pretrained(out / "agent")
        assert furthest(one, agent) < 1e-5, name


def test_lesson_whose_numbers_are_read_elsewhere_is_not_sharded() -> None:
    class Whole(GradientLearner):
        def make_optimizer(self):  # type: ignore[no-untyped-def]
            return None

    own = Batches(lambda update: update, 2, prefetch=True)
    assert why_whole(object.__new__(GradientLearner), own) == ""
    assert "whole matrices" in why_whole(object.__new__(Whole), own)
    assert "made with the agent" in why_whole(object.__new__(GradientLearner), Batches(lambda update: update, 2))


@pytest.mark.parametrize(
    ("program", "sentence"),
    [
        (
            "print('no stage'); raise SystemExit(3)",
            r"Process 1 .* ended \(exit code 3\) before it had joined: no stage",
        ),
        ("import time; time.sleep(60)", "After 2 s 1 of 2 processes of this training have not joined"),
    ],
)
def test_process_that_does_not_join_is_told_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, sentence: str
) -> None:
    monkeypatch.setattr(ranks, "JOINING_S", 2.0 if "sleep" in program else 60.0)
    monkeypatch.setattr(sys, "orig_argv", [sys.executable, "-u", "-c", program])
    began = time.monotonic()
    with pytest.raises(ConfigError, match=sentence), ranks.joined(2, tmp_path):
        pytest.fail("it went on alone")
    assert time.monotonic() - began < 60
    assert "RANK" not in os.environ


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
        load_config("tiny", {"devices": 0})
    assert load_config("tiny", {"devices": 2}).devices == 2
