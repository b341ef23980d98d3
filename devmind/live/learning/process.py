"""The learner's process: `learner.LiveLearner` starts it and reads its messages.

It writes one JSON object a line to stdout: `ready`, `progress`, `fault` and the verdicts of `improving.Judged`. It ends
when its stdin ends, so it never outlives the process that started it.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import IO, Any

from devmind.agent.agent import Agent
from devmind.agent.threads import intra_op_threads
from devmind.errors import DevmindError
from devmind.live.learning.following import Following
from devmind.live.learning.improving import FIRST_TICKS, Improver, keep

IDLE_S = 0.2
PATIENCE = 3
"""After so many intervals with too few new Moments to judge by, it stops learning from the old ones."""
PROGRESS_S = 2.0


def run(improver: Improver, kept: Path, every_s: float, say: IO[str]) -> None:
    """Learn until the process ends; messages go to `say`."""

    def report(kind: str, **what: Any) -> None:
        print(json.dumps({"type": kind, "step": improver.step, **what}), file=say, flush=True)

    recording, learned_to, begun_s, reported_s, fault = improver.recording, 0, time.monotonic(), 0.0, ""
    report("ready")
    while True:
        recording.refresh()
        end, now_s = len(recording), time.monotonic()
        if recording.fault != fault:
            fault = recording.fault
            report("fault", sentence=fault)
        if now_s - reported_s >= PROGRESS_S:
            reported_s = now_s
            report("progress", ticks=end)
        if learned_to < FIRST_TICKS:
            learned_to, begun_s = end, now_s
        elif now_s - begun_s >= every_s and end - learned_to >= 2 * improver.ticks:
            _offer(improver, learned_to, end, kept, report)
            learned_to, begun_s = end, now_s
        if learned_to >= FIRST_TICKS and now_s - begun_s < PATIENCE * every_s:
            improver.learn(learned_to)
        else:
            time.sleep(IDLE_S)


def _offer(improver: Improver, start: int, stop: int, kept: Path, report: Any) -> None:
    """Judge by the Moments [start, stop), then hand over, take back, or go on learning."""
    judged, place = improver.judge(start, stop), {}
    if judged.verdict == "handed_over":
        folder, sha256 = keep(improver.agent, kept)
        place = {"folder": str(folder), "sha256": sha256}
        improver.hand_over()
    elif judged.verdict == "taken_back":
        improver.take_back()
    report(judged.verdict, live=judged.live, newer=judged.newer, drift=judged.drift, ticks=stop - start, **place)


def _end_with_the_parent() -> None:
    """Wait for the end of stdin, a pipe that nobody writes to: it ends when the parent closes it or dies in any way."""
    sys.stdin.buffer.read()
    os._exit(0)


def main(agent: str, session: str, kept: str, every_s: str) -> None:
    """Entry point for `learner.LiveLearner`."""
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    say, sys.stdout = sys.stdout, sys.stderr  # prints of other code must not get between the messages
    with intra_op_threads(1):
        try:
            improver = Improver(Agent.from_pretrained(Path(agent)), Following(Path(session)))
            run(improver, Path(kept), float(every_s), say)
        except DevmindError as error:
            print(json.dumps({"type": "fault", "step": 0, "sentence": str(error)}), file=say, flush=True)
            raise SystemExit(1) from error
