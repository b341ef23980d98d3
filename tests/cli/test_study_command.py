"""`devmind study`: the syntax of seeds, parallel jobs, and refusals."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from devmind.cli.study import parse_seeds
from devmind.curriculum.study.run import _beside_each_other
from devmind.errors import ConfigError, ExamError


@pytest.mark.parametrize(
    ("text", "seeds"), [("100-104", [100, 101, 102, 103, 104]), ("7", [7]), ("3, 8,5-6", [3, 8, 5, 6])]
)
def test_seeds_may_be_numbers_and_ranges(text, seeds):
    assert parse_seeds(text) == seeds


@pytest.mark.parametrize("text", ["", "a", "5-", "-5", "9-5", "1-9999", "3,3", "1.5", "3-5,4"])
def test_invalid_seeds_give_a_clear_error(text):
    with pytest.raises(ConfigError, match="--seeds"):
        parse_seeds(text)


def process(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_jobs_run_in_parallel_and_all_of_them_run(tmp_path):
    waits = "import pathlib, time; pathlib.Path({me!r}).touch()\n"
    waits += "while not pathlib.Path({other!r}).exists(): time.sleep(.01)"
    a, b, c = (str(tmp_path / name) for name in "abc")
    commands = [process(waits.format(me=a, other=b)), process(waits.format(me=b, other=a))]
    _beside_each_other([*commands, process(f"open({c!r}, 'w')")], 2)
    assert (tmp_path / "c").exists()


def test_failed_job_ends_the_study_and_starts_no_more(tmp_path):
    late = tmp_path / "late"
    with pytest.raises(ExamError, match="exit code 3"):
        _beside_each_other([process("raise SystemExit(3)"), process(f"open({str(late)!r}, 'w')")], 1)
    assert not late.exists()


def test_jobs_end_with_their_parent_process(tmp_path, monkeypatch):
    begun: list[subprocess.Popen[bytes]] = []
    real = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda *args, **more: begun.append(real(*args, **more)) or begun[-1])

    def stop(seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", stop)
    with pytest.raises(KeyboardInterrupt):
        _beside_each_other([process("import time; time.sleep(600)")] * 2, 2)
    assert [one.poll() is not None for one in begun] == [True, True]
