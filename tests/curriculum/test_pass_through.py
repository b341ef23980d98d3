"""What the trunk's layers carry: of heads that rely on them, of one that would do without, of an arc, and of nobody."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from devmind.agent.agent import Agent
from devmind.curriculum.exam import Exam, Measure
from devmind.curriculum.examining import Examined, examine_skill
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.pass_through import NEEDS, OUTSIDE, UNDECIDED, WITHOUT
from devmind.curriculum.stage import Context, Skill
from devmind.report.results import LAYERS_PASS
from devmind.testing import tiny_agent, tiny_context
from tests.curriculum.lamp_stage import LampStage, shown

ARC, DEEP, STEADY, FEW = "lamps-lit", "lamps-deep", "steady", "few"
STAGE: Any = LampStage()


@pytest.fixture(scope="module")
def taught() -> Agent:
    """An agent that names the lit lamp by an arc and by the readout, which sees nothing but through layers."""
    agent = tiny_agent()
    STAGE.admit(agent)
    learner = torch.optim.Adam(agent.parameters(), lr=2e-2)
    for update in range(60):
        batch, lit = shown(np.arange(32) + 32 * update)
        loss, _ = STAGE.loss(agent, batch | {"lit": lit[:, None]})
        learner.zero_grad()
        loss.backward()
        learner.step()
    return agent


class Exams:
    """An exam that counts how often it is held."""

    def __init__(self, *asked: str) -> None:
        self.asked, self.agents = asked, list[Agent]()

    def __call__(self, agent: Agent, context: Context) -> Exam:
        self.agents.append(agent)
        batch, lit = shown(np.arange(context.episodes(10_000)) + 1_000_000)
        values = dict[str, np.ndarray]()
        for name in {ARC, DEEP} & set(self.asked):
            values[name] = (agent(batch, [name])[name].mode()[:, 0] == lit).double().numpy()
        if STEADY in self.asked:
            readout: Any = agent.perceive(batch, ["trunk"]).readout
            values[STEADY] = (readout.abs().sum((1, 2)) > 0).double().numpy()
            values[FEW] = values[STEADY][:8]
        chances = {ARC: 1 / 3, DEEP: 1 / 3}
        return Exam([Measure(name, "correct", one, chances.get(name, 0.0), rate=True) for name, one in values.items()])


def held(exams: Exams, agent: Agent, tmp_path: Path, *sets: str) -> Examined:
    skill = Skill("lamps", exams, Gate([Threshold(name, 0.9) for name in exams.asked]), "which lamp is lit")
    return examine_skill(STAGE, skill, agent, tiny_context(tmp_path, "exam.pass_share=0.1", *sets))


def test_each_measure_is_told_apart_and_nothing_else_changes(taught: Agent, tmp_path: Path) -> None:
    exams, before = Exams(ARC, DEEP, STEADY), taught.sha256()
    item = held(exams, taught, tmp_path)
    verdicts = {name: one.trunk["verdict"] for name, one in item.measures.items()}
    assert verdicts == {ARC: OUTSIDE, DEEP: NEEDS, STEADY: WITHOUT, FEW: UNDECIDED}
    row = item.measures[DEEP].trunk
    assert row["n"] == 100
    assert row["whole"] > 0.95, "the agent has learned it"
    assert row["passing"] < 0.6, "the readout sees nothing by itself"
    assert row["gained"] == pytest.approx(row["whole"] - row["passing"])
    assert row["low"] < row["gained"] < row["high"]
    assert item.measures[DEEP].rows[LAYERS_PASS] == row["passing"]
    assert LAYERS_PASS not in item.measures[ARC].rows
    # In full, a part of it, with layers that pass, and with features that are zeros, which only the unchanged ask for.
    assert len(exams.agents) == 4
    assert [one is taught for one in exams.agents] == [True, True, False, False]
    assert taught.sha256() == before
    assert not taught.trunk.decoder._forward_pre_hooks
    off = held(Exams(ARC, DEEP, STEADY), taught, tmp_path, "exam.pass_share=0")
    assert all(not one.trunk for one in off.measures.values())
    for name, one in off.measures.items():
        np.testing.assert_array_equal(one.values, item.measures[name].values)
    assert off.verdict == item.verdict
    rows = {row.name: row for row in item.result(100).measures}
    shown_row = rows[DEEP].trunk
    assert shown_row is not None
    assert shown_row.verdict == NEEDS
    assert {row.name: row.trunk for row in off.result(100).measures}[DEEP] is None


def test_an_exam_that_runs_no_trunk_is_held_once(taught: Agent, tmp_path: Path) -> None:
    exams = Exams(ARC)
    item = held(exams, taught, tmp_path)
    assert item.measures[ARC].trunk == {"verdict": OUTSIDE}
    assert (len(exams.agents), item.passing_s) == (1, 0.0)


def test_layers_that_pass_already_are_not_asked(tmp_path: Path) -> None:
    exams, agent = Exams(ARC, DEEP), tiny_agent()
    STAGE.admit(agent)
    assert all(not one.trunk for one in held(exams, agent, tmp_path).measures.values())
    assert len(exams.agents) == 1


def test_layers_of_later_stages_pass_too(taught: Agent, tmp_path: Path) -> None:
    """A layer grown later may carry it all: with the first ones alone passing it would seem to be the heads'."""
    agent = tiny_agent()
    STAGE.admit(agent)
    agent.grow(1, "lamps")
    *first, grown = agent.trunk.decoder.layers
    learner = torch.optim.Adam([*agent.heads.parameters(), *agent.encoders.parameters(), *grown.parameters()], lr=2e-2)
    for update in range(80):
        batch, lit = shown(np.arange(32) + 32 * update)
        loss, _ = STAGE.loss(agent, batch | {"lit": lit[:, None]})
        learner.zero_grad()
        loss.backward()
        learner.step()
    assert not any(one.mlp.down_proj.weight.any() for one in first)
    assert held(Exams(DEEP), agent, tmp_path).measures[DEEP].trunk["verdict"] == NEEDS
