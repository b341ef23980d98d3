"""Tables for a terminal of any width, in one of three shapes.

A squeezed table breaks words and crops numbers, and a cropped number is another number. So columns of short values are
always printed whole, and the table changes its shape instead. As long as long columns keep a readable width, all
columns stand side by side. In less room the last (longest) column is printed under its row. In even less room each row
becomes a block of `column: value`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions
from rich.text import Text

LONG, SHORT = 24, 12
"""Least readable widths of the last column and of other columns that may be wrapped; shorter columns need less."""
GAPS = 3, 2, 1
"""Blanks between two columns: the usual number, and smaller ones that may save the shape."""


@dataclass(frozen=True)
class Column:
    """One column: `least` is the least width for wrapping (None: never wrapped); `right` aligns its values right."""

    name: str
    least: int | None = None
    right: bool = False


@dataclass(frozen=True)
class Grid:
    """What `rich` prints: a title, columns with their rows, and remarks; the shape follows the console's width.

    The first column names the row. If there is no room for the last column, and it may be wrapped, it is printed under
    the row.
    """

    columns: Sequence[Column]
    rows: Sequence[Sequence[Text]]
    title: Text | None = None
    remarks: Sequence[Text] = field(default=())

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        width = options.max_width
        if self.title is not None:
            yield from self.title.wrap(console, width)
        yield from self._shaped(console, width)
        for remark in self.remarks:
            yield from remark.wrap(console, width)

    def _shaped(self, console: Console, width: int) -> Iterator[Text]:
        every, last = self.columns, self.columns[-1]
        for gap in GAPS:
            if widths := self._widths(every, width, gap):
                yield from self._beside(console, widths, gap, ())
                return
        if last.least is not None and len(every) > 2:
            for gap in GAPS:
                if widths := self._widths(every[:-1], width, gap):
                    yield from self._beside(console, widths, gap, [row[-1] for row in self.rows])
                    return
        for row in self.rows:
            yield from self._block(console, row, width)

    def _widths(self, columns: Sequence[Column], width: int, gap: int) -> list[int] | None:
        """The printed width of each column; None if `width` is too small for this shape."""
        whole = [
            max(map(_width, [Text(column.name), *(row[at] for row in self.rows)])) for at, column in enumerate(columns)
        ]
        least = [w if c.least is None else min(w, c.least) for c, w in zip(columns, whole, strict=True)]
        room = width - gap * (len(columns) - 1)
        if sum(least) > room:
            return None
        widths = [min(w, room) for w in whole]
        while sum(widths) > room:  # the widest column shrinks first
            at = max((i for i in range(len(widths)) if widths[i] > least[i]), key=widths.__getitem__)
            widths[at] -= 1
        return widths

    def _beside(self, console: Console, widths: list[int], gap: int, under: Sequence[Text]) -> Iterator[Text]:
        columns = self.columns[: len(widths)]
        edge = max(console.width - 2, 1)
        yield from _line(console, [Text(c.name, "bold") for c in columns], columns, widths, gap)
        if under and self.columns[-1].name:
            yield from _hung(console, Text(self.columns[-1].name, "bold"), edge, "  ", "  ")
        yield Text("─" * (sum(widths) + gap * (len(widths) - 1)))
        for row, note in zip_longest(self.rows, under):
            yield from _line(console, row[: len(widths)], columns, widths, gap)
            if note:
                yield from _hung(console, note, edge, "  ", "  ")

    def _block(self, console: Console, row: Sequence[Text], width: int) -> Iterator[Text]:
        """The row's name, and its values below: as many short ones on a line as fit."""
        heading = row[0].copy()
        heading.stylize("bold")
        yield from heading.wrap(console, width)
        line = Text()
        for column, value in zip(self.columns[1:], row[1:], strict=True):
            if not value:
                continue
            text_of_cell = Text(f"{column.name}: " if column.name else "").append_text(value)
            if "\n" in value.plain:
                text_of_cell = Text(f"{column.name}:\n" if column.name else "").append_text(value)
            if line and ("\n" in text_of_cell.plain or _width(line) + 3 + _width(text_of_cell) > width - 4):
                yield from _hung(console, line, width - 4, "  ", "    ")
                line = Text()
            line = line.append(" · ").append_text(text_of_cell) if line else text_of_cell
            if "\n" in text_of_cell.plain:
                yield from _hung(console, line, width - 4, "  ", "    ")
                line = Text()
        if line:
            yield from _hung(console, line, width - 4, "  ", "    ")


def plain_grid(columns: Sequence[str], rows: Sequence[Sequence[str]], wrapping: Collection[str] = ()) -> Grid:
    """A table of plain text: the last column and those in `wrapping` may be wrapped, all others are printed whole."""
    made = [
        Column(name, LONG if at == len(columns) - 1 else SHORT if name in wrapping else None)
        for at, name in enumerate(columns)
    ]
    return Grid(made, [[Text(cell) for cell in row] for row in rows])


def _width(text: Text) -> int:
    return max((cell_len(line) for line in text.plain.split("\n")), default=0)


def _line(
    console: Console, cells: Sequence[Text], columns: Sequence[Column], widths: Sequence[int], gap: int
) -> Iterator[Text]:
    """One row of the table, which is as many lines as its longest cell."""
    wrapped = [_folded(console, cell, width) for cell, width in zip(cells, widths, strict=True)]
    for parts in zip_longest(*wrapped, fillvalue=None):
        line = Text()
        for at, (part, column, width) in enumerate(zip(parts, columns, widths, strict=True)):
            said = part.copy() if part else Text()
            said.rstrip()
            said.align("right" if column.right else "left", width)
            line.append(" " * gap if at else "").append_text(said)
        line.rstrip()
        yield line


def _folded(console: Console, cell: Text, width: int) -> list[Text]:
    """Wrapped text; a name that is too wide, such as `orient/motion/look_trunk`, is broken after its slashes."""
    if not any("/" in word and cell_len(word) > width for word in cell.plain.split()):
        return list(cell.wrap(console, width))
    lines: list[Text] = []
    for whole in cell.split("\n"):
        lines.append(Text())
        for part in whole.divide([at + 1 for at, sign in enumerate(whole.plain) if sign in "/ "]):
            if lines[-1] and _width(lines[-1]) + cell_len(part.plain.rstrip()) > width:
                lines.append(Text())
            lines[-1].append_text(part)
    return [piece for line in lines for piece in line.wrap(console, width)]


def _hung(console: Console, text: Text, width: int, first: str, rest: str) -> Iterator[Text]:
    """Wrapped text, with `first` before the first line and `rest` before the others."""
    for at, part in enumerate(text.wrap(console, max(width, 1))):
        part.rstrip()
        yield Text(rest if at else first).append_text(part)
