"""Milestones: the agents that runs have raised. A search for one reads only configs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from devmind import bounds
from devmind.checkpointing.folders import INCOMPLETE
from devmind.errors import CheckpointError


def newest_milestone(
    runs: Path, requires: Sequence[str], without: str | None = None, size: str | None = None
) -> Path | None:
    """The newest milestone below the folder `runs` whose agent has been through the stages `requires`.

    Args:
        without: a stage through which it has not been; size: that of the agent. None: any.

    Raises:
        CheckpointError: the config of a newer one is damaged, so its stages are unknown.
    """
    found = sorted(Path(runs).glob("**/milestones/*/config.json"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in found:
        if path.parent.name.endswith(INCOMPLETE):  # a run that was killed while it saved leaves one that is not whole
            continue
        stages, its_size = _config(path)
        if set(requires) <= stages and without not in stages and size in (None, its_size):
            return path.parent
    return None


def _config(path: Path) -> tuple[set[str], str | None]:
    """Stages and size of the agent with the config.json `path`."""
    sentence = (
        f"The newest milestone '{path.parent}' is damaged: its config.json cannot be read ({{}}). "
        "Delete it, or give --agent DIR."
    )
    config = bounds.parse_json(bounds.read_file(path, CheckpointError, bounds.AGENT_BYTES), CheckpointError, sentence)
    with bounds.damage(CheckpointError, sentence):
        return set(config.get("stages", [])), config.get("size")
