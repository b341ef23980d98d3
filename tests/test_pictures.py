"""Pictures at the head of pages are what the agents that come along answer today."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import cv2
import numpy as np

DOCS = Path(__file__).parent.parent / "docs"


def test_pictures_of_pages_are_drawn_by_the_agents_that_come_along(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("pictures", DOCS / "pictures.py")
    assert spec is not None
    assert spec.loader is not None
    pictures = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pictures)
    for name in pictures.PICTURES:
        assert f"({name}-stage.webp)" in (DOCS / f"{name}.md").read_text(encoding="utf-8")
        shown, drawn = (cv2.imread(str(file)) for file in (DOCS / f"{name}-stage.webp", pictures.draw(name, tmp_path)))
        assert np.abs(shown.astype(int) - drawn).mean() < 4, (
            f"python docs/pictures.py {name}"
        )  # machines round otherwise
