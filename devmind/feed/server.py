"""The server of a feed (Arrow Flight): takes experience, acknowledges it when it is synced, and gives actions.

Every call needs the token; beyond this machine TLS too. What a producer sends goes through a bounded queue to one
thread, which appends all that has arrived and syncs once (group commit). Refusals are sentences; Flight would send any
other exception with the server's traceback.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
import struct
import threading
import time
import traceback
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import flight

from devmind.bounds import is_name, parse_json, printable, read_file, read_text
from devmind.checkpointing.files import explain_os_errors
from devmind.errors import CheckpointError, DevmindError, FeedError
from devmind.feed import spool as files
from devmind.feed.schema import EFFECTOR, SENSE, check_batch, check_schema, encode, numbers, tensor_column
from devmind.feed.spool import Frame, Spool, check_producer

NUMBER = struct.Struct("<Q")
"""The application metadata of a message: its sequence number, and in `act` the number of the question."""
SCHEME, PUSH, ACT = "Bearer ", "push", "act"
LARGEST_BYTES, QUEUE_BYTES, QUOTA_BYTES = 16 << 20, 64 << 20, 24 << 20
"""The largest batch; what waits to be written, of all producers and of one."""
STREAMS, PRODUCERS = 64, 1024
"""Streams that are open at once, and producers of one spool."""
BEAT_S = 2.0
"""Pause after which a stream that has nothing to acknowledge says why."""
BEHIND_S = 0.05
"""Pause between two looks at how far readers are."""

Policy = Callable[[Mapping[str, Any], np.ndarray], Mapping[str, np.ndarray]]
"""`(senses [N, ...], first bool [N]) -> actions [N, ...]`, for the rows of one stream."""


@dataclass
class Limits:
    """What the server takes; `ahead_bytes`: how far the spool may be ahead of its slowest reader, and `rate_bytes`: how
    much of one producer a second, on the average; None: any."""

    largest_bytes: int = LARGEST_BYTES
    queue_bytes: int = QUEUE_BYTES
    quota_bytes: int = QUOTA_BYTES
    streams: int = STREAMS
    ahead_bytes: int | None = None
    rate_bytes: int | None = None


@dataclass
class Producer:
    """A producer that has connected since the server began.

    Attributes:
        owner: number of the process that may send: the last that said hello; 0 before that.
        turn: number of its streams so far; only the newest goes on.
        taken, durable: the last sequence numbers that were queued, and that are on the disk.
        queued_bytes: of its batches in the queue.
        due_s: when its next batch is taken, by `time.monotonic()`.
    """

    owner: int = 0
    turn: int = 0
    taken: int = 0
    durable: int = 0
    queued_bytes: int = 0
    due_s: float = 0.0


@dataclass
class Counts:
    """What happened since the server began: for `devmind feed status`."""

    refused: int = 0
    doubles: int = 0
    syncs: int = 0
    answers: int = 0
    unanswered: int = 0
    took_s: deque[float] = field(default_factory=lambda: deque(maxlen=10_000))


class _Guard(flight.ServerMiddlewareFactory):
    """Lets in who knows the token, before anything that was sent is read."""

    def __init__(self, token: str) -> None:
        self.expected = (SCHEME + token).encode()

    def start_call(self, info: Any, headers: Mapping[str, list[Any]]) -> None:
        given = next((value for name, [*_, value] in headers.items() if name.lower() == "authorization"), "")
        given = given.encode("utf-8", "replace") if isinstance(given, str) else given
        if not hmac.compare_digest(given, self.expected):
            raise flight.FlightUnauthenticatedError("The feed expects its token; this one is missing or wrong.")


class FeedServer(flight.FlightServerBase):
    """Serves one spool.

    Args:
        folder: of the spool.
        address: "HOST:PORT"; port 0 takes any free one.
        token: file with the token; by default `token` in the spool's folder, made if it is missing.
        tls: files with the certificate (chain) and its key, in PEM.
        make_policy: gives the policy of a new stream of `act`, by the effectors it wants (none: all that there are);
            None: nobody acts.

    Raises:
        FeedError: the address is beyond this machine and there is no TLS or no token of the user's own; or the spool
            cannot be written.
    """

    def __init__(
        self,
        folder: Path,
        address: str = "127.0.0.1:0",
        *,
        token: Path | None = None,
        tls: tuple[Path, Path] | None = None,
        make_policy: Callable[[tuple[str, ...]], Policy] | None = None,
        limits: Limits | None = None,
    ) -> None:
        host = address.rpartition(":")[0].strip("[]")
        if not _is_loopback(host) and (tls is None or token is None):
            raise FeedError(
                f"A feed at '{address}' can be reached from other machines, so it needs TLS and a token: give --token "
                "FILE, --cert FILE and --key FILE, or serve at 127.0.0.1."
            )
        self.limits, self.make_policy, self.counts = limits or Limits(), make_policy, Counts()
        self.spool = Spool(folder)
        self.producers = {
            name: Producer(taken=line.sequence, durable=line.sequence) for name, line in self.spool.lines.items()
        }
        self.failure, self.waits = "", ""
        self._queue: deque[Frame] = deque()
        self._queued_bytes, self._open_streams, self._stopping = 0, 0, False
        lock = threading.RLock()
        self._changed = threading.Condition(lock)
        self._arrived = threading.Condition(lock)  # the writer's alone: a batch wakes nobody else
        self._acting = threading.Lock()
        self.token_file = token or self.spool.folder / "token"
        self._writer = threading.Thread(target=self._write, name="feed-writer", daemon=True)
        try:
            secret = _token(self.token_file, make=token is None)
            pem = [(read_file(tls[0], FeedError), read_file(tls[1], FeedError))] if tls else None
            with _explain(address):
                super().__init__(
                    f"grpc{'+tls' if tls else ''}://{address}",
                    tls_certificates=pem,
                    middleware={"guard": _Guard(secret)},
                )
        except BaseException:
            self.spool.close()
            raise
        self._writer.start()

    def stop(self) -> None:
        """Refuse what comes, store what is queued, and end."""
        with self._changed:
            self._stopping = True
            self._arrived.notify()
            self._changed.notify_all()
        self._writer.join()
        # Flight waits for streams whose other side says nothing, so it gets a second.
        ending = threading.Thread(target=self.shutdown, daemon=True)
        ending.start()
        ending.join(1.0)
        if ending.is_alive():  # else pyarrow waits again, for ever, when Python ends or collects this server
            for one in list(weakref.finalize._registry):  # type: ignore[attr-defined]
                if (found := one.peek()) and found[0] is self:
                    one.detach()
        self.spool.close()

    # -- push ----------------------------------------------------------------------------------------------------------

    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        """A producer's batches, each with its sequence number; answered by JSON with `durable` and `waits`."""
        with _refusals(self.counts), self._stream():
            name, owner, *_ = self._named(descriptor, PUSH)
            self._receive(name, _owner(owner), reader, writer)

    def _receive(self, name: str, owner: int, reader: Any, writer: Any) -> None:
        check_schema(reader.schema)
        with self._changed:
            producer = self._producer(name)
            if producer.owner not in (0, owner):
                raise FeedError(_taken_over(name))
            producer.owner, producer.turn = owner, producer.turn + 1
            turn = producer.turn
        over = threading.Event()
        acknowledging = threading.Thread(target=self._acknowledge, args=(producer, turn, writer, over), daemon=True)
        acknowledging.start()
        try:
            for chunk in reader:
                if self._stopping:
                    return
                self._take(name, producer, (owner, turn), chunk)
            with self._changed:  # what was queued is acknowledged before the stream ends
                while producer.durable < producer.taken and producer.turn == turn and not self._stopping:
                    self._changed.wait(BEAT_S)
        finally:
            over.set()
            with self._changed:
                self._changed.notify_all()
            acknowledging.join()

    def _take(self, name: str, producer: Producer, sender: tuple[int, int], chunk: Any) -> None:
        owner, turn = sender
        if chunk.data is None or chunk.app_metadata is None or len(chunk.app_metadata) != NUMBER.size:
            raise FeedError(f"A message of the feed is a batch with its number in {NUMBER.size} bytes of metadata.")
        [sequence], batch = NUMBER.unpack(chunk.app_metadata.to_pybytes()), chunk.data
        if batch.nbytes > self.limits.largest_bytes:
            raise FeedError(
                f"A batch has {batch.nbytes:,} bytes; this feed takes {self.limits.largest_bytes:,} at most: push "
                "fewer rows at once."
            )
        check_batch(batch)
        frame = Frame(name, sequence, batch.num_rows, encode(batch), owner)
        with self._changed:
            while producer.turn == turn and not self._stopping and (pause_s := self._pause_s(producer)) > 0:
                self._changed.wait(pause_s)
            if producer.turn != turn:
                raise FeedError(_taken_over(name))
            if self._stopping:
                return  # neither stored nor acknowledged: its producer sends it again
            if sequence <= producer.taken:
                self.counts.doubles += 1
                return
            if sequence > producer.taken + 1:
                raise FeedError(f"Batch {producer.taken + 1:,} of '{name}' was expected; got {sequence:,}.")
            producer.taken = sequence
            producer.queued_bytes += len(frame.body)
            self._queued_bytes += len(frame.body)
            if self.limits.rate_bytes:
                producer.due_s = max(producer.due_s, time.monotonic()) + len(frame.body) / self.limits.rate_bytes
            self._queue.append(frame)
            self._arrived.notify()

    def _pause_s(self, producer: Producer) -> float:
        """For how long its next batch waits before one looks again."""
        if self._queued_bytes >= self.limits.queue_bytes or producer.queued_bytes >= self.limits.quota_bytes:
            return BEAT_S
        return min(producer.due_s - time.monotonic(), BEAT_S)

    def _acknowledge(self, producer: Producer, turn: int, writer: Any, over: threading.Event) -> None:
        """Say what is on the disk whenever that changes, and now and then why it does not."""
        told = -1
        while True:
            with self._changed:
                if producer.durable == told and not over.is_set() and producer.turn == turn:
                    self._changed.wait(BEAT_S)
                ends = over.is_set() or producer.turn != turn
                durable, waits = producer.durable, self.failure or self.waits
                if not waits and producer.due_s > time.monotonic():
                    waits = f"This feed takes {self.limits.rate_bytes:,} bytes a second of each producer."
            if durable != told or not ends:
                try:
                    writer.write(pa.py_buffer(json.dumps({"durable": durable, "waits": waits}).encode()))
                except (pa.ArrowException, OSError):
                    return  # the producer is gone; it asks again when it comes back
            if ends:
                return
            told = durable

    def _write(self) -> None:
        """Append and sync what has arrived, until the server stops."""
        while True:
            with self._changed:
                while not self._queue and not self._stopping:
                    self._arrived.wait()
                if not self._queue:
                    return
            if self._is_too_far_ahead() and not self._stopping:
                time.sleep(BEHIND_S)
                continue
            with self._changed:
                frames = list(self._queue)
            try:
                self.spool.append(frames)
            except CheckpointError as error:  # nothing was acknowledged, so it is tried again; producers keep it too
                with self._changed:
                    self.failure = str(error)
                    self._changed.notify_all()
                    if self._stopping:
                        return
                    self._changed.wait_for(lambda: self._stopping, BEAT_S / 2)
                continue
            with self._changed:
                self.failure = ""
                self.counts.syncs += 1
                for frame in frames:
                    self._queue.popleft()
                    producer, size = self.producers[frame.producer], len(frame.body)
                    producer.durable, producer.queued_bytes = frame.sequence, producer.queued_bytes - size
                    self._queued_bytes -= size
                self._changed.notify_all()

    def _is_too_far_ahead(self) -> bool:
        if (most := self.limits.ahead_bytes) is None:
            return False
        ahead = self.spool.end - (self.spool.slowest_reader() or 0)
        self.waits = f"The slowest reader is {ahead:,} bytes behind, and {most:,} are allowed." if ahead > most else ""
        return bool(self.waits)

    def _producer(self, name: str) -> Producer:
        if name not in self.producers and len(self.producers) >= PRODUCERS:
            raise FeedError(f"A spool takes {PRODUCERS:,} producers; serve another one for '{name}'.")
        return self.producers.setdefault(name, Producer())

    # -- act -----------------------------------------------------------------------------------------------------------

    def do_exchange(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        """Moments in, actions out, one message each. A message's metadata is its number and the milliseconds for which
        its answer is of use; later ones get "no answer", which is a message without a batch."""
        with _refusals(self.counts), self._stream():
            _, _, *effectors = self._named(descriptor, ACT)
            if self.make_policy is None:
                raise FeedError("Nobody acts here: start the feed with an agent ('devmind feed serve --agent DIR').")
            check_schema(reader.schema)
            policy, began = self.make_policy(tuple(effectors)), False
            for chunk in reader:
                if self._stopping:
                    return
                arrived_s = time.monotonic()
                number, within_ms = struct.unpack("<QQ", chunk.app_metadata.to_pybytes())
                answer = self._answer(policy, chunk.data, arrived_s + within_ms / 1000)
                self.counts.took_s.append(time.monotonic() - arrived_s)
                if answer is None:
                    writer.write_metadata(pa.py_buffer(NUMBER.pack(number)))
                    continue
                if not began:
                    writer.begin(answer.schema)
                    began = True
                writer.write_with_metadata(answer, pa.py_buffer(NUMBER.pack(number)))

    def _answer(self, policy: Policy, batch: Any, until_s: float) -> Any:
        """The actions as a batch with columns `effector.NAME`; None after the time is up."""
        check_batch(batch)
        names = [name for name in batch.schema.names if name.startswith(SENSE)]
        senses = {name.removeprefix(SENSE): numbers(batch, name) for name in names}
        if self._acting.acquire(timeout=max(0.0, until_s - time.monotonic())):
            try:
                actions = policy(senses, numbers(batch, "first"))
            finally:
                self._acting.release()
            if time.monotonic() <= until_s:
                self.counts.answers += 1
                return _actions(actions)
        self.counts.unanswered += 1
        return None

    # -- the rest ------------------------------------------------------------------------------------------------------

    def do_action(self, context: Any, action: Any) -> list[Any]:
        """`hello` (a producer begins, and learns its last sequence number), `status`, `position` (a reader's place)."""
        asked = parse_json(action.body.to_pybytes() or b"{}", FeedError, "An action of the feed is JSON ({}).")
        asked = asked if isinstance(asked, dict) else {}
        try:
            match action.type:
                case "hello":
                    return [json.dumps(self._hello(asked)).encode()]
                case "status":
                    return [json.dumps(self.status()).encode()]
                case "position":
                    files.report_position(self.spool.folder, _reader(asked.get("reader")), int(asked["position"]))
                    return []
        except (DevmindError, KeyError, TypeError, ValueError, OverflowError) as error:
            return [json.dumps({"refused": _sentence(error)}).encode()]
        raise flight.FlightServerError("A feed knows the actions hello, status and position.")

    def _hello(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        name, owner, first = (
            check_producer(asked.get("producer")),
            _owner(asked.get("owner")),
            int(asked.get("first", 0)),
        )
        with self._changed:
            producer = self._producer(name)
            line = self.spool.lines.get(name)
            # What it has not heard of being stored was stored: by another process, under its numbers.
            if line and line.owner != owner and 0 < first <= line.sequence:
                raise FeedError(_taken_over(name))
            if producer.owner != owner:  # the newest connection is the producer: the old one may be half open
                producer.owner, producer.turn = owner, producer.turn + 1
            self._changed.notify_all()
            while (
                producer.durable < producer.taken and not self.failure and not self._stopping
            ):  # of the connection before
                self._changed.wait(BEAT_S)
            return {"durable": producer.durable, "largest": self.limits.largest_bytes}

    def do_get(self, context: Any, ticket: Any) -> Any:
        """The spool's frames from a position on, as they stand on the disk, each with the position behind it."""
        with _refusals(self.counts):
            position = int(parse_json(ticket.ticket, FeedError, "A ticket is a position ({})."))
            schema = pa.schema([("after", pa.uint64()), ("frame", pa.large_binary())])
            return flight.GeneratorStream(schema, self._frames(position, schema))

    def _frames(self, position: int, schema: Any) -> Iterator[Any]:
        with _refusals(self.counts):
            for after, frame in files.read(self.spool.folder, position):
                content = files.frame_bytes(frame)
                yield pa.record_batch([[after], pa.array([content], pa.large_binary())], schema=schema)

    def status(self) -> dict[str, Any]:
        """Rows and bytes by producer, how far readers are, and counts."""
        took = np.array(list(self.counts.took_s) or [0.0]) * 1000
        with self._changed:
            lines = {
                name: {"sequence": line.sequence, "rows": line.rows, "bytes": line.bytes}
                for name, line in self.spool.lines.items()
            }
            return {
                "producers": lines,
                "rows": self.spool.rows,
                "end": self.spool.end,
                "readers": dict(files.reader_positions(self.spool.folder)),
                "open": self._open_streams,
                "queued_bytes": self._queued_bytes,
                "waits": self.failure or self.waits,
                "doubles": self.counts.doubles,
                "refusals": self.counts.refused,
                "syncs": self.counts.syncs,
                "answers": self.counts.answers,
                "unanswered": self.counts.unanswered,
                "p50_ms": float(np.percentile(took, 50)),
                "p99_ms": float(np.percentile(took, 99)),
            }

    def _named(self, descriptor: Any, kind: str) -> list[str]:
        """Producer and connection of a stream, and what follows them in its name."""
        path = [part.decode("utf-8", "replace") for part in descriptor.path or []]
        if len(path) < 3 or path[0] != kind:
            raise FeedError(f"A stream is named '{kind}', its producer and its connection; got {path[:4]}.")
        return [check_producer(path[1]), *path[2:]]

    @contextmanager
    def _stream(self) -> Iterator[None]:
        """A place among the open streams."""
        with self._changed:
            if self._open_streams >= self.limits.streams:
                most = f"{self.limits.streams} streams are open, which is the most; come back later."
                raise flight.FlightUnavailableError(most)  # clients try again
            self._open_streams += 1
        try:
            yield
        finally:
            with self._changed:
                self._open_streams -= 1


@contextmanager
def _refusals(counts: Counts) -> Iterator[None]:
    """End a stream with a sentence. Any exception but ours is the server's own fault: it is printed here, and the other
    side learns its name alone.

    The sentence is the call's status: after a failed write Flight drops what was not read, a last message too.
    """
    try:
        yield
    except flight.FlightUnavailableError:
        counts.refused += 1
        raise
    except pa.ArrowInvalid:
        counts.refused += 1
        raise flight.FlightServerError("A message of the feed is damaged: it is no batch of Arrow.") from None
    except (flight.FlightError, pa.ArrowException, OSError):
        pass  # the other side has gone, in the middle of a message or not
    except Exception as error:
        counts.refused += 1
        if not isinstance(error, DevmindError):
            traceback.print_exc()
        raise flight.FlightServerError(_sentence(error)) from None


def _sentence(error: Exception) -> str:
    return (
        printable(str(error))
        if isinstance(error, DevmindError)
        else f"The feed cannot do that: {type(error).__name__}."
    )


def _owner(given: Any) -> int:
    """The number of a producer's process, which it has drawn."""
    if not (isinstance(given, str) and given.isdecimal() and 0 < int(given[:20]) < 1 << 64):
        raise FeedError(f"The number of a producer's process is between 1 and 2^64; got {str(given)[:80]!r}.")
    return int(given)


def _taken_over(name: str) -> str:
    return f"Another connection has taken over as '{name}'; give each process a producer's name of its own."


def _reader(name: object) -> str:
    if not (is_name(name, 64) and str(name).replace("-", "").replace("_", "").isalnum()):
        raise FeedError(f"A reader's name has letters, digits, - and _; got {str(name)[:80]!r}.")
    return str(name)


def _actions(actions: Mapping[str, np.ndarray]) -> Any:
    columns = {EFFECTOR + name: tensor_column(np.asarray(value)) for name, value in actions.items()}
    return pa.record_batch(list(columns.values()), names=list(columns))


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _token(path: Path, make: bool) -> str:
    """The token in a file, which only its owner may read."""
    if make and not path.exists():
        with explain_os_errors(path), open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(32))
    return read_token(path)


def read_token(path: Path) -> str:
    """The token in a file, of at least 16 characters."""
    token = read_text(path, FeedError, 4096).strip()
    if len(token) < 16 or not token.isascii() or not token.isprintable():
        raise FeedError(f"'{path}' holds no token: one line of at least 16 printable ASCII characters is expected.")
    return token


@contextmanager
def _explain(address: str) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        why = printable(str(error).splitlines()[0][:200])
        raise FeedError(f"A feed cannot be served at '{address}': {why}") from error
