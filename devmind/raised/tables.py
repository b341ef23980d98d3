"""Tables of results in the documents, from the exams sealed beside agents: `python -m devmind.raised.tables`.

A page says where: everything between `<!-- results: AGENT -->` and `<!-- end of results -->` is written anew.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from devmind import bounds
from devmind.acting.standing import read_results
from devmind.checkpointing.files import write_atomically
from devmind.errors import CheckpointError
from devmind.raised import raised_agents

BEGIN, END = "<!-- results: {} -->", "<!-- end of results -->"
BLOCK = re.compile(r"<!-- results: ([\w-]+) -->\n.*?<!-- end of results -->", re.DOTALL)
HEAD = "| measure | n | score, bound | gate | chance | best rule | verdict |\n|---|---|---|---|---|---|---|"


def fill_tables(text: str) -> str:
    """`text` of a page with its tables of results as the sealed results have them.

    Raises:
        CheckpointError: a table names an agent that is not packaged, or that has no sealed results.
    """
    return BLOCK.sub(lambda found: "\n".join([BEGIN.format(found[1]), table(found[1]), END]), text)


def table(agent: str) -> str:
    """One row for each measure of the exams that are sealed beside the packaged agent."""
    folder = raised_agents().get(agent)
    results = read_results(folder) if folder else None
    if results is None:
        raise CheckpointError(f"No results are sealed beside an agent named '{agent}', so no table can show them.")
    rows = [_row(measure) for skill in results["skills"] for measure in skill["measures"]]
    return "\n".join([HEAD, *rows])


def _row(measure: Mapping[str, Any]) -> str:
    better = measure["higher_is_better"]
    bound = measure["low"] if better else measure["high"]
    cells = [
        f"`{measure['name']}`",
        f"{measure['n']:,}",
        f"{_figure(measure['score'])} [{_figure(bound)}]",
        f"{'≥' if better else '≤'} {measure['gate']:g}",
        _figure(measure["chance"]),
        _figure(measure["floor"]),
        measure["verdict"] + (f": {measure['beaten_by']}" if measure["beaten_by"] else ""),
    ]
    return "| " + " | ".join(cells) + " |"


def _figure(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 10 else f"{value:.3f}"


def main(pages: Iterable[Path]) -> None:
    for page in pages:
        text = bounds.read_text(page, CheckpointError)
        if (new := fill_tables(text)) != text:
            write_atomically(page, new)


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]] or sorted(Path("docs").rglob("*.md")))
