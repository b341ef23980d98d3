"""A lost database is reported, one that is being created is waited for, and large files keep no traces."""

from __future__ import annotations

import re
import shutil
import threading
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from devmind.errors import StoreError
from devmind.memory import open_store
from devmind.memory.payload import pack
from devmind.memory.stores.sqlite import FILE
from devmind.testing.stores import example

WAL = f"{FILE}-wal"


@pytest.mark.parametrize("gone", [True, False])
@pytest.mark.parametrize("mend", [True, False])
def test_a_log_without_its_database_is_kept(tmp_path: Path, gone: bool, mend: bool) -> None:
    with open_store(tmp_path / "m") as store:
        store.add([example(number) for number in range(4)])
        shutil.copytree(tmp_path / "m", tmp_path / "killed")
    file, log = tmp_path / "killed" / FILE, tmp_path / "killed" / WAL
    whole, data = file.read_bytes(), log.read_bytes()
    file.unlink()
    if not gone:
        file.write_bytes(b"")
    with pytest.raises(StoreError, match=r"missing or empty, and what its log .* would be lost.*backup"):
        open_store(tmp_path / "killed", mend=mend)
    assert (log.read_bytes(), file.exists()) == (data, not gone)
    file.write_bytes(whole)
    with open_store(tmp_path / "killed") as store:
        assert len(store.find()) == 4


def test_an_empty_database_is_not_taken_for_a_new_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("devmind.memory.stores.sqlite.MADE_WITHIN_S", 0.05)
    with open_store(tmp_path) as store:
        store.add([example(0)])
    (tmp_path / FILE).write_bytes(b"")
    with pytest.raises(StoreError, match=r"is empty, and a memory never is.*delete it to begin anew"):
        open_store(tmp_path)
    (tmp_path / FILE).unlink()
    with open_store(tmp_path) as store:
        assert store.find() == []


def test_opening_waits_for_a_database_that_another_process_is_creating(tmp_path: Path) -> None:
    with open_store(tmp_path / "other") as store:
        store.add([example(0)])
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / FILE).write_bytes(b"")

    def make() -> None:
        time.sleep(0.2)
        shutil.copy(tmp_path / "other" / FILE, tmp_path / "m" / "part")
        (tmp_path / "m" / "part").replace(tmp_path / "m" / FILE)

    other = threading.Thread(target=make)
    other.start()
    with open_store(tmp_path / "m") as store:
        assert len(store.find()) == 1
    other.join()


def traces(folder: Path, marks: Iterable[bytes]) -> list[bool]:
    """For each mark, whether one of the files holds it."""
    data = b"".join(file.read_bytes() for file in folder.iterdir())
    return [mark in data for mark in marks]


def test_a_file_too_large_to_pack_keeps_no_traces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Packing copies the whole file into RAM; without it, free pages are zeroed as they become free."""
    monkeypatch.setattr("devmind.memory.stores.sqlite.PACKED_BYTES", 0)
    chance = np.random.default_rng(0)
    with open_store(tmp_path) as store:
        ids = [number for n in range(0, 300, 20) for number in store.add([example(i) for i in range(n, n + 20)])]
        before = (tmp_path / FILE).stat().st_size
        for part in np.array_split(chance.permutation(ids)[:270], 6):
            entries = store.get(part.tolist())
            marks = [str(entry.senses["words"]).encode() for entry in entries]
            marks += [key.vector.tobytes() for entry in entries for key in entry.keys.values()]
            marks += [pack(entry.senses)[20:60] for entry in entries]
            assert all(traces(tmp_path, marks))
            store.delete(part.tolist())
            assert not any(traces(tmp_path, marks))
        assert (tmp_path / FILE).stat().st_size >= before  # it was not packed
        assert store.check() == []


def test_a_memory_copied_without_its_log_is_reported_until_mended(tmp_path: Path) -> None:
    """It was copied while open, without its log. It used to report "0 entries, all is well"."""
    for place, old in (("new", False), ("older", True)):
        if old:
            with open_store(tmp_path / place) as store:
                store.add([example(0, "a")])
        with open_store(tmp_path / place) as store:
            store.add([example(number, "a") for number in range(1, 4)])
            (tmp_path / f"{place}-copy").mkdir()
            shutil.copy(tmp_path / place / FILE, tmp_path / f"{place}-copy" / FILE)
        (tmp_path / f"{place}-checked").mkdir()
        shutil.copy(tmp_path / f"{place}-copy" / FILE, tmp_path / f"{place}-checked" / FILE)
        said = r"without its log 'memory.sqlite3-wal'.*Copy both"
        for _ in range(2):  # until it is mended
            with pytest.warns(UserWarning, match=said), open_store(tmp_path / f"{place}-checked") as store:
                (fault,) = store.check()
            assert re.search(said, fault)
        with open_store(tmp_path / f"{place}-checked", mend=True) as store:
            assert store.check(mend=True) == []
        with open_store(tmp_path / f"{place}-checked") as store:
            assert store.check() == []
        with open_store(tmp_path / f"{place}-copy", mend=True) as store:
            assert store.sizes().entries == old
        with open_store(tmp_path / place) as store:  # a memory that was closed properly may be copied alone
            assert store.sizes().entries == 3 + old
        (tmp_path / f"{place}-whole").mkdir()
        shutil.copy(tmp_path / place / FILE, tmp_path / f"{place}-whole" / FILE)
        with open_store(tmp_path / f"{place}-whole") as one, open_store(tmp_path / f"{place}-whole") as other:
            assert one.sizes() == other.sizes()
            one.close()  # not the last connection
            other.add([example(9, "a")])
        with open_store(tmp_path / f"{place}-whole") as store:
            assert store.sizes().entries == 4 + old
