"""The stage's heads: a cell's place lies in that cell, a word names a slot, and picking reads apart from choosing."""

from __future__ import annotations

import math

import pytest
import torch

from devmind.agent.heads import HALF_VIEW_DEG, SCALE_DEG, Inlet, RegressionHead
from devmind.agent.taps import Tapped
from devmind.errors import ConfigError
from stages.reflex.heads import PickHead, PickValueHead, Places, PlacesHead


def silent(slots: int = 3) -> Places:
    """Places with no preference: the same logit and no offset in every cell."""
    places = Places(8, slots)
    with torch.no_grad():
        for parameter in places.parameters():
            parameter.zero_()
    return places


@pytest.mark.parametrize(("row", "column"), [(0, 0), (0, 3), (2, 1), (3, 3)])
def test_the_most_likely_cell_gives_the_place(row: int, column: int) -> None:
    places, sight = silent(), torch.zeros(1, 16, 8)
    with torch.no_grad():
        places.cell.weight[0, 0] = 1.0
        places.look[1].weight[0, 0] = 1.0
    sight[0, 4 * row + column, 0] = 50.0
    logit, left, up, far = places(sight, torch.zeros(1, 8, 8)).mode()[0, 0].tolist()
    edge = math.tan(math.radians(HALF_VIEW_DEG))
    wanted_left, wanted_up = (math.degrees(math.atan(edge * (3 - 2 * k) / 4)) for k in (column, row))
    assert logit > 10
    assert left * SCALE_DEG == pytest.approx(wanted_left, abs=1e-3)
    assert up * SCALE_DEG == pytest.approx(wanted_up, abs=1e-3)
    assert far == 0


def test_the_named_row_is_the_chosen_slot() -> None:
    torch.manual_seed(0)
    places = Places(8, 3)
    with torch.no_grad():
        places.choose.weight.zero_()
        places.choose.weight[1, 0] = 100.0
    words = torch.zeros(2, 8, 8)
    words[0, 0, 0] = 1.0
    told = places(torch.randn(2, 16, 8), words).mode()
    torch.testing.assert_close(told[0, 3], told[0, 1])
    assert not torch.allclose(told[1, 3], told[1, 1])


def test_a_few_steps_find_a_spot_of_colour() -> None:
    torch.manual_seed(0)
    places = Places(16, 1)
    optimizer = torch.optim.Adam(places.parameters(), lr=1e-2)
    words = torch.zeros(64, 8, 16)
    for _ in range(120):
        cell = torch.randint(16, (64,))
        sight = 0.1 * torch.randn(64, 16, 16)
        sight[torch.arange(64), cell, 0] += 2.0
        place = torch.cat((torch.ones(64, 1), places.cells[cell], torch.zeros(64, 1)), 1)
        located = places(sight, words)
        optimizer.zero_grad()
        located.loss(torch.stack((place, place), 1)).backward()
        optimizer.step()
    assert (located.mode()[:, 0, 1:3] - places.cells[cell]).abs().mean() < 0.1


def test_absent_things_count_only_for_presence() -> None:
    torch.manual_seed(0)
    located = Places(8, 2)(torch.randn(3, 16, 8), torch.randn(3, 8, 8))
    target = torch.zeros(3, 3, 4)
    losses = located.losses(target)
    target[..., 1:] = 5.0
    assert losses["present"] > 0
    assert all(torch.equal(value, losses[name]) for name, value in located.losses(target).items())
    assert losses["cell"] == losses["where"] == losses["named"] == 0
    target[0, 0, 0] = 1.0
    assert located.losses(target)["where"] > 0


def test_the_words_must_be_tapped() -> None:
    with pytest.raises(ConfigError, match="words"):
        PlacesHead(Inlet(16, 16), slots=8)


def make_pick(width: int = 16) -> PickHead:
    torch.manual_seed(0)
    return PickHead(Inlet(width, 25), size=4)


def test_a_pick_head_reads_pictures_as_the_head_it_starts_from() -> None:
    pick, seen = make_pick(), PlacesHead(Inlet(16, 24), slots=8)
    pick.start_from(seen)
    sight, words = torch.randn(3, 16, 16), torch.randn(3, 8, 16)
    told = seen(Tapped(torch.cat((sight, words), 1), torch.ones(3, 24, dtype=torch.bool))).mode()
    torch.testing.assert_close(pick.places(sight, words).mode(), told)


def test_absent_words_do_not_affect_the_choice() -> None:
    pick, tokens = make_pick(), torch.randn(2, 25, 16)
    present = torch.ones(2, 25, dtype=torch.bool)
    present[:, 17:24] = False
    changed = tokens.clone()
    changed[:, 17:24] = 9.0
    with torch.no_grad():
        pick.answer[-1].weight.normal_()
    assert torch.equal(pick(Tapped(tokens, present)).mode(), pick(Tapped(changed, present)).mode())
    other = tokens.clone()
    other[:, 16] = 9.0
    assert not torch.equal(pick(Tapped(tokens, present)).mode(), pick(Tapped(other, present)).mode())


def test_the_critic_returns_one_number() -> None:
    critic = PickValueHead(Inlet(16, 25))
    assert critic(Tapped(torch.randn(2, 3, 25, 16), torch.ones(2, 3, 25, dtype=torch.bool))).mode().shape == (2, 3)


def test_a_pick_head_refuses_other_sizes_and_taps() -> None:
    with pytest.raises(ConfigError, match="8 slots"):
        make_pick().start_from(PlacesHead(Inlet(16, 24), slots=7))
    with pytest.raises(ConfigError, match="RegressionHead"):
        make_pick().start_from(RegressionHead(Inlet(16, 16), shape=[8, 4]))
    with pytest.raises(ConfigError, match="words"):
        PickHead(Inlet(16, 17), size=4)
