"""A generation that two processes write together is whole or not there, wherever one of them is killed."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed.tensor import Shard, distribute_tensor

from devmind.checkpointing import shards
from devmind.checkpointing.generations import SHARDS, is_whole, load, name_of, newest, on_shelf, verify
from devmind.checkpointing.shards import write_shards
from devmind.errors import CheckpointError, ConfigError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks")
REFUSED, FAILED = 4, 5
WHOLE = torch.arange(10.0).reshape(5, 2)


def state(number: int, value: float = 0.0) -> dict[str, Any]:
    mesh = dist.init_device_mesh("cpu", (2,))
    cut = distribute_tensor(WHOLE + number + value, mesh, [Shard(0)], src_data_rank=None)
    return {"agent": {"w": cut, "b": torch.full((3,), number, dtype=torch.bfloat16)}, "step": torch.tensor(number)}


def count_points(act: Callable[[int], None]) -> None:
    """Call `act` with a rising number where ranks agree, and before and behind whatever changes a disk."""
    seen = 0

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **more: Any) -> Any:
            nonlocal seen
            act(seen)
            seen += 1
            found = function(*given, **more)
            act(seen)
            seen += 1
            return found

        return call

    shards._agree = counted(shards._agree)
    for name in ("fsync", "rename", "mkdir", "rmdir"):
        setattr(os, name, counted(getattr(os, name)))


def write(folder: Path, rank: int, act: Callable[[int], None] | None, value: float) -> int:
    """As one of two ranks write the first generation, and then the second, in which `act` is called."""
    signal.alarm(100)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    write_shards(folder / "s" / name_of(1), folder / "b", state(1), {"lesson": "one", "updates": 1})
    try:
        if act:
            count_points(act)
        write_shards(folder / "s" / name_of(2), folder / "b", state(2, value), {"lesson": "one", "updates": 2})
    except (ConfigError, CheckpointError) as error:
        (folder / f"said-{rank}").write_text(str(error))
        return REFUSED
    except RuntimeError:  # of gloo, since the other is gone
        return FAILED
    return 0


def together(
    folder: Path, act: Callable[[int], None] | None = None, rank: int = 0, value: float = 0.0, set_up: Any = None
) -> list[int]:
    """How two ranks ended that do `write`; `act` is called in `rank`. They are forked, since torch loads slowly."""
    (folder / "b").mkdir(parents=True, exist_ok=True)
    (folder / "store").unlink(missing_ok=True)
    children = []
    for number in range(2):
        child = os.fork()
        if child == 0:
            code = 99
            try:
                if set_up:
                    set_up()
                code = write(folder, number, act if number == rank else None, value if number == rank else 0.0)
            finally:
                os._exit(code)
        children.append(child)
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


def check(folder: Path, number: int) -> None:
    found = load(folder / name_of(number))
    assert torch.equal(found["agent"]["w"], WHOLE + number)
    assert found["agent"]["w"].dtype == torch.float32
    assert torch.equal(found["agent"]["b"], torch.full((3,), number, dtype=torch.bfloat16))
    assert found["step"].shape == ()


def test_parts_are_read_as_a_whole_by_one_process_and_damage_is_seen(tmp_path: Path) -> None:
    assert together(tmp_path) == [0, 0]
    for shelf in (tmp_path / "s", tmp_path / "b"):
        assert [path.name for path in on_shelf(shelf)] == [name_of(2), name_of(1)]
        check(shelf, 2)
    every = sorted((tmp_path / "s" / name_of(2)).glob(SHARDS))
    assert len(every) == 2
    for path in every:
        content = path.read_bytes()
        for at in range(0, len(content), 7):
            path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
            with pytest.raises(CheckpointError, match="is missing or damaged; use an older one"):
                verify(path.parent)
        path.write_bytes(content)
    every[1].unlink()
    said: list[str] = []
    assert newest(tmp_path / "s", tmp_path / "b", said.append) == tmp_path / "b" / name_of(2)
    assert "is missing or damaged" in said[0]


def test_numbers_that_are_not_finite_in_one_part_are_written_by_nobody(tmp_path: Path) -> None:
    assert together(tmp_path, rank=1, value=float("nan")) == [REFUSED, REFUSED]
    assert [path.name for path in on_shelf(tmp_path / "s")] == [name_of(1)]


def test_disk_that_refuses_one_rank_is_told_by_all(tmp_path: Path) -> None:
    def full(number: int) -> None:
        raise OSError(28, os.strerror(28))

    def no_room(number: int) -> None:
        if number == 6:
            os.fsync = full

    assert together(tmp_path, no_room) == [REFUSED, REFUSED]
    assert "disk is full" in (tmp_path / "said-0").read_text() + (tmp_path / "said-1").read_text()
    check(tmp_path / "s", 1)
    assert not list((tmp_path / "s").glob("*.incomplete"))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("rank", [0, 1])
def test_rank_killed_at_any_point_leaves_a_whole_generation(tmp_path: Path, rank: int) -> None:
    points = tmp_path / "points"
    assert together(tmp_path / "counted", lambda number: points.write_text(str(number)), rank) == [0, 0]
    last = int(points.read_text())
    assert last > (20 if rank == 0 else 10)
    for at in range(last + 1):
        folder = tmp_path / str(at)
        codes = together(folder, lambda number, at=at: os.kill(os.getpid(), 9) if number == at else None, rank)
        assert codes[rank] == -9
        assert codes[1 - rank] in (0, FAILED, REFUSED), f"the other rank does not end by itself at {at}"
        for shelf in (folder / "s", folder / "b"):
            whole = [path for path in on_shelf(shelf) if is_whole(path)]
            assert whole == on_shelf(shelf), f"half a generation has its name, killed at {at}"
            assert whole, f"nothing is left, killed at {at}"
            check(shelf, int(whole[0].name[-1]))
        assert together(folder) == [0, 0], f"it does not go on behind {at}"
        check(folder / "b", 2)
        shutil.rmtree(folder)
    print(f"{last + 1} points of rank {rank} held")
