"""The pick head: reading apart from choosing."""

from __future__ import annotations

import pytest
import torch

from devmind.agent.heads import Inlet, RegressionHead
from devmind.agent.taps import Tapped
from devmind.errors import ConfigError
from stages.reflex.pick import PickHead


def make(width: int = 16) -> PickHead:
    torch.manual_seed(0)
    return PickHead(Inlet(width, 25), size=4)


def test_it_reads_pictures_as_the_head_it_starts_from() -> None:
    pick, seen = make(), RegressionHead(Inlet(16, 16), shape=[8, 4])
    pick.start_from(seen.read)
    sight, words = torch.randn(3, 16, 16), torch.zeros(3, 8, 16)
    told = seen(Tapped(sight, torch.ones(3, 16, dtype=torch.bool))).mode()
    with torch.no_grad():
        pick.choose.bias.zero_()
        pick.choose.bias[5] = 100.0
    torch.testing.assert_close(pick.picked(sight, words), told[:, 5])


def test_absent_words_choose_nothing_in_particular() -> None:
    pick, tokens = make(), torch.randn(2, 25, 16)
    present = torch.ones(2, 25, dtype=torch.bool)
    present[:, 17:24] = False
    changed = tokens.clone()
    changed[:, 17:24] = 9.0
    with torch.no_grad():
        pick.act[-1].weight.normal_()
    assert torch.equal(pick(Tapped(tokens, present)).mode(), pick(Tapped(changed, present)).mode())
    other = tokens.clone()
    other[:, 16] = 9.0
    assert not torch.equal(pick(Tapped(tokens, present)).mode(), pick(Tapped(other, present)).mode())


def test_other_sizes_and_taps_are_refused() -> None:
    with pytest.raises(ConfigError, match="8 x 4"):
        make().start_from(RegressionHead(Inlet(16, 16), shape=[7, 4]).read)
    with pytest.raises(ConfigError, match="words"):
        PickHead(Inlet(16, 17), size=4)
