"""What a run reports about itself: its twin, its training data, the distance of its trunk, and retention."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from devmind.agent.agent import Agent
from devmind.agent.config import AgentConfig
from devmind.curriculum import childhood, results, runner, stage_run
from devmind.curriculum.ablation import fresh_parts
from devmind.curriculum.exam import Retention
from devmind.curriculum.journal import Journal
from devmind.curriculum.stage import Batches, Rehearsed
from devmind.curriculum.teaching import LessonModule
from devmind.testing import tiny_agent
from tests.curriculum.lamp_stage import LampStage
from tests.curriculum.test_run import config


class ReadingStage(LampStage):
    """A LampStage whose lessons use recordings."""

    def lessons(self, context):
        one, two = super().lessons(context)
        return [replace(one, learns_from=("speakers:ann", "pictures:set")), replace(two, learns_from=("speakers:ann",))]


STAGES = {"lamps": ReadingStage(), "later": LampStage(name="later", requires=("lamps",), lesson_names=("third",))}


@pytest.fixture(autouse=True)
def own_stages(monkeypatch):
    for module in (runner, stage_run, childhood):
        monkeypatch.setattr(module, "load_stage", STAGES.__getitem__)
    monkeypatch.setattr(childhood, "_in_new_process", runner.examine_childhood)  # another process has no lamps stage


def moved_trunk() -> Agent:
    agent = tiny_agent()
    LampStage().admit(agent)
    with torch.no_grad():
        for name, value in agent.named_parameters():
            value.add_(0.3 * torch.randn(value.shape, generator=torch.Generator().manual_seed(len(name))))
    return agent


def test_twin_has_a_newborn_trunk_of_another_seed_and_all_other_parts_of_the_agent(tmp_path):
    agent = moved_trunk()
    agent.save_pretrained(tmp_path / "start")
    twin = Agent.from_pretrained(fresh_parts(tmp_path / "start", tmp_path / "twin", ("trunk",)))
    theirs, newborn, mine = twin.state_dict(), Agent(agent.config).state_dict(), agent.state_dict()
    of_trunk = [name for name in mine if name.startswith("trunk.")]
    other = Agent(AgentConfig(size="tiny", seed=agent.config.seed + 1)).state_dict()
    drawn = [name for name in of_trunk if not torch.equal(newborn[name], other[name])]
    assert drawn
    assert not any(torch.equal(theirs[name], newborn[name]) for name in drawn), "a first stage would be its own twin"
    assert all(newborn[name].float().std() == pytest.approx(theirs[name].float().std(), rel=0.5) for name in drawn)
    assert any(not torch.equal(mine[name], theirs[name]) for name in of_trunk)
    assert all(torch.equal(theirs[name], mine[name]) for name in mine if name not in of_trunk)
    assert twin.config.seed == agent.config.seed


def test_moved_trunk_is_reported_as_distance_over_norm():
    agent = moved_trunk()
    before = {name: value.clone() for name, value in agent.trunk.state_dict().items()}
    assert results.trunk_moved(before, agent) == 0
    with torch.no_grad():
        for value in agent.trunk.state_dict().values():
            if value.is_floating_point():
                value.mul_(1.25)
    assert results.trunk_moved(before, agent) == pytest.approx(0.25, rel=1e-4)


def test_recordings_of_lessons_are_listed_in_the_agent(tmp_path):
    result = runner.run_stage("lamps", config(), out=tmp_path / "lamps")
    assert Agent.from_pretrained(result.agent).config.trained_on == ["speakers:ann", "pictures:set"]


def test_stage_that_loses_an_earlier_skill_fails(tmp_path, monkeypatch):
    first = runner.run_stage("lamps", config(), out=tmp_path / "lamps")
    kept = runner.run_stage("later", config(), out=tmp_path / "kept", agent=first.agent)
    assert kept.passed
    monkeypatch.setattr(results, "retention", lambda before, after, n: Retention(after.name, -0.3, -0.4, False))
    lost = runner.run_stage("later", config(), out=tmp_path / "lost", agent=first.agent)
    assert not lost.passed
    told = json.loads(lost.results.read_text())
    assert not told["verdict"]["passed"]
    assert "lamps/lamps-lit was not kept: -0.300" in told["verdict"]["reasons"]
    assert all(skill["passed"] for skill in told["skills"] if skill["stage"] == "later")


def test_random_numbers_of_an_update_depend_only_on_its_place():
    learner = SimpleNamespace(agent=None, seed=3)

    def drawn(updates, batch=None, seed=3):
        module = LessonModule.__new__(LessonModule)
        module.__dict__ |= {"batches": Batches(lambda update: None, 9), "updates": updates}
        module.__dict__["learner"] = SimpleNamespace(**{**vars(learner), "seed": seed})
        with torch.random.fork_rng():
            module.on_train_batch_start(batch, 0)
            return float(torch.rand(()))

    assert drawn(4) == drawn(4)
    rehearsed = Rehearsed(learner, None)
    assert len({drawn(0), drawn(1), drawn(4), drawn(4, seed=5), drawn(4, rehearsed), drawn(5, rehearsed)}) == 6


def test_curves_have_a_name_for_each_attempt_and_steps_that_were_repeated_count_once(tmp_path):
    """Regression: the curves of the third attempt deleted those of the second, which had the same name."""
    journal = Journal(tmp_path / "journal.jsonl")
    told = [(0, 1, 9.0), (0, 2, 8.0), (0, 5, 7.0), (0, 2, 6.0), (0, 3, 5.0), (1, 1, 4.0), (1, 2, 3.0), (2, 1, 2.0)]
    for seconds, (attempt, step, loss) in enumerate(told):
        journal.write("progress", lesson="x", attempt=attempt, step=step, seconds=seconds, scalars={"loss": loss})
    assert results.curves(journal) == {
        "x/loss": {"step": [1, 2, 3], "seconds": [0, 3, 4], "value": [9.0, 6.0, 5.0]},
        "x (again)/loss": {"step": [1, 2], "seconds": [5, 6], "value": [4.0, 3.0]},
        "x (attempt 3)/loss": {"step": [1], "seconds": [7], "value": [2.0]},
    }


class Step(int):
    """A step that counts how often it is compared."""

    compared = 0

    def __ge__(self, other: int) -> bool:
        Step.compared += 1
        return int(self) >= other


def test_curves_of_a_long_lesson_cost_no_more_for_each_step():
    """Regression: each step was compared with all before it, which took minutes after some hours of lessons."""
    told = [{"lesson": "x", "step": Step(at), "seconds": 0.0, "scalars": {"loss": 1.0}} for at in range(500)]
    found = results.curves(SimpleNamespace(events=lambda *kinds: iter(told)))
    assert len(found["x/loss"]["step"]) == 500
    assert Step.compared <= 500
