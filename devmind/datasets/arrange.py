"""Converts a set's own files to the layout of a data folder: `speech/`, `images/`, `sounds/`, `video/`, `text/`."""

from __future__ import annotations

import csv
import io
import re
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from devmind import bounds
from devmind.errors import DevmindError

Files = Mapping[str, Path]
Contents = Iterator[tuple[str, bytes]]


def into(folder: str) -> Callable[[Files], Contents]:
    """An arrangement that puts every file unchanged into one folder."""

    def arrange(files: Files) -> Contents:
        for name, path in files.items():
            yield f"{folder}/{name}", path.read_bytes()

    return arrange


def fsdd(files: Files) -> Contents:
    """`speech/fsdd/{digit}_{speaker}_{take}.wav`."""
    for path, content in _members(files["archive.tar.gz"]):
        if match := re.fullmatch(r"recordings/(\d_[a-z]+_\d+\.wav)", path):
            yield f"speech/fsdd/{match[1]}", content


def esc10(files: Files) -> Contents:
    """`sounds/esc10/{class}/{clip}.wav`, the clips that the set's own table marks as ESC-10."""
    members = dict(_members(files["archive.tar.gz"]))
    try:
        for row in csv.DictReader(io.StringIO(members["meta/esc50.csv"].decode())):
            if row["esc10"] == "True":
                yield f"sounds/esc10/{row['category']}/{row['filename']}", members[f"audio/{row['filename']}"]
    except KeyError as error:
        raise DevmindError(f"The archive of ESC-50 lacks {error}; fetch it again with 'devmind data esc10'.") from error


def mnist(files: Files) -> Contents:
    """`images/mnist_10k.npz`: `images` uint8 [10000, 28, 28] and `labels` uint8 [10000], in a fixed shuffled order."""
    import numpy as np

    def read(path: Path) -> Any:
        data = bounds.read_file(path, DevmindError, 1 << 28)
        return bounds.parse_json(data, DevmindError, f"'{path}' is not JSON ({{}}); fetch it again.")["data"]

    digits = [np.array(read(files[f"{digit}.json"])).reshape(-1, 28, 28) for digit in range(10)]
    images = np.rint(np.concatenate(digits) * 255).astype(np.uint8)
    labels = np.repeat(np.arange(10, dtype=np.uint8), [len(digit) for digit in digits])
    order = np.random.default_rng(0).permutation(len(images))
    buffer = io.BytesIO()
    np.savez_compressed(buffer, images=images[order], labels=labels[order])
    yield "images/mnist_10k.npz", buffer.getvalue()


def _members(archive: Path) -> Contents:
    """The files of a packed repository, without its top folder; they are never unpacked to their own paths."""
    try:
        with tarfile.open(archive, "r:gz") as tar:
            for member in tar:
                file = tar.extractfile(member) if member.isfile() else None
                if file:
                    yield member.name.partition("/")[2], file.read()
    except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
        raise DevmindError(f"The archive {archive} is damaged ({error}); remove it and fetch it again.") from error
