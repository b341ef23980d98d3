"""A feed under damaged messages: Flight's own on the wire, by plain gRPC, with bytes changed, cut out and put in.

    python -m tests.feed.wire --tries 3000

The server must live, say why, show no traceback to the other side, and store nothing that cannot be read.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from devmind.feed import spool
from devmind.feed.client import Client, Connection
from devmind.feed.schema import Layout, decode
from tests.feed.conftest import row
from tests.feed.kills import free_port, serve

METHOD = "/arrow.flight.protocol.FlightService/DoPut"
NUMBER_ONE = (1).to_bytes(8, "little")
KINDS = ("schema", "head", "body", "number", "whole", "nothing")


def field(number: int, content: bytes) -> bytes:
    """A field of bytes in Protocol Buffers."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    low, rest = number & 127, number >> 7
    return bytes([low | 128]) + _varint(rest) if rest else bytes([low])


def parts_of(message: Any) -> tuple[bytes, bytes]:
    """Header and body of a message of Arrow's IPC."""
    content = message.to_pybytes()
    end = 8 + int.from_bytes(content[4:8], "little")
    return content[8:end], content[end:]


def damaged(content: bytes, rng: random.Random) -> bytes:
    """These bytes with one to four faults."""
    hurt = bytearray(content)
    for _ in range(rng.randint(1, 4)):
        at, chance = rng.randrange(len(hurt) + 1), rng.random()
        if chance < 0.6 and at < len(hurt):
            hurt[at] = rng.randrange(256)
        elif chance < 0.75:
            del hurt[at : at + rng.randint(1, 16)]
        elif chance < 0.9:
            hurt[at:at] = rng.randbytes(rng.randint(1, 16))
        else:
            hurt[at : at + 4] = rng.choice([b"\xff\xff\xff\x7f", b"\xff\xff\xff\xff", b"\0\0\0\x80"])
    return bytes(hurt)


def attack(folder: Path, tries: int, seed: int = 0) -> Counter[str]:
    """Send streams of a schema and a batch of which one part is damaged; gives how often each answer came.

    Raises:
        AssertionError: the server ended, told a traceback, grew, or stores what cannot be read.
    """
    import grpc

    layout, rng = Layout(), random.Random(seed)
    rows = [row(number, words=f"said {number}") for number in range(5)]
    for one in rows:
        layout.add(one)
    batch = layout.batch(rows)
    (schema, _), (head, body) = parts_of(batch.schema.serialize()), parts_of(batch.serialize())
    port, found = free_port(), Counter[str]()
    server = serve(folder, port)
    try:
        token = (folder / "token").read_text()
        call = grpc.insecure_channel(f"127.0.0.1:{port}").stream_stream(METHOD)
        for number in range(tries):
            kind = KINDS[number % len(KINDS)]

            def part(name: str, content: bytes, kind: str = kind) -> bytes:
                return damaged(content, rng) if name == kind else content

            path = b"\x08\x01" + b"".join(field(3, x) for x in (b"push", b"p%d" % (number % 900), b"7"))
            opening = field(1, path) + field(2, part("schema", schema))
            message = field(2, part("head", head)) + field(3, part("number", NUMBER_ONE))
            message = part("whole", message + field(1000, part("body", body)))
            try:
                list(call(iter([opening, message]), metadata=[("authorization", f"Bearer {token}")], timeout=20))
                found["taken"] += 1
            except grpc.RpcError as error:
                told = str(error.details())  # type: ignore[attr-defined]
                assert "Traceback" not in told
                assert 'File "' not in told
                found[" ".join(told.split()[:6])] += 1
            assert server.poll() is None, f"the server ended after {number} tries ({kind})"
        with Client(f"127.0.0.1:{port}", "whole", token=folder / "token") as client:
            client.push([row(0)])
            client.flush(20)
        peak = next(x for x in Path(f"/proc/{server.pid}/status").read_text().splitlines() if x.startswith("VmHWM"))
        assert int(peak.split()[1]) < 400 << 10, f"KiB: {peak}"
        assert Connection(f"127.0.0.1:{port}", folder / "token").ask("status")["refusals"] > tries / 5
    finally:
        server.kill()
        server.wait()
    stored = [decode(frame.body).num_rows for _, frame in spool.read(folder)]
    assert stored
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    for option, default in (("--tries", 3000), ("--seed", 0)):
        parser.add_argument(option, type=int, default=default)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        for told, count in attack(Path(place) / "spool", given.tries, given.seed).most_common(20):
            print(f"{count:6,} {told}")
