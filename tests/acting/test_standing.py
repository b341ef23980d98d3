"""Which heads may act in life: arcs, and heads of the trunk only if an exam has passed them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from devmind.acting import Actor
from devmind.acting.standing import read_results, standing
from devmind.agent.agent import Agent
from devmind.agent.output import Normal
from devmind.errors import CheckpointError
from devmind.moment import Moment
from devmind.testing import tiny_agent
from stages.reflex import parts


@pytest.fixture(scope="module")
def agent() -> Agent:
    agent = tiny_agent()
    parts.admit(agent)
    return agent


def results(*measures: tuple[str, float, bool | None]) -> dict[str, Any]:
    rows = [{"name": n, "score": s, "passed": p, "higher_is_better": "startle" not in n} for n, s, p in measures]
    return {"skills": [{"measures": rows}]}


def test_without_results_only_arcs_answer(agent: Agent) -> None:
    found = standing(agent)
    assert found["look"] == ("look_arc",)
    assert found["move"] == ("move_arc",)


def test_trunk_head_answers_after_a_passed_exam_and_first_if_it_scores_higher(agent: Agent) -> None:
    track = ("track", 0.9, True)
    assert standing(agent, results(track, ("track/look_trunk", 0.95, False)))["look"] == ("look_arc",)
    assert standing(agent, results(track, ("track/look_trunk", 0.85, True)))["look"] == ("look_arc", "look_trunk")
    assert standing(agent, results(track, ("track/look_trunk", 0.95, True)))["look"] == ("look_trunk", "look_arc")
    assert standing(agent, results(("track/look_trunk", 0.95, True)))["look"] == ("look_arc",)  # no arc to compare
    both = results(track, ("track/look_trunk", 0.95, True), ("orient", 0.9, True), ("orient/look_trunk", 0.5, False))
    assert standing(agent, both)["look"] == ("look_arc",)  # one failed row fails the head
    missed_goal = results(track, ("track/look_trunk", 0.95, True), ("rest", 0.9, True), ("rest/look_trunk", 0.88, None))
    assert standing(agent, missed_goal)["look"] == ("look_trunk", "look_arc")
    lower = results(("startle", 0.02, True), ("startle/move_trunk", 0.01, True))
    assert standing(agent, lower)["move"] == ("move_trunk", "move_arc")


def test_actor_does_nothing_if_no_head_may_answer(agent: Agent) -> None:
    actor = Actor(agent, effectors=["look"], standing={"look": ()})
    sight = np.zeros((64, 64, 3), np.uint8)
    output = actor.act(Moment(0.0, {"sight": sight}, first=True))
    assert output.to_action().effectors == {}
    agent.head("look_trunk").inner.threshold = None  # type: ignore[union-attr]  # untaught it turns by less than it
    asked = Actor(agent, effectors=["look"], standing={"look": ("look_trunk",)})
    assert asked.act(Moment(0.0, {"sight": sight}, first=True)).answered["look"] == {"look_trunk": 1}


def test_read_results_reads_the_file_beside_the_agent(tmp_path: Path) -> None:
    assert read_results(tmp_path) is None
    (tmp_path / "results.json").write_text(json.dumps(results(("track", 1.0, True))))
    assert read_results(tmp_path) == results(("track", 1.0, True))
    (tmp_path / "results.json").write_text("{")
    with pytest.raises(CheckpointError, match="cannot be read"):
        read_results(tmp_path)


@pytest.mark.parametrize(
    "hostile",
    [
        {"skills": None},
        {"skills": [None]},
        {"skills": [{"measures": 3}]},
        {"skills": [{"measures": [{"name": []}]}]},
        {"skills": [{"measures": [{"name": 5}]}]},
    ],
)
def test_malformed_results_raise_a_clear_error(agent: Agent, hostile: dict[str, Any]) -> None:
    """Regression: `"skills": null` with a valid checksum gave a traceback."""
    with pytest.raises(CheckpointError, match="not what an exam writes"):
        standing(agent, hostile)


def test_normal_output_fires_only_above_its_threshold() -> None:
    mean = torch.tensor([[0.05, 0.05], [0.1, -0.11], [0.0, 0.5]])
    assert Normal(mean, torch.zeros_like(mean), 0.14).fires().tolist() == [False, True, True]  # type: ignore[union-attr]
    assert Normal(mean, torch.zeros_like(mean)).fires() is None


def test_look_arc_rests_below_its_threshold(agent: Agent) -> None:
    assert agent.head("look_arc").threshold == parts.LOOK_THRESHOLD
    senses = {"sight": np.zeros((64, 64, 3), np.uint8)}
    with torch.no_grad():
        answer = agent.head("look_arc").answer  # type: ignore[union-attr]
        answer.weight.zero_()  # type: ignore[union-attr]
        answer.bias.zero_()  # type: ignore[union-attr]
    output = Actor(agent, effectors=["look"], standing=standing(agent)).act(Moment(0.0, senses, first=True))
    assert output.answered["look"] == {"look_arc": 0}
    assert output.to_action().effectors == {}
