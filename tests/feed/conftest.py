"""A feed's server on this machine, and rows to push."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from devmind.feed import spool
from devmind.feed.client import Client, Connection
from devmind.feed.schema import EFFECTOR, PLAIN, SENSE, Row, decode, numbers, present
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


def rows_of(batch: Any) -> list[Row]:
    """The rows of a checked batch.

    Raises:
        MomentError: a row is no Moment.
    """
    plain = {name: numbers(batch, name).tolist() for name in PLAIN}
    columns: dict[str, tuple[Any, np.ndarray]] = {}
    for name in batch.schema.names[len(PLAIN) :]:
        is_text = batch.schema.field(name).type == pa.string()
        columns[name] = (
            batch.column(name).to_pylist() if is_text else numbers(batch, name),
            present(batch, name),
        )

    def part(prefix: str, at: int) -> dict[str, Any]:
        return {
            name.removeprefix(prefix): values[at] if isinstance(values, list) else np.asarray(values[at])
            for name, (values, here) in columns.items()
            if name.startswith(prefix) and here[at]
        }

    made = []
    for at in range(batch.num_rows):
        flags = (plain["first"][at], plain["last"][at], plain["terminal"][at])
        moment = Moment(plain["time_s"][at], part(SENSE, at), plain["reward"][at], *flags)
        made.append(Row(plain["env"][at], moment, Action(part(EFFECTOR, at))))
    return made


def stored(folder: Path, position: int = 0) -> list[tuple[str, Row]]:
    """Every row of a spool, with its producer."""
    frames = [frame for _, frame in spool.read(folder, position)]
    return [(frame.producer, one) for frame in frames for one in rows_of(decode(frame.body))]


def order(folder: Path, producer: str) -> list[float]:
    """The numbers of a producer's rows, as they are stored."""
    return [float(one.moment.senses["body"][0]) for name, one in stored(folder) if name == producer]  # type: ignore[arg-type]
