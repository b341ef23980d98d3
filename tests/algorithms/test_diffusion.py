"""Hybrid diffusion learns both halves of a known problem, completes given parts, and reloads unchanged."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from diffusers import ConfigMixin, ModelMixin
from diffusers.configuration_utils import register_to_config
from torch import Tensor
from torch.nn import functional as F

from devmind.algorithms.diffusion import SCHEDULERS, HybridDenoiser, HybridPipeline, MaskedTokens, make_scheduler
from devmind.algorithms.diffusion.schedules import add_noise, gumbel, noised_to_teach
from devmind.errors import CheckpointError, ConfigError

HORIZON, LENGTH = 8, 4


def denoiser(length: int = LENGTH) -> HybridDenoiser:
    torch.manual_seed(0)
    return HybridDenoiser(
        channels=1,
        horizon=HORIZON,
        words=2,
        length=length,
        condition=4,
        width=32,
        layers=2,
        attention_heads=2,
        pieces=4,
    )


def ways(side: Tensor) -> tuple[Tensor, Tensor]:
    """A bow towards the side that each of the symbols names: two modes, distinguished by the symbols."""
    bow = torch.linspace(0, torch.pi, HORIZON).sin()[None, :, None]
    return bow * (2.0 * side[:, None, None] - 1.0), side.long()[:, None].expand(-1, LENGTH)


def taught(scheduler: str = "ddim", length: int = LENGTH, steps: int = 400) -> HybridPipeline:
    """Taught like a planner: with much noise more often than with little, one point given as often as not, and at a
    rate that falls to zero. A draw is decided at its beginning, when all is noise but the given point.
    """
    model, noising = denoiser(length), make_scheduler(scheduler, 50)
    optimizer, generator = torch.optim.AdamW(model.parameters(), 3e-3), torch.Generator().manual_seed(1)
    rate = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=steps, pct_start=0.1)
    for _ in range(steps):
        clean, symbols = ways(torch.randint(2, (64,), generator=generator).float())
        alone, share = torch.rand(64, generator=generator) < 0.2, torch.rand(64, generator=generator)
        x, level = noised_to_teach(noising, clean, alone, generator)
        hidden = torch.rand(64, LENGTH, generator=generator) < share[:, None]
        place = torch.randint(HORIZON, (64,), generator=generator)
        given = (F.one_hot(place, HORIZON) > 0) & (torch.rand(64, 1, generator=generator) < 0.6)
        told, logits = model(
            torch.where(given[..., None], clean, x), given, level, symbols.masked_fill(hidden, 2)[:, :length], share,
            torch.zeros(64, 1, 4), torch.zeros(64, 1, dtype=torch.bool),
        )  # fmt: skip
        loss = (told - clean).square().mean()
        if length:
            loss = loss + (F.cross_entropy(logits.transpose(1, 2), symbols, reduction="none") * hidden).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        rate.step()
    return HybridPipeline(model.eval(), noising, MaskedTokens(2))


class Exact(ModelMixin, ConfigMixin):
    """The denoiser of `ways` in closed form: the probability of each side by all that is known of a plan."""

    @register_to_config
    def __init__(self, horizon: int = HORIZON, channels: int = 1, words: int = 2, length: int = LENGTH) -> None:
        super().__init__()

    def hint(self, condition: Tensor, present: Tensor) -> Tensor:
        return condition

    def forward(self, x: Tensor, given: Tensor, level: Tensor, symbols: Tensor, *rest: Tensor, hint: Tensor):
        bow, _ = ways(torch.ones(1))
        kept = make_scheduler("ddim", 50).alphas_cumprod[(50 * level).round().long() - 1][:, None]
        noisy, clear = 2 * kept.sqrt() / (1 - kept), 2 / 0.1**2  # a given point is the bow's up to a deviation of 0.1
        odds = ((torch.where(given, clear, noisy) * bow[..., 0] * x[..., 0]).sum(1) + _signs(symbols))[:, None]
        logits = torch.stack((F.logsigmoid(-odds), F.logsigmoid(odds)), -1)
        return (2 * odds.sigmoid()[..., None] - 1) * bow, logits.expand(-1, LENGTH, -1)


def _signs(symbols: Tensor) -> Tensor:
    """Log odds [B] of side 1 by symbols [B, L], each of which is wrong once in e^40; the mask says nothing."""
    return torch.tensor([-40.0, 40.0, 0.0])[symbols].sum(-1)


def drawn(pipeline: HybridPipeline, n: int = 64, **more):
    noise = torch.randn(n, HORIZON, 1, generator=torch.Generator().manual_seed(2))
    return pipeline(torch.zeros(n, 1, 4), torch.zeros(n, 1, dtype=torch.bool), noise, **more)


@pytest.fixture(scope="module")
def pipeline() -> HybridPipeline:
    return taught()


def agreeing(plans) -> float:
    """Share of draws near the bow of the side that all their symbols name."""
    wanted, _ = ways(plans.symbols[:, 0].float())
    near = (plans.trajectory - wanted).abs().mean((1, 2)) < 0.25
    return float((near & (plans.symbols == plans.symbols[:, :1]).all(1)).float().mean())


def test_pipeline_draws_both_modes_and_the_halves_agree(pipeline: HybridPipeline) -> None:
    uniform = torch.rand(64, LENGTH, 2, generator=torch.Generator().manual_seed(3))
    plans = drawn(pipeline, luck=-(-uniform.log()).log())
    assert 0.2 < plans.symbols[:, 0].float().mean() < 0.8
    assert agreeing(plans) > 0.9
    assert agreeing(drawn(HybridPipeline(denoiser(), make_scheduler("ddim", 50), MaskedTokens(2)))) < 0.2


@pytest.mark.parametrize("name", ["ddim", "dpm-solver++", "unipc"])
def test_with_the_exact_denoiser_every_draw_agrees_and_follows_its_given_part(name: str) -> None:
    pipe = HybridPipeline(Exact(), make_scheduler(name, 50), MaskedTokens(2))
    free = drawn(pipe, 256, luck=gumbel(torch.rand(256, LENGTH, 2, generator=torch.Generator().manual_seed(3))))
    assert agreeing(free) == 1
    # Five standard deviations of a fair coin thrown 256 times.
    assert float(free.symbols[:, 0].float().mean()) == pytest.approx(0.5, abs=0.16)
    side = torch.arange(256) % 2
    for options in ({"words": {1: side}}, {"given": {-4: 0.9 * (2.0 * side[:, None] - 1)}}):
        plans = drawn(pipe, 256, **options)
        assert (plans.symbols == side[:, None]).all()
        assert agreeing(plans) == 1


@pytest.mark.parametrize("word", [0, 1])
def test_given_part_of_one_half_decides_the_other(pipeline: HybridPipeline, word: int) -> None:
    plans = drawn(pipeline, words={1: torch.full((64,), word)})
    assert (plans.symbols == word).all()
    assert ((plans.trajectory[:, 4, 0] > 0) == bool(word)).float().mean() > 0.95
    held = torch.full((64, 1), 0.9 if word else -0.9)
    plans = drawn(pipeline, given={-4: held})
    assert torch.equal(plans.trajectory[:, -4], held)
    assert (plans.symbols == word).float().mean() > 0.95


@pytest.mark.parametrize("name", ["dpm-solver++", "unipc"])
def test_solvers_draw_with_the_same_denoiser(pipeline: HybridPipeline, name: str) -> None:
    other = HybridPipeline(pipeline.denoiser, make_scheduler(name, 50), MaskedTokens(2))
    for steps in (3, 10):
        assert agreeing(drawn(other, steps=steps)) > 0.85


@pytest.mark.slow
def test_flow_matching_and_trajectories_without_symbols_work() -> None:
    assert agreeing(drawn(taught("flow"))) > 0.85
    plans = drawn(taught(length=0))
    sides = [(plans.trajectory - ways(torch.full((64,), side))[0]).abs().mean((1, 2)) for side in (0.0, 1.0)]
    assert (torch.minimum(*sides) < 0.25).float().mean() > 0.85
    assert plans.symbols.shape == (64, 0)


def test_symbols_can_be_left_out_and_both_halves_are_cut_into_equal_pieces() -> None:
    pipe = HybridPipeline(denoiser().eval(), make_scheduler("ddim", 50), MaskedTokens(2))
    plans = drawn(pipe, with_symbols=False, words={1: torch.zeros(64, dtype=torch.int64)})
    assert plans.symbols[0].tolist() == [2, 0, 2, 2]
    with pytest.raises(ConfigError, match="8 points and 3 symbols cannot be cut into 2"):
        HybridDenoiser(horizon=8, length=3, pieces=2)
    cut = HybridDenoiser(horizon=8, length=4, pieces=4, width=16, layers=1, attention_heads=2, condition=3, memory=8)
    given, symbols = torch.zeros(2, 8, dtype=torch.bool), torch.full((2, 4), 5)
    read = torch.zeros(2, 1, 3), torch.ones(2, 1, dtype=torch.bool)
    told, logits = cut(torch.zeros(2, 8, 2), given, torch.ones(2), symbols, torch.ones(2), *read)
    assert (told.shape, logits.shape) == ((2, 8, 2), (2, 4, 5))


@pytest.mark.parametrize("start", [False, True])
def test_no_noise_is_left_if_the_steps_do_not_divide_the_levels(start: bool) -> None:
    pipe = HybridPipeline(denoiser().eval(), make_scheduler("ddim", 50), MaskedTokens(2))
    held, begun = {0: torch.full((64, 1), 0.5)}, {"start": ways(torch.ones(64))[0], "begin": 0.5} if start else {}
    predicted: list[Tensor] = []
    for steps in range(2, 12):
        plans = drawn(pipe, given=held, steps=steps, watch=lambda *step: predicted.append(step[2]), **begun)
        assert torch.equal(plans.trajectory, predicted[-1]), f"{steps} steps"
        assert (plans.trajectory[:, 0] == 0.5).all()


def test_plan_to_start_from_is_kept(pipeline: HybridPipeline) -> None:
    side = torch.arange(64) % 2
    plans = drawn(pipeline, start=ways(side.float())[0], begin=0.3, steps=10)
    assert ((plans.trajectory[:, 4, 0] > 0) == side.bool()).float().mean() > 0.95


@pytest.mark.parametrize("name", SCHEDULERS)
def test_rows_are_independent_and_a_saved_pipeline_draws_bit_equal_plans(name: str, tmp_path) -> None:
    pipe = HybridPipeline(denoiser().eval(), make_scheduler(name, 50), MaskedTokens(2))
    plans = drawn(pipe, 6, steps=4)
    pipe.save_pretrained(tmp_path)
    again = drawn(HybridPipeline.from_pretrained(tmp_path), 6, steps=4)
    assert torch.equal(plans.trajectory, again.trajectory)
    assert torch.equal(plans.symbols, again.symbols)
    noise = torch.randn(6, HORIZON, 1, generator=torch.Generator().manual_seed(2))[3:4]
    alone = pipe(torch.zeros(1, 1, 4), torch.zeros(1, 1, dtype=torch.bool), noise, steps=4)
    torch.testing.assert_close(alone.trajectory, plans.trajectory[3:4], atol=5e-5, rtol=0)


def test_impossible_draws_raise_clear_errors(tmp_path) -> None:
    pipe = HybridPipeline(denoiser(), make_scheduler("ddim", 50), MaskedTokens(2))
    with pytest.raises(ConfigError, match="1 to 50 steps"):
        drawn(pipe, 2, steps=51)
    with pytest.raises(ConfigError, match="the point 8 cannot be given"):
        drawn(pipe, 2, given={8: torch.zeros(2, 1)})
    with pytest.raises(ConfigError, match="plans of 8 points"):
        pipe(torch.zeros(1, 1, 4), torch.zeros(1, 1, dtype=torch.bool), torch.zeros(1, 9, 1))
    with pytest.raises(ConfigError, match="drawn before the trajectory"):
        drawn(pipe, 2, choose=lambda log_prob: log_prob.argmax(-1, keepdim=True))
    with pytest.raises(ConfigError, match="did you mean 'ddim'"):
        make_scheduler("ddimm")
    with pytest.raises(CheckpointError, match="no hybrid pipeline"):
        HybridPipeline.from_pretrained(tmp_path)


def test_masked_tokens_keep_the_most_confident_first() -> None:
    scheduler = MaskedTokens(2)
    scheduler.set_timesteps(2, (0, 0))
    logits = torch.tensor([[[4.0, 0.0], [0.0, 1.0], [0.0, 3.0]]])
    first = scheduler.step(logits, 1, torch.tensor([[2, 2, 2]])).prev_sample
    np.testing.assert_array_equal(first, [[0, 2, 2]])
    np.testing.assert_array_equal(scheduler.step(logits, 0, first).prev_sample, [[0, 1, 1]])


def test_gumbel_noise_draws_words_by_their_probabilities() -> None:
    logits = torch.tensor([0.0, 1.0, -1.0])
    luck = gumbel(torch.rand(20_000, 3, generator=torch.Generator().manual_seed(4)))
    often = torch.bincount((logits + luck).argmax(-1), minlength=3) / 20_000
    torch.testing.assert_close(often, logits.softmax(-1), atol=0.015, rtol=0)
    assert gumbel(torch.tensor([0.0, 1.0])).isfinite().all()


@pytest.mark.parametrize("name", SCHEDULERS)
def test_training_noise_is_pure_for_symbols_alone_and_mostly_high_elsewhere(name: str) -> None:
    alone = torch.arange(10_000) % 2 == 0
    clean = torch.full((10_000, 1), 100.0)
    x, level = noised_to_teach(make_scheduler(name, 50), clean, alone, torch.Generator().manual_seed(5))
    assert (level[alone] == 1).all()
    assert x[alone].abs().max() < 10
    assert float(level[~alone].mean()) == pytest.approx(2 / 3, abs=0.02)
    assert float(level[~alone].min()) < 0.1


@pytest.mark.parametrize("name", ["dpm-solver++", "unipc"])
@pytest.mark.parametrize("steps", [None, 3])
def test_solvers_add_the_noise_of_ddim_at_any_number_of_steps(name: str, steps: int | None) -> None:
    solver, clean = make_scheduler(name, 50), torch.ones(50, 1)
    if steps:
        solver.set_timesteps(steps)
    noise, index = torch.zeros(50, 1), torch.arange(50)
    both = [add_noise(one, clean, noise, index)[0] for one in (make_scheduler("ddim", 50), solver)]
    assert torch.equal(*both)


def test_memory_computed_once_equals_memory_of_each_step(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = HybridPipeline(denoiser().eval(), make_scheduler("ddim", 50), MaskedTokens(2))
    generator = torch.Generator().manual_seed(2)
    condition, noise = torch.randn(3, 1, 4, generator=generator), torch.randn(3, HORIZON, 1, generator=generator)
    present, asked = torch.ones(3, 1, dtype=torch.bool), []

    def draw():
        return pipeline(condition, present, noise, steps=4, words_first=2, guidance=1.5)

    once, plain = draw(), pipeline.denoiser.forward

    def anew(*args, hint, **kwargs):
        asked.append(hint)
        return plain(*args, **kwargs)

    monkeypatch.setattr(pipeline.denoiser, "forward", anew)
    again = draw()
    assert len(asked) == 2 * (2 + 4)
    assert torch.equal(once.trajectory, again.trajectory)
    assert torch.equal(once.symbols, again.symbols)
    # There is one memory with the condition and one without it.
    assert not torch.equal(asked[0], asked[1])
