"""A server that is killed and connections that are cut lose nothing that was pushed (`tests.feed.kills`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.feed import wire
from tests.feed.kills import attack


def test_a_killed_server_and_cut_connections_lose_nothing(tmp_path: Path) -> None:
    found = attack(tmp_path / "spool", producers=2, seconds=4, kills=1)
    assert found["rows"] > 500
    assert found["reconnects"] > 1


def test_damaged_messages_on_the_wire_are_refused_and_the_server_lives(tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="comes with TensorBoard")
    found = wire.attack(tmp_path / "spool", tries=180)
    assert found["taken"] < 120, found


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_five_kills_of_the_server_under_four_producers_lose_nothing(tmp_path: Path) -> None:
    found = attack(tmp_path / "spool", producers=4, seconds=60, kills=5)
    assert (found["kills"], found["lost"]) == (5, 0)
    assert found["cuts"] > 20
