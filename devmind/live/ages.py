"""Ages: the agent at each milestone of its run, from before its first lesson to now."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from devmind.curriculum.journal import Journal
from devmind.plugins import available
from devmind.raised import HERE, raised_agents, stages_of

if TYPE_CHECKING:
    from devmind.agent.agent import Agent

RUN_FILE, CHILDHOOD_FILE = "journal.jsonl", "curriculum.jsonl"
UNTAUGHT = "before its first lesson"
NOTHING_YET = "Nothing was taught yet: its parts are as they were drawn by chance."


@dataclass(frozen=True)
class Age:
    """One saved agent that can be loaded.

    Attributes:
        id: names it among its siblings, for the page; "now" is the agent that the life began with, if that is no
            milestone.
        label: for people, after "as it was" ("as it is" for "now").
        folder: where it is saved.
        taught: False for the agent with the same parts and seed whose weights no lesson has changed.
    """

    id: str
    label: str
    folder: Path
    taught: bool = True

    @property
    def new(self) -> str:
        """What the last of its stages brought, in one line: the beginning of that stage's docstring, read from its file
        without running it; '' for a stage that is not installed.
        """
        if not self.taught:
            return NOTHING_YET
        stages = stages_of(self.folder)
        plugin = available("stages").get(stages[-1]) if stages else None
        return plugin.about if plugin else ""

    def wake(self) -> Agent:
        """The agent, in eval mode; see `load_at_age`."""
        return load_at_age(self.folder, self.taught)


def load_at_age(folder: Path, taught: bool = True) -> Agent:
    """The agent in `folder`, in eval mode; untaught, as it was before its first lesson.

    Every part draws its weights from its own named seed, so an untaught agent needs no file: building it from the
    saved config gives, bit for bit, the weights before the first lesson.

    Raises:
        CheckpointError: a file is missing or damaged.
    """
    from devmind.agent.agent import Agent

    if taught:
        return Agent.from_pretrained(folder)
    from devmind.agent import saving
    from devmind.agent.config import AgentConfig

    config = saving.read_config(folder)
    with saving.as_large_as_saved(folder, config, saving.folders_of(folder)):
        agent = Agent(AgentConfig.from_dict(config))
    agent.eval()
    return agent


def ages(agent: Path) -> list[Age]:
    """The saved agents of the run of `agent`, the youngest first; for a childhood, of all its stages.

    An agent that comes with devmind has all of these as its ages. An agent without a run has itself as its only age,
    and its untaught form where its config tells how it began.
    """
    agent = agent.resolve()
    if agent.parent == HERE.resolve():
        raised_ages = [
            Age(name, f"after {stages_of(folder)[-1]}", folder.resolve()) for name, folder in raised_agents().items()
        ]
        return [Age("start", UNTAUGHT, raised_ages[0].folder, taught=False), *raised_ages]
    run = next((folder for folder in agent.parents if (folder / RUN_FILE).is_file()), None)
    if run is None:
        untaught = [Age("start", UNTAUGHT, agent, taught=False)] if _began_untrained(agent) else []
        return [*untaught, Age("now", "today", agent)]
    if (run.parent / CHILDHOOD_FILE).is_file():
        return _with(agent, of_childhood(run.parent))
    found = _beginning(run)
    saved = [path.parent for path in run.glob("milestones/*/config.json")]
    saved = sorted(saved, key=lambda folder: (folder / "config.json").stat().st_mtime)
    found += [Age(folder.name, f"after {folder.name.lstrip('0123456789-')}", folder) for folder in saved]
    return _with(agent, found)


def _with(agent: Path, found: list[Age]) -> list[Age]:
    return found if agent in [age.folder for age in found] else [*found, Age("now", "today", agent)]


def of_childhood(out: Path) -> list[Age]:
    """The ages of the childhood in `out`: before its first lesson, and after each finished stage, failed or not."""
    stages = (Journal(out / CHILDHOOD_FILE).last("plan") or {"stages": []})["stages"]
    found: list[Age] = []
    for number, name in enumerate(stages, 1):
        run = out / name
        found = found or _beginning(run)
        if ended := Journal(run / RUN_FILE).last("finished"):
            found.append(Age(f"{number:02d}-{name}", f"after {name}", run / ended["agent"]))
    return found


def _beginning(run: Path) -> list[Age]:
    """The agent with which a run began, if it was saved; a later stage begins with an agent of earlier ones."""
    config = run / "start" / "config.json"
    if not config.is_file():
        return []
    from devmind.agent.saving import read_json

    *earlier, stage = read_json(config).get("stages") or [""]
    return [Age("start", f"before {stage}" if earlier else UNTAUGHT, run / "start")]


def _began_untrained(agent: Path) -> bool:
    """Whether the agent went through a stage with a trunk of its own: `pretrained` and `trunk_source` name weights that
    a seed cannot reproduce.
    """
    from devmind.agent.saving import read_json

    config = read_json(agent / "config.json")
    return bool(config.get("stages")) and not (config.get("pretrained") or config.get("trunk_source"))
