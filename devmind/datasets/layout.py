"""The content of a folder of `--data` for the packaged stages; third-party stages may look for more."""

from __future__ import annotations

import re
from pathlib import Path

from devmind.bounds import data_files

LAYOUT = {
    "pictures": "images/*.npz",
    "spoken digits": "speech/*/{digit}_{speaker}_{take}.wav",
    "sounds": "sounds/{set}/{class}/*.wav",
    "texts": "text/*.txt",
    "games": "games/connect4/*.tsv",
    "puzzles": "puzzles/puzzle15.tsv",
}
"""Kinds of data and their paths, as `devmind.bounds.data_files` reads them; braces stand for any name."""


def kinds_in(folder: Path) -> list[str]:
    """The kinds of LAYOUT of which the folder contains a file."""
    return [kind for kind, where in LAYOUT.items() if data_files(folder, re.sub(r"\{\w+\}", "*", where))]
