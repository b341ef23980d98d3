"""What a run depends on besides its settings: threads, versions, device and the content of its files.

It is written into the first line of a run's journal and into every checkpoint, and compared when the run continues:
other packages or recordings would silently lead to other weights. Another number of threads is not refused: the
recorded number is used, on any number of cores.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from devmind.checkpointing.files import sha256
from devmind.curriculum.journal import Journal
from devmind.errors import CheckpointError

PACKAGES = (
    "devmind", "torch", "lightning", "transformers", "numpy", "gymnasium", "numba", "scipy", "scikit-learn",
    "opencv-python", "soxr", "minigrid", "espeakng-loader",
)  # fmt: skip
"""Packages on which the content of lessons depends; some are optional, and without them other lessons are taught."""
GIVEN_BY = {"data": "--data", "sessions": "--experience", "texts": "--text"}
BEGUN = ("start", "night")
"""The events that begin a stage's run and a night of sleep."""


def versions() -> dict[str, str]:
    """The versions on which a run's numbers depend."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def pins(device: str, data: Path | None, sessions: Sequence[Path], texts: Sequence[str | Path] = ()) -> dict[str, Any]:
    """What a run that begins now depends on; to be called after its threads are set."""
    return {
        "threads": torch.get_num_threads(),
        "versions": versions(),
        "device": device,
        "data": folder_sha256(data) if data else None,
        "sessions": [sha256(path) for path in sessions],
        **({"texts": [sha256(Path(path)) for path in texts]} if texts else {}),
    }


def pinned(journal: Journal) -> dict[str, Any] | None:
    """What the run of this journal began with; None if it has not begun."""
    return (journal.last(*BEGUN) or {}).get("pinned")


def recorded_threads(journal: Journal) -> int | None:
    """The number of threads with which the run of this journal began; None if it has not begun."""
    return (pinned(journal) or {}).get("threads")


def exam_inputs(start: Mapping[str, Any]) -> dict[str, Any]:
    """What a run's exams depend on besides its agent, by the event `start` of its journal; recordings by content."""
    kept = {name: value for name, value in start.get("pinned", {}).items() if name != "sessions"}
    return {"config": start["identity"]["config"], "commit": start.get("commit"), **kept}


def check_pins(
    journal: Journal,
    out: Path,
    device: str,
    data: Path | None,
    sessions: Sequence[Path],
    texts: Sequence[str | Path] = (),
) -> None:
    """Compare what a continued run finds with what it began with; to be called after its threads are set.

    Raises:
        CheckpointError: something differs; the message says what.
    """
    was = pinned(journal)
    if was is None:
        return
    now = pins(device, data, sessions, texts)
    changed = [f"{name} was {old}, now {new}" for name, old, new in _different(was, now)]
    if changed:
        raise CheckpointError(
            f"The run in {out} began with something else, so it would end with other weights: {'; '.join(changed)}. "
            "Continue it with what it began with, or begin anew with another --out."
        )


def _different(before: Mapping[str, Any], current: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    found = []
    for name, old in before.items():
        new = current.get(name)
        if old == new or name == "threads":
            continue
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            found += [(package, old[package], new.get(package)) for package in old if old[package] != new.get(package)]
        elif name in GIVEN_BY:
            found.append((f"the content of {GIVEN_BY[name]}", _short(old), _short(new)))
        else:
            found.append((name, old, new))
    return found


def _short(what: Any) -> str:
    """The first letters of a hash, enough for a person to compare."""
    return ", ".join(str(one)[:12] for one in what) if isinstance(what, list) else str(what)[:12]


def folder_sha256(folder: Path) -> str:
    """Hexadecimal SHA-256 over the names and contents of all files below a folder, except hidden ones."""
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = path.relative_to(folder)
        if not any(part.startswith(".") for part in name.parts):
            digest.update(f"{name.as_posix()}\n{sha256(path)}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def own(saved: dict[str, Any] | None, journal: Journal, out: Path) -> dict[str, Any] | None:
    """The checkpoint `saved`, after a check that it belongs to this journal's run.

    Raises:
        CheckpointError: it belongs to another run.
    """
    if saved is not None and saved.get("run") != pinned(journal):
        raise CheckpointError(
            f"The checkpoints in {out} are of another run than its journal; put back what belongs together, or give "
            "another --out."
        )
    return saved


def refuse_leftovers(out: Path) -> None:
    """Refuse to begin in a folder that has checkpoints or exams of an unknown run, but no journal.

    Raises:
        CheckpointError: the folder has them.
    """
    for kind in ("checkpoints", "exams"):
        if any((out / kind).glob("*/state.json")):
            raise CheckpointError(
                f"The folder {out} holds {kind} of a run, and its journal is gone; put the journal back, or give "
                "another --out."
            )
