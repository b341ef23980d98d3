"""Which kinds of sounds there are."""

from __future__ import annotations

UNKNOWN, SPEECH = 0, 1
KINDS = (
    "unknown", "speech", "chainsaw", "clock_tick", "crackling_fire", "crying_baby", "dog", "helicopter", "rain",
    "rooster", "sea_waves", "sneezing",
)  # fmt: skip
"""What a sound may be; the first is a sound of no kind that was taught."""
