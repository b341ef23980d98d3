"""What holds of every exam of an agent that was taught nothing: it is not passed, and no measure is above its floor."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from devmind import plugins
from devmind.agent.agent import Agent
from devmind.curriculum.exam import Measure
from devmind.curriculum.examining import Examined, decide, examine_skill
from devmind.curriculum.stage import Skill, Stage
from devmind.testing import tiny_context

CHANGES = ("sleep/awake change", "sleep/earlier skills")
"""What a night did to other answers: of an agent that knows none it is chance, in either direction."""
ALARMED = ("startle", "startle/move_trunk")
"""Who withdraws at every tick answers every event; the same exam's false alarms are for that."""


def told_in_life(stage: str) -> dict[str, str]:
    """By skill the second column of the table "skill | in life" on a stage's page."""
    docs = Path(__file__).parents[2] / "docs"
    page = docs / f"{stage}-stage.md" if (docs / f"{stage}-stage.md").is_file() else docs / f"{stage}.md"
    table = page.read_text(encoding="utf-8").partition("| skill | in life |\n|---|---|\n")[2].partition("\n\n")[0]
    rows = [row.strip("| ").split(" | ") for row in table.splitlines()]
    return {skill.strip("`"): said for skills, said in rows for skill in skills.split()}


def held_to_the_floors(asked: str, agent: Agent, folder: Path, scale: float = 0.1) -> Examined:
    """A skill's exam of an untaught agent, which does not pass it and is above the floor of no measure.

    Args:
        scale: share of the exam's episodes.
    """
    stages = [plugin.load()() for plugin in plugins.available("stages").values() if plugin.distribution == "devmind"]
    ((stage, skill),) = ((stage, skill) for stage in stages for skill in stage.skills if skill.name == asked)
    item = examine_skill(stage, skill, agent, tiny_context(folder, f"exam.episodes_scale={scale}"))
    stays_at_the_floors(item)
    return item


def law_exam_stays_at_the_floors(stage: Stage, skill: Skill, measures: Mapping[str, Measure], folder: Path) -> None:
    """The same of the full exam that the law check of a whole stage holds (`check_stage`), with half the episodes.

    Its intervals count as narrow as those of twice the episodes, so that it is no easier to stay below a floor.
    """
    stays_at_the_floors(decide(stage, skill, dict(measures), tiny_context(folder)), width=0.5**0.5)


def stays_at_the_floors(item: Examined, width: float = 1.0) -> None:
    """`width` is the share of an interval, on each side of the score, that a measure is allowed."""
    assert not all(decision.passed for decision in item.verdict.decisions), "goals included"
    assert told_in_life(item.stage)[item.skill.name] == item.in_life, "what the page says is what was noted"
    for name, measure in item.measures.items():
        if name in CHANGES:
            continue
        if name in ALARMED and item.measures[name.replace("startle", "startle/false alarms", 1)].score > 0.5:
            continue
        low, high = (measure.score + width * (bound - measure.score) for bound in measure.interval())
        margin = 0.05 * abs(measure.ceiling - measure.chance)
        if measure.higher_is_better:
            assert low <= max(measure.floor, measure.chance) + margin, name
        else:
            assert high >= min(measure.floor, measure.chance) - margin, name
