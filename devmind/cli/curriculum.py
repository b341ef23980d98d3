"""A whole childhood, several stages one after another: what `devmind stage` does with more than one."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from devmind.cli import show
from devmind.cli.house import may_ask_hub
from devmind.cli.settings import NEXT_LESSON, resumable
from devmind.errors import some

if TYPE_CHECKING:
    from devmind.config import RunConfig
    from devmind.curriculum.runner import RunResult

JOURNAL = "curriculum.jsonl"
"""The file by which the folder of a childhood is known."""


def run(stages: Sequence[str], settings: RunConfig, out: Path | None, cut: bool, **inputs: Any) -> NoReturn:
    """Run stages in the order of their requirements, by default all; the verdict is the exit code.

    Args:
        inputs: as for `Curriculum`; `agent` is what it begins with.
    """
    folder = out or Path("checkpoints") / f"curriculum-{settings.size}-seed{settings.seed}"
    with resumable(_again(folder), NEXT_LESSON):
        show.print_loading()
        from devmind.curriculum.runner import Curriculum, every_stage

        walk = Curriculum(stages or every_stage(inputs["agent"]), settings, folder, **inputs)
        results = walk.run(cut)
    _print_results(results, folder)


def resume(out: Path, cut: bool) -> NoReturn:
    """Continue a stopped childhood with its own settings."""
    from devmind.curriculum.journal import Journal

    plan = Journal(out / JOURNAL).last("plan") or {}
    may_ask_hub(plan.get("config", {}).get("trunk", {}).get("pretrained"))
    with resumable(_again(out), NEXT_LESSON):
        show.print_loading()
        from devmind.curriculum.runner import Curriculum

        results = Curriculum.resume(out, cut)
    _print_results(results, out)


def exam(out: Path) -> NoReturn:
    """Examine the last agent of a childhood, in half precision and in all stages."""
    show.print_loading()
    from devmind.curriculum.ranks import end_with_parent
    from devmind.curriculum.runner import examine_childhood

    end_with_parent()
    raise typer.Exit(0 if examine_childhood(out) else 1)


def show_position(out: Path) -> None:
    """Print the position and verdict of each stage of a childhood, or of one stage's run."""
    from devmind.curriculum.runner import status

    rows = []
    for name, now in status(out)["stages"].items():
        where = f"{now['lesson']}, step {now['step']:,} of {now['of']:,}" if "lesson" in now else now.get("agent", "")
        rows.append((name, now["state"], where))
    show.table(("stage", "state", "where"), rows)


def _again(folder: Path) -> str:
    return shlex.join(["devmind", "stage", "run", "--out", str(folder)])


def _print_results(results: Sequence[RunResult], out: Path) -> NoReturn:
    from devmind.report.childhood import last_exams

    for result in results:
        show.verdict(result.results, result.report)
    last = last_exams(out)
    missed = f"; it missed {some(last.failed)}" if last.failed else ""
    if last.gates:
        show.line(f"the last agent passes {last.gates.passed} of {last.gates.of} gates in half precision{missed}")
    show.path("childhood", out / "childhood.html")
    raise typer.Exit(0 if all(result.passed for result in results) and not last.failed else 1)
