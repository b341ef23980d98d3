"""Approximate search in memories beyond a million keys. This is the folder's one door."""

from devmind.memory.approximate.graphs import Graphs

__all__ = ["Graphs"]
