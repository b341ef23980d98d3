"""Recordings to look at elsewhere: as a film, or as a folder of plain files. This is the folder's one door."""

from devmind.sessions.film.mkv import export_mkv
from devmind.sessions.film.plain_files import export_files

__all__ = ["export_files", "export_mkv"]
