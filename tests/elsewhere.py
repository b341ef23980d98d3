"""The tests as on another machine: other seeds of their own data, and sums in another order for every shape.

Both are off unless an environment variable asks for them; `make attack` runs the suite so.

- `DEVMIND_TEST_SEEDS=N` adds N to every seed that a file of the tests gives to a generator of NumPy or torch. Seeds of
  devmind itself stay as they are: they belong to what is tested.
- `DEVMIND_TEST_KERNELS=shapes` splits the sums of matrix products, convolutions and attention at a place that depends
  on the number of rows. The same shapes give the same bits, as everywhere; other shapes round otherwise. Libraries do
  the same where they choose a kernel by the shape (MKL with AVX-512 does for a handful of rows, with AVX2 it does not),
  so a test that takes two shapes for bit-equal passes on one machine and fails on another.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SEEDS, KERNELS = "DEVMIND_TEST_SEEDS", "DEVMIND_TEST_KERNELS"
SHAPES = "shapes"
HERE = str(Path(__file__).parent) + os.sep


def patched(patch: pytest.MonkeyPatch) -> None:
    """Apply what the environment asks for."""
    shift, kernels = os.environ.get(SEEDS, "0"), os.environ.get(KERNELS, "")
    if not shift.isdigit() or kernels not in ("", SHAPES):
        raise pytest.UsageError(
            f"{SEEDS} is a whole number and {KERNELS} is '{SHAPES}' or nothing; got '{shift}' and '{kernels}'."
        )
    if int(shift):
        shift_seeds(patch, int(shift))
    if kernels:
        sum_by_shape(patch)


def shift_seeds(patch: pytest.MonkeyPatch, shift: int) -> None:
    """Add `shift` to the seeds that files of the tests give to generators."""
    import numpy as np
    import torch

    class Generator(torch.Generator):
        """A generator whose seed is shifted if a test gives it."""

        def manual_seed(self, seed: int) -> torch.Generator:
            return super().manual_seed(seed + shift * _is_from_a_test())

    def shifted(function: Callable[..., Any]) -> Callable[..., Any]:
        def seeded(*args: Any, **kwargs: Any) -> Any:
            if args and isinstance(args[0], int) and _is_from_a_test():
                args = (args[0] + shift, *args[1:])
            return function(*args, **kwargs)

        return seeded

    patch.setattr(torch, "Generator", Generator)
    patch.setattr(torch, "manual_seed", shifted(torch.manual_seed))
    patch.setattr(np.random, "default_rng", shifted(np.random.default_rng))


def _is_from_a_test() -> bool:
    """Whether the caller of the patched function is a file of the tests."""
    return sys._getframe(2).f_code.co_filename.startswith(HERE)


def sum_by_shape(patch: pytest.MonkeyPatch) -> None:
    """Split sums at a place that depends on the number of rows."""
    import torch
    from torch import Tensor
    from torch.nn import functional

    matmul, linear, attend = torch.Tensor.__matmul__, functional.linear, functional.scaled_dot_product_attention

    def cut(x: Tensor, dim: int) -> int:
        """Where to split the sum over this dimension; 0: nowhere."""
        size = x.shape[dim]
        rows = x.numel() // size if size else 0
        return (0, size // 2, size // 3)[rows % 3] if x.is_floating_point() else 0

    def product(x: Tensor, y: Tensor) -> Tensor:
        k = cut(x, -1) if isinstance(y, Tensor) and min(x.ndim, y.ndim) > 1 else 0
        return matmul(x[..., :k], y[..., :k, :]) + matmul(x[..., k:], y[..., k:, :]) if k else matmul(x, y)

    def layer(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        k = cut(x, -1) if weight.ndim == 2 else 0
        return (
            linear(x[..., :k], weight[:, :k]) + linear(x[..., k:], weight[:, k:], bias)
            if k
            else linear(x, weight, bias)
        )

    def convolution(function: Callable[..., Tensor], dims: int) -> Callable[..., Tensor]:
        def split(x: Tensor, weight: Tensor, bias: Tensor | None = None, *args: Any, **kwargs: Any) -> Tensor:
            k = cut(x, -dims - 1) if weight.shape[1] == x.shape[-dims - 1] else 0
            if not k:
                return function(x, weight, bias, *args, **kwargs)
            left, right = x.narrow(-dims - 1, 0, k), x.narrow(-dims - 1, k, x.shape[-dims - 1] - k)
            return function(left, weight[:, :k], None, *args, **kwargs) + function(
                right, weight[:, k:], bias, *args, **kwargs
            )

        return split

    def attention(
        query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, *args: Any, **kwargs: Any
    ):
        plain = (
            not args and not (kwargs.keys() - {"scale", "dropout_p", "is_causal"}) and key.shape[1] == query.shape[1]
        )
        if not plain or kwargs.get("dropout_p") or kwargs.get("is_causal") or query.shape[-2] % 2:
            return attend(query, key, value, attn_mask, *args, **kwargs)
        scale = kwargs.get("scale")
        scores = matmul(query, key.mT) * (query.shape[-1] ** -0.5 if scale is None else scale)
        if attn_mask is not None:
            scores = scores.masked_fill(~attn_mask, -torch.inf) if attn_mask.dtype == torch.bool else scores + attn_mask
        return matmul(scores.softmax(-1), value)

    patch.setattr(torch.Tensor, "__matmul__", product)
    patch.setattr(torch, "matmul", product)
    patch.setattr(functional, "linear", layer)
    patch.setattr(functional, "scaled_dot_product_attention", attention)
    for name, dims in (("conv1d", 1), ("conv2d", 2)):
        patch.setattr(functional, name, convolution(getattr(functional, name), dims))
