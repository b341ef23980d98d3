"""The pick heads: reading apart from choosing, and starting from what perception has taught."""

from __future__ import annotations

import pytest
import torch

from devmind.agent.heads import Inlet, RegressionHead
from devmind.agent.taps import Tapped
from devmind.errors import ConfigError
from stages.reflex.pick import PickHead, PickValueHead
from stages.reflex.places import PlacesHead


def make(width: int = 16) -> PickHead:
    torch.manual_seed(0)
    return PickHead(Inlet(width, 25), size=4)


def test_it_reads_pictures_as_the_head_it_starts_from() -> None:
    pick, seen = make(), PlacesHead(Inlet(16, 24), slots=8)
    pick.start_from(seen)
    sight, words = torch.randn(3, 16, 16), torch.randn(3, 8, 16)
    told = seen(Tapped(torch.cat((sight, words), 1), torch.ones(3, 24, dtype=torch.bool))).mode()
    torch.testing.assert_close(pick.places(sight, words).mode(), told)


def test_absent_words_choose_nothing_in_particular() -> None:
    pick, tokens = make(), torch.randn(2, 25, 16)
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


def test_the_critic_tells_one_number() -> None:
    critic = PickValueHead(Inlet(16, 25))
    assert critic(Tapped(torch.randn(2, 3, 25, 16), torch.ones(2, 3, 25, dtype=torch.bool))).mode().shape == (2, 3)


def test_other_sizes_and_taps_are_refused() -> None:
    with pytest.raises(ConfigError, match="8 slots"):
        make().start_from(PlacesHead(Inlet(16, 24), slots=7))
    with pytest.raises(ConfigError, match="RegressionHead"):
        make().start_from(RegressionHead(Inlet(16, 16), shape=[8, 4]))
    with pytest.raises(ConfigError, match="words"):
        PickHead(Inlet(16, 17), size=4)
