"""One agent through all stages: a folder loaded once takes an exam of each stage and stays bit-equal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from devmind import plugins
from devmind.agent.agent import Agent
from devmind.curriculum.examining import examine_skill, pick_skills
from devmind.curriculum.start import load_stage
from devmind.testing import tiny_agent, tiny_context

SAT = {
    "reflex": "balance",
    "memory": "repeat_previous",
    "language": "grammar",
    "reasoning": "tictactoe",
    "planning": "criticise",
    "voice": "hear_words",
}
"""The examined skill of each stage, in the order of raising: the one with the shortest exam."""


@pytest.mark.slow
def test_agent_loaded_once_takes_an_exam_of_each_stage_and_keeps_its_hash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert set(SAT) == {name for name, found in plugins.available("stages").items() if found.distribution == "devmind"}
    stages = {name: load_stage(name) for name in SAT}
    raised = tiny_agent()
    for name, stage in stages.items():
        assert set(stage.requires) <= set(raised.config.stages), f"{name} comes before what it requires"
        stage.admit(raised)
        raised.config.stages = [*raised.config.stages, name]
    raised.save_pretrained(tmp_path / "agent")

    loads: list[Path] = []
    load = Agent.from_pretrained

    def counted(folder: Any, *args: Any, **more: Any) -> Agent:
        loads.append(Path(folder))
        return load(folder, *args, **more)

    monkeypatch.setattr(Agent, "from_pretrained", counted)
    agent = Agent.from_pretrained(tmp_path / "agent", strict=True)
    weights = agent.sha256()
    assert weights == raised.sha256()

    context = tiny_context(tmp_path)
    scores: list[str] = []
    for name, stage in stages.items():
        (skill,) = pick_skills(stage, SAT[name])
        examined = examine_skill(stage, skill, agent, context)
        assert examined.measures, f"the exam {skill.name} measured nothing"
        for measure in examined.measures.values():
            assert np.isfinite(measure.score), measure.name
            scores.append(f"{name}: {measure.name} {measure.score:.3f} {measure.unit}")
        assert agent.sha256() == weights, f"the exam {skill.name} changed weights"
    assert loads == [tmp_path / "agent"]
    with capsys.disabled():
        print(f"\none agent, weights {weights}", *scores, sep="\n  ")

    with torch.no_grad():  # the hash would differ
        next(agent.parameters()).view(-1)[0] += 1e-3
    assert agent.sha256() != weights
