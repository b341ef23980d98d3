"""`devmind data`: the catalogue, and sets fetched from a loopback source into the layout of a data folder."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import subprocess
import tarfile
import wave
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from devmind.config import RunConfig
from devmind.datasets import CATALOGUE, find, get
from devmind.datasets.catalogue import DataSet, Remote
from devmind.datasets.fetch import digest
from devmind.datasets.layout import LAYOUT, kinds_in
from devmind.errors import DevmindError, ExamError
from devmind.sessions.spoken import clips
from devmind.sessions.written import has_pictures, pictures
from stages.language.read.corpus import corpus
from stages.reasoning.connect4.positions import rated_positions
from stages.reasoning.sliding.exam import FIFTEEN_FILE
from stages.voice.sounds.recorded import read_recordings


def packed(files: Mapping[str, bytes], top: str = "repository-abc123") -> bytes:
    """A tar.gz as a source packs a repository: one folder around all files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for path, content in files.items():
            member = tarfile.TarInfo(f"{top}/{path}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


Offer = Callable[..., None]


@pytest.fixture
def offer(server: Any, monkeypatch: pytest.MonkeyPatch) -> Offer:
    """Serve a set of the catalogue from the loopback server: `offer("fsdd", {"archive.tar.gz": ...}, digest)`."""

    def place(name: str, files: Mapping[str, bytes], contents_sha256: str | None = None, pinned: bool = False) -> None:
        server.files.update(files)
        remotes = [
            Remote(key, server.url(key), len(content), hashlib.sha256(content).hexdigest() if pinned else None)
            for key, content in files.items()
        ]
        item = replace(find(name), files=tuple(remotes), contents_sha256=contents_sha256)
        monkeypatch.setattr("devmind.datasets.catalogue.CATALOGUE", (item,))

    return place


@pytest.mark.parametrize("item", CATALOGUE, ids=lambda item: item.name)
def test_every_byte_of_every_set_is_pinned_and_covered_by_a_checksum(item: DataSet) -> None:
    assert item.contents_sha256 or all(file.sha256 for file in item.files)
    for file in item.files:
        assert file.url.startswith(("https://raw.githubusercontent.com/", "https://codeload.github.com/"))
        assert any(len(part) == 40 for part in file.url.split("/")), "not pinned to a commit"
    assert len({file.name for file in item.files}) == len(item.files)
    assert item.licence
    assert item.about


def test_spoken_digits_are_stored_where_exams_look(offer: Offer, tmp_path: Path) -> None:
    takes = {"recordings/3_theo_0.wav": b"three", "recordings/7_lucas_12.wav": b"seven"}
    expected = {f"speech/fsdd/{path[11:]}": content for path, content in takes.items()}
    offer("fsdd", {"archive.tar.gz": packed({**takes, "README.md": b"x", "../../evil.wav": b"x"})}, digest(expected))
    got = get("fsdd", tmp_path)
    assert not got.already
    assert {path: (tmp_path / path).read_bytes() for path in got.paths} == expected
    assert {path.name for path in tmp_path.iterdir()} == {"speech", ".sets"}, "downloads are removed"


def test_sounds_are_sorted_by_the_table_of_the_set(offer: Offer, tmp_path: Path) -> None:
    table = (
        "filename,fold,target,category,esc10,src_file,take\n1-A-0.wav,1,0,dog,True,1,A\n1-B-3.wav,1,3,cow,False,1,B\n"
    )
    files = {"meta/esc50.csv": table.encode(), "audio/1-A-0.wav": b"bark", "audio/1-B-3.wav": b"moo"}
    offer("esc10", {"archive.tar.gz": packed(files)}, digest({"sounds/esc10/dog/1-A-0.wav": b"bark"}))
    assert get("esc10", tmp_path).paths == ("sounds/esc10/dog/1-A-0.wav",)


def test_digits_become_one_shuffled_file_of_pictures(offer: Offer, tmp_path: Path) -> None:
    def picture(digit: int) -> list[float]:
        return [digit / 255, *[0.0] * 782, 1.0]

    files = {f"{digit}.json": json.dumps({"data": picture(digit) * (digit + 1)}).encode() for digit in range(10)}
    offer("mnist", files, pinned=True)
    get("mnist", tmp_path)
    with np.load(tmp_path / "images" / "mnist_10k.npz") as made:
        images, labels = made["images"], made["labels"]
    assert images.shape == (55, 28, 28)
    assert images.dtype == labels.dtype == np.uint8
    assert np.array_equal(np.bincount(labels), np.arange(1, 11))
    assert np.array_equal(images[:, 0, 0], labels), "each picture carries its digit in the first pixel"
    assert (images[:, -1, -1] == 255).all()
    assert not np.array_equal(labels, np.sort(labels))


def test_second_get_changes_nothing_and_downloads_nothing(offer: Offer, server: Any, tmp_path: Path) -> None:
    offer("tinyshakespeare", {"tinyshakespeare.txt": b"To be"}, pinned=True)
    get("tinyshakespeare", tmp_path)
    server.asked.clear()
    assert get("tinyshakespeare", tmp_path).already
    assert server.asked == []
    (tmp_path / "text" / "tinyshakespeare.txt").write_text("damaged")
    assert not get("tinyshakespeare", tmp_path).already
    assert (tmp_path / "text" / "tinyshakespeare.txt").read_bytes() == b"To be"


def test_unexpected_contents_are_not_stored(offer: Offer, tmp_path: Path) -> None:
    offer("fsdd", {"archive.tar.gz": packed({"recordings/3_theo_0.wav": b"changed"})}, "0" * 64)
    with pytest.raises(DevmindError, match="other contents than expected"):
        get("fsdd", tmp_path)
    assert not (tmp_path / "speech").exists()
    assert not list(tmp_path.glob("**/*.tar.gz")), "a wrong archive must not be used again"


@pytest.mark.parametrize("is_cut", [True, False])
def test_damaged_archive_gives_a_clear_error_and_is_not_used_again(offer: Offer, tmp_path: Path, is_cut: bool) -> None:
    rng = np.random.default_rng(0)
    content = rng.integers(0, 9, 99_999, np.uint8).tobytes()
    whole = packed({"recordings/3_theo_0.wav": content})
    at = len(whole) // 2
    damaged = whole[:at] if is_cut else whole[:at] + rng.bytes(at)
    expected = digest({"speech/fsdd/3_theo_0.wav": content})
    offer("fsdd", {"archive.tar.gz": damaged}, expected)
    with pytest.raises(DevmindError, match=r"archive .* is damaged"):
        get("fsdd", tmp_path)
    offer("fsdd", {"archive.tar.gz": whole}, expected)
    assert get("fsdd", tmp_path).paths == ("speech/fsdd/3_theo_0.wav",)


@pytest.mark.skipif(not shutil.which("sha256sum"), reason="needs sha256sum of coreutils")
def test_digest_equals_that_of_the_sha256sum_listing(tmp_path: Path) -> None:
    contents = {"b/2.wav": b"two", "a.wav": b"one", "b/1.wav": b""}
    for path, content in contents.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_bytes(content)
    listing = subprocess.run(["sha256sum", *sorted(contents)], cwd=tmp_path, capture_output=True, check=True).stdout
    assert digest(contents) == hashlib.sha256(listing).hexdigest()


def test_catalogue_pins_the_recordings_of_this_project(data_folder: Path) -> None:
    """Files that the catalogue pins by checksum equal those in the folder of real recordings, byte for byte."""
    pinned = {f"text/{f.name}": f.sha256 for f in find("tinyshakespeare").files}
    pinned |= {f"video/{f.name}": f.sha256 for f in find("videos").files}
    for path, sha256 in pinned.items():
        assert hashlib.sha256((data_folder / path).read_bytes()).hexdigest() == sha256


def test_get_prints_its_result_and_the_next_command(devmind: Any, offer: Offer) -> None:
    offer("tinyshakespeare", {"tinyshakespeare.txt": b"To be"}, pinned=True)
    first, second = devmind("data", "tinyshakespeare"), devmind("data", "tinyshakespeare")
    assert first.exit_code == second.exit_code == 0
    assert "1 file fetched and verified" in first.output
    assert "--data: data" in first.output
    assert "already" in second.output


def fill(folder: Path) -> None:
    """One file of every kind of LAYOUT."""
    for part in ("images", "speech/own", "sounds/own/dog", "text", "games/connect4", "puzzles"):
        (folder / part).mkdir(parents=True)
    np.savez(folder / "images" / "own.npz", images=np.zeros((1, 8, 8), np.uint8), labels=np.zeros(1, np.uint8))
    for path in ("speech/own/3_theo_0.wav", "sounds/own/dog/bark.wav"):
        with wave.open(str(folder / path), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(16_000)
            file.writeframes(np.full(16_000, 999, "<i2").tobytes())
    (folder / "text" / "own.txt").write_text("To be " * 400)
    (folder / "games" / "connect4" / "L2_R2.tsv").write_text("4455\t2\t-2,1,2,0,x,1,0\n")
    (folder / "puzzles" / "puzzle15.tsv").write_text(" ".join(map(str, range(16))) + "\t0\n")


def test_layout_is_what_the_stages_read(tmp_path: Path) -> None:
    fill(tmp_path)
    assert kinds_in(tmp_path) == list(LAYOUT)
    assert has_pictures(tmp_path)
    assert clips(tmp_path) is not None
    assert read_recordings(tmp_path) is not None
    context = SimpleNamespace(data=tmp_path, config=RunConfig())
    assert corpus(cast(Any, context)).source == "own.txt"
    assert rated_positions(tmp_path, 1, 0)[0].name == "L2_R2"
    assert (tmp_path / FIFTEEN_FILE).is_file()


def test_capitals_and_a_macs_companions_change_nothing(tmp_path: Path) -> None:
    """Field recorders write .WAV: such clips were left out without a word. A Mac's companions were read as data."""
    fill(tmp_path)
    read = clips(tmp_path)
    assert read is not None
    other = tmp_path.with_name("other")
    for file in [file for file in tmp_path.rglob("*") if file.is_file()]:
        place = other / file.relative_to(tmp_path)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.with_suffix(file.suffix.upper()).write_bytes(file.read_bytes())
        for companion in (f"._{file.name}", f".{file.name}"):
            place.with_name(companion).write_bytes(b"\0\5\x16\7\0\2\0\0Mac OS X        ")
    (other / "sounds" / "house" / "dog" / "folder.wav").mkdir(parents=True)
    assert kinds_in(other) == list(LAYOUT)
    assert has_pictures(other)
    again = clips(other)
    assert again is not None
    assert np.array_equal(again.waves, read.waves)
    assert list(again.speakers) == list(read.speakers)
    sounds, other_sounds = read_recordings(tmp_path), read_recordings(other)
    assert sounds is not None
    assert other_sounds is not None
    assert list(other_sounds.sources) == list(sounds.sources)
    assert len(pictures(other).labels) == len(pictures(tmp_path).labels)
    context = SimpleNamespace(data=other, config=RunConfig())
    assert corpus(cast(Any, context)).source == "own.TXT"
    assert rated_positions(other, 1, 0)[0].name == "L2_R2"
    companions = tmp_path.with_name("companions")
    (companions / "images").mkdir(parents=True)
    (companions / "images" / "._mine.npz").write_bytes(b"\0\5\x16\7")
    assert kinds_in(companions) == []


@pytest.mark.parametrize("kind", ["no archive", "objects"])
def test_nobody_is_told_to_unpickle_pictures(tmp_path: Path, kind: str) -> None:
    (tmp_path / "images").mkdir()
    file = tmp_path / "images" / "mine.npz"
    if kind == "no archive":
        file.write_bytes(b"\x80\4K\1.")
    else:
        np.savez(file, images=np.array([{}, {}], object), labels=np.arange(2))
    with pytest.raises(ExamError, match=r"mine\.npz must be an \.npz with 'images' and 'labels'") as raised:
        pictures(tmp_path)
    assert not {"unsafe", "pickle"} & set(str(raised.value).replace("_", " ").split())


def test_layout_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "data.md").read_text(encoding="utf-8")
    assert all(f"| `{where}` |" in page for where in LAYOUT.values())


@pytest.mark.parametrize("kind", LAYOUT)
def test_folder_may_hold_only_some_kinds(kind: str, tmp_path: Path) -> None:
    fill(tmp_path / "every")
    first = LAYOUT[kind].partition("/")[0]
    (tmp_path / "some").mkdir()
    (tmp_path / "every" / first).rename(tmp_path / "some" / first)
    assert kinds_in(tmp_path / "some") == [kind]
    assert kinds_in(tmp_path / "every") == [other for other in LAYOUT if other != kind]
    assert kinds_in(tmp_path / "some" / first) == [], "the folder within, which was not meant"


def test_mistyped_set_is_named(devmind: Any) -> None:
    result = devmind("data", "fsd")
    assert (result.exit_code, result.stderr) == (2, "There is no data set 'fsd'; did you mean 'fsdd'?\n")


def test_list_shows_every_set_and_its_licence(devmind: Any) -> None:
    output = devmind("data").output
    for item in CATALOGUE:
        assert item.name in output
        assert item.licence in output
        assert item.home in output
