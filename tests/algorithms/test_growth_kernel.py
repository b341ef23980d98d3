"""The Triton kernels of growing layers against torch, and when they are taken.

Without a card they run in Triton's interpreter; `pip install triton` lets these tests run.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from devmind import algorithms
from devmind.algorithms import growth
from devmind.algorithms.growth import Evolution, Layer, Pool

KERNEL = "devmind.algorithms.growth_kernel"
NO_TRITON = "Triton comes with builds of torch for a GPU, and is not here; its interpreter needs no card."


def forget() -> None:
    """How Triton runs is decided when the kernels are loaded: let that be anew."""
    sys.modules.pop(KERNEL, None)
    vars(algorithms).pop("growth_kernel", None)
    growth._load_kernels.cache_clear()


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    forget()
    yield
    forget()


def interpret(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton", reason=NO_TRITON)
    monkeypatch.setenv("TRITON_INTERPRET", "1")


def operators(size: int, kinds: int, columns: int) -> list[tuple[Any, tuple[Any, ...]]]:
    """Each operator with its arguments, of which the weights are read across and the columns are not next to each
    other, as a layer gives them."""
    generator = torch.Generator().manual_seed(size + columns)

    def numbers(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    x = numbers(columns, 5 * size).T.reshape(5, size, columns)
    weights, h = numbers(7, kinds * size, 3 * size), numbers(7, kinds * size, columns)
    ends = torch.stack([torch.randperm(5, generator=generator)[:3].sort().values for _ in range(7)])
    return [
        (growth.gather_matmul, (x, weights, ends)),
        (growth.scatter_matmul, (h, weights.mT, ends, 6)),  # nobody writes to the last group
        (growth.gather_outer, (h, x, ends)),
    ]


SHAPES = [pytest.param(16, 1, 1, marks=pytest.mark.slow), (16, 2, 130), (32, 1, 64), (32, 2, 50)]
"""Size, kinds and columns; with one column also torch's laws of an operator."""


@pytest.mark.parametrize(("size", "kinds", "columns"), SHAPES)
def test_kernels_agree_with_torch(size: int, kinds: int, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    interpret(monkeypatch)
    calls = operators(size, kinds, columns)
    with monkeypatch.context() as on_torch:
        on_torch.delenv("TRITON_INTERPRET")
        wanted = [operator(*given) for operator, given in calls]
    assert growth.kernels_for(torch.zeros(0), size) is not None
    for (operator, given), truth in zip(calls, wanted, strict=True):
        torch.testing.assert_close(operator(*given), truth, atol=3e-6 * float(truth.abs().max()), rtol=0)
        if columns == 1:
            torch.library.opcheck(operator, given)


@pytest.mark.parametrize(("groups", "reads", "writes"), [(0, 0, 0), (6, 2, 2), (6, 4, 3)])
def test_a_layer_on_kernels_is_the_layer_on_torch(
    groups: int, reads: int, writes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    like, generator = torch.zeros(0), torch.Generator().manual_seed(0)
    layer, pool = Layer.empty(4, 3, 2, like), Pool.empty(groups * (2 * reads + writes), 16, like)
    x, d = torch.randn(40, 64, generator=generator), torch.randn(40, 48, generator=generator)
    plan = Evolution(births=groups, reads=reads, writes=writes)
    growth.evolve(layer, pool, growth.gradients(layer, pool.values[:0], x, d)[2], plan, generator)
    assert pool.n_free == 0  # the pool is full
    blocks = torch.randn(layer.blocks, 16, 16, generator=generator, requires_grad=True)

    def passed() -> list[Tensor]:
        leaf = x.clone().requires_grad_()
        said = growth.forward(layer, blocks, leaf)
        back = torch.autograd.grad(said, (blocks, leaf), d) if groups else ()
        return [said, *back, *growth.gradients(layer, blocks.detach(), x, d)[:2]]

    wanted = passed()
    interpret(monkeypatch)
    for ours, truth in zip(passed(), wanted, strict=True):
        torch.testing.assert_close(ours, truth, atol=3e-6 * max(truth.abs().flatten().tolist(), default=0.0), rtol=0)


@pytest.mark.slow
def test_kernels_compile_for_cards_of_both_makers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton", reason=NO_TRITON)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource, compile

    kernels: Any = importlib.import_module(KERNEL)
    number, numbers = "i32", "*fp32"
    signature = {"found": numbers, "weights": numbers, "x": numbers, "entries": ("*i64",) * 3, "strides": (number,) * 5}
    outer = {"found": numbers, "d": numbers, "x": numbers, "sources": "*i64", "strides": (number,) * 6, "reads": number}
    for kernel, given, sides in ((kernels._multiply, signature, "DEPTH"), (kernels._outer, outer, "SIZE")):
        constants = {"ROWS": 64, sides: 32, "PRECISION": "ieee"}
        source = ASTSource(
            kernel,
            {**given, "n": number} | dict.fromkeys(constants, "constexpr"),
            {(kernel.arg_names.index(name),): value for name, value in constants.items()},
        )
        for target, kind in ((GPUTarget("cuda", 80, 32), "cubin"), (GPUTarget("hip", "gfx942", 64), "hsaco")):
            made = compile(source, target=target)
            assert len(made.asm[kind]) > 1000
            assert made.metadata.shared <= 65_536  # what a card of ROCm has for a program


def test_kernels_are_taken_on_cards_for_blocks_that_they_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, taken = operators(16, 2, 9), []
    fake: Any = ModuleType(KERNEL)
    fake.gather_matmul = lambda x, weights, sources: taken.append("gather") or x.new_ones(7, 32, 9)
    monkeypatch.setitem(sys.modules, KERNEL, fake)
    monkeypatch.setitem(vars(algorithms), "growth_kernel", fake)
    card: Any = SimpleNamespace(is_cuda=True, dtype=torch.float32)  # of ROCm too
    for side in (16, 32, 64):
        assert growth.kernels_for(card, side, 32) is fake
    assert growth.kernels_for(card, 16, 48) is None
    assert growth.kernels_for(card, 8) is None
    assert growth.kernels_for(SimpleNamespace(is_cuda=True, dtype=torch.float64), 16) is None  # type: ignore[arg-type]
    for device in ("cpu", "meta"):
        assert growth.kernels_for(torch.zeros(0, device=device), 16) is None
    gather, given = calls[0]
    plain = gather(*given)
    assert not taken
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert gather(*given).eq(1).all()
    assert taken == ["gather"]
    assert gather(given[0], given[1][:0], given[2][:0]).shape == (0, 32, 9)
    torch.testing.assert_close(gather(*(one.double() for one in given[:2]), given[2]).float(), plain)
    assert taken == ["gather"]


def test_torch_multiplies_where_triton_is_missing_and_this_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = operators(16, 1, 9)
    wanted = [operator(*given) for operator, given in calls]
    monkeypatch.setitem(sys.modules, "triton", None)
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(2):
            for (operator, given), truth in zip(calls, wanted, strict=True):
                assert torch.equal(operator(*given), truth)
    assert len(said) == 1
    assert "Install the triton that belongs to this torch" in str(said[0].message)
