"""`config`, `plugins`, `report`, `session`, `new`, `doctor`, and the generated page of commands."""

from __future__ import annotations

import json
import os
import re
import sys
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import yaml

import devmind as package
from devmind import plugins
from devmind.cli import doctor, house, reference, show
from devmind.config import RunConfig, config_names, known_keys, load
from devmind.moment import Action, Moment

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.parametrize("name", config_names())
def test_config_show_prints_yaml_of_the_same_configuration(devmind: Any, tmp_path: Path, name: str) -> None:
    output = devmind("config", "show", name, "--set", "exam.holdout=theo").output
    assert RunConfig.model_validate(yaml.safe_load(output) | {"loggers": ("csv",)}).exam.holdout == "theo"
    (tmp_path / "mine.yaml").write_text(output)
    assert load("./mine.yaml") == load(name, sets=["exam.holdout=theo"])


def test_config_explain_names_every_key_and_the_origin_of_its_value(devmind: Any) -> None:
    from devmind.cli.config import explain_keys

    sets = ["exam.bootstrap=500", "lessons.watch.steps=9"]
    rows = {key: rest for key, *rest in explain_keys(load("tiny", sets=sets), "tiny", sets)}
    assert {key.replace("watch", "NAME") for key in rows} == set(known_keys())
    assert rows["exam.bootstrap"][:2] == ["500", "--set"]
    assert rows["exam.bootstrap"][2].endswith("(default 2000)")
    assert rows["lessons.watch.steps"][:2] == ["9", "--set"]
    assert rows["exam.episodes_scale"][:2] == ["0.1", "tiny.yaml"]
    assert rows["size"][:2] == ["tiny", "tiny.yaml"]
    assert rows["precision"][:2] == ["32-true", "default"]
    for sets in (["exam={bootstrap: 300}"], ["exam.bootstrap=200", "exam={bootstrap: 300}"]):
        rows = {key: rest for key, *rest in explain_keys(load("tiny", sets=sets), "tiny", sets)}
        assert rows["exam.bootstrap"][:2] == ["300", "--set"]
    emptied = ["lessons={}", "lessons.watch.steps=5"]
    rows = {key: rest for key, *rest in explain_keys(load("tiny", sets=emptied), "tiny", emptied)}
    assert rows["lessons.watch.steps"][:2] == ["5", "--set"]
    output = devmind("config", "show", "child", "--explain").output
    assert "child.yaml" in output
    assert max(map(len, output.splitlines())) <= 80


def test_plugins_list_shows_all_plugins_and_checks_on_request(devmind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    good = plugins.Plugin("parts", "sound", "json:dumps", "devmind-good", "1.2")
    bad = plugins.Plugin("worlds", "broken", "json:no_such_name", "devmind-bad", "0.1")
    found = {"parts": {"sound": good}, "worlds": {"broken": bad}}
    monkeypatch.setattr(plugins, "available", lambda group: found.get(group, {}))
    listed = devmind("plugins", "list")
    assert listed.exit_code == 0
    assert "devmind-good 1.2" in listed.output
    checked = devmind("plugins", "list", "--check")
    assert checked.exit_code == 1
    assert re.search(r"sound +ok", checked.stdout)
    assert re.search(r"broken +broken", checked.stdout)
    assert checked.stderr.startswith("The plugin 'broken' (json:no_such_name of devmind-bad 0.1) cannot be loaded")


def test_report_show_finds_the_newest_run(devmind: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Path] = []
    opened: list[str] = []
    monkeypatch.setattr(show, "verdict", lambda results, page: shown.append(results))
    monkeypatch.setattr("typer.launch", opened.append)
    for age, run in enumerate(("new", "old")):
        folder = tmp_path / "checkpoints" / run / "reports" / "reflex"
        folder.mkdir(parents=True)
        (folder / "results.json").write_text("{}")
        os.utime(folder / "results.json", (1e9 - age, 1e9 - age))
    assert devmind("report").exit_code == 0
    assert devmind("report", "checkpoints/old", "--open").exit_code == 0
    assert [path.parts[1] for path in shown] == ["new", "old"]
    assert opened == [(tmp_path / "checkpoints/old/reports/reflex/report.html").as_uri()]


RESULTS = {
    "schema": 1,
    "stage": "reflex",
    "verdict": {"passed": False, "reasons": ["see: lower bound 0.900, wanted at least 0.95"]},
    "run": {
        "command": "devmind stage run reflex", "seed": 0, "size": "tiny", "started": "2030-01-01T00:00:00+00:00",
        "finished": "2030-01-01T00:01:00+00:00", "versions": {}, "threads": 1, "device": "cpu", "changes": {},
        "agent_sha256": "ab" * 32, "parameters": 20_000, "started_from": None, "predecessor_failed": False,
        "interruptions": 0,
    },
    "lessons": [],
    "skills": [{"skill": "see", "passed": False, "measures": [{
        "name": "see", "unit": "correct", "score": 0.912, "low": 0.9, "high": 0.93, "n": 400, "chance": 0.1,
        "floor": 0.8, "ceiling": 1.0, "gate": 0.95, "passed": False, "reason": "too low",
    }]}],
    "cost": {"seconds": 60.0, "peak_memory_mb": 300.0, "parameters": 20_000, "parts": {}, "share": {}},
}  # fmt: skip


def test_report_show_prints_the_verdict_and_the_page(devmind: Any, tmp_path: Path) -> None:
    folder = tmp_path / "run" / "reports" / "reflex"
    folder.mkdir(parents=True)
    (folder / "results.json").write_text(json.dumps(RESULTS))
    result = devmind("report", "run")
    assert result.exit_code == 0
    assert all(text in result.output for text in ("FAILED", "0.912", "0.950"))
    assert result.output.endswith("report: run/reports/reflex/report.html\n")
    assert max(map(len, result.output.splitlines())) <= 80
    (folder / "results.json").write_text("{}")
    damaged = devmind("report", "run")
    assert (damaged.exit_code, damaged.stderr.count("\n")) == (2, 1)


def test_report_show_without_a_run_shows_how_to_make_one(devmind: Any, tmp_path: Path) -> None:
    (tmp_path / "checkpoints" / "begun").mkdir(parents=True)
    result = devmind("report")
    assert (result.exit_code, result.stderr) == (
        2,
        "There is no run in 'checkpoints' that has ended; 'devmind stage run reflex' makes one.\n",
    )
    assert "did you mean 'checkpoints/begun'?" in devmind("report", "checkpoints/begn").stderr


def test_session_import_info_and_replay(devmind: Any, tmp_path: Path) -> None:
    tone = np.sin(np.arange(16_000) * 0.1) * 0.5
    soundfile.write(tmp_path / "tone.wav", tone, 16_000)
    made = devmind("session", "import", "tone.wav")
    assert made.exit_code == 0
    assert "10 Moments of 1 file" in made.output
    assert "session: tone.mcap" in made.output
    info = devmind("session", "show", "tone.mcap").output
    assert "10 Moments in 1 episode, 1.0 s" in info
    assert re.search(r"sense +sound +10 +float32 +1x1600", info)
    lines = devmind("session", "replay", "tone.mcap", "--ticks", "8-").output.splitlines()
    assert [line.split()[0] for line in lines] == ["8", "9"]
    assert "sound[1x1600]" in lines[0]
    assert len(devmind("session", "replay", "tone.mcap", "--ticks", "0-2").output.splitlines()) == 3
    assert devmind("session", "import", "tone.wav").exit_code == 2, "a recording is not overwritten unasked"


def test_session_replay_prints_small_values_and_actions(devmind: Any, tmp_path: Path) -> None:
    with package.Recorder(tmp_path / "walk.mcap", source="test") as recorder:
        body = np.array([0.5, -1.0], dtype=np.float32)
        moment = Moment(0.0, {"body": body, "words": "hello there"}, first=True, last=True, terminal=True)
        recorder.write(moment, Action({"look": np.array([0.1, 0.2], dtype=np.float32)}))
    line = devmind("session", "replay", "walk.mcap").output
    expected = "0 0.00 s body[0.5 -1] words['hello there'] -> look[0.1 0.2] first last terminal"
    assert " ".join(line.split()) == expected
    mended = devmind("session", "repair", "walk.mcap")
    assert "1 Moment kept" in mended.output
    assert "session: walk-repaired.mcap" in mended.output


@pytest.mark.parametrize("command", ["show", "replay", "repair", "import"])
def test_session_names_the_nearest_file(devmind: Any, tmp_path: Path, command: str) -> None:
    (tmp_path / "walk.mcap").touch()
    result = devmind("session", command, "wakl.mcap")
    assert result.exit_code == 2
    assert "did you mean 'walk.mcap'?" in result.stderr
    assert result.stderr.count("\n") == 1


def test_session_reports_what_is_wrong_with_a_file(devmind: Any, tmp_path: Path) -> None:
    (tmp_path / "empty.mcap").touch()
    (tmp_path / "text.wav").write_text("no sound")
    for words in (["show", "empty.mcap"], ["import", "text.wav"]):
        result = devmind("session", *words)
        assert (result.exit_code, result.stderr.count("\n")) == (2, 1)


@pytest.mark.parametrize("kind", ["stage", "sensor", "world"])
def test_new_writes_a_package_and_prints_the_next_command(devmind: Any, tmp_path: Path, kind: str) -> None:
    result = devmind("new", kind, "thermal", "mine")
    assert result.exit_code == 0
    assert f"{kind}: mine/devmind-thermal" in result.output
    assert (tmp_path / "mine" / "devmind-thermal" / "pyproject.toml").is_file()
    result = devmind("new", kind, "thermal", "of $HOME; me")
    assert "python -m pytest 'of $HOME; me/devmind-thermal'" in result.output
    assert devmind("new", kind, "x" * 300).exit_code == 2


def test_doctor_marks_each_line_and_its_exit_code_follows_the_faults(
    devmind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [doctor.Check("a", True, "fine"), doctor.Check("b", None, "optional", "get it so")]
    monkeypatch.setattr(doctor, "checks", lambda out: iter(made))
    result = devmind("doctor")
    assert (result.exit_code, result.output) == (
        0,
        "ok    a: fine\ninfo  b: optional\n      get it so\n\nAll is well.\n",
    )
    made.append(doctor.Check("c", False, "missing", "pip install c"))
    result = devmind("doctor")
    assert result.exit_code == 1
    assert "mend  c: missing\n      pip install c\n" in result.output
    assert "1 to mend" in result.output


def test_doctor_finds_packages_that_are_missing_or_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    there = metadata.version
    requires = [
        "numpy>=1",
        "typer>=9999",
        "no-such-package>=1",
        'pyaudio>=0.2; extra == "live"',
        'av>=14; extra == "video"',
    ]
    monkeypatch.setattr(metadata, "requires", lambda name: requires)
    monkeypatch.setattr(metadata, "version", lambda name: "14.1" if name == "av" else there(name))
    found = {check.mend.split('"')[1]: check for check in doctor.packages()}
    assert set(found) == {"typer>=9999", "no-such-package>=1"}
    assert not any(check.ok for check in found.values())
    assert found["no-such-package>=1"].said == "no-such-package>=1 is missing"
    assert found["typer>=9999"].mend.startswith(f"{sys.executable} -m pip install")


def test_doctor_finds_entry_points_added_after_installation(tmp_path: Path) -> None:
    assert not list(doctor.installed_plugins(tmp_path)), "no checkout: what is installed is all there is"
    known = '[project.entry-points."devmind.stages"]\nreflex = "stages.reflex.stage:ReflexStage"\n'
    (tmp_path / "pyproject.toml").write_text(known)
    assert [check.ok for check in doctor.installed_plugins(tmp_path)] == [True]
    (tmp_path / "pyproject.toml").write_text(f'{known}[project.entry-points."devmind.parts"]\n"head.new" = "a:B"\n')
    (check,) = doctor.installed_plugins(tmp_path)
    assert (check.ok, check.said) == (False, "installed entry points are older than this checkout: without head.new")
    assert f'pip install -e "{tmp_path}"' in check.mend


def test_doctor_checks_the_folder_above_one_that_may_not_be_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = os.stat

    def stat(path: Any, *rest: Any, **more: Any) -> Any:
        if Path(path).name == "runs":
            raise PermissionError(13, "Permission denied")
        return usual(path, *rest, **more)

    monkeypatch.setattr(os, "stat", stat)
    assert doctor.out_folder(tmp_path / "runs").ok


def test_doctor_sees_a_folder_that_shadows_the_stages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"far": plugins.Plugin("stages", "far", "shadowed_stages.far.stage:Far", "devmind-far", "1")}
    monkeypatch.setattr(plugins, "available", lambda group: found)
    (tmp_path / "shadowed_stages").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    check = doctor.stages()
    assert check.ok is False
    assert "rename a folder named 'shadowed_stages'" in check.mend


def test_doctor_checks_the_folder_of_runs(tmp_path: Path) -> None:
    assert doctor.out_folder(tmp_path / "not" / "yet").ok
    assert doctor.disk(tmp_path / "not" / "yet").ok is not None
    assert list(tmp_path.iterdir()) == [], "looking leaves nothing behind"
    (tmp_path / "file").touch()
    refused = doctor.out_folder(tmp_path / "file" / "runs")
    assert refused.ok is False
    assert "--out" in refused.mend
    assert (refused.said, "chmod" in refused.mend) == (f"{tmp_path / 'file'} is a file", False)


def test_doctor_finds_a_disk_with_long_pauses_or_low_throughput(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert " MB/s" in doctor.disk(tmp_path).said
    monkeypatch.setattr(doctor, "PROBE_MB", 1)
    for name, value in (("SLOW_FSYNC_S", 0.0), ("SLOW_MB_S", 1e12)):
        with monkeypatch.context() as patch:
            patch.setattr(doctor, name, value)
            check = doctor.disk(tmp_path)
            assert (check.ok, "--out" in check.mend) == (False, True)


def test_doctor_needs_a_writable_folder_for_compiled_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "new"))
    assert doctor.compiled_cache().ok
    monkeypatch.setattr("os.access", lambda path, mode: False)
    assert doctor.compiled_cache().ok is False
    assert doctor.compiled_cache().mend.startswith("export NUMBA_CACHE_DIR=")


def test_pages_of_commands_are_up_to_date() -> None:
    pages = reference.pages()
    stale = [name for name, text in pages.items() if (ROOT / "docs" / name).read_text(encoding="utf-8") != text]
    assert not stale, f"`COLUMNS=80 python -m devmind.cli.reference` writes {', '.join(stale)} anew"
    assert {path.name for path in (ROOT / "docs").glob("commands*.md")} == set(pages), "no page of another name is left"
    page = "\n".join(pages.values())
    commands = {name for panel in house.PANELS.values() for name in panel.split()}
    assert {name for name in commands if f"[devmind {name}](" in pages["commands.md"]} == commands
    assert "VALUE" not in page.replace("KEY=VALUE", ""), "every option says what it takes"
    assert "tiny" not in page
    for label in ("`--count, -k N`", "`--prune/--keep`", "`[WORDS]...`", "`[NAME[=SOURCE]]...`"):
        assert f"| {label} |" in page, "as --help has it"


def test_help_and_version_work_as_commands(devmind: Any) -> None:
    assert devmind("help").output == devmind("--help").output
    assert devmind("help", "stage", "show").output == devmind("stage", "show", "--help").output
    assert devmind("version").output == devmind("--version").output
    for words in (("help", "version"), ("version", "--help")):
        assert "'devmind --version' prints the version" in devmind(*words).stderr
    whole = devmind("--help").output
    assert whole.index("hello") < whole.index("live  ") < whole.index("doctor"), "a newcomer's first command is first"
    assert "Start here: devmind hello" in whole


def test_help_of_live_is_readable_at_80_columns(devmind: Any) -> None:
    lines = devmind("live", "--help").output.splitlines()
    assert max(map(len, lines)) <= 80
    texts = [line for line in lines if line.startswith("│ --")]
    assert min(line.rstrip(" │").rfind("  ") for line in texts) < 46, "half of the line is left to the texts"
    assert len(lines) < 75


def test_public_names_load_on_request() -> None:
    assert package.Moment is Moment
    assert package.open_session is __import__("devmind.sessions", fromlist=["open_session"]).open_session
    assert set(package.__all__) == set(package._NAMES)
    assert "__version__" in dir(package)
    with pytest.raises(AttributeError, match="no attribute 'Moments'"):
        package.Moments  # noqa: B018


def test_every_public_name_of_the_agent_is_where_its_table_says() -> None:
    agent = import_module("devmind.agent")
    offered = {name: getattr(agent, name) for name in agent.__all__}
    assert offered["StepOutput"].__module__ == "devmind.agent.agent"
