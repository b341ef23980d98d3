"""Milestones: the agents that runs have raised. A search for one reads only configs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from devmind.checkpointing.folders import INCOMPLETE
from devmind.errors import CheckpointError


def newest_milestone(runs: Path, requires: Sequence[str]) -> Path | None:
    """The newest milestone below the folder `runs` whose agent has been through the stages `requires`.

    Raises:
        CheckpointError: the config of a newer one is damaged, so its stages are unknown.
    """
    found = sorted(Path(runs).glob("**/milestones/*/config.json"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in found:
        # A run that was killed while it saved leaves one that is not whole.
        if not path.parent.name.endswith(INCOMPLETE) and set(requires) <= _stages_in(path):
            return path.parent
    return None


def _stages_in(config: Path) -> set[str]:
    try:
        return set(json.loads(config.read_text(encoding="utf-8")).get("stages", []))
    except (ValueError, AttributeError, TypeError) as error:
        raise CheckpointError(
            f"The newest milestone '{config.parent}' is damaged: its config.json cannot be read ({error}). "
            "Delete it, or give --agent DIR."
        ) from error
