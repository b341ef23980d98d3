"""The packaged plan files, by name."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from stages.reasoning.procedures.plans import Library
from stages.reasoning.procedures.reading import read_file
from stages.reasoning.procedures.terms import PlanError

FOLDER = Path(__file__).parent


@lru_cache
def shipped(name: str) -> Library:
    """The library `name` of this folder, read once; do not add to it."""
    return read_file(FOLDER / f"{name}.plan")


def library_of(file: Path) -> Library:
    """The library in a file, or the packaged one of that name.

    Raises:
        PlanError: the file cannot be read or has a fault; the sentence gives line and column.
    """
    if file.exists() and not file.is_dir():
        return read_file(file)
    known = sorted(path.stem for path in FOLDER.glob("*.plan"))
    if str(file) in known:
        return read_file(FOLDER / f"{file}.plan")
    raise PlanError(
        f"There is no plan file '{file}'. Give a path, or the name of a packaged plan file: {', '.join(known)}."
    )
