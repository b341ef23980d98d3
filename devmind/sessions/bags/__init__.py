"""Recordings of other robots as sessions: ROS bags and other MCAP files. Other folders import only from here."""

from devmind.sessions.bags.mcaps import import_mcap
from devmind.sessions.bags.ros import import_bag

__all__ = ["import_bag", "import_mcap"]
