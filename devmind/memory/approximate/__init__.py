"""Approximate search in memories beyond a million keys. Other folders import only from here."""

from devmind.memory.approximate.graphs import Graphs

__all__ = ["Graphs"]
