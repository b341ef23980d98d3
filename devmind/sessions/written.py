"""Labelled pictures: handwritten digits, a part of them held out of lessons. Spoken ones: `devmind.sessions.spoken`.

Layout of `--data DIR`: `images/*.npz` with `images` uint8 [N, H, W] and `labels` [N].
Without a folder the pictures are scikit-learn's digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from zipfile import is_zipfile

import numpy as np

from devmind.bounds import damage, data_files
from devmind.errors import ExamError
from devmind.seeding import numpy_rng

HELD_OUT_PICTURES = 0.2
PICTURE_FILES = "images/*.npz"
SKLEARN, SKLEARN_HELD_OUT = "scikit-learn digits", 600


@dataclass(frozen=True)
class Pictures:
    """images uint8 [N, H, W], labels int64 [N]; `source` names the set in the agent's `trained_on`."""

    images: np.ndarray
    labels: np.ndarray
    source: str

    def take(self, index: np.ndarray) -> Pictures:
        """The rows `index`."""
        return Pictures(self.images[index], self.labels[index], self.source)


@lru_cache(maxsize=4)
def has_pictures(data: Path | None) -> bool:
    """Whether the folder holds labelled pictures."""
    return bool(data_files(data, PICTURE_FILES))


@lru_cache(maxsize=4)
def pictures(data: Path | None) -> Pictures:
    """All labelled pictures of the folder, or scikit-learn's digits (8 x 8, from 13 writers).

    Raises:
        ExamError: a file is not in the layout.
    """
    files = data_files(data, PICTURE_FILES)
    if not files:
        from sklearn.datasets import load_digits

        digits = load_digits()
        images = np.round(digits.images * (255 / 16)).astype(np.uint8)
        return Pictures(images, digits.target.astype(np.int64), SKLEARN)
    loaded = [_read_npz(path) for path in files]
    size = max(images.shape[1] for images, _ in loaded)
    if any(images.shape[1:] != (size, size) for images, _ in loaded):
        raise ExamError(
            f"All pictures in {data}/images must have one square size; got {[i.shape[1:] for i, _ in loaded]}."
        )
    images = np.concatenate([images for images, _ in loaded])
    labels = np.concatenate([labels for _, labels in loaded])
    return Pictures(images, labels, "+".join(path.stem for path in files))


def _read_npz(path: Path) -> tuple[np.ndarray, np.ndarray]:
    unread = f"{path} must be an .npz with 'images' and 'labels'; {{}}."
    with damage(ExamError, unread):
        if not is_zipfile(path):
            raise ValueError("it is none")
        with np.load(path, allow_pickle=False) as file:
            try:
                images, labels = file["images"], file["labels"].astype(np.int64)
            except ValueError as error:  # NumPy's own sentence advises to read them all the same
                raise ValueError("it is damaged or holds Python objects, which are never read") from error
    fits = images.dtype == np.uint8 and images.ndim == 3 and labels.shape == images.shape[:1]
    if not fits or labels.min(initial=0) < 0 or labels.max(initial=0) > 9:
        raise ExamError(
            f"{path} must hold 'images' uint8 [N, H, W] and as many 'labels' 0..9; got {images.dtype} {images.shape}, "
            f"labels {labels.shape} {labels.min(initial=0)}..{labels.max(initial=0)}."
        )
    return images, labels


def split_pictures(every: Pictures, seed: int) -> tuple[Pictures, Pictures]:
    """(for lessons, held out). The last 600 of scikit-learn's are held out together, because its rows are ordered by
    writer.

    Other sets have no groups: a random fifth is held out, by the seed.
    """
    n = len(every.labels)
    if every.source == SKLEARN:
        order, cut = np.arange(n), n - SKLEARN_HELD_OUT
    else:
        order, cut = numpy_rng(seed, "pictures", every.source).permutation(n), n - round(n * HELD_OUT_PICTURES)
    return every.take(order[:cut]), every.take(order[cut:])


def source_group(every: Pictures, seed: int) -> str:
    """The entry of a set of pictures, split by a seed, in the agent's `trained_on`."""
    return f"pictures:{every.source}#{seed}"


def home_pictures(data: Path | None, trained_on: Sequence[str]) -> tuple[Pictures, Pictures | None]:
    """The set that an agent with this `trained_on` was taught (the folder's, if it was taught none), and the folder's
    set if it was taught scikit-learn's alone: pictures of another source."""
    given, home = pictures(data), pictures(None)
    taught = {group.rpartition("#")[0] + "#" for group in trained_on}
    prefixes = [source_group(every, 0).rpartition("#")[0] + "#" for every in (given, home)]
    return (home, given) if prefixes[1] in taught and prefixes[0] not in taught else (given, None)


def unmet_pictures(every: Pictures, trained_on: Sequence[str], seed: int) -> tuple[Pictures, Pictures]:
    """(for lessons, held out) as for the agent with this `trained_on`; by `seed` if it was taught none.

    Raises:
        ExamError: it was taught under several seeds, so no picture is certainly unseen.
    """
    prefix = source_group(every, 0).rpartition("#")[0] + "#"
    seeds = [int(group.removeprefix(prefix)) for group in trained_on if group.startswith(prefix)]
    # scikit-learn's are split alike by every seed.
    if len(set(seeds)) > 1 and every.source != SKLEARN:
        raise ExamError(
            f"The agent was taught '{every.source}' under the seeds {sorted(set(seeds))}, whose held-out parts differ; "
            "nothing unseen is surely left. Examine with another --data."
        )
    return split_pictures(every, seeds[0] if seeds else seed)
