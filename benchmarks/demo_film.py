"""README's film: what `devmind demo` said and saw, from one run of it, as an animated WebP.

The run is the real one: both lives, the kill and the exam. Beside its lines the film shows the clip's pictures at the
ticks that the lives reported, with the square and the answer of each. It only shortens the waiting: loading and the
exam. A step that does not come out would be visible.

    python benchmarks/demo_film.py docs/demo.webp
"""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from devmind.cli.demo import _exam
from devmind.live.demonstration import CLIP, Demonstration
from devmind.sessions.reader import Session

SIZE, PICTURE, MARGIN = (1240, 600), (640, 480), 20
TEXT_PX, LINE_PX, COLUMNS = 14, 19, 65
EVERY, TICK_MS = 2, 70
"""The film shows every second tick, somewhat faster than it was."""
STAND_MS, END_MS = 1200, 4000
MOST_BYTES = 1_500_000
INK, DIM, GOOD, BAD, GROUND = (222, 226, 230), (134, 144, 156), (116, 206, 140), (240, 120, 108), (18, 21, 26)
KNOWN, UNSURE = (96, 220, 140), (255, 196, 84)


class Film:
    """Takes what the demonstration says and what its lives see, and makes pictures of it."""

    def __init__(self, font: str) -> None:
        self.font, self.large = (ImageFont.truetype(font, size) for size in (TEXT_PX, 20))
        self.clip = [frame.picture() for frame in Session(CLIP).frames()]
        self.lines: list[str] = []
        self.pictures: list[Image.Image] = []
        self.durations_ms: list[int] = []
        self.shown: Mapping[str, Any] | None = None

    def say(self, line: str) -> None:
        """A line of the terminal; it stands for a moment, as loading does between two of them."""
        print(line, flush=True)
        self.lines.append(line)
        if " killed " in line or " awake " in line or " exam " in line or len(self.lines) == 1:
            self.shown = None
        self._keep(STAND_MS if self.shown is None else TICK_MS)

    def watch(self, tick: Mapping[str, Any]) -> None:
        """A tick of a life."""
        self.shown = tick
        if tick["tick"] % EVERY == 0:
            self._keep(EVERY * TICK_MS)

    def _keep(self, ms: int) -> None:
        picture = Image.new("RGB", SIZE, GROUND)
        draw = ImageDraw.Draw(picture)
        self._draw_view(picture, draw)
        self._draw_lines(draw)
        if self.pictures and np.array_equal(np.asarray(picture), np.asarray(self.pictures[-1])):
            self.durations_ms[-1] += ms
            return
        self.pictures.append(picture)
        self.durations_ms.append(ms)

    def _draw_view(self, picture: Image.Image, draw: ImageDraw.ImageDraw) -> None:
        left = top = MARGIN
        top += 20
        if self.shown is None:
            draw.rectangle((left, top, left + PICTURE[0], top + PICTURE[1]), (8, 9, 11))
            step = self.lines[-1].split()[2] if len(self.lines) > 1 else ""
            words = {"killed": "the process is gone", "awake": "it wakes"}.get(
                step, "the exam is over" if len(self.lines) > 9 else ""
            )
            draw.text((left + PICTURE[0] / 2, top + PICTURE[1] / 2), words, DIM, self.large, anchor="mm")
            return
        frame = Image.fromarray(self.clip[min(self.shown["tick"], len(self.clip) - 1)])
        picture.paste(frame.resize(PICTURE, Image.Resampling.LANCZOS), (left, top))
        if self.shown["held"] is None:
            return
        x, y, side = self.shown["held"]
        half = side * PICTURE[0] / 2
        x, y = left + x * PICTURE[0], top + y * PICTURE[1]
        right, bottom = left + PICTURE[0], top + PICTURE[1]
        box = [max(left, x - half), max(top, y - half), min(right, x + half), min(bottom, y + half)]
        words, colour = _answer(self.shown["sight"])
        draw.rectangle(box, outline=colour, width=3)
        wide = draw.textlength(words, self.large) + 16
        at = (min(box[0], left + PICTURE[0] - wide), max(top, box[1] - 30))
        draw.rectangle((*at, at[0] + wide, at[1] + 30), colour)
        draw.text((at[0] + 8, at[1] + 15), words, (12, 14, 18), self.large, anchor="lm")

    def _draw_lines(self, draw: ImageDraw.ImageDraw) -> None:
        left, y = MARGIN + PICTURE[0] + MARGIN, MARGIN
        draw.text((left, y), "$ devmind demo", GOOD, self.font)
        y += LINE_PX + 4
        for line in self.lines:
            colour = BAD if "✗" in line else INK
            for part in textwrap.wrap(line, COLUMNS, subsequent_indent=" " * 7):
                draw.text((left, y), part, colour, self.font)
                y += LINE_PX
            y += 4

    def write(self, path: Path) -> None:
        """Write an animated WebP, in the best quality that fits."""
        self.durations_ms[-1] += END_MS
        for quality in (70, 60, 50, 40, 30):
            first, *others = self.pictures
            first.save(
                path, save_all=True, append_images=others, duration=self.durations_ms, loop=0, quality=quality,
                method=4,
            )  # fmt: skip
            if path.stat().st_size <= MOST_BYTES:
                break
        print(f"{path}: {len(self.pictures)} pictures, {sum(self.durations_ms) / 1000:.0f} s, ", end="")
        print(f"{path.stat().st_size / 1e6:.2f} MB at quality {quality}")


def _answer(sight: Mapping[str, Any] | None) -> tuple[str, tuple[int, int, int]]:
    """The label as on the page, and its colour."""
    if sight is None:
        return "no name known", UNSURE
    if sight["name"] is None:
        return "not sure", UNSURE
    return f"{sight['name']} {round(100 * sight['confidence'])} %", KNOWN


def main() -> None:
    """Run the demonstration, and film it into the given file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--font", default="DejaVuSansMono.ttf", help="a font of one width")
    parser.add_argument("--tiny", action="store_true", help="only show that everything runs, without the demo")
    arguments = parser.parse_args()
    film = Film(arguments.font)
    if arguments.tiny:
        film.say("A film of one picture of the clip.")
        sight = {"name": "mug", "confidence": 0.9}
        film.watch({"tick": 40, "held": (0.5, 0.5, 0.2), "sight": sight})
    passed = arguments.tiny or Demonstration(film.say, _exam, watch=film.watch).run()
    film.write(arguments.file)
    raise SystemExit(0 if passed else 1)


if __name__ == "__main__":
    main()
