"""The configuration of a run or a life from its options, and what a command says when it is stopped."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from devmind.cli.house import Terminated, complain, may_ask_hub
from devmind.cli.paths import existing, existing_files
from devmind.errors import ConfigError

if TYPE_CHECKING:
    from devmind.config import LiveConfig, RunConfig


def live_config(sets: Sequence[str] | None) -> LiveConfig:
    """The configuration of a life.

    Raises:
        ConfigError: a key is unknown (the message names the nearest), or a value does not fit.
    """
    from devmind.config import LIVE, LiveConfig, load_as

    return load_as(LiveConfig, LIVE, sets=sets or ())


def run_config(
    name: str | None = None,
    minutes: float | None = None,
    sets: Sequence[str] | None = None,
    on: str | None = None,
    devices: int | None = None,
    strategy: str | None = None,
) -> RunConfig:
    """The configuration of a run; by default that of size nursery.

    Raises:
        ConfigError: a configuration or key is unknown (the message names the nearest), a value has the wrong type, or
            one of the texts to read does not exist.
    """
    check_minutes(minutes)
    from devmind.config import load

    given = {"minutes": minutes, "on": on, "devices": devices, "strategy": strategy}
    typed = {key: value for key, value in given.items() if value is not None}
    config = load(name or "nursery", typed, sets or ())
    existing_files([Path(file) for file in config.text.files or ()], "text.files")
    may_ask_hub(config.trunk.pretrained)
    return config


FEED = "feed:"


def feeds_apart(experience: Sequence[Path] | None, sets: Sequence[str] | None) -> tuple[list[Path], list[str]]:
    """The sessions of `--experience`, and the settings with the place of a feed among it (feed:PLACE).

    Raises:
        ConfigError: there are several feeds.
    """
    feeds = [str(one).removeprefix(FEED) for one in experience or () if str(one).startswith(FEED)]
    if len(feeds) > 1:
        raise ConfigError(f"--experience takes one feed; got {len(feeds)}. Let all producers push to one.")
    places = [str(Path(place).resolve()) if Path(place).is_dir() else place for place in feeds]
    sessions = [one for one in experience or () if not str(one).startswith(FEED)]
    return sessions, [*(sets or ()), *(f"feed.place={json.dumps(place)}" for place in places)]


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
