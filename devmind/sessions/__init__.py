"""Sessions: recordings of (Moment, Action) as MCAP files, and sessions made from real media.

>>> with Recorder("walk.mcap", source="room") as recorder:
...     recorder.write(moment, action)
>>> for moment, action in open_session("walk.mcap"):
...     agent_learns_from(moment, action)
"""

from devmind.sessions.background import BackgroundRecorder
from devmind.sessions.imports import import_any
from devmind.sessions.lerobot import export_lerobot
from devmind.sessions.media import import_media
from devmind.sessions.parts import describe, parts, replay
from devmind.sessions.reader import Note, Session, open_session
from devmind.sessions.recorder import Recorder
from devmind.sessions.repair import repair

__all__ = [
    "BackgroundRecorder", "Note", "Recorder", "Session", "describe", "export_lerobot", "import_any",
    "import_media", "open_session", "parts", "repair", "replay",
]  # fmt: skip
