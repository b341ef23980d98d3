"""The studies that come with devmind hold together with the stages that they name."""

from __future__ import annotations

import pytest

from devmind.curriculum.study.arms import plan
from devmind.curriculum.study.file import read


@pytest.mark.parametrize("name", ["reflex-memory", "reflex-memory-arms"])
def test_a_study_asks_what_its_stages_measure_with_equal_steps(name):
    study = read(name)
    made = plan(study)
    assert list(made.arms) == list(study.file.arms)
    assert {gate["measure"] for gate in made.gates(study)} >= {study.file.primary.outcome}
    assert set(made.equal) == {"all steps"}
