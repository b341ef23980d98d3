"""`devmind live` and `devmind hello`: the agent among people, whom it sees and hears by camera and microphone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from devmind import plugins
from devmind.cli import show
from devmind.cli.agents import RUNS, agent_folder, said_as
from devmind.cli.devices import Doors, check_sensed, doors, open_sensors, voice
from devmind.cli.house import Terminated, complain
from devmind.cli.options import (
    AgentOption,
    CameraOption,
    LiveSetOption,
    MemoryOption,
    MicOption,
    OwnMemoryOption,
    PrivateOption,
    SensorOption,
    agent_option,
)
from devmind.cli.paths import existing, user_data, writable_file
from devmind.cli.serving import open_browser
from devmind.cli.settings import live_config
from devmind.errors import ConfigError

if TYPE_CHECKING:
    from devmind.acting.directing import Director
    from devmind.config import LiveConfig
    from devmind.live.life import Life
    from devmind.live.loop import LiveLoop, LiveSummary
    from devmind.live.rerun import RerunViewer
    from devmind.worlds.world_room import WorldRoom

SHOW_EVERY_S = 1.0
PLAN = "plan"
"""The suffix of plan files; a name without it means a packaged one."""
TAPE = ".mcap"
"""The suffix of a recording that serves as a world."""
WAKING = f"waking up: {show.LOADING}"
"""Printed before the heavy imports, which take most of the time."""


def hello(
    age: Annotated[
        int | None, typer.Option("--age", min=0, metavar="N", help="The agent at age N, as on the page's slider.")
    ] = None,
    agent: Annotated[
        Path | None, agent_option("Whose ages --age counts; else the newest childhood's in ./checkpoints.")
    ] = None,
    memory: OwnMemoryOption = None,
    private: PrivateOption = False,
    sets: LiveSetOption = None,
) -> None:
    """Meet a newborn on a page; it sees and hears by the page's camera and microphone. It needs no training.

    With --age N you meet an agent that you have raised, or a packaged one, at that age: 0 is before its first lesson,
    N is after its N-th stage.
    """
    if private and memory is not None:
        raise ConfigError("--private keeps everything in RAM, so it excludes --memory; leave one out.")
    config = live_config(sets)
    folder, taught = _of_age(age, agent)
    kept = Path("memory") if private else _own_memory() if memory is None else memory
    show.line("private: nothing is kept" if private else f"what you teach it is kept in {show.place(str(kept))}")
    command = "devmind hello" + ("" if age is None else f" --age {age}") + (" --private" if private else "")
    asked = doors("browser", "browser")
    _live(folder, asked, config, memory=kept, private=private, command=command, taught=taught)


def _of_age(age: int | None, agent: Path | None) -> tuple[Path, bool]:
    """The folder of the agent to meet, and whether it is taught: the newborn, or the user's agent at an age."""
    from devmind.raised import FOLDER

    if age is None and agent is not None:
        name = said_as(agent)
        raise ConfigError(
            f"--agent {name} needs --age N, the age at which you meet it; or use 'devmind live --agent {name}'."
        )
    if age is None:
        return FOLDER, True
    from devmind.checkpointing.milestones import newest_milestone
    from devmind.live.ages import CHILDHOOD_FILE, ages, of_childhood

    newest = max(RUNS.glob(f"*/{CHILDHOOD_FILE}"), key=lambda path: path.stat().st_mtime, default=None)
    other = agent or newest_milestone(RUNS, ()) or FOLDER
    found = of_childhood(newest.parent) if newest and agent is None else ages(other)
    if age >= len(found):
        known = ", ".join(f"{number} ({one.label})" for number, one in enumerate(found))
        raise ConfigError(f"There is no age {age}; known are {known or 'none yet'}.")
    show.line(f"as it was {found[age].label}: age {age} of {len(found) - 1}")
    return found[age].folder, found[age].taught


def _own_memory() -> Path:
    """The user's memory; if there is another one in the working folder, a note names it."""
    from devmind.memory.stores.sqlite import FILE

    if (Path("memory") / FILE).is_file():
        show.line("there is a memory in ./memory too; to wake with that one: devmind hello --memory memory")
    return user_data() / "memory"


def live(
    agent: AgentOption = None,
    camera_: CameraOption = None,
    mic: MicOption = None,
    sensor: SensorOption = None,
    world: Annotated[
        str | None,
        typer.Option(
            "--world",
            metavar="NAME[:LEVEL]",
            help="A simulated world, such as nursery:handle/push; or a recording (.mcap), as camera and microphone.",
        ),
    ] = None,
    record: Annotated[
        Path | None, typer.Option("--record", metavar="FILE", help="Record the session; nothing is kept without it.")
    ] = None,
    private: PrivateOption = False,
    memory: MemoryOption = "memory",
    sets: LiveSetOption = None,
) -> None:
    """Let the agent live here and now: sense, answer, look around, and learn names on the page.

    If a sense is missing, the loop continues without it. 'devmind config show live --explain' lists the keys of --set,
    such as seconds, learn, speaker, plans, answers and those of the page.
    """
    writable_file(record, "--record")
    config = live_config(sets)
    director = _director(config.plans)
    asked = _senses(world, camera_, mic, sensor or ())
    room = None if asked.sensors else _world(world, config.hz)
    folder = agent_folder(agent)
    _live(folder, asked, config, memory=memory, record=record, private=private, room=room, director=director)


def _senses(world: str | None, camera_: str | None, mic: str | None, sensor: Sequence[str]) -> Doors:
    """The sensors of a life: those that were asked for, those that play a recording, or none in a simulated world."""
    if world is None:
        return doors(camera_, mic, sensor)
    if camera_ or mic or sensor:
        raise ConfigError("A world or a recording brings its senses: give --world, or --camera, --mic, --sensor.")
    return Doors(_tape(Path(world)), {"demo": world}) if world.endswith(TAPE) else Doors({}, {"world": world})


def _director(file: str | None) -> Director | None:
    """The plugin that reads a plan file, chosen by the file's suffix; None without a file."""
    if file is None:
        return None
    return plugins.load("procedures", Path(file).suffix.removeprefix(".") or PLAN)(Path(file))


def _world(words: str | None, hz: float) -> WorldRoom | None:
    """The room of --world; None without it."""
    if words is None:
        return None
    name, _, level = words.partition(":")
    from devmind.worlds.rules import rules_of
    from devmind.worlds.world_room import WorldRoom

    return WorldRoom(rules_of(name, level or None), hz=hz)


def _viewer(name: str | None) -> RerunViewer | None:
    if name is None:
        return None
    from devmind.live.rerun import RerunViewer

    return RerunViewer()


def _tape(recording: Path) -> dict[str, Any]:
    existing(recording, "--world", "file")
    from devmind.live.demo import Tape, TapeCamera, TapeMicrophone

    tape = Tape(recording)
    players = {"sight": TapeCamera, "sound": TapeMicrophone}
    return {sense: player(tape) for sense, player in players.items() if sense in tape.senses}


def _live(folder: Path, asked: Doors, config: LiveConfig, **given: Any) -> None:
    """Live until the time is up or Ctrl-C.

    Args:
        folder: of the agent.
        given: further options (`LiveOptions`).
    """
    for file, key in ((config.page.cert, "page.cert"), (config.page.key, "page.key")):
        existing(Path(file) if file else None, key, "file")
    from devmind.live.options import LiveOptions

    details = asked.details | ({"procedures": Path(config.plans).name} if config.plans else {})
    speaker, viewer = voice(config.speaker), _viewer(config.viewer)
    options = LiveOptions(folder, asked.sensors, speaker, config=config, details=details, viewer=viewer, **given)
    options.check()
    show.line(WAKING)
    with ExitStack() as stack:
        stack.enter_context(open_sensors(options.sensors))
        from devmind.live.opening import open_life

        life, server = stack.enter_context(open_life(options))
        if viewer:
            show.line(f"see it in Rerun: {viewer.address}")
            show.line(f"or in Rerun's own program: rerun --connect {viewer.stream}")
        if server:
            show.door(server.address)
            show.line("It works once, in one browser; Ctrl-C ends the life.")
            if options.is_open:
                complain(
                    f"Note: it listens on {config.page.bind} without TLS: whoever is on the way to port {server.port} "
                    "can read along. Publish it to your own machine only, as 'docker run -p "
                    f"127.0.0.1:{server.port}:{server.port}' does; with another published port, open that one."
                )
            if config.page.open:
                open_browser(server.address)
        else:
            life.loop.watchers["telling"] = _Teller(life)
        life.loop.watchers["terminal"] = _PaceTeller(life.loop)
        for effector, heads in life.loop.unanswered().items() if options.room else ():
            complain(
                f"Note: no head answers for '{effector}', because this agent has no exam scores that say which head "
                f"may; name one: --set answers.{effector}={heads[0]}."
            )
        try:
            life.run(config.seconds)
        except (KeyboardInterrupt, Terminated):
            show.line("stopped")
        files = life.recording.files if life.recording else []
    _sum_up(life)
    for recorded in files:
        show.path("session", recorded)
    if options.room is None:
        check_sensed(life.room)


FEW_NUMBERS = 4
"""An action of more numbers is not printed tick by tick."""


class _Teller:
    """Prints a line a second: gaze, senses, time of a tick, what procedures do; and each fault once, and its end."""

    def __init__(self, life: Life) -> None:
        self.life, self.next_s, self.shown_faults = life, 0.0, list[str]()

    def __call__(self, tick: Any) -> None:
        """Print when a second has passed since the last line."""
        if tick.moment.time_s < self.next_s:
            return
        self.next_s = tick.moment.time_s + SHOW_EVERY_S
        sensed = sorted(tick.moment.senses)
        senses = ", ".join([name for name in sensed if name != "body"] or sensed)
        line = f"{tick.moment.time_s:7.1f} s · {senses or 'nothing sensed'} · {1e3 * tick.work_s:.0f} ms"
        directing = self.life.directing
        doing = directing.director.doing() if directing else []
        show.line("".join((line, _done(tick.action.effectors), *(f" · {what}" for what in doing))))
        faults, before = self.life.faults(), self.shown_faults
        for sentence in (
            *(fault for fault in faults if fault not in before),
            *(f"this is over: {fault}" for fault in before if fault not in faults),
        ):
            complain(f"Note: {sentence}")
        self.shown_faults = faults


class _PaceTeller:
    """Prints that too many Moments are left out, again when it has become twice as bad, and when it is over."""

    def __init__(self, loop: LiveLoop) -> None:
        self.loop, self.told_hz = loop, float("inf")

    def __call__(self, tick: Any) -> None:
        """Print what has changed."""
        pace = self.loop.pace
        if pace.says and pace.rate_hz <= self.told_hz / 2:
            self.told_hz = pace.rate_hz
            complain(f"Note: {pace.says}")
        elif not pace.says and self.told_hz < float("inf"):
            self.told_hz = float("inf")
            complain(f"Note: it keeps up again, at {pace.rate_hz:.0f} Moments a second.")


def _done(effectors: Mapping[str, Any]) -> str:
    """The agent's actions, except words and sound: " · look +0.10 -0.20"."""
    import numpy as np

    return "".join(
        f" · {name} " + " ".join(f"{number:+.2f}" for number in np.ravel(value))
        for name, value in effectors.items()
        if np.size(value) <= FEW_NUMBERS and name not in ("say", "utter")
    )


def _sum_up(life: Life) -> None:
    summary: LiveSummary = life.loop.summary
    show.line(
        f"{show.count_of(summary.ticks, 'tick')}, {summary.skipped} skipped; work {summary.work_ms(0.5):.1f} ms in the "
        f"median, {summary.work_ms(0.99):.1f} ms at the 99th percentile"
    )
    from devmind.worlds.world_room import WorldRoom

    if isinstance(life.room, WorldRoom):
        show.line(f"{show.count_of(life.room.ended, 'episode')} ended, {life.room.rewarded} with a reward")
    for reason, count in summary.late.items():
        show.line(f"skipped for {reason}: {show.count_of(count, 'tick')}")
    for sense, count in summary.missing.items():
        if count:
            show.line(f"{sense}: missing in {show.count_of(count, 'tick')}")
