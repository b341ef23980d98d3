"""The mp4 files of a LeRobotDataset: many episodes in one file, found again by their seconds."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from devmind.errors import SessionError
from devmind.sessions.importing import Picture, robots_extra
from devmind.sessions.lerobot_layout import VIDEO_PATH, place

CODEC, PIXELS = "libx264", "yuv420p"
OPTIONS = {"crf": "18", "preset": "veryfast", "g": "2", "bf": "0"}
"""A key frame every second picture, because training reads at random; no frames that look ahead: time starts at 0."""


class VideoFiles:
    """Writes the pictures of one feature, uint8 [H, W, 3] with even sides, `fps` a second.

    Raises:
        SessionError: PyAV or its H.264 encoder is missing.
    """

    def __init__(self, folder: Path, key: str, fps: int, file_mb: float) -> None:
        self._folder, self._key, self._fps = folder, key, fps
        self._file_bytes = file_mb * 2**20
        self._number = -1
        self._container: Any = None
        self._stream: Any = None
        self._bytes = self._pictures = 0

    def write(self, picture: np.ndarray) -> None:
        """Append a picture to the current file; the first one opens it."""
        with robots_extra("A LeRobotDataset with pictures"):
            import av
        if self._container is None:
            self._open(*picture.shape[:2])
        frame = av.VideoFrame.from_ndarray(picture, "rgb24")
        frame.pts = self._pictures
        self._pictures += 1
        self._mux(self._stream.encode(frame))

    def end_episode(self, length: int) -> dict[str, Any]:
        """Where the last `length` pictures lie, as columns of the episodes' table; a full file is closed."""
        at = f"videos/{self._key}/"
        seconds = ((self._pictures - length) / self._fps, self._pictures / self._fps)
        found: dict[str, Any] = {at + name: value for name, value in place(self._number).items()}
        found |= {f"{at}from_timestamp": seconds[0], f"{at}to_timestamp": seconds[1]}
        if self._bytes >= self._file_bytes:
            self.close()
        return found

    def close(self) -> None:
        """Finish the current file."""
        if self._container is not None:
            self._mux(self._stream.encode())
            self._container.close()
            self._container = None

    def _open(self, height: int, width: int) -> None:
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
        self._stream.width, self._stream.height, self._stream.pix_fmt = width, height, PIXELS

    def _mux(self, packets: list[Any]) -> None:
        for packet in packets:
            self._bytes += packet.size
            self._container.mux(packet)


def read_video(path: Path, start_s: float, fps: float, rows: int) -> Iterator[tuple[int, Picture]]:
    """(row, how to decode its picture) for the frames nearest to `rows` rows from `start_s` on.

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
