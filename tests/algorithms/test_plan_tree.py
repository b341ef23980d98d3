"""Monte Carlo Tree Diffusion against all plans that its actions can make, and its laws."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from torch import Tensor

from devmind.algorithms.diffusion import HybridDenoiser, HybridPipeline, MaskedTokens, make_scheduler
from devmind.algorithms.diffusion.schedules import noised
from devmind.algorithms.diffusion.tree import Grown, Noise, Shape, grown, named
from devmind.errors import ConfigError

HORIZON, WORDS, LENGTH, ROWS = 4, 3, 4, 2
SMALL = Shape(simulations=200, word_levels=2, levels=2, guidances=(1.0, 2.0), branches=2)


@pytest.fixture
def in_float64() -> Iterator[None]:
    """New tensors and weights are float64."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture
def pipeline() -> HybridPipeline:
    torch.manual_seed(0)
    form = {"width": 16, "layers": 1, "attention_heads": 2, "memory": 16, "condition": 3}
    denoiser = HybridDenoiser(2, HORIZON, WORDS, LENGTH, **form).eval()
    for parameter in denoiser.parameters():
        parameter.data.mul_(3)  # so that different noise makes different plans
    return HybridPipeline(denoiser, make_scheduler("ddim", 10), MaskedTokens(WORDS))


def told(shape: Shape, rows: int = ROWS) -> tuple[Tensor, Tensor, Noise]:
    """Condition [B, 1, 3], presence, and the noise of the tree."""
    form = {"length": LENGTH, "words": WORDS, "horizon": HORIZON, "channels": 2}
    noise = named(shape, form, torch.Generator().manual_seed(1), torch.device("cpu"))
    condition = torch.randn(rows, 1, 3, generator=torch.Generator().manual_seed(2))
    return condition, torch.ones(rows, 1, dtype=torch.bool), noise


def right(clean: Tensor, symbols: Tensor, row: Tensor) -> Tensor:
    """Score of plans: higher if they end far to the right, and for each first symbol."""
    return clean[:, -1, 0] + (symbols == 0).sum(-1)


def search(pipeline: HybridPipeline, shape: Shape = SMALL, rows: slice = slice(None), **options) -> Grown:
    condition, present, noise = told(shape)
    return grown(pipeline, condition[rows], present[rows], noise, right, shape, **options)


@torch.no_grad()
def carried_out(pipeline: HybridPipeline, row: int, actions: tuple[int, ...]) -> float:
    """The score of the plan that these actions make, one a level: a second implementation without a tree."""
    condition, present, noise = told(SMALL)
    network, c, p = pipeline.denoiser, condition[[row]], present[[row]]
    given = torch.zeros(1, HORIZON, dtype=torch.bool)

    def ask(x: Tensor, level: float, symbols: Tensor, guidance: float) -> tuple[Tensor, Tensor]:
        masked = (symbols == WORDS).float().mean(-1)
        with_, without = (network(x, given, torch.tensor([level]), symbols, masked, c, here) for here in (p, ~p))
        return tuple(b + guidance * (a - b) for a, b in zip(with_, without, strict=True))  # type: ignore[return-value]

    symbols, x, level, guidance = torch.full((1, LENGTH), WORDS), noise.points[0, [0]], 1.0, 1.0
    for depth, action in enumerate(actions):
        if depth < 2:
            _, logits = ask(x, 1.0, symbols, guidance)
            pipeline.token_scheduler.set_timesteps(2, (0, 0))
            symbols = pipeline.token_scheduler.step(
                logits + noise.luck[depth, action % 2], 1 - depth, symbols
            ).prev_sample
            x = noise.points[0, [action % 2]]
        else:
            clean, _ = ask(x, level, symbols, guidance)
            level = 0.5
            x = noised(pipeline.scheduler, clean, noise.points[1, [action % 2]], torch.tensor([4]))[0]
        guidance = (1.0, 2.0)[action // 2]
    clean, _ = ask(x, level, symbols, guidance)
    return float(right(clean, symbols, torch.tensor([row]))[0])


def test_enough_simulations_find_every_possible_plan(pipeline: HybridPipeline) -> None:
    found = search(pipeline)
    ends = found.depth == 3
    for row in range(ROWS):
        every = [carried_out(pipeline, row, actions) for actions in product(range(4), repeat=3)]
        assert np.ptp(every) > 0.1
        met = found.worth[row][ends[row] & found.worth[row].isfinite()]
        assert len(met) == len(every)
        np.testing.assert_allclose(np.sort(met.numpy()), np.sort(every), rtol=1e-3, atol=1e-3)


def test_a_plan_far_better_than_the_root_does_not_end_the_search(pipeline: HybridPipeline) -> None:
    """As where the root leads nowhere: such a worth was rounded to 1, which proved that no plan could be better."""
    far = search(pipeline, replace(SMALL, scale=0.01))
    assert torch.equal(far.worth.isfinite().sum(-1), search(pipeline).worth.isfinite().sum(-1))


def test_few_simulations_prefer_better_plans(pipeline: HybridPipeline) -> None:
    """Compared with a uniform search of as many simulations: there are 81 + 27 + 9 + 3 plans, of which 40 are
    tried."""
    form = {"simulations": 40, "word_levels": 2, "levels": 3, "guidances": (1.0,), "branches": 3}
    best = []
    for explore in (0.5, 1000.0):
        shape = Shape(**form, explore=explore)  # type: ignore[arg-type]
        condition, present, noise = told(shape, rows=32)
        best.append(grown(pipeline, condition, present, noise, right, shape).worth.amax(-1))
    assert (best[0] - best[1]).mean() > 0.1


@pytest.mark.usefixtures("in_float64")
def test_row_is_searched_equally_alone_and_in_a_batch_and_calls_are_counted(pipeline: HybridPipeline) -> None:
    shape = Shape(simulations=12, word_levels=2, levels=2, guidances=(1.0,))
    together, alone = search(pipeline, shape), search(pipeline, shape, slice(1, 2))
    # A matrix product rounds differently in a batch of another size, and these large weights amplify that some 100
    # times: in float64 what is left is far below any difference between plans.
    assert together.trajectory.dtype == torch.float64
    torch.testing.assert_close(together.trajectory[1:], alone.trajectory, rtol=0, atol=1e-10)
    assert torch.equal(together.symbols[1:], alone.symbols)
    # The root and nodes with some of their symbols take two calls, all others one.
    there = alone.worth.isfinite()
    assert alone.calls == int(torch.where(alone.depth < 2, 2, 1)[there].sum())


def test_given_points_and_words_are_held(pipeline: HybridPipeline) -> None:
    place = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    found = search(pipeline, Shape(simulations=20), given={-1: place}, words={1: torch.tensor([2, 0])})
    there = found.worth.isfinite()
    for row in range(ROWS):
        plans, symbols = found.trajectory[row][there[row]], found.symbols[row][there[row]]
        torch.testing.assert_close(plans[:, -1], place[row].expand(len(plans), -1))
        assert (symbols[:, 1] == [2, 0][row]).all()
        assert (symbols < WORDS).all()


def test_search_works_without_symbols_and_from_an_earlier_plan(pipeline: HybridPipeline) -> None:
    alone = search(pipeline, Shape(simulations=6, levels=2, guidances=(1.0,)), with_symbols=False)
    assert (alone.symbols == WORDS).all()
    assert alone.depth.max() == 1
    start = torch.zeros(ROWS, HORIZON, 2)
    near = search(pipeline, Shape(simulations=6, levels=2), start=start, begin=0.1)
    far = search(pipeline, Shape(simulations=6, levels=2))
    assert not torch.equal(near.trajectory[:, 0], far.trajectory[:, 0])


def test_tree_without_branches_or_levels_is_refused(pipeline: HybridPipeline) -> None:
    with pytest.raises(ConfigError, match="at least one simulation"):
        Shape(branches=0)
    one = Shape(simulations=2, levels=1)
    with pytest.raises(ConfigError, match="needs two levels of noise at least"):
        search(pipeline, one, with_symbols=False)
    assert search(pipeline, one).depth.max() > 0, "symbols have levels of their own"
