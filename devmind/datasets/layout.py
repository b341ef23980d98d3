"""What a folder of `--data` may hold for the stages that come with devmind; stages of others may look for more."""

from __future__ import annotations

import re
from pathlib import Path

LAYOUT = {
    "pictures": "images/*.npz",
    "spoken digits": "speech/*/{digit}_{speaker}_{take}.wav",
    "sounds": "sounds/{set}/{class}/*.wav",
    "texts": "text/*.txt",
    "games": "games/connect4/*.tsv",
    "puzzles": "puzzles/puzzle15.tsv",
}
"""Kinds of things, and where each lies; what stands in braces is any name."""


def kinds_in(folder: Path) -> list[str]:
    """The kinds of LAYOUT of which the folder holds a file."""
    return [kind for kind, where in LAYOUT.items() if any(folder.glob(re.sub(r"\{\w+\}", "*", where)))]
