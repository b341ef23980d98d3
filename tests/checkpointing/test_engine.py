"""What was taken is on the disk whatever fails meanwhile; a slow disk delays no step; a fault is told at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from devmind.checkpointing import engine as saving
from devmind.checkpointing import generations, writer
from devmind.checkpointing.engine import Every, SavingEngine, Writer
from devmind.checkpointing.generations import load, name_of, newest, next_number, on_shelf
from devmind.checkpointing.lock import lock_folder
from devmind.errors import CheckpointError, ConfigError

ROOT = Path(__file__).parents[2]
SOME = "state/w"


def state(number: int, size: int = 1000) -> dict[str, Any]:
    kinds = (torch.float32, torch.int64, torch.bfloat16, torch.bool, torch.complex64)
    return {
        "number": number,
        "w": torch.full((size,), float(number)),
        "more": [torch.ones(3, 2, dtype=k) for k in kinds],
    }


def about(number: int) -> dict[str, Any]:
    return {"lesson": "one", "step": number, "steps": 99, "updates": number}


def take(engine: SavingEngine, number: int, size: int = 1000) -> None:
    engine.snapshot(state(number, size), about(number))


@pytest.fixture
def own_writer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Writer]:
    """A writing process that no other test has used."""
    monkeypatch.setattr(Writer, "_kept", None)
    yield Writer.of_this_process()
    Writer.of_this_process().stop()


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Orders are carried out in this process, so that its disk can be spoiled."""
    monkeypatch.setattr(saving, "OTHERS_WRITE", False)
    monkeypatch.setattr(saving, "RETRY_S", 0.0)
    monkeypatch.setattr(Writer, "_kept", None)


def test_snapshot_is_of_its_moment_and_the_two_newest_stay_in_both_places(tmp_path: Path, own_writer: Writer) -> None:
    told: list[int] = []
    kept = state(3, 5000)
    with SavingEngine(
        tmp_path / "shelf",
        Every(),
        tmp_path / "backup",
        saved=lambda saved: told.append(saved.about["step"]),
        checked=SOME,
    ) as engine:
        for number in (1, 2):  # sizes grow and shrink
            take(engine, number, 10**number)
            engine.drain()
        engine.snapshot(kept, about(3))
        kept["w"].zero_()
    assert own_writer.runs
    assert (told, engine.count, engine.skipped) == ([1, 2, 3], 3, 0)
    for shelf in (tmp_path / "shelf", tmp_path / "backup"):
        assert [path.name for path in on_shelf(shelf)] == [name_of(3), name_of(2)]
        found = load(shelf / name_of(3))
        assert torch.equal(found["w"], torch.full((5000,), 3.0))
        assert [t.dtype for t in found["more"]] == [t.dtype for t in kept["more"]]
    assert SavingEngine(tmp_path / "shelf", Every()).number == 4


def test_relative_shelf_is_where_learning_is_not_where_the_writer_began(
    tmp_path: Path, own_writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: the writer is kept from lesson to lesson, and wrote into the folder that it was started in."""
    for folder in ("first", "second"):
        (tmp_path / folder).mkdir()
        monkeypatch.chdir(tmp_path / folder)
        with SavingEngine(Path("shelf"), Every(), checked=SOME) as engine:
            take(engine, 1, 10)
        assert own_writer.runs
        assert (tmp_path / folder / "shelf" / name_of(1)).is_dir()


def test_newest_snapshot_replaces_the_one_that_waits_for_a_slow_backup(tmp_path: Path, own_writer: Writer) -> None:
    told: list[int] = []
    engine = SavingEngine(
        tmp_path / "s", Every(), tmp_path / "b", saved=lambda saved: told.append(saved.about["step"]), checked=SOME
    )
    with lock_folder(tmp_path / "b"):  # as slow as this block
        for number in range(1, 6):
            begun = time.monotonic()
            take(engine, number)
            assert time.monotonic() - begun < 5.0, "a step waited for the disk"
        assert not engine.is_due(6)
    engine.drain()
    assert (told, engine.skipped) == ([1, 5], 3)
    assert load(newest(tmp_path / "s"))["number"] == load(newest(tmp_path / "b"))["number"] == 5


def test_how_often_is_saved(tmp_path: Path, own_writer: Writer) -> None:
    by_updates = SavingEngine(tmp_path / "a", Every(updates=3), checked=SOME)
    assert [n for n in range(1, 4) if by_updates.is_due(n)] == [3]
    take(by_updates, 3)
    assert [n for n in range(4, 7) if by_updates.is_due(n)] == [6]
    by_updates.drain()
    by_time = SavingEngine(tmp_path / "b", Every(seconds=0.2), checked=SOME)
    assert not by_time.is_due(1)
    time.sleep(0.25)
    assert by_time.is_due(1)
    always = SavingEngine(tmp_path / "c", Every(), checked=SOME)
    assert always.is_due(1)
    take(always, 1)
    assert not always.is_due(2), "it was just taken"


def test_death_of_the_writer_is_told_and_the_snapshot_is_written_by_another(tmp_path: Path, own_writer: Writer) -> None:
    faults: list[str] = []
    engine = SavingEngine(tmp_path / "s", Every(), tmp_path / "b", failed=faults.append, checked=SOME)
    with lock_folder(tmp_path / "b"):
        take(engine, 1)
        until = time.monotonic() + 60
        while not on_shelf(tmp_path / "s") and time.monotonic() < until:
            time.sleep(0.02)
        os.kill(own_writer._process.pid, signal.SIGKILL)
        while not faults and time.monotonic() < until:
            engine.is_due(2)
            time.sleep(0.02)
    assert "has ended (exit code -9)" in faults[0]
    engine.drain()
    assert load(newest(tmp_path / "b"))["number"] == 1


@pytest.mark.usefixtures("here")
def test_full_disk_ends_it_after_a_grace_time_and_not_if_there_is_room_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults: list[str] = []
    engine = SavingEngine(tmp_path, Every(), failed=faults.append, checked=SOME)
    take(engine, 1)
    engine.drain()

    def full(number: int) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "fsync", full)
    take(engine, 2)
    engine.is_due(3)
    assert "disk is full" in faults[0]
    assert load(newest(tmp_path))["number"] == 1
    monkeypatch.undo()
    monkeypatch.setattr(saving, "OTHERS_WRITE", False)
    engine._retry_s = 0.0
    engine.drain()
    assert load(newest(tmp_path))["number"] == 2
    monkeypatch.setattr(os, "fsync", full)
    monkeypatch.setattr(saving, "GRACE_S", 0.0)
    take(engine, 3)
    with pytest.raises(CheckpointError, match=r"Nothing could be saved for 0 s: .*disk is full"):
        engine.drain()
    assert load(newest(tmp_path))["number"] == 2


@pytest.mark.usefixtures("here")
def test_backup_that_cannot_be_written_is_a_fault_and_retires_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "b").write_text("a file where a folder should be")
    monkeypatch.setattr(saving, "GRACE_S", 0.0)
    for number in (1, 2):
        engine = SavingEngine(tmp_path / "s", Every(), tmp_path / "b", checked=SOME)
        take(engine, number)
        with pytest.raises(CheckpointError, match="Nothing could be saved"):
            engine.drain()
        assert load(newest(tmp_path / "s", tmp_path / "b"))["number"] == number


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64])
@pytest.mark.usefixtures("here")
def test_numbers_that_are_not_finite_are_refused_and_the_one_before_remains(tmp_path: Path, dtype: torch.dtype) -> None:
    engine = SavingEngine(tmp_path, Every())
    for number, value in ((1, 1.0), (2, float("inf"))):
        agent = {"bad": torch.tensor([1.0, value], dtype=dtype), "good": torch.tensor([3.3e38])}
        engine.snapshot({"agent": agent, "learner": {"loss": torch.tensor(float("nan"))}}, about(number))
        if number == 1:
            engine.drain()
    with pytest.raises(ConfigError, match=r"'one' has made NaN or infinite numbers of bad by step 2 of 99"):
        engine.drain()
    assert [path.name for path in on_shelf(tmp_path)] == [name_of(1)]


KILLED = """
import sys, time, torch
from pathlib import Path
from devmind.checkpointing.engine import Every, SavingEngine
engine = SavingEngine(Path(sys.argv[1]), Every(), checked="state/w")
number, w = 0, torch.zeros(500_000)
while True:
    number += 1
    w.fill_(number)
    if engine.is_due(number):
        engine.snapshot({"w": w, "number": number}, {"lesson": "one", "step": number, "steps": 0, "updates": number})
    print(number, flush=True) if number == 20 else time.sleep(0.001)
"""


def test_process_killed_while_saving_leaves_a_whole_generation_and_its_writer_ends(tmp_path: Path) -> None:
    for delay in (0.0, 0.11, 0.23):
        with subprocess.Popen(
            [sys.executable, "-c", KILLED, str(tmp_path)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            until = time.monotonic() + 60
            while not on_shelf(tmp_path) and time.monotonic() < until:
                time.sleep(0.02)
            time.sleep(delay)
            process.kill()
        with lock_folder(tmp_path, wait_s=60):  # the writer has nothing in hand any more
            found = load(newest(tmp_path))
        assert torch.equal(found["w"], torch.full((500_000,), float(found["number"])))


def test_orders_are_carried_out_by_a_process_without_torch() -> None:
    told = subprocess.run(
        [sys.executable, "-c", f"import sys, {writer.__name__}; print('torch' in sys.modules)"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout == "False\n"


def test_earlier_checkpoints_are_refused_by_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "0-one-00000001").mkdir()
    (tmp_path / "0-one-00000001" / "state.json").touch()
    with pytest.raises(CheckpointError, match="are of an earlier devmind, which continues them"):
        generations.load_newest(tmp_path, None, print)


@pytest.mark.parametrize("jump_s", [-3600.0, 86_400.0])
def test_clock_that_jumps_changes_no_name_no_order_and_no_interval(
    tmp_path: Path, own_writer: Writer, monkeypatch: pytest.MonkeyPatch, jump_s: float
) -> None:
    engine = SavingEngine(tmp_path, Every(seconds=0.5), checked=SOME)
    began, is_set, wall = time.monotonic(), [0.0], time.time
    monkeypatch.setattr(time, "time", lambda: wall() + is_set[0])
    assert not engine.is_due(1)
    is_set[0] = jump_s
    assert not engine.is_due(2) or time.monotonic() - began >= 0.5, "due by a clock that was set"
    time.sleep(0.5)
    assert engine.is_due(3)
    for number in (1, 2, 3):
        take(engine, number)
        engine.drain()
        newest_one = max(tmp_path.glob("gen-*"), key=lambda path: path.name)
        os.utime(newest_one, (wall() - number * jump_s, wall() - number * jump_s))  # files are older than those before
    assert [path.name for path in on_shelf(tmp_path)] == [name_of(3), name_of(2)]
    assert load(newest(tmp_path))["number"] == 3
    assert next_number([tmp_path]) == 4
