"""Pictures and video frames, RGB, and the agent's senses made from them: the fovea's picture and the change in view."""

from __future__ import annotations

import io
import math
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from devmind import bounds
from devmind.bounds import memory_bytes
from devmind.errors import SessionError
from devmind.moment import PERIPHERY_SIZE, SIGHT_SIZE, WIDE_SIZE

JPEG_QUALITY = 85
LARGEST_PIXELS = 64_000_000
_BYTES_PER_PIXEL = {"JPEG": 7, "MPO": 7}
"""RAM for reading a picture, including the one before it; 14 for pictures with 16 bits or transparency."""
SMALLEST_SIDE = 8
_CUT_SHARE = 0.95
_STRIP_NUMBERS = 1_000_000
_LARGE_PIXELS = 9_000_000
"""More than a 4K frame."""


WIDE_HALF_DEG, SIGHT_HALF_DEG = 60.0, 30.0
"""Half the angles of a frame's width and of `sight`: those of the nursery's wide view and sight, from which the
encoders and the looking arc learned."""
WIDE_HALF, SIGHT_HALF = math.tan(math.radians(WIDE_HALF_DEG)), math.tan(math.radians(SIGHT_HALF_DEG))

PICTURE_BYTES = 256 << 20
"""The largest picture file."""


def fovea_box(height: int, width: int, pan_deg: float = 0.0, tilt_deg: float = 0.0) -> tuple[int, int, int]:
    """(top, left, side) in pixels of the looked-at part of a frame, kept inside it: a third of its width.

    The frame's width stands for 120 degrees and the part for 60, whatever lens the camera has. Live rooms, imported
    videos and exams through life all use this.
    """
    side = max(1, min(height, round(width * SIGHT_HALF / WIDE_HALF)))
    per_slope = width / 2 / WIDE_HALF
    middle_x = width / 2 - per_slope * math.tan(math.radians(pan_deg))
    middle_y = height / 2 - per_slope * math.tan(math.radians(tilt_deg))
    left = min(max(round(middle_x - side / 2), 0), width - side)
    top = min(max(round(middle_y - side / 2), 0), height - side)
    return top, left, side


def direction_at(x: float, y: float, height: int, width: int) -> tuple[float, float]:
    """(pan, tilt) in degrees of a gaze at a point of a frame, in fractions of its width and height."""
    side, up = (0.5 - x) * 2 * WIDE_HALF, (0.5 - y) * height / width * 2 * WIDE_HALF
    return math.degrees(math.atan(side)), math.degrees(math.atan(up))


def fovea(frame: np.ndarray, pan_deg: float = 0.0, tilt_deg: float = 0.0) -> np.ndarray:
    """`sight` uint8 [64, 64, 3] of a camera's frame uint8 [H, W, 3] for a gaze in it, by default straight ahead."""
    height, width = frame.shape[:2]
    top, left, side = fovea_box(height, width, pan_deg, tilt_deg)
    return shrunk(frame[top : top + side, left : left + side])


def sight_of(picture: np.ndarray) -> np.ndarray:
    """`sight` of a recorded picture: for a camera's frame, the view of a gaze straight ahead.

    A square picture is no camera's frame and is taken whole: an exported sight, a drawing, the view of a robot policy.
    """
    return shrunk(picture) if picture.shape[0] == picture.shape[1] else fovea(picture)


def central_square(picture: np.ndarray) -> np.ndarray:
    """The largest square [S, S, 3] in the middle of a picture uint8 [H, W, 3]: the subject of a photograph."""
    height, width = picture.shape[:2]
    side = min(height, width)
    top, left = (height - side) // 2, (width - side) // 2
    return picture[top : top + side, left : left + side]


def shrunk(square: np.ndarray) -> np.ndarray:
    """A square picture as uint8 [64, 64, 3]: averaged where it is larger, interpolated where it is smaller."""
    import cv2

    kind = cv2.INTER_AREA if square.shape[0] >= SIGHT_SIZE else cv2.INTER_LINEAR
    return cv2.resize(square, (SIGHT_SIZE, SIGHT_SIZE), interpolation=kind)


def change_in_view(frame: np.ndarray, previous: np.ndarray) -> np.ndarray:
    """The sense `periphery`: float32 [1, 16, 16] in 0..1, the change of brightness of each part of the view.

    Frames are uint8 [H, W, 3] RGB of any size, also of two sizes. As in the nursery, the change is taken in each of the
    wide view's 48 x 48 cells and averaged over a part's nine. If brightness were averaged first, something smaller than
    a part, or moving within one, would be two to five times fainter than in the lessons of the looking arc.
    """
    return change(brightness(frame), brightness(previous))


def change(now: np.ndarray, before: np.ndarray) -> np.ndarray:
    """`change_in_view` of two frames whose `brightness` is known."""
    cells = np.minimum(np.abs(now - before), 1)
    per_part = WIDE_SIZE // PERIPHERY_SIZE
    return cells.reshape(1, PERIPHERY_SIZE, per_part, PERIPHERY_SIZE, per_part).mean((2, 4))


def read_picture(path: Path) -> np.ndarray:
    """A picture file as RGB uint8 [H, W, 3]: grey repeated, 16 bits scaled to 8, transparent parts laid on white.

    Raises:
        SessionError: as `decode_picture`.
    """
    return decode_picture(bounds.read_file(path, SessionError, PICTURE_BYTES), str(path))


def decode_picture(data: bytes, name: str) -> np.ndarray:
    """The same for a picture file's bytes; `name` is for the error.

    Raises:
        SessionError: it cannot be read, for example because it is cut; its header promises more than 64 megapixels,
            more than memory may be taken for a file of its size (`devmind.bounds`), or a side of less than 8 pixels.
    """
    import cv2

    _check_size(data, name)
    with _quiet():
        try:
            coded = np.frombuffer(data, np.uint8)
            picture = None if _is_jpeg(data) else cv2.imdecode(coded, cv2.IMREAD_UNCHANGED)
            if picture is None or (picture.ndim == 2 or picture.shape[2] != 4):
                # Decoded again, because only this way applies the camera's orientation (EXIF).
                picture = None
                picture = cv2.imdecode(coded, cv2.IMREAD_COLOR | cv2.IMREAD_ANYDEPTH)
        except cv2.error as error:
            raise SessionError(f"The picture '{name}' cannot be read ({type(error).__name__}); replace it.") from error
    if picture is None:
        raise SessionError(f"The picture '{name}' is damaged or cut; replace or remove it.")
    return _rgb8(picture)


def _is_jpeg(data: bytes) -> bool:
    return data.startswith(b"\xff\xd8")


def _check_size(data: bytes, name: str) -> None:
    """Refuse a picture by its header, before it is decoded: a small file may unfold to gigabytes."""
    from PIL import Image, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # the limit here is lower
            with Image.open(io.BytesIO(data)) as picture:
                (width, height), kind = picture.size, picture.format or ""
    except Image.DecompressionBombError:
        width, height, kind = LARGEST_PIXELS, LARGEST_PIXELS, ""
    except UnidentifiedImageError:
        raise SessionError(
            f"The picture '{name}' is damaged, cut, or of a kind that does not say how large it is; convert it to PNG."
        ) from None
    except Exception as error:  # the exception depends on the place of the damage in the header
        raise SessionError(f"The picture '{name}' is damaged or cut ({type(error).__name__}); replace it.") from error
    costs = width * height * _BYTES_PER_PIXEL.get(kind, 14)
    if width * height <= LARGEST_PIXELS and costs > memory_bytes(len(data)):
        raise SessionError(
            f"The picture '{name}' says that its {len(data):,} bytes are {width}x{height} pixels; that would take more "
            "memory than a file of this size may. Give a smaller one."
        )
    if width * height > LARGEST_PIXELS:
        raise SessionError(
            f"The picture '{name}' has more than {LARGEST_PIXELS // 10**6} megapixels; give a smaller one."
        )
    if min(width, height) < SMALLEST_SIDE:
        raise SessionError(
            f"The picture '{name}' has {width}x{height} pixels; at least {SMALLEST_SIDE}x{SMALLEST_SIDE} are needed to "
            "see anything."
        )


def as_jpeg(picture: np.ndarray, quality: int = JPEG_QUALITY) -> bytes:
    """RGB uint8 [H, W, 3] as a JPEG; quality in percent.

    Raises:
        SessionError: it is no such picture.
    """
    import cv2

    if picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[2] != 3 or not picture.size:
        raise SessionError(f"A frame must be uint8 [H, W, 3]; got {picture.dtype} {list(picture.shape)}.")
    bgr = cv2.cvtColor(picture, cv2.COLOR_RGB2BGR)
    return bytes(cv2.imencode(".jpg", bgr, [cv2.IMWRITE_JPEG_QUALITY, quality])[1])


def from_jpeg(jpeg: bytes) -> np.ndarray:
    """A JPEG as RGB uint8 [H, W, 3].

    Raises:
        SessionError: it is damaged.
    """
    import cv2

    _check_size(jpeg, "of the camera")
    with _quiet():
        picture = cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR)
    if picture is None:
        raise SessionError(f"A JPEG of {len(jpeg)} bytes is damaged and cannot be shown.")
    return _rgb8(picture)


def is_picture(path: Path) -> bool:
    """True when the file starts as a picture that OpenCV reads; GIFs count as videos, since they may be animated."""
    import cv2

    with path.open("rb") as file:
        if file.read(4) == b"GIF8":
            return False
    with _quiet():
        return bool(cv2.haveImageReader(str(path)))


def video_ticks(path: Path, tick_hz: int, warn: Callable[[str], None]) -> Iterator[tuple[int, np.ndarray]]:
    """(tick, the last frame in it, RGB uint8 [H, W, 3]) by the frames' own time stamps.

    Unreadable frames are reported to `warn`; a file without any readable one gives nothing.
    """
    import cv2

    with _quiet():
        video = cv2.VideoCapture(str(path))
    promised, frames, held = video.get(cv2.CAP_PROP_FRAME_COUNT), 0, None
    try:
        while True:
            with _quiet():
                there, frame = video.read()
            if not there:
                break
            tick = int(_stamp_s(video, frames) * tick_hz + 1e-3)  # 0.1999999 s belongs to the tick that begins at 0.2 s
            frames += 1
            if held is not None and tick > held[0]:
                yield held[0], _rgb8(held[1])
            held = (tick if held is None else max(tick, held[0]), frame)
    finally:
        video.release()
    if held is None:
        warn(f"No picture could be read from '{path}': it has none, is damaged, or its codec is unknown here.")
        return
    yield held[0], _rgb8(held[1])
    if frames < _CUT_SHARE * promised:
        warn(f"'{path}' ends early: {frames} of {promised:.0f} pictures could be read.")


def _stamp_s(video: Any, index: int) -> float:
    """Display time of the frame just read; for bare streams without stamps, by the frame rate."""
    import cv2

    stamp_s = video.get(cv2.CAP_PROP_POS_MSEC) / 1000
    return stamp_s if stamp_s > 0 else index / max(1.0, video.get(cv2.CAP_PROP_FPS))


def brightness(frame: np.ndarray) -> np.ndarray:
    """Brightness of each cell of the wide view, float32 [48, 48] in 0..1, of a frame uint8 [H, W, 3]. A 4K frame takes
    20 ms.

    The wide view is a square as wide as the frame: above and below a frame of 4:3 it is empty, 6 rows each, so that a
    row stands for the same direction as in the nursery. For a frame higher than wide, the middle counts.
    """
    import cv2

    size, (height, width) = WIDE_SIZE, frame.shape[:2]
    spare = max(0, height - width) // 2
    grey = cv2.cvtColor(frame[spare : height - spare], cv2.COLOR_RGB2GRAY)
    per_part = WIDE_SIZE // PERIPHERY_SIZE
    if grey.size > _LARGE_PIXELS:  # as float32 it would take more memory than the picture
        grey = cv2.resize(grey, (8 * size, 8 * size * grey.shape[0] // width or 1), interpolation=cv2.INTER_AREA)
    grey = grey.astype(np.float32) / 255
    rows = per_part * min(PERIPHERY_SIZE, max(1, round(PERIPHERY_SIZE * height / width)))
    view = np.zeros((size, size), np.float32)
    top = (size - rows) // 2
    view[top : top + rows] = cv2.resize(grey, (size, rows), interpolation=cv2.INTER_AREA)
    return view


def _rgb8(picture: np.ndarray) -> np.ndarray:
    """OpenCV's grey, BGR or BGRA of any depth as RGB uint8; a BGR picture of 8 bits becomes RGB in its place."""
    import cv2

    if picture.dtype == np.uint8 and picture.ndim == 3 and picture.shape[2] == 3:
        return cv2.cvtColor(picture, cv2.COLOR_BGR2RGB, dst=picture)
    if picture.size > _STRIP_NUMBERS:  # in strips, because intermediate numbers are four times as large
        rows = max(1, _STRIP_NUMBERS * len(picture) // picture.size)
        made = np.empty((*picture.shape[:2], 3), np.uint8)
        for start in range(0, len(picture), rows):
            made[start : start + rows] = _rgb8(picture[start : start + rows])
        return made
    if picture.dtype != np.uint8:
        top = np.iinfo(picture.dtype).max if picture.dtype.kind in "ui" else 1.0
        picture = np.rint(np.clip(picture.astype(np.float32) / top, 0, 1) * 255).astype(np.uint8)
    if picture.ndim == 2 or picture.shape[2] == 1:
        return cv2.cvtColor(picture, cv2.COLOR_GRAY2RGB)
    if picture.shape[2] == 4:
        opaque = picture[:, :, 3:].astype(np.float32) / 255
        picture = np.rint(picture[:, :, :3] * opaque + 255 * (1 - opaque)).astype(np.uint8)
    return cv2.cvtColor(picture, cv2.COLOR_BGR2RGB)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence OpenCV and its FFmpeg: the caller gets their messages as one sentence."""
    from cv2.utils import logging

    os.environ.setdefault("OPENCV_FFMPEG_LOGLEVEL", "-8")
    level = logging.getLogLevel()
    logging.setLogLevel(logging.LOG_LEVEL_SILENT)
    try:
        yield
    finally:
        logging.setLogLevel(level)
