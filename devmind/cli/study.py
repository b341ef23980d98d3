"""`devmind study`: compares ways to raise an agent over several seeds, as a file fixed beforehand."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from devmind.cli import show
from devmind.cli.options import OnOption, OutOption
from devmind.cli.settings import resumable
from devmind.errors import ConfigError

if TYPE_CHECKING:
    from devmind.curriculum.study.run import StudyRun
    from devmind.report.study import StudyReport

MOST_SEEDS = 1000


def study(
    ctx: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A study's YAML file, or one that comes with devmind.")],
    seeds: Annotated[
        str,
        typer.Option("--seeds", metavar="A-B|A,B", help="Seeds of every arm; nothing was tuned on 100 and above."),
    ] = "100-109",
    jobs: Annotated[int, typer.Option("--jobs", min=1, metavar="N", help="How many seeds run at a time.")] = 1,
    out: OutOption = None,
    on: OnOption = None,
    only: Annotated[
        int | None, typer.Option("--only", min=0, metavar="SEED", help="Make the runs of this seed, and no report.")
    ] = None,
) -> None:
    """Ask whether staging helps: run arms with equal steps over several seeds, and write one report.

    File, code and gates are fixed before the first run; if one of them changes, the study is refused. The same
    command continues a stopped study.

    Exit code 0: all runs finished, whatever the answer; 2: an error; 130 or 143: stopped.
    """
    asked = parse_seeds(seeds)
    from devmind.curriculum.study.file import load_study

    study_file = load_study(file)
    folder = out or Path("checkpoints") / f"study-{study_file.name}"
    with resumable(ctx.obj):
        show.print_loading()
        from devmind.curriculum.cluster import HERE
        from devmind.curriculum.study.gathering import GATHERED, PAGE, close
        from devmind.curriculum.study.run import StudyRun

        run = StudyRun(study_file, asked, folder, ctx.obj)
        frozen = run.freeze()
        if only is not None:
            from devmind.curriculum.ranks import end_with_parent

            if only not in asked:
                raise ConfigError(f"--only {only} is none of the study's seeds, {seeds}; give one of them.")
            end_with_parent()
            run.run_seed(only)
            return
        _print_plan(run, frozen)
        if (folder / GATHERED).is_file():
            show.line("This study had finished; nothing was done. Give another --out to run it anew.")
        else:
            run.run(jobs, on or HERE)
        report = close(run)
    _print_report(report)
    show.path("report", folder / PAGE)


def parse_seeds(text: str) -> list[int]:
    """The seeds of '100-104', '3,5,8' or a mix of both, in the order given.

    Raises:
        ConfigError: the text has another form, or names a seed twice.
    """
    found: list[int] = []
    for part in text.split(","):
        if not (match := re.fullmatch(r"\s*(\d{1,9})(?:-(\d{1,9}))?\s*", part)):
            raise ConfigError(f"--seeds expects whole numbers such as 100-104 or 3,5,8; got '{text}'.")
        first, last = int(match[1]), int(match[2] or match[1])
        if not first <= last < first + MOST_SEEDS:
            raise ConfigError(f"--seeds expects up to {MOST_SEEDS} seeds, the smaller number first; got '{text}'.")
        found += range(first, last + 1)
    if len(set(found)) < len(found):
        raise ConfigError(f"--seeds names a seed twice: '{text}'; every seed counts once.")
    return found


def _print_plan(run: StudyRun, frozen: Mapping[str, Any]) -> None:
    """Print what is fixed from here on, before the first run."""
    file, plan = run.study.file, run.plan
    show.line(file.question, "bold")
    primary, equal = file.primary, plan.equal[0]
    show.line(f"primary: {primary.arms[0]} against {primary.arms[1]} at {primary.outcome}, equal in {equal}")
    show.line(f"file: {frozen['file_sha256']}")
    show.line(f"code: {frozen['code_sha256']} (commit {frozen['commit']})")
    bounds = [f"{gate['measure']} {_bound(gate)}" for gate in frozen["gates"]]
    show.line(f"gates: {', '.join(bounds) or 'none'}")
    show.line(f"seeds: {', '.join(map(str, frozen['seeds']))}; {len(plan.legs)} runs each")
    stages = list(file.stages)
    rows = [
        (name, f"{plan.steps(name):,}", *(f"{plan.steps_in(name, stage):,}" for stage in stages), plan.walk(name))
        for name in plan.arms
    ]
    show.table(("arm", "steps", *(f"of {stage}" for stage in stages), "walk"), rows, ("arm",))


def _bound(gate: Mapping[str, Any]) -> str:
    said = "its floor" if gate["bound"] is None else f"{gate['bound']:g}"
    return said + (" (a goal)" if gate["goal"] else "")


def _print_report(report: StudyReport) -> None:
    from devmind.report.words import number, trial

    if report.is_trial:
        show.line(trial(report.size), "yellow")
    for doubt in report.doubts:
        show.line(doubt, "yellow")
    rows = [
        (
            f"{one.arms[0]} - {one.arms[1]}",
            number(one.difference, True),
            f"{number(one.low, True)} .. {number(one.high, True)}",
            number(one.p if one.p_holm is None else one.p_holm),
            number(one.detectable),
            f"{one.outcome}: {one.answer}",
        )
        for one in report.comparisons
    ]
    show.table(("arms", "difference", "95 % interval", "p", "detectable", "outcome"), rows, ("arms",))
    show.line(report.primary.said, "bold")
