"""Ages: the agent as it was at each milestone of its run, from newborn to now."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

RUN_FILE = "journal.jsonl"


@dataclass(frozen=True)
class Age:
    """One saved agent.

    Attributes:
        id: names it among its siblings, for the page.
        label: for people.
        folder: where it is.
    """

    id: str
    label: str
    folder: Path


def ages(agent: Path) -> list[Age]:
    """The saved agents of the run that `agent` belongs to, the youngest first; itself alone when it is of no run."""
    agent = agent.resolve()
    run = next((folder for folder in agent.parents if (folder / RUN_FILE).is_file()), None)
    found: list[Age] = []
    if run is not None:
        saved = [path.parent for path in run.glob("milestones/*/config.json")]
        saved = sorted(saved, key=lambda folder: (folder / "config.json").stat().st_mtime)
        found = (
            [Age("start", "before the first lesson", run / "start")]
            if (run / "start" / "config.json").is_file()
            else []
        )
        found += [Age(folder.name, f"after {folder.name}", folder) for folder in saved]
    if agent not in [age.folder for age in found]:
        found.append(Age("now", agent.name, agent))
    return found
