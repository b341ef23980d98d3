"""Independent rows and growing Moments: after take, put, repeat or extend, stepping equals all at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from devmind.agent.agent import Agent
from devmind.agent.batch import Batch, collate, map_tensors
from devmind.agent.encoders import Encoded, Encoder
from devmind.agent.ring import Ring
from devmind.agent.state import State
from devmind.errors import ConfigError, DevmindError
from devmind.moment import Moment
from devmind.testing.laws import ATOL
from tests.agent.conftest import make_rows, shake, tick_of
from tests.agent.test_stepping import all_at_once, stepped
from tests.test_testing_parts import SummingHead

FEW = ("body", "words", "periphery")


class Letters(Encoder):
    """A streaming sense: numbers 1 to 20, one token each; 0 is no letter."""

    streams = True

    def __init__(self, width: int) -> None:
        super().__init__(width, n_tokens=512)
        self.embedding = nn.Embedding(21, width)

    def encode(self, x: Tensor, previous: Tensor | None, previous_present: Tensor | None) -> Encoded:
        return Encoded(self.embedding(x.long()), x != 0)


def reader(small_agent: Callable[..., Agent], **config: object) -> Agent:
    """An agent that reads letters beside other senses."""
    agent = small_agent(senses=FEW, shaken=False, **config)
    agent.encoders["letters"] = Letters(agent.config.width)
    return shake(agent)


def pages(lengths: list[list[int]], seed: int = 0) -> Batch:
    """Moments with [B][T] letters and sometimes a body; some have neither."""
    rng = np.random.default_rng(seed)
    batch = collate(make_rows(len(lengths), len(lengths[0]), seed, ("body",)))
    widest = max(max(row) for row in lengths)
    letters = torch.from_numpy(rng.integers(1, 21, (len(lengths), len(lengths[0]), widest)))
    letters[torch.arange(widest) >= torch.tensor(lengths)[..., None]] = 0
    batch["senses"]["letters"], batch["present"]["letters"] = letters, torch.tensor(lengths) > 0
    return batch


def advance(agent: Agent, state: State, batch: Batch, ticks: range) -> tuple[State, list[Tensor]]:
    features = []
    for t in ticks:
        state, out = agent.step(state, agent.encode(state, tick_of(batch, t)))
        assert out.features is not None
        features.append(out.features)
    return state, features


# -- Moments of any size ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("slots", [0, 2])
def test_stepping_equals_all_at_once_for_moments_of_0_to_512_tokens(
    small_agent: Callable[..., Agent], slots: int
) -> None:
    agent = reader(small_agent, layers=2, window=4, slots=slots)
    lengths = [[0, 3, 511, 1, 0, 40, 2, 300, 512, 512, 0, 1, 5], [7, 0, 1, 512, 512, 3, 0, 0, 2, 60, 1, 1, 9]]
    batch = pages(lengths)
    batch["first"][0, 1:] = False
    batch["first"][1, 1:] = torch.arange(1, 13) == 6
    torch.testing.assert_close(stepped(agent, batch), all_at_once(agent, batch), atol=ATOL, rtol=0)


@pytest.mark.parametrize(("slots", "window"), [(0, 5), (2, 5), (2, 8)])
def test_token_limit_drops_oldest_moments_in_stepping_and_all_at_once(
    small_agent: Callable[..., Agent], slots: int, window: int
) -> None:
    agent = reader(small_agent, layers=1, window=window, window_tokens=24, slots=slots)
    lengths = np.random.default_rng(1).integers(0, 12, (3, 3 * window + 2)).tolist()
    batch = pages(lengths, seed=1)
    limited = all_at_once(agent, batch)
    torch.testing.assert_close(stepped(agent, batch), limited, atol=ATOL, rtol=0)
    agent.set_window(window, 10_000)
    assert not torch.allclose(all_at_once(agent, batch), limited, atol=1e-3)


def test_readout_sees_only_moments_within_the_token_limit(small_agent: Callable[..., Agent]) -> None:
    agent = reader(small_agent, layers=1, window=8, window_tokens=12, slots=0)
    batch = pages([[3] * 8])
    del batch["senses"]["body"], batch["present"]["body"]
    batch["first"][:, 1:] = False
    before = all_at_once(agent, batch)
    batch["senses"]["letters"][0, 2, 0] = batch["senses"]["letters"][0, 2, 0] % 20 + 1
    changed = (all_at_once(agent, batch) - before).abs().amax(-1)[0] > 1e-6
    # Four tokens a Moment: a readout sees its own Moment and the two before it.
    assert changed.tolist() == [False, False, True, True, True, False, False, False]


def test_ring_shrinks_after_a_page_leaves_the_window(small_agent: Callable[..., Agent]) -> None:
    agent = reader(small_agent, layers=1, window=4, slots=0)
    batch = pages([[2, 512, 2, 2, 2, 2, 2, 2, 2, 2, 2]])
    state, widths = agent.new_state(), []
    for t in range(11):
        state, _ = agent.step(state, agent.encode(state, tick_of(batch, t)))
        widths.append(state.ring.filled)
    assert max(widths) > 512
    assert widths[-1] <= 20


def test_batch_of_ragged_moments_computes_only_present_tokens(
    small_agent: Callable[..., Agent], monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = reader(small_agent, layers=1, window=4, slots=0)
    batch, decode, seen = pages([[1, 200, 1, 0, 0, 0]]), agent.trunk._decode, []

    def spy(tokens: Tensor, *args: object) -> Tensor:
        seen.append(tokens.shape[1])
        return decode(tokens, *args)

    monkeypatch.setattr(agent.trunk, "_decode", spy)
    all_at_once(agent, batch)
    assert sum(seen) < 202 + 6 + 6 + 1


# -- one Moment in several calls -------------------------------------------------------------------------------------


def said_in_pieces(agent: Agent, batch: Any, piece: int) -> Tensor:
    """Readouts [B, T, D] of Moments whose letters are added after all else, `piece` at a time."""
    state, readouts = agent.new_state(len(batch["first"])), []
    for t in range(batch["first"].shape[1]):
        tick = tick_of(batch, t)
        letters = tick["senses"].pop("letters")[:, 0]
        tick["present"].pop("letters")
        percepts = agent.encode(state, tick)
        state, begun = agent.begin(state, percepts)
        assert begun.features is None
        for at in range(0, letters.shape[1], piece):
            some = letters[:, at : at + piece]
            state, _ = agent.extend(state, "letters", some, (some != 0).any(1))
        state, out = agent.end(state, percepts, heads=["guess"])
        readouts.append(out.features)
        assert out.outputs["guess"].logits.shape == (2, 5)
    return torch.stack(readouts, 1)


@pytest.mark.parametrize("piece", [3, 100])
def test_pages_beyond_the_token_limit_are_stepped_and_rebased_as_all_at_once(
    small_agent: Callable[..., Agent], monkeypatch: pytest.MonkeyPatch, piece: int
) -> None:
    """The own Moment is seen whole though it is longer than the limit, and counts go on when positions are moved."""
    agent = reader(small_agent, layers=2, window=8, window_tokens=24, slots=0, rebase_at=90)
    batch = pages([[4, 40, 9, 5, 6, 30, 2, 3, 12, 28, 4, 4, 35, 7, 2, 2]], seed=5)
    batch = map_tensors(batch, lambda x: torch.cat((x, x)))
    batch["first"][:, 1:] = False
    rebase, while_open = Ring.rebase, []

    def spy(ring: Ring, *angles: Tensor) -> None:
        rebase(ring, *angles)
        while_open.append(bool((ring.order > 0).all()))

    monkeypatch.setattr(Ring, "rebase", spy)
    torch.testing.assert_close(said_in_pieces(agent, batch, piece), all_at_once(agent, batch), atol=ATOL, rtol=0)
    assert any(while_open), "in the middle of a page"


@pytest.mark.parametrize("piece", [1, 3, 100])
def test_page_extended_in_pieces_equals_the_whole_page(small_agent: Callable[..., Agent], piece: int) -> None:
    agent = reader(small_agent, layers=2, window=3, slots=2, window_tokens=60)
    batch = pages([[4, 30, 9, 0, 45, 8, 30, 12], [30, 2, 7, 20, 1, 40, 0, 50]], seed=2)
    batch["first"][0, 1:] = False
    torch.testing.assert_close(said_in_pieces(agent, batch, piece), all_at_once(agent, batch), atol=ATOL, rtol=0)


def test_extended_tokens_have_the_features_of_the_whole_page(small_agent: Callable[..., Agent]) -> None:
    agent = reader(small_agent, layers=2, window=3)
    batch = pages([[5, 12]], seed=3)
    batch["first"][0, 1] = False
    with torch.no_grad():
        whole = agent.perceive(batch, ["trunk"]).of_senses["letters"].tokens[0, 1, :12]
    state, _ = advance(agent, agent.new_state(), batch, range(1))
    tick = tick_of(batch, 1)
    letters, _ = tick["senses"].pop("letters")[:, 0], tick["present"].pop("letters")
    state, _ = agent.begin(state, agent.encode(state, tick))
    found = []
    for i in range(12):
        kept = agent.trunk.extend
        agent.trunk.extend = lambda *args, kept=kept: found.append(kept(*args)) or found[-1]
        state, _ = agent.extend(state, "letters", letters[:, i : i + 1])
        agent.trunk.extend = kept
    torch.testing.assert_close(torch.cat(found, 1)[0], whole, atol=ATOL, rtol=0)


def test_begin_extend_and_end_must_come_in_this_order(small_agent: Callable[..., Agent]) -> None:
    agent = reader(small_agent)
    batch = pages([[3, 3]])
    state, letters = agent.new_state(), batch["senses"]["letters"][:, 0]
    with pytest.raises(DevmindError, match="No Moment is open in this state"):
        agent.extend(state, "letters", letters)
    percepts = agent.encode(state, tick_of(batch, 0))
    state, _ = agent.begin(state, percepts)
    with pytest.raises(DevmindError, match="still open in this state: close it with `end`"):
        agent.step(state, percepts)
    with pytest.raises(DevmindError, match=r"stands last \(that is 'letters'\); got 'body'"):
        agent.extend(state, "body", torch.zeros(1, 16))
    state, _ = agent.end(state, percepts)
    agent.step(state, agent.encode(state, tick_of(batch, 1)))


# -- rows ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("senses", "used"), [(FEW, 0), (("sight", "body"), 0), (FEW, 13), (("sight", "body"), 13)])
def test_rows_with_different_pasts_step_in_one_state(
    small_agent: Callable[..., Agent], senses: tuple[str, ...], used: int
) -> None:
    """Rows with short and long pasts are put into one state, new or `used` for some ticks, and stepped on."""
    agent = small_agent(senses=senses, layers=2, window=4)
    batch = collate(make_rows(rows=3, length=24, seed=3, senses=senses))
    batch["first"][0, 1:] = False
    whole, starts = all_at_once(agent, batch), (9, 1, 14)
    other = collate(make_rows(rows=3, length=used or 1, seed=12, senses=senses, absent=0.0))
    state, _ = advance(agent, agent.new_state(3), other, range(used))
    for row, start in enumerate(starts):
        one, _ = advance(
            agent, agent.new_state(), map_tensors(batch, lambda x, row=row: x[row : row + 1]), range(start)
        )
        state.put(row, one)
        assert state.ring.highest >= state.ring.position.max(), "or positions are never moved back"
    for step in range(8):
        tick = map_tensors(
            batch, lambda x, step=step: torch.stack([x[row, start + step] for row, start in enumerate(starts)])[:, None]
        )
        state, out = agent.step(state, agent.encode(state, tick))
        wanted = torch.stack([whole[row, start + step] for row, start in enumerate(starts)])
        torch.testing.assert_close(out.features, wanted, atol=ATOL, rtol=0)


def test_taken_rows_continue_unchanged(small_agent: Callable[..., Agent]) -> None:
    agent = small_agent(senses=("sight", *FEW), layers=2, window=4)
    batch = collate(make_rows(rows=4, length=20, seed=6, senses=("sight", *FEW)))
    whole = all_at_once(agent, batch)
    state, _ = advance(agent, agent.new_state(4), batch, range(9))
    for index in ([2, 0], torch.tensor([False, True, False, True]), -1):
        some = state.take(index)
        rows = torch.arange(4)[index] if not isinstance(index, int) else torch.tensor([3])
        _, features = advance(agent, some, map_tensors(batch, lambda x, rows=rows: x[rows]), range(9, 20))
        torch.testing.assert_close(torch.stack(features, 1), whole[rows, 9:], atol=ATOL, rtol=0)
    _, features = advance(agent, state, batch, range(9, 20))
    torch.testing.assert_close(torch.stack(features, 1), whole[:, 9:], atol=ATOL, rtol=0)


def test_repeated_rows_are_independent(small_agent: Callable[..., Agent]) -> None:
    """Each row three times, as in a search; every copy meets other Moments and answers independently."""
    agent = small_agent(senses=("sight", "body"), layers=2, window=4)
    start = make_rows(rows=2, length=7, seed=8, senses=("sight", "body"))
    ends = make_rows(rows=6, length=6, seed=9, senses=("sight", "body"))
    lives = [[*start[i // 3], *end] for i, end in enumerate(ends)]
    lives = [[Moment(m.time_s, m.senses, first=t == 0) for t, m in enumerate(row)] for row in lives]
    batch = collate(lives)
    state, _ = advance(agent, agent.new_state(2), map_tensors(batch, lambda x: x[::3]), range(7))
    _, features = advance(agent, state.repeat(3), batch, range(7, 13))
    torch.testing.assert_close(torch.stack(features, 1), all_at_once(agent, batch)[:, 7:], atol=ATOL, rtol=0)


def test_rows_with_open_pages_can_be_repeated_and_taken(small_agent: Callable[..., Agent]) -> None:
    agent = reader(small_agent, layers=2, window=3)
    batch = pages([[9, 9]], seed=4)
    batch["first"][0, 1] = False
    whole = all_at_once(agent, batch)
    letters = batch["senses"]["letters"][:, 1]
    state, _ = advance(agent, agent.new_state(), batch, range(1))
    tick = tick_of(batch, 1)
    del tick["senses"]["letters"], tick["present"]["letters"]
    percepts = agent.encode(state, tick)
    state, _ = agent.begin(state, percepts)
    state, _ = agent.extend(state, "letters", letters[:, :4])
    both = state.repeat(2)
    both, _ = agent.extend(both, "letters", torch.stack((letters[0, 4:], letters[0, 4:].flip(0))))
    for row, same in ((0, True), (1, False)):
        one, out = agent.end(both.take(row), percepts)
        assert torch.allclose(out.features[0], whole[0, 1], atol=1e-5) == same
    assert one.ring.tick.tolist() == [2]


def test_carried_values_follow_their_row() -> None:
    agent = Agent(Agent.config_class(size="tiny"))
    agent.add_encoder("body")
    state, other = agent.new_state(3), agent.new_state(2)
    other.carry["head.plan"] = {"rest": torch.arange(1.0, 9.0).reshape(2, 4), "left": torch.tensor([4, 2])}
    other.carry["tracker"] = {"seen": torch.tensor([3, 5])}
    state.put([2, 0], other)
    assert state.carry["head.plan"]["left"].tolist() == [2, 0, 4]
    other.carry["tracker"]["seen"].zero_()
    assert state.carry["tracker"]["seen"].tolist() == [5, 0, 3], "nothing is shared with the rows that were put"
    assert state.repeat(2).carry["head.plan"]["left"].tolist() == [2, 2, 0, 0, 4, 4]
    copy = state.clone()
    copy.carry["head.plan"]["rest"].zero_()
    assert state.carry["head.plan"]["rest"].sum() == 36
    state.put(2, agent.new_state())
    assert state.carry["head.plan"]["left"].tolist() == [2, 0, 0]
    for begins, left, seen in (([False, True, True], [2, 0, 0], 5), ([True, False, False], [0, 0, 0], 0)):
        first = torch.tensor(begins)[:, None]
        tick = {"senses": {}, "present": {}, "first": first, "valid": torch.ones_like(first)}
        state, _ = agent.step(state, agent.encode(state, tick))
        assert state.carry["head.plan"]["left"].tolist() == left, "an episode's begin clears its own row"
        assert state.carry["tracker"]["seen"].tolist() == [seen, 0, 0]


def test_a_row_carries_from_its_episodes_begin_and_waits_where_it_has_nothing_to_read() -> None:
    """Stepped beside rows with another past, a head's answers are those of its episode in a batch."""
    agent = Agent(Agent.config_class(size="tiny"))
    agent.add_encoder("body")
    agent.add_head("total", "head.categorical", tap="body", options={"classes": 3})
    agent.heads["total"] = SummingHead(agent.inlet("body"), 3)
    body = torch.randn(2, 6, 4, generator=torch.Generator().manual_seed(0)).numpy()
    state, answers, begins = agent.new_state(2), list[torch.Tensor](), (0, 2)
    for t in range(6):
        moments = [Moment(t / 10, {"body": body[row, t]}, first=t == begin) for row, begin in enumerate(begins)]
        if t == 4:
            moments[0] = Moment(t / 10)
        state, output = agent.step(state, agent.encode(state, moments), heads=["total"], trunk=False)
        answers.append(output.outputs["total"].logits)
    assert {name: value.tolist() for name, value in state.carry["head.total"].items()}["ticks"] == [5, 4]
    for row, ticks in ((0, [0, 1, 2, 3, 5]), (1, [2, 3, 4, 5])):
        episode = collate([[Moment(i / 10, {"body": body[row, t]}, first=i == 0) for i, t in enumerate(ticks)]])
        wanted = agent.forward(episode, ["total"])["total"].logits[0]
        torch.testing.assert_close(torch.stack([answers[t][row] for t in ticks]), wanted)


def test_take_and_put_refuse_rows_that_do_not_fit(small_agent: Callable[..., Agent]) -> None:
    agent = small_agent(senses=FEW, window=4)
    state = agent.new_state(3)
    with pytest.raises(DevmindError, match="There are 3 rows, numbered 0 to 2; got"):
        state.take([0, 3])
    with pytest.raises(DevmindError, match=r"A mask over 3 rows must be bool \[3\]; got \[2\]"):
        state.take(torch.tensor([True, False]))
    with pytest.raises(DevmindError, match="expected 2 rows, a window of 4 Moments"):
        state.put([0, 1], agent.new_state(3))
    with pytest.raises(DevmindError, match="Rows with slots cannot be put into a state without"):
        state.put(0, agent.new_state(1, short_term=False))


def test_set_window_changes_the_window_of_an_agent(small_agent: Callable[..., Agent], tmp_path) -> None:
    agent = small_agent(senses=FEW, layers=2, window=4)
    batch = collate(make_rows(rows=2, length=30, seed=3, senses=FEW))
    batch["first"][0, 1:] = False
    before, old = all_at_once(agent, batch), agent.new_state(2)
    for window in (11, 2):
        agent.set_window(window)
        after = all_at_once(agent, batch)
        assert not torch.allclose(after, before, atol=1e-3)
        torch.testing.assert_close(stepped(agent, batch), after, atol=ATOL, rtol=0)
    with pytest.raises(DevmindError, match="window of 4 Moments and 1024 tokens, the agent's is of 2 and 1024 now"):
        agent.encode(old, tick_of(batch, 0))
    with pytest.raises(ConfigError, match="one Moment and one token at least; got -1 Moments"):
        agent.set_window(-1)
    agent.save_pretrained(tmp_path)
    again = Agent.from_pretrained(tmp_path)
    assert (again.config.window, again.config.slots_every, again.trunk.slots.every) == (2, 2, 2)
    assert torch.equal(all_at_once(again, batch), after)


def test_narrowed_restores_the_window(small_agent: Callable[..., Agent]) -> None:
    agent = small_agent(senses=FEW, layers=2, window=8)
    batch = collate(make_rows(rows=2, length=30, seed=3, senses=FEW))
    before = all_at_once(agent, batch)
    with agent.narrowed(0.25):
        assert agent.config.window == agent.trunk.window == 2
        narrow = all_at_once(agent, batch)
    with pytest.raises(KeyError), agent.narrowed(0.5):
        raise KeyError
    assert (agent.config.window, agent.config.window_tokens, agent.trunk.window) == (8, 1024, 8)
    assert torch.equal(all_at_once(agent, batch), before)
    agent.set_window(2)
    assert torch.equal(all_at_once(agent, batch), narrow)
