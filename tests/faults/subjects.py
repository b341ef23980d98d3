"""Operations on a disk, and what must hold after any fault: the last good state or one clear error."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from devmind.acting.standing import read_results
from devmind.agent.agent import Agent
from devmind.agent.saving import seal
from devmind.checkpointing import engine, generations
from devmind.checkpointing.files import write_atomically
from devmind.config import load
from devmind.curriculum import childhood, runner, stage_run
from devmind.curriculum.journal import Journal
from devmind.errors import CheckpointError, SessionError
from devmind.memory import Filters, Key, Memory, open_store
from devmind.moment import Moment, same_arrays
from devmind.sessions import parts, repair, replay
from devmind.sessions.reader import Session
from devmind.sessions.recorder import Recorder
from devmind.testing import tiny_agent
from tests import unmeasured
from tests.curriculum.lamp_stage import LampStage
from tests.memory.untold import untold

Acked = Callable[[], None]
"""Called when data is promised to be on the disk."""


class Subject:
    """One operation; all its files are in `folder`. Every `stride`-th call is tried."""

    stride = 1

    def prepare(self, folder: Path) -> None:
        """Make the state before the operation."""

    def act(self, folder: Path, acked: Acked) -> None:
        """Run the operation."""
        raise NotImplementedError

    def check(self, folder: Path, acks: int) -> None:
        """Fail if the files break one of the `acks` promises that were made."""
        raise NotImplementedError

    def again(self, folder: Path) -> int:
        """Run the operation again without a fault; return the number of promises that `check` may require."""
        made: list[int] = []
        self.act(folder, lambda: made.append(1))
        return len(made)


def state(number: int) -> dict[str, Any]:
    return {"number": number, "w": torch.full((64, 64), float(number)), "spread": [{"m": torch.ones(3)}, (1, None)]}


class Checkpoint(Subject):
    """A generation beside two earlier ones; the oldest is retired."""

    names = ("gen-00000001", "gen-00000002", "gen-00000003")

    def prepare(self, folder: Path) -> None:
        for number, name in enumerate(self.names[:2]):
            engine.save(folder / name, state(number))

    def act(self, folder: Path, acked: Acked) -> None:
        engine.save(folder / self.names[2], state(2))
        acked()
        generations.retire(folder, keep=2)

    def check(self, folder: Path, acks: int) -> None:
        newest = generations.newest(folder)
        assert newest is not None, "no checkpoint is left"
        found = generations.load(newest)
        assert found["number"] >= 1 + acks, f"checkpoint {found['number']} is the newest"
        assert torch.equal(found["w"], state(found["number"])["w"])


class SameCheckpoint(Checkpoint):
    """A bundle that replaces the only one, under the same name."""

    names = ("last", "last", "last")


class SavedAgent(Subject):
    """An agent with results replaces an older one: the old one whole, the new one whole, or a clear error."""

    def prepare(self, folder: Path) -> None:
        tiny_agent().save_pretrained(folder / "agent")
        seal(folder / "agent", "results.json", b'{"verdict": {"passed": false}}')

    def act(self, folder: Path, acked: Acked) -> None:
        agent = tiny_agent()
        with torch.no_grad():
            next(agent.parameters()).add_(1.0)
        agent.save_pretrained(folder / "agent")
        seal(folder / "agent", "results.json", b'{"verdict": {"passed": true}}')
        acked()

    def check(self, folder: Path, acks: int) -> None:
        try:
            agent, results = Agent.from_pretrained(folder / "agent"), read_results(folder / "agent")
        except CheckpointError:
            assert not acks
            return
        old = agent.sha256() == tiny_agent().sha256()
        assert results in ({"verdict": {"passed": not old}}, None), "an agent with the other one's verdict"
        assert not (acks and (old or results is None))


class AtomicFile(Subject):
    """A report."""

    def prepare(self, folder: Path) -> None:
        write_atomically(folder / "results.json", "old" * 5000)

    def act(self, folder: Path, acked: Acked) -> None:
        write_atomically(folder / "results.json", "new" * 5000)
        acked()

    def check(self, folder: Path, acks: int) -> None:
        assert (folder / "results.json").read_text() in ["new" * 5000] + ["old" * 5000] * (not acks)


class Events(Subject):
    """A journal: it can always be read and continued."""

    def prepare(self, folder: Path) -> None:
        Journal(folder / "journal.jsonl").write("start", number=-1)

    def act(self, folder: Path, acked: Acked) -> None:
        journal = Journal(folder / "journal.jsonl")
        for number in range(3):
            journal.write("progress", number=number)
            acked()

    def check(self, folder: Path, acks: int) -> None:
        numbers = [event["number"] for event in Journal(folder / "journal.jsonl").events()]
        assert numbers[0] == -1
        assert len(numbers) > acks, f"{acks} events were promised, {len(numbers) - 1} are there"


def moment(number: int) -> Moment:
    sight = np.random.default_rng(number).integers(0, 256, (16, 16, 3), dtype=np.uint8)
    return Moment(number / 10, {"sight": sight, "words": f"said {number}"}, first=number == 0)


def check_ticks(path: Path, acks: int) -> None:
    try:
        found = [step[0] for step in replay(path)]
    except SessionError:
        if acks:
            raise
        return
    assert len(found) >= acks, f"{acks} ticks were promised, {len(found)} are there"
    for number, there in enumerate(found):
        assert same_arrays(there.senses, moment(number).senses)


class Recording(Subject):
    """A recording over three files; each tick is promised after its flush."""

    def act(self, folder: Path, acked: Acked) -> None:
        with Recorder(folder / "life.mcap", source="test", tick_hz=10, rotate_s=0.3, overwrite=True) as recorder:
            for number in range(7):
                recorder.write(moment(number))
                recorder.flush()
                acked()

    def check(self, folder: Path, acks: int) -> None:
        if acks or (folder / "life.mcap").exists():
            check_ticks(folder / "life.mcap", acks)

    def again(self, folder: Path) -> int:
        """Write nothing over the recording; repair what it holds."""
        if not (folder / "life.mcap").exists():
            return 0
        whole = parts(folder / "life.mcap")
        try:
            before = sum(len(Session(part)) for part in whole)
            done = repair(folder / "life.mcap", folder / "mended.mcap", overwrite=True)
        except SessionError:
            return 0
        assert done.ticks == before
        return 0


class Repair(Subject):
    """A repaired copy of a recording of two files: whole or absent."""

    def prepare(self, folder: Path) -> None:
        with Recorder(folder / "life.mcap", source="test", tick_hz=10, rotate_s=0.3) as recorder:
            for number in range(6):
                recorder.write(moment(number))
                recorder.flush()

    def act(self, folder: Path, acked: Acked) -> None:
        repair(folder / "life.mcap", folder / "mended.mcap", overwrite=True)
        acked()

    def check(self, folder: Path, acks: int) -> None:
        check_ticks(folder / "life.mcap", 6)
        mended = folder / "mended.mcap"
        if mended.exists() or acks:
            assert [len(Session(part)) for part in parts(mended)][:1] == [3]
            assert not acks or sum(1 for _ in replay(mended)) == 6


def key(seed: int) -> Key:
    vector = np.random.default_rng(seed).normal(size=64)
    return Key((vector / np.linalg.norm(vector)).astype(np.float32), "a")


class MemoryWrites(Subject):
    """Entries of long-term memory."""

    there = 3

    def prepare(self, folder: Path) -> None:
        with open_store(folder / "memory") as store:
            self.write(Memory(store), range(self.there), lambda: None)

    def write(self, memory: Memory, numbers: range, acked: Acked) -> None:
        for number in numbers:
            memory.write(moment(number), {"sight": key(number)})
            memory.flush()
            acked()

    def act(self, folder: Path, acked: Acked) -> None:
        with open_store(folder / "memory") as store:
            self.write(Memory(store), range(self.there, self.there + 2), acked)

    def check(self, folder: Path, acks: int) -> None:
        found = self.found(folder)
        assert len(found) >= self.there + acks
        assert found[: self.there] == list(range(self.there))

    def found(self, folder: Path) -> list[int]:
        """The numbers of the remembered Moments; each is compared with the one written."""
        with open_store(folder / "memory") as store:
            entries = Memory(store).get([entry.id for entry in store.find()])
        numbers = [int(str(entry.senses["words"]).split()[1]) for entry in entries]
        for number, entry in zip(numbers, entries, strict=True):
            assert same_arrays(entry.senses, moment(number).senses)
        return sorted(numbers)


class MemoryForgets(MemoryWrites):
    """One of four entries is forgotten: it is whole or gone, and gone once that was promised."""

    there = 4

    def act(self, folder: Path, acked: Acked) -> None:
        with open_store(folder / "memory") as store:
            Memory(store).forget(Filters(words="said 1"))
        acked()

    def check(self, folder: Path, acks: int) -> None:
        assert self.found(folder) in [[0, 2, 3]] + [[0, 1, 2, 3]] * (not acks)


class MemoryUntold(MemoryWrites):
    """An entry is written after a killed writer has left a longer transaction at the end of the log.

    The killed writer's entries have times below zero and were promised to nobody: they are there or not.
    """

    def act(self, folder: Path, acked: Acked) -> None:
        place = folder / "memory"
        with open_store(place) as store, open_store(place) as other:
            self.write(Memory(store), range(self.there, self.there + 1), acked)
            (again,) = other.get([1])
            untold(place, lambda: other.add([replace(again, time_s=-1.0)] * 4))
            self.write(Memory(store), range(self.there + 1, self.there + 2), acked)

    def found(self, folder: Path) -> list[int]:
        with open_store(folder / "memory") as store:
            entries = store.find()
        return sorted(int(str(entry.senses["words"]).split()[1]) for entry in entries if entry.time_s >= 0)


LAMPS = {
    "lamps": LampStage(lesson_names=("two",), steps=2),
    "later": LampStage(name="later", requires=("lamps",), lesson_names=("third",), steps=1),
}


class Childhood(Subject):
    """A curriculum of two stages and its last exams, with a checkpoint after every step.

    It ends with one clear error or not at all; the same command goes on, to the weights of an undisturbed one. A point
    takes two seconds.
    """

    stride = 7

    def prepare(self, folder: Path) -> None:
        unmeasured.patched(patch := pytest.MonkeyPatch())
        for module in (runner, stage_run, childhood):
            patch.setattr(module, "load_stage", LAMPS.__getitem__)
        # Another process would have no lamps.
        patch.setattr(childhood, "_in_new_process", runner.examine_childhood)
        with tempfile.TemporaryDirectory() as straight:
            self.act(Path(straight), lambda: None)
            self.wanted = self._weights(Path(straight))

    def act(self, folder: Path, acked: Acked) -> None:
        config = load("tiny", {"checkpoint.every": "1 step", "loggers": (), "threads": 1, "device": "cpu"})
        with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
            runner.Curriculum(["later"], config, folder / "childhood").run()
        acked()

    def check(self, folder: Path, acks: int) -> None:
        out = folder / "childhood"
        for journal in out.rglob("*.jsonl"):
            list(Journal(journal).events())
        if acks:
            assert self._weights(folder) == self.wanted
            assert (out / "childhood.html").is_file()

    def _weights(self, folder: Path) -> list[str]:
        agents = [*(f"{name}/agent" for name in LAMPS), "half"]
        return [Agent.from_pretrained(folder / "childhood" / name).sha256() for name in agents]


SUBJECTS: dict[str, Subject] = {
    "checkpoint": Checkpoint(),
    "same checkpoint": SameCheckpoint(),
    "agent": SavedAgent(),
    "file": AtomicFile(),
    "journal": Events(),
    "recording": Recording(),
    "repair": Repair(),
    "memory": MemoryWrites(),
    "forget": MemoryForgets(),
    "untold": MemoryUntold(),
    "childhood": Childhood(),
}
