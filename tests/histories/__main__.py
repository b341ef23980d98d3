"""`python -m tests.histories --seconds 300`: several processes on one memory, killed at random; is there an order?

Two writers, two readers, a forgetter and a re-keyer on one SQLite and one PostgreSQL memory. Every second one of these
is killed by `kill -9` and another one takes its place; PostgreSQL itself is stopped without a word now and then. What
was recorded of each entry has to be linearizable, each look at the whole has keys of one encoder, and at the end the
store is whole.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path

from devmind.memory import open_store
from tests.histories.checker import ADD, DELETE, READ, REKEY, Operation, linearizable
from tests.histories.worker import snapshot
from tests.memory.postgres_server import PostgresServer, binaries

ROOT = Path(__file__).parents[2]
ROLES = ("write", "write", "read", "forget", "rekey", "recall")
"""All may be killed but the last, which has an index that lives on."""
KILL_EVERY_S, CRASH_EVERY_S = 1.0, 7.0


def histories(lines: list[dict[str, object]]) -> tuple[dict[str, list[Operation]], list[str], Counter[str]]:
    """Operations by entry of the lines of all logs, faults of looks at the whole, and how many calls were answered."""
    called: dict[object, dict[str, object]] = {}
    answers: dict[object, dict[str, object]] = {}
    for line in lines:
        (called if "kind" in line else answers)[line["id"]] = line
    added_s = {str(call["tag"]): float(str(call["at"])) / 1e9 for call in called.values() if call["kind"] == ADD}
    found: dict[str, list[Operation]] = defaultdict(list)
    faults, counts = list[str](), Counter[str]()
    for number, call in called.items():
        answer = answers.get(number, {})
        kind = str(call["kind"])
        if answer.get("refused"):
            counts[f"{kind} refused"] += 1
            continue
        is_open = "got" not in answer
        counts[f"{kind} without an answer" if is_open else kind] += 1
        at_s = float(str(call["at"])) / 1e9
        until_s = math.inf if is_open else float(str(answer["at"])) / 1e9
        given = None if call.get("given") is None else str(call["given"])
        got = answer.get("got")
        if kind == "snapshot" and not is_open:
            assert isinstance(got, dict)
            if len(set(got.values())) > 1:
                faults.append(f"a look at the whole has keys of {sorted(set(got.values()))}")
            for tag, began_s in added_s.items():
                if tag in got or until_s > began_s:  # before, all see that it is not there
                    found[tag].append(Operation(at_s, until_s, READ, got=got.get(tag)))
            faults += [f"{tag} was never written" for tag in got if tag not in added_s]
        elif kind == REKEY:
            for tag in call["tags"]:  # type: ignore[attr-defined]
                found[tag].append(Operation(at_s, until_s, REKEY, given))
        elif kind in (ADD, DELETE, READ):
            found[str(call["tag"])].append(Operation(at_s, until_s, kind, given, None if kind == ADD else got))  # type: ignore[arg-type]
    return {tag: thinned(history) for tag, history in found.items()}, faults, counts


def thinned(history: list[Operation]) -> list[Operation]:
    """Without reads that say what the ones before and behind them say, while nothing changes: they tell no more."""
    reads = sorted((one for one in history if one.kind == READ), key=lambda one: one.called_s)
    changes = [one for one in history if one.kind != READ]
    kept = [one for one in history if one.kind != READ]
    for at, one in enumerate(reads):
        around = reads[max(0, at - 1) : at + 2]
        since_s, until_s = around[0].called_s, around[-1].answered_s
        is_same = len(around) == 3 and len({other.got for other in around}) == 1 and until_s < math.inf
        if not is_same or any(other.called_s <= until_s and other.answered_s >= since_s for other in changes):
            kept.append(one)
    return kept


def live(place: str, seconds: float, seed: int, folder: Path, crash: Callable[[], None] | None = None) -> Counter[str]:
    """Let the processes live on the memory at `place`, kill them, and check; gives what was counted.

    Raises:
        AssertionError: there is no order of an entry's history, or the store is damaged.
    """
    draw, log = random.Random(seed), folder / "history.jsonl"
    with open_store(place):
        pass  # made before they meet

    def begin(role: str) -> subprocess.Popen[bytes]:
        arguments = [role, place, str(log), str(draw.randrange(10**6))]
        command = [sys.executable, "-m", "tests.histories.worker", *arguments]
        return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)

    processes = [begin(role) for role in ROLES]
    kills = crashes = 0
    try:
        for process in processes:
            assert process.stdout is not None
            process.stdout.readline()  # "ready"
        end_s, crash_s = time.monotonic() + seconds, time.monotonic() + CRASH_EVERY_S
        while time.monotonic() < end_s:
            time.sleep(draw.uniform(0.5, 1.5) * KILL_EVERY_S)
            at = draw.randrange(len(ROLES) - 1)
            processes[at].kill()
            processes[at].wait()
            processes[at] = begin(ROLES[at])
            kills += 1
            if crash is not None and time.monotonic() > crash_s:
                crash()
                crashes, crash_s = crashes + 1, time.monotonic() + CRASH_EVERY_S
    finally:
        for process in processes:
            process.kill()
            process.wait()
    lines = [json.loads(line) for line in log.read_bytes().splitlines()]
    with open_store(place) as store:
        assert store.check() == [], "the store is damaged"
        at = time.monotonic_ns()
        last = {tag: encoder for tag, (_, encoder) in snapshot(store).items()}
    lines += [{"id": "last", "at": at, "kind": "snapshot"}, {"id": "last", "at": time.monotonic_ns(), "got": last}]
    found, faults, counts = histories(lines)
    faults += [f"no order of the history of {tag}" for tag, history in found.items() if not linearizable(history)]
    assert not faults, f"seed {seed}: {'; '.join(faults[:5])} (of {len(faults)}; {log})"
    return counts + Counter({"entries": len(found), "kills": kills, "crashes": crashes})


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="of each store")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="devmind-histories-"))  # stays when something is wrong
    for kind in ("sqlite", "postgres"):
        (here := folder / kind).mkdir()
        if kind == "sqlite":
            counts = live(str(here / "mind"), given.seconds, given.seed, here)
        elif (found := binaries()) is None:
            print("postgres: not tried, as there is no server: make test-system")
            continue
        else:
            server = PostgresServer(found)
            try:
                counts = live(server.database(), given.seconds, given.seed, here, partial(crashed, server))
            finally:
                server.close()
        print(f"{kind}: " + ", ".join(f"{what} {count}" for what, count in sorted(counts.items())), flush=True)


def crashed(server: PostgresServer) -> None:
    """Stopped without a word, and started again."""
    server.stop("immediate")
    server.start()


if __name__ == "__main__":
    main()
