"""Behaviour of all commands: help, nearest names, exit codes, clear errors, commands of plugins."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

from devmind import cli, plugins
from devmind.cli import app as root
from devmind.cli.house import OTHERS, PANELS, Terminated
from devmind.errors import DevmindError, nearest

GROUPS = (
    "demo",
    *("stage", "session", "sensors", "sleep", "study", "report", "config", "plugins", "data"),
    *("doctor", "new", "hello", "live", "watch", "teach", "name", "memory", "checkpoint", "feed"),
)


def test_help_is_shown_without_arguments(devmind: Any) -> None:
    result = devmind()
    assert result.exit_code == 0
    assert all(name in result.output for name in GROUPS)
    assert result.output == devmind("--help").output
    assert devmind("stage").output == devmind("stage", "--help").output


def test_help_has_its_commands_in_groups(devmind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    output = devmind("--help").output
    places = [output.index(f"─ {panel} ─") for panel in PANELS]
    assert places == sorted(places)
    assert "─ Commands ─" not in output
    assert OTHERS not in output, "every command of devmind has its group"
    assert output.index(" hello ") < places[1] < output.index(" stage ") < places[2] < output.index(" doctor ")
    there = plugins.available("commands")
    other = plugins.Plugin("commands", "theirs", "json:loads", "their-package", "1.0")
    monkeypatch.setattr(plugins, "available", lambda group: there | {"theirs": other})
    assert devmind("--help").output.index(f"─ {OTHERS} ─") > places[-1]


def test_help_fits_eighty_columns_and_hides_the_test_size(devmind: Any) -> None:
    for words in (["--help"], ["stage", "run", "--help"], ["stage", "exam", "--help"]):
        output = devmind(*words).output
        assert max(map(len, output.splitlines())) <= 80
        assert "tiny" not in output


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["stge"], "There is no command 'stge'; did you mean 'stage'?"),
        (["stage", "rnu"], "There is no command 'stage rnu'; did you mean 'run'?"),
        (
            ["xyzzy"],
            f"There is no command 'xyzzy'{nearest('xyzzy', sorted({*GROUPS, *plugins.available('commands')}))}",
        ),
        (["stage", "run", "reflex", "--st", "3"], "'devmind stage run' has no option '--st'; did you mean '--set'?"),
        (["teach"], "Missing argument 'NAME'; see 'devmind teach --help'."),
        (["stage", "run", "reflx"], "There is no stage named 'reflx'; did you mean 'reflex'?"),
        (["stage", "exam", "reflx", "--agent", "newborn"], "There is no stage named 'reflx'; did you mean 'reflex'?"),
        (["stage", "show", "reflx"], "There is no stage named 'reflx'; did you mean 'reflex'?"),
        (["stage", "run", "reflex", "--config", "nurse"], "There is no configuration 'nurse'; did you mean 'nursery'?"),
        (
            ["stage", "run", "reflex", "--set", "exam.holdoutt=theo"],
            "There is no configuration key 'exam.holdoutt'; did you mean 'exam.holdout'?",
        ),
        (["stage", "run", "reflex", "reflx"], "There is no stage named 'reflx'; did you mean 'reflex'?"),
        (["config", "show", "nursry"], "There is no configuration 'nursry'; did you mean 'nursery'?"),
        (["new", "stge", "x"], "There is no kind of plugin 'stge'; did you mean 'stage'?"),
    ],
)
def test_mistyped_name_suggests_the_nearest(devmind: Any, words: list[str], sentence: str) -> None:
    result = devmind(*words)
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", f"{sentence}\n")


def test_wrong_type_gives_a_clear_error(devmind: Any) -> None:
    result = devmind("stage", "run", "reflex", "--minutes", "one")
    assert result.exit_code == 2
    assert result.stderr.startswith("Invalid value for '--minutes'")
    assert result.stderr.count("\n") == 1


def test_version_is_printed(devmind: Any) -> None:
    import devmind as package

    assert devmind("--version").output == f"devmind {package.__version__}\n"


Raising = Callable[[BaseException], Any]


@pytest.fixture
def raising(devmind: Any, monkeypatch: pytest.MonkeyPatch) -> Raising:
    """`devmind plugins list`, where the library raises the given error."""

    def run(error: BaseException) -> Any:
        def available(group: str) -> None:
            if group == "stages":  # the command itself is found by 'commands'
                raise error
            return {}

        monkeypatch.setattr(plugins, "available", available)
        return devmind("plugins", "list")

    return run


def test_devmind_error_is_one_line_on_stderr(raising: Raising) -> None:
    result = raising(DevmindError("Expected this;\ngot that."))
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", "Expected this; got that.\n")


def test_ctrl_c_and_sigterm_end_with_a_message(raising: Raising) -> None:
    assert (raising(KeyboardInterrupt()).exit_code, raising(KeyboardInterrupt()).stderr) == (130, "Interrupted.\n")
    assert (raising(Terminated()).exit_code, raising(Terminated()).stderr) == (143, "Terminated.\n")


INTERRUPTED = """
import sys
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupting())
sys.argv = ["devmind", "stage", "show"]
from devmind.cli import main
main()
"""


@pytest.mark.parametrize("module", ["typer", "devmind.cli.doctor", "devmind.cli.house"])
def test_ctrl_c_while_the_command_line_loads_gives_a_message(module: str) -> None:
    code = INTERRUPTED.format(module=module)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "Interrupted.\n")


@pytest.mark.parametrize(
    ("stop", "code", "sentence"), [(KeyboardInterrupt, 130, "Interrupted.\n"), (Terminated, 143, "Terminated.\n")]
)
def test_stop_outside_of_a_command_gives_a_message(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    stop: type[BaseException],
    code: int,
    sentence: str,
) -> None:
    def interrupted(*args: Any) -> None:
        raise stop

    monkeypatch.setattr("typer.main.get_command", interrupted)
    monkeypatch.setattr("signal.signal", lambda *args: None)
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)  # put back what `main` sets
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert (left.value.code, capsys.readouterr().err) == (code, sentence)


COMPILING = """
import ctypes, signal, sys, time
from devmind.cli import app, main
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's background jobs ignore
def compiled():
    signal.raise_signal({number})
    time.sleep(0)
@app.command("compile")
def compile_():
    ctypes.CFUNCTYPE(None)(compiled)()  # as LLVM calls numba back: Python ignores what is raised there
    {then}
sys.argv = ["devmind", "compile"]
main()
"""


@pytest.mark.parametrize(("number", "code", "sentence"), [(2, 130, "Interrupted.\n"), (15, 143, "Terminated.\n")])
@pytest.mark.parametrize("then", ["time.sleep(20)", "raise RuntimeError('no compiled object yet')"])
def test_stop_while_code_is_compiled_is_not_lost(number: int, code: int, sentence: str, then: str) -> None:
    source = COMPILING.format(number=number, then=then)
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=False, timeout=15)
    assert (done.returncode, done.stderr) == (code, sentence)


def test_disk_error_gives_a_clear_message(raising: Raising) -> None:
    result = raising(OSError(errno.ENOSPC, "No space left on device", "/data/x"))
    expected = "The system refuses '/data/x': No space left on device; the disk is full, free some space.\n"
    assert (result.exit_code, result.stderr) == (2, expected)


@pytest.mark.parametrize(
    ("number", "sentence"),
    [
        (errno.EISDIR, "'x': Is a directory; a file is expected there, give a file's name."),
        (errno.EEXIST, "'x': File exists; choose another name, or move away what is there."),
        (errno.ENOTDIR, "'x': Not a directory; a folder is expected there, choose another."),
    ],
)
def test_file_system_errors_give_clear_messages(raising: Raising, number: int, sentence: str) -> None:
    result = raising(OSError(number, os.strerror(number), "x"))
    assert (result.exit_code, result.stderr) == (2, f"The system refuses {sentence}\n")


def test_disk_error_without_a_file_name_names_the_output(raising: Raising) -> None:
    said = raising(OSError(errno.ENOSPC, "No space left on device")).stderr
    assert said.startswith("The system refuses the output: No space left on device; ")


LISTING = """
import sys
sys.argv = ["devmind", "stage", "show"]
from devmind.cli import main
main()
"""


def test_ascii_terminal_gets_tables(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LISTING],
        cwd=tmp_path, capture_output=True, text=True, check=False, env=os.environ | {"PYTHONIOENCODING": "ascii"},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "reflex" in done.stdout
    assert "?" in done.stdout, "what it has no letter for"


def test_bug_prints_its_traceback_and_exits_with_code_2(
    raising: Raising, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert isinstance(raising(ZeroDivisionError("a fault")).exception, ZeroDivisionError)
    monkeypatch.setattr(sys, "argv", ["devmind", "plugins", "list"])
    monkeypatch.setattr("signal.signal", lambda *args: None)
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert left.value.code == 2
    said = capsys.readouterr().err
    assert "Traceback" in said
    assert "ZeroDivisionError: a fault" in said


def test_plugin_command_is_listed_without_import_and_runs_when_called(
    devmind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, loads = typer.Typer(), []

    @app.command()
    def play(level: int) -> None:
        print(f"playing level {level}")

    class Announced(plugins.Plugin):
        def load(self) -> Any:
            loads.append(self.name)
            return app

    found = {"play": Announced("commands", "play", "games:app", "devmind-games", "2.0")}
    monkeypatch.setattr(plugins, "available", lambda group: found if group == "commands" else {})
    assert "(from devmind-games 2.0)" in devmind("--help").output
    assert loads == []
    assert devmind("play", "3").output == "playing level 3\n"
    assert loads == ["play"]
    assert devmind("pley").stderr == "There is no command 'pley'; did you mean 'play'?\n"


def test_broken_plugin_command_breaks_only_itself(devmind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"play": plugins.Plugin("commands", "play", "no_such_module:app", "devmind-games", "2.0")}
    monkeypatch.setattr(plugins, "available", lambda group: found if group == "commands" else {})
    assert devmind("--help").exit_code == 0
    result = devmind("play")
    assert result.exit_code == 2
    assert result.stderr.startswith("The plugin 'play' (no_such_module:app of devmind-games 2.0) cannot be loaded")
    assert result.stderr.count("\n") == 1


LIGHT = """
import sys
from typer.testing import CliRunner
from devmind.cli import app
for words in (["--help"], ["stage", "show"], ["stage", "run", "--help"], ["config", "show", "--explain"],
              ["data"], ["config", "show", "nowhere"], ["stage", "run", "reflx"],
              ["stage", "run", "reflex", "--set", "a=b"], ["stage", "exam", "reflex", "--agent", "nowhere"],
              ["report", "nowhere"], ["plugins", "list"]):
    CliRunner().invoke(app, words)
heavy = ("torch", "lightning", "transformers", "diffusers", "numba", "cv2", "librosa", "numpy")
print([name for name in heavy if name in sys.modules])
"""


def test_commands_without_torch_do_not_import_it(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", LIGHT], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_console_script_runs_the_app() -> None:
    assert cli.app is root


@pytest.mark.parametrize("command", ["plugins list", "echoes"])
def test_closed_pipe_is_not_reported_as_a_failed_gate(tmp_path: Path, command: str) -> None:
    script = (
        "import sys, typer; from devmind.cli.app import app\n"
        "app.command('echoes')(lambda: typer.echo('x' * 100_000))\n"
        f"app({command.split()!r})"
    )
    reads, writes = os.pipe()
    os.close(reads)
    done = subprocess.run(
        [sys.executable, "-c", script], check=False, cwd=tmp_path, stdout=writes, stderr=subprocess.PIPE
    )
    os.close(writes)
    assert (done.returncode, done.stderr) == (141, b"")
