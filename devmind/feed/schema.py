"""(Moment, Action) as Arrow record batches: plain columns with checked types, no pickle.

A row is one tick of one environment: `env`, `time_s`, `reward`, `first`, `last`, `terminal`, and a column for each
`sense.NAME` and `effector.NAME`. Arrays are Arrow's canonical fixed-shape tensors, texts are strings, and null is what
was not sensed or not done. The schema's metadata names the world. Any language that has Arrow can make such a batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from devmind.bounds import damage, is_name
from devmind.errors import FeedError, MomentError
from devmind.moment import STANDARD_SENSES, Action, Moment, Sense, check_sense

PLAIN: Mapping[str, Any] = {
    "env": pa.int32(),
    "time_s": pa.float64(),
    "reward": pa.float64(),
    "first": pa.bool_(),
    "last": pa.bool_(),
    "terminal": pa.bool_(),
}
"""Columns that every batch has, in this order, without nulls."""
SENSE, EFFECTOR, WORLD = "sense.", "effector.", b"devmind.world"
MOST_COLUMNS = 64
MOST_VALUES = 1 << 24
"""Values of one array."""


class Row(NamedTuple):
    """One tick of the environment with number `env`: what it sensed, and what was done then."""

    env: int
    moment: Moment
    action: Action


class Layout:
    """The columns of one producer's batches. It grows when a sense or an effector comes for the first time, so that a
    stream changes its schema seldom.

    Args:
        world: the name of the world that the Moments come from.
    """

    def __init__(self, world: str = "") -> None:
        self.world, self.types = world, dict[str, Any]()

    def add(self, row: Row) -> None:
        """Take in the columns of a row.

        Raises:
            FeedError: an array has another shape or dtype than before, or cannot be sent.
        """
        for prefix, values in ((SENSE, row.moment.senses), (EFFECTOR, row.action.effectors)):
            for name, value in values.items():
                kind, known = _type_of(prefix + name, value), self.types.get(prefix + name)
                if known is not None and known != kind:
                    raise FeedError(
                        f"'{prefix}{name}' was {_words(known)} before and is {_words(kind)} now. The arrays of a feed "
                        "keep their shape and dtype; pad them, or push them as another producer."
                    )
                self.types[prefix + name] = kind

    def batch(self, rows: Sequence[Row]) -> Any:
        """The rows, all of which were added, as a record batch."""
        moments = [row.moment for row in rows]
        arrays = [pa.array([row.env for row in rows], PLAIN["env"])]
        arrays += [pa.array([getattr(one, name) for one in moments], kind) for name, kind in [*PLAIN.items()][1:]]
        names = [*PLAIN, *sorted(self.types)]
        for name in names[len(PLAIN) :]:
            prefix, _, key = name.partition(".")
            given: Iterable[Mapping[str, Sense]] = (
                (one.senses for one in moments) if prefix + "." == SENSE else (row.action.effectors for row in rows)
            )
            arrays.append(_column(self.types[name], [values.get(key) for values in given]))
        fields = [pa.field(name, array.type) for name, array in zip(names, arrays, strict=True)]
        return pa.record_batch(arrays, schema=pa.schema(fields, {WORLD: self.world.encode()}))


def _type_of(name: str, value: Any) -> Any:
    if isinstance(value, str):
        return pa.string()
    array = np.asarray(value)
    if array.dtype.kind not in "biuf" or not 0 < array.size <= MOST_VALUES:
        raise FeedError(
            f"'{name}' is {array.dtype} {list(array.shape)}; a feed takes text, and numbers in an array of 1 to "
            f"{MOST_VALUES:,} values."
        )
    return pa.fixed_shape_tensor(pa.from_numpy_dtype(array.dtype), array.shape)


def _column(kind: Any, values: Sequence[Any]) -> Any:
    """One column; None is null."""
    if kind == pa.string():
        return pa.array(values, kind)
    filled = np.zeros((len(values), *kind.shape), kind.value_type.to_pandas_dtype())
    absent = np.array([value is None for value in values], bool)
    for at in np.flatnonzero(~absent).tolist():
        filled[at] = values[at]
    return tensor_column(filled, absent)


def tensor_column(values: np.ndarray, absent: np.ndarray | None = None) -> Any:
    """Arrays [R, ...] as a column of tensors, null in the rows that are `absent`."""
    kind = pa.fixed_shape_tensor(pa.from_numpy_dtype(values.dtype), values.shape[1:])
    flat, mask = pa.array(np.ascontiguousarray(values).ravel()), None if absent is None else pa.array(absent)
    stored = pa.FixedSizeListArray.from_arrays(flat, int(np.prod(kind.shape)), mask=mask)
    return pa.ExtensionArray.from_storage(kind, stored)


def _words(kind: Any) -> str:
    return "text" if kind == pa.string() else f"{kind.value_type} {list(kind.shape)}"


def check_schema(schema: Any) -> None:
    """Raise FeedError unless a batch of this schema holds Moments and Actions."""
    with damage(FeedError, "A schema of the feed is damaged ({})."):
        names = list(schema.names)
    if names[: len(PLAIN)] != list(PLAIN) or len(names) > MOST_COLUMNS or len(set(names)) < len(names):
        raise FeedError(
            f"A feed's columns begin with {', '.join(PLAIN)} and are at most {MOST_COLUMNS}, each with a name of its "
            f"own; got {', '.join(name[:40] for name in names[:8]) or 'none'}."
        )
    for field in schema:
        if (wanted := PLAIN.get(field.name)) is not None:
            if field.type != wanted:
                raise FeedError(f"The column '{field.name}' is {wanted}; got {field.type}.")
            continue
        prefix, _, name = field.name.partition(".")
        if prefix + "." not in (SENSE, EFFECTOR) or not is_name(name):
            raise FeedError(f"A column is named {SENSE}NAME or {EFFECTOR}NAME; got '{field.name[:80]}'.")
        kind = field.type
        if kind == pa.string() and prefix + "." == SENSE:
            if name in STANDARD_SENSES and STANDARD_SENSES[name].dtype != "str":
                raise FeedError(f"Sense '{name}' is {STANDARD_SENSES[name].meaning}; got text.")
            continue
        if not isinstance(kind, pa.FixedShapeTensorType) or kind.permutation or not _is_numeric(kind.value_type):
            raise FeedError(f"'{field.name}' must be a fixed-shape tensor of numbers; got {str(kind)[:80]}.")
        if not 0 < (size := int(np.prod(kind.shape, dtype=float))) <= MOST_VALUES or min(kind.shape, default=1) < 1:
            raise FeedError(f"'{field.name}' has {size:,} values; 1 to {MOST_VALUES:,} are expected.")
        if prefix + "." == SENSE:
            try:
                check_sense(name, np.broadcast_to(np.zeros((), kind.value_type.to_pandas_dtype()), kind.shape))
            except MomentError as error:
                raise FeedError(str(error)) from None


def _is_numeric(kind: Any) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))


def check_batch(batch: Any) -> None:
    """Raise FeedError unless a batch of a checked schema is whole: every offset in its bounds, no nulls in PLAIN."""
    with damage(FeedError, "A batch of the feed is damaged ({})."):
        batch.validate(full=True)
    if any(batch.column(name).null_count for name in PLAIN):
        raise FeedError(f"The columns {', '.join(PLAIN)} have no nulls; got some.")


def world_of(batch: Any) -> str:
    """The name of the world that a batch's Moments come from; "" if its producer has not said."""
    return str((batch.schema.metadata or {}).get(WORLD, b"").decode("utf-8", "replace"))


def numbers(batch: Any, name: str) -> np.ndarray:
    """A column as an array [R, ...]; a tensor's null is zeros, so see `present` as well."""
    column = batch.column(name)
    if not isinstance(column.type, pa.FixedShapeTensorType):
        return np.asarray(column.to_numpy(zero_copy_only=False))
    stored, size = column.storage, int(np.prod(column.type.shape))
    # The values of a slice begin at its offset; `flatten` would leave out what null rows hold.
    values = stored.values.slice(stored.offset * size, len(stored) * size).to_numpy(zero_copy_only=False)
    return np.asarray(values.reshape(len(stored), *column.type.shape))


def present(batch: Any, name: str) -> np.ndarray:
    """Which rows have this column, bool [R]."""
    return np.asarray(batch.column(name).is_valid().to_numpy(zero_copy_only=False))


def encode(batch: Any) -> Any:
    """A batch with its schema as a buffer (Arrow's IPC stream of one batch)."""
    size = pa.ipc.get_record_batch_size(batch) + batch.schema.serialize().size + 1024
    buffer = pa.allocate_buffer(size)  # a stream that grows would copy what it holds again and again
    with pa.FixedSizeBufferWriter(buffer) as sink:
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        return buffer.slice(0, sink.tell())


def decode(content: Any) -> Any:
    """The checked batch of a buffer that `encode` made.

    Raises:
        FeedError: it is damaged, or holds something else.
    """
    with damage(FeedError, "A batch of the feed is damaged ({})."):
        stream = pa.ipc.open_stream(pa.py_buffer(content))
        check_schema(stream.schema)
        batch = stream.read_next_batch()
    check_batch(batch)
    return batch
