"""`devmind live`: the agent among people, with the camera and the microphone of this machine."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from devmind.cli import show
from devmind.cli.agents import saved_agent
from devmind.cli.devices import NO_DEVICE, camera, ear
from devmind.cli.house import Terminated
from devmind.cli.paths import writable_file
from devmind.errors import ConfigError

if TYPE_CHECKING:
    from devmind.live.loop import LiveSummary, Tick

TOLD_EVERY_S = 1.0


def live(
    agent: Annotated[
        Path | None,
        typer.Option("--agent", metavar="DIR", help="Saved agent; else the newest milestone in ./checkpoints."),
    ] = None,
    camera_: Annotated[
        str, typer.Option("--camera", metavar="0|URL|NAME|none", help="Index, address or file, or a sensor's name.")
    ] = "0",
    mic: Annotated[
        str, typer.Option("--mic", metavar="default|NAME|none", help="Microphone by device, or a sensor's name.")
    ] = "default",
    record: Annotated[
        Path | None, typer.Option("--record", metavar="FILE", help="Record the session; nothing is kept without it.")
    ] = None,
    hz: Annotated[float, typer.Option("--hz", min=1, max=50, metavar="N", help="Ticks a second.")] = 10.0,
    seconds: Annotated[
        float | None, typer.Option("--seconds", min=0.1, metavar="N", help="How long; else until Ctrl-C.")
    ] = None,
) -> None:
    """Live here and now: sense, answer, look around. One line a second tells how it goes.

    A sense that is missing is missing; the loop goes on.
    """
    if camera_ == mic == NO_DEVICE:
        raise ConfigError("With neither camera nor microphone there is nothing to sense; give --camera or --mic.")
    writable_file(record, "--record")
    sensors = {
        name: make(words)
        for name, make, words in (("camera", camera, camera_), ("microphone", ear, mic))
        if words != NO_DEVICE
    }
    child = saved_agent(agent)
    from devmind.live.loop import LiveLoop
    from devmind.sessions.recorder import Recorder
    from devmind.worlds.room import Room

    with ExitStack() as stack:
        opened = {name: stack.enter_context(sensor) for name, sensor in sensors.items()}
        details = {"camera": camera_, "microphone": mic}
        recorder = None
        if record:
            recorder = stack.enter_context(Recorder(record, source="room", tick_hz=hz, details=details))
        told = _Teller()
        loop = LiveLoop(child, Room(opened, hz), recorder=recorder, watch=told)
        try:
            loop.run(seconds)
        except (KeyboardInterrupt, Terminated):
            show.line("stopped")
        _sum_up(loop.summary)
    if record:
        show.path("session", record)


class _Teller:
    """A line a second: where the gaze is, what came, what it cost."""

    def __init__(self) -> None:
        self.next_s = 0.0

    def __call__(self, tick: Tick) -> None:
        """Print when a second has passed since the last line."""
        if tick.moment.time_s < self.next_s:
            return
        self.next_s = tick.moment.time_s + TOLD_EVERY_S
        senses = ", ".join(name for name in ("sight", "periphery", "sound", "words") if name in tick.moment.senses)
        line = f"{tick.moment.time_s:6.1f} s · {senses or 'nothing sensed'} · {1e3 * tick.work_s:.0f} ms"
        show.line(line + _looks(tick.action.effectors.get("look")))


def _looks(look: Any) -> str:
    return "" if look is None else f" · look {look[0]:+.2f} {look[1]:+.2f}"


def _sum_up(summary: LiveSummary) -> None:
    show.line(
        f"{show.counted(summary.ticks, 'tick')}, {summary.skipped} skipped; work {summary.work_ms(0.5):.1f} ms in the "
        f"median, {summary.work_ms(0.99):.1f} ms at the 99th percentile"
    )
    for sense, count in summary.missing.items():
        if count:
            show.line(f"{sense}: missing in {show.counted(count, 'tick')}")
