"""The studies that come with devmind agree with the stages that they name."""

from __future__ import annotations

import pytest

from devmind.curriculum.study.arms import plan
from devmind.curriculum.study.file import load_study


@pytest.mark.parametrize("name", ["reflex-memory", "reflex-memory-arms"])
def test_study_uses_measures_of_its_stages_and_equal_steps(name):
    study = load_study(name)
    made = plan(study)
    assert list(made.arms) == list(study.file.arms)
    assert {gate["measure"] for gate in made.gates(study)} >= {study.file.primary.outcome}
    assert set(made.equal) == {"all steps"}
