"""The saved agent that a command means: a folder, a packaged agent, or the newest milestone."""

from __future__ import annotations

from collections.abc import Collection
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING

from devmind.cli import show
from devmind.cli.house import complain
from devmind.cli.paths import existing
from devmind.errors import ConfigError, nearest

if TYPE_CHECKING:
    from devmind.agent.agent import Agent
    from devmind.agent.describing import Describer

RUNS = Path("checkpoints")


def named_agent(given: Path | None) -> Path | None:
    """The folder of the agent that `--agent` names; None stays None.

    Raises:
        ConfigError: there is no such folder, or no agent in it.
    """
    if given is None:
        return None
    from devmind.raised import raised_agents

    known = raised_agents()
    if (folder := known.get(str(given))) is not None:
        return folder
    if not given.exists() and (tail := nearest(str(given), known)).startswith("; did you mean"):
        raise ConfigError(f"There is no folder '{given}' (--agent){tail}")
    if not given.exists() and given.parent == Path():
        folders = [path.name for path in Path().glob("[!.]*") if path.is_dir()]
        tail = nearest(str(given), folders)
        if not tail.startswith("; did you mean"):
            tail = f"; with devmind come: {', '.join(known)}."
        raise ConfigError(f"There is no folder '{given}' (--agent){tail}")
    existing(given, "--agent")
    if not (given / "config.json").is_file():
        raise ConfigError(
            f"There is no agent in '{given}' (--agent): it holds no config.json. Give a milestone, such as "
            f"{RUNS}/reflex-nursery-seed0/milestones/01-reflex, or one that comes with devmind: {', '.join(known)}."
        )
    return given


def said_as(folder: Path) -> str:
    """How a user names the agent in `folder`: a packaged one by its name, any other by its folder."""
    from devmind.raised import HERE

    return folder.name if folder.parent == HERE else str(folder)


def agents_like(incomplete: str) -> list[str]:
    """For a shell's completion: packaged agents, milestones below ./checkpoints, and folders, that begin so."""
    from devmind.raised import raised_agents

    milestones = [str(path.parent) for path in RUNS.glob("**/milestones/*/config.json")]
    folders = [f"{path}/" for path in Path().glob(f"{escape(incomplete)}*") if path.is_dir()]
    return [name for name in [*raised_agents(), *milestones, *folders] if name.startswith(incomplete)]


def agent_folder(given: Path | None) -> Path:
    """The folder of `--agent`, else of the newest milestone in ./checkpoints, else the newborn, with a note."""
    from devmind.checkpointing.milestones import newest_milestone
    from devmind.raised import FOLDER

    folder = given or newest_milestone(RUNS, ())
    if folder is None:
        complain(f"Note: no agent was raised below ./{RUNS}, so this is the newborn that comes with devmind.")
    return folder or FOLDER


def packed_through(stage: str) -> Path | None:
    """The packaged agent that has been through `stage`, with a note; None if there is none."""
    from devmind.raised import most_raised

    folder = most_raised((stage,))
    if folder is not None:
        complain(
            f"Note: no agent below ./{RUNS} has been through {stage}, so this is '{folder.name}', which comes with "
            "devmind."
        )
    return folder


def folder_with_head(given: Path | None, stage: str, head: str, what: str) -> Path:
    """The folder of the agent of `--agent`, else of the newest milestone in ./checkpoints that has been through
    `stage`, else of a packaged agent, with a note. Only its config is read.

    Raises:
        ConfigError: there is none, or it lacks the head for `what` ("to plan").
    """
    from devmind.checkpointing.milestones import newest_milestone

    folder = given or newest_milestone(RUNS, (stage,)) or packed_through(stage)
    if folder is None:
        raise ConfigError(
            f"No agent below ./{RUNS} has been through {stage}. Raise one (devmind stage run {stage}), or give "
            "--agent DIR."
        )
    _refuse_untrained(folder, head, what)
    return folder


def _refuse_untrained(folder: Path, head: str, what: str) -> None:
    from devmind.raised import heads_of, with_head

    try:
        if head in heads_of(folder):
            return
    except (OSError, ValueError, KeyError, TypeError):  # loading it will name the fault
        return
    can = ", ".join(with_head(head))
    tail = f"; of those that come with devmind these have it (--agent NAME): {can}." if can else "."
    raise ConfigError(f"The agent '{said_as(folder)}' was never taught {what}: it has no head '{head}'{tail}")


def agent_with_head(
    given: Path | None, stage: str, head: str, what: str, stages: Collection[str] | None = None
) -> Agent:
    """The agent in `folder_with_head`, loaded.

    Args:
        stages: as for `Agent.from_pretrained`.

    Raises:
        ConfigError: as `folder_with_head`; or the plugin of its head is missing.
    """
    folder = folder_with_head(given, stage, head, what)
    with show.working("loading the agent"):
        from devmind.agent.agent import Agent

        agent = Agent.from_pretrained(folder, stages=stages).eval()
    agent.head(head)
    return agent


def describer(folder: Path) -> Describer:
    """The encoders of a saved agent, for a command without steps: one thread, and no package but torch."""
    import torch

    from devmind.agent.describing import Describer

    torch.set_num_threads(1)  # a second thread costs more than it saves on one picture
    return Describer.from_pretrained(folder)
