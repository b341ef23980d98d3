"""Saving while an agent learns: a snapshot is copied between two steps, and another process writes it to the disk.

`SavingEngine` has two host buffers in memory that it shares with the writer (`devmind.checkpointing.writer`). One is
being written; the other takes the next snapshot, which waits until the writer is free. If a newer one comes first, it
replaces the one that waits, so that a slow disk delays no step and the disk always gets the newest.
"""

from __future__ import annotations

import json
import mmap
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import torch
from torch import Tensor

from devmind.bounds import parse_json
from devmind.checkpointing.generations import Layout, name_of, next_number, write
from devmind.checkpointing.nested import split_tensors
from devmind.checkpointing.writer import Order, carry_out
from devmind.errors import CheckpointError, ConfigError

GRACE_S = 60.0
"""Seconds for which a lesson goes on although nothing can be saved, so that a person can make room on the disk."""
RETRY_S = 1.0
OTHERS_WRITE = os.name == "posix"
"""On Windows no process inherits descriptors, so a lesson waits for its disk."""
PAUSES = 33
"""Saving continuously, a snapshot that took s seconds is followed by so many s seconds without one: 3 % are lost."""
_NAMED = (
    "bool:BOOL uint8:U8 int8:I8 float8_e4m3fn:F8_E4M3 float8_e5m2:F8_E5M2 int16:I16 uint16:U16 float16:F16 "
    "bfloat16:BF16 int32:I32 uint32:U32 float32:F32 float64:F64 int64:I64 uint64:U64 complex64:C64"
)
RESTS = 8
"""Saving continuously, the disk rests for so many times as long as it wrote: that leaves 0.93 of its speed to a loop on
both cores of a virtual machine (docs/log.md, 2026-11-29)."""
KINDS = {getattr(torch, name): kind for name, kind in (pair.split(":") for pair in _NAMED.split())}
"""What safetensors calls types of numbers."""


def _file_in_memory() -> int:
    """The descriptor of a nameless file: unlike shared memory with a name, it is gone with its last process."""
    if sys.platform == "linux":
        return os.memfd_create("devmind")
    descriptor, path = tempfile.mkstemp()
    os.unlink(path)
    return descriptor


class HostBuffer:
    """Memory that holds one snapshot; it is kept for the next one, and grows if that is larger.

    Args:
        shared: another process can map it by `descriptor`.
    """

    def __init__(self, shared: bool = False) -> None:
        self.descriptor = -1
        if shared:
            self.descriptor = _file_in_memory()
        self.layout: Layout | None = None
        self._views, self._size = list[Tensor](), 0
        self._stream: torch.Stream | None = None
        self._copied: torch.Event | None = None
        self._unpin: Callable[[], object] = lambda: None

    def take(self, state: Any) -> tuple[Any, Layout]:
        """Copy the tensors of `state`; returns its tree, and how its tensors lie in `numbers` once `wait` returns.

        Raises:
            CheckpointError: the state holds something that cannot be saved.
        """
        tree, tensors = split_tensors(state)
        for name, tensor in tensors.items():
            if tensor.dtype not in KINDS:
                raise CheckpointError(f"Cannot save {name}: no file of tensors holds numbers of type {tensor.dtype}.")
        ordered = sorted(tensors.items(), key=lambda item: -item[1].itemsize)
        layout = Layout(tuple((name, KINDS[tensor.dtype], tuple(tensor.shape)) for name, tensor in ordered))
        sources = [tensor for _, tensor in ordered]
        if layout != self.layout:
            self._fit(layout, sources)
        self._copy(sources)
        return tree, layout

    def _fit(self, layout: Layout, sources: list[Tensor]) -> None:
        if layout.size_bytes > self._size or not self._size:
            self._size = max(1, -(-layout.size_bytes // mmap.PAGESIZE)) * mmap.PAGESIZE
            self._unpin()
            if self.descriptor >= 0:
                os.ftruncate(self.descriptor, self._size)
            self.numbers = memoryview(mmap.mmap(self.descriptor, self._size))
            self._whole = torch.frombuffer(self.numbers, dtype=torch.uint8).zero_()  # touched once: its pages exist
            self._pin(sources)
        self.layout = layout
        self._views = [
            self._whole[begin:end].view(source.dtype).view(source.shape)
            for source, (_, begin, end) in zip(sources, layout.places(), strict=True)
        ]

    def _pin(self, sources: list[Tensor]) -> None:
        """Lock the pages in memory, so that a GPU copies to them by itself; of other accelerators the CPU copies."""
        gpu = next((source.device for source in sources if source.device.type != "cpu"), None)
        with suppress(AttributeError):  # these have no such runtime
            if gpu is not None:
                runtime, begin = torch.get_device_module(gpu).cudart(), self._whole.data_ptr()
                runtime.cudaHostRegister(begin, self._size, 0)
                self._stream, self._unpin = torch.Stream(gpu), partial(runtime.cudaHostUnregister, begin)

    def _copy(self, sources: list[Tensor]) -> None:
        if not sources:
            return
        if self._stream is None:
            torch._foreach_copy_(self._views, sources)
            return
        # On a stream of its own; the next step waits on the device, not here, until the numbers have been read.
        steps = torch.accelerator.current_stream(self._stream.device)
        self._stream.wait_stream(steps)
        with self._stream:
            for view, source in zip(self._views, sources, strict=True):
                view.copy_(source, non_blocking=True)
        self._copied = self._stream.record_event()
        steps.wait_event(self._copied)

    @property
    def is_copied(self) -> bool:
        """Whether all numbers have arrived; always on a CPU."""
        return self._copied is None or self._copied.query()

    def wait(self) -> None:
        """Return when all numbers have arrived."""
        if self._copied is not None:
            self._copied.synchronize()


def save(folder: Path, state: Any, about: Mapping[str, Any] | None = None) -> Path:
    """Save `state` (see `nested.split_tensors` for what it may hold) as the generation `folder`, and return after it is
    on the disk; an older one of that name is replaced.

    Raises:
        CheckpointError: the state holds something that cannot be saved, or the disk refuses; nothing is left behind.
    """
    buffer = HostBuffer()
    tree, layout = buffer.take(state)
    buffer.wait()
    write(Path(folder), about or {}, tree, layout, buffer.numbers)
    return Path(folder)


class Writer:
    """The writing process, and the two buffers that it shares with this one. It is kept from one lesson to the next."""

    _kept: ClassVar[Writer | None] = None

    def __init__(self) -> None:
        self.buffers = [HostBuffer(shared=OTHERS_WRITE), HostBuffer(shared=OTHERS_WRITE)]
        self.owner = os.getpid()
        self._process: subprocess.Popen[bytes] | None = None
        self._answers: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()

    @classmethod
    def of_this_process(cls) -> Writer:
        """The writer of this process; a forked one gets its own."""
        if cls._kept is None or cls._kept.owner != os.getpid():
            cls._kept = cls()
        return cls._kept

    @property
    def runs(self) -> bool:
        """Whether the process was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def order(self, order: Order) -> None:
        """Let the process carry out an order; it is started if it does not run."""
        text = json.dumps(vars(order), allow_nan=False)
        try:
            if not self.runs:
                self._start()
        except OSError as error:
            self._answers.put({"error": f"The process that writes checkpoints cannot be started: {error.strerror}."})
            return
        assert self._process is not None
        assert self._process.stdin is not None
        with suppress(OSError):  # it has just ended, and `_listen` tells that
            self._process.stdin.write(text.encode() + b"\n")
            self._process.stdin.flush()

    def carry_out(self, order: Order) -> None:
        """Carry out an order in this process."""
        self._answers.put(carry_out(order, self.buffers[order.memory].numbers, set()))

    def answer(self, timeout_s: float = 0.0) -> dict[str, Any] | None:
        """The answer to an order; None if there is none by then."""
        try:
            return self._answers.get(timeout=timeout_s) if timeout_s else self._answers.get_nowait()
        except queue.Empty:
            return None

    def stop(self) -> None:
        """End the process at once; what it had in hand is lost."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._process, self._answers = None, queue.SimpleQueue()

    def _start(self) -> None:
        files = [buffer.descriptor for buffer in self.buffers]
        self._answers = queue.SimpleQueue()  # without the end of the one before
        self._process = subprocess.Popen(
            [sys.executable, "-m", "devmind.checkpointing.writer", *map(str, files)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=files,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        threading.Thread(target=self._listen, args=(self._process, self._answers), daemon=True).start()

    @staticmethod
    def _listen(process: subprocess.Popen[bytes], answers: queue.SimpleQueue[dict[str, Any]]) -> None:
        for line in process.stdout or ():
            answers.put(parse_json(line, CheckpointError, "This is no answer of a writer ({})."))
        code = process.wait()
        answers.put({"error": f"The process that writes checkpoints has ended (exit code {code}); it is started anew."})


class Every(NamedTuple):
    """How often is saved: after so many updates, after so many seconds, or with neither continuously."""

    updates: int = 0
    seconds: float = 0.0


class Saved(NamedTuple):
    """A generation that is on the disk: its name, and of what it is the state."""

    name: str
    about: Mapping[str, Any]


class SavingEngine:
    """Saves the states of one lesson, newest first, on a shelf of generations.

    Used as a block: at its end, what waits is written.

    Args:
        backup: a second shelf, on another disk.
        saved: is told when a generation is on the disk.
        failed: is told at once when one could not be written.
        checked: beginning of the names of tensors without which nothing may be saved unless they are finite.

    Attributes:
        number: of the next generation.
        count, skipped: generations written; snapshots that were replaced by a newer one before that.
        stalled_s, host_s, disk_s: seconds for which learning stood still, of the writer's checksums, and of the disk.
    """

    def __init__(
        self,
        shelf: Path,
        every: Every,
        backup: Path | None = None,
        *,
        saved: Callable[[Saved], None] = lambda saved: None,
        failed: Callable[[str], None] = lambda sentence: None,
        checked: str = "state/agent/",
    ) -> None:
        # The writer may have been started in another working folder.
        self.shelf, self.backup = Path(shelf).absolute(), backup and Path(backup).absolute()
        self.every, self.checked = every, checked
        self._saved, self._failed = saved, failed
        self.count = self.skipped = 0
        self.stalled_s = self.host_s = self.disk_s = 0.0
        self.number = next_number([self.shelf, *([backup] if backup else [])])
        self._writer = Writer.of_this_process()
        self._writing: Order | None = None
        self._waiting: Order | None = None
        self._taken_s, self._taken_at, self._pause_s = time.monotonic(), 0, 0.0
        self._failing_s: float | None = None
        self._retry_s = 0.0

    def __enter__(self) -> Self:
        self._began_s = time.monotonic()
        return self

    def busy(self) -> dict[str, float]:
        """Shares of the time since the block began: of checksums by the writer ('host'), of writing ('disk'), and how
        long learning stood still for both ('stalled').
        """
        whole = max(1e-9, time.monotonic() - self._began_s)
        spent = {"host": self.host_s, "disk": self.disk_s, "stalled": self.stalled_s}
        return {name: round(min(1.0, seconds / whole), 4) for name, seconds in spent.items()}

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        try:
            self.drain()
        except (CheckpointError, ConfigError):
            if kind is None:
                raise
        finally:
            if self._writing:  # asked to stop while it waited: a later lesson must not get its answer
                self._writer.stop()

    def is_due(self, update: int) -> bool:
        """Whether a snapshot is to be taken after `update`; cheap, and to be called between any two steps.

        Raises:
            CheckpointError: nothing could be saved for too long.
            ConfigError: what was to be saved is not finite.
        """
        self._collect()
        now = time.monotonic()
        if self.every.updates:
            return update - self._taken_at >= self.every.updates
        if self.every.seconds:
            return now - self._taken_s >= self.every.seconds
        return self._writing is None and now - self._taken_s >= self._pause_s and now >= self._retry_s

    def snapshot(self, state: Any, about: Mapping[str, Any]) -> None:
        """Copy `state`, which is written as soon as the writer is free."""
        self._take(state, about)
        self._collect()

    def _take(self, state: Any, about: Mapping[str, Any]) -> None:
        begun = time.monotonic()
        if self._waiting:
            self.skipped += 1
        memory = 1 - self._writing.memory if self._writing else 0
        tree, layout = self._writer.buffers[memory].take(state)
        backup = str(self.backup) if self.backup else None
        tensors = [(name, kind, list(shape)) for name, kind, shape in layout.tensors]
        self._waiting = Order(memory, str(self.shelf), backup, self.number, dict(about), tree, tensors, self.checked)
        self._taken_s, self._taken_at = time.monotonic(), int(about.get("updates", 0))
        self._pause_s = PAUSES * (self._taken_s - begun)
        self.stalled_s += self._taken_s - begun

    @contextmanager
    def writing_itself(self, about: Mapping[str, Any]) -> Iterator[None]:
        """The block writes generation `number` of this shelf while learning stands still."""
        self._taken_s, self._taken_at = time.monotonic(), int(about.get("updates", 0))
        yield
        took = time.monotonic() - self._taken_s
        self._taken_s, self._pause_s = time.monotonic(), PAUSES * took
        self.disk_s, self.stalled_s, self.count = self.disk_s + took, self.stalled_s + took, self.count + 1
        self._saved(Saved(name_of(self.number), about))
        self.number += 1

    def finish(self, state: Any, about: Mapping[str, Any]) -> None:
        """Save `state`, the last one, and return after it is on the disk."""
        self.drain()
        self._take(state, about)
        self.drain()

    def drain(self) -> None:
        """Return when everything that was taken is on the disk.

        Raises:
            CheckpointError, ConfigError: as `is_due`.
        """
        begun = time.monotonic()
        while self._writing or self._waiting:
            self._collect(wait=True)
        self.stalled_s += time.monotonic() - begun

    def _collect(self, wait: bool = False) -> None:
        """Read the writer's answer, and give it what waits."""
        if self._writing and (answer := self._writer.answer(0.2 * wait)):
            done, self._writing = self._writing, None
            self._heed(answer, done)
        now = time.monotonic()
        if self._failing_s is not None and now - self._failing_s > GRACE_S:
            self._writing = self._waiting = None
            raise CheckpointError(f"Nothing could be saved for {GRACE_S:.0f} s: {self._fault}")
        if self._writing or self._waiting is None:
            return
        if now < self._retry_s:
            time.sleep(0.05 * wait)
            return
        buffer = self._writer.buffers[self._waiting.memory]
        if wait:
            buffer.wait()
        if buffer.is_copied:
            self._begin(self._waiting, by_process=not wait or self._writer.runs)

    def _begin(self, order: Order, by_process: bool) -> None:
        self._writing, self._waiting = order, None
        self.number += 1
        # A lesson that ends before its first snapshot needs no process.
        if by_process and OTHERS_WRITE:
            self._writer.order(order)
        else:
            self._writer.carry_out(order)

    def _heed(self, answer: Mapping[str, Any], order: Order) -> None:
        self.host_s += answer.get("host_s", 0.0)
        self.disk_s += answer.get("disk_s", 0.0)
        if broken := answer.get("broken"):
            self._waiting = None
            about = order.about
            raise ConfigError(
                f"The lesson '{about['lesson']}' has made NaN or infinite numbers of {', '.join(broken[:3])} by step "
                f"{about['step']:,} of {about['steps']:,}, which was not saved. Lower its learning rate "
                f"(lessons.{about['lesson']}.learning_rate), or mend its loss."
            )
        if name := answer.get("name"):
            self.count += 1
            wrote_s = answer["host_s"] + answer["disk_s"]
            self._pause_s = max(self._pause_s, time.monotonic() - self._taken_s + RESTS * wrote_s)
            self._saved(Saved(name, order.about))
        if fault := answer.get("error"):
            now = time.monotonic()
            self._failing_s = now if self._failing_s is None else self._failing_s
            self._fault, self._retry_s = fault, now + RETRY_S
            self._failed(fault)
            self._waiting = self._waiting or order  # it is still in its buffer
        else:
            self._failing_s = None
