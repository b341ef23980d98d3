"""`devmind live` and `devmind hello`: the agent among people, whom it sees and hears by camera and microphone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from devmind import plugins
from devmind.cli import show
from devmind.cli.agents import RUNS, AgentOption, agent_folder, agent_option, said_as
from devmind.cli.devices import (
    NO_DEVICE,
    CameraOption,
    Doors,
    MicOption,
    SensorOption,
    check_sensed,
    doors,
    opened,
    voice,
)
from devmind.cli.house import Terminated, complain
from devmind.cli.memory_files import MemoryOption, named_place
from devmind.cli.paths import existing, user_data, writable_file
from devmind.cli.serving import OpenOption, PortOption, SecondsOption, open_browser
from devmind.errors import ConfigError, nearest

if TYPE_CHECKING:
    from devmind.acting.directing import Director
    from devmind.live.life import Life
    from devmind.live.loop import LiveLoop, LiveSummary
    from devmind.live.options import LiveOptions
    from devmind.live.rerun import RerunViewer
    from devmind.worlds.world_room import WorldRoom

SHOW_EVERY_S = 1.0
RERUN = "rerun"
PLAN = "plan"
"""The suffix of plan files; a name without it means a packaged one."""
WAKING = f"waking up: {show.LOADING}"
"""Printed before the heavy imports, which take most of the time."""

SpeakerOption = Annotated[
    str, typer.Option("--speaker", metavar="SOURCE", help="Plays the agent's sound: default, or a device's name.")
]
WorldOption = Annotated[
    str | None, typer.Option("--world", metavar="NAME[:LEVEL]", help="A simulated world, such as nursery:handle/push.")
]
AnswersOption = Annotated[
    list[str] | None,
    typer.Option("--answers", metavar="EFFECTOR=HEAD", help="This head acts, whatever its exam says; may be repeated."),
]
PlansOption = Annotated[
    Path | None, typer.Option("--plans", metavar="FILE", help="A plan file of procedures that direct the agent.")
]
PrivateOption = Annotated[
    bool, typer.Option("--private", help="Write nothing to a disk: memory in RAM, no recording, no learning.")
]
BindOption = Annotated[
    str | None,
    typer.Option(
        "--bind", metavar="ADDRESS", help="Listen there, as on 0.0.0.0 in a container; --host stays the page's name."
    ),
]
CertOption = Annotated[Path | None, typer.Option("--cert", metavar="FILE", help="TLS certificate (PEM).")]
KeyOption = Annotated[Path | None, typer.Option("--key", metavar="FILE", help="The certificate's private key.")]
ViewerOption = Annotated[
    str | None, typer.Option("--viewer", metavar="rerun", help="Show the life in Rerun as well; extra 'viewer'.")
]
BrowserCameraOption = Annotated[
    str, typer.Option("--camera", metavar="SOURCE", help="browser: the page's; or as for 'devmind live'.")
]
BrowserMicOption = Annotated[
    str, typer.Option("--mic", metavar="SOURCE", help="browser: the page's; or as for 'devmind live'.")
]
LiveSetOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a key of configs/live.yaml.")
]
OwnMemoryOption = Annotated[
    str | None,
    typer.Option(
        "--memory",
        metavar="PLACE",
        callback=lambda place: place if place is None else named_place(place),
        help="Long-term memory; by default your own, wherever you start.",
    ),
]


def hello(
    age: Annotated[
        int | None, typer.Option("--age", min=0, metavar="N", help="The agent at age N, as on the page's slider.")
    ] = None,
    agent: Annotated[
        Path | None, agent_option("Whose ages --age counts; else the newest childhood's in ./checkpoints.")
    ] = None,
    camera_: BrowserCameraOption = "browser",
    mic: BrowserMicOption = "browser",
    memory: OwnMemoryOption = None,
    private: PrivateOption = False,
    bind: BindOption = None,
    port: PortOption = 0,
    open_: OpenOption = True,
    seconds: SecondsOption = None,
) -> None:
    """Meet a newborn on a page; it sees and hears by the page's camera and microphone. It needs no training.

    With --age N you meet an agent that you have raised, or a packaged one, at that age: 0 is before its first lesson,
    N is after its N-th stage.
    """
    if private and memory is not None:
        raise ConfigError("--private keeps everything in RAM, so it excludes --memory; leave one out.")
    folder, taught = _of_age(age, agent)
    asked = doors(camera_, mic)
    from devmind.live.options import LiveOptions

    kept = Path("memory") if private else _own_memory() if memory is None else memory
    show.line("private: nothing is kept" if private else f"what you teach it is kept in {show.place(str(kept))}")
    command = "devmind hello" + ("" if age is None else f" --age {age}") + (" --private" if private else "")
    options = LiveOptions(
        folder,
        asked.sensors,
        memory=kept,
        private=private,
        port=port,
        details=asked.details,
        command=command,
        taught=taught,
        bind=bind,
    )
    _live(options, seconds, open_)


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
    speaker: SpeakerOption = NO_DEVICE,
    record: Annotated[
        Path | None, typer.Option("--record", metavar="FILE", help="Record the session; nothing is kept without it.")
    ] = None,
    learn: Annotated[bool, typer.Option("--learn", help="Learn from the recording in a second process.")] = False,
    private: PrivateOption = False,
    demo: Annotated[
        Path | None, typer.Option("--demo", metavar="SESSION", help="A recording instead of camera and microphone.")
    ] = None,
    world: WorldOption = None,
    answers: AnswersOption = None,
    procedures: PlansOption = None,
    memory: MemoryOption = "memory",
    hz: Annotated[
        float | None, typer.Option("--hz", min=1, max=50, metavar="N", help="Ticks a second; else 10.")
    ] = None,
    seconds: SecondsOption = None,
    page: Annotated[bool, typer.Option("--page/--no-page", help="Serve the page; else a line a second.")] = True,
    host: Annotated[
        str, typer.Option("--host", metavar="HOST", help="Address of the page; any but this machine needs TLS.")
    ] = "127.0.0.1",
    bind: BindOption = None,
    port: PortOption = 0,
    cert: CertOption = None,
    key: KeyOption = None,
    viewer: ViewerOption = None,
    open_: OpenOption = True,
    sets: LiveSetOption = None,
) -> None:
    """Let the agent live here and now: sense, answer, look around, and learn names on the page.

    If a sense is missing, the loop continues without it.
    """
    writable_file(record, "--record")
    director = _director(procedures)
    from devmind.config import LIVE, LiveConfig, load_as

    config = load_as(LiveConfig, LIVE, {} if hz is None else {"hz": hz}, sets or ())
    asked = _senses(world, demo, camera_, mic, sensor or ())
    from devmind.live.options import LiveOptions

    options = LiveOptions(
        agent_folder(agent), asked.sensors, voice(speaker), memory, record, private, learn, page, host, port,
        _tls(cert, key), asked.details | ({"procedures": procedures.name} if procedures else {}), config,
        _viewer(viewer), room=_world(world, config.hz), answers=_answers(answers or ()), director=director,
        bind=bind,
    )  # fmt: skip
    _live(options, seconds, open_)


def _senses(world: str | None, demo: Path | None, camera_: str | None, mic: str | None, sensor: Sequence[str]) -> Doors:
    """The sensors of a life: those that were asked for, those that play a recording, or none in a simulated world."""
    given = bool(camera_ or mic or sensor)
    if world is not None and (demo or given):
        raise ConfigError("A simulated world brings its senses: give --world, or --camera, --mic, --sensor, --demo.")
    if demo is not None and given:
        raise ConfigError("A recording brings its senses: give --demo, or --camera, --mic, --sensor.")
    if world is not None:
        return Doors({}, {"world": world})
    return doors(camera_, mic, sensor) if demo is None else Doors(_tape(demo), {"demo": str(demo)})


def _director(file: Path | None) -> Director | None:
    """The plugin that reads a file of --plans, chosen by the file's suffix; None without --plans."""
    return None if file is None else plugins.load("procedures", file.suffix.removeprefix(".") or PLAN)(file)


def _world(words: str | None, hz: float) -> WorldRoom | None:
    """The room of --world; None without it."""
    if words is None:
        return None
    name, _, level = words.partition(":")
    from devmind.worlds.rules import rules_of
    from devmind.worlds.world_room import WorldRoom

    return WorldRoom(rules_of(name, level or None), hz=hz)


def _answers(asked: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The heads of --answers by effector, in their order."""
    found: dict[str, tuple[str, ...]] = {}
    for words in asked:
        effector, is_given, head = words.partition("=")
        if not is_given or not effector or not head:
            raise ConfigError(f"--answers takes an effector and a head, such as reach=manipulate; got '{words}'.")
        found[effector] = (*found.get(effector, ()), head)
    return found


def _viewer(name: str | None) -> RerunViewer | None:
    if name is None:
        return None
    if name != RERUN:
        raise ConfigError(f"There is no viewer '{name}'{nearest(name, [RERUN])}")
    from devmind.live.rerun import RerunViewer

    return RerunViewer()


def _tls(cert: Path | None, key: Path | None) -> tuple[Path, Path] | None:
    if (cert is None) != (key is None):
        raise ConfigError("A certificate needs its private key: give both --cert and --key, or neither.")
    existing(cert, "--cert", "file")
    existing(key, "--key", "file")
    return (cert, key) if cert and key else None


def _tape(demo: Path) -> dict[str, Any]:
    existing(demo, "--demo", "file")
    from devmind.live.demo import Tape, TapeCamera, TapeMicrophone

    tape = Tape(demo)
    players = {"sight": TapeCamera, "sound": TapeMicrophone}
    return {sense: player(tape) for sense, player in players.items() if sense in tape.senses}


def _live(options: LiveOptions, seconds: float | None, open_: bool) -> None:
    options.check()
    show.line(WAKING)
    with ExitStack() as stack:
        stack.enter_context(opened(options.sensors))
        from devmind.live.opening import open_life

        life, server = stack.enter_context(open_life(options))
        if options.viewer:
            show.line(f"see it in Rerun: {options.viewer.address}")
            show.line(f"or in Rerun's own program: rerun --connect {options.viewer.stream}")
        if server:
            show.door(server.address)
            show.line("It works once, in one browser; Ctrl-C ends the life.")
            if options.is_open:
                complain(
                    f"Note: it listens on {options.bind} without TLS: whoever is on the way to port {server.port} can "
                    "read along. Publish it to your own machine only, as 'docker run -p "
                    f"127.0.0.1:{server.port}:{server.port}' does; with another published port, open that one."
                )
            open_browser(server.address, open_)
        else:
            life.loop.watchers["telling"] = _Teller(life)
        life.loop.watchers["terminal"] = _PaceTeller(life.loop)
        for effector, heads in life.loop.unanswered().items() if options.room else ():
            complain(
                f"Note: no head answers for '{effector}', because this agent has no exam scores that say which head "
                f"may; name one: --answers {effector}={heads[0]}."
            )
        try:
            life.run(seconds)
        except (KeyboardInterrupt, Terminated):
            show.line("stopped")
        files = life.recording.files if life.recording else []
    _sum_up(life)
    for file in files:
        show.path("session", file)
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
        f"{show.counted(summary.ticks, 'tick')}, {summary.skipped} skipped; work {summary.work_ms(0.5):.1f} ms in the "
        f"median, {summary.work_ms(0.99):.1f} ms at the 99th percentile"
    )
    from devmind.worlds.world_room import WorldRoom

    if isinstance(life.room, WorldRoom):
        show.line(f"{show.counted(life.room.ended, 'episode')} ended, {life.room.rewarded} with a reward")
    for reason, count in summary.late.items():
        show.line(f"skipped for {reason}: {show.counted(count, 'tick')}")
    for sense, count in summary.missing.items():
        if count:
            show.line(f"{sense}: missing in {show.counted(count, 'tick')}")
