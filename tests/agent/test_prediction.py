"""Prediction: its loss against the formula in loops, which heads count, and the surprise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from devmind.agent.agent import Agent
from devmind.agent.batch import as_opening, collate
from devmind.agent.output import Regression
from devmind.agent.prediction import coarse_sight, coarse_sound, prediction_loss, residuals, surprise, targets
from devmind.moment import Moment
from devmind.testing.laws import ATOL
from tests.agent.conftest import make_rows


@pytest.fixture
def foretelling(small_agent: Callable[..., Agent]) -> Agent:
    agent = small_agent(("sight", "sound", "body"))
    agent.add_head("next_sight", "head.regression", options={"shape": [8, 8, 3]})
    agent.add_head("next_sound", "head.regression", options={"shape": [16]})
    return agent


def test_prediction_loss_equals_the_formula_in_loops(foretelling: Agent) -> None:
    rows = make_rows(3, 6, 0, senses=("sight", "sound", "body"), absent=0.3)
    batch = collate(rows)
    total, scalars = prediction_loss(foretelling, batch)
    outputs = foretelling(batch, ["next_sight", "next_sound"])
    wanted = 0.0
    for sense, unit in (("sight", 0.05), ("sound", 0.1)):
        off = change = 0.0
        for b, row in enumerate(rows):
            for t in range(1, len(row)):
                if row[t].first or sense not in row[t].senses or sense not in row[t - 1].senses:
                    continue
                now, before = (_coarse(moment, sense) for moment in (row[t], row[t - 1]))
                told = unit * outputs[f"next_{sense}"].mode()[b, t - 1].detach().numpy()
                off += float(((told - (now - before)) ** 2).sum())
                change += float(((now - before) ** 2).sum())
        assert float(scalars[f"next_{sense}"]) == pytest.approx(off / change, rel=1e-4)
        wanted += off / change
    assert float(total) == pytest.approx(wanted, rel=1e-4)


def _coarse(moment: Moment, sense: str) -> np.ndarray:
    value = torch.as_tensor(moment.senses[sense])[None, None]
    return (coarse_sight(value) if sense == "sight" else coarse_sound(value))[0, 0].numpy()


def test_coarse_picture_is_the_mean_of_its_cells() -> None:
    picture = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    cells = picture.reshape(8, 8, 8, 8, 3).mean((1, 3)) / 255
    assert np.allclose(coarse_sight(torch.from_numpy(picture)[None, None])[0, 0].numpy(), cells, atol=ATOL)


def test_prediction_loss_is_zero_without_predicting_heads(small_agent: Callable[..., Agent]) -> None:
    agent = small_agent(("sight", "sound"))
    batch = collate(make_rows(2, 4, 0, senses=("sight", "sound"), absent=0.0))
    total, scalars = prediction_loss(agent, batch)
    assert (float(total), scalars) == (0.0, {})
    assert set(targets(batch["senses"])) == {"next_sight", "next_sound"}


def test_surprise_is_zero_for_the_true_change_and_one_for_no_change() -> None:
    before, now = make_rows(1, 2, 3, senses=("sight", "sound"), absent=0.0)[0]
    before, now = replace(before, first=True), replace(now, first=False)
    batch: dict[str, Any] = collate([[before, now]])
    truth = {name: value[:, 1] - value[:, 0] for name, value in targets(batch["senses"]).items()}
    knowing = {
        "next_sight": Regression(truth["next_sight"] / 0.05),
        "next_sound": Regression(truth["next_sound"] / 0.1),
    }
    still = {name: Regression(torch.zeros_like(each.value)) for name, each in knowing.items()}
    assert surprise(knowing, before, now) == pytest.approx({"sight": 0.0, "sound": 0.0}, abs=1e-6)
    assert surprise(still, before, now) == pytest.approx({"sight": 1.0, "sound": 1.0})
    assert surprise(still, before, replace(now, first=True)) == {}, "what opens an episode was not predicted"
    assert surprise({"next_sight": still["next_sight"]}, before, now).keys() == {"sight"}
    deaf = replace(now, senses={"sight": now.senses["sight"]})
    assert surprise(still, before, deaf).keys() == {"sight"}
    pairs = {name: Regression(torch.stack((each.value, each.value), 1)) for name, each in knowing.items()}
    assert float(residuals(pairs, batch)["next_sight"].residual) == pytest.approx(0.0, abs=1e-6)


def test_noise_in_a_still_scene_is_no_surprise() -> None:
    grey = np.full((64, 64, 3), 90, np.uint8)
    noisy = grey.copy()
    noisy[::8, ::8] += 1
    calm = Regression(torch.zeros(1, 8, 8, 3))
    assert surprise({"next_sight": calm}, Moment(0.0, {"sight": grey}), Moment(0.1, {"sight": noisy}))["sight"] < 0.01


def test_as_opening_starts_an_episode() -> None:
    row = [replace(moment, first=False) for moment in make_rows(1, 3, 0)[0]]
    opened = as_opening(row)
    assert [moment.first for moment in opened] == [True, False, False]
    assert opened[0].senses is row[0].senses
