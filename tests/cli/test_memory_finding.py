"""Output of `devmind memory recall` and `show`: whole numbers at 80 columns, the newest first, clear errors."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from devmind.memory import Entry, Pointer, open_store
from devmind.testing import tiny_agent
from devmind.testing.stores import example

MANY = 150
SENSES = ("sight", "periphery", "sound", "body", "words")


def lived(number: int) -> Entry:
    """An entry of five senses whose words are too long for one line."""
    values: dict[str, Any] = {sense: np.zeros((2, 3), np.float32) for sense in SENSES}
    return replace(
        example(number), name=None, pointer=None, senses=values | {"words": f"somebody spoke {'very ' * 9}long"}
    )


@pytest.fixture
def many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A memory of 150 entries in ./memory."""
    monkeypatch.chdir(tmp_path)
    with open_store(tmp_path / "memory") as store:
        store.add([replace(lived(number), time_s=1e9 + number) for number in range(MANY)])
    return tmp_path / "memory"


def test_numbers_are_whole_and_words_are_shown_at_80_columns(devmind: Any, many: Path) -> None:
    printed = devmind("memory", "recall", "somebody", "-k", "3").output
    assert max(map(len, printed.splitlines())) <= 80
    assert [line.split()[0] for line in printed.splitlines() if line[0].isdigit()] == ["150", "149", "148"]
    assert "2001-09-09" in printed
    assert all(printed.count(sense) >= 3 for sense in SENSES)
    assert printed.count("very") == 3 * 9


def test_recall_by_words_is_ordered_by_time(devmind: Any, many: Path) -> None:
    with open_store(many) as store:
        imported = store.add([replace(lived(1), time_s=5.0), replace(lived(2), time_s=time.time())])
    found = [one["id"] for one in json.loads(devmind("memory", "recall", "somebody", "--json", "-k", "200").output)]
    assert (found[0], found[1], found[-1]) == (imported[1], MANY, imported[0])


@pytest.mark.parametrize("number", ["99999999999999999999999", "151", "0"])
def test_invalid_number_gives_a_clear_error(devmind: Any, many: Path, number: str) -> None:
    shown = devmind("memory", "show", number)
    assert (shown.exit_code, f"There is no entry {number}" in shown.output) == (2, True)
    gone = devmind("memory", "forget", number)
    assert (gone.exit_code, f"There is no entry {number}" in gone.output) == (2, True)


def test_show_writes_files_into_a_folder_or_gives_a_clear_error(devmind: Any, tmp_path: Path) -> None:
    picture = replace(lived(0), senses={"sight": np.zeros((4, 4, 3), np.uint8)})
    gone = replace(lived(1), senses={}, pointer=Pointer("gone.mcap", 1, "x"))
    with open_store(tmp_path / "memory") as store:
        store.add([picture, gone, replace(lived(2), senses={"words": "words alone"})])
    (tmp_path / "file").touch()
    for out, sentence in (
        ("file", "--out expects a folder"),
        ("file/below", "cannot be written into"),
        ("/proc/x", ""),
    ):
        refused = devmind("memory", "show", "1", "--out", out)
        assert (refused.exit_code, sentence in refused.output) == (2, True)
    assert devmind("memory", "show", "1", "--out", "seen").exit_code == 0
    assert cv2.imread("seen/memory-1.png").shape == (4, 4, 3)
    for number, sentence in (("2", "'gone.mcap', the recording it points to, is gone"), ("3", "neither a picture nor")):
        nothing = devmind("memory", "show", number, "--out", "empty")
        assert (nothing.exit_code, sentence in " ".join(nothing.output.split())) == (0, True)
    assert not Path("empty").exists()


def test_another_agent_takes_over_a_memory_only_on_request(devmind: Any, agent: Path, tmp_path: Path) -> None:
    other = tiny_agent(seed=1)
    other.add_encoder("sight")
    other.save_pretrained(tmp_path / "other")
    cv2.imwrite("red.png", np.full((80, 80, 3), (30, 30, 220), np.uint8))
    assert devmind("teach", "red", "red.png", "--agent", agent).exit_code == 0
    keys = _keys()
    for words in (("memory", "recall", "--like", "red.png"), ("name", "red.png"), ("teach", "red", "red.png")):
        refused = devmind(*words, "--agent", "other")
        assert (refused.exit_code, "check --keys-of" in refused.output, _keys()) == (2, True, keys), words
    taken = devmind("memory", "check", "--keys-of", "other")
    assert (taken.exit_code, "got new keys" in taken.output) == (0, True)
    assert _keys() != keys


def _keys() -> list[bytes]:
    with open_store("memory") as store:
        return [key.vector.tobytes() for entry in store.find() for key in entry.keys.values()]
