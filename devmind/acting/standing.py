"""Which heads answer for an effector outside of lessons, and in which order, by the results of exams.

A head's row is the measure "MEASURE/HEAD" beside the skill's own "MEASURE" in an agent's results: the same exam with
that head in place of the arcs. A head whose row is better than the arcs is asked before them. A head on the trunk
without a row, or with one that failed its gate, does not answer; a goal that is missed silences nobody.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from devmind.agent.agent import Agent
from devmind.agent.saving import read_sealed
from devmind.bounds import damage, parse_json
from devmind.errors import CheckpointError, ConfigError, nearest

RESULTS = "results.json"
Standing = Mapping[str, tuple[str, ...]]
"""By effector, the heads that may answer, in the order in which they are asked."""


def read_results(folder: Path) -> dict[str, Any] | None:
    """The `results.json` of a saved agent; None if it was never examined.

    Raises:
        CheckpointError: the file cannot be read, or is not the one that was saved with the agent.
    """
    content = read_sealed(Path(folder), RESULTS)
    if content is None:
        return None
    sentence = f"The results '{Path(folder) / RESULTS}' cannot be read ({{}}); use a backup."
    results = parse_json(content, CheckpointError, sentence)
    if not isinstance(results, dict):
        raise CheckpointError(f"The results '{Path(folder) / RESULTS}' are not a JSON object; use a backup.")
    return results


def has_passed(results: Mapping[str, Any] | None, exam: str) -> bool | None:
    """Whether an agent's `results.json` say that it passed all measures whose names begin with `exam`; None without
    such a measure.

    Raises:
        CheckpointError: the results have not the form that an exam writes.
    """
    with damage(CheckpointError, "The agent's results are not what an exam writes ({}); use a backup."):
        measures = [measure for skill in (results or {}).get("skills", ()) for measure in skill.get("measures", ())]
        verdicts = [measure["passed"] for measure in measures if measure["name"].startswith(exam)]
    decided = [passed for passed in verdicts if passed is not None]
    return all(decided) if decided else None


def standing(agent: Agent, results: Mapping[str, Any] | None = None) -> dict[str, tuple[str, ...]]:
    """The order of heads for every effector of `agent`, by its `results.json`; without results only arcs answer.

    Raises:
        CheckpointError: the results do not have the form that exams write.
    """
    with damage(CheckpointError, f"The agent's {RESULTS} are not what an exam writes ({{}}); use a backup."):
        skills = (results or {}).get("skills", ())
        measures = {measure["name"]: measure for skill in skills for measure in skill.get("measures", ())}
        return {effector: _in_order(agent, agent.heads_of(effector), measures) for effector in agent.effectors}


def answering(agent: Agent, answers: Standing) -> dict[str, tuple[str, ...]]:
    """The heads of `answers`, by effector, that this agent has.

    An earlier age of an agent may lack heads that it has later. `check_answering` is for the agent that was named.
    """
    found = {effector: tuple(name for name in heads if name in agent.heads) for effector, heads in answers.items()}
    return {effector: heads for effector, heads in found.items() if heads}


def check_answering(agent: Agent, answers: Standing) -> None:
    """Check that the agent has these heads, and that they answer for these effectors.

    Raises:
        ConfigError: it has not; the message names the nearest.
    """
    for effector, heads in answers.items():
        if effector not in agent.effectors:
            raise ConfigError(f"The agent has no effector '{effector}'{nearest(effector, agent.effectors)}")
        known = agent.heads_of(effector, standby=True)
        for name in heads:
            if name not in known:
                raise ConfigError(f"No head '{name}' of the agent answers for '{effector}'{nearest(name, known)}")


def _in_order(agent: Agent, heads: list[str], measures: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    gains = {name: _gain(name, measures) for name in heads}
    may = [name for name in heads if not agent.tap_of(name).on_trunk or gains[name] is not None]
    # Sorting is stable: arcs keep their order, and a head that is not better than they are is asked after them.
    return tuple(sorted(may, key=lambda name: 0 if (gains[name] or 0.0) > 0 else 1))


def _gain(head: str, measures: Mapping[str, Mapping[str, Any]]) -> float | None:
    """The mean gain of a head's rows over the skills' own measures; None without a row, or if one failed its gate."""
    gains = []
    for name, row in measures.items():
        beside = measures.get(name.removesuffix(f"/{head}")) if name.endswith(f"/{head}") else None
        if beside is None:
            continue
        if row["passed"] is False:  # None: a goal that was missed
            return None
        sign = 1.0 if row["higher_is_better"] else -1.0
        gains.append(sign * (row["score"] - beside["score"]))
    return float(np.mean(gains)) if gains else None
