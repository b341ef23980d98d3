"""Payloads come back bit for bit, and damage is reported."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from devmind.errors import StoreError
from devmind.memory.payload import pack, unpack
from devmind.moment import same_arrays

SIXTEEN_BIT = (np.array([[-32768, -1, 0, 1, 32767]], dtype=np.int16).astype(np.float32)) / np.float32(32768)


def test_every_kind_of_sense_round_trips_bit_for_bit() -> None:
    rng = np.random.default_rng(0)
    senses = {
        "sight": rng.integers(0, 256, (5, 4, 3), dtype=np.uint8),
        "sound": rng.normal(0, 0.2, (2, 100)).astype(np.float32),
        "words": "caf\u00e9 \ud800 and a lone surrogate",
        "board": np.zeros((0, 3, 3), dtype=np.int8),
        "heat": np.array([np.nan, -0.0, np.inf]),
    }
    assert same_arrays(unpack(pack(senses)), senses)


@given(st.lists(st.floats(-1, 1, width=32), min_size=1, max_size=20))
def test_sound_of_any_samples_round_trips_bit_for_bit(samples: list[float]) -> None:
    senses = {"sound": np.array([samples], dtype=np.float32)}
    assert same_arrays(unpack(pack(senses)), senses)


def test_sixteen_bit_sound_takes_half_the_bytes() -> None:
    rng = np.random.default_rng(0)
    steps = rng.integers(-32768, 32768, (1, 8000))
    exact = len(pack({"sound": steps.astype(np.float32) / np.float32(32768)}))
    floats = len(pack({"sound": rng.uniform(-1, 1, (1, 8000)).astype(np.float32)}))
    assert exact < 0.65 * floats
    assert same_arrays(unpack(pack({"sound": SIXTEEN_BIT})), {"sound": SIXTEEN_BIT})


@pytest.mark.parametrize("at", [0, 10, -1])
def test_a_changed_byte_raises_a_store_error(at: int) -> None:
    data = bytearray(pack({"words": "a long enough text to have a middle"}))
    data[at] ^= 0xFF
    with pytest.raises(StoreError, match="damaged"):
        unpack(bytes(data))


def test_a_sense_of_an_unsupported_type_is_refused() -> None:
    with pytest.raises(StoreError, match="Sense 'sight' must be a str or a numeric array"):
        pack({"sight": np.array([object()])})
