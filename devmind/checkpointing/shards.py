"""A generation written by several processes, each its own part of every tensor (`torch.distributed.checkpoint`).

`NAME/shard-*.safetensors` have the parts, and the manifest names these files with sizes and checksums. It comes to the
disk as any other generation: under another name until all of it is synced, renamed by rank 0, copied to the backup,
and only then an older one retires. It is read as a whole, by any number of processes.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Tensor
from torch.distributed.tensor import DTensor

from devmind.checkpointing.files import refusal
from devmind.checkpointing.folders import INCOMPLETE, write_whole
from devmind.checkpointing.generations import retire, write_manifest
from devmind.checkpointing.lock import lock_folder
from devmind.checkpointing.nested import split_tensors
from devmind.errors import CheckpointError, ConfigError, DevmindError

PATIENCE_S = 60.0


def write_shards(
    folder: Path, backup: Path | None, state: Any, about: Mapping[str, Any], checked: str = "state/agent/"
) -> None:
    """Write the generation `folder` and its copy on the shelf `backup`; all processes call it with the same arguments.

    Tensors that are no DTensor are alike in all processes; of the tree, that of rank 0 is written.

    Raises:
        CheckpointError: the disk refuses, here or at another process.
        ConfigError: a tensor whose name begins with `checked` is not finite; nothing is written.
    """
    tree, tensors = split_tensors(state)
    broken = [name for name, one in tensors.items() if name.startswith(checked) and not _is_finite(one)]
    _agree(ConfigError(f"{', '.join(broken[:3])} of '{about['lesson']}' are NaN or infinite.") if broken else None)
    incomplete = folder.with_name(folder.name + INCOMPLETE)
    with ExitStack() as opened:
        _lead(lambda: opened.enter_context(lock_folder(folder.parent, PATIENCE_S)))
        _lead(lambda: opened.enter_context(write_whole(folder)))
        _try(lambda: _write_parts(incomplete, tensors))
        _lead(lambda: write_manifest(incomplete, about, tree))
        _lead(opened.close)  # synced and renamed
    _lead(lambda: _back_up(folder, backup))


def _is_finite(tensor: Tensor) -> bool:
    numbers = tensor.to_local() if isinstance(tensor, DTensor) else tensor
    return not numbers.is_floating_point() or bool(torch.isfinite(numbers).all())


def _write_parts(folder: Path, tensors: Mapping[str, Tensor]) -> None:
    logging.getLogger("torch.distributed.checkpoint").setLevel(logging.ERROR)
    writer = dcp.HuggingFaceStorageWriter(str(folder), save_distributed=True)
    try:
        dcp.save(dict(tensors), storage_writer=writer)
    except dcp.api.CheckpointException as error:
        for fault, _ in error.failures.values():  # of whichever process
            if isinstance(fault, OSError):
                raise refusal(fault, folder) from error
        raise CheckpointError(f"Cannot write {folder}: {' '.join(str(error).split())[-200:]}.") from error


def _back_up(folder: Path, backup: Path | None) -> None:
    if backup is not None:
        with lock_folder(backup, PATIENCE_S), write_whole(backup / folder.name) as incomplete:
            for path in folder.iterdir():
                shutil.copyfile(path, incomplete / path.name)
        retire(backup)
    with lock_folder(folder.parent, PATIENCE_S):
        retire(folder.parent)


def _lead(act: Callable[[], Any]) -> None:
    """Do it at rank 0 alone; if it fails, it fails for all."""
    _try(act if dist.get_rank() == 0 else lambda: None)


def _try(act: Callable[[], Any]) -> None:
    fault: DevmindError | None = None
    try:
        act()
    except DevmindError as error:
        fault = error
    _agree(fault)


def _agree(fault: DevmindError | None = None) -> None:
    """Go on if no process has a fault; all call it together."""
    found = torch.tensor([0 if fault is None else 2 if isinstance(fault, ConfigError) else 1])
    dist.all_reduce(found, dist.ReduceOp.MAX)
    if fault is not None:
        raise fault
    if found.item():
        raise (ConfigError if found.item() == 2 else CheckpointError)("Another process cannot save, and says why.")
