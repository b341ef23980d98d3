"""Agents that come with the package: the newborn, and agents after later stages.

Each is a folder here, saved like any other agent, with the results of its exams; README.md says how they were made.
`--agent NAME` of a command means one of them. A command that needs an agent takes one of them if none was raised.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from devmind import bounds
from devmind.errors import CheckpointError, nearest

HERE = Path(__file__).parent
SIZE = "nursery"
"""The size of all of them."""
NEWBORN = "newborn"
FOLDER = HERE / NEWBORN
"""The agent of `devmind hello`, after the stage `reflex`."""


def raised_agents() -> dict[str, Path]:
    """The folder of each agent that comes with the package, by its name; agents with fewer stages come first."""
    folders = [path.parent for path in HERE.glob("*/config.json")]
    return {folder.name: folder for folder in sorted(folders, key=lambda folder: (len(stages_of(folder)), folder.name))}


def folder_named(given: str | os.PathLike[str]) -> Path:
    """The folder `given` if it exists, else that of the packaged agent of this name, as with `--agent`.

    Raises:
        CheckpointError: there is neither; the message names the nearest.
    """
    folder = Path(given)
    if folder.exists() or folder.name != str(given):
        return folder
    known = raised_agents()
    if str(given) not in known:
        tail = nearest(str(given), known).replace("known are", "with devmind come")
        raise CheckpointError(f"There is no folder '{given}'{tail}")
    return known[str(given)]


def most_raised(through: Iterable[str] = (), without: str | None = None) -> Path | None:
    """The agent with the most stages that has all of `through` and not `without`; None if there is none."""
    fitting = [
        folder
        for folder in raised_agents().values()
        if set(through) <= set(stages_of(folder)) and without not in stages_of(folder)
    ]
    return fitting[-1] if fitting else None


def with_head(head: str) -> list[str]:
    """The names of agents with the head `head`, in the order of `raised_agents`."""
    return [name for name, folder in raised_agents().items() if head in heads_of(folder)]


def heads_of(folder: Path) -> list[str]:
    """The names of the heads of the agent in `folder`, in order."""
    return [entry["name"] for entry in _config(folder)["heads"]]


def stages_of(folder: Path) -> list[str]:
    """The stages of the agent in `folder`, in order."""
    return list(_config(folder)["stages"])


def _config(folder: Path) -> dict[str, Any]:
    data = bounds.read_file(folder / "config.json", CheckpointError, bounds.AGENT_BYTES)
    config: dict[str, Any] = bounds.parse_json(data, CheckpointError, f"The agent in '{folder}' is damaged ({{}}).")
    return config
