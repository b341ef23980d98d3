"""Downloads over loopback: interrupted, resumed, changed at the source, refused."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from devmind.datasets.download import download
from devmind.errors import DevmindError

CONTENT = bytes(range(256)) * 1200
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture(autouse=True)
def one_file(server: Any) -> None:
    server.files["set.bin"] = CONTENT


def fetch(server: Any, folder: Path, **options: Any) -> Path:
    return download(server.url("set.bin"), folder / "set.bin", **{"sha256": SHA256, "pause_s": 0.0, **options})


def test_download_gives_the_whole_file_and_leaves_no_part(server: Any, tmp_path: Path) -> None:
    here: list[int] = []
    assert fetch(server, tmp_path / "new", progress=here.append).read_bytes() == CONTENT
    assert here == sorted(here)
    assert here[-1] == len(CONTENT)
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["set.bin"]


def test_download_resumes_from_the_last_byte(server: Any, tmp_path: Path) -> None:
    server.cuts = [100_000, 50_000]
    assert fetch(server, tmp_path).read_bytes() == CONTENT
    assert server.asked == [None, "bytes=100000-", "bytes=150000-"]


def test_part_is_kept_if_the_source_fails_and_the_next_call_resumes(server: Any, tmp_path: Path) -> None:
    server.cuts = [70_000, 0, 0]
    with pytest.raises(DevmindError, match=r"70,000 bytes are kept: the same command continues"):
        fetch(server, tmp_path, attempts=3)
    assert (tmp_path / "set.bin.part").read_bytes() == CONTENT[:70_000]
    assert not (tmp_path / "set.bin").exists()
    assert fetch(server, tmp_path).read_bytes() == CONTENT
    assert server.asked[-1] == "bytes=70000-"


def test_interruption_is_detected_without_a_content_length(server: Any, tmp_path: Path) -> None:
    """Without a Content-Length an interruption looks like the end: only the checksum shows it, and no file is made."""
    server.lengths, server.cuts = False, [1000]
    with pytest.raises(DevmindError, match="checksum"):
        fetch(server, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_server_without_ranges_sends_the_whole_file_again(server: Any, tmp_path: Path) -> None:
    server.ranges, server.cuts = False, [100_000]
    assert fetch(server, tmp_path).read_bytes() == CONTENT


def test_complete_part_is_not_downloaded_again(server: Any, tmp_path: Path) -> None:
    (tmp_path / "set.bin.part").write_bytes(CONTENT)
    assert fetch(server, tmp_path).read_bytes() == CONTENT
    assert server.asked == [f"bytes={len(CONTENT)}-"]


def test_part_longer_than_the_source_is_downloaded_again(server: Any, tmp_path: Path) -> None:
    (tmp_path / "set.bin.part").write_bytes(CONTENT + b"more")
    assert fetch(server, tmp_path).read_bytes() == CONTENT


def test_part_of_another_file_is_deleted_and_downloaded_again(server: Any, tmp_path: Path) -> None:
    (tmp_path / "set.bin.part").write_bytes(b"something else")
    assert fetch(server, tmp_path).read_bytes() == CONTENT
    assert server.asked == ["bytes=14-", None]


def test_wrong_checksum_keeps_no_file(server: Any, tmp_path: Path) -> None:
    with pytest.raises(DevmindError, match=r"gave a file with the checksum .* expected 000000000000\.\.\."):
        fetch(server, tmp_path, sha256="0" * 64)
    assert list(tmp_path.iterdir()) == []


def test_busy_server_is_asked_again(server: Any, tmp_path: Path) -> None:
    server.errors = [503, 429, 500]
    assert fetch(server, tmp_path).read_bytes() == CONTENT


def test_missing_file_is_reported_at_once(server: Any, tmp_path: Path) -> None:
    with pytest.raises(DevmindError, match="404 Not Found; see whether the source has moved"):
        download(server.url("gone.bin"), tmp_path / "gone.bin")
    assert len(server.asked) == 1


def test_missing_server_gives_a_clear_error(tmp_path: Path, server: Any) -> None:
    url = server.url("set.bin")
    server.shutdown()
    server.server_close()
    with pytest.raises(DevmindError, match=r"cannot be fetched \(.*refused\); 0 bytes are kept"):
        download(url, tmp_path / "set.bin", attempts=2, pause_s=0.0)


def test_unwritable_folder_gives_a_clear_error(server: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(DevmindError, match=r"Cannot write .*; free space or choose another --out"):
        fetch(server, tmp_path / "file")
