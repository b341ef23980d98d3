"""Agents on disk: `config.json`, `model.safetensors` and `checksums.json` in one folder; never pickle.

The checksums have the layout of devmind's other saved folders. A folder may store only the tensors that differ from
those of a folder beside it (`over`), since each agent that comes with the package goes on from an earlier one. A part
whose plugin is missing stays in the config, and its tensors are saved again unchanged.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from devmind import bounds
from devmind.agent.batch import READOUT
from devmind.checkpointing.files import replace_file
from devmind.errors import CheckpointError

FORMAT_VERSION = 1
"""Increased when the previous version cannot read a folder saved by this one."""
MODEL_TYPE = "devmind-agent"
CONFIG, WEIGHTS, CHECKSUMS = "config.json", "model.safetensors", "checksums.json"
OVER = "over"
"""Entry of `checksums.json`: the folder beside this one that has all other tensors, and the SHA-256 of its weights."""


class Saved(Protocol):
    """What is saved: an agent, with its config and the tensors kept for parts whose plugin is missing."""

    config: Any
    kept_tensors: dict[str, Tensor]

    def state_dict(self) -> Mapping[str, Tensor]:
        """All tensors of the parts that were built, by name."""

    def missing_prefixes(self) -> tuple[str, ...]:
        """Prefixes of the saved tensors of parts that were not built."""


def hash_tensors(tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 over names, dtypes, shapes and bytes, independent of order and device."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = _plain(tensors[name])
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def all_tensors(agent: Saved) -> dict[str, Tensor]:
    """All tensors to save: the agent's own, and those kept for parts whose plugin is missing."""
    return {**agent.state_dict(), **agent.kept_tensors}


def _plain(tensor: Tensor) -> Tensor:
    """The tensor on the CPU as its bytes are written: contiguous, with a lazy conjugation or negation carried out."""
    return tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()


def to_save(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copies that safetensors writes as they are: it refuses tied weights, so each name has its own, and the copies of
    a tie agree when they are loaded into it."""
    return {name: _plain(value).clone() for name, value in tensors.items()}


def save(agent: Saved, folder: Path, over: Path | None = None) -> None:
    """Write config, weights and checksums into `folder`, which is made if needed.

    Args:
        over: folder, beside this one, of an agent whose tensors this agent has too; equal tensors are not written.

    Raises:
        CheckpointError: the folder cannot be written; `over` is not beside it, or has tensors that this agent lacks.
    """
    from safetensors.torch import save as to_bytes

    agent.config.architectures = [type(agent).__name__]
    tensors = to_save(all_tensors(agent))
    below: dict[str, Any] = {}
    if over is not None:
        tensors = _differing(tensors, folder, over)
        below = {OVER: {"folder": over.name, "sha256": _weights_sha256(over)}}
    files = {
        WEIGHTS: to_bytes(tensors, metadata={"format": "pt"}),
        CONFIG: agent.config.to_json_string(use_diff=False).encode(),
    }
    sums = {name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in files.items()}
    try:
        for name, data in files.items():
            replace_file(folder / name, data)
        _write_sums(folder, {"files": sums, **below})
    except OSError as error:
        raise CheckpointError(f"The agent cannot be saved in '{folder}': {error.strerror or error}.") from error


def _differing(tensors: Mapping[str, Tensor], folder: Path, over: Path) -> dict[str, Tensor]:
    """The tensors that the agent in `over` lacks, or that differ there."""
    _verify(over)
    base = read_tensors(over)
    if over.resolve().parent != folder.resolve().parent or not base.keys() <= tensors.keys():
        raise CheckpointError(
            f"An agent saved over '{over}' stands beside it and has all of its tensors; '{folder}' does not, or lacks "
            f"{', '.join(sorted(base.keys() - tensors.keys())[:3]) or 'none'}. Save it whole."
        )
    same = {name for name, x in base.items() if x.dtype == tensors[name].dtype and torch.equal(x, tensors[name])}
    return {name: value for name, value in tensors.items() if name not in same}


def _weights_sha256(folder: Path) -> str:
    return _sha256_in(folder, WEIGHTS, read_json(folder / CHECKSUMS).get("files", {}).get(WEIGHTS))


def seal(folder: Path, name: str, data: bytes) -> None:
    """Write the file `name` into the folder of a saved agent, and its checksum into `checksums.json`.

    If the process is killed between the two, the file has no checksum, and `read_sealed` refuses it until it is written
    again.

    Raises:
        CheckpointError: the folder's checksums are damaged, or it cannot be written.
    """
    sums = read_json(folder / CHECKSUMS) if (folder / CHECKSUMS).is_file() else {}
    files = dict(sums.get("files", {}))
    try:
        if files.pop(name, None) is not None:  # otherwise a kill here would leave an agent with a wrong checksum
            _write_sums(folder, {**sums, "files": files})
        replace_file(folder / name, data)
        if sums:
            files[name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            _write_sums(folder, {**sums, "files": files})
    except OSError as error:
        raise CheckpointError(f"'{folder / name}' cannot be saved: {error.strerror or error}.") from error


def read_sealed(folder: Path, name: str) -> bytes | None:
    """The content of a file in the folder of a saved agent, with its checksum verified; None if there is no file.

    Raises:
        CheckpointError: the file is missing, was changed, or has no checksum.
    """
    path, sums = folder / name, read_json(folder / CHECKSUMS) if (folder / CHECKSUMS).is_file() else {}
    files = sums.get("files")
    entry = files.get(name) if isinstance(files, dict) else None
    if not path.is_file():
        if entry is None and not path.exists():
            return None
        raise CheckpointError(f"There is no whole agent in '{folder}': the file {name} is missing.")
    data = bounds.read_file(path, CheckpointError)
    if entry is None and sums:
        raise CheckpointError(
            f"'{path}' was not saved with its agent: {CHECKSUMS} does not name it. Use a backup, or remove the file."
        )
    if entry is not None and _sha256_in(folder, name, entry) != hashlib.sha256(data).hexdigest():
        raise CheckpointError(f"The file '{path}' is damaged or was edited: its checksum is not the saved one.")
    return data


def _write_sums(folder: Path, sums: Mapping[str, Any]) -> None:
    replace_file(folder / CHECKSUMS, json.dumps(sums, indent=1).encode())


def _sha256_in(folder: Path, name: str, entry: Any) -> str:
    sha256 = entry.get("sha256") if isinstance(entry, dict) else None
    if not isinstance(sha256, str):
        raise CheckpointError(f"The file '{folder / CHECKSUMS}' is damaged: it has no checksum of {name}.")
    return sha256


def read_config(folder: Path) -> dict[str, Any]:
    """The `config.json` of a saved agent, once its version and the checksum of every file are verified.

    Raises:
        CheckpointError: a file is missing, damaged or edited, or the folder is of a newer version.
    """
    config = read_json(folder / CONFIG)
    if config.get("model_type") != MODEL_TYPE:
        raise CheckpointError(f"'{folder}' holds a model of type '{config.get('model_type')}', not a devmind agent.")
    version = config.get("devmind_version", 0)
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise CheckpointError(
            f"The agent in '{folder}' is of format {version} and this devmind reads up to {FORMAT_VERSION}: "
            "update devmind."
        )
    _verify(folder)
    if config.get("pretrained") is not None:
        # Saving always writes None here, so somebody has edited the file.
        raise CheckpointError(
            f"The config.json of '{folder}' asks for a decoder from elsewhere ('{config['pretrained']}'). A saved "
            "agent has its whole trunk, so somebody has edited this file, and it is not loaded. Use a backup."
        )
    return config


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file of an agent's folder.

    Raises:
        CheckpointError: it is missing, too large, or no JSON object.
    """
    if not path.is_file():
        raise CheckpointError(f"There is no whole agent in '{path.parent}': the file {path.name} is missing.")
    data = bounds.read_file(path, CheckpointError, bounds.AGENT_BYTES)
    content = bounds.parse_json(
        data, CheckpointError, f"The file '{path}' is damaged: it is not JSON ({{}}). Use a backup."
    )
    if not isinstance(content, dict):
        raise CheckpointError(f"The file '{path}' is damaged: a JSON object was expected. Use a backup.")
    return content


def _verify(folder: Path) -> None:
    files = read_json(folder / CHECKSUMS).get("files")
    if not isinstance(files, dict) or not {CONFIG, WEIGHTS} <= files.keys():
        raise CheckpointError(f"The file '{folder / CHECKSUMS}' is damaged: it does not name the agent's files.")
    for name, entry in files.items():
        path = folder / name
        if Path(name).name != name:  # an untrusted file could name an endless device
            raise CheckpointError(
                f"The file '{folder / CHECKSUMS}' is damaged: it names {name}, which is not beside it."
            )
        if not path.is_file():
            raise CheckpointError(f"There is no whole agent in '{folder}': the file {name} is missing.")
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != _sha256_in(folder, name, entry):
            raise CheckpointError(f"The file '{path}' is damaged: its checksum is not the saved one. Use a backup.")


def read_tensors(
    folder: Path, names: Collection[str] | None = None, folders: Sequence[Path] | None = None
) -> dict[str, Tensor]:
    """The saved tensors, also those in the folders that this one was saved `over`: all, or those of `names`.

    Args:
        folders: from `folders_of`, if they were verified just now.

    Raises:
        CheckpointError: a file has no weights, or a folder below is missing, damaged or another one.
    """
    found: dict[str, Tensor] = {}
    for each in folders_of(folder) if folders is None else folders:
        with _weights(each) as file:
            wanted = [name for name in file.keys() if names is None or name in names]  # noqa: SIM118
            found |= {name: file.get_tensor(name) for name in wanted}
    return found


@contextmanager
def _weights(folder: Path) -> Iterator[Any]:
    """The opened weights of a folder; their header is read, no tensor is."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(folder / WEIGHTS, framework="pt") as file:
            yield file
    except SafetensorError as error:
        raise CheckpointError(f"'{folder / WEIGHTS}' holds no weights ({error}). Use a backup.") from error


def read_shapes(folders: Sequence[Path]) -> dict[str, tuple[int, ...]]:
    """The shape of every saved tensor by its name, from the headers of the weights in `folders` (`folders_of`)."""
    shapes: dict[str, tuple[int, ...]] = {}
    for each in folders:
        with _weights(each) as file:
            shapes |= {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    return shapes


@contextmanager
def as_large_as_saved(folder: Path, config: Mapping[str, Any], folders: Sequence[Path]) -> Iterator[None]:
    """Let the block build parts that the `config` in `folder` names, if they take no more memory than its weights say.

    A config of some bytes can ask for layers of any width and number. Its weights are on the disk, so the header of
    their files says how many numbers the parts may have: each tensor is compared with it before it is allocated.

    Args:
        folders: from `folders_of`.

    Raises:
        CheckpointError: the config asks for more, names parts that are not there, or describes no agent at all.
    """
    shapes = read_shapes(folders)
    numbers = sum(map(math.prod, shapes.values()))
    # Agents in half precision are computed with in float32; buffers and one trial of each head come on top.
    allowance = _Allowance(folder, 8 * numbers + bounds.MEMORY_BYTES // 4)
    with bounds.damage(CheckpointError, f"The config.json of '{folder}' describes no agent of this devmind ({{}})."):
        _check_counts(folder, config, shapes)
        _check_names(folder, config)
        token = _ALLOWANCE.set(allowance)
        try:
            yield
        finally:
            _ALLOWANCE.reset(token)


@contextmanager
def limit_part_size() -> Iterator[None]:
    """Make a part's tensors in the block, within what `as_large_as_saved` allows if its block is around it."""
    allowance = _ALLOWANCE.get()
    if allowance is None or allowance.is_on:
        yield
        return
    with allowance:
        allowance.is_on = True
        try:
            yield
        finally:
            allowance.is_on = False


class _Allowance(TorchFunctionMode):
    """Refuses the tensors that the block makes from `limit_bytes` on, before they are allocated."""

    def __init__(self, folder: Path, limit_bytes: int) -> None:
        super().__init__()
        self.folder, self.limit_bytes, self.bytes, self.is_on = folder, limit_bytes, 0, False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in _SIZED:
            size = kwargs.get("size", args[0] if len(args) == 1 or func is torch.full else args)
            numbers = math.prod(map(int, size)) if isinstance(size, Sequence) else int(size)
            self._ask(numbers * getattr(kwargs.get("dtype"), "itemsize", 4))
        elif func in _COUNTED:
            # Not by a tensor on the device "meta": for `arange` that imports sympy and torch's compiler, 3 CPU seconds.
            named = {name: value for name, value in kwargs.items() if name not in _HOW}
            self._ask(_COUNTED[func](*args, **named) * getattr(kwargs.get("dtype"), "itemsize", 8))
        return func(*args, **kwargs)

    def _ask(self, size: int) -> None:
        self.bytes += size
        if self.bytes > self.limit_bytes:
            raise CheckpointError(
                f"The config.json of '{self.folder}' asks for parts of over {self.limit_bytes:,} bytes, and its "
                "weights have no such parts, so one of the two was edited; the agent is not loaded. Use a backup."
            )


def _arange_numbers(start: float, end: float | None = None, step: float = 1) -> int:
    start, end = (0, start) if end is None else (start, end)
    return math.ceil((end - start) / step)


_SIZED = frozenset({torch.empty, torch.zeros, torch.ones, torch.rand, torch.randn, torch.full})
"""What makes a tensor of a given size; `_COUNTED` has how many numbers those make whose arguments say it otherwise."""
_COUNTED: Mapping[Any, Callable[..., int]] = {
    torch.arange: _arange_numbers,
    torch.linspace: lambda start, end, steps, base=10.0: steps,
    torch.logspace: lambda start, end, steps, base=10.0: steps,
    torch.eye: lambda n, m=None: n * (n if m is None else m),
    torch.randint: lambda *bounds, size=None, **named: math.prod(bounds[-1] if size is None else size),
    torch.randperm: lambda n: n,
}
_HOW = frozenset({"dtype", "device", "layout", "pin_memory", "requires_grad", "generator", "out"})


_ALLOWANCE: ContextVar[_Allowance | None] = ContextVar("allowance", default=None)


def _check_counts(folder: Path, config: Mapping[str, Any], shapes: Mapping[str, Any]) -> None:
    """Refuse more layers or parts than there are tensors, before a million small ones are made."""
    trunk = config.get("trunk")
    counts = {
        name: config.get(name) for name in ("layers", "neurons", "grown", "encoders", "heads", "effectors", "stages")
    }
    counts["trunk.num_hidden_layers"] = trunk.get("num_hidden_layers") if isinstance(trunk, dict) else None
    for name, value in counts.items():
        count = len(value) if isinstance(value, Sequence) else value if isinstance(value, int) else 0
        if count > len(shapes) + SPARE_PARTS:
            raise CheckpointError(
                f"The config.json of '{folder}' names {count:,} {name}, and its weights have {len(shapes):,} tensors "
                "in all; one of the two was edited. Use a backup."
            )


SPARE_PARTS = 100
"""Parts without weights of their own that an agent may have beside those with."""


def _check_names(folder: Path, config: Mapping[str, Any]) -> None:
    """Refuse texts that would control a terminal, and settings of parts that the config does not name."""

    def refuse(what: str) -> None:
        raise CheckpointError(f"The config.json of '{folder}' {what}, so it was edited. Use a backup.")

    entries = [entry for kind in ("encoders", "heads", "effectors") for entry in config.get(kind) or []]
    for entry in entries:
        for text in (entry["name"], *entry.get("labels", ())):
            if not isinstance(text, str) or not text.isprintable() or len(text) > bounds.LONGEST_NAME:
                refuse(f"names something {text!r:.40}, where one printable line is expected")
    senses = {entry["name"] for entry in config.get("encoders") or []}
    for stage, through in (config.get("deep") or {}).items():
        if stage not in (config.get("grown") or []):
            refuse(f"says which tokens go through the layers of {stage!r:.40}, which has grown none")
        if unknown := (set(through) | set(through.values())) - senses - {READOUT}:
            refuse(f"lets tokens of {min(unknown)!r:.40} through the layers of '{stage}', and it has no such sense")
    hearing = config.get("hearing") or {}
    words = (*hearing, *hearing.values()) if isinstance(hearing, dict) else (None,)
    if not all(isinstance(word, str) and word.isprintable() and len(word) <= bounds.LONGEST_NAME for word in words):
        refuse("says how it hears, and not rightly")


def folders_of(folder: Path) -> list[Path]:
    """The folders that `folder` was saved over, the lowest first, and `folder` last."""
    found = [folder]
    while (below := _below(found[0])) is not None:
        if below in found:
            raise CheckpointError(f"'{folder}' was saved over itself: {CHECKSUMS} was edited. Use a backup.")
        found = [below, *found]
    return found


def _below(folder: Path) -> Path | None:
    """The verified folder that `folder` was saved over; None if `folder` has all its tensors."""
    over = read_json(folder / CHECKSUMS).get(OVER) if (folder / CHECKSUMS).is_file() else None
    if over is None:
        return None
    name = over.get("folder") if isinstance(over, dict) else None
    if not isinstance(name, str) or Path(name).name != name or name in ("", ".", "..", folder.name):
        raise CheckpointError(
            f"The file '{folder / CHECKSUMS}' is damaged: it names no folder beside it. Use a backup."
        )
    below = folder.resolve().parent / name
    if not (below / WEIGHTS).is_file():
        raise CheckpointError(
            f"'{folder}' keeps only what '{name}' lacks, and that is not beside it: copy both, or load the agent where "
            "it was and save it whole."
        )
    _verify(below)
    if over.get("sha256") != _weights_sha256(below):
        raise CheckpointError(f"'{below}' is another agent than the one that '{folder}' was saved over. Use a backup.")
    return below


def fill(module: nn.Module, tensors: Mapping[str, Tensor], folder: Path) -> None:
    """Load `tensors` into `module`; CheckpointError if their names and shapes are not exactly its own, or if one holds
    a number that is not finite.
    """
    for name, value in tensors.items():
        if value.is_floating_point() and value.numel() and not all(math.isfinite(float(x)) for x in value.aminmax()):
            raise CheckpointError(
                f"The weights in '{folder}' hold numbers in '{name}' that are not finite: training diverged, or the "
                "file was edited. Use a backup."
            )
    try:
        # Not an agent's own, which fits its widths to what it loads.
        nn.Module.load_state_dict(module, tensors, strict=True)
    except RuntimeError as error:
        raise CheckpointError(f"The weights in '{folder}' do not fit its config: {error}") from error
