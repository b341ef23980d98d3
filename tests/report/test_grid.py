"""Tables at every width: no word is broken and no number is cropped, whatever the layout."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.text import Text

from devmind.report.grid import Column, Grid, plain_grid

COLUMNS = ("skill", "gate", "n", "exam")
ROWS = (
    (
        "route",
        "route/medium: at least 0.95 and better than its floor\nroute/large: at least 0.9",
        "1,200",
        "paths through OGBench's mazes, planned as a whole and followed",
    ),
    ("trade", "trade/random: at least -0.0202027", "1,000,000", "shares of wealth held in five kinds of market"),
    ("told", "", "4", ""),
)


def printed(grid: Grid, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(grid)
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined]


@pytest.mark.parametrize("width", [30, 40, 60, 72, 80, 100, 120, 200])
def test_words_and_numbers_are_unbroken_at_every_width(width: int) -> None:
    lines = printed(plain_grid(COLUMNS, ROWS), width)
    assert max(map(len, lines)) <= width
    words = {word for line in lines for word in line.split()}
    for row in ROWS:
        assert set(" ".join(row).split()) <= words


def test_the_layout_follows_the_width() -> None:
    wide, middle, narrow = (printed(plain_grid(COLUMNS, ROWS), width) for width in (150, 80, 50))
    assert wide[0].split() == list(COLUMNS)
    assert len(wide) == 2 + 4, "a line for each, two for the gate of two lines"
    assert middle[0].split() == ["skill", "gate", "n"], "the last column stands under its row"
    assert middle[1] == "  exam"
    assert "  paths through OGBench's mazes, planned as a whole and followed" in middle
    assert middle[-1].split() == ["told", "4"], "an empty note takes no line"
    assert narrow[0] == "route"
    assert "  n: 1,000,000" in narrow
    assert narrow[-2:] == ["told", "  n: 4"]


def test_a_long_note_wraps_beside_its_row_where_there_is_room() -> None:
    lines = printed(plain_grid(("key", "meaning"), [("hz", "ticks a second " * 8)]), 40)
    assert all(line.startswith(("hz ", "     ", "key", "─")) for line in lines)
    assert len(lines) > 4


def test_short_values_of_a_block_share_a_line() -> None:
    numbers = [Column(name, right=True) for name in ("score", "95 %", "n", "chance", "floor", "gate")]
    row = ["orient/sound", "0.702", "0.671–0.733", "400", "0.100", "0.350", "≥ 0.700"]
    grid = Grid([Column("measure", 12), *numbers], [[Text(cell) for cell in row]], Text("reflex"), [Text("a remark")])
    assert printed(grid, 40) == [
        "reflex",
        "orient/sound",
        "  score: 0.702 · 95 %: 0.671–0.733",
        "  n: 400 · chance: 0.100",
        "  floor: 0.350 · gate: ≥ 0.700",
        "a remark",
    ]


def test_wide_characters_count_twice_and_markup_is_printed_as_text() -> None:
    lines = printed(plain_grid(("name", "words"), [("杯子", "[bold]cup[/bold]"), ("cup", "x")]), 60)
    assert lines[2].index("[bold]cup[/bold]") == lines[3].index("x") - 2, "two characters, four cells"


def test_a_table_without_rows_is_its_head() -> None:
    assert printed(plain_grid(("a", "b"), []), 40) == ["a   b", "─────"]
