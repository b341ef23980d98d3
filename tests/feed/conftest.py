"""A feed's server on this machine, and rows to push."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from devmind.feed import spool
from devmind.feed.client import Client, Connection
from devmind.feed.schema import Row, decode, rows_of
from devmind.feed.server import FeedServer
from devmind.moment import Action, Moment

Serve = Callable[..., FeedServer]


@pytest.fixture
def serve(tmp_path: Path) -> Generator[Serve]:
    """`serve(**options)`: a server whose spool is `tmp_path / "spool"`; it is stopped at the end."""
    servers = []

    def make(folder: str = "spool", **options: Any) -> FeedServer:
        servers.append(FeedServer(tmp_path / folder, **options))
        return servers[-1]

    yield make
    for server in servers:
        server.stop()


def connection(server: FeedServer) -> Connection:
    return Connection(f"127.0.0.1:{server.port}", server.token_file)


def client(server: FeedServer, name: str = "one", **options: Any) -> Client:
    return Client(f"127.0.0.1:{server.port}", name, token=server.token_file, **options)


def row(number: int, env: int = 0, **senses: Any) -> Row:
    """The tick with this number, which its body tells."""
    body = np.full(4, number, np.float32)
    return Row(env, Moment(number / 10, {"body": body, **senses}, first=not number), Action({"push": np.int64(1)}))


def stored(folder: Path, position: int = 0) -> list[tuple[str, Row]]:
    """Every row of a spool, with its producer."""
    frames = [frame for _, frame in spool.read(folder, position)]
    return [(frame.producer, one) for frame in frames for one in rows_of(decode(frame.body))]


def order(folder: Path, producer: str) -> list[float]:
    """The numbers of a producer's rows, as they are stored."""
    return [float(one.moment.senses["body"][0]) for name, one in stored(folder) if name == producer]  # type: ignore[arg-type]
