"""`devmind new`: the new package passes its own check, and is written whole or not at all."""

from __future__ import annotations

import ast
import importlib
import runpy
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from devmind import plugins
from devmind.errors import PluginError
from devmind.scaffold import KINDS, create


@pytest.fixture
def importable(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Forget packages that a test has imported from its folder."""
    before = set(sys.modules)
    yield monkeypatch
    for name in set(sys.modules) - before:
        if name.startswith("devmind_"):
            del sys.modules[name]


@pytest.mark.parametrize("kind", KINDS)
def test_new_package_passes_its_own_test(kind: str, tmp_path: Path, importable: pytest.MonkeyPatch) -> None:
    folder = create(kind, "small-hours", tmp_path)
    importable.syspath_prepend(folder)
    tests = runpy.run_path(str(folder / "tests" / "test_small_hours.py"))
    found = [value for name, value in tests.items() if name.startswith("test_")]
    assert len(found) == 1
    found[0]()


@pytest.mark.parametrize("kind", KINDS)
def test_entry_point_of_a_new_package_names_an_existing_object(
    kind: str, tmp_path: Path, importable: pytest.MonkeyPatch
) -> None:
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
        ("world", "class", "'class' is a word of Python itself"),
        ("stage", "reflex", "There is a stage 'reflex' already, of devmind"),
        ("world", "", "a word of a-z"),
        ("sensor", "drum-", "ends with none of - and _; got 'drum-'"),
        ("world", "x" * 300, "at most 50 letters; got 300"),
        ("stage", "con", "'con' is a device on Windows"),
        ("sensor", "com1", "'com1' is a device on Windows"),
        ("world", "numpy", "'numpy' is a package that devmind itself uses"),
        ("world", "random", "'random' is a package that devmind itself uses"),
    ],
)
def test_wrong_kind_or_name_gives_a_clear_error(kind: str, name: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(PluginError, match=says):
        create(kind, name, tmp_path)
    assert not any(tmp_path.iterdir())


def test_existing_folder_is_not_changed(tmp_path: Path) -> None:
    (tmp_path / "devmind-drum").mkdir()
    (tmp_path / "devmind-drum" / "mine.txt").write_text("kept")
    with pytest.raises(PluginError, match="is there already"):
        create("world", "drum", tmp_path)
    assert [path.name for path in (tmp_path / "devmind-drum").iterdir()] == ["mine.txt"]


def test_full_disk_leaves_no_incomplete_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Path.write_text

    def full(self: Path, text: str, **options: str) -> int:
        if self.name == "README.md":
            raise OSError(28, "No space left on device")
        return whole(self, text, **options)

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(PluginError, match="No space left on device"):
        create("sensor", "drum", tmp_path)
    assert not any(tmp_path.iterdir())


EXAMPLES = Path(__file__).parent.parent / "docs"
MOST_LINES = 150
"""Lines of code in each example package besides those that `devmind new` writes."""


def code_lines(text: str) -> Counter[str]:
    """Lines of code, without blanks, comments and docstrings."""
    texts = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Expr))
    docs = [(node.lineno, node.end_lineno or 0) for node in texts if isinstance(node.value, ast.Constant)]
    lines = ((number, line.strip()) for number, line in enumerate(text.splitlines(), 1))
    return Counter(
        line
        for number, line in lines
        if line and not line.startswith("#") and not any(first <= number <= last for first, last in docs)
    )


def code_of(*packages: Path) -> Counter[str]:
    """Lines of code of packages, without their tests."""
    paths = [path for package in packages for path in package.glob("devmind_*/*.py")]
    assert paths
    return sum((code_lines(path.read_text(encoding="utf-8")) for path in paths), Counter())


@pytest.mark.parametrize("name", ["reader", "searcher", "diffuser", "crowd"])
def test_example_package_adds_few_lines_to_the_scaffold(name: str, tmp_path: Path) -> None:
    folder = EXAMPLES / f"example-{name}"
    points = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]
    kinds = {kind: points[f"devmind.{kind}s"] for kind in ("stage", "world") if f"devmind.{kind}s" in points}
    made = [create(kind, word, tmp_path / kind) for kind, words in kinds.items() for word in words]
    own = code_of(folder) - code_of(*made)
    assert own.total() <= MOST_LINES, f"{own.total()} lines of its own"


def test_code_lines_exclude_blanks_comments_and_docstrings() -> None:
    text = '"""A module."""\n\n# said\nX = 1  # counted\n\n\ndef f():\n    """Two\n    lines."""\n    return X\n'
    assert code_lines(text) == Counter(["X = 1  # counted", "def f():", "return X"])
