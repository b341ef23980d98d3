"""The verdict as a table for the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from devmind.report.page import failures
from devmind.report.results import Difference, MeasureResult, Results, validate
from devmind.report.words import number, trial

if TYPE_CHECKING:
    from rich.text import Text

    from devmind.report.grid import Grid

NAME = 18
"""The width to which a measure's name is wrapped, so that a table in 80 columns breaks names only at slashes."""


def verdict_table(results: Results | Mapping[str, Any]) -> Grid:
    """A table with one row for each measure, the verdict on top and remarks below; printed by `rich`.

    Raises:
        DevmindError: `results` is not what results.json holds.
    """
    from rich.text import Text

    from devmind.report.grid import Column, Grid

    results = validate(results)
    passed = results.verdict.passed
    title = Text(f"{results.stage}: {'passed' if passed else 'FAILED'}", "bold green" if passed else "bold red")
    if results.run.is_trial:
        title.append(f"\n{trial(results.run.size)}", "bold yellow")
    numbers = [Column(head, right=True) for head in ("score", "95 %", "n", "chance", "floor", "gate")]
    columns = [Column("measure", NAME), *numbers, Column("verdict", 11)]  # "✗ failed, / a rule / does better"
    rows = [_row(measure) for skill in results.skills for measure in skill.measures]
    return Grid(columns, rows, title, [Text(remark) for remark in _remarks(results)])


def _row(measure: MeasureResult) -> list[Text]:
    from rich.text import Text

    side = "≥" if measure.higher_is_better else "≤"
    cells = [
        number(measure.score),
        f"{number(measure.low)}–{number(measure.high)}",
        measure.counted,
        number(measure.chance),
        number(measure.floor),
        f"{side} {number(measure.gate)}" if measure.gate is not None else "–",
    ]
    mark, colour = {True: ("✓ ", "green"), False: ("✗ ", "bold red"), None: ("", "dim")}[measure.passed]
    word, *rule = measure.said.partition(", ")
    verdict = Text(mark + word, colour).append("".join(rule), "yellow")
    return [Text(measure.name), *map(Text, cells), verdict]


def _remarks(results: Results) -> list[str]:
    said = [_passed(results)]
    said += [reason for reason, measure in failures(results) if measure is None]  # the others have a row
    if results.untouched:
        said.append(results.untouched.said)
    said += [
        f"the lesson {x.name} was cut at {x.done} of {x.steps} steps" for x in results.lessons if x.status == "cut"
    ]
    said += [
        f"{one.name}: a rule does better, {one.beaten_by} {number(one.floor)}"
        for skill in results.skills
        for one in skill.measures
        if one.passed and one.beaten_by
    ]
    if results.run.predecessor_failed:
        said.append("started from a run that failed its gate")
    if results.run.attempt_said:
        said.append(results.run.attempt_said)
    said += [f"{name}, against its twin: {one.said}" for name, one in _differences(results)]
    if unasked := [one.name for skill in results.skills for one in skill.measures if one.twin == "not asked"]:
        said.append(f"not compared with a twin: {', '.join(unasked)}")
    asked = [(one.name, one.trunk.verdict if one.trunk else "not asked") for one in results.asked_of_the_trunk]
    if asked:
        verdicts = dict.fromkeys(verdict for _, verdict in asked)
        each = [f"{verdict}: {', '.join(name for name, of in asked if of == verdict)}" for verdict in verdicts]
        said.append(f"with the trunk's layers passing, {'; '.join(each)}")
    if results.ablation is None:
        said.append(f"ablation: not run ({results.twin_command})")
    return said


def _passed(results: Results) -> str:
    """What passed, which is said before where a rule does better."""
    judged = [one for skill in results.skills for one in skill.measures if one.passed is not None]
    names = [one.name for one in judged if one.passed]
    return f"passed {len(names)} of {len(judged)} measures with a gate{': ' if names else ''}{', '.join(names)}"


def _differences(results: Results) -> Iterable[tuple[str, Difference]]:
    return results.ablation.differences.items() if results.ablation else ()
