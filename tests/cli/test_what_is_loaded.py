"""Imports of commands: nothing heavy before the arguments are valid, and only torch to name a file."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import pytest
import soundfile

HEAVY = (
    "torch", "torch._dynamo", "torch._inductor", "transformers", "lightning", "diffusers", "torchmetrics", "scipy",
    "sklearn", "sympy", "numba", "librosa", "uvicorn", "starlette",
)  # fmt: skip
FINE = (["--help"], ["stage", "show"], ["sensors"])
ALONE = """
import json, sys
from typer.testing import CliRunner
from devmind.cli import app
told = []
for words in json.loads(sys.argv[1]):
    ran = CliRunner().invoke(app, words)
    loaded = [name for name in json.loads(sys.argv[2]) if name in sys.modules]
    told.append([words, ran.exit_code, f"{ran.output} {ran.exception or ''}", loaded])
print(json.dumps(told))
"""


def alone(folder: Path, *commands: list[str]) -> list[tuple[list[str], int, str, list[str]]]:
    """Run commands in turn in a separate process: words, exit code, output, heavy modules loaded so far."""
    given = [sys.executable, "-c", ALONE, json.dumps(commands), json.dumps(HEAVY)]
    ran = subprocess.run(given, cwd=folder, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout.splitlines()[-1])


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A picture, a sound, a text and an empty folder."""
    cv2.imwrite(str(tmp_path / "red.png"), np.full((80, 80, 3), (30, 30, 200), np.uint8))
    soundfile.write(tmp_path / "low.wav", 0.3 * np.sin(np.arange(16_000) / 10), 16_000)
    (tmp_path / "text.txt").write_text("no picture")
    (tmp_path / "empty").mkdir()
    (tmp_path / "cup.plan").write_text("plan ask {\n    for achieve found(Thing)\n    do { say(Thing, }\n}\n")
    return tmp_path


def test_teaching_and_naming_files_loads_only_torch(files: Path) -> None:
    told = alone(
        files, ["teach", "red", "red.png"], ["teach", "low", "low.wav"], ["name", "red.png", "low.wav"],
        ["memory", "recall", "--like", "red.png"],
    )  # fmt: skip
    assert [code for _, code, _, _ in told] == [0, 0, 0, 0], told
    assert "loading takes some seconds" in told[0][2]
    assert "red.png, sight: red" in told[2][2]
    assert "low.wav, sound: low" in told[2][2]
    assert told[-1][3] == ["torch"]


@pytest.fixture
def taken_port() -> Iterator[int]:
    """A port of this machine that is in use."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_invalid_arguments_are_reported_before_heavy_imports(files: Path, taken_port: int) -> None:
    room = ["--camera", "synthetic", "--mic", "synthetic"]
    wrong: list[tuple[list[str], str]] = [
        (["teach", "cup", "none.png"], "There is no file 'none.png'"),
        (["teach", " ", "red.png"], "A name is one line"),
        (["teach", "cup", "text.txt"], "is text and no media file"),
        (["teach", "cup", "red.png", "--agent", "nowhere"], "There is no folder 'nowhere'"),
        (["teach", "cup", "red.png", "--agent", "newbron"], "did you mean 'newborn'?"),
        (["teach", "cup", "red.png", "--agent", "nowhere"], "with devmind come: newborn, after-memory"),
        (["teach", "cup", "red.png", "--agent", "empty"], "There is no agent in 'empty'"),
        (["name", "red.png"], "There is no memory in 'memory'"),
        (["live", "--agent", "nowhere"], "There is no folder 'nowhere'"),
        (["live", "--camera", "none", "--mic", "none"], "nothing to sense"),
        (["live", *room, "--private", "--record", "x.mcap"], "excludes --record"),
        (["live", *room, "--set", "learn=true"], "add --record FILE"),
        (["live", *room, "--set", f"page.port={taken_port}"], f"port {taken_port}"),
        (["live", *room, "--set", "page.host=0.0.0.0"], "page.host is the one name"),
        (["live", *room, "--record", "nowhere/x.mcap"], "There is no folder 'nowhere'"),
        (["live", "--camera", "browser", "--mic", "none", "--set", "page.shown=false"], "needs the page"),
        (["live", *room, "--set", "plans=cup.plan"], "cup.plan, line 3, column 21"),
        (["live", *room, "--set", "plans=none.plan"], "There is no plan file 'none.plan'"),
        (["live", *room, "--set", "plans=text.txt"], "There is no procedure named 'txt'"),
        (["live", *room, "--set", "plans=blocks"], "expected an action of this world; got 'move'"),
        (["hello", "--set", f"page.port={taken_port}"], f"port {taken_port}"),
        (["hello", "--age", "9"], "There is no age 9; known are 0 (before its first lesson), 1 (after reflex)"),
        (["hello", "--agent", "newborn"], "needs --age N"),
        (["stage", "run", "refelx"], "did you mean 'reflex'?"),
        (["stage", "run", "reflex", "--agent", "nowhere"], "There is no folder 'nowhere'"),
        (["stage", "run", "reflex", "--data", "nowhere"], "There is no folder 'nowhere'"),
        (["stage", "run", "reflex", "--set", "trunk.windw=3"], "did you mean"),
        (["stage", "exam", "reflex", "--agent", "nowhere"], "There is no folder 'nowhere'"),
        (["stage", "exam", "reflex", "--skill", "seeing"], "Stage 'reflex' has no skill 'seeing'; did you mean 'see'?"),
        (["stage", "exam", "memory", "--skill", "matc"], "did you mean 'match'?"),
        (["stage", "exam", "refelx"], "did you mean 'reflex'?"),
        (["stage", "exam", "reflex", "--through", "live"], "--through knows 'life' only"),
        (["stage", "show", "refelx"], "did you mean 'reflex'?"),
        (["stage", "show", "reflex", "--config", "chidl"], "did you mean 'child'?"),
        (["stage", "run", "reflex", "memroy"], "did you mean 'memory'?"),
        (["stage", "run", "--out", "nowhere"], "There is no folder 'nowhere'"),
        (["stage", "run"], "Name a stage to run, or 'all'"),
        (["report", "nowhere"], "nowhere"),
        (["watch", "nowhere"], "nowhere"),
        (["study", "none.yaml"], "none.yaml"),
        (["data", "nothing"], "nothing"),
        (["new", "stge", "x"], "stge"),
        (["config", "shw"], "did you mean 'show'?"),
        (["plugins", "lst"], "did you mean 'list'?"),
        (["memory", "forget", "--name", "cup", "--memory", "nowhere"], "nowhere"),
        (["memory", "export", "x", "--memory", "nowhere"], "nowhere"),
        (["hear", "none.wav"], "There is no file 'none.wav'"),
        (["hear", "text.txt"], "text.txt"),
        (["hear", "low.wav", "--agent", "newborn"], "was never taught to hear words: it has no head 'heard_words_arc'"),
        (["hear", "none.wav", "--echo", "x.wav"], "There is no file 'none.wav'"),
        (["hear", "low.wav", "--echo", "low.wav"], "--echo names a new .wav file"),
        (["say", "hello", "--agent", "newborn"], "was never taught to read and write"),
        (["play", "tictactoe", "--agent", "newborn"], "was never taught tictactoe"),
        (["procedures", "none.plan", "--check"], "There is no plan file 'none.plan'"),
        (["procedures", "blocks", "--world", "block"], "did you mean 'blocks'?"),
        (["say", " "], "There is no text to continue"),
        (["play", "tictactoes"], "did you mean 'tictactoe'?"),
        (["solve", "sudoku", "1"], "There is no puzzle 'sudoku'"),
        (["solve", "sudoku"], "There is no puzzle 'sudoku'; known are: 15-puzzle, 8-puzzle, lights-out."),
        (["solve", "8-puzzle"], "'8-puzzle' needs its state"),
        (["solve", "8-puzzle", "1", "--hand-rules", "--beam", "3"], "--hand-rules asks no agent"),
        (["solve", "8-puzzle", "123456078", "--agent", "newborn"], "was never taught 8-puzzle"),
        (["solve", "8-puzzle", "1 2 3"], "Expected the numbers 0 to 8"),
        (["solve", "8-puzzle", "2 1 3 4 5 6 7 8 0"], "their parity is odd"),
        (["solve", "lights-out", "101"], "Expected 25 lights"),
        (["solve", "lights-out", f"1{24 * '0'}"], "cannot be put out by any presses"),
        (["navigate", "MiniGrid-FourRoms-v0"], "did you mean 'MiniGrid-FourRooms-v0'?"),
        (["navigate", "BabyAI-GoToRedBallGrey-v0"], "Expected a mission such as 'reach the goal'"),
        (["plan", "market", "trend", "--seed", str(2**63)], "should be less than or equal to"),
        (["navigate", "--seed", str(2**63)], "should be less than or equal to"),
        (["plan", "maze", "medum"], "did you mean 'medium'?"),
        (["plan", "market", "trent"], "did you mean 'trend'?"),
        (["plan", "maze", "medium", "--set", "symbols=eats"], "did you mean 'east'?"),
        (["plan", "maze", "--set", "waypoints.5=x"], "waypoints.5 takes a place x,y such as 12,16, or a task"),
        (["plan", "maze", "--page", "0", "--set", "steps=3"], "leave out --show"),
        (["plan", "maze", "--agent", "newborn"], "was never taught to plan"),
        (["plan", "maze", "--set", "guidance=.inf"], "guidance"),
        (["plan", "market", "replay:none.csv"], "There is no file 'none.csv'; give a table of prices"),
        (["plan", "room", "BabyAI-GoToSeqS5R2-v0", "--goal", " "], "--goal needs an instruction"),
        (["session", "show", "none.mcap"], "There is no file 'none.mcap'"),
        (["session", "replay", "none.mcap", "--check"], "There is no file 'none.mcap'"),
        (["session", "record", "x.mcap", "--camera", "none", "--mic", "none"], "nothing to sense"),
        (["session", "record", "x.mcap", "--camera", "browser", "--mic", "none"], "needs a page"),
        (["memory", "recall", "--like", "none.png"], "There is no"),
        (["memory", "show", "x"], "'[ID]': a whole number is expected"),
        (["memory", "sleep", "--agent", "nowhere"], "There is no folder 'nowhere'"),
        (["--help"], "hello"), (["stage", "show"], "reflex"), (["sensors"], "webcam"),
    ]  # fmt: skip
    told = alone(files, *(words for words, _ in wrong))
    for (words, sentence), (_, code, output, loaded) in zip(wrong, told, strict=True):
        assert sentence in " ".join(output.split()), words
        assert code == (0 if words in FINE else 2), words
        assert not loaded, f"{words} loaded {loaded}"


LATER = """
import sys
import devmind.agent.agent
loaded = [name for name in ("torch._dynamo", "sympy", "scipy", "torch.distributed.tensor") if name in sys.modules]
assert not loaded, loaded
import torch
assert torch.compile(lambda x: x + 1, backend="eager")(torch.ones(1)).item() == 2
from transformers.loss import loss_for_object_detection as detection
from transformers.utils import is_scipy_available, is_torch_distributed_available
assert is_scipy_available() and detection.is_scipy_available() and is_torch_distributed_available()
assert detection.linear_sum_assignment([[2, 1], [1, 3]])[1].tolist() == [1, 0]
"""


def test_agents_are_loaded_without_compiler_sharding_and_scipy_which_work_when_asked_for() -> None:
    ran = subprocess.run([sys.executable, "-c", LATER], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
