"""`benchmarks/sizes.py --fake`: sizes predicted on fake tensors equal the sizes measured on real ones."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from torch import Tensor

from devmind import plugins
from devmind.agent.agent import Agent
from devmind.agent.config import AgentConfig
from devmind.curriculum.cost import LiveBytes
from devmind.curriculum.runner import in_order
from devmind.curriculum.start import load_stage
from devmind.testing import tiny_context

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
STAGE, LESSON = "memory", "things"


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield importlib.import_module("sizes")
    sys.modules.pop("sizes", None)


def test_predicted_sizes_of_a_lesson_equal_measured_sizes(
    sizes: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = tmp_path / "told.json"
    words = ["--fake", "--size", "tiny", "--stages", STAGE, "--lessons", LESSON, "--json", str(told)]
    monkeypatch.setattr(sys, "argv", ["sizes.py", *words])
    with pytest.raises(SystemExit) as ended:
        sizes.main()
    assert not ended.value.code
    (row,) = json.loads(told.read_text())["lessons"].values()
    foretold = {name.removesuffix(" GB"): round(1e9 * size) for name, size in row.items()}

    agent, context = Agent(AgentConfig(size="tiny")), tiny_context(tmp_path)
    for name in in_order(sorted(plugins.available("stages"))):
        load_stage(name).admit(agent)
    (lesson,) = (one for one in load_stage(STAGE).lessons(context) if one.name == LESSON)
    learner: Any = lesson.make_learner(agent, context)
    learner.steps, batch = 2, next(iter(lesson.make_batches(agent, context, 2)))
    agent.train()
    learner.begin(0)
    with LiveBytes() as counter:
        for one in (*agent.parameters(), *agent.buffers()):
            counter.count(one)
        weights = counter.live
        loss, _ = learner.loss(agent, batch)
        saved = counter.live - weights
    loss.backward()
    learner.step_down()
    storages = [value.untyped_storage() for value in (*agent.parameters(), *agent.buffers())]
    assert foretold["weights"] == sum({one.data_ptr(): one.nbytes() for one in storages}.values())
    assert foretold["saved for backward"] == pytest.approx(saved, rel=0.02)
    states = [one for kept in learner.optimizer.state.values() for one in kept.values() if isinstance(one, Tensor)]
    assert foretold["optimizer"] == pytest.approx(sum(one.nbytes for one in states), rel=0.02)
    parts = foretold["weights"] + foretold["saved for backward"] + foretold["optimizer"]
    assert foretold["predicted peak"] >= parts


def test_failed_prediction_is_reported_and_exits_nonzero(
    sizes: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: Any) -> dict[str, Any]:
        raise TypeError("a lesson of another kind")

    monkeypatch.setattr(sizes, "fake_newborn", lambda size, stages: Agent(AgentConfig(size=size)))
    monkeypatch.setattr(sizes, "foretold", broken)
    monkeypatch.setattr(sys, "argv", ["sizes.py", "--fake", "--size", "tiny", "--stages", STAGE, "--lessons", LESSON])
    with pytest.raises(SystemExit) as ended:
        sizes.main()
    assert ended.value.code
    assert f"{STAGE}/{LESSON}: TypeError: a lesson of another kind" in capsys.readouterr().out
