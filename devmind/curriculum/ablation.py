"""The twin that `--ablate` trains beside a run: it lacks what the run's scores are said to come from.

If lessons of the stage have a `control`, the twin is the finished agent on a trunk that passes all tokens through and
does not learn. Everything else that those lessons teach is reset to its state at the beginning of the run, and taught
for as many steps. So if the agent is better than its twin, the trunk makes the difference. For any other stage, the
twin is the agent that the run began with, with a new trunk. So if the agent is better, the stages before make the
difference.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

from devmind import bounds
from devmind.agent.agent import Agent
from devmind.agent.config import ANEW
from devmind.agent.decoders import pass_by, zero_outputs
from devmind.curriculum.episodes import per_episode
from devmind.curriculum.exam import Measure, bootstrap, of_others, unpaired_change
from devmind.curriculum.stage import Context, Learner, Lesson, Stage
from devmind.errors import CheckpointError
from devmind.learners.gradient import without_shared
from devmind.seeding import derive_seed


class Control:
    """The lessons of `stage` that have a control, each taught by its control; parts and exams are those of `stage`."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self.name, self.requires, self.skills = stage, stage.name, stage.requires, stage.skills

    def admit(self, agent: Agent) -> None:
        """Add nothing, as the agent was admitted before; from now on, skip layers that change nothing."""
        pass_by(agent.trunk.decoder)

    def lessons(self, context: Context) -> Sequence[Lesson]:
        """The lessons with a control, taught by it."""
        lessons = self.stage.lessons(context)
        return [replace(one, make_learner=partial(control, one)) for one in lessons if one.control is not None]


def control(lesson: Lesson, agent: Agent, context: Context) -> Learner:
    """The learner of a lesson for the twin: it trains nothing shared, and what `Lesson.control` names further."""
    learner = lesson.make_learner(agent, context)
    learner.trains = (*without_shared(learner.trains), *(lesson.control or ()))
    return learner


def fresh_parts(start: Path, out: Path, parts: Sequence[str]) -> Path:
    """Save the agent of the folder `start` in `out`, with a newborn's `parts` ('trunk', 'encoders'); returns `out`."""
    refresh_parts(Agent.from_pretrained(start), parts).save_pretrained(out)
    return out


def refresh_parts(agent: Agent, parts: Sequence[str]) -> Agent:
    """Replace `parts` ('trunk', 'encoders') of `agent` by a newborn's; returns `agent`.

    The newborn has another seed than the run: with the same seed it would be the one that the agent began as.
    """
    born = copy.deepcopy(agent.config)
    born.seed = derive_seed("twin", agent.config.seed)
    fresh = Agent(born).state_dict()
    prefixes = tuple(f"{part}." for part in parts)
    agent.load_state_dict({name: v for name, v in fresh.items() if name.startswith(prefixes)}, strict=False)
    if "trunk" in parts:
        agent.config.trunk_stage = ANEW
    return agent


def identity_trunk(agent: Agent, out: Path, start: Agent, stage: Stage, context: Context) -> Path:
    """Save `agent` in `out`, with a newborn's trunk that passes all tokens through; returns `out`.

    What the controls of the stage's lessons teach is reset to `start`.
    """
    twin = refresh_parts(copy.deepcopy(agent), ("trunk",))
    begun, anew = start.state_dict(), trained_by_controls(twin, stage, context)
    twin.load_state_dict({name: begun[name] for name in anew}, strict=False)
    for layer in twin.trunk.decoder.layers:
        zero_outputs(layer)
    twin.save_pretrained(out)
    return out


def trained_by_controls(agent: Agent, stage: Stage, context: Context) -> list[str]:
    """Names in the agent's `state_dict` that lessons with a control train by it and lessons without one do not train.

    The twin is not taught the lessons without a control, so a part that they train must not be reset.
    """
    lessons = stage.lessons(context)
    taught, trained_prefixes = list[str](), list[str]()
    for one in lessons:
        if one.control is None:
            trained_prefixes += one.make_learner(agent, context).trains
        else:
            taught += control(one, agent, context).trains
    return [
        name
        for name in agent.state_dict()
        if name.startswith(tuple(taught)) and not name.startswith(tuple(trained_prefixes))
    ]


CONTROLLED = {
    "title": "What the trunk bought",
    "note": "heads begun anew and taught as long on a trunk that lets all tokens through and does not learn; a skill "
    "without a significant difference is not shown to be carried by the shared trunk",
}
STAGED = {"note": "the same lessons and steps on a fresh trunk of another seed"}


def compare_twin(results: Path, controlled: bool) -> dict[str, Any]:
    """What the report shows of a twin, from its `results.json`: one on an identity trunk, or on a fresh one."""
    sentence = f"'{results}' is not JSON ({{}}); delete it, and the twin is examined again."
    twin_results = bounds.parse_json(bounds.read_file(results, CheckpointError), CheckpointError, sentence)
    scores = {measure["name"]: measure["score"] for skill in twin_results["skills"] for measure in skill["measures"]}
    return {"skills": scores, **(CONTROLLED if controlled else STAGED)}


def differences(
    own_measures: Mapping[str, Measure], twin: Mapping[str, Measure], resamples: int
) -> dict[str, dict[str, float | int | bool]]:
    """By measure, the agent's score minus its twin's on the same episodes, signed so that above 0 is better, with
    bounds of a paired bootstrap; of an unpaired one where their own moves led both to other episodes. The difference of
    exhaustive measures, whose cases may depend on the agent too, is exact.
    """
    found = {}
    for name, measure in own_measures.items():
        other, sign = twin.get(name), 1 if measure.higher_is_better else -1
        if other is None:
            continue
        if measure.exhaustive and other.exhaustive:
            mean = low = high = sign * (measure.score - other.score)
        elif of_others(measure, other):
            mean, *bounds = unpaired_change(other, measure, attrgetter("values"), resamples, f"twin/{name}")
            mean, (low, high) = sign * mean, sorted(sign * bound for bound in bounds)
        elif other.n == measure.n:
            gained = sign * per_episode(measure.values - other.values, measure.episodes)
            low, high = bootstrap(gained, resamples, f"twin/{name}", measure.unit_groups)
            mean = float(gained.mean())
        else:
            continue
        found[name] = {"gained": mean, "low": low, "high": high, "n": measure.distinct, "significant": low > 0}
    return found
