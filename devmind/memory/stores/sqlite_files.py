"""The files of the SQLite store: its write-ahead log, whether it is whole, and what must not be left on a disk.

SQLite silently treats a damaged log as shorter, which would lose acknowledged writes. So the frames are counted here
before SQLite sees them. If frames of this log (they carry its salt) lie behind the first wrong checksum, with a commit
among them, the log was once written whole. The format: https://www.sqlite.org/fileformat2.html#walformat. The checksum
s0 += x + s1, s1 += y + s0 over pairs of 32-bit words is linear, so all frames are summed at once. A killed process
leaves its wal-index (`-shm`) behind, which has the number of frames: it shows whether a log was cut off.

Frames beyond that number were never acknowledged: their writer was killed before reporting them. SQLite's next writer
starts over them, and would leave the rest of a longer write, whose checksums continue from overwritten frames, as if a
frame between had been damaged. So every writer first removes them from the log (`drop_untold`).

SQLite zeroes free pages (`secure_delete`), but truncates or deletes files as they are. Here the log is overwritten
before it is cut off, and a database is packed so that only zeros are cut off at its end. A process that opens the store
between any two steps, or after a power cut, finds it whole.
"""

from __future__ import annotations

import os
import sqlite3
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from devmind.erasing import overwrite

_HEAD, _FRAME_HEAD = 32, 24
_MAGIC = (0x377F0682, 0x377F0683)
OVERWRITTEN = b"devmind: this log is overwritten"
"""The head of a log while it is overwritten (`empty_log`): its whole content is in the database."""
_LOOKS, _BETWEEN_S = 4, 0.1
"""Another process may be writing the log now: only a log that looks damaged every time is damaged."""
_INDEX_HEAD = 100
_indexes: dict[tuple[int, int], int] = {}
"""Descriptors of wal-indexes by device and inode. Closing one would release SQLite's own locks on that file for every
connection of this process (POSIX), and others would believe that nobody has the store open. So they stay open until the
file is gone."""
_indexes_lock = threading.Lock()


def damaged_log(log: Path) -> str:
    """What is wrong with a log, a sentence; '' when it is whole, empty or not there."""
    fault = ""
    for look in range(_LOOKS):
        if look:
            time.sleep(_BETWEEN_S)
        try:
            index = _index(log)  # before the log: it must not be newer
            fault = _fault(_read(log), index)
        except FileNotFoundError:  # the store was just closed
            return ""
        if not fault:
            return ""
    return fault


def _read(file: Path) -> bytes:
    return file.read_bytes() if file.exists() else b""


def drop_untold(log: Path) -> None:
    """Remove from the log what a writer left that was killed between writing a transaction and reporting it.

    The caller must hold the database's write lock and not have written yet. The last frame goes first: a kill in
    between leaves frames without a commit at their end, which never count as damage.

    Raises:
        OSError: the disk refuses.
    """
    known_frames, _, salt = _known(_index(log))
    try:
        file = os.open(log, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        return
    try:
        head = os.pread(file, _HEAD, 0)
        if len(head) < _HEAD or not salt or head[16:24] != salt:  # the next frame belongs to another log
            return
        size = _FRAME_HEAD + int.from_bytes(head[8:12], "big")
        end = known_frames
        while os.pread(file, 8, _HEAD + end * size + 8) == salt:
            end += 1
        for frame in range(end - 1, known_frames - 1, -1):
            os.pwrite(file, bytes(_FRAME_HEAD), _HEAD + frame * size)
    finally:
        os.close(file)


def let_go() -> None:
    """Close the descriptors of deleted logs; to be called after closing a store."""
    with _indexes_lock:
        for key, file in list(_indexes.items()):
            if not os.fstat(file).st_nlink:  # nobody can have it open any more
                os.close(_indexes.pop(key))


def _index(log: Path) -> bytes:
    """The head of the wal-index of a log as all processes see it now; b"" without one."""
    path = log.with_name(log.name.removesuffix("-wal") + "-shm")
    with _indexes_lock:
        try:
            about = path.stat()
            file = _indexes.get((about.st_dev, about.st_ino))
            if file is None:
                file = os.open(path, os.O_RDONLY)
                about = os.fstat(file)
                _indexes[about.st_dev, about.st_ino] = file
        except FileNotFoundError:
            return b""
        return os.pread(file, _INDEX_HEAD, 0)


def _known(index: bytes) -> tuple[int, int, bytes]:
    """The content of a wal-index: frames committed, of these copied into the database, and the log's salt."""
    if len(index) < _INDEX_HEAD or index[:48] != index[48:96] or not index[12]:
        return 0, 0, b""
    committed, *_ = struct.unpack_from("=I", index, 16)
    copied, *_ = struct.unpack_from("=I", index, 96)
    return committed, copied, index[32:40]


def _fault(data: bytes, index: bytes = b"") -> str:
    if data.startswith(OVERWRITTEN[:4]):  # in place of the magic number; a fault may have cut the rest off
        return ""
    committed, copied, salt = _known(index)
    if len(data) < _HEAD + _FRAME_HEAD:
        return f"it should have {committed} frames and is empty" if committed > copied else ""
    magic, _, page, _, *_ = struct.unpack_from(">8I", data)
    if magic not in _MAGIC or not 512 <= page <= 65536 or page & (page - 1):
        return "its head is not that of a log"
    order = ">" if magic == _MAGIC[1] else "<"
    state = _sum_of_head(data[:24], order)
    if state != struct.unpack_from(">2I", data, 24):
        return "" if _begins_anew(data, order) else "its head is not as it was written"
    size = _FRAME_HEAD + page
    count = (len(data) - _HEAD) // size
    frames = np.frombuffer(data, np.uint8, count * size, _HEAD).reshape(count, size)
    heads = np.ascontiguousarray(frames[:, :_FRAME_HEAD]).view(">u4")
    matches = (heads[:, 2:4] == np.frombuffer(data, ">u4", 2, 16)).all(1)
    words = np.concatenate((frames[:, :8], frames[:, _FRAME_HEAD:]), axis=1).view(f"{order}u4")
    sums = _sums(words, state)
    right = matches & np.array([tuple(head[4:6]) == one for head, one in zip(heads.tolist(), sums, strict=True)], bool)
    whole = int(np.argmin(right)) if not right.all() else count
    if data[16:24] == salt and committed > max(whole, copied):
        return f"frame {whole + 1} of {committed} is not as it was written"
    if data[16:24] == salt and committed == whole:
        return ""  # later frames were written by a process killed before reporting them
    later = np.flatnonzero(matches[whole:] & (heads[whole:, 1] > 0))
    return f"frame {whole + 1} of {whole + int(later[-1]) + 1} is not as it was written" if len(later) else ""


def _sum_of_head(head: bytes, order: str) -> tuple[int, int]:
    return _sums(np.frombuffer(head, f"{order}u4", 6)[None], (0, 0))[0]


def _begins_anew(data: bytes, order: str) -> bool:
    """Whether half of the next log's head was written over this one's: that happens when all frames are in the
    database.

    The old head can then be restored: numbered one less, salted as its first frame, its checksum still there.
    """
    (number,) = struct.unpack_from(">I", data, 12)
    old = data[:12] + struct.pack(">I", (number - 1) & 0xFFFFFFFF) + data[_HEAD + 8 : _HEAD + 16]
    return _sum_of_head(old, order) == struct.unpack_from(">2I", data, 24)


def _sums(words: np.ndarray, state: tuple[int, int]) -> list[tuple[int, int]]:
    """The checksum after each row of words uint32 [n, 2 m], each continuing from the one before."""
    pairs = words.shape[1] // 2
    powers = [(1, 0, 0, 1)]  # of [[1, 1], [1, 2]], one pair's effect on (s0, s1)
    for _ in range(pairs):
        a, b, c, d = powers[-1]
        powers.append(tuple(x & 0xFFFFFFFF for x in (a + c, b + d, a + 2 * c, b + 2 * d)))  # type: ignore[arg-type]
    e, f, g, h = (np.array(column, np.uint32) for column in zip(*powers[pairs - 1 :: -1], strict=True))
    x, y = words[:, 0::2].astype(np.uint32), words[:, 1::2].astype(np.uint32)
    first, second = x, x + y  # a pair adds (x, x + y)
    added0 = (first * e + second * f).sum(1, dtype=np.uint32).tolist()
    added1 = (first * g + second * h).sum(1, dtype=np.uint32).tolist()
    a, b, c, d = powers[pairs]
    found, (s0, s1) = [], state
    for one, two in zip(added0, added1, strict=True):
        s0, s1 = (a * s0 + b * s1 + one) & 0xFFFFFFFF, (c * s0 + d * s1 + two) & 0xFFFFFFFF
        found.append((s0, s1))
    return found


_TRIES = 5


@contextmanager
def writing(database: sqlite3.Connection, log: Path | None) -> Iterator[sqlite3.Connection]:
    """A transaction that writes; rolled back when something is raised inside.

    Every write begins here, so that no writer overwrites what a killed one has left at the end of the log.

    Args:
        database: the connection.
        log: of its file; None for a database in RAM.

    Raises:
        sqlite3.Error: it cannot be begun or written.
        OSError: the disk refuses.
    """
    database.execute("BEGIN IMMEDIATE")
    try:
        if log is not None:
            drop_untold(log)
        yield database
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:  # a full disk has already rolled back
            database.execute("ROLLBACK")
        raise


def empty_log(database: sqlite3.Connection, log: Path) -> bool:
    """Copy the log into the database, overwrite it and cut it off; False while somebody reads or writes with it.

    Everything is in the database then, and nobody may write: readers use the database alone. A checkpoint must be the
    last event, or a reader could have begun on a newer part of the log; `data_version` tells.
    """
    for _ in range(_TRIES):
        (version,) = database.execute("PRAGMA data_version").fetchone()
        busy, _, _ = database.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()
        if busy:
            return False
        try:
            database.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise
            return False
        try:
            if database.execute("PRAGMA data_version").fetchone()[0] != version:
                continue
            _overwrite_log(log)
            return True
        finally:
            database.execute("ROLLBACK")
    return False


def _overwrite_log(log: Path) -> None:
    """The head first: SQLite ignores a log without a head, but would use the start of one without an end."""
    try:
        file = os.open(log, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        return
    try:
        if os.fstat(file).st_size:
            overwrite(file, OVERWRITTEN)
            os.ftruncate(file, 0)
    finally:
        os.close(file)


def pack_overwritten(database: sqlite3.Connection, log: Path) -> bool:
    """Rewrite the database without gaps, with zeros over its old content; False while another process reads.

    A packed file is shorter, and its end would be cut off as it is. So a table of zeros first makes it longer, and
    packing puts the table last: the end of the file is then zeros, and the second packing cuts off nothing else.
    """
    _empty_filler(database, log)
    (pages,) = database.execute("PRAGMA page_count").fetchone()
    (page,) = database.execute("PRAGMA page_size").fetchone()
    (held,) = database.execute("SELECT payload_bytes + key_bytes FROM state").fetchone()
    filler = max(0, pages - held // page) + 8  # so that the packed file is not shorter than this one
    with writing(database, log):
        database.execute("CREATE TABLE IF NOT EXISTS filler (zeros BLOB NOT NULL)")
        database.execute("INSERT INTO filler VALUES (zeroblob(?))", (filler * page,))
    try:
        database.execute("VACUUM")
        done = empty_log(database, log)
    finally:
        _empty_filler(database, log)
    if done:  # else the zeros are not in the file yet, and old content would be cut off
        database.execute("VACUUM")
        done = empty_log(database, log)
    return done


def _empty_filler(database: sqlite3.Connection, log: Path) -> None:
    """The table stays: without it all pages behind its first would move up, and the last one would be cut off."""
    if database.execute("SELECT 1 FROM sqlite_master WHERE name = 'filler'").fetchone():
        with writing(database, log):
            database.execute("DELETE FROM filler")


def size_of(file: Path) -> int:
    """A file's bytes; 0 when it does not exist."""
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0


def make_private(file: Path) -> bool:
    """An empty database file with rights 0600 (SQLite gives its log the same), in a folder made with 0700.

    Returns:
        whether it was made now; False when it existed.
    """
    folder = file.parent
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        folder.mkdir(mode=0o700)
        folder.chmod(0o700)  # whatever the umask
    except FileExistsError:  # also when another process made it at the same time
        if not folder.is_dir():
            raise
    try:
        os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        return False
    return True


def cut_off(file: Path) -> int:
    """The number of bytes missing at a database's end according to its head; only without a log.

    https://www.sqlite.org/fileformat2.html#the_database_header
    """
    with file.open("rb") as opened:
        head = opened.read(100)
    if len(head) < 100 or head[24:28] != head[92:96]:  # the head does not have the size
        return 0
    page = int.from_bytes(head[16:18], "big")
    wanted = int.from_bytes(head[28:32], "big") * (65536 if page == 1 else page)
    return max(0, wanted - file.stat().st_size)
