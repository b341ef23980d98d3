"""`devmind new`: what it writes passes its own check, and is written whole or not at all."""

from __future__ import annotations

import importlib
import runpy
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from devmind import plugins
from devmind.errors import PluginError
from devmind.scaffold import KINDS, create


@pytest.fixture
def importable(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Forget the packages a test has imported from its folder."""
    before = set(sys.modules)
    yield monkeypatch
    for name in set(sys.modules) - before:
        if name.startswith("devmind_"):
            del sys.modules[name]


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_package_passes_its_own_test(kind: str, tmp_path: Path, importable: pytest.MonkeyPatch) -> None:
    folder = create(kind, "small-hours", tmp_path)
    importable.syspath_prepend(folder)
    tests = runpy.run_path(str(folder / "tests" / "test_small_hours.py"))
    found = [value for name, value in tests.items() if name.startswith("test_")]
    assert len(found) == 1
    found[0]()


@pytest.mark.parametrize("kind", KINDS)
def test_its_entry_point_names_what_is_there(kind: str, tmp_path: Path, importable: pytest.MonkeyPatch) -> None:
    folder = create(kind, "drum", tmp_path)
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["name"] == folder.name == "devmind-drum"
    ((group, points),) = project["entry-points"].items()
    assert group.removeprefix("devmind.") in plugins.GROUPS
    module, _, name = points["drum"].partition(":")
    importable.syspath_prepend(folder)
    assert hasattr(importlib.import_module(module), name)
    assert "$" not in (folder / "devmind_drum" / f"{kind}.py").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("kind", "name", "says"),
    [
        ("stages", "drum", "did you mean 'stage'"),
        ("stage", "Drum!", "a word of a-z"),
        ("stage", "../drum", "a word of a-z"),
        ("world", "class", "a word of a-z"),
        ("world", "", "a word of a-z"),
    ],
)
def test_a_wrong_kind_or_name_is_a_sentence(kind: str, name: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(PluginError, match=says):
        create(kind, name, tmp_path)
    assert not any(tmp_path.iterdir())


def test_a_folder_that_is_there_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "devmind-drum").mkdir()
    (tmp_path / "devmind-drum" / "mine.txt").write_text("kept")
    with pytest.raises(PluginError, match="is there already"):
        create("world", "drum", tmp_path)
    assert [path.name for path in (tmp_path / "devmind-drum").iterdir()] == ["mine.txt"]


def test_a_full_disk_leaves_nothing_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Path.write_text

    def full(self: Path, text: str, **options: str) -> int:
        if self.name == "README.md":
            raise OSError(28, "No space left on device")
        return whole(self, text, **options)

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(PluginError, match="No space left on device"):
        create("sensor", "drum", tmp_path)
    assert not any(tmp_path.iterdir())
