"""The options that several commands share, each declared once.

What a configuration holds has no option of its own, but `--set KEY=VALUE`; the few exceptions are typed every day.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from devmind.cli.agents import agents_like, named_agent
from devmind.cli.paths import named_place


def agent_option(means: str, name: str = "--agent") -> Any:
    """The option --agent, or another of an agent's folder, with the help `means`."""
    return typer.Option(name, metavar="DIR", callback=named_agent, autocompletion=agents_like, help=means)


def raised_through(stage: str) -> Any:
    """The option --agent of a command that calls `agent_with_head` with `stage`."""
    return agent_option(
        f"Saved agent, or one that comes with devmind; else the newest milestone in ./checkpoints that has been "
        f"through {stage}, else the one that comes with devmind and has."
    )


AgentOption = Annotated[
    Path | None,
    agent_option(
        "Saved agent, or one that comes with devmind ('newborn', 'after-memory' and so on to 'after-voice'); else the "
        "newest milestone in ./checkpoints, else the newborn."
    ),
]
BeginnerOption = Annotated[
    Path | None,
    agent_option("Saved agent to begin with, or 'newborn'; else the newest that fits, else a packaged one."),
]
MemoryOption = Annotated[
    str,
    typer.Option(
        "--memory",
        metavar="PLACE",
        callback=named_place,
        help="Long-term memory: a folder, made if missing and readable only by you, or a database's URL.",
    ),
]
OwnMemoryOption = Annotated[
    str | None,
    typer.Option(
        "--memory",
        metavar="PLACE",
        callback=lambda place: place if place is None else named_place(place),
        help="Long-term memory; by default your own, wherever you start.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="As JSON, for programs.")]

CameraOption = Annotated[
    str | None,
    typer.Option("--camera", metavar="SOURCE", help="Index, address or file, a sensor's name, or none; else 0."),
]
MicOption = Annotated[
    str | None,
    typer.Option("--mic", metavar="SOURCE", help="Part of a device's name, a sensor's name, or none; else default."),
]
SensorOption = Annotated[
    list[str] | None,
    typer.Option("--sensor", metavar="NAME[=SOURCE]", help="A further sensor of 'devmind sensors'; repeatable."),
]
PrivateOption = Annotated[
    bool, typer.Option("--private", help="Write nothing to a disk: memory in RAM, no recording, no learning.")
]
LiveSetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a key of 'devmind config show live'; repeatable."),
]

ConfigOption = Annotated[
    str | None,
    typer.Option(
        "--config",
        metavar="NAME",
        help="Size of the agent: nursery (two CPU cores), child (one GPU), adult (a 64 GB GPU); or a file.",
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change one configuration key, such as seed=1; repeatable."),
]
DataOption = Annotated[
    Path | None,
    typer.Option("--data", metavar="DIR", help="Folder of labelled recordings ('devmind data NAME' fetches one)."),
]
OutOption = Annotated[
    Path | None, typer.Option("--out", metavar="DIR", help="Where the run is written; else a folder in ./checkpoints.")
]
OnOption = Annotated[
    str | None,
    typer.Option("--on", metavar="ray[:ADDRESS]", help="Hold exams, or run a study's seeds, on a Ray cluster."),
]
CutOption = Annotated[
    bool, typer.Option("--cut", help="End the stopped lesson where it is, and continue with the next one.")
]

RoomSeedOption = Annotated[int, typer.Option("--seed", min=0, max=2**63 - 1, metavar="N", help="Seed of the world.")]
PageOption = Annotated[
    int | None,
    typer.Option("--page", min=0, max=65535, metavar="PORT", help="Show it on a page of this machine; 0: any port."),
]
