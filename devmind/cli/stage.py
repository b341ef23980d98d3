"""`devmind stage`: show, run and examine stages, one or a whole childhood."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from devmind import bounds, plugins
from devmind.cli import curriculum, show
from devmind.cli.agents import RUNS, agent_folder
from devmind.cli.house import group
from devmind.cli.options import (
    AgentOption,
    BeginnerOption,
    ConfigOption,
    CutOption,
    DataOption,
    OnOption,
    OutOption,
    SetOption,
)
from devmind.cli.paths import existing, existing_files, writable_file
from devmind.cli.settings import NEXT_LESSON, data_folder, feeds_apart, resumable, run_config, uncut
from devmind.errors import CheckpointError, ConfigError, nearest

if TYPE_CHECKING:
    from devmind.config import RunConfig
    from devmind.curriculum.finished import RunResult
    from devmind.curriculum.gate import Gate, Threshold
    from devmind.curriculum.stage import Context, Stage

PLANNED_SIZE, PLANNED_ON = "nursery", "2 cores of 100 GFLOP/s (float32)"
"""The size and the machine for which lessons declare their minutes."""

app = group("Stages of teaching: show, run, exam.")

ALL = "all"
"""In place of stages: a whole childhood."""


def stages_like(incomplete: str) -> list[str]:
    """For a shell's completion: installed stages that begin so."""
    return [name for name in plugins.available("stages") if name.startswith(incomplete)]


def _skills_like(ctx: typer.Context, incomplete: str) -> list[str]:
    # Before the option has its value, the stage is not assigned yet and is among the words that are left.
    known, words = plugins.available("stages"), (ctx.params.get("stage"), *ctx.args)
    skills = next((known[word].skills for word in words if word in known), ())
    return [name for name in skills if name.startswith(incomplete)]


@app.command("show")
def show_(
    stage: Annotated[
        str | None, typer.Argument(metavar="[STAGE]", autocompletion=stages_like, help="One of them, in full.")
    ] = None,
    config: ConfigOption = None,
    sets: SetOption = None,
) -> None:
    """Show the installed stages in the order of a childhood, or what one of them requires, teaches and asks.

    Of each stage the list says which ones it needs, what it teaches, and the verdict of its newest run in
    ./checkpoints. Of STAGE one sees the lessons with their budgets, and the skills with their gates.
    """
    settings = run_config(config, sets=sets)
    if stage is not None:
        _describe(plugins.find("stages", stage).name, settings)
        return
    every = plugins.available("stages")
    needs = {name: _needs(plugin) for name, plugin in every.items()}
    rows = [
        (p.name, ", ".join(needs[p.name]) or "–", _verdict(p.name), f"{p.distribution} {p.version}", p.about)
        for p in map(every.__getitem__, _as_in_a_childhood(needs))
    ]
    show.table(("stage", "needs", "newest run", "from", "teaches"), rows)


def _needs(plugin: plugins.Plugin) -> tuple[str, ...]:
    """What a stage requires, read from its file: a list must not import torch, nor a broken plugin."""
    requires = plugin.literal("requires")
    return tuple(map(str, requires)) if isinstance(requires, tuple | list) else ()


def _as_in_a_childhood(needs: Mapping[str, Sequence[str]]) -> list[str]:
    """Each stage after those that it needs, in the order of `stage run all`."""
    required = {name for some in needs.values() for name in some}
    order: dict[str, None] = {}

    def visit(name: str, path: tuple[str, ...]) -> None:
        for one in needs[name] if name not in path else ():  # a circle is refused when it is run
            if one in needs:
                visit(one, (*path, name))
        order.setdefault(name)

    for name in sorted(needs, key=lambda name: (name in required, name)):
        visit(name, ())
    return list(order)


def _verdict(stage: str) -> str:
    """'passed, size nursery', as in the report; '–' if no run has ended."""
    from devmind.cli.report import newest_of

    newest = newest_of(stage)
    if newest is None:
        return "–"
    return f"{'passed' if newest.verdict.passed else 'failed'}, size {newest.run.size}"


def _describe(stage: str, settings: RunConfig) -> None:
    from devmind.curriculum.stage import check_lessons
    from devmind.curriculum.start import load_stage, make_context

    loaded = load_stage(stage)
    context = make_context(settings, RUNS, None, ())
    check_lessons([loaded], context)
    after = f"goes on after {', '.join(loaded.requires)}" if loaded.requires else "a first stage, which requires none"
    show.line(f"{loaded.name}: {after}", "bold")
    _describe_lessons(loaded, context)
    show.line()
    rows = [(skill.name, _gate(skill.gate_in(context)), skill.about) for skill in loaded.skills]
    show.table(("skill", "gate (bound of the 95 % interval)", "exam"), rows)
    show.line(f"\nRaise it: devmind stage run {stage}")


def _describe_lessons(stage: Stage, context: Context) -> None:
    lessons, size = list(stage.lessons(context)), context.config.size
    if size != PLANNED_SIZE:
        show.line(f"\nLessons at size {size}; 'devmind stage run' measures how long they take")
        show.table(("lesson", "steps", "improves"), [(l.name, f"{l.steps:,}", ", ".join(l.skills)) for l in lessons])  # noqa: E741
        return
    show.line(f"\nLessons at size {size}, {sum(lesson.minutes for lesson in lessons):g} minutes in all")
    rows = [(l.name, f"{l.minutes:g}", f"{l.steps:,}", ", ".join(l.skills)) for l in lessons]  # noqa: E741
    show.table(("lesson", "minutes", "steps", "improves"), rows)
    show.line(f"Minutes of {PLANNED_ON}; the steps are the same on every machine, however long they take.")


def _gate(gate: Gate) -> str:
    return "\n".join(_threshold(threshold) for threshold in gate.thresholds)


def _threshold(threshold: Threshold) -> str:
    sign = "at most" if threshold.lower_is_better else "at least"
    needs = [] if threshold.bound is None else [f"{sign} {threshold.bound:g}"]
    needs += ["better than its floor"] if threshold.beats_floor else []
    needs += ["above its twin, if --ablate raises one"] if threshold.beats_twin else []
    told = f"{threshold.measure}: {' and '.join(needs)}" + (" (with data)" if threshold.when_absent == "skip" else "")
    return told + (" (a goal)" if threshold.goal else "")


@app.command()
def run(
    ctx: typer.Context,
    stages: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[STAGE]...",
            autocompletion=stages_like,
            help="A stage of 'devmind stage show'; or several, or 'all' that the agent has not been through.",
        ),
    ] = None,
    agent: BeginnerOption = None,
    config: ConfigOption = None,
    minutes: Annotated[
        float | None,
        typer.Option(
            "--minutes", metavar="M", help="Scale all lessons of a stage by one factor, to about M minutes here."
        ),
    ] = None,
    sets: SetOption = None,
    experience: Annotated[
        list[Path] | None,
        typer.Option(
            "--experience",
            metavar="SESSION",
            help="Recorded session to learn from without labels; repeatable. Or feed:PLACE, a spool or its server.",
        ),
    ] = None,
    data: DataOption = None,
    out: OutOption = None,
    on: OnOption = None,
    devices: Annotated[
        int | None,
        typer.Option("--devices", min=1, metavar="N", help="Teach one stage in N processes, one for each device."),
    ] = None,
    strategy: Annotated[
        str | None,
        typer.Option("--strategy", metavar="ddp|fsdp", help="Whether devices hold the agent or a part of it."),
    ] = None,
    ablate: Annotated[
        bool, typer.Option("--ablate", help="Also train a twin, for comparison; a finished run gets it.")
    ] = False,
    cut: CutOption = False,
) -> None:
    """Teach a stage, examine the agent, and write the report; after a stop the same command continues.

    Lessons have a fixed number of steps, however long they take; a forecast is printed before the first one.

    Several stages, or 'all', are a childhood: they run in the order of their requirements, with one report. A stage
    that fails a gate is repeated once, with half its steps; then the childhood continues, with that stage marked as
    failed. Without a stage, --out is a childhood that was stopped; it continues with its own settings.

    Exit code 0: passed; 1: a gate failed, also by the last agent of a childhood in half precision; 2: an error; 130 or
    143: stopped.
    """
    if not stages:
        if out is None:
            raise ConfigError(f"Name a stage to run, or '{ALL}': devmind stage run reflex; 'devmind stage show' lists.")
        existing(out, "--out")
        curriculum.resume(out, cut)
    experience, sets = feeds_apart(experience, sets)
    settings = run_config(config, minutes, sets, on, devices, strategy)
    names = [plugins.find("stages", name).name for name in stages if name != ALL]
    found, sessions = data_folder(data), existing_files(experience, "--experience")
    inputs: dict[str, Any] = {"agent": agent, "data": found, "sessions": sessions, "command": uncut(ctx.obj)}
    if len(stages) > 1 or not names:
        if settings.devices > 1:
            raise ConfigError("--devices teaches one stage at a time; run the stages one after another.")
        curriculum.run([] if ALL in stages else names, settings, out, cut, ablate=ablate, **inputs)
    stage = names[0]
    from devmind.curriculum.finished import finished_run, identity, run_folder

    folder = out or run_folder(stage, settings)
    if done := finished_run(folder, identity(stage, settings, agent, found, sessions, folder), ablate):
        show.line("This run had finished; nothing was done. Give another --out to run it anew.")
        _exit_with_verdict(done)
    with resumable(inputs["command"], NEXT_LESSON):
        show.line(f"Stage {stage}, size {settings.size}, seed {settings.seed}: {show.LOADING}.", "dim")
        from devmind.curriculum.runner import run_stage

        result = run_stage(stage, settings, out=folder, ablate=ablate, cut=cut, **inputs)
    _exit_with_verdict(result)


def _exit_with_verdict(result: RunResult) -> NoReturn:
    """Print the verdict of a run, which also is the exit code."""
    show.verdict(result.results, result.report)
    show.path("agent", result.agent)
    raise typer.Exit(0 if result.passed else 1)


@app.command()
def exam(
    stage: Annotated[
        str,
        typer.Argument(
            metavar="STAGE",
            autocompletion=stages_like,
            help="A stage of 'devmind stage show', or the folder of a childhood.",
        ),
    ],
    agent: AgentOption = None,
    skill: Annotated[
        str | None, typer.Option("--skill", metavar="NAME", autocompletion=_skills_like, help="Only this skill.")
    ] = None,
    data: DataOption = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Also write the scores to this file.")
    ] = None,
    sets: SetOption = None,
    on: OnOption = None,
    through: Annotated[
        str | None,
        typer.Option("--through", metavar="life", help="Hold it with the live loop, in rooms on a virtual clock."),
    ] = None,
) -> None:
    """Examine a saved agent; with --through life, show that it also passes in the live loop.

    The last agent of a childhood is examined in half precision and in all stages, as 'run' does at its end.

    Episodes come from world seeds of 1,000,000 on, which no lesson uses; --set seed=N gives others. Without --data,
    recordings and texts of others are not asked for; what was read instead, and which gates were not asked, is printed
    below the table.

    Exit code 0: passed; 1: a gate failed; 2: the agent could not be examined.
    """
    if through not in (None, "life"):
        raise ConfigError(f"--through knows 'life' only; got '{through}'.")
    if stage not in plugins.available("stages") and (Path(stage) / curriculum.JOURNAL).is_file():
        curriculum.exam(Path(stage))
    known = plugins.find("stages", stage).skills
    if skill is not None and known and skill not in known:
        raise ConfigError(f"Stage '{stage}' has no skill '{skill}'{nearest(skill, known)}")
    data = data_folder(data)
    writable_file(json_file, "--json")
    folder = agent_folder(agent)
    settings = run_config(_size_of(folder), sets=sets, on=on)
    show.print_loading()
    if through:
        from devmind.cli.through import exam_through_life

        found, passed = exam_through_life(stage, folder, settings, skill, data)
        _write_scores(json_file, found)
        raise typer.Exit(0 if passed else 1)
    from devmind.config import TRIAL_SIZES
    from devmind.curriculum.runner import examine
    from devmind.report.words import trial

    examined = examine(stage, folder, settings, skill=skill, data=data)
    rows = [(name, *_scores(measure)) for name, measure in examined["skills"].items()]
    show.table(("measure", "score", "95 % interval", "n", "floor", "gate", "verdict"), rows)
    for name, measure in examined["skills"].items():
        if measure.get("note"):
            show.line(f"{name}: {measure['note']}", "dim")
    if carried := [
        (name, *_carried(row)) for name, measure in examined["skills"].items() if (row := measure.get("trunk"))
    ]:
        show.line("What the trunk's layers carry, asked on a part of the episodes:")
        show.table(("measure", "score", "layers pass", "difference", "95 % interval", "n", "verdict"), carried)
    if not_asked := examined.get("not_asked"):
        lacking = "an extra that is not installed" if data else "--data, or an extra that is not installed"
        show.line(f"not asked, as they need {lacking}: {', '.join(not_asked)}", "yellow")
    if settings.size in TRIAL_SIZES:
        show.line(trial(settings.size), "yellow")
    _write_scores(json_file, {key: examined[key] for key in ("agent_sha256", "passed", "skills")})
    raise typer.Exit(0 if examined["passed"] else 1)


def _write_scores(file: Path | None, scores: dict[str, Any]) -> None:
    from devmind.checkpointing.files import write_atomically

    if file:
        write_atomically(file, json.dumps(scores, indent=2) + "\n")
        show.path("scores", file)


def _size_of(agent: Path) -> str | None:
    """The size of a saved agent; None if its config does not say (loading it will name the fault)."""
    try:
        data = bounds.read_file(agent / "config.json", CheckpointError, bounds.AGENT_BYTES)
        config = bounds.parse_json(data, CheckpointError, "The agent's config.json is not JSON ({}).")
    except CheckpointError:
        return None
    return config.get("size") if isinstance(config, dict) else None


def _carried(row: dict[str, Any]) -> tuple[str, ...]:
    if row["n"] is None:
        return "", "", "", "", "", row["verdict"]
    interval = f"{row['low']:+.3f} .. {row['high']:+.3f}"
    whole, passing = f"{row['whole']:.3f}", f"{row['passing']:.3f}"
    return whole, passing, f"{row['gained']:+.3f}", interval, f"{row['n']:,}", row["verdict"]


def _scores(measure: dict[str, Any]) -> tuple[str, ...]:
    number = lambda value: "" if value is None else f"{value:.3f}"  # noqa: E731
    said = {True: "✓ ", False: "✗ ", None: ""}[measure["passed"]] + measure["verdict"]
    if measure["beaten_by"] and measure["passed"]:
        said += f": {measure['beaten_by']}"
    fewer = measure.get("distinct", measure["n"]) < measure["n"]
    asked = f"{measure['n']:,}" + (f" ({measure['distinct']:,} different)" if fewer else "")
    interval = f"{number(measure['low'])} .. {number(measure['high'])}"
    return (
        number(measure["score"]), interval, asked, number(measure["floor"]), number(measure["gate"]), said
    )  # fmt: skip
