"""Agents that come with the package: the newborn, and what became of it behind later stages.

Each is a folder here, saved like any other agent, with the results of its exams beside it; README.md says how they
were made. A command's `--agent NAME` means one of them, and what needs an agent takes one where none was raised.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SIZE = "nursery"
"""The size that all of them have."""
NEWBORN = "newborn"
FOLDER = HERE / NEWBORN
"""The agent that `devmind hello` wakes: it has been through the stage `reflex`."""


def raised() -> dict[str, Path]:
    """The folder of each agent that comes with the package, by its name; who has been through least comes first."""
    folders = [path.parent for path in HERE.glob("*/config.json")]
    return {folder.name: folder for folder in sorted(folders, key=lambda folder: (len(stages_of(folder)), folder.name))}


def most_raised(through: Iterable[str] = (), without: str | None = None) -> Path | None:
    """The one that has been through most stages, all of `through` among them and `without` not; None where none has."""
    fitting = [
        folder
        for folder in raised().values()
        if set(through) <= set(stages_of(folder)) and without not in stages_of(folder)
    ]
    return fitting[-1] if fitting else None


def with_head(head: str) -> list[str]:
    """The names of those that have the head `head`, in the order of `raised`."""
    return [name for name, folder in raised().items() if head in {entry["name"] for entry in _config(folder)["heads"]}]


def stages_of(folder: Path) -> list[str]:
    """The stages that the agent in `folder` has been through, in their order."""
    return list(_config(folder)["stages"])


def _config(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "config.json").read_text(encoding="utf-8"))
