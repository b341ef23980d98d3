"""Moments and Actions as record batches: all of them come back, and what is none is refused by a sentence."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devmind.errors import DevmindError, FeedError, MomentError
from devmind.feed.schema import PLAIN, Layout, Row, check_schema, decode, encode, tensor_column
from devmind.moment import Action, Moment
from tests.feed.conftest import row, rows_of

RNG = np.random.default_rng(0)
SENSES: dict[str, Any] = {
    "sight": RNG.integers(0, 256, (6, 5, 3), np.uint8),
    "sound": RNG.normal(size=(2, 160)).astype(np.float32),
    "words": "schön",
    "board": RNG.integers(-9, 9, (2, 3, 3)).astype(np.int8),
    "gps": RNG.normal(size=()),
    "half": RNG.normal(size=3).astype(np.float16),
    "door": np.array([True, False]),
}


def through(rows: list[Row], world: str = "") -> list[Row]:
    layout = Layout(world)
    for one in rows:
        layout.add(one)
    return rows_of(decode(encode(layout.batch(rows))))


def test_every_sense_comes_back_and_what_is_absent_stays_absent() -> None:
    rows = [
        Row(
            number,
            Moment(number / 10, {name: SENSES[name]}, 0.5, first=number == 0),
            Action({"push": np.int64(number)}),
        )
        for number, name in enumerate(SENSES)
    ]
    rows.append(Row(3, Moment(9.0, SENSES, last=True, terminal=True), Action()))
    for sent, came in zip(rows, through(rows), strict=True):
        assert (came.env, came.moment, came.action) == (sent.env, sent.moment, sent.action)


def test_rows_of_a_slice_are_its_own() -> None:
    layout = Layout()
    rows = [row(number) for number in range(10)]
    layout.add(rows[0])
    assert [one.moment for one in rows_of(layout.batch(rows).slice(4, 3))] == [one.moment for one in rows[4:7]]


def test_array_that_changes_its_shape_is_refused() -> None:
    layout = Layout()
    layout.add(row(0))
    with pytest.raises(FeedError, match=r"was float \[4\] before and is float \[5\] now.*pad them"):
        layout.add(Row(0, Moment(0.0, {"body": np.zeros(5, np.float32)}), Action()))
    for value in (np.zeros((2, 0)), np.array(["x"]), np.zeros(2, complex)):
        with pytest.raises(FeedError, match="a feed takes text, and numbers in an array of 1 to"):
            layout.add(Row(0, Moment(0.0), Action({"push": value})))


@pytest.mark.parametrize(
    ("name", "kind", "sentence"),
    [
        ("sense.body", pa.list_(pa.float32()), "must be a fixed-shape tensor"),
        ("sense.body", pa.fixed_shape_tensor(pa.float64(), (4,)), "Sense 'body' must be float32"),
        ("sense.sight", pa.string(), "got text"),
        ("sense.x", pa.fixed_shape_tensor(pa.uint8(), (1 << 15, 1 << 12)), "1 to 16,777,216 are expected"),
        ("effector.x", pa.string(), "must be a fixed-shape tensor"),
        ("smell", pa.float32(), "is named sense.NAME or effector.NAME"),
        ("sense.\x1b[2J", pa.string(), "is named sense.NAME"),
        ("env", pa.int32(), "each with a name of its own"),
    ],
)
def test_wrong_column_is_refused(name: str, kind: Any, sentence: str) -> None:
    plain = [pa.field(one, two) for one, two in PLAIN.items()]
    with pytest.raises(FeedError, match=sentence.replace("(", r"\(")):
        check_schema(pa.schema([*plain, pa.field(name, kind)]))


def test_columns_are_complete_and_of_their_type() -> None:
    with pytest.raises(FeedError, match="columns begin with env, time_s"):
        check_schema(pa.schema([("time_s", pa.float64())]))
    with pytest.raises(FeedError, match="'reward' is double; got float"):
        check_schema(pa.schema([pa.field(n, pa.float32() if n == "reward" else k) for n, k in PLAIN.items()]))


def test_null_in_a_plain_column_is_refused() -> None:
    arrays = [pa.array([None], kind) for kind in PLAIN.values()]
    with pytest.raises(FeedError, match="have no nulls"):
        decode(encode(pa.record_batch(arrays, names=list(PLAIN))))


def test_terminal_without_last_is_no_moment() -> None:
    values = [0, 0.0, 0.0, False, False, True]
    batch = pa.record_batch([pa.array([v], k) for v, k in zip(values, PLAIN.values(), strict=True)], names=list(PLAIN))
    with pytest.raises(MomentError, match="A terminal Moment must also be last"):
        rows_of(decode(encode(batch)))


def test_another_program_s_batch_is_read() -> None:
    """Columns as any library of Arrow makes them, here without `Layout`."""
    plain = [pa.array([x, x], k) for x, k in zip([1, 0.5, 1.0, True, False, False], PLAIN.values(), strict=True)]
    body = tensor_column(np.arange(8, dtype=np.float32).reshape(2, 4))
    batch = pa.record_batch([*plain, body], names=[*PLAIN, "sense.body"])
    assert [one.moment.senses["body"].tolist() for one in rows_of(decode(encode(batch)))] == [
        [0, 1, 2, 3],
        [4, 5, 6, 7],
    ]  # type: ignore[union-attr]


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_damaged_batches_raise_nothing_but_sentences(data: st.DataObject) -> None:
    content = bytearray(WHOLE)
    for _ in range(data.draw(st.integers(1, 6))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    content = content[: data.draw(st.integers(len(content) // 2, len(content)))]
    with suppress(DevmindError):
        rows_of(decode(bytes(content)))


def _whole() -> bytes:
    layout = Layout("cartpole")
    rows = [row(number, words=f"said {number}") for number in range(5)]
    for one in rows:
        layout.add(one)
    return bytes(encode(layout.batch(rows)))


WHOLE = _whole()
