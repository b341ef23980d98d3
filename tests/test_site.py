"""The documents as a site: built strictly, without a broken link, and it loads nothing from elsewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.slow
def test_the_site_is_built_strictly_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    pages = list((tmp_path / "site").rglob("*.html"))
    assert (tmp_path / "site" / "index.html") in pages
    source = tmp_path / "site" / "source" / "SECURITY.html"
    assert source in pages, "files outside of docs/ to which pages link come along"
    loaded = re.compile(r"<(?:script|img|iframe|source)[^>]+src=\"?(?:https?:)?//|<link[^>]+stylesheet[^>]+https?://")
    outside = [page.name for page in pages if loaded.search(page.read_text(encoding="utf-8"))]
    assert not outside, f"loaded from elsewhere: {', '.join(outside)}"
