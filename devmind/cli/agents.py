"""Which saved agent a command means."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from devmind.cli.paths import existing
from devmind.errors import ConfigError

if TYPE_CHECKING:
    from devmind.agent.agent import Agent

RUNS = Path("checkpoints")


def saved_agent(given: Path | None) -> Agent:
    """The agent of `--agent`, else the newest milestone in ./checkpoints; see `agent_folder`."""
    folder = agent_folder(given)
    from devmind.agent.agent import Agent

    return Agent.from_pretrained(folder)


def agent_folder(given: Path | None) -> Path:
    """The folder of `--agent`, else of the newest milestone in ./checkpoints.

    Raises:
        ConfigError: there is none.
    """
    existing(given, "--agent")
    from devmind.curriculum.start import newest_milestone

    folder = given or newest_milestone(RUNS, ())
    if folder is None:
        raise ConfigError(
            f"There is no saved agent below ./{RUNS}; give --agent DIR, raise one with 'make reflex', or meet the "
            "newborn with 'devmind hello'."
        )
    return folder
