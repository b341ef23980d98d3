"""CPU seconds of commands (user and system, with child processes), the least of several runs: before their first word,
and until they refuse a wrong argument. Another checkout gives the ratios.

    python benchmarks/first_word.py --beside ../before --json table.json
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import soundfile

HERE = Path(__file__).parents[1]
START = "from devmind.cli import main; main()"
PUZZLE = ("solve", "8-puzzle", "1 2 3 4 5 6 0 7 8")
SOUND, ECHO = "sound.wav", "echo.wav"
WORKING: dict[str, tuple[str, ...]] = {
    "--help": ("--help",),
    "solve, by hand rules": (*PUZZLE, "--hand-rules"),
    "solve, by the agent": PUZZLE,
    "say": ("say", "hello"),
    "hear, 1.5 s of sound": ("hear", SOUND),
    "echo, 1.5 s of sound": ("hear", SOUND, "--echo", ECHO),
    "navigate": ("navigate",),
    "plan, a room": ("plan", "room", "BabyAI-GoToSeqS5R2-v0", "--seed", "5"),
    "play, left at once": ("play", "tictactoe"),
    "hello, to the address": ("hello", "--memory", "memory"),
    "stage show": ("stage", "show"),
}
REFUSED: dict[str, tuple[str, ...]] = {
    "stage exam, no such skill": ("stage", "exam", "reflex", "--skill", "seeing"),
    "stage show, no such stage": ("stage", "show", "refelx"),
    "hello, no such age": ("hello", "--age", "9"),
    "live, no such agent": ("live", "--agent", "nowhere"),
    "solve, no such puzzle": ("solve", "sudoku"),
    "say, no text": ("say", " "),
    "hear, no such file": ("hear", "none.wav"),
    "echo, no such file": ("hear", "none.wav", "--echo", ECHO),
    "play, no such game": ("play", "tictactoes"),
    "navigate, no such room": ("navigate", "MiniGrid-FourRoms-v0"),
    "plan, no such maze": ("plan", "maze", "medum"),
    "teach, no such file": ("teach", "cup", "none.png"),
}


UNTIL = {"hello": "open this page"}
"""A command that would not end is killed when it prints this."""


def cpu_s(words: Sequence[str], checkout: Path, folder: Path) -> tuple[float, int]:
    """CPU seconds and exit code of `devmind WORDS` by the code of `checkout`, in `folder` with nothing to read."""
    environment = os.environ | {"PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1", "XDG_DATA_HOME": str(folder)}
    (folder / ECHO).unlink(missing_ok=True)
    with subprocess.Popen(
        [sys.executable, "-c", START, *words], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, errors="replace",
    ) as process:  # fmt: skip
        for line in process.stdout or ():
            if words[0] in UNTIL and line.startswith(UNTIL[words[0]]):
                process.kill()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return used.ru_utime + used.ru_stime, process.returncode


def measured(
    commands: Mapping[str, Sequence[str]], checkouts: Sequence[Path], runs: int, folder: Path
) -> dict[str, list[float | None]]:
    """The least CPU seconds of each command by each checkout, in turns; None where it does not know an option."""
    seconds = 1.5
    times = np.arange(int(16_000 * seconds)) / 16_000
    soundfile.write(folder / SOUND, 0.3 * np.sin(2 * np.pi * (200 + 100 * np.sin(9 * times)) * times), 16_000)
    found: dict[str, list[float | None]] = {}
    for name, words in commands.items():
        tries = [[cpu_s(words, checkout, folder) for checkout in checkouts] for _ in range(runs)]
        found[name] = [
            None if column[0][1] == 2 and name not in REFUSED else min(spent for spent, _ in column)
            for column in zip(*tries, strict=True)
        ]
        print(row(name, found[name]), flush=True)
    return found


def row(name: str, spent: Sequence[float | None]) -> str:
    """One line of the table: CPU seconds by each checkout, and the first by the second."""
    cells = " | ".join("–" if one is None else f"{one:.2f}" for one in spent)
    first, *others = spent
    ratio = f" | {first / others[0]:.2f}" if others and first is not None and others[0] is not None else ""
    return f"| {name} | {cells}{ratio} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--beside", type=Path, help="another checkout, for ratios")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", default="", help="only commands whose name contains this")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--tiny", action="store_true", help="only show that everything runs: one command, once")
    args = parser.parse_args()
    if args.tiny:
        args.only, args.runs = "no such puzzle", 1
    checkouts = [HERE, *([args.beside.resolve()] if args.beside else [])]
    chosen = {name: words for name, words in (WORKING | REFUSED).items() if args.only in name}
    print(f"| command, CPU s | here |{' beside | ratio |' if args.beside else ''}")
    with tempfile.TemporaryDirectory() as folder:
        found = measured(chosen, checkouts, args.runs, Path(folder))
    if args.json:
        args.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
