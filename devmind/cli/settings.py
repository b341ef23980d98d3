"""The options from which a run's configuration is made, the same for every command that has them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from devmind.cli.house import Terminated, complain
from devmind.cli.paths import existing, existing_files
from devmind.config import RunConfig, Size, load
from devmind.errors import ConfigError, nearest

SizeOption = Annotated[
    str | None,
    typer.Option("--size", metavar="nursery|child|adult", help="The one dial: two CPU cores, one GPU, a 64 GB GPU."),
]
MinutesOption = Annotated[
    float | None, typer.Option("--minutes", metavar="M", help="Wall minutes for all lessons of a stage.")
]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change one configuration key; repeatable.")
]
ConfigOption = Annotated[
    str | None,
    typer.Option("--config", metavar="NAME", help="A configuration by name or file; the size's own by default."),
]
SeedOption = Annotated[int | None, typer.Option("--seed", min=0, metavar="N", help="Root of every random number.")]
DataOption = Annotated[
    Path | None,
    typer.Option("--data", metavar="DIR", help="Folder of labelled recordings ('devmind data get' makes one)."),
]
AgentOption = Annotated[
    Path | None, typer.Option("--agent", metavar="DIR", help="Saved agent to go on from; else the newest that fits.")
]
ExperienceOption = Annotated[
    list[Path] | None,
    typer.Option("--experience", metavar="SESSION", help="Recorded session to learn from without labels; repeatable."),
]
OutOption = Annotated[
    Path | None, typer.Option("--out", metavar="DIR", help="Where the run is written; else a folder in ./checkpoints.")
]


def run_config(
    size: str | None = None,
    minutes: float | None = None,
    sets: Sequence[str] | None = None,
    name: str | None = None,
    seed: int | None = None,
) -> RunConfig:
    """The configuration of a run; without `name`, the one that has the size's name.

    Raises:
        ConfigError: an unknown size, configuration or key (the nearest is named), or a value of the wrong type.
    """
    if size is not None and size not in get_args(Size):
        raise ConfigError(f"There is no size '{size}'{nearest(size, get_args(Size))}")
    changes: dict[str, Any] = {"size": size, "minutes": minutes, "seed": seed}
    given = {key: value for key, value in changes.items() if value is not None}
    return load(name or size or "nursery", given, sets or ())


def run_inputs(
    agent: Path | None, data: Path | None, experience: Sequence[Path] | None
) -> tuple[Path | None, Path | None, list[Path]]:
    """What a run is given besides its configuration: the folders of `--agent` and `--data`, and the sessions.

    Raises:
        ConfigError: one of them is not there (the nearest is named).
    """
    return existing(agent, "--agent"), existing(data, "--data"), existing_files(experience, "--experience")


@contextmanager
def resumable(command: str) -> Iterator[None]:
    """Say how to go on when the work inside is asked to stop; exit 130 (Ctrl-C) or 143 (SIGTERM)."""
    try:
        yield
    except (KeyboardInterrupt, Terminated) as stop:
        code = 143 if isinstance(stop, Terminated) else 130
    except Exception as error:
        number = getattr(error, "signal_number", None)  # the runner's Interrupted, without importing the runner
        if number is None:
            raise
        code = 128 + int(number)
    else:
        return
    complain(f"Stopped; everything so far is saved, and the same command goes on from there: {command}")
    raise typer.Exit(code)
