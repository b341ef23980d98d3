"""Plugins are found by entry point and loaded when used; a broken one gives a clear error."""

from __future__ import annotations

import json
import sys

import pytest

from devmind import plugins
from devmind.cli import machine
from devmind.errors import PluginError
from devmind.plugins import Plugin


def plugin(value, group="stages"):
    return Plugin(group, "mine", value, "their-package", "1.2")


def test_built_in_plugins_use_the_same_entry_points():
    assert {"reflex"} <= set(plugins.available("stages"))
    assert {"nursery", "cartpole"} <= set(plugins.available("worlds"))
    assert {"webcam", "microphone"} <= set(plugins.available("sensors"))
    assert {"encoder.sight", "head.categorical"} <= set(plugins.available("parts"))


def test_finding_a_plugin_imports_nothing(monkeypatch):
    monkeypatch.delitem(sys.modules, "stages.reflex.stage", raising=False)
    plugins.find("stages", "reflex")
    assert "stages.reflex.stage" not in sys.modules


def test_description_of_a_plugin_is_read_without_running_it(tmp_path, monkeypatch):
    (tmp_path / "saying.py").write_text(
        'class A:\n    """One\n    line.\n\n    More."""\nraise SystemExit("it was run")\n'
    )
    (tmp_path / "wrong.py").write_text("class A(:")
    monkeypatch.syspath_prepend(tmp_path)
    assert plugin("saying:A").about == "One line."
    assert [plugin(value).about for value in ("saying:B", "wrong:A", "gone:A", "gone.deep:A")] == [""] * 4
    (tmp_path / "falling").mkdir()
    (tmp_path / "falling" / "__init__.py").write_text("raise RuntimeError('no luck')")
    (tmp_path / "falling" / "stage.py").write_text("class A:\n    pass\n")
    assert plugin("falling.stage:A").about == ""
    monkeypatch.setattr(plugins, "available", lambda group: {"mine": plugin("falling.stage:A")})
    check = machine.stages()
    assert (check.ok, check.said) == (False, "'mine' is not where it should be (falling.stage)")
    monkeypatch.undo()
    stages = plugins.available("stages")
    monkeypatch.delitem(sys.modules, "stages.reflex.stage", raising=False)
    assert stages["reflex"].about.startswith("Senses and reflexes")
    assert "stages.reflex.stage" not in sys.modules


def test_mistyped_name_or_group_suggests_the_nearest():
    with pytest.raises(PluginError, match="did you mean 'reflex'"):
        plugins.load("stages", "reflx")
    with pytest.raises(PluginError, match="did you mean 'stages'"):
        plugins.available("stage")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("raise ValueError('no luck')", "ValueError: no luck"),
        ("import nothing_of_that_name", "nothing_of_that_name"),
        ("x = (", "SyntaxError"),
        ("y = 1", "has no attribute"),
    ],
)
def test_broken_plugin_gives_a_clear_error_with_its_package(tmp_path, monkeypatch, source, said):
    (tmp_path / "their_broken_module.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "their_broken_module", raising=False)
    with pytest.raises(PluginError, match=said) as caught:
        plugin("their_broken_module:Stage").load()
    assert "their-package 1.2" in str(caught.value)
    assert "devmind plugins list" in str(caught.value)


def test_folder_that_shadows_the_stages_package_is_named(tmp_path, monkeypatch):
    (tmp_path / "stages").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    for name in [name for name in sys.modules if name == "stages" or name.startswith("stages.")]:
        monkeypatch.delitem(sys.modules, name)
    # Other finders (of an editable install) would still find the package; a wheel has only a plain path.
    monkeypatch.setattr(sys, "meta_path", [f for f in sys.meta_path if "editable" not in repr(f).lower()])
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with pytest.raises(PluginError, match="shadows devmind's own") as caught:
        plugin("stages.reflex.stage:ReflexStage").load()
    assert str(tmp_path / "stages") in str(caught.value)


def test_name_that_two_packages_have_is_refused(tmp_path, monkeypatch):
    """Regression: the one whose folder came first was run, without a word, also in place of a built-in one."""
    for name, entries in {
        "devmind-mine": "[devmind.stages]\nreflex = mine:Reflex\nburrow = mine:Burrow\nalike = json:loads\n",
        "devmind-other": "[devmind.stages]\nburrow = other:Burrow\nalike = json:loads\n",
    }.items():
        folder = tmp_path / f"{name.replace('-', '_')}-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (folder / "entry_points.txt").write_text(entries)
    monkeypatch.syspath_prepend(tmp_path)
    plugins._scan.cache_clear()
    try:
        with pytest.raises(PluginError, match=r"Several packages have a stage named 'burrow': .*mine 1.0, .*other 1.0"):
            plugins.load("stages", "burrow")
        with pytest.raises(PluginError, match=r"stage named 'reflex': .*devmind.* Uninstall all but one"):
            plugins.load("stages", "reflex")
        assert plugins.load("stages", "alike") is json.loads, "the same object twice is no conflict"
        assert "burrow" in plugins.available("stages")
    finally:
        plugins._scan.cache_clear()
