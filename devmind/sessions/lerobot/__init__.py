"""LeRobotDataset v3: sessions written as one, and any of them read as a session. This is the folder's one door."""

from devmind.sessions.lerobot.layout import INFO
from devmind.sessions.lerobot.reading import import_lerobot
from devmind.sessions.lerobot.writing import export_lerobot

__all__ = ["INFO", "export_lerobot", "import_lerobot"]
