"""The package keeps devmind's laws; run beside an installed devmind: `pip install -e . && pytest`."""

from pathlib import Path

import numpy as np
from devmind_crowd.stage import CrowdStage, digits, lesson_batch

from devmind.learners.population import PopulationLearner
from devmind.testing import check_learner, check_stage, tiny_agent, tiny_context


def test_the_stage_keeps_its_laws() -> None:
    check_stage(CrowdStage())


def test_the_population_keeps_a_learners_laws(tmp_path: Path) -> None:
    agent, context = tiny_agent(), tiny_context(tmp_path)
    CrowdStage().admit(agent)
    (lesson,) = CrowdStage().lessons(context)
    check_learner(lesson, agent, context)


def test_members_differ_and_the_best_one_is_the_head(tmp_path: Path) -> None:
    agent, context = tiny_agent(), tiny_context(tmp_path)
    CrowdStage().admit(agent)
    (lesson,) = CrowdStage().lessons(context)
    learner = lesson.make_learner(agent, context)
    assert isinstance(learner, PopulationLearner)
    scalars = learner.update(lesson_batch(context, 0, 256), 0)
    best, median, worst = (float(scalars[f"{which} loss"]) for which in ("best", "median", "worst"))
    assert best < median < worst
    rates = learner.population.rates
    assert len(rates.unique()) == 200
    first = learner.population.weights[learner.recent.argmin()]
    assert (agent.head("digit").read.net[0].weight == first[: 64 * 32].view(64, 32).T).all()


def test_no_digit_of_the_exam_is_in_a_lesson() -> None:
    x, _, unseen, labels = digits()
    assert len(np.unique(labels)) == 10
    assert not {row.tobytes() for row in x} & {row.tobytes() for row in unseen}
