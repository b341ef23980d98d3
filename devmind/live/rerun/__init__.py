"""A life in Rerun, as one more view of it. Other folders import only from here."""

from devmind.live.rerun.viewer import RerunViewer

__all__ = ["RerunViewer"]
