"""The tests as on another machine: only the tests' own seeds are shifted, and only sums of other shapes differ."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional

from devmind.seeding import numpy_rng, torch_generator
from devmind.testing.laws import ATOL
from tests import elsewhere


def drawn() -> list[float]:
    """A number of each kind of generator that tests make."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        plain = float(torch.rand(()))
    own = float(torch.rand((), generator=torch.Generator().manual_seed(3)))
    return [float(np.random.default_rng(3).random()), plain, own]


def test_seeds_of_the_tests_are_shifted_and_those_of_devmind_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("Generator", torch._C.Generator), ("manual_seed", torch.random.manual_seed)):
        monkeypatch.setattr(torch, name, value)
    monkeypatch.setattr(np.random, "default_rng", lambda seed: np.random.Generator(np.random.PCG64(seed)))
    before, ours = drawn(), [float(numpy_rng("a").random()), float(torch.rand((), generator=torch_generator("a")))]
    elsewhere.shift_seeds(monkeypatch, 5)
    assert not set(before) & set(drawn())
    assert np.random.default_rng(3).random() == np.random.Generator(np.random.PCG64(8)).random()
    assert torch.Generator().manual_seed(3).initial_seed() == 8
    assert [float(numpy_rng("a").random()), float(torch.rand((), generator=torch_generator("a")))] == ours


def test_sums_of_other_shapes_round_otherwise_and_those_of_the_same_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """As MKL's kernels for a handful of rows do on processors with AVX-512."""
    generator = torch.Generator().manual_seed(0)
    x, weight = (torch.randn(size, generator=generator) for size in ((4, 96), (32, 96)))
    heads, pictures, kernel = (
        torch.randn(size, generator=generator) for size in ((2, 4, 6, 32), (2, 16, 8, 8), (8, 16, 3, 3))
    )
    seen = torch.ones(6, 6, dtype=torch.bool).tril()

    def results() -> list[torch.Tensor]:
        return [
            functional.linear(x, weight),
            x @ weight.T,
            functional.scaled_dot_product_attention(heads, heads, heads, attn_mask=seen),
            functional.conv2d(pictures, kernel),
        ]

    usual = results()
    elsewhere.sum_by_shape(monkeypatch)
    for one, same, other in zip(results(), results(), usual, strict=True):
        assert torch.equal(one, same)
        assert not torch.equal(one, other)
        torch.testing.assert_close(one, other, atol=5 * ATOL, rtol=0)
    rows = [functional.linear(x[:n], weight)[0] for n in (2, 3, 4)]
    assert not torch.equal(rows[0], rows[1])
    torch.testing.assert_close(rows[0], rows[2], atol=5 * ATOL, rtol=0)


@pytest.mark.parametrize(("name", "value"), [(elsewhere.SEEDS, "many"), (elsewhere.KERNELS, "fast")])
def test_other_values_are_refused_by_a_sentence(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(pytest.UsageError, match=f"'{value}'"):
        elsewhere.patched(monkeypatch)
