"""One press of the teaching button: the thing held up meanwhile, in one entry of memory with the scene before it.

The entry of a press holds, besides `sight` (the crop that was shown), `looked` (the thing as the agent sees it when it
looks there), `views` (crops over the press) and `before` (crops of the scene without the thing, which are no examples
of its name). They stay with the entry: they are exported with it, get new keys when weights have changed, and are
deleted when the name is forgotten. Pictures made from them for fitting names (`turns`) are not stored.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from devmind.errors import StoreError
from devmind.live.remembering.held_object import HeldFinder, Square
from devmind.memory.entry import BEFORE, LOOKED, VIEWS

PRESS_S, LONGEST_S = 1.0, 10.0
"""Least duration of a press, and the longest time that it is looked at."""
PRESS_FRAMES, ONCE_MORE_S = 2, 0.2
"""A press also lasts for so many pictures, where pictures come; while it lacks some, so long is left."""
LEAST_SEEN = 0.4
"""Least share of a press's pictures in which something has to be held up."""
KEPT_VIEWS = 8
EMPTY_S, EMPTIES = 1.0, 2
"""Seconds between kept pictures of the scene before, and their number."""
RECENT = 20
"""Number of pictures of the thing held up that are kept without a press."""
AROUND = ((0.2, 0.25), (0.8, 0.25), (0.2, 0.7), (0.8, 0.7))
"""Middles of squares beside the thing's own that show the scene, in fractions of the picture."""
TURNS_DEG, ZOOMS, LIGHTS = (-16.0, 16.0), (0.82, 1.2), (0.85, 1.15)


class Seen(NamedTuple):
    """One picture of the thing held up, at `time_s`: the square, the crop in it and the look at it, uint8 [64, 64, 3]
    each.
    """

    time_s: float
    square: Square
    crop: np.ndarray
    looked: np.ndarray


class Holding:
    """The thing now held up, and what one press has seen of it; the loop reports every tick.

    Attributes:
        square, crop: around the thing, and the picture in it, uint8 [64, 64, 3]; None while nothing is held up. In a
            tick without a frame they are those of the last frame, as long as the thing counts as held up.
        above: the picture in the square above it; looked: the agent's view of it; uint8 [64, 64, 3] each.
    """

    def __init__(self) -> None:
        self._finder, self._now_s = HeldFinder(), 0.0
        self._empties: deque[np.ndarray] = deque(maxlen=EMPTIES)
        self._maybe_empty: np.ndarray | None = None
        self._empty_s = 0.0
        self._pressed: _Pressed | None = None
        self._recent: deque[Seen] = deque(maxlen=RECENT)
        self.square: Square | None = None
        self.crop: np.ndarray | None = None
        self.above: np.ndarray | None = None
        self.looked: np.ndarray | None = None

    def see(self, frame: np.ndarray | None, time_s: float) -> None:
        """Take a tick at `time_s`, with the camera's frame uint8 [H, W, 3] or without one."""
        self._now_s = time_s
        self.square = self._finder.see(frame, time_s)
        if self.square is None or frame is not None:
            self.crop = self.above = self.looked = None
        if self.square and frame is not None:
            size = frame.shape[:2]
            squares = self.square, self.square.above(*size), self.square.looked_at(*size)
            self.crop, self.above, self.looked = (square.crop(frame) for square in squares)
            self._recent.append(Seen(time_s, self.square, self.crop, self.looked))
        elif self.square is None:
            self._recent.clear()
        self._remember_empty(frame)
        if self._pressed is not None and self._now_s - self._pressed.begun_s < LONGEST_S:
            seen = None if self.square is None or frame is None else self._recent[-1]
            self._pressed.add(frame, seen, self._finder.moved)

    def _remember_empty(self, frame: np.ndarray | None) -> None:
        """A picture counts as empty scene if nothing comes up within a second after it either."""
        if frame is None:
            return
        if self._finder.moved:
            self._maybe_empty = None
        elif self._maybe_empty is None:
            self._maybe_empty, self._empty_s = frame, self._now_s
        elif self._now_s - self._empty_s >= EMPTY_S:
            self._empties.append(self._maybe_empty)
            self._maybe_empty, self._empty_s = frame, self._now_s

    @property
    def preview(self) -> np.ndarray | None:
        """The crop that would be kept as its picture: of this press, or without one, of the thing now held up."""
        return (
            self.crop
            if self._pressed is None or not self._pressed.seen
            else Showing(self._pressed.seen, None, ()).picture()
        )

    @property
    def frames(self) -> int | None:
        """Number of pictures of the present press with something held up; None between presses."""
        return None if self._pressed is None else len(self._pressed.seen)

    @property
    def left_s(self) -> float:
        """Least remaining seconds of the present press."""
        if self._pressed is None:
            return PRESS_S
        left_s = self._pressed.begun_s + PRESS_S - self._now_s
        lacks = self._finder.sees and self._pressed.frame_count < PRESS_FRAMES and left_s > PRESS_S - LONGEST_S
        return max(0.0, left_s, ONCE_MORE_S if lacks else 0.0)

    @property
    def sees(self) -> bool:
        """Whether the camera gives frames, even if seldom: without any, nobody can tell what is held up."""
        return self._finder.sees

    @property
    def frames_hz(self) -> float | None:
        """Frames a second, as usual of late; None before the second."""
        gap_s = self._finder.usual_gap_s
        return 1 / gap_s if gap_s > 0 else None

    @property
    def begun_s(self) -> float:
        """The start of the present press, on the room's clock; between presses, now."""
        return self._now_s if self._pressed is None else self._pressed.begun_s

    def begin(self) -> None:
        """The button is pressed; does nothing during a press."""
        if self._pressed is None:
            self._pressed = _Pressed(self._now_s)

    def end(self) -> None:
        """The button is released, and nothing is kept."""
        self._pressed = None

    def take(self) -> dict[str, np.ndarray]:
        """What the press has seen, as an entry's payload (see above); the press goes on until `end`.

        Raises:
            StoreError: nothing was held up for long enough.
        """
        pressed = self._pressed or _Pressed(self._now_s)
        if not pressed.frame_count and self.sees:
            raise StoreError(
                "No picture came during this press, because this computer is too busy. Close other programs, hold the "
                "thing up until the square is round it, then press for longer."
            )
        if not pressed.frame_count:
            raise StoreError("The camera gives no picture to name. Switch it on, then teach.")
        if not pressed.moved:
            raise StoreError(
                "Nothing new is in view: hold the thing up, near and in the middle, until the square is round it, "
                "then press."
            )
        if len(pressed.seen) < LEAST_SEEN * pressed.frame_count:
            held = f"it was held up in only {len(pressed.seen)} of {pressed.frame_count} pictures"
            raise StoreError(
                f"Something moved, but {held if pressed.seen else 'nothing was held up'}: "
                "hold it still, near and in the middle, until the square is round it, then press."
            )
        return Showing(pressed.seen, pressed.first, self._empties).payload()

    def recent(self, frame: np.ndarray | None) -> Showing | None:
        """The thing held up, as if a press had lasted for its last pictures; None while nothing is.

        `frame`: the camera's newest, uint8 [H, W, 3].
        """
        return Showing(list(self._recent), frame, list(self._empties)) if self._recent else None


class Showing(NamedTuple):
    """What was seen of one thing that was held up.

    Attributes:
        seen: pictures of it, at least one.
        first: a whole frame with the thing, uint8 [H, W, 3], or None.
        empties: frames of the scene before it came.
    """

    seen: Sequence[Seen]
    first: np.ndarray | None
    empties: Sequence[np.ndarray]

    def payload(self) -> dict[str, np.ndarray]:
        """An entry's payload (see above); takes some milliseconds."""
        every = np.linspace(0, len(self.seen) - 1, min(KEPT_VIEWS, len(self.seen))).round().astype(int)
        before = list(self._before())
        usual = self._usual()
        views = np.stack([self.seen[at].crop for at in every])
        payload = {"sight": usual.crop, LOOKED: usual.looked, VIEWS: views}
        return payload | ({BEFORE: np.stack(before)} if before else {})

    def picture(self) -> np.ndarray:
        """The crop with the most typical square, uint8 [64, 64, 3]; `sight` of the payload."""
        return self._usual().crop

    def _usual(self) -> Seen:
        squares = np.array([seen.square for seen in self.seen])
        apart = np.abs(squares - np.median(squares, axis=0)).sum(1)
        return self.seen[int(apart.argmin())]

    def _before(self) -> Iterator[np.ndarray]:
        """Crops of the scene: at the thing's place and around it, from before it came; and around it as it is now."""
        own = self.seen[len(self.seen) // 2].square
        around = [Square(x, y, own.side) for x, y in AROUND]
        for frame in self.empties:
            yield from (square.crop(frame) for square in (own, *around))
        if self.first is not None:
            yield from (square.crop(self.first) for square in around if not square.overlap(own))


class _Pressed:
    """One press while it lasts."""

    def __init__(self, begun_s: float) -> None:
        self.begun_s, self.frame_count = begun_s, 0
        self.moved = False
        self.first: np.ndarray | None = None
        self.seen: list[Seen] = []

    def add(self, frame: np.ndarray | None, seen: Seen | None, moved: bool) -> None:
        if frame is None:
            return
        self.frame_count += 1
        self.moved |= moved
        if seen is not None:
            self.first = frame if self.first is None else self.first
            self.seen.append(seen)


def turns(views: np.ndarray) -> list[np.ndarray]:
    """Crops uint8 [n, 64, 64, 3] plus each a little turned, nearer, farther, darker and brighter: 7 n pictures."""
    import cv2

    height, width = views.shape[1:3]
    middle = ((width - 1) / 2, (height - 1) / 2)
    varied = []
    for view in views:
        moves = [cv2.getRotationMatrix2D(middle, angle, 1.0) for angle in TURNS_DEG]
        moves += [cv2.getRotationMatrix2D(middle, 0.0, zoom) for zoom in ZOOMS]
        varied += [
            view,
            *(cv2.warpAffine(view, move, (width, height), borderMode=cv2.BORDER_REFLECT_101) for move in moves),
        ]
        varied += [np.clip(view.astype(np.float32) * light, 0, 255).astype(np.uint8) for light in LIGHTS]
    return varied
