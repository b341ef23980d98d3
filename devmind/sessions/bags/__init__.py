"""Recordings of other robots as sessions: ROS bags and others' MCAP files. This is the folder's one door."""

from devmind.sessions.bags.mcaps import import_mcap
from devmind.sessions.bags.ros import import_bag

__all__ = ["import_bag", "import_mcap"]
