"""The newborn that `devmind hello` wakes: raised on the nursery, small enough to come with the package."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent / "agent"
"""A saved agent like any other; README.md beside it says how it was made."""
