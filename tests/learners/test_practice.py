"""Deep Q-learning in a world of known values: what is kept and learned, and exact resume."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import Tensor, nn

from devmind.acting import returns
from devmind.agent.action_values import ActionValues, ActionValuesHead
from devmind.agent.heads import Inlet
from devmind.agent.taps import Tapped
from devmind.errors import ConfigError
from devmind.learners.q_learning import Practice, QLearning, legal_in
from devmind.learners.transitions import Transitions
from devmind.seeding import numpy_rng
from devmind.testing.laws import ATOL
from devmind.testing.parts import check_head
from devmind.worlds.adapter import VectorWorld
from devmind.worlds.restarting import Restarting
from devmind.worlds.rules import Outcome, Struct

PLACES, HORIZON = 4, 12


@dataclass
class RowState(Struct):
    place: np.ndarray
    tick: np.ndarray
    over: np.ndarray


class RowRules:
    """Places in a row; the last one is the end and earns 1. 0 goes left, 1 right; 2 is illegal.

    An episode is cut after HORIZON steps. From the first place, going left is illegal.
    """

    name, level, horizon = "row", "", HORIZON
    observation_space = spaces.Dict({"body": spaces.Box(0, 1, (PLACES,), np.float32)})
    action_space = spaces.Dict({"go": spaces.Discrete(3)})

    def initial(self, seeds: np.ndarray) -> RowState:
        n = len(seeds)
        return RowState(np.asarray(seeds) % (PLACES - 1), np.zeros(n, np.int64), np.zeros(n, bool))

    def legal(self, state: RowState) -> Mapping[str, np.ndarray]:
        return {"go": np.stack([state.place > 0, state.place >= 0, state.place < 0], 1)}

    def step(self, state: RowState, actions: Mapping[str, np.ndarray]) -> RowState:
        go = actions["go"]
        assert (go < 2).all(), "an illegal action was taken"
        over = (state.place == PLACES - 1) | (state.tick >= HORIZON)
        place = np.where(over, state.place, np.clip(state.place + 2 * go - 1, 0, PLACES - 1))
        return replace(state, place=place, tick=state.tick + ~over, over=over)

    def outcome(self, state: RowState) -> Outcome:
        at_end = state.place == PLACES - 1
        return Outcome((at_end & ~state.over).astype(np.float32), at_end, state.tick >= HORIZON)

    def observe(self, state: RowState) -> dict[str, Any]:
        return {"body": np.eye(PLACES, dtype=np.float32)[state.place]}

    def truth(self, state: RowState) -> dict[str, np.ndarray]:
        return {}


class Table(nn.Module):
    """A value for each place and action, initially `start`, or `quantiles` such values."""

    effector = "go"

    def __init__(self, start: float = 0.0, quantiles: int = 1) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.full((PLACES, 3, quantiles), start))

    def read(self, senses: Mapping[str, Any]) -> Tensor:
        return torch.from_numpy(senses["body"])

    def forward(self, observation: Tensor) -> Tensor:
        return torch.einsum("bp,pak->bak", observation, self.table)


def test_targets_stay_within_the_known_bounds() -> None:
    rows = {"return": torch.tensor([0.0, -9.0]), "factor": torch.tensor([1.0, 0.0]), "following": torch.eye(PLACES)[:2]}
    for bounds, wanted in ((None, [[5.0], [-9.0]]), ((-0.5, 1.0), [[1.0], [-0.5]])):
        assert Practice(Table(start=5.0), QLearning(bounds=bounds), "test").targets(rows).tolist() == wanted


def row_world(n: int = 6) -> VectorWorld[RowState]:
    world = VectorWorld(RowRules(), n)
    world.reset(np.arange(n))
    return world


def taught(settings: QLearning, rounds: int = 60, start: float = 0.0, quantiles: int = 1) -> tuple[Practice, Any]:
    practice = Practice(Table(start, quantiles), settings, "test")
    optimizer = torch.optim.SGD(practice.network.parameters(), lr=4.0)
    go_on(practice, optimizer, range(rounds))
    return practice, optimizer


def go_on(practice: Practice, optimizer: torch.optim.Optimizer, rounds: range) -> None:
    def descend(loss: Tensor) -> None:
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    for number in rounds:
        practice.act(row_world(), HORIZON, 0.5, number)
        practice.learn(10, number, descend)


BASE = QLearning(discount=0.8, batch=64, capacity=2000, target_every=10)
KNOWN = {(0, 1): 0.64, (1, 0): 0.512, (1, 1): 0.8, (2, 0): 0.64, (2, 1): 1.0}
"""By (place, action): 0.8 to the power of the number of steps after the first."""


@pytest.mark.parametrize(
    "changes",
    [
        {"double": False},
        {"double": True},
        {"n_step": 3},
        {"priority": 0.6, "beta": 1.0},
        {"quantiles": 5},
        {"bounds": (0.0, 1.0)},
    ],
    ids=lambda changes: next(iter(changes)) + str(next(iter(changes.values()))),
)
def test_practice_learns_the_known_values(changes: dict[str, Any]) -> None:
    quantiles = changes.pop("quantiles", 1)
    practice, _ = taught(replace(BASE, **changes), quantiles=quantiles)
    values = practice.network.table.detach().mean(-1)
    # Sums of several steps under an exploring policy are below the best (as in Rainbow), except on the right path.
    wanted = {pair: x for pair, x in KNOWN.items() if "n_step" not in changes or pair == (2, 1)}
    for (place, action), value in wanted.items():
        assert float(values[place, action]) == pytest.approx(value, abs=0.03), (place, action)
    assert (values[:3, :2].argmax(1) == 1).all()


def test_illegal_actions_are_never_taken_and_enter_no_target() -> None:
    practice, _ = taught(BASE, start=5.0)
    values = practice.network.table.detach()[..., 0]
    assert (values[:, 2] == 5).all(), "nothing was learned of it"
    assert (practice.met.columns["action"][: len(practice.met)] < 2).all()
    assert float(values[2, 1]) == pytest.approx(1.0, abs=0.02)
    assert float(values[0, 1]) == pytest.approx(0.64, abs=0.05), "5 was hoped for"


def test_truncated_episode_bootstraps_from_its_last_state_and_not_from_the_next_episode() -> None:
    world = Restarting(row_world(3), numpy_rng("starts"))
    practice = Practice(Table(), replace(BASE, n_step=2), "test")
    always_left = torch.zeros(PLACES, 3, 1)
    always_left[1:, 0], always_left[0, 1] = 1.0, 1.0
    practice.network.table.data = always_left  # to and fro between the first two places until the episode is cut
    practice.act(world, HORIZON + 3, 0.0, 0)
    met = practice.met.columns
    followed = met["following"][: len(practice.met)].reshape(HORIZON + 3, 3, PLACES).argmax(-1)
    seen = met["observation"][: len(practice.met)].reshape(HORIZON + 3, 3, PLACES).argmax(-1)
    factor = met["factor"][: len(practice.met)].reshape(HORIZON + 3, 3)
    cut = HORIZON - 1
    assert (factor > 0).all(), "nothing ended by its rules"
    np.testing.assert_allclose(factor[cut].numpy(), BASE.discount, atol=ATOL)
    np.testing.assert_allclose(factor[cut - 1].numpy(), BASE.discount**2, atol=ATOL)
    assert ((followed[cut] - seen[cut]).abs() == 1).all()
    assert torch.equal(followed[cut - 1], followed[cut])
    legal = met["legal"][: len(practice.met)].reshape(HORIZON + 3, 3, 3)
    assert torch.equal(legal[cut, :, 0], followed[cut] > 0), "the mask is of the place that was led to"


def test_steps_after_the_end_of_an_episode_are_not_kept() -> None:
    practice = Practice(Table(), BASE, "test")
    right = torch.zeros(PLACES, 3, 1)
    right[:, 1] = 1.0
    practice.network.table.data = right
    practice.act(row_world(3), HORIZON, 0.0, 0)
    assert len(practice.met) == practice.env_steps == 3 + 2 + 1
    assert practice.met.columns["return"][: len(practice.met)].sum() == 3
    best = lambda senses, first: {"go": practice.network(practice.network.read(senses)).mean(-1).argmax(-1).numpy()}  # noqa: E731
    assert returns(best, row_world(3)).tolist() == [1, 1, 1]


@pytest.mark.parametrize("priority", [None, 0.6])
def test_practice_resumes_exactly_with_its_buffer(priority: float | None) -> None:
    settings = replace(BASE, priority=priority, capacity=200, n_step=2)  # so small that old places are overwritten
    straight, _ = taught(settings, 12)
    before, made = taught(settings, 7)
    resumed = Practice(Table(), settings, "test")
    resumed.network.load_state_dict(before.network.state_dict())
    resumed.load_state_dict(before.state_dict())
    again = torch.optim.SGD(resumed.network.parameters(), lr=4.0)
    again.load_state_dict(made.state_dict())
    go_on(resumed, again, range(7, 12))
    assert torch.equal(resumed.network.table, straight.network.table)
    assert len(resumed.met) == len(straight.met) == 200
    for name, x in straight.met.columns.items():
        assert torch.equal(resumed.met.columns[name], x), name


def test_transitions_overwrite_the_oldest_and_are_drawn_by_their_errors() -> None:
    met = Transitions(4, priority=1.0)
    met.add({"x": torch.arange(3)})
    met.add({"x": torch.arange(3, 6)})
    assert sorted(met.columns["x"].tolist()) == [2, 3, 4, 5]
    places = np.arange(4)
    met.tell(places, np.where(met.columns["x"].numpy() == 3, 1.0, 0.0))
    rows, _, weight = met.draw(50, np.random.default_rng(0), beta=0.0)
    assert (rows["x"] == 3).all()
    assert (weight == 1).all()
    with pytest.raises(ValueError, match="at most 4 rows"):
        met.add({"x": torch.arange(5)})
    with pytest.raises(ValueError, match=r"Expected the columns \['x'\]; got \['y'\]"):
        met.add({"y": torch.arange(1)})


def test_legal_in_gives_no_mask_for_a_world_without_rules() -> None:
    assert legal_in(object(), "go") is None
    legal = legal_in(row_world(3), "go")
    assert legal is not None
    assert legal[:, 0].tolist() == [False, True, True]


@pytest.mark.parametrize("options", [{}, {"quantiles": 5}, {"dueling": True}, {"dueling": True, "quantiles": 3}])
def test_action_values_head_keeps_the_laws(options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    head = ActionValuesHead(Inlet(16, 3), 4, **options)
    check_head(head, torch.randn(3, 2, 4))
    tapped = Tapped(torch.randn(5, 3, 16), torch.ones(5, 3, dtype=torch.bool))
    output = head(tapped)
    assert output.quantiles.shape == (5, 4, options.get("quantiles", 1))
    assert torch.equal(output.mode(), output.values.argmax(-1))
    assert torch.equal(output.with_numbers(-output.numbers()).mode(), output.values.argmin(-1))


def test_dueling_head_has_the_state_value_as_mean_of_its_values() -> None:
    """Wang et al. 2016, eq. 9: the mean of all action values is the value of the state."""
    torch.manual_seed(0)
    head = ActionValuesHead(Inlet(16, 1), 4, dueling=True)
    tapped = Tapped(torch.randn(5, 1, 16), torch.ones(5, 1, dtype=torch.bool))
    torch.testing.assert_close(head(tapped).values.mean(-1), head.read(tapped)[:, 0])


def test_action_values_need_two_actions() -> None:
    with pytest.raises(ConfigError, match="2 actions or more"):
        ActionValuesHead(Inlet(16, 1), 1)
    assert float(ActionValues(torch.tensor([[[1.0, 3.0], [5.0, 5.0]]])).loss(torch.tensor([[2.0, 5.0]]))) == 0.5
