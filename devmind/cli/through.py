"""`devmind stage exam NAME --through life`: its table, and the skills that could not be asked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from devmind.cli import show

if TYPE_CHECKING:
    from devmind.config import RunConfig
    from devmind.live.exams import LiveExamResult


def exam_through_life(
    name: str, folder: Path, config: RunConfig, skill: str | None, data: Path | None
) -> tuple[dict[str, Any], bool]:
    """Hold a stage's exams through life and show them; returns plain data for JSON, and whether all of them passed.

    Raises:
        ExamError: the agent was not admitted to the stage, or none of its skills can be asked in life.
    """
    from devmind.agent.agent import Agent
    from devmind.curriculum.examining import pick_skills
    from devmind.curriculum.side_by_side import exam_folder
    from devmind.curriculum.start import load_stage, make_context
    from devmind.errors import ExamError
    from devmind.live.exams import EPISODES, examine_in_life

    stage, agent = load_stage(name), Agent.from_pretrained(folder)
    if name not in agent.config.stages:
        raise ExamError(f"The agent in {folder} was never admitted to stage '{name}'; run it with --agent {folder}.")
    show.line(f"{EPISODES} episodes a measure: plain, through a lossless mailbox, and pictured by a camera.", "dim")
    results: list[LiveExamResult] = []
    # An exam writes into its run's folder. This is no run, and a packaged agent lies where devmind is installed.
    with exam_folder() as out:
        context = make_context(config, out, data, ())
        for one in pick_skills(stage, skill):
            try:
                results.append(examine_in_life(stage, one, agent, context, config.exam.bootstrap))
            except ExamError as error:
                show.line(f"{one.name}: not examined in the live loop: {error}", "yellow")
    asked = [one for one in results if one.asked]
    rows = [row for each in asked for row in _rows(each)]
    if rows:
        show.table(
            ("measure", "plain, 95 % interval", "mailbox", "rendered", "beside, on the same episodes", "verdict"), rows
        )
    for each in results:
        show.line(f"{each.skill}: {each.in_life}.", "" if each.rendered else "yellow")
    for each in asked:
        same = f"the largest difference {each.comparison.worst:.1g}"
        if each.comparison.different:
            same = f"{each.comparison.different:,} differ, first {each.comparison.first}"
        show.line(f"{each.skill}: {each.comparison.ticks:,} ticks compared, {same}.")
    if not sum(one.comparison.ticks for one in asked):
        raise ExamError("No tick of life was compared, so nothing is shown; name a skill in which the agent acts.")
    return {one.skill: _plain(one) for one in results}, all(one.passed for one in asked)


def _rows(result: LiveExamResult) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for name, plain in result.plain.items():
        low, high = plain.interval()
        judged = result.judged.get(name)
        mailbox = result.mailbox[name].score
        verdict = "✓ equal" if mailbox == plain.score and not result.comparison.different else "✗ not equal"
        beside = rendered = ""
        if judged:
            rendered = f"{result.rendered[name].score:.3f}"
            beside = f"{judged.score:.3f} in {judged.low:.3f} .. {judged.high:.3f}, n {judged.n}"
            beside += f" ({judged.stopped} stopped by the frame's edge)" if judged.stopped else ""
            verdict += ", ✓ within" if judged.within else ", ✗ not within"
        rows.append((name, f"{plain.score:.3f}, {low:.3f} .. {high:.3f}", f"{mailbox:.3f}", rendered, beside, verdict))
    return rows


def _plain(result: LiveExamResult) -> dict[str, Any]:
    return {
        "compared_ticks": result.comparison.ticks,
        "different_ticks": result.comparison.different,
        "worst_difference": result.comparison.worst,
        "in_life": result.in_life,
        "passed": result.passed if result.asked else None,
        "measures": {
            name: {
                "plain": plain.score,
                "mailbox": result.mailbox[name].score if result.mailbox else None,
                "rendered": result.rendered[name].score if result.rendered else None,
                "judged": vars(result.judged[name]) if name in result.judged else None,
            }
            for name, plain in result.plain.items()
        },
    }
