"""One training in several processes (ranks): on one machine by `--devices`, on several ones by torchrun.

Rank 0 is the run: it alone writes, examines and decides. The others follow it: they are told of each lesson, make
batches of their own, and average gradients with it by Lightning's DDP. So a step of N ranks is a step on a batch N
times as large. What is not learned by gradient in this way (`Learner.distributes`) rank 0 teaches alone.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from devmind.agent.threads import cores
from devmind.bounds import parse_json, printable
from devmind.checkpointing.files import make_folder
from devmind.errors import CheckpointError, ConfigError

STORE = "DEVMIND_RANKS"
"""The file by which processes of one machine find each other; Lightning's own variables say who is who."""
ENDS = "DEVMIND_ENDS_WITH_STDIN"
"""Environment variable of a process that must not outlive the one that started it."""
PATIENCE = timedelta(days=30)
"""Others wait while rank 0 examines, however long that takes; a process that ends is noticed at once."""
JOINING_S = 120.0
"""Seconds in which all processes must have begun; torch itself would wait for half an hour."""
ENDING_S = 10.0
_waiting: list[dist.ProcessGroup] = []


def rank() -> int:
    """The number of this process; 0 if it is the only one."""
    return dist.get_rank() if _waiting else 0


def world() -> int:
    """The number of processes that teach together."""
    return dist.get_world_size() if _waiting else 1


def local() -> int:
    """How many of them are on this machine."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", "1")) if _waiting else 1


def threads() -> int | None:
    """Threads of each process, if there are several on this machine; None: as many as there are cores."""
    return max(1, cores() // local()) if world() > 1 else None


@contextmanager
def joined(devices: int, folder: Path) -> Iterator[None]:
    """Begin `devices` - 1 further processes of the same command, or join those that torchrun has begun, for the block.

    Args:
        folder: of the run; what the further processes print is written below it.

    Raises:
        CheckpointError: one of the processes has ended.
        ConfigError: one of them has ended, or has not come, before they had all joined.
    """
    by_torchrun, begun = _is_by_torchrun(), list[subprocess.Popen[bytes]]()
    if _waiting or (devices == 1 and not by_torchrun):
        yield
        return
    if devices > 1 and by_torchrun and STORE not in os.environ:
        raise ConfigError("torchrun says how many processes there are; leave out --devices.")
    before = dict(os.environ)
    try:
        if not by_torchrun:
            begun += _begin(devices, folder)
        _join(begun, folder / "ranks")
        yield
    except RuntimeError as error:
        if "gloo" not in str(error).lower() and not isinstance(error, dist.DistError):
            raise
        raise CheckpointError(
            "Another process of this training has ended, so it cannot go on; what was saved stays, and the same "
            f"command continues from there. What it said: {folder / 'ranks'}."
        ) from error
    else:
        for one in begun:  # they have been told of the end
            with suppress(subprocess.TimeoutExpired):
                one.wait(ENDING_S)
    finally:
        _waiting.clear()
        if dist.is_initialized():
            dist.destroy_process_group()
        for one in begun:
            one.terminate()
        for one in begun:
            one.wait()
        if begun:
            shutil.rmtree(Path(os.environ[STORE]).parent, ignore_errors=True)
        for name in set(os.environ) - set(before):
            del os.environ[name]


def _is_by_torchrun() -> bool:
    return "RANK" in os.environ and "WORLD_SIZE" in os.environ


def _begin(devices: int, folder: Path) -> list[subprocess.Popen[bytes]]:
    """Begin the other processes; they end with this one."""
    make_folder(folder / "ranks")
    # A file, not a port: nothing listens beyond this machine.
    found = {STORE: tempfile.mkdtemp(prefix="devmind-ranks-") + "/store", "LOCAL_WORLD_SIZE": str(devices)}
    found |= {"WORLD_SIZE": str(devices), "NODE_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    found |= {"GLOO_SOCKET_IFNAME": next(name for _, name in socket.if_nameindex() if name.startswith("lo"))}
    os.environ |= {**found, "RANK": "0", "LOCAL_RANK": "0"}
    return [_begin_one(number, folder / "ranks" / f"{number}.log") for number in range(1, devices)]


def _begin_one(number: int, log: Path) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "RANK": str(number), "LOCAL_RANK": str(number), ENDS: "1"}
    command = [sys.executable, *sys.orig_argv[1:]]
    with open(log, "wb") as file:
        return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=file, stderr=file)


def _join(begun: Sequence[subprocess.Popen[bytes]], logs: Path) -> None:
    if torch.accelerator.is_available():
        torch.accelerator.set_device_index(int(os.environ.get("LOCAL_RANK", "0")))
    end_with_parent()
    number, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    place = f"file://{os.environ[STORE]}?rank={number}&world_size={size}" if STORE in os.environ else "env://"
    store, number, size = next(dist.rendezvous(place, timeout=timedelta(seconds=JOINING_S)))
    _wait_for_all(store, number, size, begun, logs)
    dist.init_process_group(store=store, rank=number, world_size=size)
    _waiting.append(dist.new_group(backend="gloo", timeout=PATIENCE))


def _wait_for_all(
    store: dist.Store, number: int, size: int, begun: Sequence[subprocess.Popen[bytes]], logs: Path
) -> None:
    """Wait until all processes have come to the meeting point, watching those that this one has begun.

    Raises:
        ConfigError: one of them has ended, or time is up.
    """
    store.set(f"devmind/{number}", "here")
    until, missing = time.monotonic() + JOINING_S, list(range(size))
    while missing := [other for other in missing if not store.check([f"devmind/{other}"])]:
        for other in missing:
            code = begun[other - 1].poll() if 0 < other <= len(begun) else None
            if code is not None:
                said = _last_words(logs / f"{other}.log")
                raise ConfigError(
                    f"Process {other} of this training ended (exit code {code}) before it had joined: {said}"
                )
        if time.monotonic() > until:
            raise ConfigError(
                f"After {JOINING_S:.0f} s {len(missing)} of {size} processes of this training have not joined; look at "
                f"{logs}, and begin fewer, or on machines that all see {logs.parent}."
            )
        time.sleep(0.05)


def _last_words(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines() if log.is_file() else []
    return printable(lines[-1]) if lines else f"it said nothing in {log}."


def send(job: Mapping[str, Any]) -> None:
    """Rank 0 tells the others what to do; an empty job is the end."""
    if world() > 1:
        text = torch.frombuffer(bytearray(json.dumps(job).encode()), dtype=torch.uint8)
        dist.broadcast(torch.tensor([len(text)]), 0, group=_waiting[0])
        dist.broadcast(text, 0, group=_waiting[0])


def receive() -> dict[str, Any]:
    """What rank 0 sends next."""
    length = torch.zeros(1, dtype=torch.int64)
    dist.broadcast(length, 0, group=_waiting[0])
    text = torch.empty(int(length), dtype=torch.uint8)
    dist.broadcast(text, 0, group=_waiting[0])
    job: dict[str, Any] = parse_json(text.numpy().tobytes(), CheckpointError, "Rank 0 sent no job ({}).")
    return job


def most(number: int) -> int:
    """The largest of all ranks' numbers; all ranks call it together."""
    if world() == 1:
        return number
    found = torch.tensor([number])
    dist.all_reduce(found, dist.ReduceOp.MAX, group=_waiting[0])
    return int(found)


def end_with_parent() -> None:
    """If the process was started with `ENDS`, end it when stdin ends, a pipe to which nobody writes."""
    if os.environ.get(ENDS):
        threading.Thread(target=_wait_for_the_end, daemon=True).start()


def _wait_for_the_end() -> None:
    while os.read(0, 1024):  # not sys.stdin, whose lock a thread must not hold when the interpreter ends
        pass
    os._exit(130)
