"""Kill a childhood with `kill -9` at random places of every stage, and check that nothing differs afterwards.

    python -m tests.curriculum.attack --kills 50

raises one undisturbed childhood of all stages and one that is killed, at size tiny, and compares them bit for bit.
Two stages or more may be named; unknown options are passed to `devmind stage run`. `--short` takes a few steps of each
lesson and some of the exams (`short.py`), as in continuous integration. Many kills can be split over several calls:
with `--out DIR` the undisturbed childhood is kept, and each further call, with its own `--seed`, kills another one:

    python -m tests.curriculum.attack --short --out DIR --kills 10 --seed 1
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from devmind.agent.agent import Agent
from devmind.curriculum.journal import Journal
from tests.curriculum import short

ROOT = Path(__file__).parents[2]
PATIENCE_S = 900.0
DEVMIND = (sys.executable, "-c", "from devmind.cli import main; main()")


def childhood(out: Path, *options: str, stages: Sequence[str] = ("all",)) -> list[str]:
    """The command that raises one in `out`, or goes on with it; checkpoints are made at every chance."""
    often = ("--set", "checkpoint.every=1 step", "--set", "loggers=[]", "--set", "threads=1")
    return [*DEVMIND, "stage", "run", *stages, *options, "--config", "tiny", *often, "--out", str(out)]


def journals(out: Path) -> list[Path]:
    """By stage, and of the last exams."""
    stages = (Journal(out / "curriculum.jsonl").last("plan") or {"stages": []})["stages"]
    return [*(out / stage / "journal.jsonl" for stage in stages), out / "half" / "exams.jsonl"]


def outcome(out: Path) -> dict[str, Any]:
    """Weights and verdicts of every stage and of the last exams; what depends on a clock is left out."""
    found: dict[str, Any] = {}
    for journal in journals(out)[:-1]:
        finished = Journal(journal).last("finished")
        assert finished is not None, f"{journal} has not ended"
        results = json.loads((journal.parent / "reports" / journal.parent.name / "results.json").read_text())
        found[journal.parent.name] = {
            "weights": Agent.from_pretrained(journal.parent / finished["agent"]).sha256(),
            "verdict": results["verdict"],
            "measures": [
                [measure[key] for key in ("name", "score", "low", "high", "n", "gate", "passed")]
                for skill in results["skills"]
                for measure in skill["measures"]
            ],
            "retention": results["retention"],
        }
    last = json.loads((out / "half" / "verdict.json").read_text())
    return found | {"last": {key: last[key] for key in ("agent_sha256", "gates", "failed")}}


def run(command: Sequence[str], env: Mapping[str, str] | None = None) -> None:
    """To its end: 0 or 1 is the verdict, anything else a fault."""
    process = subprocess.run(
        command, cwd=ROOT, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False
    )
    assert process.returncode in (0, 1), process.stderr[-2000:]


def attack(out: Path, straight: Path, command: Sequence[str], kills: int, seed: int, env: Any = None) -> list[str]:
    """Kill the childhood in `out` `kills` times, evenly over the stages and the last exams, then let it end.

    In a stage the places are drawn from the events of its undisturbed journal, with a short delay after each.

    Returns: where it was killed, without processes that ended before their place.
    """
    rng, hit = random.Random(seed), []
    places = journals(straight)
    for number, undisturbed in enumerate(places):
        events = len(list(Journal(undisturbed).events()))
        share = kills // len(places) + (number < kills % len(places))
        journal = Journal(out / undisturbed.relative_to(straight))
        for after in sorted(rng.randint(1, events) for _ in range(share)):
            with subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as one:
                try:
                    _wait_for(journal, after, one)
                    time.sleep(rng.uniform(0, 0.2))
                finally:
                    alive = one.poll() is None
                    one.kill()
            if not alive:
                continue  # it had come to its end
            last = journal.last() or {"event": "nothing"}
            hit.append(
                f"{journal.path.parent.name}, behind {last['event']} {last.get('lesson', last.get('skill', ''))}"
            )
    run(command, env)
    return hit


def _wait_for(journal: Journal, after: int, process: subprocess.Popen[bytes]) -> None:
    """Until the journal has grown to `after` events and at least by one, or its stage is over."""
    wanted, until = max(after, len(list(journal.events())) + 1), time.monotonic() + PATIENCE_S
    while len(list(journal.events())) < wanted and journal.last("finished") is None:
        if process.poll() is not None:
            return  # what was left was shorter than expected
        assert time.monotonic() < until, f"nothing happened in {journal.path}"
        time.sleep(0.02)


def main() -> None:
    """Say where it was killed, and fail with what differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stages", nargs="*")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--short", action="store_true", help="short lessons and few exams")
    parser.add_argument("--out", type=Path, help="kept; by default a folder that is gone afterwards")
    asked, options = parser.parse_known_args()
    stages = asked.stages or ["all"]
    with tempfile.TemporaryDirectory() as temporary:
        folder = (asked.out or Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        straight, killed = folder / "straight" / "childhood", folder / f"killed-{asked.seed}" / "childhood"
        if killed.exists():
            sys.exit(f"A childhood was killed with --seed {asked.seed} before, in {killed.parent}; give another seed.")
        env = os.environ
        if asked.short:
            env, options = short.installed(folder / "site", ROOT), [*options, *short.OPTIONS]
        begun = time.monotonic()
        run(childhood(straight, *options, stages=stages), env)
        print(f"undisturbed in {time.monotonic() - begun:.0f} s", flush=True)
        hit = attack(killed, straight, childhood(killed, *options, stages=stages), asked.kills, asked.seed, env)
        print("\n".join(f"killed in {place}" for place in hit))
        first, second = outcome(straight), outcome(killed)
        differing = [name for name in first if first[name] != second[name]]
        if differing:
            sys.exit(f"After {len(hit)} kills these differ: {', '.join(differing)}; see {folder}.")
        tally = folder / "kills.txt"
        with tally.open("a", encoding="utf-8") as file:
            file.writelines(f"seed {asked.seed}: {place}\n" for place in hit)
        print(f"{len(hit)} kills survived: weights and verdicts of {', '.join(first)} are equal to the bit")
        print(f"{len(tally.read_text(encoding='utf-8').splitlines())} in all by the calls of this folder")


if __name__ == "__main__":
    main()
