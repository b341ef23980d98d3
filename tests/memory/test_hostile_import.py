"""Importing a stranger's exported memory: every field is checked, and a bad file adds nothing."""

from __future__ import annotations

import io
import json
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from devmind.bounds import is_name, is_numeric, printable
from devmind.errors import StoreError
from devmind.memory import Entry, Store, open_store
from devmind.memory.payload import pack, unpack
from devmind.memory.portable import import_memory

GOOD: dict[str, Any] = {
    "time_s": 1e9, "importance": 0.5, "name": "cup", "recalled": 2, "recalled_s": 1e9, "encoders": {},
    "pointer": ["/a/b.mcap", 3, "recording/1"],
}  # fmt: skip
EMPTY = pack({"words": "said"})


def archive(path: Path, *abouts: dict[str, Any], payload: bytes = EMPTY, **head: Any) -> Path:
    """Write an exported memory of these entries."""
    with zipfile.ZipFile(path, "w") as file:
        for number, about in enumerate(abouts):
            inside: Any = {"about": json.dumps(about), "payload": np.frombuffer(payload, np.uint8)}
            file.writestr(f"entries/{number:012d}.zst", pack(inside))
        file.writestr("memory.json", json.dumps({"format": "devmind.memory/1", "entries": len(abouts)} | head))
    return path


def test_a_valid_archive_is_imported(tmp_path: Path) -> None:
    with open_store(None) as store:
        assert import_memory(store, archive(tmp_path / "a.zip", GOOD)).added == 1
        assert store.find()[0].name == "cup"


@pytest.mark.parametrize(
    "bad",
    [
        {"time_s": 1e300}, {"time_s": float("inf")}, {"time_s": float("nan")}, {"time_s": "1"}, {"time_s": True},
        {"importance": float("inf")}, {"importance": -1}, {"importance": None}, {"name": 5}, {"name": "x" * 3000},
        {"name": "a\nb"}, {"name": "a\0b"}, {"name": "\x1b]0;you\x07"}, {"name": "\u202eabc"}, {"name": ""},
        {"name": " cup"}, {"name": "\ud800"}, {"recalled": 1e30}, {"recalled": "x"}, {"recalled": -1},
        {"recalled": 2**80},
        {"recalled_s": float("inf")}, {"encoders": []}, {"encoders": 5}, {"encoders": {"sight": 5}},
        {"encoders": {"sight": "a"}}, {"pointer": "abc"}, {"pointer": ["a", 1]}, {"pointer": ["a\x1b", 1, "b"]},
        {"pointer": ["a", 2**70, "b"]}, {"pointer": ["a", -1, "b"]}, {"pointer": {"a": 1}},
    ],
)  # fmt: skip
def test_one_invalid_field_prevents_the_whole_import(bad: dict[str, Any], tmp_path: Path) -> None:
    path = archive(tmp_path / "a.zip", GOOD, GOOD | bad, GOOD | {"time_s": 2.0})
    with open_store(None) as store:
        with pytest.raises(StoreError) as told:
            import_memory(store, path)
        assert str(told.value).isprintable()
        assert len(str(told.value)) < 600
        assert store.sizes().entries == 0


def _deep(path: Path) -> None:
    archive(path, GOOD)
    with warnings.catch_warnings(), zipfile.ZipFile(path, "a") as file:
        warnings.simplefilter("ignore", UserWarning)
        file.writestr("memory.json", "[" * 100_000)


def _bomb(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file, file.open("memory.json", "w") as inside:
        for _ in range(300):
            inside.write(bytes(1 << 20))


def _method(path: Path) -> None:
    data = bytearray(archive(path, GOOD).read_bytes())
    for mark, place in ((b"PK\x01\x02", 10), (b"PK\x03\x04", 8)):
        at = data.find(mark)
        data[at + place : at + place + 2] = (99).to_bytes(2, "little")
    path.write_bytes(data)


def _encrypted(path: Path) -> None:
    data = bytearray(archive(path, GOOD).read_bytes())
    for mark, place in ((b"PK\x01\x02", 8), (b"PK\x03\x04", 6)):
        at = data.find(mark)
        data[at + place] |= 1
    path.write_bytes(data)


@pytest.mark.parametrize("make", [_deep, _bomb, _method, _encrypted])
def test_invalid_archives_are_refused(make: Callable[[Path], None], tmp_path: Path) -> None:
    make(tmp_path / "a.zip")
    with open_store(None) as store, pytest.raises(StoreError, match=r"damaged or no exported memory|unfold"):
        import_memory(store, tmp_path / "a.zip")


def test_a_payload_is_refused_by_the_size_that_it_declares() -> None:
    import zstandard

    for data in (zstandard.compress(bytes(200 << 20)), _stream(200)):
        with pytest.raises(StoreError, match="damaged"):
            unpack(data)
    assert unpack(EMPTY) == {"words": "said"}


def _stream(megabytes: int) -> bytes:
    import zstandard

    out = io.BytesIO()
    with zstandard.ZstdCompressor().stream_writer(out, closefd=False) as file:
        for _ in range(megabytes):
            file.write(bytes(1 << 20))
    return out.getvalue()


def test_an_import_that_fails_on_a_full_disk_removes_what_it_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("devmind.memory.portable.AT_ONCE", 2)
    path = archive(tmp_path / "a.zip", *(GOOD | {"time_s": float(number)} for number in range(5)))
    with open_store(None) as store:
        add = store.add
        calls: list[int] = []

        def refuse(entries: list[Entry]) -> list[int]:
            calls.append(len(entries))
            if len(calls) == 2:
                raise StoreError("The disk is full.")
            return add(entries)

        monkeypatch.setattr(store, "add", refuse)
        kept: Store = store
        with pytest.raises(StoreError, match="disk is full"):
            import_memory(kept, path)
        assert store.sizes().entries == 0


def test_printable_escapes_control_characters() -> None:
    assert printable("a\x1b[31mb\r\u202ec\n\td") == "a\\x1b[31mb\\r\\u202ec\n\td"
    assert printable("größe 火") == "größe 火"
    assert not is_name("a" * 201)
    assert is_numeric("<f4")
    assert not is_numeric("O")
