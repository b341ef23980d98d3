"""A generation is a nested state as a folder of safetensors and JSON, without pickle: whole or not there at all, and
verified on loading.

`NAME/tensors.safetensors` has the tensors; `NAME/manifest.json` the tree, what it is the state of, a checksum of each
tensor and one of itself. On a shelf (a folder of generations) they are called `gen-00000012`; the highest number is the
newest. Nothing here needs torch until a state is loaded, since the process that writes has none.
"""

from __future__ import annotations

import errno
import hashlib
import json
import mmap
import os
import time
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from devmind import bounds
from devmind.checkpointing.files import explain_os_errors
from devmind.checkpointing.folders import INCOMPLETE, remove, write_whole
from devmind.errors import CheckpointError

FORMAT = 2
MANIFEST, TENSORS, PREFIX = "manifest.json", "tensors.safetensors", "gen-"
SHARDS = "shard-*.safetensors"
"""Files that take the place of TENSORS if several processes have written it (`devmind.checkpointing.shards`)."""
KEEP = 2
"""Generations that are kept on a shelf."""
MANIFEST_BYTES = 1 << 30
BLOCK = 4096
"""Disks are written in blocks of that many bytes, or of a divisor of it."""


class Layout(NamedTuple):
    """How tensors lie one behind the other: by name the type and the shape; wide types first, so all are aligned."""

    tensors: tuple[tuple[str, str, tuple[int, ...]], ...]

    def places(self) -> Iterator[tuple[str, int, int]]:
        """Name, first byte and end of each tensor."""
        end = 0
        for name, kind, shape in self.tensors:
            begin, size = end, bytes_of(kind)
            for length in shape:
                size *= length
            end = begin + size
            yield name, begin, end

    @property
    def size_bytes(self) -> int:
        """Bytes of all tensors."""
        return max((end for _, _, end in self.places()), default=0)

    def header(self) -> bytes:
        """The beginning of a safetensors file, in whole blocks, so that the numbers behind it are aligned as well."""
        kinds = {name: (kind, shape) for name, kind, shape in self.tensors}
        entries = {
            name: {"dtype": kinds[name][0], "shape": kinds[name][1], "data_offsets": [begin, end]}
            for name, begin, end in self.places()
        }
        text = json.dumps(entries).encode()
        text += b" " * (-(8 + len(text)) % BLOCK)
        return len(text).to_bytes(8, "little") + text


def bytes_of(kind: str) -> int:
    """Bytes of one number of a type, by what safetensors calls it: F32, BF16, BOOL, F8_E4M3."""
    return 1 if kind == "BOOL" else int(kind.lstrip("BFIUC").partition("_")[0]) // 8


def number_of(folder: Path) -> int:
    """The number in the name of a generation."""
    digits = folder.name.removeprefix(PREFIX)
    return int(digits) if digits.isdecimal() and digits.isascii() else 0


def name_of(number: int) -> str:
    """The name of a generation."""
    return f"{PREFIX}{number:08d}"


def on_shelf(shelf: Path) -> list[Path]:
    """The generations of a shelf, the newest first; damaged ones are among them, unfinished ones are not."""
    found = [path for path in Path(shelf).glob(f"{PREFIX}*") if not path.name.endswith(INCOMPLETE) and path.is_dir()]
    return sorted(found, key=number_of, reverse=True)


# -- writing


def write(
    folder: Path, about: Mapping[str, Any], tree: Any, layout: Layout, numbers: memoryview
) -> tuple[float, float]:
    """Write the generation `folder`; returns after it is on the disk, with seconds of checksums and of the disk.

    Args:
        about: of what it is the state, for people and for the choice of a generation.
        numbers: the bytes of the tensors, as `layout` says.

    Raises:
        CheckpointError: the disk refuses; nothing is left behind.
    """
    begun = time.perf_counter()
    sums = {name: zlib.crc32(numbers[begin:end]) for name, begin, end in layout.places()}
    content = {
        "format": FORMAT,
        "about": dict(about),
        "tensors": [[name, kind, shape, sums[name]] for name, kind, shape in layout.tensors],
        "state": tree,
    }
    manifest, header = _sealed(content), layout.header()
    summed = time.perf_counter()
    with write_whole(folder) as incomplete:
        _write_tensors(incomplete / TENSORS, header, numbers, layout.size_bytes)
        (incomplete / MANIFEST).write_bytes(manifest)
    return summed - begun, time.perf_counter() - summed


def write_manifest(incomplete: Path, about: Mapping[str, Any], tree: Any) -> None:
    """Write the manifest of a generation whose shards are in the folder.

    Raises:
        CheckpointError: the disk refuses.
    """
    with explain_os_errors(incomplete):
        shards = [[path.name, path.stat().st_size, _crc(path)] for path in sorted(incomplete.glob(SHARDS))]
        content = {"format": FORMAT, "about": dict(about), "shards": shards, "state": tree}
        (incomplete / MANIFEST).write_bytes(_sealed(content))


def _crc(path: Path) -> int:
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as whole:
        return zlib.crc32(whole)


def _write_tensors(path: Path, header: bytes, numbers: memoryview, size: int) -> None:
    """Write the header and `size` bytes of `numbers`, past the system's cache where that is possible: copying into it
    and writing it back took the cores from learning for half a second of every 210 MB.
    """
    aligned = memoryview(mmap.mmap(-1, len(header)))
    aligned[:] = header
    parts = (aligned, numbers[: -(-size // BLOCK) * BLOCK])
    try:
        _write_all(path, parts, getattr(os, "O_DIRECT", 0))
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        _write_all(path, parts)  # a file system without it, or numbers that do not fill whole blocks
    os.truncate(path, len(header) + size)


def _write_all(path: Path, parts: Iterable[memoryview], flags: int = 0) -> None:
    with open(path, "wb", buffering=0, opener=lambda name, mode: os.open(name, mode | flags, 0o666)) as file:
        for part in parts:
            while part:  # a raw write may take less than all
                part = part[file.write(part) :]


def _sealed(content: Mapping[str, Any]) -> bytes:
    text = json.dumps(content, allow_nan=False)
    return (
        json.dumps({"sha256": hashlib.sha256(text.encode()).hexdigest()}).encode()[:-1]
        + f', "content": {text}}}'.encode()
    )


def retire(shelf: Path, keep: int = KEEP, known: Collection[str] = ()) -> list[Path]:
    """Remove generations older than the `keep` newest that verify, and remains of interrupted writes.

    Nothing is removed before `keep` newer ones have been verified. Damaged ones that are newer than those stay, so that
    a person can look at them. Returns the removed.

    Args:
        known: paths of generations that need not be verified, as this process has written or verified them.
    """
    if keep < 1:
        raise CheckpointError(f"At least one generation must be kept; got keep={keep}.")
    good, older = 0, []
    for path in on_shelf(shelf):
        if good == keep:
            older.append(path)
        elif str(path) in known or is_whole(path):
            good += 1
    if good == keep:
        older += sorted(path for path in Path(shelf).glob(f"*{INCOMPLETE}") if path.is_dir())
    with explain_os_errors(Path(shelf)):
        for path in older:
            remove(path)
    return older


# -- reading


def verify(folder: Path) -> dict[str, Any]:
    """The content of a generation's manifest, after every byte of the generation was checked.

    Raises:
        CheckpointError: there is no such folder, it was never finished, it is of another devmind, or something in it is
            missing, shortened or changed.
    """
    folder = Path(folder)
    content = read_manifest(folder)
    if "shards" in content:
        _verify_shards(folder, content["shards"])
        return content
    with bounds.damage(
        CheckpointError, f"{folder / MANIFEST} is not the manifest of a generation ({{}}); use another one."
    ):
        layout = Layout(tuple((name, kind, tuple(shape)) for name, kind, shape, _ in content["tensors"]))
        sums = {name: crc for name, _, _, crc in content["tensors"]}
        header, path = layout.header(), folder / TENSORS
        wanted = len(header) + layout.size_bytes
    if not path.is_file():
        raise CheckpointError(f"{folder} is incomplete: '{TENSORS}' is missing; use an older one.")
    if (found := path.stat().st_size) != wanted:
        raise CheckpointError(f"{path} is damaged: it should have {wanted} bytes and has {found}; use an older one.")
    with (
        bounds.open_file(path, CheckpointError, wanted) as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as whole,
    ):
        broken = [] if whole[: len(header)] == header else ["the header"]
        with memoryview(whole) as numbers:
            for name, begin, end in layout.places():
                if zlib.crc32(numbers[len(header) + begin : len(header) + end]) != sums[name]:
                    broken.append(name)
    if broken:
        raise CheckpointError(
            f"{path} is damaged: {bounds.printable(broken[0])} does not match its checksum; use an older one."
        )
    return content


def _verify_shards(folder: Path, shards: Any) -> None:
    with bounds.damage(CheckpointError, f"{folder / MANIFEST} names no shards ({{}}); use another one."):
        wanted = {Path(str(name)).name: (int(size), int(crc)) for name, size, crc in shards}
    for name, (size, crc) in wanted.items():
        path = folder / name
        if not path.is_file() or path.stat().st_size != size or not size or _crc(path) != crc:
            raise CheckpointError(f"{path} is missing or damaged; use an older one.")


def is_whole(folder: Path) -> bool:
    """Whether a generation verifies."""
    try:
        verify(folder)
    except CheckpointError:
        return False
    return True


def read_manifest(folder: Path) -> dict[str, Any]:
    """The content of a generation's manifest; the tensors are not looked at.

    Raises:
        CheckpointError: as `verify`.
    """
    folder = Path(folder)
    path = folder / MANIFEST
    if folder.name.endswith(INCOMPLETE):
        raise CheckpointError(f"{folder} was never finished (its writing was interrupted); use an older one.")
    if not folder.is_dir():
        raise CheckpointError(f"There is no folder {folder}; give one that was saved.")
    if not path.is_file():
        raise CheckpointError(f"{folder} has no {MANIFEST}, so nothing vouches for its content; use another one.")
    sentence = f"{path} is damaged ({{}}); use an older one."
    text = bounds.read_file(path, CheckpointError, MANIFEST_BYTES)
    found = bounds.parse_json(text, CheckpointError, sentence)
    with bounds.damage(CheckpointError, sentence):
        content = dict(found["content"])
        number = int(content["format"])
    if _sealed(content) != text:
        raise CheckpointError(f"{path} is damaged: its content does not match its SHA-256 checksum; use an older one.")
    if number != FORMAT:
        raise CheckpointError(
            f"{folder} has format {number}, this devmind reads {FORMAT}; use the devmind that wrote it."
        )
    return content


def load(folder: Path, device: str = "cpu") -> Any:
    """The state saved in `folder`, its tensors on `device`.

    Raises:
        CheckpointError: as `verify`.
    """
    return _state(Path(folder), verify(folder), device)


def _state(folder: Path, content: Mapping[str, Any], device: str = "cpu") -> Any:
    from safetensors.torch import load_file

    from devmind.checkpointing.nested import join

    if "shards" in content:
        return join(content["state"], _gather(folder, device))
    return join(content["state"], load_file(folder / TENSORS, device=device))


def _gather(folder: Path, device: str) -> dict[str, Any]:
    """The tensors of a generation in shards, whole."""
    import torch
    import torch.distributed.checkpoint as dcp

    reader = dcp.HuggingFaceStorageReader(str(folder))
    known: dict[str, Any] = reader.read_metadata().state_dict_metadata
    found = {name: torch.empty(one.size, dtype=one.properties.dtype, device=device) for name, one in known.items()}
    dcp.load(found, storage_reader=reader, no_dist=True)
    return found


def newest(shelf: Path, backup: Path | None = None, tell: Callable[[str], None] = lambda sentence: None) -> Path | None:
    """The newest generation that verifies, on the shelf or else among its backups; None if there is none.

    Args:
        tell: is given a sentence for a person if a newer one was passed over, with what is wrong with it.
    """
    found = _newest(shelf, backup, tell)
    return found[0] if found else None


def load_newest(shelf: Path, backup: Path | None, tell: Callable[[str], None]) -> Any:
    """The state of the `newest` generation; None if there is none.

    Raises:
        CheckpointError: the shelf has checkpoints of an earlier devmind alone.
    """
    found = _newest(shelf, backup, tell)
    if found is None and any(Path(shelf).glob("*/state.json")):
        raise CheckpointError(
            f"The checkpoints in {shelf} are of an earlier devmind, which continues them; or give another --out."
        )
    return _state(*found) if found else None


def _newest(shelf: Path, backup: Path | None, tell: Callable[[str], None]) -> tuple[Path, dict[str, Any]] | None:
    places = [Path(shelf), *([Path(backup)] if backup else [])]
    every = sorted((path for place in places for path in on_shelf(place)), key=number_of, reverse=True)  # shelf first
    faults: list[str] = []
    for path in every:
        try:
            content = verify(path)
        except CheckpointError as error:
            faults.append(str(error))
            continue
        if faults:
            tell(f"{' '.join(faults)} Going on with {path}.")
        return path, content
    return None


def next_number(shelves: Sequence[Path]) -> int:
    """The number of the next generation: a running one, since clocks jump and copies lose their times."""
    return 1 + max((number_of(path) for shelf in shelves for path in Path(shelf).glob(f"{PREFIX}*")), default=0)
