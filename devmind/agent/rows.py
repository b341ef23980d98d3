"""Row operations (take, put, empty) on what B agents carry: tensors [B, ...], and dicts of these.

Zeros mean that nothing is carried. If a row is put among rows that lack one of its names, the others get zeros there.

A part that carries something (a head, the tracker) declares it in a `carry_spec`. In a tick it gets its `Carry` and
gives the next one: `forward(tapped, carry) -> (output, carry)`. It keeps nothing itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from devmind.errors import DevmindError

Index = Tensor | Sequence[int] | int
Carry = Mapping[str, Tensor]
"""What a part carries from one Moment to the next, tensors [B, ...] by name."""


@dataclass(frozen=True)
class Leaf:
    """The form of one tensor of a carry, [B, *shape]."""

    shape: tuple[int, ...] = ()
    dtype: torch.dtype = torch.float32


CarrySpec = Mapping[str, Leaf]


def initial_carry(spec: CarrySpec, n: int, device: torch.device | None = None) -> dict[str, Tensor]:
    """The carry of `n` rows whose episodes begin: zeros."""
    return {name: torch.zeros(n, *leaf.shape, dtype=leaf.dtype, device=device) for name, leaf in spec.items()}


def as_index(index: Index, n: int, device: torch.device) -> Tensor:
    """`index` as int64 [k]; it may be one row, several rows in any order, or a bool mask [n].

    Raises:
        DevmindError: there is no such row among the `n`, or a mask has another length.
    """
    found = torch.as_tensor(index, device=device)
    if found.dtype == torch.bool:
        if found.shape != (n,):
            raise DevmindError(f"A mask over {n} rows must be bool [{n}]; got {list(found.shape)}.")
        return found.nonzero().squeeze(-1)
    found = found.reshape(-1).long()
    if len(found) and not -n <= int(found.min()) <= int(found.max()) < n:
        raise DevmindError(f"There are {n} rows, numbered 0 to {n - 1}; got {found.tolist()}.")
    return found % n if n else found


def take(rows: Any, index: Tensor) -> Any:
    """The rows `index` int64 [k] of `rows`, as copies."""
    if isinstance(rows, Tensor):
        return rows[index.to(rows.device)]
    return {name: take(value, index) for name, value in rows.items()}


def where_rows(where: Tensor, new: Any, old: Any) -> Any:
    """The rows of `new` where `where`, bool [B], and those of `old` elsewhere."""
    if bool(where.all()):
        return new
    index = where.nonzero().squeeze(-1)
    return put_rows(old, index, take(new, index), len(where))


def put_rows(rows: Any, index: Tensor, other: Any, n: int) -> Any:
    """`rows` (`n` of them) with the rows `index` replaced by those of `other`; None: nothing is carried.

    Raises:
        DevmindError: shapes of the two differ.
    """
    like = other if rows is None else rows
    if like is None:
        return None
    if isinstance(like, Mapping):
        own, new_rows = rows or {}, other or {}
        return {
            name: put_rows(own.get(name), index, new_rows.get(name), n) for name in [*own, *(new_rows.keys() - own)]
        }
    result = like.new_zeros(n, *like.shape[1:]) if rows is None else rows.clone()
    index = index.to(result.device)
    if other is None:
        result[index] = 0
    elif other.shape[1:] != result.shape[1:]:
        raise DevmindError(
            f"Rows that carry {list(other.shape[1:])} cannot be put among rows of {list(result.shape[1:])}: "
            "they must come from agents whose senses have the same sizes."
        )
    else:
        result[index] = other.to(result.dtype)
    return result


def empty(rows: Any, where: Tensor) -> Any:
    """`rows` with zeros in the rows `where`, bool [B]."""
    if isinstance(rows, Tensor):
        return rows.masked_fill(where.to(rows.device).reshape(-1, *[1] * (rows.ndim - 1)), 0)
    return {name: empty(value, where) for name, value in rows.items()}
