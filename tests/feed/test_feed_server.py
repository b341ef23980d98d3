"""The server and its clients on loopback: what is acknowledged is stored once and in order, and whoever sends something
else is refused by a sentence while the others go on."""

from __future__ import annotations

import json
import resource
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import flight

from devmind.errors import FeedError
from devmind.feed import spool
from devmind.feed.client import Acting, Client, Connection, reason
from devmind.feed.schema import Layout
from devmind.feed.server import NUMBER, PUSH, FeedServer, Limits
from tests.feed.conftest import Serve, client, connection, order, row, stored


def batch(*numbers: int, size: int = 0) -> Any:
    layout, rows = Layout(), [row(number) for number in numbers]
    if size:
        rows = [one._replace(action=type(one.action)({"big": np.zeros(size, np.uint8)})) for one in rows]
    for one in rows:
        layout.add(one)
    return layout.batch(rows)


class Raw:
    """A producer that says what the test wants."""

    def __init__(self, server: FeedServer, name: str = "raw", owner: str = "7", schema: Any = None) -> None:
        self.connection = connection(server)
        self.client = self.connection.open()
        self.connection.ask("hello", self.client, producer=name, owner=owner)
        named = flight.FlightDescriptor.for_path(PUSH, name, owner)
        self.writer, self.answers = self.client.do_put(named, schema or batch(0).schema, self.connection.options(20.0))

    def send(self, number: int, content: Any = None) -> None:
        self.writer.write_with_metadata(content or batch(number), NUMBER.pack(number))

    def told(self) -> dict[str, Any]:
        """The next answer that says something new."""
        answer = self.answers.read()
        return {} if answer is None else dict(json.loads(answer.to_pybytes()))

    def durable(self, wanted: int) -> None:
        while (told := self.told()).get("durable") != wanted:
            assert told, "the stream ended"

    def refusal(self) -> str:
        """The sentence with which the stream ends."""
        return refusal(self.answers.read, self.writer)


def refusal(read: Any, writer: Any) -> str:
    """The sentence with which a stream ends; one that answers batches tells it when it is read, else when closed."""
    with pytest.raises((flight.FlightServerError, flight.FlightUnavailableError)) as ended:  # noqa: PT012
        while read():
            pass
        writer.close()
    assert "Traceback" not in str(ended.value)
    return reason(ended.value)


def test_rows_of_three_producers_are_stored_once_and_in_order(serve: Serve, tmp_path: Path) -> None:
    server = serve()
    clients = [client(server, name) for name in "abc"]
    for number in range(300):
        for one in clients:
            one.push([row(number)])
    for one in clients:
        one.close(20.0)
        assert one.status() == "300 sent, 300 on disk, 0 kept here, lost 0"
    for name in "abc":
        assert order(tmp_path / "spool", name) == list(range(300))
    assert server.counts.syncs < 900, "one sync for all that arrived meanwhile"


def test_stream_goes_on_when_senses_come_and_go(serve: Serve, tmp_path: Path) -> None:
    server = serve()
    with client(server) as one:
        one.push([row(0)])
        one.flush(10)
        one.push([row(1, words="hello"), row(2, smell=np.ones(2))])
        one.flush(10)
        one.push([row(3)])
    rows = [one.moment for _, one in stored(tmp_path / "spool")]
    assert [sorted(one.senses) for one in rows] == [["body"], ["body", "words"], ["body", "smell"], ["body"]]


def test_acknowledgement_comes_after_the_sync(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    server, held = serve(), threading.Event()
    append = spool.Spool.append

    def slow(self: Any, frames: Any) -> None:
        held.wait(10)
        append(self, frames)

    monkeypatch.setattr(spool.Spool, "append", slow)
    one = client(server)
    one.push([row(0)])
    with pytest.raises(FeedError, match=r"1 of 1 rows are not stored after 0.5 s"):
        one.flush(0.5)
    assert one.stored == 0
    held.set()
    one.close(10)
    assert one.stored == 1


def test_doubles_are_dropped_and_gaps_refused(serve: Serve, tmp_path: Path) -> None:
    server = serve()
    raw = Raw(server)
    for number in (1, 2, 2, 1, 3):
        raw.send(number)
    raw.durable(3)
    raw.send(5)
    assert raw.refusal() == "Batch 4 of 'raw' was expected; got 5."
    assert order(tmp_path / "spool", "raw") == [1, 2, 3]
    assert server.counts.doubles == 2


def test_producer_goes_on_where_its_last_process_ended(serve: Serve, tmp_path: Path) -> None:
    server = serve()
    for first in (0, 10):
        with client(server) as one:
            one.push([row(number) for number in range(first, first + 10)])
    assert order(tmp_path / "spool", "one") == list(range(20))


def test_second_process_of_the_same_name_takes_over_and_the_first_is_told(serve: Serve, tmp_path: Path) -> None:
    server = serve()
    first = client(server)
    first.push([row(0)])
    first.flush(10)
    second = client(server)
    second.push([row(1)])
    second.flush(10)
    with pytest.raises(FeedError, match="Another connection has taken over as 'one'"):  # noqa: PT012
        for number in range(2, 50):
            first.push([row(number)])
            time.sleep(0.05)
    second.close(10)
    numbers = order(tmp_path / "spool", "one")
    assert numbers[0] == 0
    assert 1 in numbers
    assert len(numbers) == len(set(numbers))


def test_process_that_was_away_while_another_took_its_numbers_is_refused(serve: Serve, tmp_path: Path) -> None:
    """Its own batches would be taken for doubles of the other's, also by a server that knows neither."""
    server = serve()
    with client(server) as other:
        other.push([row(0)])
    server.stop()
    server = serve()
    asked = {"producer": "one", "owner": "5"}
    assert connection(server).ask("hello", **asked, first=2)["durable"] == 1
    with pytest.raises(FeedError, match="Another connection has taken over as 'one'"):
        connection(server).ask("hello", **asked, first=1)
    with pytest.raises(FeedError, match="number of a producer's process"):
        connection(server).ask("hello", producer="one", owner="x")


@pytest.mark.parametrize("header", [None, b"Bearer x", b"Bearer " + b"x" * 43, b"Basic " + b"x" * 43, b""])
def test_wrong_token_is_let_in_nowhere(serve: Serve, header: bytes | None) -> None:
    server = serve()
    raw = flight.FlightClient(f"grpc://127.0.0.1:{server.port}")
    options = flight.FlightCallOptions(timeout=10, headers=[(b"authorization", header)] if header is not None else [])
    kinds = (flight.FlightUnauthenticatedError, flight.FlightUnavailableError)
    with pytest.raises(kinds):
        list(raw.do_action(flight.Action("status", b""), options))
    with pytest.raises(kinds):
        raw.do_get(flight.Ticket(b"0"), options).read_all()
    with pytest.raises(kinds):  # noqa: PT012 - as below
        _, answers = raw.do_exchange(flight.FlightDescriptor.for_path("act", "a", "1"), options)
        answers.read_chunk()
    with pytest.raises(kinds):  # noqa: PT012 - it is refused when it opens, or when it closes
        writer, _ = raw.do_put(flight.FlightDescriptor.for_path(PUSH, "a", "1"), batch(0).schema, options)
        writer.close()
    assert not server.producers


def test_wrong_token_ends_a_client_with_a_sentence(serve: Serve, tmp_path: Path) -> None:
    server = serve()
    (tmp_path / "other").write_text("another-token-of-somebody")
    with pytest.raises(FeedError, match="cannot be asked: The feed expects its token; this one is missing or wrong"):
        Connection(f"127.0.0.1:{server.port}", tmp_path / "other").ask("status")
    one = Client(f"127.0.0.1:{server.port}", "one", token=tmp_path / "other")
    one.push([row(0)])
    with pytest.raises(FeedError, match="The feed expects its token"):
        one.flush(10)
    (tmp_path / "other").write_text("short")
    with pytest.raises(FeedError, match="at least 16 printable ASCII characters"):
        Connection(f"127.0.0.1:{server.port}", tmp_path / "other")
    assert server.token_file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0", "10.1.2.3:0", "example.org:0"])
def test_beyond_this_machine_token_and_tls_are_required(tmp_path: Path, address: str) -> None:
    (tmp_path / "token").write_text("a-token-of-my-own-that-is-long")
    with pytest.raises(FeedError, match="so it needs TLS and a token"):
        FeedServer(tmp_path / "spool", address)
    with pytest.raises(FeedError, match="so it needs TLS and a token"):
        FeedServer(tmp_path / "spool", address, token=tmp_path / "token")
    assert not (tmp_path / "spool").exists()


def test_tls_is_spoken_and_a_client_without_it_is_not_heard(serve: Serve, tmp_path: Path) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)]
    subprocess.run([*make, *names], check=True, capture_output=True)
    server = serve(tls=(cert, key))
    with Client(f"127.0.0.1:{server.port}", "safe", token=server.token_file, tls=cert) as one:
        one.push([row(0)])
        one.flush(20)
    assert one.stored == 1
    with pytest.raises(FeedError, match="cannot be asked"):
        connection(server).ask("status")


def test_wrong_schema_oversize_and_bare_batches_are_refused(serve: Serve) -> None:
    server = serve(limits=Limits(largest_bytes=100_000))
    other = pa.schema([("x", pa.int32())])
    assert "A feed's columns begin with env" in Raw(server, "a", schema=other).refusal()
    big = Raw(server, "b", schema=batch(0, size=200_000).schema)
    big.send(1, batch(0, size=200_000))
    assert "this feed takes 100,000 at most: push fewer rows at once" in big.refusal()
    bare = Raw(server, "c")
    bare.writer.write_batch(batch(0))
    assert "with its number in 8 bytes" in bare.refusal()
    for path in (["push", "x"], ["pull", "x", "1"], ["push", "a\x1b[2J", "1"]):
        raw = connection(server)
        writer, answers = raw.open().do_put(flight.FlightDescriptor.for_path(*path), batch(0).schema, raw.options())
        assert refusal(answers.read, writer).endswith(".")
    with client(server, "still here") as one:
        one.push([row(0)])
        one.flush(10)
    assert server.counts.refused == 6


def test_client_says_why_it_is_refused(serve: Serve) -> None:
    server = serve(limits=Limits(largest_bytes=1000))
    one = client(server)
    one.push([row(number) for number in range(500)])
    with pytest.raises(FeedError, match="this feed takes 1,000 at most"):
        one.flush(10)
    with pytest.raises(FeedError, match="this feed takes 1,000 at most"):
        one.push([row(0)])


def test_fault_of_the_server_shows_no_traceback_to_others(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    def make(effectors: tuple[str, ...]) -> Any:
        raise ZeroDivisionError("a secret path")

    server = serve(make_policy=make)
    acting = Acting(connection(server), "sim")
    with pytest.raises(FeedError, match=r"^The feed cannot do that: ZeroDivisionError\.$"):
        acting.act([row(0)], 10.0)
    assert "a secret path" in capsys.readouterr().err


def test_slow_reader_makes_producers_wait_and_memory_stays_bounded(serve: Serve, tmp_path: Path) -> None:
    server = serve(limits=Limits(ahead_bytes=400_000, queue_bytes=300_000, quota_bytes=200_000))
    one = client(server, unstored_bytes=500_000)
    pushed = 0
    began = time.monotonic()

    def push() -> None:
        nonlocal pushed
        for number in range(40):
            one.push_batch(batch(number, size=100_000))
            pushed += 1

    thread = threading.Thread(target=push, daemon=True)
    thread.start()
    while "behind" not in one.waits and time.monotonic() < began + 20:
        time.sleep(0.05)
    time.sleep(0.5)
    assert "The slowest reader is" in one.waits
    waiting = pushed
    assert waiting < 15
    assert server._queued_bytes <= 300_000 + 110_000
    while thread.is_alive() or one.stored < 40:
        assert time.monotonic() < began + 60
        position = max((after for after, _ in spool.read(tmp_path / "spool")), default=0)
        spool.report_position(tmp_path / "spool", "lesson", position)
        time.sleep(0.02)
    one.close(10)
    assert order(tmp_path / "spool", "one") == list(range(40))


def test_producer_gets_its_rate_and_others_theirs(serve: Serve, tmp_path: Path) -> None:
    server = serve(limits=Limits(rate_bytes=200_000))
    fast, slow = client(server, "fast"), client(server, "slow")
    began, waits = time.monotonic(), set[str]()
    for number in range(5):
        fast.push_batch(batch(number, size=100_000))
    slow.push([row(0)])
    slow.flush(1.5)
    while fast.stored < 5:
        waits.add(fast.waits)
        assert time.monotonic() < began + 30
        time.sleep(0.02)
    assert time.monotonic() - began > 4 * 100_000 / 200_000, "the first is taken at once, each other when it is due"
    assert "This feed takes 200,000 bytes a second of each producer." in waits
    slow.close(10)
    fast.close(10)
    assert order(tmp_path / "spool", "fast") == list(range(5))


def test_steps_of_the_clock_change_nothing(serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Durations are taken from the monotonic clock alone, in server, client and reader."""
    away = [0.0]
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + away[0])
    server = serve(make_policy=side, limits=Limits(rate_bytes=1 << 20))
    acting = Acting(connection(server), "sim")
    with client(server) as one:
        for number, step_s in enumerate((0.0, -3600.0, 86_400.0, -1e9)):
            away[0] = step_s
            one.push([row(number)])
            one.flush(5)
            assert acting.act([row(9)], 5.0) is not None
    acting.close()
    assert acting.latency_ms()[1] < 5000
    assert order(tmp_path / "spool", "one") == [0, 1, 2, 3]


def test_full_disk_is_told_and_nothing_is_lost(serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = serve()
    real, full = spool.os.pwrite, threading.Event()

    def pwrite(file: int, content: Any, at: int) -> int:
        if full.is_set():
            raise OSError(28, "No space left on device")
        return real(file, content, at)

    monkeypatch.setattr(spool.os, "pwrite", pwrite)
    one = client(server)
    one.push([row(0)])
    one.flush(10)
    full.set()
    one.push([row(1)])
    with pytest.raises(FeedError, match="1 of 2 rows are not stored"):
        one.flush(1.5)
    assert "the disk is full" in server.status()["waits"]
    full.clear()
    one.close(20)
    assert order(tmp_path / "spool", "one") == [0, 1]


def test_half_open_sockets_and_two_hundred_connections_leave_the_server_alive(serve: Serve) -> None:
    server = serve(limits=Limits(streams=16))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    silent = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(100)]
    for number, one in enumerate(silent[:50]):
        one.sendall([b"", b"GET / HTTP/1.1\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\xff" * 4096][number % 4])
    opened = []
    for number in range(200):
        raw = Raw(server, f"p{number}")
        if number < 16:
            raw.send(1)
            raw.durable(1)
        else:
            assert raw.refusal() == "16 streams are open, which is the most; come back later."
        opened.append(raw)
    for one in silent:
        one.close()
    for raw in opened[:16]:
        raw.writer.done_writing()
    with client(server, "last") as one:
        one.push([row(0)])
        one.flush(20)
    assert one.stored == 1
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) < 256 << 10, "KiB"


# -- act ---------------------------------------------------------------------------------------------------------------


def side(effectors: tuple[str, ...]) -> Any:
    """Pushes to the side of the first number; answers one tick of all rows."""

    def policy(senses: Mapping[str, Any], first: np.ndarray) -> Mapping[str, np.ndarray]:
        return {"push": (senses["body"][:, 0] > 5).astype(np.int64)}

    return policy


def test_many_environments_are_answered_in_one_message(serve: Serve) -> None:
    server = serve(make_policy=side)
    acting = Acting(connection(server), "sim")
    for tick in range(20):
        found = acting.act([row(number + tick, env=number) for number in range(12)], 10.0)
        assert found is not None
        assert found["push"].tolist() == [int(number + tick > 5) for number in range(12)]
    acting.close()
    assert (acting.answered, acting.unanswered) == (20, 0)
    assert 0 < acting.latency_ms()[0] <= acting.latency_ms()[1]
    assert server.status()["answers"] == 20


def test_late_answer_is_none_and_is_never_taken_for_a_later_one(serve: Serve) -> None:
    slow = {3, 4}

    def make(effectors: tuple[str, ...]) -> Any:
        def policy(senses: Mapping[str, Any], first: np.ndarray) -> Mapping[str, np.ndarray]:
            number = int(senses["body"][0, 0])
            if number in slow:
                time.sleep(0.4)
            return {"push": np.array([number])}

        return policy

    server = serve(make_policy=make)
    acting = Acting(connection(server), "sim")
    acting.act([row(0)], 10.0)
    answers = [acting.act([row(number)], 0.2) for number in range(1, 12)]
    acting.close()
    for number, found in enumerate(answers, 1):
        assert found is None or found["push"].tolist() == [number]
    assert answers[2] is None
    assert answers[-1] is not None
    assert acting.unanswered == sum(found is None for found in answers)
    assert server.status()["unanswered"] >= 1


def test_feed_without_an_agent_says_so_and_a_stopped_one_gives_no_answer(serve: Serve) -> None:
    with pytest.raises(FeedError, match="Nobody acts here: start the feed with an agent"):
        Acting(connection(serve()), "sim").act([row(0)], 10.0)
    server = serve("other", make_policy=side)
    acting = Acting(connection(server), "sim")
    assert acting.act([row(0)], 10.0) is not None
    server.stop()
    assert acting.act([row(1)], 0.3) is None
    acting.close()


SILENT = """
import sys
from pathlib import Path
import numpy as np
from devmind.feed import Acting, Connection, FeedServer, Row
from devmind.moment import Action, Moment
place = Path(sys.argv[1])
server = FeedServer(place, make_policy=lambda names: lambda senses, first: {"push": np.zeros(len(first))})
acting = Acting(Connection(f"127.0.0.1:{server.port}", place / "token"), "sim")
assert acting.act([Row(0, Moment(0.0, {"body": np.zeros(4, np.float32)}), Action())], 20.0) is not None
server.stop()
"""


def test_process_whose_own_client_says_nothing_ends(tmp_path: Path) -> None:
    """The library waited at Python's end for a stream that nobody closes."""
    command = [sys.executable, "-c", SILENT, str(tmp_path / "spool")]
    assert subprocess.run(command, cwd=Path(__file__).parents[2], timeout=60, check=False).returncode == 0


def test_metadata_that_is_no_question_ends_the_stream_alone(serve: Serve) -> None:
    server = serve(make_policy=side)
    raw = connection(server)
    named = flight.FlightDescriptor.for_path("act", "sim", "x")
    writer, reader = raw.open().do_exchange(named, raw.options())
    writer.begin(batch(0).schema)
    writer.write_with_metadata(batch(0), struct.pack("<Q", 1))
    assert refusal(reader.read_chunk, writer) == "The feed cannot do that: error."
    acting = Acting(raw, "sim")
    assert acting.act([row(9)], 10.0) is not None
    acting.close()
