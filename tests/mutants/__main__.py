"""`make mutants`: faults that exams, gates, retention and lesson splits could have; a test must detect each.

A mutant of `declared.toml` replaces one text in one file by another, in a copy of the checkout, and names the tests
that must then fail. It is killed when they fail and survives when they pass. A text that is not found, or a test
that fails without any mutant, is an error of the declaration.

    python -m tests.mutants [--only WORDS] [--first N] [--tests-alone] [--mutants-alone]
"""

from __future__ import annotations

import argparse
import importlib
import os
import shutil
import signal
import sys
import tempfile
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DECLARED = Path(__file__).with_name("declared.toml")
COPIED = ("devmind", "stages", "sensors", "configs", "tests", "benchmarks", "pyproject.toml", "README.md", "docs")
FAILED, BROKEN = 1, (2, 3, 4, 5)
"""Exit codes of pytest: tests failed; interrupted, internal error, wrong use, nothing collected."""
SLOWEST_S = 600
FROM_OUTSIDE = (
    "torch", "lightning.pytorch", "transformers", "diffusers", "gymnasium", "numba", "cv2", "librosa", "scipy.optimize",
    "sklearn.datasets", "pydantic", "typer", "hypothesis",
)  # fmt: skip
"""Imported once, before any mutant: most of a short test's time."""


@dataclass(frozen=True)
class Mutant:
    """One fault: `old`, which occurs once in `file`, becomes `new`; `tests` must detect it."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


def declared() -> list[Mutant]:
    """All mutants of `declared.toml`."""
    text = DECLARED.read_text(encoding="utf-8")
    return [Mutant(**{**one, "tests": tuple(one["tests"])}) for one in tomllib.loads(text)["mutant"]]


def mutated(mutant: Mutant, text: str) -> str:
    """The file's text with the fault.

    Raises:
        ValueError: the text to change does not occur exactly once.
    """
    if text.count(mutant.old) != 1:
        raise ValueError(
            f"Mutant '{mutant.name}': its text stands {text.count(mutant.old)} times in {mutant.file}, not once; "
            f"declare it anew in {DECLARED.name}: {mutant.old!r}."
        )
    return text.replace(mutant.old, mutant.new)


def copied(folder: Path) -> Path:
    """Copy the checkout to `folder`."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.is_file():
            shutil.copy(source, folder / name)
    return folder


def run(folder: Path, tests: tuple[str, ...]) -> int:
    """pytest's exit code for `tests` in a copy, in a forked process that has already imported the external packages."""
    told = folder / "told.txt"
    if (child := os.fork()) == 0:
        with told.open("w") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        for name in list(sys.modules):  # modules of this checkout: the copy's must be imported instead
            if name.partition(".")[0] in COPIED:
                del sys.modules[name]
        os.chdir(folder)
        sys.path[0] = str(folder)
        os.environ["PYTHONPATH"] = str(folder)  # for processes that tests start
        os._exit(int(pytest.main(["-q", "-x", "-m", "", "-p", "no:cacheprovider", *tests])))
    code = _waited(child)
    if code in BROKEN:
        print(told.read_text()[-3000:])
    return code


def _waited(child: int) -> int:
    """Exit code of a process; FAILED if it takes too long, since a hang counts as detected."""
    ends = time.monotonic() + SLOWEST_S
    while time.monotonic() < ends:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.1)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return FAILED


def judge(mutant: Mutant, folder: Path) -> str:
    """'killed', 'survives', or what is wrong with the declaration."""
    path = folder / mutant.file
    whole = path.read_text(encoding="utf-8")
    path.write_text(mutated(mutant, whole), encoding="utf-8")
    try:
        code = run(folder, mutant.tests)
    finally:
        path.write_text(whole, encoding="utf-8")
    return {0: "survives", FAILED: "killed"}.get(code, f"pytest could not run its tests (exit code {code})")


def main() -> int:
    """Return 0 when every mutant was killed by tests that pass without it."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="", help="mutants whose name has these words")
    parser.add_argument("--tests-alone", action="store_true", help="only see that the tests pass without mutants")
    parser.add_argument("--first", type=int, default=1, help="begin with the mutant of this number")
    parser.add_argument("--mutants-alone", action="store_true", help="the tests are known to pass without mutants")
    asked = parser.parse_args()
    mutants = [mutant for mutant in declared()[asked.first - 1 :] if asked.only in mutant.name]
    sys.dont_write_bytecode = True  # a mutant's bytecode must not outlive it
    for name in FROM_OUTSIDE:
        importlib.import_module(name)
    with tempfile.TemporaryDirectory(prefix="devmind-mutants-") as folder:
        copy = copied(Path(folder))
        every = tuple(dict.fromkeys(test for mutant in mutants for test in mutant.tests))
        if not asked.mutants_alone and (code := run(copy, every)):
            print(f"Without any mutant the tests do not pass (exit code {code}); mend them first.")
            return 1
        if asked.tests_alone:
            return 0
        found = []
        for mutant in mutants:
            begun = time.monotonic()
            found.append(judge(mutant, copy))
            print(f"{found[-1]:9} {time.monotonic() - begun:4.0f} s  {mutant.name}", flush=True)
    killed = found.count("killed")
    print(
        f"{killed} of {len(mutants)} mutants killed" + ("" if killed == len(mutants) else ": add tests for the others")
    )
    return int(killed < len(mutants))


if __name__ == "__main__":
    sys.exit(main())
