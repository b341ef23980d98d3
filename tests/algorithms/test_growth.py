"""Groups and blocks that are born and die: gradients, no jumps, moments, memory, and sentences for what cannot be."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from devmind.algorithms import growth
from devmind.algorithms.growth import Evolution, Layer, Pool
from devmind.errors import ConfigError

SIZE, INPUTS, OUTPUTS, ROWS = 8, 6, 5, 24
TURN = Evolution(births=2, deaths=1, reads=6, writes=5, prunes=(1, 1), regrows=(1, 1))


def data(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    """An input and what the layer should say."""
    generator = torch.Generator().manual_seed(1)
    return (
        torch.randn(ROWS, INPUTS * SIZE, generator=generator, dtype=dtype),
        torch.randn(ROWS, OUTPUTS * SIZE, generator=generator, dtype=dtype),
    )


class Run:
    """A layer that learns `data`, evolving every four steps."""

    def __init__(self, kinds: int = 2, dtype: torch.dtype = torch.float64, capacity: int = 400) -> None:
        like = torch.zeros(0, dtype=dtype)
        self.pool, self.layer = Pool.empty(capacity, SIZE, like), Layer.empty(INPUTS, OUTPUTS, kinds, like)
        self.x, self.target = data(dtype)
        self.step, self.jumps = 0, list[float]()

    def blocks(self) -> Tensor:
        return self.pool.values[self.layer.places()]

    def loss(self) -> float:
        return float(functional.mse_loss(growth.forward(self.layer, self.blocks(), self.x), self.target))

    def update(self, plan: Evolution = TURN) -> None:
        blocks = self.blocks()
        error = growth.forward(self.layer, blocks, self.x) - self.target
        gradient, _, probe = growth.gradients(self.layer, blocks, self.x, 2 * error / error.numel())
        growth.apply(self.pool, self.layer, gradient, 1e-2, left=4 - self.step % 4)
        self.step += 1
        if self.step % 4 == 0:
            before = self.loss()
            growth.evolve(self.layer, self.pool, probe, plan, torch.Generator().manual_seed(self.step))
            self.jumps.append(abs(self.loss() - before))


def grown(steps: int, kinds: int = 2, dtype: torch.dtype = torch.float64) -> Run:
    run = Run(kinds, dtype)
    for _ in range(steps):
        run.update()
    return run


@pytest.mark.parametrize("kinds", [1, 2])
@pytest.mark.parametrize("steps", [4, 28])  # full, and with most blocks gone
def test_gradients_equal_those_of_dense_matrices_with_zeros(kinds: int, steps: int) -> None:
    run = grown(steps, kinds)
    layer, blocks = run.layer, run.blocks().requires_grad_()
    assert layer.is_full == (steps == 4)
    x = run.x.clone().requires_grad_()
    into, out = growth.dense_of(layer, blocks)
    said = [functional.linear(x, matrix) for matrix in into]
    h = functional.silu(said[0]) * (said[1] if kinds == 2 else 1)
    dense = functional.linear(h, out)
    d = run.target
    wanted = torch.autograd.grad(dense, (blocks, x), d)
    ours = growth.forward(layer, blocks, x)
    torch.testing.assert_close(ours, dense, atol=1e-12, rtol=1e-12)
    for found in (torch.autograd.grad(ours, (blocks, x), d), growth.gradients(layer, blocks.detach(), x.detach(), d)):
        for one, other in zip(found[:2], wanted, strict=True):
            torch.testing.assert_close(one, other, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_neither_births_nor_deaths_change_the_loss(dtype: torch.dtype) -> None:
    run = grown(40, dtype=dtype)
    assert len(run.jumps) == 10
    assert run.layer.groups > 8
    assert run.layer.sources.shape[1] < INPUTS
    assert max(run.jumps) < (1e-6 if dtype == torch.float32 else 1e-14)
    assert run.loss() < 0.8 * float(run.target.square().mean())


def test_operators_keep_the_laws_of_torch() -> None:
    generator = torch.Generator().manual_seed(0)

    def drawn(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64, requires_grad=True)

    ends = torch.stack([torch.randperm(5, generator=generator)[:3].sort().values for _ in range(9)])
    for operator, given in (
        (growth.gather_matmul, (drawn(5, 4, 7), drawn(9, 8, 12), ends)),
        (growth.scatter_matmul, (drawn(9, 4, 7), drawn(9, 12, 4), ends, 5)),
    ):
        torch.library.opcheck(operator, given)
        assert torch.autograd.gradcheck(lambda *a, op=operator, g=given: op(*a, *g[2:]), given[:2])
    torch.library.opcheck(growth.gather_outer, (drawn(9, 8, 7).detach(), drawn(5, 4, 7).detach(), ends))


def test_new_neurons_get_the_largest_gradient() -> None:
    generator = torch.Generator().manual_seed(0)
    bypass = torch.randn(40, 48, generator=generator, dtype=torch.float64) @ torch.diag(
        torch.logspace(0, -3, 48, dtype=torch.float64)
    )
    found = growth.top_directions(bypass, SIZE, generator)
    best = torch.linalg.svdvals(bypass)[:SIZE].square().sum()
    torch.testing.assert_close(found.T @ found, torch.eye(SIZE, dtype=torch.float64), atol=1e-10, rtol=0)
    assert (found.T @ bypass).square().sum() > 0.97 * best
    random = torch.linalg.qr(torch.randn(40, SIZE, generator=generator, dtype=torch.float64)).Q
    assert (random.T @ bypass).square().sum() < 0.5 * best


def test_as_many_blocks_regrow_as_were_decided_when_others_began_to_fade() -> None:
    run = grown(12)
    reads, writes = run.layer.sources.shape[1], run.layer.targets.shape[1]
    for _ in range(4):
        run.update(Evolution())
    assert run.layer.sources.shape[1] == reads - 1
    assert run.layer.targets.shape[1] == writes - 1
    assert not run.layer.fading_into.numel()
    assert all(len(set(row)) == len(row) == reads - 1 for row in run.layer.sources.tolist())
    for _ in range(8):
        run.update(Evolution(regrows=(1, 1)))
    assert run.layer.sources.shape[1] == reads - 1
    assert run.layer.regrows == (1, 1)


def test_what_dies_frees_its_places_and_moments_move_along() -> None:
    run = grown(30)
    pool, layer = run.pool, run.layer
    assert pool.used == layer.blocks
    free = pool.free[: pool.n_free]
    assert sorted([*free.tolist(), *layer.places().tolist()]) == list(range(len(pool.values)))
    held = [kept[layer.places()].clone() for kept in (pool.values, pool.first, pool.second, pool.age)]
    before, said = pool.values.untyped_storage().nbytes(), growth.forward(layer, run.blocks(), run.x)
    freed = pool.compact([layer], spare=3)
    assert pool.values.untyped_storage().nbytes() == (layer.blocks + 3) * SIZE**2 * 8 < before
    assert freed == (400 - layer.blocks - 3) * pool.block_bytes
    assert pool.fragmentation() == 0
    for old, kept in zip(held, (pool.values, pool.first, pool.second, pool.age), strict=True):
        assert torch.equal(old, kept[layer.places()])
    assert torch.equal(said, growth.forward(layer, run.blocks(), run.x))
    taken = pool.take(3)
    assert not pool.first[taken].any()
    assert set(taken.tolist()).isdisjoint(layer.places().tolist())


def test_those_that_live_on_keep_their_moments_and_new_ones_have_none() -> None:
    run = grown(19)
    pool, layer = run.pool, run.layer
    before = deepcopy(pool)
    was, dying = set(layer.places().tolist()), set(layer.out[layer.fading].flatten().tolist())
    error = growth.forward(layer, run.blocks(), run.x) - run.target
    probe = growth.gradients(layer, run.blocks(), run.x, 2 * error / error.numel())[2]
    growth.evolve(layer, pool, probe, TURN, torch.Generator().manual_seed(0))
    now = set(layer.places().tolist())
    assert dying
    both = torch.tensor(sorted((was & now) - dying))
    for name in ("values", "first", "second", "age"):
        # A place may be freed and taken again, by a block that begins at zero.
        kept = getattr(pool, name)[both].flatten(1) if name != "age" else getattr(pool, name)[both][:, None]
        old = getattr(before, name)[both].flatten(1) if name != "age" else getattr(before, name)[both][:, None]
        again = (pool.age[both] == 0)[:, None]
        assert torch.equal(kept.masked_fill(again, 0), old.masked_fill(again, 0))
    newborn = layer.places()[pool.age[layer.places()] == 0]
    assert len(newborn) >= 2 * (2 * layer.sources.shape[1] + layer.targets.shape[1])
    assert not pool.second[newborn].any()


def test_a_gradient_that_is_not_finite_changes_nothing_in_its_block() -> None:
    run = grown(12)
    before = deepcopy(run.pool)
    gradient = torch.ones_like(run.blocks())
    gradient[3, 0, 0] = torch.nan
    places = run.layer.places()
    assert growth.apply(run.pool, run.layer, gradient, 1e-2) == 1
    for name in ("values", "first", "second", "age"):
        old, new = getattr(before, name)[places], getattr(run.pool, name)[places]
        assert torch.equal(old[3], new[3])
        assert not torch.equal(old[4], new[4])
    assert torch.isfinite(run.layer.useful).all()


def test_a_step_in_one_pass_is_the_step_of_other_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    runs, ways = [grown(14), grown(14)], (growth._step_fused, growth._step)
    generator = torch.Generator().manual_seed(0)
    for _ in range(6):
        gradient = torch.randn(runs[0].blocks().shape, generator=generator, dtype=torch.float64)
        gradient[7, 1, 2] = torch.inf
        for run, step in zip(runs, ways, strict=True):
            monkeypatch.setattr(growth, "_step_fused", step)
            assert growth.apply(run.pool, run.layer, gradient, 1e-2, young=12, young_rate=3.0, decay=0.1) == 1
    for name in ("values", "first", "second", "age"):
        torch.testing.assert_close(*(getattr(run.pool, name) for run in runs), atol=1e-12, rtol=1e-9)
    assert runs[0].pool.age.unique().numel() > 3


def test_the_rate_of_a_block_grows_as_its_neurons_read_less() -> None:
    like = torch.zeros(0, dtype=torch.float64)
    for reads, writes in ((6, 5), (3, 1)):
        layer, pool = Layer.empty(INPUTS, OUTPUTS, 1, like), Pool.empty(40, SIZE, like)
        growth._join(layer, pool, growth.born(data()[1].T @ data()[0], 3, SIZE, 1, reads, writes, torch.Generator()))
        before = pool.values[layer.places()]
        growth.apply(pool, layer, torch.ones_like(before), 1e-3)  # the first step of Adam is the rate
        into, out = (before - pool.values[layer.places()]).split((layer.into.numel(), layer.out.numel()))
        torch.testing.assert_close(into, torch.full_like(into, 1e-3 * 6 / reads), atol=1e-9, rtol=0)
        torch.testing.assert_close(out, torch.full_like(out, 1e-3 * 5 / writes), atol=1e-9, rtol=0)


def test_a_layer_in_which_everything_has_died_says_nothing_and_comes_back() -> None:
    run = Run()
    for births in (0, 2):
        for _ in range(4):
            run.update(Evolution(births=births, reads=6, writes=5))
    for _ in range(12):
        run.update(Evolution(deaths=9))
    assert run.layer.groups == 0
    assert run.pool.used == 0
    assert not growth.forward(run.layer, run.blocks(), run.x).any()
    for _ in range(4):
        run.update(Evolution(births=1, reads=6, writes=5))
    assert run.layer.groups == 1


def test_growth_beyond_the_pool_is_refused_and_nothing_is_lost() -> None:
    run = Run(capacity=60)
    for _ in range(4):
        run.update(Evolution(births=3, reads=6, writes=5))
    for _ in range(3):
        run.update()
    blocks, places = run.blocks(), run.layer.places()
    with pytest.raises(ConfigError, match="34 blocks are to be born and the pool of 60 has 9 free"):
        run.update(Evolution(births=2, reads=6, writes=5))
    assert run.layer.groups == 3
    assert torch.equal(run.layer.places(), places)
    assert torch.isfinite(blocks).all()
    with pytest.raises(ConfigError, match=r"Groups of 16 neurons do not divide the width of 344: take one of 1, 2, 4"):
        growth.check_size(16, width=344)
