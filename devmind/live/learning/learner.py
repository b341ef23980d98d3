"""Learning while living: a second process learns from the recording, and newer weights arrive between ticks.

The loop's thread only calls `poll()` and, for a hand-over, `swap_into(agent)`, which points the trained parameters at
tensors that are already loaded. A separate thread waits, reads and loads.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from torch import Tensor

from devmind.agent.agent import Agent
from devmind.agent.prediction import NEXT, TYPICAL_CHANGE, predicting
from devmind.agent.saving import WEIGHTS
from devmind.bounds import parse_json
from devmind.errors import DevmindError
from devmind.live.learning.improving import TRAINED, keep

INTERVAL_S = 60.0
STOP_S = 2.0
CURVE_POINTS = 240
NICENESS = 10
_START = (
    "import os, signal, sys\n"
    "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
    f"getattr(os, 'nice', int)({NICENESS})\n"
    "from devmind.live.learning.process import main\n"
    "main(*sys.argv[1:])"
)
"""Lowers the priority and ignores the parent's Ctrl-C, before the heavy imports, which use a core for seconds."""


@dataclass(frozen=True)
class Handover:
    """Newer weights that predicted the newest Moments better, loaded and ready.

    Attributes:
        folder: where the whole agent is kept, beside the recording.
        sha256: hash of all weights of the agent after the swap.
        step: training steps of the learner by then.
        tensors: the changed parameters, by name.
    """

    folder: Path
    sha256: str
    step: int
    tensors: dict[str, Tensor]

    def swap_into(self, agent: Agent) -> None:
        """Give the agent these weights and keep its state. Only between two ticks, in the loop's thread."""
        parameters = dict(agent.named_parameters())
        for name, tensor in self.tensors.items():
            if name in parameters:
                parameters[name].data = tensor


class LiveLearner:
    """The learner's process beside a live agent; a context manager.

    Args:
        agent: the live agent; it is saved, and not changed before a hand-over.
        session: the recording that is being written (its first part). Weights are kept in STEM.weights beside it, the
            first ones included, so that the recording can be checked; each folder has the size of the agent.
        every_s: least seconds between hand-overs.

    Attributes:
        kept, sha256: where the agent was saved, and the hash of its weights.
        handed_over, taken_back: number of weights that were better, and of those that were worse and dropped.
        fault: a sentence when the learner cannot go on; the life goes on.

    Raises:
        DevmindError: the agent has no head that predicts, or cannot be saved.
    """

    def __init__(self, agent: Agent, session: Path, *, every_s: float = INTERVAL_S) -> None:
        if not predicting(agent, agent.sense_order):
            heads = " or ".join(f"'{NEXT}{sense}'" for sense in TYPICAL_CHANGE)
            raise DevmindError(
                f"This agent predicts nothing, so it cannot learn from what it lives: it has no head {heads}. Take one "
                "that a stage has taught to predict, or leave learning off."
            )
        self.session, self.device = Path(session), agent.device
        self.folder = self.session.with_name(f"{self.session.stem}.weights")
        self.kept, self.sha256 = keep(agent, self.folder)
        self.handed_over = self.taken_back = self.step = 0
        self.fault = ""
        self._curves: dict[str, deque[tuple[int, float]]] = {}
        self._ready: deque[Handover] = deque(maxlen=1)
        self._every_s = every_s
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        arguments = [str(path.absolute()) for path in (self.kept, self.session, self.folder)]
        # -P: a user's folder with a package's name must not be imported.
        command = [sys.executable, "-P", "-c", _START, *arguments, str(self._every_s)]
        threads = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "NUMBA")}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **threads}
        )
        self._listener = threading.Thread(target=self._listen, args=(self._process,), daemon=True)
        self._listener.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the process: ask it for up to two seconds, then kill it; harmless when called again."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._listener.join(STOP_S)
        for partial in self.folder.glob(".*.partial"):
            shutil.rmtree(partial, ignore_errors=True)

    def poll(self) -> Handover | None:
        """The newest weights that wait for their swap, once; never waits."""
        return self._ready.popleft() if self._ready else None

    def note(self, sha256: str) -> dict[str, str]:
        """The recording's note "weights" for weights kept here: their hash, and their place beside the recording."""
        return {"agent_sha256": sha256, "kept": f"{self.folder.name}/{sha256[:16]}"}

    def view(self) -> dict[str, Any]:
        """The state of learning, for the page: curves of errors relative to predicting no change, and counts."""
        curves = {name: [list(point) for point in tuple(points)] for name, points in tuple(self._curves.items())}
        view = {"lesson": "live", "step": self.step, "curves": curves}
        view |= {"handed_over": self.handed_over, "taken_back": self.taken_back}
        return view | ({"fault": self.fault} if self.fault else {})

    def _listen(self, process: subprocess.Popen[bytes]) -> None:
        """Read the process's messages in a separate thread until it has ended."""
        assert process.stdout is not None
        for line in process.stdout:
            try:
                self._hear(parse_json(line, DevmindError, "it is not JSON ({})"))
            except (DevmindError, ValueError, KeyError, TypeError, OSError) as error:
                self.fault = f"A message of the learner cannot be used: {error}."
        code = process.wait()
        if self._process is process and code:
            self.fault = self.fault or f"The learner's process ended with code {code}; life goes on without learning."

    def _hear(self, said: dict[str, Any]) -> None:
        self.step = said["step"]
        if said["type"] == "fault":
            self.fault = said["sentence"]
        if "newer" not in said:
            return
        for name, values in (("", said["newer"]), (", as it lives", said["live"])):
            for head, value in values.items():
                points = self._curves.setdefault(f"{head}{name}", deque(maxlen=CURVE_POINTS))
                points.append((said["step"], value))
        self.taken_back += said["type"] == "taken_back"
        if said["type"] == "handed_over":
            folder = Path(said["folder"])
            self._ready.append(Handover(folder, said["sha256"], said["step"], self._load(folder)))
            self.handed_over += 1

    def _load(self, folder: Path) -> dict[str, Tensor]:
        from safetensors.torch import load_file

        tensors = load_file(folder / WEIGHTS)
        # Cloned: otherwise a tick would read the mapped file's pages from the disk.
        return {name: value.clone().to(self.device) for name, value in tensors.items() if name.startswith(TRAINED)}
