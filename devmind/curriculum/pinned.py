"""What a run depends on besides its settings: threads, versions, device, the content of its files, and its first agent.

It is written into the first line of a run's journal and into every checkpoint, and compared when the run continues:
other packages or recordings would silently lead to other weights. Another number of threads is not refused: the
recorded number is used, on any number of cores.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as read_version
from pathlib import Path
from typing import Any

import torch

from devmind import plugins
from devmind.agent.agent import Agent
from devmind.agent.saving import CONFIG
from devmind.checkpointing.files import folder_sha256, sha256
from devmind.curriculum.finished import found_path
from devmind.curriculum.journal import Journal
from devmind.curriculum.stage import Context
from devmind.errors import CheckpointError

PACKAGES = (
    "devmind", "torch", "lightning", "transformers", "numpy", "gymnasium", "numba", "scipy", "scikit-learn",
    "opencv-python", "soxr", "minigrid", "espeakng-loader",
)  # fmt: skip
"""Packages on which the content of lessons depends; some are optional, and without them other lessons are taught."""
GIVEN_BY = {"data": "--data", "sessions": "--experience", "texts": "text.files"}
BEGUN = ("start", "night")
"""The events that begin a stage's run and a night of sleep."""


version = cache(read_version)  # each reads a whole file, and a run asks several times


def versions(plugin_packages: Iterable[str] = ()) -> dict[str, str]:
    """The versions on which a run's numbers depend, also of these packages of plugins."""
    found = {"python": platform.python_version()}
    for name in (*PACKAGES, *plugin_packages):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def pins(context: Context, stages: Iterable[str] = ()) -> dict[str, Any]:
    """What a run that begins now depends on; to be called after its threads are set.

    Args:
        stages: those that the run teaches or rehearses; the versions of the packages that they come from count too.
    """
    known = plugins.available("stages")
    return _pins(context, sorted({known[name].distribution for name in stages if name in known} - set(PACKAGES)))


def _pins(context: Context, plugin_packages: Iterable[str]) -> dict[str, Any]:
    texts = context.config.text.files or ()
    return {
        "threads": torch.get_num_threads(),
        "versions": versions(plugin_packages),
        "device": context.device,
        "data": folder_sha256(context.data) if context.data else None,
        "sessions": [sha256(path) for path in context.sessions],
        **({"texts": [sha256(Path(path)) for path in texts]} if texts else {}),
    }


def pinned_settings(journal: Journal) -> dict[str, Any] | None:
    """What the run of this journal began with; None if it has not begun."""
    return (journal.last(*BEGUN) or {}).get("pinned")


def recorded_threads(journal: Journal) -> int | None:
    """The number of threads with which the run of this journal began; None if it has not begun."""
    return (pinned_settings(journal) or {}).get("threads")


def same_exams(earlier: Mapping[str, Any], later: Mapping[str, Any]) -> bool:
    """Whether the exams of two runs depend on the same besides their agents, by the events `start` of their journals;
    the later run may have stages, and so packages, that the earlier one lacks.
    """
    one, other = _exam_inputs(earlier), _exam_inputs(later)
    before, now = (each.pop("versions", {}) for each in (one, other))
    return one == other and all(now.get(name) == found for name, found in before.items())


def _exam_inputs(start: Mapping[str, Any]) -> dict[str, Any]:
    """Recordings by content."""
    kept = {name: value for name, value in start.get("pinned", {}).items() if name != "sessions"}
    return {"config": start["identity"]["config"], "commit": start.get("commit"), **kept}


def check_pins(journal: Journal, out: Path, context: Context) -> None:
    """Compare what a continued run finds with what it began with; to be called after its threads are set.

    Raises:
        CheckpointError: something differs; the message says what.
    """
    was = pinned_settings(journal)
    if was is None:
        return
    now = _pins(context, [name for name in was.get("versions", {}) if name not in ("python", *PACKAGES)])
    differences = [*_different(was, now), *_other_agent(journal.last(*BEGUN) or {}, out)]
    changed = [f"{name} was {old}, now {new}" for name, old, new in differences]
    if changed:
        raise CheckpointError(
            f"The run in {out} began with something else, so it would end with other results: {'; '.join(changed)}. "
            "Continue it with what it began with, or begin anew with another --out."
        )


def _different(before: Mapping[str, Any], current: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    found = []
    for name, old in before.items():
        new = current.get(name)
        if old == new or name == "threads":
            continue
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            found += [(package, old[package], new.get(package)) for package in old if old[package] != new.get(package)]
        elif name in GIVEN_BY:
            found.append((f"the content of {GIVEN_BY[name]}", _short(old), _short(new)))
        else:
            found.append((name, old, new))
    return found


def _other_agent(begun: Mapping[str, Any], out: Path) -> list[tuple[str, Any, Any]]:
    """Whether the agent that a run began with is gone, or another one; older journals have no checksum of it."""
    folder, was = found_path(begun.get("agent"), out), begun.get("agent_sha256")
    if folder is None or was is None:
        return []
    now = Agent.from_pretrained(folder).sha256() if (folder / CONFIG).is_file() else "gone"
    return [] if now == was else [(f"the agent in '{folder}'", _short(was), _short(now))]


def _short(what: Any) -> str:
    """The first letters of a hash, enough for a person to compare."""
    return ", ".join(str(one)[:12] for one in what) if isinstance(what, list) else str(what)[:12]


def own(saved: dict[str, Any] | None, journal: Journal, out: Path) -> dict[str, Any] | None:
    """The checkpoint `saved`, after a check that it belongs to this journal's run.

    Raises:
        CheckpointError: it belongs to another run.
    """
    if saved is not None and saved.get("run") != pinned_settings(journal):
        raise CheckpointError(
            f"The checkpoints in {out} are of another run than its journal; put back what belongs together, or give "
            "another --out."
        )
    return saved


def refuse_leftovers(out: Path) -> None:
    """Refuse to begin in a folder that has checkpoints or exams of an unknown run, but no journal.

    Raises:
        CheckpointError: the folder has them.
    """
    for kind in ("checkpoints", "exams"):
        if any((out / kind).glob("*/manifest.json")):
            raise CheckpointError(
                f"The folder {out} holds {kind} of a run, and its journal is gone; put the journal back, or give "
                "another --out."
            )
