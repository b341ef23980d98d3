"""Report rows by looks and by tones, for agents whose lessons held some out and for no others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from devmind import worlds
from devmind.agent.agent import Agent
from devmind.agent.config import AgentConfig
from devmind.config import load
from devmind.curriculum.exam import LEFT_OUT, SHOWN
from devmind.curriculum.stage import Context
from devmind.seeding import exam_seeds
from devmind.worlds.nursery.looks import GROUP, WITHOUT
from stages.reflex import left_out, parts
from stages.reflex.bind import exam as bind
from stages.reflex.hear import exam as hear
from stages.reflex.lessons import lessons
from stages.reflex.orient import exam as orient
from stages.reflex.reach import exam as reach
from stages.reflex.track import exam as track
from tests.stages.reflex.test_trials import gives_the_measures_of


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return Context(load("tiny", sets=["exam.episodes_scale=0.03"]), 0, "cpu", tmp_path, worlds.make)


@pytest.fixture
def agent() -> Agent:
    agent = Agent(AgentConfig(size="tiny"))
    parts.admit(agent)
    return agent.eval()


def test_rows_split_values_by_the_looks_of_the_target(agent: Agent, context: Context) -> None:
    agent.config.trained_on = [GROUP]
    seeds = exam_seeds(60, "looks", "rows")
    left = left_out.looks_left_out(context, "reach", seeds)
    truth = worlds.make("nursery", "reach", seeds).truth()
    at = np.arange(60), truth["target"]
    own = (truth["shape"][at] + truth["colour"][at] + truth["texture"][at]) % 4 == 0
    np.testing.assert_array_equal(left, own)
    assert 5 < left.sum() < 25
    rows = left_out.rows_by_looks(agent, left, np.where(left, 0.25, 0.75))
    n = int(left.sum())
    assert rows == {f"of looks {LEFT_OUT}, n {n}": 0.25, f"of looks {SHOWN}, n {60 - n}": 0.75}


def test_agents_that_met_all_looks_have_no_such_rows(agent: Agent) -> None:
    left = np.arange(8) < 2
    for met, told in (([], False), (["pictures:digits", GROUP], False), ([GROUP, "pictures:digits"], True)):
        agent.config.trained_on = met
        assert bool(left_out.rows_by_looks(agent, left, np.ones(8))) == told


def test_the_first_lesson_declares_what_it_holds_out(context: Context) -> None:
    assert lessons(context)[0].learns_from == WITHOUT


@pytest.mark.parametrize("level", ["hear", "orient/sound"])
def test_rows_split_values_by_the_tone_of_the_sounding_thing(level: str, agent: Agent, context: Context) -> None:
    seeds = exam_seeds(200, "tones", "rows")
    band, sounds = left_out.tones_left_out(context, level, seeds)
    state = worlds.make("nursery", level, seeds).state()
    loud = state.present & ((state.loudness > 0) | state.tapping)
    np.testing.assert_array_equal(sounds, loud.any(1))
    size = state.size[np.arange(200), loud.argmax(1)]
    np.testing.assert_array_equal(band[sounds], ((size >= 0.137) & (size < 0.16))[sounds])
    n, every = int(band[sounds].sum()), int(sounds.sum())
    assert 10 < n < every / 3
    for met, told in (([GROUP], False), (list(WITHOUT), True)):
        agent.config.trained_on = met
        rows = left_out.rows_by_tones(agent, (band, sounds), np.where(band, 0.25, 0.75) * sounds)
        assert rows == ({f"of tones {LEFT_OUT}, n {n}": 0.25, f"of tones {SHOWN}, n {every - n}": 0.75} if told else {})


def test_exams_of_sounds_have_tone_rows_for_arc_and_trunk(agent: Agent, context: Context) -> None:
    agent.config.trained_on = list(WITHOUT)
    with torch.no_grad():
        measures = [
            *hear.examine_sounds(agent, context).in_full(),
            *orient._orient(agent, context, "sound")[0].in_full(),
        ]
    heard = {"hear/sounds", "hear/sounds/hear_trunk", "orient/sound", "orient/sound/look_trunk"}
    assert {measure.name for measure in measures} == heard
    for measure in measures:
        assert len([name for name in measure.rows if name.startswith("of tones")]) == 2, measure.name


@pytest.mark.parametrize("exam", [bind, orient, reach, track])
def test_exams_of_sight_have_look_rows_for_arc_and_trunk(exam: Any, agent: Agent, context: Context) -> None:
    unseen = ("orient/sound", "orient/sound/look_trunk", orient.REST, f"{orient.REST}/look_trunk", orient.MEMORY)
    agent.config.trained_on = [GROUP]
    with torch.no_grad():
        measures = exam.examine(agent, context).in_full()
    if exam is not bind:
        gives_the_measures_of(exam.GATE, {measure.name: measure for measure in measures})
    for measure in measures:
        rows = [name for name in measure.rows if name.startswith("of looks")]
        assert len(rows) == (2 if measure.name not in unseen else 0), measure.name
        if rows:
            n = [int(name.rsplit(" ", 1)[1]) for name in rows]
            assert sum(n) == measure.n
            mean = sum(count * measure.rows[name] for count, name in zip(n, rows, strict=True)) / measure.n
            assert mean == pytest.approx(measure.values.mean())
