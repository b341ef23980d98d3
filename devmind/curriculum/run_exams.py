"""The exams of a run: each is held once and noted in the journal, and a run that goes on does not hold it again."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import torch

from devmind.agent.agent import Agent
from devmind.checkpointing import bundle
from devmind.curriculum.exam import Exhibit, Measure
from devmind.curriculum.examining import Examined, decided, examine_skill, judged
from devmind.curriculum.journal import Journal
from devmind.curriculum.progress import say
from devmind.curriculum.stage import Context, Skill, Stage
from devmind.errors import CheckpointError

FOLDER = "exams"
ARRAYS = ("values", "episodes", "groups")


def hold(stages: Sequence[Stage], agent: Agent, context: Context, journal: Journal, when: str) -> list[Examined]:
    """Examine all skills of `stages`, but those that this agent was examined in before, in this run and at `when`."""
    weights = agent.sha256()
    every = [(stage, skill) for stage in stages for skill in stage.skills]
    return [
        _once(stage, skill, agent, weights, context, journal, when, f"{number} of {len(every)}")
        for number, (stage, skill) in enumerate(every, 1)
    ]


def _once(
    stage: Stage,
    skill: Skill,
    agent: Agent,
    weights: str,
    context: Context,
    journal: Journal,
    when: str,
    which: str,
) -> Examined:
    folder = context.out / FOLDER / f"{when} {stage.name} {skill.name}".replace(" ", "-")
    if (measures := load(folder, weights)) is not None:
        return judged(stage, skill, measures, context)
    say(f"exam of {skill.name}, {which}")
    journal.write("begun", exam=skill.name)
    begun = time.monotonic()
    item = examine_skill(stage, skill, agent, context)
    journal.write(
        "exam",
        when=when,
        stage=stage.name,
        skill=skill.name,
        seconds=round(time.monotonic() - begun, 2),
        passed=item.verdict.passed,
        scores={name: round(measure.score, 4) for name, measure in item.measures.items()},
        measures=decided(item, context),
    )
    save(folder, weights, item.measures)
    return item


def save(folder: Path, weights: str, measures: Mapping[str, Measure]) -> None:
    """Keep what an agent of these `weights` (its SHA-256) was measured at."""
    bundle.save(folder, {"agent": weights, "measures": [_plain(measure) for measure in measures.values()]})


def load(folder: Path, weights: str) -> dict[str, Measure] | None:
    """What `save` kept of an agent of the same weights; None when there is nothing, or it is damaged."""
    try:
        state = bundle.load(folder)
    except CheckpointError:
        return None
    if state["agent"] != weights:
        return None
    return {measure.name: measure for measure in map(_measure, state["measures"])}


def _plain(measure: Measure) -> dict[str, Any]:
    state = {field.name: getattr(measure, field.name) for field in fields(measure)}
    return state | {
        **{name: _array(getattr(measure, name)) for name in ARRAYS},
        "floors": {name: float(value) for name, value in measure.floors.items()},
        "rows": {name: float(value) for name, value in measure.rows.items()},
        "answered": {
            name: {head: int(often) for head, often in heads.items()} for name, heads in measure.answered.items()
        },
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
