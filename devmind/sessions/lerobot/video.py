"""The mp4 files of a LeRobotDataset: many episodes in one file, found by their times in seconds."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from devmind.errors import SessionError
from devmind.sessions.importing import Picture, robots_extra
from devmind.sessions.lerobot.layout import VIDEO_PATH, feature, place
from devmind.sessions.lerobot.stats import PICTURES_SAMPLED, Stats, picture_stats
from devmind.sessions.reader import Session

CODEC, PIXELS = "libx264", "yuv420p"
OPTIONS = {"crf": "18", "preset": "veryfast", "g": "2", "bf": "0"}
"""A key frame every second picture, because training reads at random; no bidirectional frames: time starts at 0."""


class VideoFiles:
    """Writes the pictures of one feature, uint8 [height, width, 3] with even sides, `fps` a second.

    Raises:
        SessionError: PyAV or its H.264 encoder is missing.
    """

    def __init__(self, folder: Path, key: str, size: tuple[int, int], fps: int, file_mb: float) -> None:
        self._folder, self._key, self._size, self._fps = folder, key, size, fps
        self._file_bytes = file_mb * 2**20
        self._number = -1
        self._container: Any = None
        self._stream: Any = None
        self._bytes = self._pictures = 0
        self.begin_episode(1)

    def begin_episode(self, length: int) -> None:
        """Begin an episode of `length` pictures; it is dark before its first picture."""
        self._length = length
        self._shown = np.zeros((*self._size, 3), np.uint8)
        self._sampled: list[np.ndarray] = []
        self._start = self._pictures if self._container is not None else 0

    def write(self, picture: np.ndarray | None) -> None:
        """Append a picture to the current file, or repeat the last one; the first one opens the file."""
        with robots_extra("A LeRobotDataset with pictures"):
            import av
        if self._container is None:
            self._open()
        self._shown = self._shown if picture is None else picture
        at = self._pictures - self._start
        if at % (1 + self._length // PICTURES_SAMPLED) == 0:
            self._sampled.append(self._shown)
        frame = av.VideoFrame.from_ndarray(self._shown, "rgb24")
        frame.pts = self._pictures
        self._pictures += 1
        self._mux(self._stream.encode(frame))

    def end_episode(self) -> tuple[dict[str, Any], Stats]:
        """The place of its pictures, as columns of the episodes' table, and their statistics; a full file is closed."""
        at = f"videos/{self._key}/"
        found: dict[str, Any] = {at + name: value for name, value in place(self._number).items()}
        seconds = (self._start / self._fps, self._pictures / self._fps)
        found |= {f"{at}from_timestamp": seconds[0], f"{at}to_timestamp": seconds[1]}
        if self._bytes >= self._file_bytes:
            self.close()
        return found, picture_stats(self._sampled)

    def feature(self) -> dict[str, Any]:
        """Its entry in info.json."""
        height, width = self._size
        about = {"video.height": height, "video.width": width, "video.codec": "h264", "video.pix_fmt": PIXELS}
        about |= {"video.fps": self._fps, "video.channels": 3, "has_audio": False, "is_depth_map": False}
        return feature("video", (height, width, 3), ["height", "width", "channels"], info=about)

    def close(self) -> None:
        """Finish the current file."""
        if self._container is not None:
            self._mux(self._stream.encode())
            self._container.close()
            self._container = None

    def _open(self) -> None:
        import av

        self._number += 1
        self._bytes = self._pictures = 0
        path = self._folder / VIDEO_PATH.format(video_key=self._key, **place(self._number))
        path.parent.mkdir(parents=True, exist_ok=True)
        self._container = av.open(str(path), "w")
        try:
            self._stream = self._container.add_stream(CODEC, rate=self._fps, options=OPTIONS)
        except ValueError as error:  # av.codec.codec.UnknownCodecError
            raise SessionError("This build of PyAV cannot write H.264; install its wheel: pip install av.") from error
        self._stream.height, self._stream.width = self._size
        self._stream.pix_fmt = PIXELS

    def _mux(self, packets: list[Any]) -> None:
        for packet in packets:
            self._bytes += packet.size
            self._container.mux(packet)


class Camera:
    """The whole frames of a session's camera, requested in order of time."""

    def __init__(self, session: Session, size: tuple[int, int] | None) -> None:
        self._frames = iter(session.frames() if size else ())
        self._next, self._size = next(self._frames, None), size

    def at(self, time_s: float) -> np.ndarray | None:
        """The newest frame up to `time_s`, seconds after the session's first tick; None: no new one."""
        newest = None
        while self._next is not None and self._next.time_s <= time_s + 1e-6:
            newest, self._next = self._next, next(self._frames, None)
        return None if newest is None or self._size is None else _of_size(newest.picture(), *self._size)


def _of_size(picture: np.ndarray, height: int, width: int) -> np.ndarray:
    """Cut by at most one odd line; a frame of another size is scaled."""
    if picture.shape[0] // 2 * 2 == height and picture.shape[1] // 2 * 2 == width:
        return np.ascontiguousarray(picture[:height, :width])
    import cv2

    return cv2.resize(picture, (width, height), interpolation=cv2.INTER_AREA)


def read_video(path: Path, start_s: float, fps: float, rows: int) -> Iterator[tuple[int, Picture]]:
    """(row, function that decodes its picture) for the frames nearest to `rows` rows from `start_s` on.

    Raises:
        SessionError: the file is missing or damaged, or PyAV is not installed.
    """
    with robots_extra("A LeRobotDataset with videos"):
        import av
    try:
        with av.open(str(path)) as container:
            stream: Any = container.streams.video[0]
            container.seek(max(0, round(start_s / stream.time_base) - 1), stream=stream)
            for frame in container.decode(stream):
                row = -1 if frame.time is None else round((frame.time - start_s) * fps)
                if row >= rows:
                    return
                if row >= 0:
                    yield row, partial(frame.to_ndarray, format="rgb24")
    except FileNotFoundError as error:
        raise SessionError(f"The dataset's video '{path}' is missing; download it again.") from error
    except (av.error.FFmpegError, IndexError) as error:
        raise SessionError(f"The dataset's video '{path}' cannot be read ({error}); download it again.") from error
