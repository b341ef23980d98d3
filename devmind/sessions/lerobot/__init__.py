"""LeRobotDataset v3: writes sessions as one, and reads any as a session. Other folders import only from here."""

from devmind.sessions.lerobot.layout import INFO
from devmind.sessions.lerobot.reading import import_lerobot
from devmind.sessions.lerobot.writing import export_lerobot

__all__ = ["INFO", "export_lerobot", "import_lerobot"]
