"""How a stage's run begins: which stage, agent, context and plan, and whether a folder holds the same run already."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from devmind import plugins, worlds
from devmind.agent.agent import Agent
from devmind.agent.config import AgentConfig
from devmind.agent.device import pick_device, place
from devmind.config import RunConfig
from devmind.curriculum.journal import Journal
from devmind.curriculum.stage import Context, Lesson, Stage
from devmind.curriculum.teaching import steps_per_s
from devmind.errors import CheckpointError, ConfigError


def load_stage(name: str) -> Stage:
    """The stage plugin `name`, as an object."""
    loaded = plugins.load("stages", name)
    return loaded() if isinstance(loaded, type) else loaded


def make_context(config: RunConfig, out: Path, data: Path | None, sessions: tuple[Path, ...]) -> Context:
    """The context of a run on simulated worlds.

    Raises:
        ConfigError: the data folder or a session is not there.
    """
    if data is not None and not Path(data).is_dir():
        raise ConfigError(f"--data expects a folder of recordings; '{data}' is no folder.")
    for session in sessions:
        if not Path(session).is_file():
            raise ConfigError(f"--experience expects a recorded session; there is no file '{session}'.")
    device = str(pick_device(config.device))
    return Context(config, config.seed, device, Path(out), worlds.make, Path(data) if data else None, tuple(sessions))


def starting_agent(stage: Stage, config: RunConfig, given: Path | None, runs: Path) -> tuple[Agent, Path | None, bool]:
    """The agent a stage goes on from, its folder, and whether that agent had failed its last gate.

    It is the given one, else the newest milestone under `runs` that has passed what the stage requires, else newborn.

    Raises:
        ConfigError: a required stage is missing.
    """
    folder = Path(given) if given else newest_milestone(runs, stage.requires) if stage.requires else None
    if folder is None:
        born = AgentConfig(
            size=config.size, seed=config.seed, pretrained=config.trunk.pretrained, window=config.trunk.window or 0
        )
        agent, failed = Agent(born), False
    else:
        agent, failed = Agent.from_pretrained(folder), not _passed(folder)
    missing = [name for name in stage.requires if name not in agent.config.stages]
    if missing:
        raise ConfigError(
            f"Stage '{stage.name}' requires {', '.join(missing)} first; give --agent with a milestone of it, "
            f"or run 'devmind stage run {missing[0]}'."
        )
    return agent, folder, failed


def newest_milestone(runs: Path, requires: Sequence[str]) -> Path | None:
    """The newest milestone below the folder `runs` whose agent has been through the stages `requires`.

    Raises:
        CheckpointError: a newer one is damaged, so nobody knows.
    """
    found = sorted(Path(runs).glob("**/milestones/*/config.json"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in found:
        if set(requires) <= _stages_in(path):
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


def _passed(folder: Path) -> bool:
    results = folder / "results.json"
    return results.is_file() and bool(json.loads(results.read_text(encoding="utf-8"))["verdict"]["passed"])


def planned(lessons: Sequence[Lesson], context: Context, journal: Journal, start: Path) -> dict[str, int]:
    """Optimizer steps of every lesson, decided once and kept in the journal.

    Where the configuration has minutes they are shared out, by each lesson's speed on the agent saved in `start`.
    """
    if (plan := journal.last("plan")) is not None:
        return dict(plan["steps"])
    config, total, steps = context.config, sum(lesson.minutes for lesson in lessons), {}
    for lesson in lessons:
        changed = config.lessons.get(lesson.name)
        if changed and changed.steps:
            steps[lesson.name] = changed.steps
        elif config.minutes:
            copy = place(Agent.from_pretrained(start), context.device)
            seconds = 60 * config.minutes * lesson.minutes / total
            steps[lesson.name] = max(1, int(seconds * steps_per_s(lesson, copy, context)))
        else:
            steps[lesson.name] = lesson.steps
    journal.write("plan", steps=steps)
    return steps


def check_same_run(out: Path, mine: dict[str, Any], theirs: dict[str, Any]) -> None:
    """Raise ConfigError when the folder holds a run with other settings, naming what differs."""
    if mine == theirs:
        return
    changed = [
        f"{name} was {old!r}, now {new!r}"
        for name, (old, new) in {
            **{key: (theirs.get(key), mine[key]) for key in mine if key != "config"},
            **{key: (theirs["config"].get(key), new) for key, new in mine["config"].items()},
        }.items()
        if old != new
    ]
    raise ConfigError(
        f"The folder {out} holds a run with other settings: {'; '.join(changed)}; "
        "give another --out, or the same settings to go on with it."
    )
