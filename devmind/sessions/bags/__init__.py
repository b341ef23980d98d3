"""Recordings of other robots as sessions: ROS bags and other MCAP files. Other folders import only from here."""

from devmind.sessions.bags.mcaps import import_mcap
from devmind.sessions.bags.ros import METADATA, import_bag, storage_files

__all__ = ["METADATA", "import_bag", "import_mcap", "storage_files"]
