"""The client of a feed: a simulator pushes what it lives through, and asks how to act. It needs no torch.

>>> with Client("127.0.0.1:4711", "carts", token=Path("spool/token"), world="cartpole") as feed:
...     feed.push([Row(0, moment, action)])
"""

from __future__ import annotations

import json
import secrets
import struct
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pyarrow as pa
from pyarrow import flight

from devmind.bounds import parse_json, read_file
from devmind.errors import FeedError
from devmind.feed.schema import EFFECTOR, Layout, Row, numbers
from devmind.feed.server import ACT, NUMBER, PUSH, SCHEME, read_token
from devmind.feed.spool import check_producer
from devmind.moment import Action, Moment

UNSTORED_BYTES = 64 << 20
"""What a client keeps until it is on the other side's disk; `push` waits when there is more."""
BATCH_ROWS = 1024
"""A batch is what has been pushed since the last one was sent, but no more than this."""
BACK_OFF_S = (0.05, 5.0)
"""Pause before connecting again: the first, and the longest."""
KEEPALIVE = [("grpc.keepalive_time_ms", 20_000), ("grpc.keepalive_timeout_ms", 10_000)]
"""A machine that is switched off closes no connection; it is found so. gRPC's server ends connections that ping it more
than once in five minutes, unless it has something to say itself; on a stream of `push` it has, every two seconds."""
KEPT_LATENCIES = 10_000


class Connection:
    """The address of a feed with what it takes to get in.

    Args:
        address: "HOST:PORT".
        token: file with the token.
        tls: file with the certificate that the server's is signed by, or the server's own, in PEM; needed beyond this
            machine.
    """

    def __init__(self, address: str, token: Path, tls: Path | None = None) -> None:
        self.address = address
        self._where = f"grpc{'+tls' if tls else ''}://{address}"
        self._roots = read_file(tls, FeedError) if tls else None
        self._header = (b"authorization", (SCHEME + read_token(token)).encode())

    def open(self, keepalive: bool = False) -> Any:
        """A Flight client; connecting is lazy."""
        options = KEEPALIVE if keepalive else []
        return flight.FlightClient(self._where, tls_root_certs=self._roots, generic_options=options)

    def options(self, timeout_s: float | None = 10.0) -> Any:
        """Options of one call."""
        return flight.FlightCallOptions(timeout=timeout_s, headers=[self._header])

    def ask(self, what: str, client: Any = None, **asked: Any) -> dict[str, Any]:
        """The answer to an action of the server.

        Raises:
            FeedError: it refuses, or cannot be reached.
        """
        mine = client or self.open()
        try:
            found = list(mine.do_action(flight.Action(what, json.dumps(asked).encode()), self.options()))
            answer = (
                parse_json(found[0].body.to_pybytes(), FeedError, "The answer of the feed is damaged ({}).")
                if found
                else {}
            )
        except flight.FlightUnauthenticatedError as error:
            raise FeedError(f"The feed at '{self.address}' cannot be asked: {reason(error)}") from None
        except (pa.ArrowException, OSError) as error:
            raise FeedError(f"The feed at '{self.address}' cannot be asked: {reason(error)}") from error
        finally:
            if client is None:
                mine.close()
        if "refused" in answer:
            raise FeedError(str(answer["refused"]))
        return dict(answer)


def reason(error: BaseException) -> str:
    """The sentence in an exception of Flight, without the details of its library."""
    told = str(error).partition(". Detail:")[0].partition(". gRPC client debug context:")[0]
    return (told.splitlines() or [type(error).__name__])[0][:300].rstrip(".") + "."


class Client:
    """Sends Moments and Actions to a feed, and keeps what is not yet on its disk.

    A thread sends batches and connects again after any failure, for ever; what was not acknowledged is sent again, and
    the server drops what it has. Close it (or leave its `with` block) to wait for the last acknowledgement.

    Args:
        address, token, tls: as for `Connection`.
        producer: a name of its own for each process that pushes.
        world: the name of the world that the Moments come from, as lessons name it.
        unstored_bytes: what is kept at most; `push` waits when there is more.

    Attributes:
        pushed, stored: rows given to `push`, and rows that are on the disk of the server.
        waits: why the server does not store; "" if it does.
        reconnects: how often the connection was made again.
    """

    def __init__(
        self,
        address: str,
        producer: str,
        *,
        token: Path,
        tls: Path | None = None,
        world: str = "",
        unstored_bytes: int = UNSTORED_BYTES,
    ) -> None:
        self.connection, self.producer = Connection(address, token, tls), check_producer(producer)
        self.layout, self.unstored_bytes, self.owner = Layout(world), unstored_bytes, str(secrets.randbits(63) + 1)
        self.pushed = self.stored = self.reconnects = 0
        self.waits = ""
        self._rows: deque[Row] = deque()
        self._batches: deque[Any] = deque()
        self._first = 0  # the number of the first batch that is kept; 0 until the server has told the last it has
        self._sent, self._bytes = 0, 0
        self._failure: FeedError | None = None
        self._closing = False
        self._changed = threading.Condition()
        self._sender = threading.Thread(target=self._send, name="feed-client", daemon=True)
        self._sender.start()

    # -- what a simulator calls ----------------------------------------------------------------------------------------

    def push(self, rows: Sequence[Row]) -> None:
        """Give rows to be sent; returns at once unless too much is not yet stored.

        Raises:
            FeedError: the server has refused this producer, or a row cannot be sent.
        """
        with self._changed:
            self._wait_for_room()
            for row in rows:
                self.layout.add(row)
            self._rows.extend(rows)
            self.pushed += len(rows)
            self._changed.notify_all()

    def push_batch(self, batch: Any) -> None:
        """As `push`, for a record batch that is already in the feed's columns (`devmind.feed.schema`)."""
        with self._changed:
            while self._rows and self._failure is None:
                self._changed.wait(1.0)
            self._wait_for_room()
            self._batches.append(batch)
            self._bytes += batch.nbytes
            self.pushed += batch.num_rows
            self._changed.notify_all()

    def flush(self, timeout_s: float | None = None) -> None:
        """Return when all that was pushed is on the disk of the server.

        Raises:
            FeedError: it refused, or the time is up.
        """
        until_s = None if timeout_s is None else time.monotonic() + timeout_s
        with self._changed:
            while self._rows or self._batches:
                self._check()
                left_s = 1.0 if until_s is None else until_s - time.monotonic()
                if left_s <= 0:
                    raise FeedError(
                        f"{self.pushed - self.stored:,} of {self.pushed:,} rows are not stored after {timeout_s:g} s"
                        + (f": {self.waits}" if self.waits else f"; '{self.connection.address}' does not answer.")
                    )
                self._changed.wait(min(1.0, left_s))

    def close(self, timeout_s: float | None = None) -> None:
        """`flush`, and end."""
        try:
            self.flush(timeout_s)
        finally:
            with self._changed:
                self._closing = True
                self._changed.notify_all()
            self._sender.join(5.0)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: object, *rest: object) -> None:
        self.close(timeout_s=None if kind is None else 1.0)

    def status(self) -> str:
        """One line: rows pushed, on the disk, and lost; what is neither is kept here."""
        return f"{self.pushed:,} sent, {self.stored:,} on disk, {self.pushed - self.stored:,} kept here, lost 0"

    # -- the thread that sends -----------------------------------------------------------------------------------------

    def _wait_for_room(self) -> None:
        self._check()
        while self._bytes >= self.unstored_bytes or len(self._rows) >= 4 * BATCH_ROWS:
            self._changed.wait(1.0)
            self._check()

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _send(self) -> None:
        """Connect, and connect again."""
        pause_s, longest_s = BACK_OFF_S
        while not self._closing and self._failure is None:
            stored = self.stored
            try:
                self._one_connection()
            except flight.FlightServerError as error:
                self._fail(FeedError(reason(error)))
            except (pa.ArrowException, OSError) as error:
                self.waits = reason(error)
            except FeedError as error:
                self.waits = str(error)
                if not isinstance(error.__cause__, pa.ArrowException | OSError):  # it was reached, and refuses
                    self._fail(error)
            self.reconnects += 1
            with self._changed:
                if not self._closing:
                    self._changed.wait(pause_s)
            pause_s = BACK_OFF_S[0] if self.stored > stored else min(2 * pause_s, longest_s)

    def _fail(self, error: FeedError) -> None:
        with self._changed:
            self._failure = error
            self._changed.notify_all()

    def _one_connection(self) -> None:
        """Send on one connection until it fails or the client ends: a stream for each schema."""
        client = self.connection.open(keepalive=True)
        try:
            while not self._closing:
                me = {"producer": self.producer, "owner": self.owner, "first": self._first}
                hello = self.connection.ask("hello", client, **me)
                with self._changed:
                    self._first = self._first or int(hello["durable"]) + 1
                    self._sent = int(hello["durable"])
                self._store(self._sent)
                if (batch := self._wait_for_batch()) is not None:
                    self._one_stream(client, batch.schema)
        finally:
            client.close()

    def _one_stream(self, client: Any, schema: Any) -> None:
        """Send batches of one schema; return when one of another is next, or the client ends."""
        named = flight.FlightDescriptor.for_path(PUSH, self.producer, self.owner)
        writer, answers = client.do_put(named, schema, self.connection.options(None))
        ended = threading.Event()
        listener = threading.Thread(target=self._listen, args=(answers, ended), daemon=True)
        listener.start()
        try:
            while not ended.is_set():
                batch = self._wait_for_batch(ended=ended)
                if batch is None or batch.schema != schema:
                    break
                writer.write_with_metadata(batch, NUMBER.pack(self._sent + 1))
                self._sent += 1
            writer.done_writing()
            listener.join()
        finally:
            writer.close()

    def _wait_for_batch(self, ended: threading.Event | None = None) -> Any:
        """The next batch to send, made of the rows that wait if there is none; None when there will be none."""
        with self._changed:
            while not self._closing and not (ended and ended.is_set()):
                at = self._sent + 1 - self._first
                if at == len(self._batches) and self._rows:
                    rows = [self._rows.popleft() for _ in range(min(BATCH_ROWS, len(self._rows)))]
                    self._batches.append(self.layout.batch(rows))
                    self._bytes += self._batches[-1].nbytes
                if at < len(self._batches):
                    return self._batches[at]
                self._changed.wait(1.0)
        return None

    def _listen(self, answers: Any, ended: threading.Event) -> None:
        """Take acknowledgements until the stream ends."""
        try:
            while (answer := answers.read()) is not None:
                told = parse_json(answer.to_pybytes(), FeedError, "An answer of the feed is damaged ({}).")
                self.waits = str(told["waits"])
                self._store(int(told["durable"]))
        except flight.FlightServerError as error:
            self._fail(FeedError(reason(error)))
        except (pa.ArrowException, OSError, FeedError, KeyError, TypeError, ValueError) as error:
            self.waits = reason(error)
        finally:
            ended.set()
            with self._changed:
                self._changed.notify_all()

    def _store(self, durable: int) -> None:
        """Let go of what is on the server's disk."""
        with self._changed:
            while self._batches and self._first <= durable:
                batch = self._batches.popleft()
                self._first, self._bytes = self._first + 1, self._bytes - batch.nbytes
                self.stored += batch.num_rows
            self._changed.notify_all()


class Acting:
    """Asks a feed how to act: many environments a message, answered by the newest weights.

    Args:
        effectors: those that are wanted; all that the agent has by default.

    Attributes:
        answered, unanswered: questions that were answered in time, and that were not.
    """

    def __init__(self, connection: Connection, producer: str, effectors: Sequence[str] = ()) -> None:
        self.connection, self.producer, self.layout = connection, check_producer(producer), Layout()
        self.effectors = tuple(effectors)
        self.answered = self.unanswered = 0
        self._latencies_s: deque[float] = deque(maxlen=KEPT_LATENCIES)
        self._number, self._answer = 0, dict[str, np.ndarray]()
        self._answered = 0
        self._changed = threading.Condition()
        self._stream: Any = None
        self._listener: threading.Thread | None = None
        self._refusal = ""

    def act(self, rows: Sequence[Row], within_s: float = 1.0) -> dict[str, np.ndarray] | None:
        """Actions [N, ...] by effector for the Moments of N environments, always the same ones in the same order; None
        if there is no answer within the time. An answer that comes later is dropped, never given to a later question.

        Raises:
            FeedError: the server refuses.
        """
        began_s = time.monotonic()
        for row in rows:
            self.layout.add(row)
        batch = self.layout.batch(rows)
        try:
            writer = self._opened(batch.schema)
            self._number += 1
            writer.write_with_metadata(batch, struct.pack("<QQ", self._number, round(within_s * 1000)))
        except (pa.ArrowException, OSError) as error:
            self._end(error)
        with self._changed:
            while self._stream and self._answered < self._number:
                left_s = began_s + within_s - time.monotonic()
                if left_s <= 0:
                    break
                self._changed.wait(left_s)
            if self._refusal:
                raise FeedError(self._refusal)
            if self._stream and self._answered == self._number and self._answer:
                self._latencies_s.append(time.monotonic() - began_s)
                self.answered += 1
                return self._answer
        self.unanswered += 1
        if not self._stream:
            time.sleep(max(0.0, began_s + within_s - time.monotonic()))
        return None

    def latency_ms(self) -> tuple[float, float]:
        """The median and the 99th percentile of the time from a question to its answer."""
        took = np.array(self._latencies_s or [np.nan]) * 1000
        return float(np.percentile(took, 50)), float(np.percentile(took, 99))

    def close(self) -> None:
        """End the stream."""
        self._close()

    def _opened(self, schema: Any) -> Any:
        stream = self._stream  # its listener may drop it at any time
        if stream is None or stream[2] != schema:
            self._close()
            client = self.connection.open()
            named = flight.FlightDescriptor.for_path(ACT, self.producer, secrets.token_hex(8), *self.effectors)
            writer, reader = client.do_exchange(named, self.connection.options(None))
            writer.begin(schema)
            self._stream = stream = (client, writer, schema)
            self._listener = threading.Thread(target=self._listen, args=(reader, stream), daemon=True)
            self._listener.start()
        return stream[1]

    def _listen(self, reader: Any, stream: Any) -> None:
        try:
            while True:
                chunk = reader.read_chunk()
                told = chunk.app_metadata.to_pybytes()
                actions = (
                    {}
                    if chunk.data is None
                    else {name.removeprefix(EFFECTOR): numbers(chunk.data, name) for name in chunk.data.schema.names}
                )
                with self._changed:
                    self._answered, self._answer = NUMBER.unpack(told)[0], actions
                    self._changed.notify_all()
        except (StopIteration, pa.ArrowException, OSError, AttributeError, struct.error) as error:
            self._end(error, stream)

    def _end(self, error: Exception, stream: Any = None) -> None:
        """The present stream, or `stream` if it still is the present one, has failed."""
        with self._changed:
            if isinstance(error, flight.FlightServerError):
                self._refusal = reason(error)
            if stream in (None, self._stream):
                self._stream = None
            self._changed.notify_all()

    def _close(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            with suppress(pa.ArrowException, OSError):
                stream[1].done_writing()
            if self._listener is not None:
                self._listener.join(1.0)  # `close` would wait for its lock, and never say that this side is done
            with suppress(pa.ArrowException, OSError):
                stream[0].close()


class Pushing(gymnasium.Wrapper):
    """Pushes what happens in any Gymnasium environment of numeric spaces; a Dict's entries keep their names.

    Args:
        env: number of this environment among those of its producer.
        sense, effector: names of an observation and an action that are no Dict.
        step_s: seconds of a step on the Moments' clock.
    """

    def __init__(
        self,
        environment: gymnasium.Env,
        feed: Client,
        env: int = 0,
        *,
        sense: str = "body",
        effector: str = "push",
        step_s: float = 0.1,
    ) -> None:
        super().__init__(environment)
        self.feed, self.number, self.sense, self.effector, self.step_s = feed, env, sense, effector, step_s
        self._moment, self._tick = Moment(0.0), 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset the environment; its first Moment is pushed with the first action."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._tick, self._moment = 0, Moment(0.0, self._named(self.sense, observation), first=True)
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step the environment, and push the Moment with what was done in it; an episode's last Moment too."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        rows = [Row(self.number, self._moment, Action(self._named(self.effector, action)))]
        self._tick += 1
        self._moment = Moment(
            self._tick * self.step_s,
            self._named(self.sense, observation),
            float(reward),
            last=bool(terminated or truncated),
            terminal=bool(terminated),
        )
        if self._moment.last:
            rows.append(Row(self.number, self._moment, Action()))
        self.feed.push(rows)
        return observation, reward, terminated, truncated, info

    @property
    def row(self) -> Row:
        """The present Moment, to ask how to act (`Acting.act`)."""
        return Row(self.number, self._moment, Action())

    @staticmethod
    def _named(name: str, value: Any) -> dict[str, Any]:
        given: Mapping[str, Any] = value if isinstance(value, Mapping) else {name: value}
        return {key: one if isinstance(one, str) else np.array(one) for key, one in given.items()}
