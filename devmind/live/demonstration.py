"""`devmind demo`: a life in front of a clip, taught by one press, killed, woken, told to forget; each step is judged.

Two processes after each other live on one memory folder. Each is a whole life (`open_life`) with the clip as its
camera, and a pipe in place of the page: it says what it sees, and is told by commands of the page what to do. The
process that began them plays the person. It reads from the clip's notes when what is held up, which the lives do not
see, and judges their answers by that.

The clip plays at its own speed where the machine keeps up, and waits for the agent where it does not, so that a slow or
busy machine sees the same.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from devmind.bounds import parse_json
from devmind.errors import DevmindError

if TYPE_CHECKING:
    from devmind.live.life import Life
    from devmind.live.loop import Tick

CLIP = Path(__file__).with_name("demo.mcap")
"""Made by `benchmarks/demo_clip.py`."""
NAME = "red mug"
HELD_UP = "held_up"
"""The clip's note before the tick from which something is held still: what, and for how many ticks."""
STEADY, PRESS = 3, 11
"""Ticks with a square round the thing before the press, and of the press: a second, and the one in which it begins."""
SETTLED = 5
"""Looks after which an answer counts: the page shows no name before either."""
MOSTLY = 0.8
"""Share of the looks at a thing from which it is known, and of those without a name from which it is not."""
POLL_S = 0.02
ENDS_S = 20.0
COMMAND = (sys.executable, "-P", "-m", __name__)
"""A life in a process of its own; -P: a folder of the user must not come before the installed packages."""


@dataclass(frozen=True)
class Showing:
    """What the clip holds up, and in which of its ticks, from `first` up to, not including, `end`."""

    what: str
    first: int
    end: int


def showings(clip: Path = CLIP) -> list[Showing]:
    """What the clip holds up, in order."""
    from devmind.sessions.reader import Session

    notes = [note for note in Session(clip).notes if note.kind == HELD_UP]
    return [Showing(str(note.data["what"]), note.tick, note.tick + int(note.data["ticks"])) for note in notes]


@dataclass(frozen=True)
class Looks:
    """What a life said while one thing was held up.

    Attributes:
        asked: looks with a square round the thing, without the first ones.
        named: those of them in which it gave a name; other: in which that was another name than NAME.
        confidence: the median probability of the nearest name; None where no name is known at all.
    """

    asked: int
    named: int
    other: int
    confidence: float | None

    @classmethod
    def of(cls, ticks: Sequence[Mapping[str, Any]]) -> Self:
        """Of the ticks in which the thing was held up."""
        asked = [tick for tick in ticks if tick["held"] is not None][SETTLED:]
        answers = [tick["sight"] for tick in asked if tick["sight"] is not None]
        named = [answer["name"] for answer in answers if answer["name"] is not None]
        sure = float(np.median([answer["confidence"] for answer in answers])) if answers else None
        return cls(len(asked), len(named), sum(name != NAME for name in named), sure)

    @property
    def is_known(self) -> bool:
        """Whether it was called NAME, and nothing else."""
        return self.asked > 0 and not self.other and self.named >= MOSTLY * self.asked

    @property
    def is_unknown(self) -> bool:
        """Whether it was found, and given no name."""
        return self.asked > 0 and self.named <= (1 - MOSTLY) * self.asked

    def __str__(self) -> str:
        """As on the page: the name and its probability, or "not sure"."""
        if not self.asked:
            return "nothing is found held up"
        looks = f"{self.named} of {self.asked} looks"
        if self.confidence is None:
            return f"not sure: it knows no name (named in {looks})"
        sure = f"{round(100 * self.confidence)} %"
        if self.is_known:
            return f"{NAME}, {sure} ({looks})"
        return f"not sure (most like {NAME}, {sure}; named in {looks})"


class LifeProcess:
    """One life in a process of its own; a context manager whose end also ends the process, in whatever way.

    Attributes:
        started: its first message: `names` that its memory knows with their numbers of examples, `address` of
            its page or None.

    Raises:
        DevmindError: it ended by itself; the message has its last line.
    """

    def __init__(self, folder: Path, page: bool, watch: Callable[[Mapping[str, Any]], None]) -> None:
        self.folder, self.watch = folder, watch
        self._words = [*COMMAND, str(folder / "memory"), "page" if page else "alone"]
        self._ticks: list[Mapping[str, Any]] = []

    def __enter__(self) -> Self:
        self._faults = (self.folder / "faults.txt").open("w+", encoding="utf-8")
        # A session of its own: Ctrl-C reaches the person's process alone, which ends this one.
        self._process = subprocess.Popen(
            self._words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._faults, text=True,
            encoding="utf-8", start_new_session=True,
        )  # fmt: skip
        try:
            self.started = self._next("alive")
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            if kind is None:
                with suppress(OSError):
                    self._pipe.close()  # the life ends when nobody is left to tell it anything
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(ENDS_S)
        finally:
            self.kill()

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    @property
    def _pipe(self) -> Any:
        return self._process.stdin

    def kill(self) -> int:
        """Kill it with SIGKILL, which no process can catch, if it still lives; returns its exit code."""
        self._process.kill()
        code = self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._faults):
            with suppress(OSError):
                if pipe:
                    pipe.close()
        return code

    def do(self, command: str, **arguments: Any) -> Mapping[str, Any]:
        """A command of the page (`Life.do`), and its answer; `refused` in it says why it was not done.

        Ticks meanwhile are kept for `ticks`.
        """
        with suppress(BrokenPipeError):
            self._pipe.write(json.dumps({"do": command, "with": arguments}) + "\n")
            self._pipe.flush()
        return self._next("done", keep=True)

    def ticks(self, until: int) -> Iterator[Mapping[str, Any]]:
        """What it reports of the clip's ticks, from where it is up to, not including, `until`."""
        while True:
            tick = self._ticks.pop(0) if self._ticks else self._next("tick")
            if tick["tick"] >= until:
                self._ticks.insert(0, tick)
                return
            yield tick

    def _next(self, kind: str, keep: bool = False) -> Mapping[str, Any]:
        """The next message that has this key."""
        for line in self._process.stdout or ():
            if not line.startswith("{"):
                continue  # a library speaks
            message = parse_json(line, DevmindError, "The life said what is no JSON ({}).")
            if "tick" in message:
                self.watch(message)
                if keep:
                    self._ticks.append(message)
            if kind in message:
                return message
        self._faults.seek(0)
        last = ([line.strip() for line in self._faults if line.strip()] or ["it said nothing"])[-1]
        raise DevmindError(f"The process {self.pid} in which the agent lived has ended: {last}")


class Demonstration:
    """The person's side: shows the clip, tells the lives what to do, and says what came of it.

    Args:
        say: takes each line.
        exam: holds one exam, and gives its measure as `devmind stage exam --json` does.
        open_page: opens the page of a life beside; None: no page.
        watch: takes every tick that a life reports, for a film of it.

    Attributes:
        failed: what did not come out as promised.
    """

    def __init__(
        self,
        say: Callable[[str], None],
        exam: Callable[[], Mapping[str, Any]],
        open_page: Callable[[str], None] | None = None,
        watch: Callable[[Mapping[str, Any]], None] = lambda tick: None,
    ) -> None:
        self.say, self.exam, self.open_page, self.watch = say, exam, open_page, watch
        self.taught, self.again, self.stranger = showings()
        self.failed: list[str] = []
        self._begun_s = time.monotonic()

    def run(self) -> bool:
        """All steps; returns whether all came out as promised.

        Raises:
            DevmindError: a life ended by itself.
        """
        self.say("A newborn in front of a clip: no camera, no microphone, nothing is downloaded. About 90 seconds.")
        self.say("Each life takes some seconds to wake.")
        with tempfile.TemporaryDirectory(prefix="devmind-demo-") as folder:
            with self._life(folder, "wakes", {}) as life:
                self._teach(life)
                self._look(life, self.again, "known", "The mug elsewhere, smaller, turned, in less light")
                self._look(life, self.stranger, "stranger", "A ball that nobody taught", killed=True)
            with self._life(folder, "wakes again on the same memory", {NAME: 1}) as life:
                self._look(life, self.taught, "still known", "The mug")
                self._forget(life)
                self._look(life, self.again, "forgotten", "The mug elsewhere")
        self._examine()
        passed = not self.failed
        took = f"in {self._at_s:.0f} s ({sum(os.times()[:4]):.0f} s of processor time)"
        self._line(
            "", f"All came out as promised, {took}." if passed else f"Not as promised: {'; '.join(self.failed)}."
        )
        self.say("With your own camera: devmind hello. What it can, what it cannot, and how it learns: README.md.")
        return passed

    @property
    def _at_s(self) -> float:
        return time.monotonic() - self._begun_s

    def _line(self, step: str, text: str) -> None:
        self.say(f"{self._at_s:4.0f} s  {step:<12} {text}")

    def _judge(self, is_so: bool, step: str, text: str) -> None:
        """One line, and whether it is as promised."""
        if not is_so:
            self.failed.append(step)
        self._line(step, f"{'✓' if is_so else '✗'} {text}")

    @contextmanager
    def _life(self, folder: str, how: str, names: Mapping[str, int]) -> Iterator[LifeProcess]:
        """A life that has just woken, and whether it knows these names, with their numbers of examples."""
        with LifeProcess(Path(folder), self.open_page is not None, self.watch) as life:
            known = ", ".join(f"“{name}”" for name in life.started["names"]) or "no name"
            self._judge(life.started["names"] == names, "awake", f"Process {life.pid} {how}; it knows {known}.")
            if self.open_page and life.started["address"]:
                self.open_page(life.started["address"])
            yield life

    def _teach(self, life: LifeProcess) -> None:
        """One press, as soon as a square has been round the thing for a moment."""
        steady = pressed = 0
        for tick in life.ticks(self.taught.end):
            steady = steady + 1 if tick["held"] is not None else 0
            if pressed:
                pressed += 1
            elif steady > STEADY and tick["tick"] >= self.taught.first:
                life.do("press", on=True)
                pressed = 1
            if pressed > PRESS:
                break
        answer = life.do("teach", name=NAME)
        learned = answer.get("answer") or answer.get("refused")
        self._judge("refused" not in answer, "taught", f"A hand holds a mug up. One press of a second: {learned}")

    def _look(self, life: LifeProcess, showing: Showing, step: str, what: str, killed: bool = False) -> None:
        """What it says while this is held up; `killed`: until it is killed in the middle of it."""
        wants_name = step in ("known", "still known")
        list(life.ticks(showing.first))
        looks = Looks.of(list(life.ticks(showing.end - SETTLED)))
        self._judge(looks.is_known if wants_name else looks.is_unknown, step, f"{what}: {looks}.")
        if killed:
            code = life.kill()
            there = _files_with(life.folder / "memory", NAME)
            self._judge(
                code != 0 and there > 0, "killed",
                f"kill -9 {life.pid}, while it looks: exit code {code}. “{NAME}” is in its memory on the disk.",
            )  # fmt: skip

    def _forget(self, life: LifeProcess) -> None:
        before = _files_with(life.folder / "memory", NAME)
        answer = life.do("forget", name=NAME)
        after = _files_with(life.folder / "memory", NAME)
        left = "no file of its memory has the name now" if not after else f"{after} files of its memory still have it"
        done = answer.get("refused") or f"{answer['forgotten']} example deleted, {left}."
        is_gone = answer.get("forgotten") == 1 and not answer["examples"] and before > 0 and after == 0
        self._judge(is_gone, "forget", f"“Forget {NAME}”: {done}")

    def _examine(self) -> None:
        found = self.exam()
        score, low, high, bound = (found[key] for key in ("score", "low", "high", "gate"))
        self._judge(
            bool(found["passed"]), "exam",
            f"balance: keeps the pole of CartPole-v1 up for {score:.0f} of 500 steps, 95 % interval {low:.0f} to "
            f"{high:.0f}, n {found['n']:,}; gate {bound:.0f}; at random {found['floor']:.0f}.",
        )  # fmt: skip


def _files_with(folder: Path, name: str) -> int:
    """How many files below the folder have this name in them."""
    return sum(name.encode() in path.read_bytes() for path in folder.rglob("*") if path.is_file())


# -- in the life's process ---------------------------------------------------------------------------------------------


_telling = threading.Lock()


class PatientClock:
    """A clock that moves only when somebody sleeps, as fast as the machine's: it waits where the caller is late.

    Attributes:
        going: cleared to hold the clock.
    """

    def __init__(self) -> None:
        self.now_s, self.going = 0.0, threading.Event()
        self.going.set()
        self._ahead_s = time.monotonic()

    def now(self) -> float:
        """Seconds since it was created."""
        return self.now_s

    def sleep(self, seconds: float) -> None:
        """Let so many seconds pass, as soon as the machine's clock allows and nobody holds this one."""
        self._ahead_s = max(self._ahead_s + seconds, time.monotonic())  # what was late is not made up for
        time.sleep(max(0.0, self._ahead_s - time.monotonic()))
        self.going.wait()
        self.now_s += seconds


class _Piped:
    """A life's end of the pipe."""

    def __init__(self, life: Life, clock: PatientClock) -> None:
        self.life, self.clock, self.is_over = life, clock, False

    def see(self, tick: Tick) -> None:
        """Report a tick: its number in the clip, what is held up, and the answer to what it is, as the page gets it."""
        holding, named = self.life.holding, None
        if holding.square is not None:
            named = self.life.naming.of(self.life.recent, holding.above).get("sight")
        sight = None if named is None else {"name": named.name, "confidence": round(named.confidence, 3)}
        number = round(tick.moment.time_s / self.life.room.dt_s)
        held = None if holding.square is None else [round(value, 4) for value in holding.square]
        _print_event({"tick": number, "held": held, "sight": sight})

    def listen(self) -> None:
        """Do what is told, line by line, until nobody is left to tell anything."""
        for line in sys.stdin:
            told = parse_json(line, DevmindError, "A line of the pipe is no JSON ({}).")
            try:
                answer = self.life.do(told["do"], told["with"])
                _print_event({"done": told["do"]} | {key: value for key, value in answer.items() if key != "picture"})
            except DevmindError as error:
                _print_event({"done": told["do"], "refused": str(error)})
            finally:
                self.catch_up()
        self.is_over = True
        self.clock.going.set()

    def catch_up(self) -> None:
        """Hold the clip until the names are fitted on what memory has now."""
        names, naming = self.life.child.names, self.life.naming
        self.clock.going.clear()
        while not naming.fault and ("sight" in names.encoders) != bool(names.known()):
            time.sleep(POLL_S)
        self.clock.going.set()


def _print_event(message: Mapping[str, Any]) -> None:
    with _telling:  # two threads tell
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


def live(memory: Path, page: bool) -> None:
    """Live in front of the clip, until stdin ends."""
    from devmind.config import LiveConfig, PageConfig
    from devmind.live.demo import Tape, TapeCamera
    from devmind.live.opening import open_life
    from devmind.live.options import LiveOptions
    from devmind.raised import FOLDER
    from devmind.worlds.room import Room

    clock = PatientClock()
    with TapeCamera(Tape(CLIP, now=clock.now)) as camera:
        room = Room({"sight": camera}, now=clock.now, sleep=clock.sleep)
        config = LiveConfig(page=PageConfig(shown=page))
        options = LiveOptions(FOLDER, {}, memory=memory, config=config, room=room, command="devmind demo")
        with open_life(options) as (life, server):
            piped = _Piped(life, clock)
            life.loop.watchers["telling"] = piped.see
            piped.catch_up()
            names = life.child.names.known()
            _print_event({"alive": os.getpid(), "names": names, "address": server.address if server else None})
            threading.Thread(target=piped.listen, daemon=True).start()
            life.run(stop=lambda: piped.is_over)


if __name__ == "__main__":
    live(Path(sys.argv[1]), page=sys.argv[2] == "page")
