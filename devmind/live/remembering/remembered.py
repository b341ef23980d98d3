"""What memory holds, for people: a picture, a name and when."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any

import numpy as np

from devmind.memory import Entry, Filters, Memory
from devmind.moment import SOUND_RATE_HZ, Sense

SHOWN = 50


def remembered(memory: Memory, limit: int = SHOWN, also: Iterable[int] = ()) -> list[dict[str, Any]]:
    """The newest named examples and the entries `also`, the newest first: id, name, time_s, picture, sound_s."""
    newest = memory.store.facts(Filters(named=True)).ids[::-1][:limit].tolist()
    return [as_shown(entry) for entry in memory.get(sorted({*newest, *also}, reverse=True))]


def as_shown(entry: Entry) -> dict[str, Any]:
    """One entry as plain data; `picture` is a data URL, '' without one."""
    sound = entry.senses.get("sound")
    return {
        "id": entry.id,
        "name": entry.name or "",
        "time_s": entry.time_s,
        "picture": _as_url(entry.senses.get("sight")),
        "sound_s": sound.shape[1] / SOUND_RATE_HZ if isinstance(sound, np.ndarray) else 0.0,
    }


def _as_url(picture: Sense | None) -> str:
    """A picture uint8 [H, W, 3] as a PNG in a data URL."""
    if not isinstance(picture, np.ndarray):
        return ""
    import cv2

    png = cv2.imencode(".png", cv2.cvtColor(picture, cv2.COLOR_RGB2BGR))[1]
    return "data:image/png;base64," + base64.b64encode(png.tobytes()).decode()
