"""The options that make a run's configuration, equal for every command that has them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from devmind.cli.agents import agent_option
from devmind.cli.house import Terminated, complain, may_ask_hub
from devmind.cli.paths import existing, existing_files
from devmind.errors import ConfigError, nearest

if TYPE_CHECKING:
    from devmind.config import RunConfig

SizeOption = Annotated[
    str | None,
    typer.Option(
        "--size", metavar="nursery|child|adult", help="Size of the agent: for two CPU cores, one GPU, a 64 GB GPU."
    ),
]
MinutesOption = Annotated[
    float | None,
    typer.Option("--minutes", metavar="M", help="Scale all lessons of a stage by one factor, to about M minutes here."),
]
CutOption = Annotated[
    bool, typer.Option("--cut", help="End the stopped lesson where it is, and continue with the next one.")
]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change one configuration key; repeatable.")
]
ConfigOption = Annotated[
    str | None,
    typer.Option("--config", metavar="NAME", help="A configuration by name or file; by default the size's."),
]
SeedOption = Annotated[int | None, typer.Option("--seed", min=0, metavar="N", help="Root of every random number.")]
DataOption = Annotated[
    Path | None,
    typer.Option("--data", metavar="DIR", help="Folder of labelled recordings ('devmind data get' makes one)."),
]
TextOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--text", metavar="FILE", help="UTF-8 text to read, in place of that of --data or the stage; repeatable."
    ),
]
AgentOption = Annotated[
    Path | None,
    agent_option("Saved agent to begin with, or 'newborn'; else the newest that fits, else a packaged one."),
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
    texts: Sequence[Path] | None = None,
) -> RunConfig:
    """The configuration of a run; without `name`, the one with the size's name.

    Raises:
        ConfigError: a size, configuration or key is unknown (the message names the nearest), a value has the wrong
            type, or one of `texts` does not exist.
    """
    check_minutes(minutes)
    from devmind.config import Size, load

    if size is not None and size not in get_args(Size):
        raise ConfigError(f"There is no size '{size}'{nearest(size, get_args(Size))}")
    changes: dict[str, Any] = {"size": size, "minutes": minutes, "seed": seed}
    given = {key: value for key, value in changes.items() if value is not None}
    if files := existing_files(texts, "--text"):
        given["text.files"] = tuple(str(path) for path in files)
    config = load(name or size or "nursery", given, sets or ())
    may_ask_hub(config.trunk.pretrained)
    return config


def check_minutes(minutes: float | None) -> None:
    """Refuse a value that is no duration.

    Raises:
        ConfigError: `minutes` is not a number above 0.
    """
    if minutes is not None and not 0 < minutes < float("inf"):
        raise ConfigError(f"--minutes expects a number above 0; got {minutes:g}.")


def run_inputs(data: Path | None, experience: Sequence[Path] | None) -> tuple[Path | None, list[Path]]:
    """The inputs of a run besides its configuration and agent: the folder of `--data`, and the sessions.

    Raises:
        ConfigError: one of them does not exist (the message names the nearest).
    """
    return data_folder(data), existing_files(experience, "--experience")


def data_folder(data: Path | None) -> Path | None:
    """The folder of `--data`; prints a note if it contains nothing that devmind knows.

    Raises:
        ConfigError: it does not exist (the message names the nearest).
    """
    found = existing(data, "--data")
    if found is None:
        return None
    from devmind.datasets.layout import LAYOUT, kinds_in

    if not kinds_in(found):
        known = ", ".join(f"{kind} ({where})" for kind, where in LAYOUT.items())
        complain(
            f"Note: '{found}' (--data) holds nothing that the packaged stages look for, which is {known}; they "
            "continue as without --data."
        )
    return found


def uncut(command: str) -> str:
    """A command line for the records, without `--cut`, which is for one time only."""
    return shlex.join(word for word in shlex.split(command) if word != "--cut")


NEXT_LESSON = "it continues with the next lesson, and the report says that this one was cut"


@contextmanager
def resumable(command: str, cut: str = "") -> Iterator[None]:
    """If the block is asked to stop, print how to continue and exit with 130 (Ctrl-C) or 143 (SIGTERM).

    Args:
        command: the command that continues the work.
        cut: what `--cut` adds to it.
    """
    try:
        yield
    except (KeyboardInterrupt, Terminated) as stop:
        code = 143 if isinstance(stop, Terminated) else 130
    except Exception as error:
        number = getattr(error, "signal_number", None)  # from the runner's Interrupted, without importing the runner
        if number is None:
            raise
        code = 128 + int(number)
    else:
        return
    complain(f"Stopped; everything so far is saved, and the same command continues from there: {command}")
    if cut:
        complain(f"With --cut {cut}.")
    raise typer.Exit(code)
