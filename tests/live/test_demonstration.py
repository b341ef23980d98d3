"""`devmind demo`: its clip, its judgement, its two processes; and the whole command, as a visitor starts it."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import devmind.cli.demo
from devmind.cli.app import app
from devmind.errors import DevmindError
from devmind.live import demonstration
from devmind.live.demonstration import CLIP, NAME, Demonstration, LifeProcess, Looks, PatientClock, showings
from devmind.live.remembering.press import Holding
from devmind.moment import TICK_HZ
from devmind.sessions.reader import Session

EXAM = {"score": 500.0, "low": 496.0, "high": 500.0, "n": 400, "gate": 475.0, "floor": 22.0, "passed": True}
LIFE = """
import json, os, sys
from pathlib import Path
folder, fault = Path(sys.argv[-2]), {fault!r}
folder.mkdir(exist_ok=True)
(first, _), (again, again_end), (ball, ball_end) = {showings!r}
file = folder / "memory.sqlite3"
known = file.read_text() if file.exists() and fault != "untaught" else ""
woken = (folder / "woken").exists()
(folder / "woken").touch()
at = 0
def tell(message):
    print(json.dumps(message), flush=True)
def play(until):
    global at
    while at < until:
        at += 1
        ball_now = ball <= at < ball_end
        held = any(a <= at < b for a, b in {showings!r})
        name = known if known and (not ball_now or fault == "stranger") else None
        if again <= at < again_end and fault == "not again":
            name = None
        sight = {{"name": name or None, "confidence": 0.97 if name else 0.02}} if known and held else None
        tell({{"tick": at, "held": [0.5, 0.5, 0.3] if held else None, "sight": sight}})
def told():
    line = sys.stdin.readline()
    return json.loads(line) if line else sys.exit()
print("a library speaks")
tell({{"alive": os.getpid(), "names": {{known: 1}} if known else {{}}, "address": None}})
if fault == "dies":
    sys.exit("The disk is full.")
if not woken:
    play(first + 6)
    told()
    tell({{"done": "press"}})
    play(first + 18)
    if fault == "refused":
        told()
        tell({{"done": "teach", "refused": "Nothing new is in view."}})
    else:
        known = told()["with"]["name"]
        file.write_text(known)
        tell({{"done": "teach", "frames": 8, "answer": "It has learned it."}})
else:
    play(again - 5)
    told()
    if known:
        if fault != "trace":
            file.write_text("")
        tell({{"done": "forget", "forgotten": 1, "examples": {{}}}})
        known = known if fault == "not forgotten" else ""
    else:
        tell({{"done": "forget", "refused": "There is no such name."}})
play(ball_end + 5)
told()
"""
"""A life that does what the demonstration tells it, without an agent; `fault` is what it does wrong."""


def pretend(monkeypatch: pytest.MonkeyPatch, fault: str = "") -> None:
    """Put such a life in place of the real one."""
    script = LIFE.format(fault=fault, showings=[(one.first, one.end) for one in showings()])
    monkeypatch.setattr(demonstration, "COMMAND", (sys.executable, "-c", textwrap.dedent(script)))


def test_clip_is_small_and_shows_a_mug_the_mug_elsewhere_and_a_ball() -> None:
    session, shown = Session(CLIP), showings()
    assert [one.what for one in shown] == ["mug", "mug again", "ball"]
    assert all(a.end < b.first for a, b in itertools.pairwise(shown))
    assert shown[-1].end < len(session) == session.frame_count
    assert session.tick_hz == TICK_HZ
    assert CLIP.stat().st_size < 1_300_000
    assert next(session.frames()).picture().shape == (360, 480, 3)


def test_things_of_the_clip_are_found_where_they_are_held_up_and_nothing_between() -> None:
    holding, places = Holding(), dict[str, list[float]]()
    found = []
    for tick, frame in enumerate(Session(CLIP).frames()):
        holding.see(frame.picture(), tick / TICK_HZ)
        found.append(holding.square)
    for one in showings():
        seen = [square for square in found[one.first : one.end] if square]
        assert len(seen) >= one.end - one.first - 3, one.what
        places[one.what] = [float(np.median([square.x for square in seen])), float(np.median([s.side for s in seen]))]
    assert not any(found[: showings()[0].first - 8])
    assert not any(found[one.first - 9] for one in showings())
    assert places["mug again"][0] < places["mug"][0] - 0.1 < places["ball"][0], "it is held up elsewhere"
    assert places["mug again"][1] < places["mug"][1], "and smaller"


def looks(*answers: tuple[str | None, float] | None) -> Looks:
    """Of ticks with these answers, after those that do not count."""
    every = [("wrong", 1.0)] * demonstration.SETTLED + list(answers)
    sights = [None if one is None else {"name": one[0], "confidence": one[1]} for one in every]
    return Looks.of([{"held": [0.5, 0.5, 0.2], "sight": sight} for sight in sights])


@pytest.mark.parametrize(
    ("found", "is_known", "is_unknown", "said"),
    [
        (looks(*[(NAME, 0.97)] * 10), True, False, f"{NAME}, 97 % (10 of 10 looks)"),
        (looks(*[(NAME, 0.9)] * 8, *[(None, 0.4)] * 2), True, False, f"{NAME}, 90 % (8 of 10 looks)"),
        (looks(*[(NAME, 0.9)] * 7, *[(None, 0.4)] * 3), False, False, "not sure"),
        (looks(*[(NAME, 0.9)] * 9, ("ball", 0.9)), False, False, "not sure"),
        (looks(*[(None, 0.02)] * 10), False, True, f"not sure (most like {NAME}, 2 %; named in 0 of 10 looks)"),
        (looks(*[None] * 10), False, True, "not sure: it knows no name (named in 0 of 10 looks)"),
        (looks(), False, False, "nothing is found held up"),
    ],
)
def test_answers_are_judged_by_all_looks(found: Looks, is_known: bool, is_unknown: bool, said: str) -> None:
    assert (found.is_known, found.is_unknown) == (is_known, is_unknown)
    assert said in str(found)


def test_clock_waits_for_who_is_late_and_can_be_held(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s, slept = [100.0], list[float]()

    def sleep(seconds: float) -> None:
        slept.append(round(seconds, 3))
        now_s[0] += seconds

    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])
    monkeypatch.setattr(time, "sleep", sleep)
    clock = PatientClock()
    clock.sleep(0.1)
    now_s[0] += 0.04  # work, for which there is time
    clock.sleep(0.1)
    now_s[0] += 5  # the machine was busy
    clock.sleep(0.1)
    clock.sleep(0.1)
    assert slept == [0.1, 0.06, 0.0, 0.1]
    assert clock.now() == pytest.approx(0.4)
    clock.going.clear()
    late = threading.Thread(target=clock.sleep, args=(0.1,))
    late.start()
    late.join(0.2)
    assert late.is_alive()
    assert clock.now() == pytest.approx(0.4)
    clock.going.set()
    late.join()
    assert clock.now() == pytest.approx(0.5)


def test_every_step_is_told_and_the_first_process_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch)
    lines, ticks = list[str](), list[Mapping[str, Any]]()
    assert Demonstration(lines.append, lambda: EXAM, watch=ticks.append).run()
    steps = [line.split("s  ")[1].split("  ")[0].strip() for line in lines[2:-2]]
    assert steps == [
        "awake", "taught", "known", "stranger", "killed", "awake", "still known", "forget", "forgotten", "exam"
    ]  # fmt: skip
    assert all("✓" in line for line in lines[2:-2])
    first, second = (int(line.split("Process ")[1].split()[0]) for line in lines if "Process" in line)
    assert first != second
    killed = next(line for line in lines if "killed" in line)
    assert f"kill -9 {first}" in killed
    assert "exit code -9" in killed
    assert "All came out as promised" in lines[-2]
    assert ticks[0]["tick"] == 1
    for pid in (first, second):
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.parametrize(
    ("fault", "failed"),
    [
        ("untaught", "awake; still known; forget"),
        ("refused", "taught; known; killed; awake; still known; forget"),
        ("not again", "known"),
        ("stranger", "stranger"),
        ("trace", "forget"),
        ("not forgotten", "forgotten"),
        ("exam", "exam"),
    ],
)
def test_step_that_fails_is_told_and_ends_with_1(fault: str, failed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, fault)
    monkeypatch.setattr(devmind.cli.demo, "_exam", lambda: EXAM | {"passed": fault != "exam"})
    result = CliRunner().invoke(app, ["demo"])
    assert result.exit_code == 1, result.output
    assert f"Not as promised: {failed}." in result.output
    assert result.output.count("✗") == failed.count(";") + 1


def test_life_that_ends_by_itself_is_told_with_its_last_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, "dies")
    with LifeProcess(tmp_path, False, lambda tick: None) as life, pytest.raises(DevmindError, match="The disk is full"):
        list(life.ticks(5))


def test_interrupt_leaves_no_process_and_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    begun: list[int] = []

    def say(line: str) -> None:
        if "Process" in line:
            begun.append(int(line.split("Process ")[1].split(maxsplit=1)[0]))
        if "taught" in line:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Demonstration(say, lambda: EXAM).run()
    assert len(begun) == 1
    with pytest.raises(ProcessLookupError):
        os.kill(begun[0], 0)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_whole_demonstration_comes_out_and_leaves_nothing(tmp_path: Path) -> None:
    here, temporary = tmp_path / "here", tmp_path / "temporary"
    here.mkdir()
    temporary.mkdir()
    (here / "stages").mkdir()  # a folder of this name must not hide the package
    devmind_command = Path(sys.executable).with_name("devmind")
    ran = subprocess.run(
        [devmind_command, "demo"], cwd=here, env={**os.environ, "TMPDIR": str(temporary)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.count("✓") == 10, ran.stdout
    assert "✗" not in ran.stdout
    assert [path.name for path in here.iterdir()] == ["stages"]
    assert not [path for path in temporary.iterdir() if path.name.startswith("devmind-")]
