"""The exams of a run: each is held once and noted in the journal, and a run that continues does not repeat it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import torch

from devmind.agent.agent import Agent
from devmind.checkpointing import engine, generations
from devmind.curriculum.exam import ELSEWHERE, Exhibit, Measure
from devmind.curriculum.examining import Examined, decide, exam_notes
from devmind.curriculum.journal import Journal
from devmind.curriculum.progress import say
from devmind.curriculum.side_by_side import ExamResult, ExamTask, hold_all, say_passing
from devmind.curriculum.stage import Context, Skill, Stage
from devmind.errors import CheckpointError

FOLDER = "exams"
ARRAYS = ("values", "episodes", "groups")


def run_exams(
    stages: Sequence[Stage],
    agent: Agent,
    context: Context,
    journal: Journal,
    when: str,
    before: Sequence[Examined] = (),
    own: str = "",
) -> list[Examined]:
    """Examine the agent in all skills of `stages`, except those that this run examined it in already at `when`.

    Args:
        before: earlier exams of some of the skills. In these only the agent is examined again, on the same episodes;
            chance, ceiling and floors, which need no agent, come from the earlier exam.
        own: the stage whose exams are all held; of other stages those that are not `Skill.unretained`.
    """
    weights = agent.sha256()
    known = {(item.stage, item.skill.name): item.measures for item in before}
    every = {
        (stage.name, skill.name): (stage, skill)
        for stage in stages
        for skill in stage.skills
        if stage.name == own or not skill.unretained
    }
    folders = {key: _folder(context.out, when, *of) for key, of in every.items()}
    found = {key: measures for key, folder in folders.items() if (measures := load(folder, weights)) is not None}
    dues = [ExamTask(stage, skill.name, known.get(key)) for key, (stage, skill) in every.items() if key not in found]
    numbers = {key: number for number, key in enumerate(every, 1)}

    def begins(due: ExamTask) -> None:
        say(f"exam of {due.skill}, {numbers[due.stage.name, due.skill]} of {len(every)}")
        journal.write("begun", exam=due.skill)

    since = time.monotonic()
    for due, held in hold_all(dues, agent, context, begins):
        key, now = (due.stage.name, due.skill), time.monotonic()
        item = decide(*every[key], held.measures, context, whole=due.before is None)
        _note(journal, when, weights, item, held, now - since, context)
        say_passing(due, held)
        save(folders[key], weights, held.measures)
        found[key], since = held.measures, now
    return [decide(*of, found[key], context, whole=key not in known) for key, of in every.items()]


def held_before(run: Path, agent: Agent, stages: Sequence[Stage], context: Context) -> list[Examined]:
    """The last exams of `agent` in skills of `stages` that the run in the folder `run` has stored."""
    weights, found = agent.sha256(), []
    whens = {event["when"] for event in Journal(run / "journal.jsonl").events("exam")} - {"before"}
    for stage in stages:
        for skill in stage.skills:
            kept = [load(_folder(run, when, stage, skill), weights) for when in whens]
            found += [decide(stage, skill, one, context, whole=False) for one in kept if one is not None]
    return found


def keep_exams(examined: Sequence[Examined], agent: Agent, context: Context, when: str) -> None:
    """Store `examined` as this agent's exams at `when`, because nothing that they measure has changed."""
    weights = agent.sha256()
    for item in examined:
        save(context.out / FOLDER / _name(when, item.stage, item.skill.name), weights, item.measures)


def _folder(out: Path, when: str, stage: Stage, skill: Skill) -> Path:
    return out / FOLDER / _name(when, stage.name, skill.name)


def _name(when: str, stage: str, skill: str) -> str:
    return f"{when} {stage} {skill}".replace(" ", "-").replace("/", "+")


def _note(
    journal: Journal, when: str, weights: str, item: Examined, held: ExamResult, added_s: float, context: Context
) -> None:
    """Note an exam in the journal.

    Args:
        added_s: seconds that it added to the run; less than it took where another exam was held beside it.
    """
    earlier = [event["scores"] for event in journal.events("exam")]
    looks = {name: 1 + sum(name in scores for scores in earlier) for name in item.measures if ELSEWHERE in name}
    journal.write(
        "exam",
        when=when,
        stage=item.stage,
        skill=item.skill.name,
        agent=weights,
        seconds=round(held.seconds, 2),
        added_s=round(added_s, 2),
        **({"passing_s": round(held.passing_s, 2)} if held.passing_s else {}),
        peak_memory_mb=round(held.peak_memory_mb, 1),  # so that a run that continues in another process knows it
        passed=item.verdict.passed,
        scores={name: round(measure.score, 4) for name, measure in item.measures.items()},
        measures=exam_notes(item, context),
        **({"looks": looks} if looks else {}),  # at data that no lesson saw; many looks choose, too
    )


def save(folder: Path, weights: str, measures: Mapping[str, Measure]) -> None:
    """Store the measures of the agent whose SHA-256 is `weights`."""
    engine.save(folder, {"agent": weights, "measures": [_plain(measure) for measure in measures.values()]})


def load(folder: Path, weights: str) -> dict[str, Measure] | None:
    """The measures that `save` stored for an agent of the same weights; None if there are none, or they are damaged."""
    try:
        state = generations.load(folder)
    except CheckpointError:
        return None
    if state["agent"] != weights:
        return None
    return {measure.name: measure for measure in map(_measure, state["measures"])}


def _plain(measure: Measure) -> dict[str, Any]:
    state = {field.name: getattr(measure, field.name) for field in fields(measure)}
    return state | {
        **{name: _array(getattr(measure, name)) for name in ARRAYS},
        "exhibits": [(e.kind, e.caption, _tensor(e.png), _tensor(e.wav), *e.labels) for e in measure.exhibits],
    }


def _measure(state: Mapping[str, Any]) -> Measure:
    shown = (
        Exhibit(kind, caption, _bytes(png), _bytes(wav), tuple(labels))
        for kind, caption, png, wav, *labels in state["exhibits"]
    )
    arrays = {name: None if state.get(name) is None else state[name].numpy() for name in ARRAYS}
    return Measure(**{**state, **arrays, "exhibits": tuple(shown)})


def _array(array: np.ndarray | None) -> torch.Tensor | None:
    return None if array is None else torch.from_numpy(array)


def _tensor(data: bytes | None) -> torch.Tensor | None:
    return None if data is None else torch.from_numpy(np.frombuffer(data, np.uint8).copy())


def _bytes(data: torch.Tensor | None) -> bytes | None:
    return None if data is None else data.numpy().tobytes()
