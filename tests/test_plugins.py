"""Plugins are found by entry point and loaded when used; a broken one gives a clear error."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from devmind import plugins
from devmind.cli import app, doctor
from devmind.errors import PluginError, without_library
from devmind.plugins import Plugin


def plugin(value, group="stages"):
    return Plugin(group, "mine", value, "their-package", "1.2")


def test_built_in_plugins_use_the_same_entry_points():
    assert {"reflex"} <= set(plugins.available("stages"))
    assert {"nursery", "cartpole"} <= set(plugins.available("worlds"))
    assert {"webcam", "microphone"} <= set(plugins.available("sensors"))


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
    check = doctor.stages()
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


def test_plugin_that_exits_at_import_is_named_as_broken(tmp_path, monkeypatch):
    """Regression: a script without a main guard ended `plugins list --check` with its own code, without a word."""
    (tmp_path / "their_script.py").write_text("import sys; sys.exit(3)")
    (tmp_path / "their_folder").mkdir()
    (tmp_path / "their_folder" / "__init__.py").write_text("raise SystemExit")
    entries = "[devmind.stages]\nbad = their_script:Stage\nworse = their_folder.stage:Stage\n"
    installed(tmp_path, "devmind-bad", entries + "[devmind.commands]\nworst = their_script:app\n")
    result = devmind_here(monkeypatch, tmp_path, "plugins", "list", "--check")
    assert result.exit_code == 1, result.stderr
    assert "The plugin 'bad' (their_script:Stage of devmind-bad 1.0) cannot be loaded" in result.stderr
    assert "sys.exit(3)" in result.stderr
    assert "The plugin 'worse'" in result.stderr
    assert "reflex" in devmind_here(monkeypatch, tmp_path, "stage", "show").stdout
    exam = devmind_here(monkeypatch, tmp_path, "stage", "exam", "worse")
    assert (exam.exit_code, "cannot be loaded" in exam.stderr) == (2, True), exam.stderr
    alone = devmind_in(tmp_path, "worst")
    assert (alone.returncode, "cannot be loaded" in alone.stderr) == (2, True), alone.stderr


def test_broken_entry_points_of_another_package_are_named_and_left_out(tmp_path):
    """Regression: one line without '=' in any package's file made every command a traceback, and `import torch` too."""
    installed(tmp_path, "some-tool", "[console_scripts]\nsome-tool\n")
    installed(tmp_path, "other-tool", "[console_scripts]\nother = \n[broken\nx\n")
    result = devmind_in(tmp_path, "stage", "show")
    assert (result.returncode, "reflex" in result.stdout) == (0, True), result.stderr
    assert "Traceback" not in result.stderr
    assert result.stderr.count("Note: The entry_points.txt of the installed package 'some-tool' cannot be read") == 1
    assert result.stderr.count("'other-tool'") == 1
    child = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import devmind; import torch'], check=True)"
    code = f"from devmind import plugins; plugins.available('stages'); import gymnasium, torch; {child}"
    done = subprocess.run(
        [sys.executable, "-c", code], env=beside(tmp_path), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_system_library_that_is_missing_is_named_in_one_sentence(tmp_path):
    """Regression: without libGL.so.1 the doctor said that all is well, and an import ended in a traceback."""
    said = "libGL.so.1: cannot open shared object file: No such file or directory"
    (tmp_path / "cv2.py").write_text(f"raise ImportError({said!r}, name='cv2')\n")
    (tmp_path / "red.png").write_bytes(b"\x89PNG")
    sentence = "OpenCV cannot be loaded: the system lacks libGL.so.1. On Debian and Ubuntu: apt install libgl1.\n"
    for words in (["session", "import", "red.png", "--out", "red.mcap"], ["stage", "show", "reflex"]):
        result = devmind_in(tmp_path, *words)
        assert (result.returncode, result.stderr.endswith(sentence)) == (2, True), (words, result.stderr)
    code = "from devmind.cli.doctor import opencv; print(opencv())"
    asked = subprocess.run(
        [sys.executable, "-c", code], env=beside(tmp_path), capture_output=True, text=True, check=True
    )
    assert "ok=False, said='cannot be loaded: the system lacks libGL.so.1'" in asked.stdout
    assert "apt install libgl1" in asked.stdout
    assert doctor.opencv().ok, "here it can be loaded"
    assert without_library(ImportError("No module named 'cv2'", name="cv2")) == ""


def installed(site, name, entries):
    """An installed distribution with these entry points, in the folder `site`."""
    folder = site / f"{name.replace('-', '_')}-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(entries)


def beside(site):
    """The environment of a process that finds modules and distributions of `site` before others."""
    here = str(Path(plugins.__file__).parents[1])
    return {**os.environ, "PYTHONPATH": os.pathsep.join((str(site), here)), "COLUMNS": "200"}


def devmind_in(site, *words):
    """One command in a process of its own, which has these distributions."""
    code = f"import sys; sys.argv[1:] = {list(words)!r}; from devmind.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code], cwd=site, env=beside(site), capture_output=True, text=True, check=False
    )


def devmind_here(monkeypatch, site, *words):
    """The same in this process, which has long loaded what `--check` takes seconds to load."""
    with monkeypatch.context() as patch:
        patch.chdir(site)
        patch.syspath_prepend(site)
        patch.setenv("COLUMNS", "200")
        plugins._scan.cache_clear()
        try:
            return CliRunner().invoke(app, words)
        finally:
            plugins._scan.cache_clear()


def test_folder_that_shadows_the_stages_package_is_named(tmp_path, monkeypatch):
    __import__("stages")  # so that it is there again afterwards
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
        installed(tmp_path, name, entries)
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


def burrow(site, name, module, entries, table):
    """An installed package with a stage that names parts; to import its stage or its package would fail."""
    (site / module).mkdir()
    (site / module / "__init__.py").write_text("raise RuntimeError('it was run')")
    (site / module / "stage.py").write_text(f"class Burrow:\n    part_classes: ClassVar = {table}\nraise SystemExit\n")
    installed(site, name, f"[devmind.stages]\n{module} = {module}.stage:Burrow\n[devmind.parts]\n{entries}\n")


def test_parts_of_stages_are_found_without_running_them(tmp_path, monkeypatch):
    table = '{"head.burrow": "json:loads", "head.two": "json:load", "head.one": "json:dumps", 3: "x:y"}'
    burrow(tmp_path, "devmind-mine", "burrow", "head.burrow = json:loads", table)
    burrow(tmp_path, "devmind-other", "den", "head.two = json:loads", "dict(a='b:c')")
    monkeypatch.syspath_prepend(tmp_path)
    plugins._scan.cache_clear()
    try:
        found = plugins.available("parts")
        assert {"encoder.sight", "head.categorical", "head.burrow", "head.one", "head.planning-route"} <= set(found)
        assert found["head.one"].distribution == "devmind-mine"
        assert plugins.load("parts", "head.one") is json.dumps
        assert plugins.load("parts", "head.burrow") is json.loads, "an old entry point beside the table is no conflict"
        with pytest.raises(PluginError, match=r"packages have a part named 'head.two': .*other 1.0, .*mine 1.0"):
            plugins.load("parts", "head.two")
        with pytest.raises(PluginError, match=r"no part .*'; did you mean 'head.planning-route'"):
            plugins.load("parts", "head.planning-rout")
        (tmp_path / "den" / "stage.py").unlink()
        with pytest.raises(PluginError, match=r"'den' .* cannot be loaded"):
            plugins.load("parts", "head.gone")
        assert not {"burrow", "den"} & set(sys.modules)
    finally:
        plugins._scan.cache_clear()


def test_loading_a_part_imports_its_module_alone():
    code = "import sys; from devmind import plugins; plugins.load('parts', 'head.planning-judge'); "
    code += "print({name for name in sys.modules if name.startswith('stages.planning.')})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(ast.literal_eval(done.stdout)) == {"stages.planning.places", "stages.planning.judge"}
