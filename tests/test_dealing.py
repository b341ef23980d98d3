"""Dealing tests to processes: none is lost, long ones come first, and tests of one file stay together."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.dealing import dealt


def dealt_numbers(files: list[str], long_s: list[float], hands: int) -> list[list[int]]:
    """The tests of each process, named by their position, as xdist cuts them: by number."""
    order = dealt(range(len(files)), files, long_s, hands)
    size = len(order) // hands
    return [order[hand * size : (hand + 1) * size if hand < hands - 1 else None] for hand in range(hands)]


def test_each_process_begins_with_its_share_of_long_tests() -> None:
    files = ["a"] * 4 + ["b"] * 4 + ["c"] * 4
    long_s = [0, 0, 30.0, 0, 900.0, 0, 0, 0, 0, 600.0, 600.0, 0]
    assert dealt_numbers(files, long_s, 2) == [[9, 10, 0, 1, 3, 5], [4, 2, 6, 7, 8, 11]]


def test_file_with_the_longest_test_comes_first_in_a_process() -> None:
    files = ["laws", "many", "many", "one", "", "", "", ""]
    assert dealt_numbers(files, [2000.0, 400.0, 400.0, 700.0, 0, 0, 0, 0], 2) == [[0, 4, 5, 6], [3, 1, 2, 7]]


@pytest.mark.parametrize("hands", [1, 2, 3])
@pytest.mark.parametrize("share", [0.0, 0.1, 1.0])
def test_no_test_is_lost_and_long_tests_of_a_file_are_adjacent(hands: int, share: float) -> None:
    rng = np.random.default_rng(hands)
    files = sorted(f"file {number}" for number in rng.integers(0, 12, 101))
    long_s = [float(rng.choice([30, 600])) * bool(rng.random() < share) for _ in files]
    parts = dealt_numbers(files, long_s, hands)
    assert sorted(itertools.chain(*parts)) == list(range(101))
    for part in parts:
        long = [files[at] for at in part if long_s[at]]
        begun = [file for file, _ in itertools.groupby(long)]
        # If all tests are long, at most one file is split.
        assert len(begun) - len(set(begun)) <= (1 if share == 1.0 else 0)
        if share < 1.0:
            assert [bool(long_s[at]) for at in part] == sorted((bool(long_s[at]) for at in part), reverse=True)


def test_short_tests_keep_their_order() -> None:
    assert dealt("abcdef", ["x"] * 6, [0] * 6, 2) == list("abcdef")
