"""Recordings for other programs: as a film, or as a folder of plain files. Other folders import only from here."""

from devmind.sessions.film.mkv import export_mkv
from devmind.sessions.film.plain_files import export_files

__all__ = ["export_files", "export_mkv"]
