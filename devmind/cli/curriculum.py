"""`devmind curriculum`: several stages one after another, each from the milestone of the stage before."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from devmind import plugins
from devmind.cli import show
from devmind.cli.house import group, may_ask_hub
from devmind.cli.paths import existing
from devmind.cli.settings import (
    NEXT_LESSON,
    AgentOption,
    ConfigOption,
    CutOption,
    DataOption,
    ExperienceOption,
    MinutesOption,
    OutOption,
    SeedOption,
    SetOption,
    SizeOption,
    resumable,
    run_config,
    run_inputs,
    uncut,
)
from devmind.cli.stage import stages_like
from devmind.errors import some

if TYPE_CHECKING:
    from devmind.curriculum.runner import RunResult

app = group("A whole childhood, several stages one after another: run, resume, status, exam.")

Folder = Annotated[Path, typer.Argument(metavar="OUT", help="Folder of a curriculum (or of one stage's run).")]


@app.command()
def run(
    ctx: typer.Context,
    stages: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[STAGE]...",
            autocompletion=stages_like,
            help="Stages; by default all that the agent has not been through.",
        ),
    ] = None,
    agent: AgentOption = None,
    size: SizeOption = None,
    minutes: MinutesOption = None,
    sets: SetOption = None,
    config: ConfigOption = None,
    experience: ExperienceOption = None,
    data: DataOption = None,
    seed: SeedOption = None,
    out: OutOption = None,
    ablate: Annotated[
        bool,
        typer.Option("--ablate", help="Also train a twin beside each stage, for comparison; finished stages get it."),
    ] = False,
    cut: CutOption = False,
) -> None:
    """Raise a whole childhood: run stages in the order of their requirements, and write one report.

    A stage that fails a gate is repeated once, with half its steps. Then the curriculum continues,
    with that stage marked as failed.

    Exit code 0: all passed; 1: a stage failed, or the last agent failed a gate in half precision;
    2: an error; 130 or 143: stopped.
    """
    settings = run_config(size, minutes, sets, config, seed)
    names = [plugins.find("stages", name).name for name in stages or ()]
    data, sessions = run_inputs(data, experience)
    folder = out or Path("checkpoints") / f"curriculum-{settings.size}-seed{settings.seed}"
    with resumable(shlex.join(["devmind", "curriculum", "resume", str(folder)]), NEXT_LESSON):
        show.tell_loading()
        from devmind.curriculum.runner import Curriculum, every_stage

        walk = Curriculum(
            names or every_stage(agent), settings, folder, agent=agent, data=data, sessions=sessions,
            command=uncut(ctx.obj), ablate=ablate,
        )  # fmt: skip
        results = walk.run(cut)
    _tell(results, folder)


@app.command()
def resume(out: Folder, cut: CutOption = False) -> None:
    """Continue a stopped curriculum with its own settings."""
    existing(out, "OUT")
    from devmind.curriculum.journal import Journal

    plan = Journal(out / "curriculum.jsonl").last("plan") or {}
    may_ask_hub(plan.get("config", {}).get("trunk", {}).get("pretrained"))
    with resumable(shlex.join(["devmind", "curriculum", "resume", str(out)]), NEXT_LESSON):
        show.tell_loading()
        from devmind.curriculum.runner import Curriculum

        results = Curriculum.resume(out, cut)
    _tell(results, out)


@app.command()
def exam(out: Folder) -> None:
    """Examine the last agent of a childhood, in half precision and in all stages; 'run' does so at its end.

    Exit code 0: all gates passed; 1: a gate failed; 2: the agent could not be examined.
    """
    existing(out, "OUT")
    show.tell_loading()
    from devmind.curriculum.childhood import end_with_parent
    from devmind.curriculum.runner import examine_childhood

    end_with_parent()
    raise typer.Exit(0 if examine_childhood(out) else 1)


@app.command()
def status(out: Folder) -> None:
    """Show the position and verdict of each stage."""
    existing(out, "OUT")
    from devmind.curriculum.runner import status as read_status

    rows = []
    for name, now in read_status(out)["stages"].items():
        where = f"{now['lesson']}, step {now['step']:,} of {now['of']:,}" if "lesson" in now else now.get("agent", "")
        rows.append((name, now["state"], where))
    show.table(("stage", "state", "where"), rows)


def _tell(results: Sequence[RunResult], out: Path) -> None:
    from devmind.report.childhood import last_exams

    for result in results:
        show.verdict(result.results, result.report)
    last = last_exams(out)
    missed = f"; it missed {some(last.failed)}" if last.failed else ""
    if last.gates:
        show.line(f"the last agent passes {last.gates.passed} of {last.gates.of} gates in half precision{missed}")
    show.path("childhood", out / "childhood.html")
    raise typer.Exit(0 if all(result.passed for result in results) and not last.failed else 1)
