"""`devmind session record`: records sensors into a session, without an agent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from devmind.cli import show
from devmind.cli.devices import check_sensed, doors, open_sensors, was_sensed
from devmind.cli.house import Terminated, complain
from devmind.cli.options import CameraOption, LiveSetOption, MicOption, SensorOption
from devmind.cli.settings import live_config
from devmind.errors import ConfigError

if TYPE_CHECKING:
    from devmind.sessions.background import BackgroundRecorder
    from devmind.worlds.room import Room

SHOW_EVERY_S = 1.0
DERIVED = ("periphery", "body")
"""Senses that a room derives from the camera's frame."""


def record(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The new recording (.mcap).")],
    camera_: CameraOption = None,
    mic: MicOption = None,
    sensor: SensorOption = None,
    sets: LiveSetOption = None,
) -> None:
    """Record camera and microphone now, without an agent; a new part begins every ten minutes."""
    config, asked = live_config(sets), doors(camera_, mic, sensor or ())
    if from_page := [name for name, one in asked.sensors.items() if hasattr(one, "accept")]:
        raise ConfigError(f"The browser as {' and '.join(from_page)} needs a page; use 'devmind live --record'.")
    from devmind.sessions.background import BackgroundRecorder
    from devmind.worlds.room import Room

    with open_sensors(asked.sensors):
        room = Room(asked.sensors, config.hz, config.lag_s)
        with BackgroundRecorder(
            file, source="room", tick_hz=config.hz, details=asked.details, names=room.names, rotate_s=config.rotate_s
        ) as recorder:
            try:
                _record(room, recorder, config.seconds, config.frames)
            except (KeyboardInterrupt, Terminated):
                show.line("stopped")
    _sum_up(room, recorder)
    for path in recorder.paths:
        if was_sensed(room):
            show.path("session", path)
        else:  # without a sense it is useless, and would block the next try
            path.unlink(missing_ok=True)
    check_sensed(room)


def _record(room: Room, recorder: BackgroundRecorder, seconds: float | None, frames: bool) -> None:
    """Record until the time is up or the disk refuses; the gaze does not move."""
    from devmind.moment import Moment
    from devmind.worlds.room import sensor_health

    senses, info = room.reset()
    shown_s = info["time_s"]
    while not recorder.failed:
        moment = Moment(info["time_s"], senses, first=room.health.ticks == 1)
        recorder.write(moment)
        if frames and room.frame is not None and room.frame_s is not None:
            recorder.frame(room.frame, room.frame_s)
        if moment.time_s >= shown_s:
            shown_s = moment.time_s + SHOW_EVERY_S
            recorder.health(sensor_health(room.sensors.values()))
            _print_moment(moment, recorder)
        if seconds is not None and moment.time_s >= seconds:
            return
        senses, _, _, _, info = room.step({})


def _print_moment(moment: Any, recorder: BackgroundRecorder) -> None:
    senses = ", ".join(name for name in sorted(moment.senses) if name not in DERIVED) or "nothing sensed"
    lost = recorder.dropped_ticks + recorder.dropped_frames
    show.lamp(f"{moment.time_s:6.1f} s · {senses}" + (f" · {lost} given up" if lost else ""))


def _sum_up(room: Room, recorder: BackgroundRecorder) -> None:
    show.line(f"{show.count_of(recorder.ticks, 'Moment')}, {room.health.skipped} skipped")
    if recorder.dropped_ticks or recorder.dropped_frames:
        frames = show.count_of(recorder.dropped_frames, "frame")
        complain(f"Note: the disk was too slow for {show.count_of(recorder.dropped_ticks, 'Moment')} and {frames}.")
    for sense, count in room.health.missing.items():
        if count:
            complain(f"Note: {sense} was missing in {show.count_of(count, 'Moment')}.")
    for sense, seconds in room.health.waited_s.items():
        complain(f"Note: the sensor of {sense} took {seconds:.1f} s to answer; it should answer at once.")
