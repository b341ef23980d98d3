"""Pictures and video frames, RGB, and the agent's senses made from them: the fovea's picture and the change in view."""

from __future__ import annotations

import io
import math
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from devmind import bounds
from devmind.bounds import damage, memory_bytes
from devmind.errors import SessionError
from devmind.moment import PERIPHERY_SIZE, SIGHT_SIZE, WIDE_SIZE

JPEG_QUALITY = 85
LARGEST_PIXELS = 64_000_000
_BYTES_PER_PIXEL = {"JPEG": 7, "MPO": 7, "HEIC of tiles": 9}
"""RAM for reading a picture, including the one before it; 14 for pictures with 16 bits or transparency."""
SMALLEST_SIDE = 8
_CUT_SHARE = 0.95
_STRIP_NUMBERS = 1_000_000
_LARGE_PIXELS = 9_000_000
"""More than a 4K frame."""
_BYTES_PER_FILM_PIXEL = 25
"""RAM for decoding a film: the frames from which others are predicted, one for each thread, two as RGB."""
_THREADS = 2
_UNTURNED = (1 << 16, 0, 0, 0, 1 << 16, 0, 0, 0, 1 << 30)
"""A display matrix of FFmpeg."""
FILM_FORMATS = (
    "3dostr,aac,ac3,aiff,amr,amrnb,amrwb,ape,apng,asf,au,av1,avi,caf,cavsvideo,dirac,dsf,dts,dtshd,dv,eac3,flac,flic,flv,"
    "gif,h261,h263,h264,hevc,iff,ivf,jpegxl_anim,jpegxl_pipe,latm,live_flv,loas,m4v,mjpeg,mlp,mov,mp3,matroska,mpc,mpc8,"
    "mpeg,mpegts,mpegvideo,mxf,nsv,nut,obu,ogg,oma,psd_pipe,qcp,qoi_pipe,r3d,rm,roq,shn,smk,sox,tak,truehd,tta,vc1,voc,"
    "vvc,w64,wav,webp,webp_pipe,wtv,wv,xwma,yuv4mpegpipe"
)
"""Demuxers of FFmpeg for a stranger's file. The rest are playlists and scripts, which open the files and addresses that
they name, drawings of text, and formats of games."""

_HEIF_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"mif1", b"mif2", b"miaf")
_HEAD_BYTES = 256
_ORIENTATION = 0x112

Picture = Callable[[], np.ndarray]
Frame = tuple[float, Picture]
"""Seconds since the first frame, and a function that decodes it to RGB uint8 [H, W, 3]."""


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
    """A picture file as RGB uint8 [H, W, 3]: grey repeated, 16 bits scaled to 8, transparent parts laid on white,
    turned and mirrored as its header says.

    Raises:
        SessionError: as `decode_picture`.
    """
    return decode_picture(bounds.read_file(path, SessionError, PICTURE_BYTES), str(path))


def decode_picture(data: bytes, name: str) -> np.ndarray:
    """The same for a picture file's bytes; `name` is for the error.

    Raises:
        SessionError: it cannot be read, for example because it is cut; its header promises more than 64 megapixels,
            more than memory may be taken for a file of its size (`devmind.bounds`), or a side of less than 8 pixels; it
            is a HEIC, and PyAV is not installed.
    """
    import cv2

    if _is_heif(data):
        return _decode_heif(data, name)
    orientation = _check_size(data, name)
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
    return _rgb8(np.ascontiguousarray(_ORIENTED[orientation](picture)))


_ORIENTED: dict[int, Callable[[np.ndarray], np.ndarray]] = {
    1: lambda picture: picture,
    2: lambda picture: picture[:, ::-1],
    3: lambda picture: picture[::-1, ::-1],
    4: lambda picture: picture[::-1],
    5: lambda picture: picture.swapaxes(0, 1),
    6: lambda picture: picture[::-1].swapaxes(0, 1),
    7: lambda picture: picture[::-1, ::-1].swapaxes(0, 1),
    8: lambda picture: picture[:, ::-1].swapaxes(0, 1),
}
"""By EXIF's numbers of the camera's orientation."""


def _is_jpeg(data: bytes) -> bool:
    return data.startswith(b"\xff\xd8")


def _check_size(data: bytes, name: str) -> int:
    """Refuse a picture by its header, before it is decoded: a small file may unfold to gigabytes.

    Returns the orientation (EXIF) that OpenCV leaves to be applied: that of an AVIF, else 1.
    """
    from PIL import Image, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # the limit here is lower
            with Image.open(io.BytesIO(data)) as picture:
                (width, height), kind = picture.size, picture.format or ""
                orientation = picture.getexif().get(_ORIENTATION, 1) if kind == "AVIF" else 1
    except Image.DecompressionBombError:
        width, height, kind, orientation = LARGEST_PIXELS, LARGEST_PIXELS, "", 1
    except UnidentifiedImageError:
        raise SessionError(
            f"The picture '{name}' is damaged, cut, or of a kind that does not say how large it is; convert it to PNG."
        ) from None
    except Exception as error:  # the exception depends on the place of the damage in the header
        raise SessionError(f"The picture '{name}' is damaged or cut ({type(error).__name__}); replace it.") from error
    _check_sides(width, height, _BYTES_PER_PIXEL.get(kind, 14), len(data), name)
    return orientation if orientation in _ORIENTED else 1


def _check_sides(width: int, height: int, bytes_per_pixel: int, size: int, name: str) -> None:
    """Refuse a picture of `size` bytes by what it declares."""
    costs = width * height * bytes_per_pixel
    if width * height <= LARGEST_PIXELS and costs > memory_bytes(size):
        raise SessionError(
            f"The picture '{name}' says that its {size:,} bytes are {width}x{height} pixels; that would take more "
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
    """True when the file starts as a picture that OpenCV reads, or as a HEIC; GIFs count as videos, since they may be
    animated.
    """
    import cv2

    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    if head.startswith(b"GIF8"):
        return False
    if _is_heif(head):
        return True
    with _quiet():
        return bool(cv2.haveImageReader(str(path)))


def _is_heif(data: bytes) -> bool:
    """Whether it is a still picture as phones store it (ISO/IEC 23008-12); an AVIF is one for OpenCV."""
    brands = data[8 : min(_number(data, 0, 4), _HEAD_BYTES)]
    return data[4:8] == b"ftyp" and brands[:4] in _HEIF_BRANDS and b"avif" not in brands


def _number(data: bytes, at: int, size: int) -> int:
    return int.from_bytes(data[at : at + size], "big")


def _boxes(data: bytes, at: int, end: int) -> Iterator[tuple[bytes, int, int]]:
    """(kind, first byte of the content, its end) of each box of ISO's file format."""
    while at + 8 <= end:
        size, head = _number(data, at, 4), 8
        if size == 1:
            size, head = _number(data, at + 8, 8), 16
        size = size or end - at
        if size < head or at + size > end:
            raise ValueError("a box is longer than the file")
        yield data[at + 4 : at + 8], at + head, at + size
        at += size


class _Heif:
    """The primary picture of a HEIF: one coded item, or a grid of tiles, each of which is one.

    Attributes:
        tiles: ids of its coded items, row by row.
        columns: of the grid.
        size: (height, width) before `turned`.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        top = {kind: (at, end) for kind, at, end in _boxes(data, 0, len(data))}
        at, end = top[b"meta"]
        self._meta = {kind: (at, end) for kind, at, end in _boxes(data, at + 4, end)}
        at = self._meta[b"pitm"][0]
        self._primary = _number(data, at + 4, 4 if data[at] else 2)
        self._properties = list(self._properties_of_primary())
        sides = [
            _number(data, at + 4, 4) << 32 | _number(data, at + 8, 4)
            for kind, at in self._properties
            if kind == b"ispe"
        ]
        self.size = (sides[0] & 0xFFFFFFFF, sides[0] >> 32)
        kind = self._kind()
        self.tiles, self.columns = [self._primary], 1
        if kind == b"grid":
            self._read_grid()
        elif kind in (b"iovl", b"iden", b"tmap", b"tili"):
            raise ValueError(f"it is made of other pictures in the way '{kind.decode()}'")

    def _kind(self) -> bytes:
        start, end = self._meta[b"iinf"]
        for _, at, _ in _boxes(self._data, start + (8 if self._data[start] else 6), end):
            wide = 4 if self._data[at] > 2 else 2
            if _number(self._data, at + 4, wide) == self._primary:
                return self._data[at + 6 + wide : at + 10 + wide]
        raise ValueError("its primary picture is missing")

    def _properties_of_primary(self) -> Iterator[tuple[bytes, int]]:
        """(kind, first byte) in the order in which they apply."""
        data = self._data
        parts = {kind: (at, end) for kind, at, end in _boxes(data, *self._meta[b"iprp"])}
        every = [(kind, at) for kind, at, _ in _boxes(data, *parts[b"ipco"])]
        at = parts[b"ipma"][0]
        wide_id, wide = (4 if data[at] else 2), (2 if data[at + 3] & 1 else 1)
        entries, at = _number(data, at + 4, 4), at + 8
        for _ in range(min(entries, len(data))):
            item, count = _number(data, at, wide_id), _number(data, at + wide_id, 1)
            at += wide_id + 1
            if item == self._primary:
                for place in range(at, at + wide * count, wide):
                    number = _number(data, place, wide) & (0x7FFF if wide == 2 else 0x7F)
                    if number:
                        yield every[number - 1]
            at += wide * count

    def _read_grid(self) -> None:
        data, at = self._data, self._place_of_primary()
        wide = 4 if data[at + 1] & 1 else 2
        rows, self.columns = data[at + 2] + 1, data[at + 3] + 1
        self.size = (_number(data, at + 4 + wide, wide), _number(data, at + 4, wide))
        start, end = self._meta[b"iref"]
        wide = 4 if data[start] else 2
        for kind, at, _ in _boxes(data, start + 4, end):
            if kind == b"dimg" and _number(data, at, wide) == self._primary:
                count, first = _number(data, at + wide, 2), at + wide + 2
                self.tiles = [_number(data, first + wide * k, wide) for k in range(count)]
        if len(self.tiles) != rows * self.columns:
            raise ValueError(f"it has {len(self.tiles)} of its {rows * self.columns} tiles")

    def _place_of_primary(self) -> int:
        """The first byte of the primary item's data."""
        data, (at, _) = self._data, self._meta[b"iloc"]
        version, sizes = data[at], _number(data, at + 4, 2)
        offset, length, base, index = sizes >> 12, sizes >> 8 & 15, sizes >> 4 & 15, sizes & 15 if version else 0
        wide = 4 if version > 1 else 2
        count, at = _number(data, at + 6, wide), at + 6 + wide
        for _ in range(min(count, len(data))):
            item, at = _number(data, at, wide), at + wide
            inside, at = (data[at + 1] & 15, at + 2) if version else (0, at)
            start, extents, at = _number(data, at + 2, base), _number(data, at + 2 + base, 2), at + 4 + base
            if item == self._primary:
                start += _number(data, at + index, offset)
                return start + (self._meta[b"idat"][0] if inside == 1 else 0)
            at += extents * (index + offset + length)
        raise ValueError("its primary picture has no place")

    def turned(self, picture: np.ndarray) -> np.ndarray:
        """The decoded picture, cut, turned and mirrored by its properties, in their order."""
        for kind, at in self._properties:
            if kind == b"irot":
                picture = np.rot90(picture, self._data[at] & 3)
            elif kind == b"imir":
                picture = picture[:, ::-1] if self._data[at] & 1 else picture[::-1]
            elif kind == b"clap":
                n = np.frombuffer(self._data[at : at + 32], ">i4").reshape(4, 2)
                width, height, right, below = (int(over) / max(1, int(under)) for over, under in n)
                left = max(0, round((picture.shape[1] - width) / 2 + right))
                top = max(0, round((picture.shape[0] - height) / 2 + below))
                picture = picture[top : top + round(height), left : left + round(width)]
        return np.ascontiguousarray(picture)


def _decode_heif(data: bytes, name: str) -> np.ndarray:
    try:
        import av
    except ImportError:
        raise SessionError(
            f"The picture '{name}' is a HEIC, which is read by PyAV (pip install 'devmind[video]'); or save it as JPEG."
        ) from None
    with damage(
        SessionError, f"The picture '{name}' is damaged, or a HEIC that cannot be read ({{}}); save it as JPEG."
    ):
        heif = _Heif(data)
        height, width = heif.size
        _check_sides(width, height, _BYTES_PER_PIXEL["HEIC of tiles"] if len(heif.tiles) > 1 else 14, len(data), name)
        whole = np.zeros((height, width, 3), np.uint8)
        most = min(LARGEST_PIXELS, memory_bytes(len(data)) // 14)  # of a tile, whatever the file says of it
        limit = {"max_pixels": str(most), "format_whitelist": "mov"}
        with av.open(io.BytesIO(data), mode="r", options=limit) as film:
            tiles = [stream for stream in film.streams.video if stream.id in heif.tiles]
            missing = set(heif.tiles)
            for stream in tiles:
                stream.codec_context.options = {"max_pixels": limit["max_pixels"]}
            for packet in film.demux(*tiles) if tiles else ():
                for frame in packet.decode():
                    tile = _pixels(frame)
                    missing -= {packet.stream.id}
                    for k in (k for k, one in enumerate(heif.tiles) if one == packet.stream.id):
                        top, left = tile.shape[0] * (k // heif.columns), tile.shape[1] * (k % heif.columns)
                        room = whole[top : top + tile.shape[0], left : left + tile.shape[1]]
                        room[:] = tile[: room.shape[0], : room.shape[1]]
        if missing:
            raise ValueError(f"{len(missing)} of {len(heif.tiles)} tiles are missing")
    return heif.turned(whole)


def video_ticks(path: Path, tick_hz: int, warn: Callable[[str], None]) -> Iterator[tuple[int, np.ndarray]]:
    """(tick, the last frame in it, RGB uint8 [H, W, 3]) by the frames' own time stamps, from `film_start_s` on.

    PyAV reads them where it is installed, else OpenCV, which knows fewer codecs. What is damaged or missing is reported
    to `warn`; a file without a readable frame gives nothing.
    """
    try:
        import av  # noqa: F401
    except ImportError:
        frames = _opencv_frames(path, warn)
    else:
        frames = _film_frames(path, warn)
    held: tuple[int, Picture] | None = None
    for time_s, frame in frames:
        tick = max(0, int(time_s * tick_hz + 1e-3))  # 0.1999999 s belongs to the tick that begins at 0.2 s
        if held is not None and tick > held[0]:
            yield held[0], held[1]()
        held = (tick if held is None else max(tick, held[0]), frame)
    if held is not None:
        yield held[0], held[1]()


def open_film(path: Path) -> Any:
    """A container of pictures or sound, opened by PyAV; close it, or use it in a `with` statement.

    Raises:
        av.error.FFmpegError: it is none of FILM_FORMATS, or is damaged.
    """
    import av

    limits = {"format_whitelist": FILM_FORMATS, "protocol_whitelist": "file", "max_pixels": str(_most_pixels(path))}
    film = av.open(str(path), metadata_errors="replace", options=limits)
    for stream in film.streams.video:
        if stream.codec_context is not None:
            stream.codec_context.options = {"max_pixels": limits["max_pixels"]}
    return film


def film_pictures(film: Any) -> Any:
    """The stream of a film's pictures, rather than of its thumbnail; None without one."""
    return film.streams.best("video")


def film_start_s(film: Any) -> float:
    """Zero of a film's clock: where its pictures begin, and without pictures where its sound does."""
    stream = film_pictures(film) or film.streams.audio[0]
    return float((stream.start_time or 0) * stream.time_base)


def _most_pixels(path: Path) -> int:
    """Of a frame: FFmpeg refuses more by what the frame declares, before it is decoded."""
    return min(LARGEST_PIXELS, memory_bytes(path.stat().st_size) // _BYTES_PER_FILM_PIXEL)


def _film_frames(path: Path, warn: Callable[[str], None]) -> Iterator[Frame]:
    import av

    shown, damaged, matrix = 0, 0, None
    try:
        with open_film(path) as film:
            stream = film_pictures(film)
            if stream is None:
                return
            if stream.codec_context is not None:
                stream.codec_context.thread_type, stream.codec_context.thread_count = "AUTO", _THREADS
            zero_s, rate_hz = film_start_s(film), float(stream.average_rate or 1)
            begins_s, ends_s = (film.start_time or 0) / av.time_base, 0.0
            for packet in film.demux():  # of all streams, since sound may go on after the last picture
                if packet.size and packet.pts is not None:
                    ends_s = max(ends_s, float((packet.pts + (packet.duration or 0)) * packet.time_base) - begins_s)
                if packet.stream is not stream or stream.codec_context is None:
                    continue
                try:
                    frames = packet.decode()
                except av.error.FFmpegError:
                    damaged += 1
                    continue
                for frame in frames:
                    matrix = matrix or _display_matrix(frame)
                    time_s = shown / rate_hz if frame.time is None else frame.time - zero_s
                    yield time_s, partial(_film_picture, frame, matrix)
                    shown += 1
            if not shown:
                warn(f"No picture could be read from '{path}': {_why_not_shown(path, stream.codec_context)}.")
            elif damaged:
                warn(f"{damaged} pictures of '{path}' are damaged and left out.")
            promised_s = (film.duration or 0) / av.time_base
            if shown and ends_s < _CUT_SHARE * promised_s:
                warn(_ends_early(path, f"{ends_s:.1f} of {promised_s:.1f} s", shown, stream.frames))
    except (av.error.FFmpegError, ValueError) as error:
        if shown:
            warn(f"The pictures of '{path}' were read only in part ({getattr(error, 'strerror', None) or error}).")


def _why_not_shown(path: Path, codec: Any) -> str:
    if codec is not None and codec.width * codec.height > _most_pixels(path):
        return f"a file of its size may not have {codec.width}x{codec.height} pixels"
    return "it is damaged, or its codec is unknown here"


def _ends_early(path: Path, seconds: str, shown: int, promised: int) -> str:
    read = f"{shown} of {promised} pictures" if shown < promised else seconds
    return f"'{path}' ends early: {read} could be read."


def _pixels(frame: Any) -> np.ndarray:
    """A frame of PyAV as RGB; its own `to_ndarray` takes twice the memory (292 instead of 141 MB for a film in 4K)."""
    made = frame.reformat(format="rgb24")
    plane, width = made.planes[0], 3 * made.width
    rows = np.frombuffer(plane, np.uint8).reshape(made.height, plane.line_size)
    return np.ascontiguousarray(rows[:, :width]).reshape(made.height, made.width, 3)


def _film_picture(frame: Any, matrix: Sequence[int]) -> np.ndarray:
    return _upright(_pixels(frame), matrix)


def _upright(picture: np.ndarray, matrix: Sequence[int]) -> np.ndarray:
    """A picture turned and mirrored as the first two rows of a display matrix say, in multiples of 90 degrees."""
    across, down_of_x, _, across_of_y, down = matrix[:5]
    if abs(down_of_x) > abs(across):
        picture, across, down = picture.swapaxes(0, 1), across_of_y, down_of_x
    return np.ascontiguousarray(picture[:: 1 if down >= 0 else -1, :: 1 if across >= 0 else -1])


def _display_matrix(frame: Any) -> Sequence[int]:
    """Of a film's first frame. Asking a frame for it keeps the frame in memory until the garbage collector runs."""
    try:
        found = frame.side_data.get("DISPLAYMATRIX")
    except ValueError:  # PyAV knows one of the side data by no name, such as EXIF's
        found = None
    return _UNTURNED if found is None else [int(number) for number in np.frombuffer(bytes(found), np.int32)]


def _opencv_frames(path: Path, warn: Callable[[str], None]) -> Iterator[Frame]:
    import cv2

    with _quiet():
        video = cv2.VideoCapture(str(path))
    shown, time_s = 0, 0.0
    fps = max(1.0, video.get(cv2.CAP_PROP_FPS))
    try:
        while True:
            with _quiet():
                there, frame = video.read()
            if not there:
                break
            stamp_s = video.get(cv2.CAP_PROP_POS_MSEC) / 1000
            time_s = stamp_s if stamp_s > 0 else shown / fps  # bare streams have no stamps
            yield time_s, partial(_rgb8, frame)
            shown += 1
        promised = video.get(cv2.CAP_PROP_FRAME_COUNT)
    finally:
        video.release()
    if not shown:
        warn(
            f"No picture could be read from '{path}': it has none, is damaged, or its codec is unknown here; more are "
            "known with PyAV (pip install 'devmind[video]')."
        )
    elif 1 < shown < _CUT_SHARE * promised and time_s + 1 / fps < _CUT_SHARE * promised / fps:
        warn(_ends_early(path, "", shown, round(promised)))  # of a variable rate, the number alone is a guess


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
