"""Where the time of learning goes: parts are counted once, hooks are removed, and shares are of one whole."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import torch
from torch import nn

from devmind.curriculum import results, timing
from devmind.curriculum.timing import PARTS, REST, Stopwatch, shares, with_rest

NAP_S = 0.25


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only naps move the clock, so the machine's speed changes no time."""
    monkeypatch.setattr(timing, "time", SimpleNamespace(perf_counter=lambda: Napping.now_s))


class Napping(nn.Module):
    """A part that takes some time and calls other parts."""

    now_s: ClassVar[float] = 0.0

    def __init__(self, *asks: nn.Module, fails: bool = False) -> None:
        super().__init__()
        self.asks, self.fails = nn.ModuleList(asks), fails

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        Napping.now_s += NAP_S
        if self.fails:
            raise ValueError("tired")
        for other in self.asks:
            x = other(x)
        return x


def agent_of(encoder: nn.Module, decoder: nn.Module, head: nn.Module) -> Any:
    trunk = Napping(decoder)
    trunk.decoder = decoder
    return SimpleNamespace(encoders=nn.ModuleDict({"sight": encoder}), trunk=trunk, heads=nn.ModuleDict({"look": head}))


def naps(watch: Stopwatch) -> dict[str, float]:
    return {part: seconds / NAP_S for part, seconds in watch.seconds.items()}


def test_pass_is_counted_once_for_the_outermost_part() -> None:
    encoder, decoder = Napping(), Napping()
    agent, watch = agent_of(encoder, decoder, Napping(encoder)), Stopwatch()
    with watch.watching(agent):
        agent.encoders["sight"](torch.zeros(1))
        agent.trunk(torch.zeros(1))  # itself and its decoder
        agent.trunk.decoder(torch.zeros(1))  # as in stepping
        agent.heads["look"](torch.zeros(1))  # it calls the encoder
    assert naps(watch) == {"data": 0, "encoders": 1, "trunk": 3, "heads": 2}


def test_agent_that_acts_to_make_a_batch_counts_as_data() -> None:
    agent, watch = agent_of(Napping(), Napping(), Napping()), Stopwatch()
    with watch.watching(agent):
        watch.counted("data", agent.encoders["sight"])(torch.zeros(1))
    assert naps(watch) == {"data": 1, "encoders": 0, "trunk": 0, "heads": 0}


def test_failed_pass_ends_its_timing() -> None:
    agent, watch = agent_of(Napping(fails=True), Napping(), Napping()), Stopwatch()
    with watch.watching(agent):
        for _ in range(2):
            with pytest.raises(ValueError, match="tired"):
                agent.encoders["sight"](torch.zeros(1))
        agent.heads["look"](torch.zeros(1))
    assert naps(watch) == {"data": 0, "encoders": 2, "trunk": 0, "heads": 1}


def test_hooks_are_removed() -> None:
    agent, watch = agent_of(Napping(), Napping(), Napping()), Stopwatch()
    with pytest.raises(KeyError), watch.watching(agent):
        raise KeyError
    for part in (agent.trunk, agent.trunk.decoder, *agent.encoders.values(), *agent.heads.values()):
        part(torch.zeros(1))
        assert not part._forward_hooks
        assert not part._forward_pre_hooks
    assert naps(watch) == dict.fromkeys(PARTS, 0)


def test_timing_costs_little() -> None:
    agent, watch = agent_of(nn.Identity(), nn.Identity(), nn.Identity()), Stopwatch()
    with watch.watching(agent):
        begun = time.thread_time()
        for _ in range(1000):
            agent.encoders["sight"](torch.zeros(1))
    assert time.thread_time() - begun < 1000 * 100e-6


def test_shares_sum_to_one() -> None:
    share = with_rest(shares({"data": 1.0, "encoders": 2.0, "trunk": 3.0, "heads": 0.5}, 10.0))
    assert share == pytest.approx({"data": 0.1, "encoders": 0.2, "trunk": 0.3, "heads": 0.05, REST: 0.35})


class OldJournal:
    """A journal begun before parts were timed, and continued since."""

    def events(self, kind: str) -> list[dict[str, Any]]:
        common = {"planned": 4, "steps": 4, "status": "done"}
        return {
            "lesson_done": [
                {"lesson": "one", "seconds": 30.0, "data_share": 0.5, **common},
                {"lesson": "two", "seconds": 60.0, "share": dict.fromkeys(PARTS, 0.2), **common},
            ],
            "exam": [{"seconds": 10.0}],
        }[kind]


def test_journal_without_timing_is_still_read() -> None:
    rows = results.lessons(OldJournal())  # type: ignore[arg-type]
    assert rows[0]["share"] == {"data": 0.5, "learning": 0.5}
    assert rows[1]["share"] == pytest.approx({**dict.fromkeys(PARTS, 0.2), REST: 0.2})
    share = results.cost(nn.Linear(1, 1), OldJournal())["share"]  # type: ignore[arg-type]
    assert share["data"] == pytest.approx(0.27)
    assert share["exams"] == pytest.approx(0.1)
    assert sum(share.values()) == pytest.approx(1)
