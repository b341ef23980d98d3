"""A recording in the format before 2: times from 1970 on, numbers as bytes, passwords as typed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from devmind.moment import Action, Moment
from devmind.sessions import extras, mcap_file, messages
from devmind.sessions.steps import encode_step

CREATED = "2025-03-01T12:00:00+00:00"


def an_old_session(
    path: Path, steps: list[tuple[Moment, Action | None]], details: dict[str, str], fault: str = ""
) -> dict[str, Any]:
    """Write the recording at ten ticks a second, with a frame and the health beside each; return its metadata."""
    about = {**details, "format": "devmind.session/1", "source": "room", "tick_hz": "10.0", "created": CREATED}
    with pytest.MonkeyPatch.context() as patch:
        for module in (mcap_file, extras):
            patch.setattr(module, "without_secrets", lambda what: what)
        patch.setattr(messages, "fields_of", lambda *_: ())
        file = mcap_file.McapFile(path, about, overwrite=False)
        file.add(extras.NOTE_TOPIC, extras.NOTE_SCHEMA, 0, extras.encode_note(extras.Note(0, "weights", "abc")), 0)
        for tick, (moment, action) in enumerate(steps):
            at_ns = tick * 10**8
            for topic, schema, data in encode_step(moment, action, at_ns, {}):
                file.add(topic, schema, at_ns, data, tick)
            health = extras.encode_health({"sight": {"drops": tick, "fault": fault}})
            file.add(extras.HEALTH_TOPIC, extras.HEALTH_SCHEMA, at_ns, health, tick)
            file.add(
                extras.CAMERA_TOPIC, "foxglove.CompressedImage", at_ns, extras.encode_frame(b"\xff\xd8x", at_ns), tick
            )
            if tick % 8 == 0:
                file.end_chunk(tick + 1)
        file.close()
    return about
