"""A life in Rerun, one more way to look at it. This is the folder's one door."""

from devmind.live.rerun.viewer import RerunViewer

__all__ = ["RerunViewer"]
