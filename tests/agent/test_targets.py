"""A target of another shape than the answer's is refused; torch would broadcast it and compare wrong pairs."""

from __future__ import annotations

import pytest
import torch

from devmind.agent.output import Categorical, Normal, Regression
from devmind.errors import ConfigError


def test_regression_of_one_number_a_row_refuses_a_target_without_its_dimension():
    """Regression: [B, 1, 1] beside [B, 1] became [B, B, 1], so each answer was compared with all rows' targets."""
    value, target = torch.arange(4.0).reshape(4, 1, 1), torch.arange(4.0).reshape(4, 1)
    with pytest.raises(ConfigError, match=r"\[4, 1, 1\]; got \[4, 1\]"):
        Regression(value).loss(target)
    assert Regression(value).loss(target[..., None]) == 0
    assert Regression(value[..., 0]).loss(target.double()) == 0, "another type is converted"


def test_normal_refuses_a_target_of_another_shape():
    mean = torch.zeros(3, 2, 1)
    with pytest.raises(ConfigError, match=r"\[3, 2, 1\]; got \[3, 2\]"):
        Normal(mean, mean).loss(torch.zeros(3, 2))
    assert torch.isfinite(Normal(mean, mean).loss(torch.zeros(3, 2, 1)))


def test_classes_have_the_places_of_the_answer():
    """Regression: classes [T, B] beside an answer [B, T] were compared in the wrong order."""
    logits = torch.zeros(3, 2, 5)
    for shape in ((2, 3), (6,), (3, 1)):
        with pytest.raises(ConfigError, match=r"\[3, 2\]; got"):
            Categorical(logits).loss(torch.zeros(shape, dtype=torch.long))
    assert Categorical(logits).loss(torch.full((3, 2), 4)) == pytest.approx(torch.tensor(5.0).log().item())
    assert Categorical(logits).loss(torch.full((3, 2, 5), 0.2)) == pytest.approx(torch.tensor(5.0).log().item())


def test_class_beyond_the_last_is_refused():
    with pytest.raises(ConfigError, match="Targets of 5 classes are 0 to n - 1: Target 5 is out of bounds"):
        Categorical(torch.zeros(3, 2, 5)).loss(torch.full((3, 2), 5))
