"""`devmind memory`: contents, recall, forgetting, and export and import through a file."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import soundfile

from devmind.memory import Memory, Pointer, open_store
from devmind.memory.portable import export_memory, import_memory
from devmind.memory.stores.sqlite import FILE
from devmind.moment import Moment
from devmind.testing import short_session
from devmind.testing.stores import example


def said(devmind: Any, *words: object) -> Any:
    answer = devmind("memory", *words)
    assert answer.exit_code == 0, answer.output
    return json.loads(answer.output) if "--json" in words else answer.output


def test_stats_count_entries(devmind: Any, mind: Path) -> None:
    found = said(devmind, "show", "--json")
    assert (found["entries"], found["named"], found["pointed"]) == (9, 5, 6)
    assert found["names"] == {"name 0": 3, "name 2": 2}
    assert found["senses"]["sight"]["keys"] == 9
    assert found["disk_bytes"] > found["payload_bytes"] > 9 * 192
    assert "9, 5 of them examples of names, 6 pointing" in said(devmind, "show")


def test_recall_by_words_needs_no_agent_and_counts_matches(devmind: Any, mind: Path) -> None:
    found = said(devmind, "recall", "ENTRY", "3", "--json")
    assert [one["words"] for one in found] == ["entry 3 \u00e9"]
    assert [one["id"] for one in said(devmind, "recall", "name", "0", "--json", "-k", "2")] == [9, 5]
    assert said(devmind, "show", "4", "--json")["recalled"] == 1
    assert "nothing is remembered" in said(devmind, "recall", "nonsense")
    assert "name 2" in said(devmind, "recall", "name 2")


def test_list_shows_the_newest_entries_and_counts_no_recall(devmind: Any, mind: Path) -> None:
    newest = said(devmind, "recall", "--json", "-k", "3")
    assert [one["id"] for one in newest] == [9, 8, 7]
    assert len(said(devmind, "recall", "--json")) == 9
    assert "the newest 2 of 9 entries; --count N shows more" in said(devmind, "recall", "-k", "2")
    assert said(devmind, "show", "9", "--json")["recalled"] == 0
    with open_store(mind) as store:
        store.delete(range(1, 10))
    assert said(devmind, "recall").strip() == "no entry yet"


def test_recall_by_picture_and_by_sound(devmind: Any, agent: Path, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    for name, colour in (("red", (30, 30, 220)), ("green", (40, 200, 40))):
        cv2.imwrite(f"{name}.png", np.full((80, 80, 3), colour, np.uint8))
    for name, pitch_hz in (("low", 200), ("high", 3000)):
        wave = 0.3 * np.sin(2 * np.pi * pitch_hz * np.arange(16_000) / 16_000)
        soundfile.write(f"{name}.wav", wave, 16_000)
    for name in ("red.png", "green.png", "low.wav", "high.wav"):
        assert devmind("teach", name.split(".")[0], name, "--agent", agent).exit_code == 0
    for name in ("red.png", "green.png", "high.wav"):
        found = said(devmind, "recall", "--like", name, "--agent", agent, "--json", "-k", "1")
        assert found[0]["name"] == name.split(".")[0]
        assert found[0]["score"] > 0.999
    assert "all is well" in said(devmind, "check", "--keys-of", agent)
    both = said(devmind, "recall", "--like", "red.png", "--like", "high.wav", "--agent", agent, "--json", "-k", "2")
    assert {one["name"] for one in both} == {"red", "high"}
    found = said(devmind, "recall", "green", "--like", "red.png", "--agent", agent, "--json")
    assert [one["name"] for one in found] == ["green"]
    wrong = devmind("memory", "recall", "--like", "red.png", "--like", "green.png", "--agent", agent)
    assert (wrong.exit_code, "one sight at a time" in wrong.output) == (2, True)
    files = said(devmind, "show", str(found[0]["id"]), "--out", "seen", "--json")["files"]
    assert cv2.imread(files[0]).shape == (64, 64, 3)


def test_forgetting_is_final_and_names_what_stays(devmind: Any, mind: Path, tmp_path: Path) -> None:
    key = example(3).keys["sight"].vector.tobytes()
    assert key in (mind / FILE).read_bytes()
    with open_store(mind) as store:
        pointers = [entry.pointer for entry in store.find()]
        assert pointers[3] is None
    output = said(devmind, "forget", "4")
    assert "1 entry forgotten" in output
    assert "Weights that have already slept on it keep what they learned" in output
    assert not any(key in file.read_bytes() for file in mind.iterdir())
    answer = devmind("memory", "forget", "--name", "name 2")
    assert answer.exit_code == 0
    assert "is not there; if it was moved" in answer.output  # it points into a deleted recording
    assert said(devmind, "show", "--json")["names"] == {"name 0": 3}
    assert "3 entries forgotten" in said(devmind, "forget", "--older-than-h", "1")
    assert said(devmind, "show", "--json")["named"] == 3  # examples of names are kept
    assert devmind("memory", "forget").exit_code == 2
    assert devmind("memory", "forget", "1", "--name", "name 0").exit_code == 2


def test_forgetting_reaches_into_a_recording(devmind: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    from devmind.sessions.pointed import identity
    from devmind.sessions.reader import Session

    session = Session(short_session(tmp_path / "life.mcap"))
    with open_store(tmp_path / "memory") as store:
        pointer = Pointer("../life.mcap", 1, identity(session))
        Memory(store).write(Moment(0.0, {}), example(1).keys, pointer=pointer)
    assert session[1][0].senses
    assert said(devmind, "show", "1", "--json")["senses"]
    said(devmind, "forget", "1")
    assert Session(tmp_path / "life.mcap")[1][0].senses == {}
    assert Session(tmp_path / "life.mcap")[2][0].senses


def test_memory_survives_export_and_import(devmind: Any, mind: Path, tmp_path: Path) -> None:
    assert "9 entries exported" in said(devmind, "export", "mind.zip")
    assert oct(Path("mind.zip").stat().st_mode & 0o777) == "0o600"
    assert devmind("memory", "export", "mind.zip").exit_code == 2
    assert "9 entries imported; 0 of the file were there" in said(devmind, "import", "mind.zip", "--memory", "other")
    assert "0 entries imported; 9 of the file were there" in said(devmind, "import", "mind.zip", "--memory", "other")
    with open_store(mind) as one, open_store("other") as two:
        for kept, came in zip(one.find(), two.find(), strict=True):
            assert (kept.time_s, kept.importance, kept.name) == (came.time_s, came.importance, came.name)
            assert kept.text == came.text
            for sense, key in kept.keys.items():
                assert key.vector.tobytes() == came.keys[sense].vector.tobytes()
                features = came.keys[sense].features
                assert (key.features is None) == (features is None)
            assert (kept.pointer is None) == (came.pointer is None)
            if came.pointer and kept.pointer:
                assert came.pointer.session == str((mind / kept.pointer.session).resolve())
        export_memory(two, tmp_path / "again.zip", Path("other"))
        with open_store(None) as third:
            assert import_memory(third, tmp_path / "again.zip").added == 9
    data = bytearray(Path("mind.zip").read_bytes())
    data[len(data) // 2] ^= 1
    Path("broken.zip").write_bytes(data)
    broken = devmind("memory", "import", "broken.zip", "--memory", "third")
    assert (broken.exit_code, "damaged" in broken.output) == (2, True)
    if Path("third").exists():
        assert said(devmind, "show", "--memory", "third", "--json")["entries"] == 0
    Path("text.zip").write_text("no memory")
    assert devmind("memory", "import", "text.zip", "--memory", "fourth").exit_code == 2
    assert not Path("fourth").exists()


def test_check_finds_and_repairs_damage(devmind: Any, mind: Path) -> None:
    assert said(devmind, "check") == "9 entries, all is well\n"
    with sqlite3.connect(mind / FILE) as beside:
        beside.execute("UPDATE entries SET payload = x'00' WHERE id = 3")
    beside.close()
    found = devmind("memory", "check")
    assert (found.exit_code, "Entry 3" in found.output) == (1, True)
    recalled = devmind("memory", "recall", "entry 2")
    assert (recalled.exit_code, "Entry 3 of the memory is damaged" in recalled.output) == (2, True)
    mended = said(devmind, "check", "--mend")
    assert "It was deleted" in mended
    assert said(devmind, "check") == "8 entries, all is well\n"


def test_missing_memory_gives_a_clear_error(devmind: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    answer = devmind("memory", "show")
    assert (answer.exit_code, "There is no memory in 'memory'" in answer.output) == (2, True)
    assert not Path("memory").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("memory", "show"),
        ("memory", "recall", "cup"),
        ("memory", "check"),
        ("memory", "forget", "--name", "cup"),
        ("name", "a"),
    ],
)
def test_folder_of_other_files_is_refused_as_a_memory(devmind: Any, tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "notes.txt").touch()
    answer = devmind(*words, "--memory", "foreign")
    assert (answer.exit_code, "There is no memory in 'foreign'" in answer.output) == (2, True)
    nothing = devmind(*words, "--memory", "")
    assert (nothing.exit_code, "--memory expects a folder" in nothing.output) == (2, True)
    assert [path.name for path in tmp_path.rglob("*")] == ["foreign", "notes.txt"]


@pytest.mark.parametrize(
    "words", [("memory", "show"), ("teach", "cup", "no.png"), ("memory", "forget", "--name", "cup"), ("hello",)]
)
def test_file_is_refused_as_a_memory(devmind: Any, tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "text.txt").touch()
    answer = devmind(*words, "--memory", "text.txt")
    sentence = "--memory expects a folder or a database's URL, and 'text.txt' is a file."
    assert (answer.exit_code, sentence in answer.output) == (2, True), answer.output


def test_stats_count_only_the_files_of_the_store(devmind: Any, mind: Path) -> None:
    before = said(devmind, "show", "--json")["disk_bytes"]
    (mind / "film.mp4").write_bytes(bytes(1_000_000))
    assert said(devmind, "show", "--json")["disk_bytes"] == before


def test_entries_are_counted_in_singular_and_plural(devmind: Any, tmp_path: Path) -> None:
    with open_store(tmp_path / "memory") as store:
        store.add([example(1)])
    assert said(devmind, "check") == "1 entry, all is well\n"
    assert "0 times, 1 entry never" in said(devmind, "show")
