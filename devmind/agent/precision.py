"""Weights rounded to half precision, as agents are stored; lessons in float64, all of it (`precision: 64-true`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

DOUBLE = "64-true"
VIEWS = {
    "__get__",
    "__set__",
    "__getitem__",
    "view",
    "view_as",
    "reshape",
    "flatten",
    "unflatten",
    "squeeze",
    "unsqueeze",
    "expand",
    "expand_as",
    "permute",
    "transpose",
    "movedim",
    "t",
    "narrow",
    "select",
    "unfold",
    "detach",
    "chunk",
    "split",
    "unbind",
    "diagonal",
}
"""Functions that give a tensor itself or a view of it: a copy in float64 would take what is later written into it."""


def fits_half(tensor: Tensor) -> bool:
    """Whether a tensor may be stored in float16: it is of real numbers, and none is too large."""
    return tensor.is_floating_point() and bool(torch.isfinite(tensor.detach().half()).all())


def round_to_half(module: nn.Module) -> None:
    """Round all that a module stores to the nearest float16, in place and in its own type; what does not fit stays."""
    for value in module.state_dict().values():
        if fits_half(value):
            value.copy_(value.half())


class InDouble(TorchFunctionMode):
    """Computes in float64 what is written for float32, as autocast does for shorter numbers; in this thread only.

    Float32 tensors among the arguments of a function, and requests for float32, become float64. Views, and what a
    function writes in place, keep their type.
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call `func`, or `double` for `float`, with doubles."""
        name, kwargs = getattr(func, "__name__", ""), kwargs or {}
        if name in VIEWS:
            return func(*args, **kwargs)
        if func is Tensor.float:
            func = Tensor.double
        in_place = name == "__setitem__" or (name.endswith("_") and not name.endswith("__"))
        rest = [_doubled(value) for value in args[in_place:]]
        return func(*args[:in_place], *rest, **{key: _doubled(value) for key, value in kwargs.items()})


def _doubled(value: Any) -> Any:
    """`value` with float64 for float32, in lists, tuples and dicts too."""
    if isinstance(value, Tensor):
        return value.double() if value.dtype == torch.float32 else value
    if value is torch.float32:
        return torch.float64
    if type(value) in (list, tuple):
        return type(value)(_doubled(one) for one in value)
    return {key: _doubled(one) for key, one in value.items()} if type(value) is dict else value
