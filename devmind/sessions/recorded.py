"""What a session holds of one sense or effector: gathered while indexing, read by reports and replayed worlds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from devmind.moment import Sense


@dataclass
class Recorded:
    """What was recorded of one sense or effector.

    Attributes:
        count: in how many ticks.
        kinds: its dtypes and shapes; text is ("str", ()).
        letters, longest: of text, the characters that occur, and the length of the longest.
    """

    count: int = 0
    kinds: set[tuple[str, tuple[int, ...]]] = field(default_factory=set)
    letters: set[str] = field(default_factory=set)
    longest: int = 0

    def add(self, value: Sense) -> None:
        """Count one more."""
        self.count += 1
        if isinstance(value, str):
            self.kinds.add(("str", ()))
            self.letters.update(value)
            self.longest = max(self.longest, len(value))
        else:
            self.kinds.add((str(value.dtype), value.shape))

    def as_dict(self) -> dict[str, Any]:
        """Plain data for reports."""
        kinds = sorted(self.kinds)
        return {"count": self.count, "dtypes": sorted({k for k, _ in kinds}), "shapes": [list(s) for _, s in kinds]}
