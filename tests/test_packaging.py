"""The wheel in a new environment and another folder, beside a foreign package: nothing of the checkout is used.

A .pth file adds the packages that devmind needs to the new environment, so nothing is downloaded.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PLUGIN = ROOT / "docs" / "example-plugin"
EXAMPLES = {"reader": "reader", "searcher": "noughts", "diffuser": "walk", "crowd": "crowd"}
"""Example packages in docs/example-*, by name, and the stage of each."""

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Elsewhere:
    """A new environment with both wheels, and a working folder outside the checkout."""

    python: Path
    folder: Path
    plugin: Path
    wheel: Path

    def run(self, *command: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command in the environment; both outputs end up in `stdout`."""
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV"))}
        environment["PATH"] = f"{self.python.parent}{os.pathsep}{environment['PATH']}"
        words = [str(word) for word in command]
        return subprocess.run(
            words,
            cwd=cwd or self.folder,
            env=environment | {"COLUMNS": "160"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=600,
            check=False,
        )

    def devmind(self, *words: str) -> subprocess.CompletedProcess[str]:
        """The installed `devmind` command."""
        return self.run(self.python.parent / "devmind", *words)


def build_wheel(source: Path, out: Path) -> Path:
    """The wheel of a source tree, built by the installed hatchling."""
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(source)]
    built = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert built.returncode == 0, built.stdout + built.stderr
    (wheel,) = out.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Elsewhere:
    base = tmp_path_factory.mktemp("elsewhere")
    plugin = shutil.copytree(PLUGIN, base / "plugin", ignore=shutil.ignore_patterns("__pycache__"))
    wheels = [build_wheel(ROOT, base / "house"), build_wheel(plugin, base / "guest")]
    for name in EXAMPLES:
        source = PLUGIN.with_name(f"example-{name}")
        copied = shutil.copytree(source, base / name, ignore=shutil.ignore_patterns("__pycache__"))
        wheels.append(build_wheel(copied, base / f"guest-{name}"))
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(base / "venv")], check=True)
    python = base / "venv" / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--no-index", "--quiet"]
    subprocess.run([*install, *map(str, wheels)], check=True, timeout=120)
    (site,) = (base / "venv").glob("lib/python*/site-packages")
    (site / "lent.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    folder = base / "somewhere"
    for name in ("stages", "sensors"):
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text("raise ImportError('this is somebody else')\n", encoding="utf-8")
    return Elsewhere(python, folder, plugin, wheels[0])


def test_wheel_holds_every_data_file_and_no_test(elsewhere: Elsewhere) -> None:
    names = set(zipfile.ZipFile(elsewhere.wheel).namelist())
    listed = subprocess.run(
        ["git", "ls-files", "devmind", "stages", "sensors"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert set(listed.stdout.split()) <= names
    assert {f"devmind/configs/{path.name}" for path in (ROOT / "configs").glob("*.yaml")} <= names
    assert not [name for name in names if name.startswith(("tests/", "docs/", "benchmarks/"))]


def test_stages_and_configurations_are_found_from_another_folder(elsewhere: Elsewhere) -> None:
    where = elsewhere.run(elsewhere.python, "-c", "import devmind; print(devmind.__file__)").stdout
    assert where.startswith(str(elsewhere.python.parent.parent)), f"not the installed devmind: {where}"
    listed = elsewhere.devmind("stage", "show")
    assert listed.returncode == 0, listed.stdout
    assert "reflex" in listed.stdout
    assert "warmth" in listed.stdout
    shown = elsewhere.devmind("config", "show", "child")
    assert "size: child" in shown.stdout, shown.stdout
    made = elsewhere.devmind("new", "world", "meadow")
    assert (elsewhere.folder / "devmind-meadow" / "pyproject.toml").is_file(), made.stdout


def test_every_plugin_loads_beside_a_folder_named_stages(elsewhere: Elsewhere) -> None:
    checked = elsewhere.devmind("plugins", "list", "--check")
    assert checked.returncode == 0, checked.stdout
    assert "devmind-thermal" in checked.stdout


def test_foreign_package_passes_its_own_checks(elsewhere: Elsewhere) -> None:
    command = (elsewhere.python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests")
    tested = elsewhere.run(*command, cwd=elsewhere.plugin)
    assert tested.returncode == 0, tested.stdout
    assert "4 passed" in tested.stdout


def test_stage_of_a_foreign_package_runs_to_its_report(elsewhere: Elsewhere) -> None:
    ran = elsewhere.devmind("stage", "run", "warmth", "--config", "tiny", "--out", "run")
    assert ran.returncode == 0, ran.stdout
    report = elsewhere.folder / "run" / "reports" / "warmth" / "report.html"
    assert "warmth" in report.read_text(encoding="utf-8")
    assert (elsewhere.folder / "run" / "milestones" / "01-warmth" / "model.safetensors").is_file()


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("package", "stage"), EXAMPLES.items())
def test_example_package_passes_its_own_checks_and_its_gate(elsewhere: Elsewhere, package: str, stage: str) -> None:
    command = (elsewhere.python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests")
    tested = elsewhere.run(*command, cwd=elsewhere.plugin.with_name(package))
    assert tested.returncode == 0, tested.stdout
    ran = elsewhere.devmind("stage", "run", stage, "--config", "tiny", "--out", f"run-{package}")
    assert ran.returncode == 0, ran.stdout  # the exit code is the verdict of the gate
    report = elsewhere.folder / f"run-{package}" / "reports" / stage / "report.html"
    assert stage in report.read_text(encoding="utf-8")
