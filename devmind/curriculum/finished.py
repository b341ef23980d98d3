"""Which run a folder holds and how it ended, read from its journal; without torch, so it is fast."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from devmind.checkpointing.files import folder_sha256, sha256
from devmind.config import RunConfig, flat, move_sections
from devmind.curriculum.journal import Journal
from devmind.errors import CheckpointError, ConfigError, without_secrets
from devmind.raised import HERE, raised_agents


@dataclass(frozen=True)
class RunResult:
    """How a stage's run ended, and the paths of its files."""

    passed: bool
    out: Path
    results: Path
    report: Path
    agent: Path
    already_finished: bool = False


def run_folder(stage: str, config: RunConfig) -> Path:
    """The default folder of a stage's run."""
    return Path("checkpoints") / f"{stage}-{config.size}-seed{config.seed}"


def identity(
    stage: str, config: RunConfig, agent: Path | None, data: Path | None, sessions: Sequence[Path], out: Path
) -> dict[str, Any]:
    """The settings that decide an agent's numbers, as the journal of its run in `out` keeps them."""
    said = {
        "stage": stage,
        "config": deciding(config),
        "agent": path_from_run(agent, out),
        "data": path_from_run(data, out),
        "experience": [path_from_run(path, out) for path in sessions],
    }
    return dict(without_secrets(said))


def deciding(config: RunConfig) -> dict[str, Any]:
    """The settings without those that change no number, and may be changed between a run's beginning and its end."""
    return config.model_dump(mode="json", exclude={"loggers", "checkpoint", "on", "devices", "strategy"})


def path_from_run(path: Path | None, out: Path) -> str | None:
    """A path as the journal of the run in `out` keeps it: from `out` if it lies beside or below `out`, else absolute.

    So a run continues from any working folder, and a curriculum also after its folder was moved.
    """
    if path is None or without_secrets(str(path)) != str(path):  # what looks like a login is recognised as it was typed
        return str(path) if path else None
    place, run = os.path.abspath(path), os.path.abspath(out)
    return os.path.relpath(place, run) if Path(place).is_relative_to(os.path.dirname(run)) else place


def found_path(kept: str | None, out: Path) -> Path | None:
    """The path that `path_from_run` has kept; an older journal has it as it was typed, from the working folder. An
    agent that comes with devmind is looked for where devmind is installed now.
    """
    if not kept:
        return None
    beside = Path(os.path.normpath(out / kept))
    found = beside if beside.exists() else Path(kept)
    return raised_agents().get(found.name, found) if found.parent.name == HERE.name and not found.exists() else found


def shelves(out: Path, config: RunConfig | None = None) -> tuple[Path, Path | None]:
    """The folder of the checkpoints of the run in `out`, and that of their second copies, if it has any; many runs are
    given the same place for these.
    """
    place = config.checkpoint.backup if config else None
    whole = os.path.abspath(out)
    apart = f"{Path(whole).name}-{hashlib.sha256(whole.encode()).hexdigest()[:8]}"
    return Path(out) / "checkpoints", Path(place) / apart if place else None


def finished_run(out: Path, mine: Mapping[str, Any], ablate: bool = False) -> RunResult | None:
    """How the run `mine` in the folder `out` ended; None if it has not begun or not ended.

    Args:
        ablate: a run without a twin has not ended yet.

    Raises:
        ConfigError: the folder holds a run with other settings.
        CheckpointError: the journal or the results were damaged or edited.
    """
    journal = Journal(out / "journal.jsonl")
    if start := journal.last("start"):
        check_same_run(out, mine, start["identity"], start.get("pinned"))
    finished = journal.last("finished")
    if not finished or (ablate and not finished.get("twin")):
        return None
    done = result(mine["stage"], out, finished, already=True)
    if "results_sha256" in finished and done.results.is_file() and sha256(done.results) != finished["results_sha256"]:
        raise CheckpointError(
            f"'{done.results}' is not what the run wrote: it was damaged or edited. The one beside its agent "
            f"({done.agent}) may be whole; else give another --out, and run it anew."
        )
    return done


def result(stage: str, out: Path, finished: Mapping[str, Any], already: bool = False) -> RunResult:
    """The result of a finished run, with the paths of its files, from the event `finished` of its journal."""
    reports = out / "reports" / stage
    return RunResult(
        finished["passed"], out, reports / "results.json", reports / "report.html", out / finished["agent"], already
    )


def check_same_run(
    out: Path, mine: Mapping[str, Any], theirs: Mapping[str, Any], contents: Mapping[str, Any] | None = None
) -> None:
    """Raise ConfigError if the folder holds a run with other settings; the message names the differences.

    A setting that did not exist when that run began counts as its default, and one that exists no more is ignored.

    Args:
        contents: what that run has pinned of its recordings (`pinned.pins`); these may have been moved meanwhile.
    """
    new, old, usual = _settings(mine), _settings(theirs), flat(RunConfig().model_dump(mode="json"))
    # Those of stages and lessons have no fixed names: one that is not given any more is a change.
    names = [*new, *(name for name in old if name.startswith(("stages.", "lessons.")) and name not in new)]
    changed = [
        f"{name} was {was!r}, now {new.get(name)!r}"
        for name in names
        if (was := old.get(name, usual.get(name))) != new.get(name)
        and not (name in PATHS and _same_files(name, was, new.get(name), out, contents or {}))
    ]
    if changed:
        raise ConfigError(
            f"The folder {out} holds a run with other settings: {'; '.join(changed)}; "
            "give another --out, or the same settings to continue it."
        )


PATHS = ("agent", "data", "experience", "sessions")
"""Settings that are paths; older journals keep them in other words."""
Kept = str | Sequence[str] | None
"""What such a setting is kept as (`path_from_run`)."""


def _places(kept: Kept, out: Path) -> list[str]:
    """Absolute paths of such a setting."""
    return [os.path.abspath(found_path(one, out) or "") for one in ([kept] if isinstance(kept, str) else kept or ())]


def _same_files(name: str, was: Kept, now: Kept, out: Path, contents: Mapping[str, Any]) -> bool:
    """Whether a setting names the same places as before, or recordings with the pinned contents."""
    paths = [Path(place) for place in _places(now, out)]
    if _places(was, out) == [str(path) for path in paths]:
        return True
    if name == "data":
        return any(path.is_dir() and folder_sha256(path) == contents.get("data") for path in paths)
    if name in ("experience", "sessions") and paths and all(path.is_file() for path in paths):
        return [sha256(path) for path in paths] == contents.get("sessions")
    return False


def _settings(said: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in said.items() if key != "config"} | flat(move_sections(said["config"]))
