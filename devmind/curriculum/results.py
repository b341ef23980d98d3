"""Assembles results.json, the only source of every report."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from typing import Any

import torch

from devmind.agent.agent import Agent
from devmind.config import RunConfig, differences
from devmind.curriculum.exam import Measure, retention
from devmind.curriculum.examining import Examined
from devmind.curriculum.finished import found_path
from devmind.curriculum.journal import Journal
from devmind.curriculum.pinned import versions
from devmind.curriculum.stage import Stage
from devmind.curriculum.teaching import part_of
from devmind.curriculum.timing import peak_memory_mb, with_rest
from devmind.plugins import about
from devmind.report.results import SCHEMA, Results, RetentionResult, validate

OF_A_LESSON = ("rehearsals", "rehearsal_share", "trained", "unrehearsed", "compared")


def commit() -> str:
    """The version of the code: the commit (40 letters) of the checkout from which devmind is imported, with `+changes`
    if files differ from it; without a checkout or git `devmind VERSION`.
    """
    root = Path(__file__).parent.parent.parent
    asked = (["rev-parse", "HEAD"], ["status", "--porcelain"])
    elsewhere = {name: text for name, text in os.environ.items() if not name.startswith("GIT_")}
    try:
        if (root / ".git").exists():  # the checkout itself, not a user's repository around an installation
            head, changes = (
                subprocess.run(
                    ["git", "-C", str(root), *words],
                    capture_output=True,
                    text=True,
                    timeout=10,
                    check=True,
                    env=elsewhere,
                ).stdout.strip()
                for words in asked
            )
            return head + ("+changes" if changes else "")
    except (OSError, subprocess.SubprocessError):
        pass
    return f"devmind {versions()['devmind']}"


def curves(journal: Journal) -> dict[str, dict[str, list[float]]]:
    """Every logged scalar against steps and seconds; steps that were repeated after an interruption count once."""
    by_name: dict[str, list[tuple[int, float, float]]] = {}
    for event in journal.events("progress"):
        for key, value in event["scalars"].items():
            points = by_name.setdefault(f"{_label(event)}/{key}", [])
            while points and points[-1][0] >= event["step"]:
                points.pop()
            points.append((event["step"], event["seconds"], value))
    return {
        name: dict(zip(("step", "seconds", "value"), map(list, zip(*points, strict=True)), strict=True))
        for name, points in sorted(by_name.items())
    }


def cost(agent: Agent, journal: Journal) -> dict[str, Any]:
    """Seconds, peak memory, parameters by part, and shares of the time."""
    taught = list(journal.events("lesson_done"))
    seconds = sum(event["seconds"] for event in taught)
    by_stage: dict[str, float] = {}
    for event in journal.events("exam"):
        stage = event.get("stage", "")  # older journals have no stage here
        by_stage[stage] = by_stage.get(stage, 0.0) + added_s(event)
    exams = sum(by_stage.values())
    spent_s: dict[str, float] = {}
    for event in taught:
        for part, share in _shares(event).items():
            spent_s[part] = spent_s.get(part, 0.0) + event["seconds"] * share
    whole = max(1e-9, seconds + exams)
    saved = [event for event in taught if event.get("busy")]
    saved_s = max(1e-9, sum(event["seconds"] for event in saved))
    parts: dict[str, int] = {}
    for name, parameter in agent.named_parameters():
        part = part_of(name)
        parts[part] = parts.get(part, 0) + parameter.numel()
    return {
        "seconds": seconds + exams,
        "peak_memory_mb": max([peak_memory_mb(), *(e.get("peak_memory_mb", 0) for e in journal.events("exam"))]),
        "parameters": sum(parts.values()),
        "parts": parts,
        "share": {part: value / whole for part, value in {**spent_s, "exams": exams}.items()},
        "exams": by_stage,
        "passing": sum(event.get("passing_s", 0.0) for event in journal.events("exam")),
        "busy": {
            part: sum(event["seconds"] * event["busy"][part] for event in saved) / saved_s
            for part in ("device", "host", "disk")[: 3 * bool(saved)]
        },
    }


def added_s(event: dict[str, Any]) -> float:
    """Seconds that an exam of a journal added to its run; older journals have one exam after another."""
    return float(event.get("added_s", event["seconds"]))


def _shares(event: dict[str, Any]) -> dict[str, float]:
    """Shares of a lesson's time, which sum to 1; older journals have only the share of batches."""
    if "share" not in event:
        return {"data": event["data_share"], "learning": 1 - event["data_share"]}
    return with_rest(event["share"])


def _iso(time_s: float) -> str:
    return datetime.fromtimestamp(time_s, UTC).isoformat(timespec="seconds")


def lessons(journal: Journal) -> list[dict[str, Any]]:
    """One row for each lesson, from the journal, and another for each repeat of its stage."""
    return [
        {
            "name": _label(event),
            "steps": event["planned"],
            "done": event["steps"],
            "seconds": event["seconds"],
            "status": event["status"],
            "steps_per_s": event["steps"] / max(event["seconds"], 1e-9),
            "share": _shares(event),
            **{name: event[name] for name in OF_A_LESSON if name in event},
        }
        for event in lessons_done(journal)
    ]


def lessons_done(journal: Journal) -> list[dict[str, Any]]:
    """How each lesson of each attempt ended; of a repeated lesson the last end counts."""
    return list({(event["lesson"], event.get("attempt", 0)): event for event in journal.events("lesson_done")}.values())


def _label(event: dict[str, Any]) -> str:
    """A lesson's name, with a mark in every repeat of its stage: 'watch', 'watch (again)', 'watch (attempt 3)'."""
    attempt = event.get("attempt", 0)
    return event["lesson"] + ("" if attempt == 0 else " (again)" if attempt == 1 else f" (attempt {attempt + 1})")


def _interruptions(journal: Journal) -> int:
    """How often the run was resumed before it finished; a twin that is added later interrupts nothing."""
    return sum(1 for _ in takewhile(lambda event: event["event"] == "resumed", journal.events("resumed", "finished")))


def _sat_exams(journal: Journal, attempt: int) -> list[str]:
    """SHA-256 of the agents that were examined in `attempt`."""
    exams = journal.events("exam")
    return sorted({event["agent"] for event in exams if event["when"] == f"attempt {attempt}" and "agent" in event})


def count_answers(examined: Sequence[Examined]) -> dict[str, dict[str, int]]:
    """How often each head decided for each effector, over all exams."""
    counts: dict[str, Counter[str]] = {}
    for item in examined:
        for measure in item.measures.values():
            for effector, heads in measure.answered.items():
                counts.setdefault(effector, Counter()).update(heads)
    return {effector: dict(heads) for effector, heads in counts.items()}


def matrix_row(examined: Sequence[Examined]) -> dict[str, float]:
    """The skill score of each measure, by `stage/measure`."""
    return {f"{item.stage}/{name}": measure.skill_score for item in examined for name, measure in item.measures.items()}


def matrix(stage: str, row: dict[str, float], before: dict[str, Any] | None) -> dict[str, Any]:
    """The stage x skill matrix: the rows of earlier stages, and this stage's."""
    stages = [*(before or {}).get("stages", []), stage]
    skills = list(dict.fromkeys([*(before or {}).get("skills", []), *row]))
    old = (before or {}).get("rows", [])
    old_skills = (before or {}).get("skills", [])
    rows = [[dict(zip(old_skills, values, strict=True)).get(skill) for skill in skills] for values in old]
    return {"stages": stages, "skills": skills, "rows": [*rows, [row.get(skill) for skill in skills]]}


def carry_over(old: Mapping[str, Any], examined: Sequence[Examined]) -> list[Any]:
    """The skills in the `old` results of the agent that a run began with, except those that are in `examined`."""
    held = {(item.stage, item.skill.name) for item in examined}
    return [row for row in old.get("skills", ()) if "skill" in row and (row.get("stage"), row["skill"]) not in held]


def last_row(matrix: Mapping[str, Any] | None) -> dict[str, float]:
    """The last row of a stage x skill matrix, by skill; {} if there is none."""
    if not matrix:
        return {}
    return {name: score for name, score in zip(matrix["skills"], matrix["rows"][-1], strict=True) if score is not None}


def measure_retention(before: Sequence[Examined], after: Sequence[Examined], resamples: int) -> list[RetentionResult]:
    """Retention of the earlier stages' skills, on the same exam seeds."""
    old: dict[str, Measure] = {f"{i.stage}/{name}": m for i in before for name, m in i.measures.items()}
    rows = []
    for item in after:
        for name, measure in item.measures.items():
            if (earlier := old.get(f"{item.stage}/{name}")) is not None:
                found = retention(earlier, measure, resamples)
                rows.append(
                    RetentionResult(skill=f"{item.stage}/{name}", change=found.change, low=found.low, kept=found.kept)
                )
    return rows


def trunk_moved(before: dict[str, torch.Tensor], agent: Agent) -> float:
    """Relative distance of the trunk's weights from those that the stage began with, without neurons born since.

    Where some have died, those behind them moved up, and it is too large.
    """
    after = {name: value for name, value in agent.trunk.state_dict().items() if value.is_floating_point()}
    both = []
    for name in after.keys() & before.keys():
        there = tuple(map(slice, map(min, after[name].shape, before[name].shape)))
        both.append((after[name][there], before[name][there]))
    moved = sum(float((value - old).square().sum()) for value, old in both)
    size = sum(float(value.square().sum()) for value in before.values() if value.is_floating_point())
    return (moved / max(size, 1e-12)) ** 0.5


def assemble(
    stage: Stage,
    examined: Sequence[Examined],
    agent: Agent,
    journal: Journal,
    config: RunConfig,
    attempt: int,
    old: Mapping[str, Any],
    **extra: Any,
) -> Results:
    """results.json of one stage and its best `attempt`; `extra` contains the entries that only the runner knows.

    Args:
        old: the results of the agent that the run began with, or {}. If the run left earlier stages untouched, their
            entries still hold and are taken over: a life asks only heads on the trunk that have passed an exam.
    """
    row, earlier = matrix_row(examined), list[Any]()
    if extra["untouched"]:
        row, earlier = last_row(old.get("matrix")) | row, carry_over(old, examined)
    start, machines = next(journal.events("start")), list(journal.events("machine"))
    content = {
        "schema": SCHEMA,
        "stage": stage.name,
        "about": about(type(stage).__doc__),
        "verdict": _verdict([item for item in examined if item.stage == stage.name], extra["retention"]),
        "run": {
            "command": start["command"],
            "seed": config.seed,
            "size": config.size,
            "started": _iso(start["time"]),
            "finished": _iso((journal.last() or start)["time"]),
            "versions": versions(),
            "commit": start.get("commit"),
            "threads": start["threads"],
            "device": start["device"],
            "cores": machines[-1]["cores"] if machines else os.cpu_count(),
            "gflops": [event["gflops"] for event in machines],
            "changes": {key: list(pair) for key, pair in differences(config).items()},
            "agent_sha256": agent.sha256(),
            "exam_sha256": _sat_exams(journal, attempt),
            "parameters": sum(p.numel() for p in agent.parameters()),
            "started_from": str(begun) if (begun := found_path(start["agent"], journal.path.parent)) else None,
            "predecessor_failed": start["predecessor_failed"],
            "interruptions": _interruptions(journal),
            "attempt": attempt,
            "attempts": 1 + max((event.get("attempt", 0) for event in lessons_done(journal)), default=0),
        },
        "lessons": lessons(journal),
        "skills": [*earlier, *(item.result(config.exam.bootstrap) for item in examined)],
        "matrix": matrix(stage.name, row, old.get("matrix")),
        "curves": curves(journal),
        "cost": cost(agent, journal),
        "arcs": count_answers(examined),
        **extra,
    }
    return validate(content)


def _verdict(own: Sequence[Examined], retention: Sequence[RetentionResult]) -> dict[str, Any]:
    """Whether the stage passed, and why: by the exams of its `own` skills, and by what was kept of earlier ones."""
    unasked = [f"{i.skill.name}: nothing that its gate asks was measured" for i in own if not i.verdict.decisions]
    lost = [f"{row.skill} was not kept: {row.change:+.3f}" for row in retention if not row.kept]
    reasons = [reason for item in own for reason in item.verdict.reasons]
    return {"passed": all(item.verdict.passed for item in own) and not lost, "reasons": [*reasons, *unasked, *lost]}
