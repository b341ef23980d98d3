"""Finds what is held up in front of the camera, by its difference from the scene before.

The scene is stored per pixel as samples of the last seconds. A pixel unlike all of its samples is foreground (Barnich
and Van Droogenbroeck 2011, "ViBe", with samples taken in turn instead of at random). So a tree in the wind or a nodding
head is part of the scene. Foreground is not sampled, so a thing held still for a minute stays found. A camera that
moves or a lamp that is switched on changes nearly the whole picture at once, and starts a new scene.

The result is the square with the most foreground in it: a thing held up is wider than the arm, and more compact than
the edges of a person who moved. Of two squares, the one nearer to the middle wins, and a higher one before a lower one.
Teaching and asking both use this code.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np

from devmind.moment import SIGHT_SIZE

WIDTH = 160
"""Of the small picture in which differences are looked for, in pixels."""
SAMPLES, SAMPLED_S = 16, 0.4
"""So many samples of the scene, one every so many seconds; a new one takes the place of the oldest."""
NEW_S = 1.6
"""A new scene is looked at for so long before anything is said to be held up before it."""
HELD_S, MOVED_S, MOVED_FRAMES = 60.0, 2.0, 6
"""Foreground becomes part of the scene after so long, round what is held up and elsewhere, and after more than so many
frames: a slow machine sees few of them, and needs `STEADY` to find anything."""
DIFFERENCE = 24
"""Foreground differs by so much from every sample, of 255, in one of its colours."""
NEW_SCENE = 0.65
"""Share of the picture above which it is the camera or the light that changed."""
FLASH_S, FLASH_FRAMES = 0.25, 2
"""It has changed when that lasts longer than a flash, and for so many frames."""
FILLS = 0.4
"""Side of a square, as a fraction of the picture's width, from which it may be what fills the picture."""
SIDES = (0.16, 0.2, 0.25, 0.31, 0.38, 0.46, 0.55)
"""Of squares that are looked at, as fractions of the picture's width."""
FILLED = 0.45
"""A larger square is better as long as so much of what it adds is foreground."""
MIDDLE, AROUND = (0.5, 0.4), 0.6
"""Where things are held up, in fractions of the picture, and how far round it (standard deviation)."""
ABOVE = 0.6
"""So many sides higher is the square that is asked as well."""
MARGIN = 1.25
"""Side of the square beside that of the best filled one."""
FOLLOW = 0.5
"""Share of the way that the square goes to a new place in a tick: a trembling hand moves it little. A thing on its way
is gone after by all that the squares do not overlap, or it would leave its square."""
LOOK = 3.5
"""Side of a look at a thing, by that of the square round it: so the thing takes as much of the picture as what is named
to a child does in lessons, a fifth, as far as the picture's height allows.
"""
SAME = 0.3
"""Overlap (intersection over union) from which two squares are round the same thing."""
SPEED = 0.5
"""Of a thing that is shown, widths of the picture a second: so far its square may have gone since the last frame,
however long ago that was."""
MISSING_S, MISSING_FRAMES, LONGEST_MISSING_S = 0.5, 2.5, 5.0
"""A camera that gives no frame for longer shows nothing that is held up. It is longer for one that gives few: the time
of so many of its frames, up to the longest."""
GAPS = 5
"""Times between frames whose median is the camera's usual one."""
STEADY = 3
"""So many frames in a row something is at one place before it is said to be held up."""


class Square(NamedTuple):
    """In fractions of a picture's width and height: the middle, and the side as a fraction of the width."""

    x: float
    y: float
    side: float

    def overlap(self, other: Square) -> float:
        """Intersection over union of two squares, in a picture as wide as high."""
        reach, least = (self.side + other.side) / 2, min(self.side, other.side)
        both = 1.0
        for apart in (abs(self.x - other.x), abs(self.y - other.y)):
            both *= min(least, max(0.0, reach - apart))
        return both / (self.side**2 + other.side**2 - both)

    def nearer(self, other: Square, distance: float) -> Square:
        """The square with its middle moved towards another one's by so much, or onto it."""
        apart = np.array([other.x - self.x, other.y - self.y])
        x, y = (self.x, self.y) + apart * min(1.0, distance / max(float(np.linalg.norm(apart)), 1e-9))
        return Square(float(x), float(y), self.side)

    def towards(self, other: Square, share: float) -> Square:
        """The square moved and resized by this share of the way to another one."""
        return Square(*((1 - share) * np.array(self) + share * np.array(other)).tolist())

    def above(self, height: int, width: int) -> Square:
        """The square above this one in a picture of this size. The thing is there when only the arm was found, because
        the thing has the colours of the scene behind it.
        """
        return self._replace(y=max(0.1, self.y - ABOVE * self.side * width / height))

    def looked_at(self, height: int, width: int) -> Square:
        """The agent's view of the thing in this square, as a square, in a picture of this size."""
        return self._replace(side=max(self.side, min(LOOK * self.side, height / width, 1.0)))

    def within(self, height: int, width: int) -> tuple[int, int, int, int]:
        """(top, bottom, left, right) in pixels of a picture of this size, cut at its edges."""
        side = self.side * width / 2
        ends = (self.y * height - side, self.y * height + side, self.x * width - side, self.x * width + side)
        return tuple(
            min(max(round(end), 0), most) for end, most in zip(ends, (height, height, width, width), strict=True)
        )  # type: ignore[return-value]

    def crop(self, frame: np.ndarray) -> np.ndarray:
        """A frame uint8 [H, W, 3] inside the square, as `sight`: uint8 [64, 64, 3]; mirrored beyond the edge."""
        import cv2

        height, width = frame.shape[:2]
        side = self.side * width / SIGHT_SIZE
        left, top = self.x * width - side * SIGHT_SIZE / 2, self.y * height - side * SIGHT_SIZE / 2
        place = np.array([[side, 0, left], [0, side, top]], np.float32)
        kind = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
        if side > 1:  # a warp samples single pixels, so smooth first
            frame = cv2.blur(frame, (max(1, round(side)),) * 2)
        return cv2.warpAffine(frame, place, (SIGHT_SIZE, SIGHT_SIZE), flags=kind, borderMode=cv2.BORDER_REFLECT_101)


class HeldFinder:
    """Looks at every frame of one camera.

    Attributes:
        square: around the thing now held up; None when nothing is.
        moved: whether anything large enough is in view that was not before, steady or not.
        sees: whether frames come, even if seldom.
    """

    def __init__(self) -> None:
        self.square: Square | None = None
        self.moved = self.sees = False
        self._gaps_s: deque[float] = deque(maxlen=GAPS)
        self._seen = self._last = Square(0.5, 0.5, 0.0)
        self._samples: np.ndarray | None = None
        self._steady, self._now_s = 0, 0.0

    @property
    def usual_gap_s(self) -> float:
        """Seconds between two frames, as usual of late; nan before the second."""
        return float(np.median(self._gaps_s)) if self._gaps_s else float("nan")

    def see(self, frame: np.ndarray | None, time_s: float) -> Square | None:
        """Take a tick; returns `square`. A missing frame now and then changes nothing.

        Args:
            frame: uint8 [H, W, 3], or None.
            time_s: time of the tick, on any clock.
        """
        import cv2

        if frame is None:
            usual_s = np.nan_to_num(MISSING_FRAMES * self.usual_gap_s)
            if time_s - self._now_s > max(MISSING_S, min(usual_s, LONGEST_MISSING_S)):
                self.square, self.moved, self.sees, self._steady = None, False, False, 0
            return self.square
        if self._samples is not None:
            self._gaps_s.append(time_s - self._now_s)
        self._passed_s, self._now_s, self.sees = time_s - self._now_s, time_s, True
        size = (WIDTH, max(1, round(WIDTH * frame.shape[0] / frame.shape[1])))
        small = cv2.GaussianBlur(cv2.resize(frame, size, interpolation=cv2.INTER_AREA), (3, 3), 0).astype(np.int16)
        mask = self._foreground(small)
        if mask is None:
            return self.square
        found = self._found(mask) if time_s - self._begun_s >= NEW_S else None
        self.moved = found is not None
        self._lock(found)
        self._follow(small, mask)
        return self.square

    def _foreground(self, small: np.ndarray) -> np.ndarray | None:
        """Mask bool [h, w] of a picture int16 [h, w, 3]; None where nearly all of it has changed."""
        if self._samples is None or self._samples.shape[1:] != small.shape:
            self._begin(small)
        assert self._samples is not None
        # A camera adapts its exposure: the median change is light, since half of the picture stays as it was.
        light = np.median((small - self._samples[self._newest])[::4, ::4].reshape(-1, 3), axis=0).astype(np.int16)
        mask = np.abs((small - light)[None] - self._samples).max(3).min(0) > DIFFERENCE
        changed = float(mask.mean())
        # A thing may come so near that it fills the picture, while a camera turns all at once.
        if changed <= NEW_SCENE or (self.square and self.square.side > FILLS):
            self._usual_s, self._unusual_frames = self._now_s, 0
            return mask
        self._unusual_frames += 1
        if self._now_s - self._usual_s >= FLASH_S and self._unusual_frames >= FLASH_FRAMES:
            self._begin(small)
        return None

    def _begin(self, small: np.ndarray) -> None:
        self._samples, self._newest = np.repeat(small[None], SAMPLES, 0), 0
        self._begun_s = self._sampled_s = self._now_s
        self._since_s, self._since_frames = np.zeros(small.shape[:2], np.float32), np.zeros(small.shape[:2], np.int32)
        self._usual_s, self._unusual_frames = self._now_s, 0
        self.square, self.moved, self._steady = None, False, 0

    def _follow(self, small: np.ndarray, mask: np.ndarray) -> None:
        """Take in what is no foreground, or has been foreground for long; a new scene takes in everything at first."""
        assert self._samples is not None
        self._since_s = np.where(mask, self._since_s + self._passed_s, 0)
        self._since_frames = np.where(mask, self._since_frames + 1, 0)
        patience_s = np.full(mask.shape, MOVED_S)
        if self.square:
            top, _, left, right = self.square.within(*mask.shape)
            patience_s[top:, left:right] = HELD_S  # with the arm below it
        taken = (self._since_s > patience_s) & (self._since_frames > MOVED_FRAMES)
        self._samples[:, taken] = small[taken]
        if self._now_s - self._begun_s < NEW_S:
            self._newest = (self._newest + 1) % SAMPLES
            self._samples[self._newest] = small
        elif self._now_s - self._sampled_s >= SAMPLED_S:
            self._sampled_s = self._now_s
            self._newest = (self._newest + 1) % SAMPLES
            self._samples[self._newest][~mask] = small[~mask]

    def _found(self, mask: np.ndarray) -> Square | None:
        """The best square of a foreground bool [h, w]; None where none has enough foreground."""
        import cv2

        height, width = mask.shape
        whole = cv2.morphologyEx(mask.astype(np.uint8), cv2.MORPH_OPEN, np.ones((3, 3), np.uint8))
        whole = cv2.morphologyEx(whole, cv2.MORPH_CLOSE, cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (5, 5)))
        x, y = (np.arange(width) + 0.5) / width - MIDDLE[0], ((np.arange(height) + 0.5) / height - MIDDLE[1])[:, None]
        value = (whole * np.exp(-(x**2 + (y * height / width) ** 2) / (2 * AROUND**2))).astype(np.float32)
        best, square = 0.0, None
        for side in SIDES:
            pixels = round(side * width)
            share = cv2.boxFilter(value, -1, (pixels, pixels), borderType=cv2.BORDER_CONSTANT)
            row, column = divmod(int(share.argmax()), width)
            worth = (float(share[row, column]) - FILLED) * pixels**2
            if worth > best:
                best = worth
                square = Square((column + 0.5) / width, (row + 0.5) / height, MARGIN * side)
        return square

    def _lock(self, found: Square | None) -> None:
        if found is None:
            self._steady = max(0, self._steady - 1) if self.square else 0
        elif self._steady and found.nearer(self._last, SPEED * self._passed_s).overlap(self._last) >= SAME:
            share = max(FOLLOW, 1 - self._seen.overlap(found))
            self._steady, self._seen = min(self._steady + 1, 2 * STEADY), self._seen.towards(found, share)
        else:
            self._steady, self._seen = 1, found
        self._last = found or self._last
        self.square = self._seen if self._steady >= STEADY else None
