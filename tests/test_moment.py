"""The law of Moments: dtypes and shapes of standard senses, custom senses, and bit-exact equality."""

import numpy as np
import pytest

from devmind.errors import MomentError
from devmind.moment import Action, Moment


def test_absent_sense_is_absent():
    assert Moment(0.0, {"body": np.zeros(3, np.float32)}).senses.keys() == {"body"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sight", np.zeros((64, 64), np.uint8)),
        ("sight", np.zeros((64, 64, 3), np.float32)),
        ("sight", np.zeros((64, 64, 4), np.uint8)),
        ("periphery", np.zeros((16, 16), np.float32)),
        ("sound", np.zeros(1600, np.float32)),
        ("sound", np.zeros((1, 1600), np.float64)),
        ("words", np.array("hello")),
        ("body", [0.0, 1.0]),
        ("board", np.zeros((2, 3, 3), np.int64)),
        ("own", "text"),
        ("own", np.array(["a"])),
    ],
)
def test_broken_law_of_a_sense_is_named(name, value):
    with pytest.raises(MomentError, match=name):
        Moment(0.0, {name: value})


def test_custom_senses_may_be_any_numbers():
    Moment(0.0, {"own": np.zeros((2, 3, 4), np.int16), "flag": np.array(True)})


def test_terminal_is_last():
    with pytest.raises(MomentError, match="last"):
        Moment(0.0, terminal=True)


def test_moments_and_actions_are_equal_only_bit_for_bit():
    def made(value, **more):
        return Moment(0.1, {"body": np.array([value], np.float32), "words": "hi"}, **more)

    assert made(1.0) == made(1.0)
    assert made(1.0) != made(np.nextafter(np.float32(1), np.float32(2)))
    assert made(1.0) != made(1.0, reward=1.0)
    assert made(np.nan) == made(np.nan)
    assert Action({"look": np.zeros(2)}) == Action({"look": np.zeros(2)})
    assert Action({"look": np.zeros(2)}) != Action({"look": np.zeros(2, np.float32)})
