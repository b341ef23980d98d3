"""The stage planning: imagining a way before going it; see `stage.py`."""

WORDS = ("on", "east", "south", "west", "north")
"""Symbols of a plan, one for each point: the direction of the cell that the stride from there enters, x growing to the
east and y to the south; "on" where the stride stays in its cell. A symbol that stands beside its stride can be named
by it; a mere list of moves, whose tenth is made anywhere, could not be learned (docs/log.md, 2026-11-26)."""
