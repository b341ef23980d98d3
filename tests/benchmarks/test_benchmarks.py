"""Every benchmark runs at size tiny and prints its figures; there are few of them, and no one without this."""

from __future__ import annotations

import importlib
import re
import runpy
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType

import numba
import numpy as np
import pytest
import torch

from devmind.live.demonstration import showings
from devmind.testing import tiny_agent
from devmind.testing.laws import ATOL
from devmind.worlds.pointmaze import PointMazeRules
from stages.planning import parts
from stages.planning.planner import Candidates, Route

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
FILE = "{file}"
RUNS: Mapping[str, tuple[list[str], list[str]]] = {
    "machine": ([], [r"one core +[\d.]+ GFLOP/s", r"\d minutes expected"]),
    "tick_speed": ([], [r"step, 22 tokens +[\d.]+ ms CPU", r"heard by the trunk +[\d.]+ CPU s", r"asked and answered"]),
    "env_speed": ([], [r"full ticks, N = 2, one thread: [\d,]+ per CPU-s", r"MuJoCo"]),
    "search_speed": (
        [],
        [r"one random game a leaf, 10 \(C\+\+\) +[\d,]+ +[\d,]+", r"batch 2 +[\d,]+", r"Q\*, 2 problem"],
    ),
    "ppo_vs_sb3": ([], [r"seed 0  devmind +\d+ steps", r"seed 0  sb3 +\d+ steps", r"x the CPU-seconds"]),
    "memory_search": ([], [r"\| devmind float32 \|.*\| 1.000 \|", r"\| faiss flat \|.*\| 1.000 \|"]),
    "names": ([], [r"\| made up, unlike \| 3 x 3 \| devmind \| \d\.\d{3} \|", r"\| ridge, log-mel \|"]),
    "population": ([], [r"\| kernel, rows \| [\d,]+ \|", r"\| 64-16-10 x 40 \| 25 \|"]),
    "closed_form": ([], [r"\| integers: .*\| [\d,]+ \| \d+\.\d\d \|", r"another order and split: the same bits"]),
    "feed": ([], [r"\| 1 KiB \| feed \| \d+", r"\| 64 KiB \| gRPC \+ fsync \| \d+", r"MB/s at 8,192 KiB a sync"]),
    "saving": ([], [r"\| devmind \| \d+ \(\d+\) \| \d+\.\d\d \|", r"[1-9]\d* checkpoints in \d+ s: \d\.\d+ of"]),
    "growth": (
        ["--seeds", "1"],
        [r"\| grown \|", r"\| gathered \| \d+\.\d\d \|", r"frees [\d,]+ of", r"\d\.\d CPU s a birth"],
    ),
    "planning": ([], [r"cold, median", r"batch 64 +[\d.]+ +[\d.]+ +[\d.]+", r"ours, .* above unet, 5 steps"]),
    "live": ([], [r"[1-9]\d* ticks in 3 s", r"the whole loop's work, ms: \{'p50'", r"[1-9]\d* messages to the viewer"]),
    "sizes": ([], [r"planning/criticise: seconds a step [\d.e-]+"]),
    "first_word": ([], [r"\| solve, no such puzzle \| \d+\.\d\d \|"]),
    "long_life": ([], [r'"ticks": 24', r"since the warm-up"]),
    "demo_film": ([FILE + ".webp"], [r"pictures, \d+ s, [\d.]+ MB"]),
    "demo_clip": (["--out", FILE + ".mcap"], [r"[\d.]+ MB"]),
}
"""Words after `--tiny`, and what is printed."""
LIVES = ("live", "demo_clip")
"""Those in which an agent lives for a while, and which wait for it."""


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    """A benchmark sets how many threads its process has."""
    before = torch.get_num_threads(), numba.get_num_threads()
    yield
    torch.set_num_threads(before[0])
    numba.set_num_threads(before[1])


@pytest.fixture
def planning(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The benchmark of plans as a module."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield importlib.import_module("planning")
    sys.modules.pop("planning", None)


def test_benchmarks_are_few_and_each_is_run_here() -> None:
    files = list(BENCHMARKS.glob("*.py"))
    assert {file.stem for file in files} == set(RUNS)
    assert len(files) <= 19
    assert sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files) <= 4050


def exit_code(file: Path) -> int | str:
    """That of a script that is run in this process."""
    try:
        runpy.run_path(str(file), run_name="__main__")
    except SystemExit as ended:
        return ended.code or 0
    return 0


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n in LIVES)) for n in RUNS])
def test_a_benchmark_runs_at_size_tiny(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words, printed = RUNS[name]
    file = BENCHMARKS / f"{name}.py"
    monkeypatch.setattr(
        sys, "argv", [str(file), "--tiny", *(word.replace(FILE, str(tmp_path / "made")) for word in words)]
    )
    assert exit_code(file) == 0
    output = capsys.readouterr().out
    for pattern in printed:
        assert re.search(pattern, output), f"{pattern!r} is not in\n{output}"
    if name == "demo_clip":
        (shown,) = showings(tmp_path / "made.mcap")
        assert (shown.what, shown.first) == ("mug", 30)


def test_first_plans_hold_where_they_cross_no_wall(planning: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = tiny_agent()
    parts.admit(agent)
    head = agent.head(parts.ROUTE)

    def search(read: Route) -> Candidates:
        share = torch.linspace(0, 1, parts.HORIZON)[:, None]
        straight = read.place[:, None] + share * (read.goal - read.place)[:, None]
        plans = torch.stack((straight, read.place[:, None].expand_as(straight)), 1)
        return Candidates(plans, torch.zeros(len(plans), 2, 0), torch.zeros(len(plans), 2), torch.tensor([1, 0] * 5))

    monkeypatch.setattr(head, "search", search)
    first = planning.first_plans(head, "large-tasks", np.arange(10))
    assert first.chosen.tolist() == [True, False] * 5, "who stays runs into nothing; all tasks have walls between"
    assert first.candidates.tolist() == [0.5] * 10


def test_a_unet_takes_the_denoisers_place_and_reads_what_it_is_told(planning: ModuleType) -> None:
    head = planning.planners("tiny", 0).head("unet")
    rules = PointMazeRules("medium")
    seen = rules.observe(rules.initial(np.arange(3)))
    place, goal, maze = (torch.from_numpy(seen[sense]) for sense in parts.SENSES)
    with torch.inference_mode():
        read = head.thinking(place, goal, maze)
        plans = head.search(read).plans
        assert torch.allclose(plans[:, :, 0], place[:, None], atol=ATOL)
        assert torch.allclose(plans[:, :, -1], goal[:, None], atol=ATOL)
        x = torch.randn(3, planning.HORIZON, 2, generator=torch.Generator().manual_seed(0))
        given, level = torch.zeros(3, planning.HORIZON, dtype=torch.bool), torch.full((3,), 0.5)
        symbols = torch.zeros(3, 0, dtype=torch.int64)

        def denoised(thought: torch.Tensor, present: torch.Tensor) -> torch.Tensor:
            return head.denoiser(x, given, level, symbols, level, thought, present)[0]

        told = denoised(read.condition, read.present)
        assert not torch.allclose(told, denoised(read.condition.flip(0), read.present)), "it reads the condition"
        absent = torch.zeros_like(read.present)
        assert torch.equal(denoised(read.condition, absent), denoised(read.condition.flip(0), absent))
