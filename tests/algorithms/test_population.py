"""Populations: a member alone by plain torch, chunks, resuming, settings of each, members set aside, bad input."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from devmind.algorithms import population as many
from devmind.errors import ConfigError

N, BATCH = 50, 12


def data(sizes: tuple[int, ...], loss: str, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(N, sizes[0], generator=generator, dtype=dtype) * 2 / sizes[0] ** 0.5
    if loss == "mse":
        return x, torch.randn(N, sizes[-1], generator=generator, dtype=dtype)
    return x, torch.randint(sizes[-1], (N,), generator=generator)


def small(sizes: tuple[int, ...] = (7, 5, 3), members: int = 6, **more: object) -> many.Population:
    settings = {"rates": torch.linspace(0.02, 0.3, members), "decays": torch.linspace(0.0, 0.05, members)}
    return many.make(sizes, torch.arange(members) * 11 + 3, **{**settings, **more})


def alone(
    population: many.Population, member: int, x: Tensor, wanted: Tensor, steps: int
) -> tuple[Tensor, list[float]]:
    """A plain loop of torch on one member: its numbers in the population's order, and its losses."""
    net = many.module(population.weights[member], population.sizes, population.activation)
    rate, decay = float(population.rates[member]), float(population.decays[member])
    optimizer = torch.optim.SGD(net.parameters(), lr=rate, weight_decay=decay)
    loss_of = nn.MSELoss() if population.loss == "mse" else nn.CrossEntropyLoss()
    losses = []
    rows = many.own_rows(population.seeds[member : member + 1], population.steps, steps, BATCH, N)[0].long()
    for row in rows:
        loss = loss_of(net(x[row]), wanted[row])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    parts = [p.detach() for linear in net[::2] for p in (linear.weight.T.flatten(), linear.bias)]
    return torch.cat(parts), losses


@pytest.mark.parametrize("sizes", [(7, 5, 3), (33, 20, 17, 18), (140, 3), (9, 32, 10)])
@pytest.mark.parametrize(
    ("activation", "loss"), [("relu", "cross-entropy"), ("tanh", "cross-entropy"), ("relu", "mse"), ("gelu", "mse")]
)
@pytest.mark.parametrize(("dtype", "atol"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
def test_a_member_is_as_if_trained_alone(
    sizes: tuple[int, ...], activation: str, loss: str, dtype: torch.dtype, atol: float
) -> None:
    begun = small(sizes, activation=activation, loss=loss, dtype=dtype)
    x, wanted = data(sizes, loss, dtype)
    taught = copy.deepcopy(begun)
    losses = many.train(taught, x, wanted, 100, BATCH)
    for member in (0, 3, 5):
        numbers, by_step = alone(begun, member, x, wanted, 100)
        torch.testing.assert_close(taught.weights[member], numbers, atol=atol, rtol=0)
        torch.testing.assert_close(losses[member], torch.tensor(by_step, dtype=torch.float64), atol=10 * atol, rtol=0)
    assert not torch.allclose(taught.weights, begun.weights, atol=1e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_bits_are_equal_however_members_are_cut_into_chunks_and_steps_into_calls(dtype: torch.dtype) -> None:
    x, wanted = data((7, 5, 3), "cross-entropy", dtype)
    begun = small(members=7, dtype=dtype)
    whole, cut, stopped = (copy.deepcopy(begun) for _ in range(3))
    many.train(whole, x, wanted, 20, BATCH)
    many.train(cut, x, wanted, 20, BATCH, most_bytes=12_000)
    assert len(list(many.chunks(begun, BATCH, 20, 12_000))) > 1
    many.train(stopped, x, wanted, 7, BATCH)
    resumed = small(members=7, dtype=dtype, rates=9.0)
    resumed.load_state_dict(copy.deepcopy(stopped.state_dict()))
    many.train(resumed, x, wanted, 13, BATCH)
    for other in (cut, resumed):
        assert torch.equal(whole.weights, other.weights)
        assert other.steps == 20


def test_a_member_does_not_depend_on_the_others() -> None:
    x, wanted = data((7, 5, 3), "cross-entropy", torch.float32)
    begun = small(members=5)
    few = begun.part(slice(2, 3))
    few = copy.deepcopy(few)
    many.train(begun, x, wanted, 15, BATCH)
    many.train(few, x, wanted, 15, BATCH)
    assert torch.equal(begun.weights[2], few.weights[0])


def test_each_member_goes_through_all_examples_in_an_order_of_its_own() -> None:
    rows = many.own_rows(torch.tensor([4, 5]), 0, 8, 12, N)
    for member in rows:
        first, second = member[:4].flatten().tolist(), member[4:].flatten().tolist()
        assert len(set(first)) == 48
        assert first != second
    assert not torch.equal(rows[0], rows[1])
    assert torch.equal(many.own_rows(torch.tensor([5]), 3, 4, 12, N)[0], rows[1, 3:7])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_member_that_diverges_is_set_aside_and_the_others_go_on(dtype: torch.dtype) -> None:
    x, wanted = data((7, 5, 3), "mse", dtype)
    rates = torch.tensor([0.1, 1e30, 0.1], dtype=torch.float64)
    begun = small(members=3, rates=rates, loss="mse", dtype=dtype)
    calm = small(members=3, rates=0.1, decays=begun.decays, loss="mse", dtype=dtype)
    losses = many.train(begun, x, wanted, 30, BATCH)
    many.train(calm, x, wanted, 30, BATCH)
    assert begun.aside.tolist() == [False, True, False]
    assert torch.equal(begun.weights[[0, 2]], calm.weights[[0, 2]])
    assert many.ranked(begun, losses[:, -1])[-1] == 1
    assert many.exploit(begun, losses[:, -1], seed=0, share=0.34) == 1
    assert begun.weights.isfinite().all()
    assert not begun.aside.any()


def test_exploit_copies_the_best_over_the_worst_with_other_settings() -> None:
    begun = small(members=10)
    before = copy.deepcopy(begun)
    losses = torch.arange(10.0)
    assert many.exploit(begun, losses, seed=3) == 2
    for worst in (8, 9):
        (source,) = [good for good in (0, 1) if torch.equal(begun.weights[worst], before.weights[good])]
        ratio = float(begun.rates[worst] / before.rates[source])
        assert min(abs(ratio - 1.25), abs(ratio - 0.8)) < 1e-6
    assert torch.equal(begun.weights[:8], before.weights[:8])
    assert torch.equal(begun.seeds, before.seeds)


def test_an_ensemble_is_one_wider_network_that_answers_with_the_mean() -> None:
    population = small((7, 5, 3), members=6)
    x, _ = data((7, 5, 3), "cross-entropy", torch.float32)
    chosen = torch.tensor([4, 1, 3])
    shape = population.sizes, population.activation
    answers = many.answers(population.weights, *shape, x)
    torch.testing.assert_close(many.ensemble(population.weights[chosen], *shape)(x), answers[chosen].mean(0))
    torch.testing.assert_close(many.module(population.weights[4], *shape)(x), answers[4])
    classes = torch.arange(len(x)) % 3
    torch.testing.assert_close(
        many.accuracies(population, x, classes)[4], (answers[4].argmax(1) == classes).double().mean()
    )


def test_bad_input_is_refused_with_a_sentence() -> None:
    with pytest.raises(ConfigError, match=r"need 4,\d\d\d,\d\d\d,\d\d\d,\d\d\d,\d\d\d bytes, and [\d,]+ may be used"):
        many.make((10**6, 10**6, 10), torch.zeros(1000, dtype=torch.int64))
    population = small()
    x, wanted = data((7, 5, 3), "cross-entropy", torch.float32)
    for bad_x, bad_wanted, said in (
        (x[:, :6], wanted, r"\[N, 7\] numbers"),
        (x.double(), wanted, "float64"),
        (x, wanted[:9], r"int64 \[50\]; got \[9\]"),
        (x, wanted + 1, "Classes are 0 to 2; got 1 to 3"),
    ):
        with pytest.raises(ConfigError, match=said):
            many.train(population, bad_x, bad_wanted, 1, BATCH)
    with pytest.raises(ConfigError, match="1 to 50 rows"):
        many.train(population, x, wanted, 1, 51)
    with pytest.raises(ConfigError, match="smaller batch"):
        many.train(population, x, wanted, 1, BATCH, most_bytes=10)
    with pytest.raises(ConfigError, match="activation"):
        small(activation="sine")
    with pytest.raises(ConfigError, match="members and sizes"):
        population.load_state_dict(small(members=5).state_dict())
