"""What `--ablate` trains beside a run: a twin that lacks what the run is said to owe its scores to.

Where lessons of the stage have a `control`, the twin is the finished agent on a trunk that lets all tokens through and
does not learn. Everything else that those lessons teach is reset to what it was when the run began, and taught as long;
so where the agent is better, it owes that to the trunk. For any other stage, the twin is the agent that the run began
with, with a new trunk: where the agent is better, it owes that to the stages before.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from devmind.agent.agent import Agent
from devmind.agent.config import ANEW
from devmind.agent.decoders import pass_by, zero_outputs
from devmind.curriculum.episodes import per_episode
from devmind.curriculum.exam import Measure, bootstrap
from devmind.curriculum.stage import Context, Lesson, Stage
from devmind.seeding import derive_seed


class Control:
    """A stage of the lessons of `stage` that have a control, each taught as its control says; parts and exams are the
    stage's own.
    """

    def __init__(self, stage: Stage) -> None:
        self.stage, self.name, self.requires, self.skills = stage, stage.name, stage.requires, stage.skills

    def admit(self, agent: Agent) -> None:
        """Nothing is added: the agent was admitted. What its trunk does not change is not computed from now on."""
        pass_by(agent.trunk.decoder)

    def lessons(self, context: Context) -> Sequence[Lesson]:
        """Those with a control, taught by it."""
        return [
            replace(lesson, make_learner=lesson.control) for lesson in self.stage.lessons(context) if lesson.control
        ]


def fresh_trunk(start: Path, out: Path) -> Path:
    """Save the agent in `start` with a newborn's trunk in `out`, which is given back."""
    return fresh_parts(start, out, ("trunk",))


def fresh_parts(start: Path, out: Path, parts: Sequence[str]) -> Path:
    """Save the agent in `start` in `out`, which is given back, with `parts` ('trunk', 'encoders') of a newborn."""
    refreshed(Agent.from_pretrained(start), parts).save_pretrained(out)
    return out


def refreshed(agent: Agent, parts: Sequence[str]) -> Agent:
    """`agent`, whose `parts` ('trunk', 'encoders') are a newborn's from now on.

    The newborn has a seed of its own: one of the run's seed would be the very one that the agent began as.
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
    """Save `agent` with a newborn's trunk that lets all tokens through in `out`, which is given back; what the controls
    of the stage's lessons teach is as in `start`.
    """
    twin = refreshed(copy.deepcopy(agent), ("trunk",))
    begun, anew = start.state_dict(), taught_by_controls(twin, stage, context)
    twin.load_state_dict({name: begun[name] for name in anew}, strict=False)
    for layer in twin.trunk.decoder.layers:
        zero_outputs(layer)
    twin.save_pretrained(out)
    return out


def taught_by_controls(agent: Agent, stage: Stage, context: Context) -> list[str]:
    """Names in the agent's `state_dict` of what the controls of the stage's lessons teach, and no lesson without a
    control: who is taught by those alone could not be brought back to what they had made of it.
    """
    lessons = stage.lessons(context)
    taught = [prefix for one in lessons if one.control for prefix in one.control(agent, context).trains]
    kept = [prefix for one in lessons if not one.control for prefix in one.make_learner(agent, context).trains]
    return [name for name in agent.state_dict() if name.startswith(tuple(taught)) and not name.startswith(tuple(kept))]


def compared(results: Path) -> dict[str, Any]:
    """What the report shows of a twin, out of its `results.json`."""
    told = json.loads(results.read_text(encoding="utf-8"))
    scores = {measure["name"]: measure["score"] for skill in told["skills"] for measure in skill["measures"]}
    return {"skills": scores, "note": "the same lessons and steps on a fresh trunk of another seed"}


def differences(
    mine: Mapping[str, Measure], twin: Mapping[str, Measure], resamples: int
) -> dict[str, dict[str, float | int | bool]]:
    """By measure, how much better the agent is than its twin on the same episodes, with a paired bootstrap's bounds."""
    found = {}
    for name, measure in mine.items():
        other = twin.get(name)
        if other is None or other.n != measure.n:
            continue
        gained = per_episode(measure.values - other.values, measure.episodes)
        gained = gained * (1 if measure.higher_is_better else -1)
        low, high = bootstrap(gained, resamples, f"twin/{name}", measure.unit_groups)
        found[name] = {
            "gained": float(gained.mean()), "low": low, "high": high, "n": len(gained), "significant": low > 0,
        }  # fmt: skip
    return found
