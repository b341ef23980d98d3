"""Sessions as a LeRobotDataset v3.0, for training robot policies elsewhere; docs/robots.md lists what is lost.

Layout: huggingface/lerobot, docs/source/lerobot-dataset-v3.mdx.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from devmind.errors import SessionError
from devmind.moment import SIGHT_SIZE, SOUND_RATE_HZ
from devmind.sessions.importing import robots_extra
from devmind.sessions.lerobot import layout
from devmind.sessions.lerobot.layout import DATA_FILE_MB, VIDEO_FILE_MB, place
from devmind.sessions.lerobot.schema import Schema, schema_of
from devmind.sessions.lerobot.stats import Stats, all_stats, stats_of
from devmind.sessions.lerobot.video import Camera, VideoFiles
from devmind.sessions.mcap_file import why_not_written
from devmind.sessions.pictures import shrunk
from devmind.sessions.reader import Session


def export_lerobot(
    paths: Sequence[Path], out: Path, *, data_file_mb: float = DATA_FILE_MB, video_file_mb: float = VIDEO_FILE_MB
) -> list[str]:
    """Write the sessions at `paths` to the new folder `out`, one row for each tick, one episode for each of theirs.

    After a data or video file has exceeded its limit, the next episode begins another one.

    Returns:
        A sentence for everything that was left out.

    Raises:
        SessionError: a session cannot be read, `out` exists or cannot be written, or a library of the extra `robots` is
            missing; nothing is left behind.
    """
    with robots_extra("A LeRobotDataset"):
        import pyarrow.parquet  # noqa: F401
    sessions = [Session(path) for path in paths]
    warnings: list[str] = []
    schema = schema_of(sessions, warnings)
    try:
        out.mkdir(parents=True)
    except OSError as error:
        raise SessionError(why_not_written(out, error)) from error
    writer = _Writer(out, schema, data_file_mb, video_file_mb)
    try:
        for session in sessions:
            camera = Camera(session, schema.camera)  # one for all episodes: each frame is read once, and new once
            for ticks in session.episodes():
                writer.episode(session, ticks, camera)
        writer.close()
        writer.finish([session.path.name for session in sessions])
    except BaseException as error:
        with suppress(Exception):  # half-written files are removed, and closing them complains
            writer.close()
        shutil.rmtree(out, ignore_errors=True)
        if isinstance(error, OSError):
            raise SessionError(why_not_written(out, error)) from error
        raise
    if writer.skipped:
        warnings.append(f"{writer.skipped} ticks were skipped when recording; the dataset's clock closes the gaps.")
    return warnings


@dataclass
class _Writer:
    """The dataset while it is written."""

    folder: Path
    schema: Schema
    data_file_mb: float
    video_file_mb: float
    frames: int = 0
    skipped: int = 0
    episodes: list[dict[str, Any]] = field(default_factory=list)
    stats: list[dict[str, Stats]] = field(default_factory=list)
    tasks: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        schema = self.schema
        sizes = {layout.SIGHT: (SIGHT_SIZE, SIGHT_SIZE) if schema.sight else None, layout.CAMERA: schema.camera}
        self._videos = {
            key: VideoFiles(self.folder, key, size, schema.fps, self.video_file_mb)
            for key, size in sizes.items()
            if size
        }
        self._data: Any = None
        self._data_number = -1

    def episode(self, session: Session, ticks: range, camera: Camera) -> None:
        """Append the ticks of one episode; `camera` has given the frames of those before."""
        rows: list[dict[str, Any]] = []
        task, time_s = layout.NO_TASK, None
        for video in self._videos.values():
            video.begin_episode(len(ticks))
        with _Sound(self.folder, len(self.episodes), self.schema) as sound:
            for tick, step in zip(ticks, session.read(ticks.start, ticks.stop), strict=True):
                moment, _ = step
                frame = camera.at(session.elapsed_s(tick))
                task = str(moment.senses.get("words") or task)
                row: dict[str, Any] = {**self.schema.row(step, frame is not None, rows[-1] if rows else None)}
                row |= {layout.REWARD: 0.0, layout.DONE: False, layout.TERMINATED: False}
                row["task_index"] = self.tasks.setdefault(task, len(self.tasks))
                if rows:
                    rows[-1][layout.REWARD] = moment.reward
                rows.append(row)
                sight: Any = moment.senses.get("sight")
                shown = {layout.SIGHT: None if sight is None else shrunk(sight), layout.CAMERA: frame}
                for key, video in self._videos.items():
                    video.write(shown[key])
                sound.write(moment.senses.get("sound"))
                if time_s is not None:
                    self.skipped += max(0, round((moment.time_s - time_s) * self.schema.fps) - 1)
                time_s = moment.time_s
        rows[-1] |= {layout.DONE: True, layout.TERMINATED: moment.terminal}
        self._save(rows)

    def close(self) -> None:
        """Finish the files of rows and pictures."""
        if self._data is not None:
            self._data.close()
        for video in self._videos.values():
            video.close()

    def finish(self, session_names: list[str]) -> None:
        """Write the files of the whole dataset."""
        import pyarrow as pa
        from pyarrow import parquet

        table = self.folder / layout.EPISODES_PATH.format(**place(0))
        table.parent.mkdir(parents=True)
        parquet.write_table(pa.Table.from_pylist(self.episodes), table)
        parquet.write_table(layout.tasks_table(list(self.tasks)), self.folder / layout.TASKS)
        whole = {key: all_stats([stats[key] for stats in self.stats]) for key in self.stats[0]}
        stats = {key: {name: value.tolist() for name, value in of.items()} for key, of in whole.items()}
        _write_json(self.folder / layout.STATS, stats)
        info = layout.info_json(self._features(), self.schema.fps, len(self.episodes), self.frames, len(self.tasks))
        _write_json(self.folder / layout.INFO, info)
        _write_json(self.folder / layout.OWN, {"sessions": session_names, **self.schema.about()})

    def _features(self) -> dict[str, Any]:
        outcome = {key: layout.feature("bool", (1,)) for key in (layout.DONE, layout.TERMINATED)}
        outcome = {layout.REWARD: layout.feature("float32", (1,))} | outcome
        return {key: video.feature() for key, video in self._videos.items()} | self.schema.features() | outcome

    def _save(self, rows: list[dict[str, Any]]) -> None:
        number, count = len(self.episodes), len(rows)
        columns = {key: np.array([row[key] for row in rows]) for key in rows[0]}
        columns[layout.REWARD] = columns[layout.REWARD].astype(np.float32)
        columns |= {
            "timestamp": (np.arange(count) / self.schema.fps).astype(np.float32),
            "frame_index": np.arange(count),
            "episode_index": np.full(count, number),
            "index": np.arange(self.frames, self.frames + count),
        }
        at = self._write_rows(columns)
        stats = {key: stats_of(values.reshape(count, -1)) for key, values in columns.items()}
        for key, video in self._videos.items():
            where, stats[key] = video.end_episode()
            at |= where
        names = {index: task for task, index in self.tasks.items()}
        about: dict[str, Any] = {"episode_index": number, "length": count}
        about["tasks"] = [names[index] for index in dict.fromkeys(columns["task_index"].tolist())]
        about |= {"dataset_from_index": self.frames, "dataset_to_index": self.frames + count, **at}
        about |= {f"meta/episodes/{name}": value for name, value in place(0).items()}
        about |= {f"stats/{key}/{name}": value.tolist() for key, of in stats.items() for name, value in of.items()}
        self.episodes.append(about)
        self.stats.append(stats)
        self.frames += count

    def _write_rows(self, columns: dict[str, np.ndarray]) -> dict[str, Any]:
        """Append one row group; returns its place, as columns of the episodes' table."""
        import pyarrow as pa
        from pyarrow import parquet

        def arrow(values: np.ndarray) -> Any:
            if values.ndim == 1 or values.shape[1] == 1:
                return pa.array(values.ravel())
            return pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), values.shape[1])

        table = pa.table({key: arrow(values) for key, values in columns.items()})
        path = self.folder / layout.DATA_PATH.format(**place(max(self._data_number, 0)))
        if self._data is not None and path.stat().st_size >= self.data_file_mb * 2**20:
            self._data.close()
            self._data = None
        if self._data is None:
            self._data_number += 1
            path = self.folder / layout.DATA_PATH.format(**place(self._data_number))
            path.parent.mkdir(parents=True, exist_ok=True)
            self._data = parquet.ParquetWriter(path, table.schema)
        self._data.write_table(table)
        return {f"data/{name}": value for name, value in place(self._data_number).items()}


class _Sound:
    """One episode's sound as FLAC of 16 bits, with silence in gaps; no file without any sound."""

    def __init__(self, folder: Path, episode: int, schema: Schema) -> None:
        self._path = folder / layout.SOUND_PATH.format(episode_index=episode)
        self._channels, self._samples = schema.sound_channels, SOUND_RATE_HZ // schema.fps
        self._file: Any = None

    def write(self, sound: Any) -> None:
        """Append a tick's sound [C, S], or silence for None."""
        if not self._channels:
            return
        if self._file is None:
            import soundfile

            self._path.parent.mkdir(exist_ok=True)
            self._file = soundfile.SoundFile(self._path, "w", SOUND_RATE_HZ, self._channels, "PCM_16", format="FLAC")
        silence = np.zeros((self._channels, self._samples), np.float32)
        self._file.write((silence if sound is None else np.broadcast_to(sound, silence.shape)).T)

    def __enter__(self) -> _Sound:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()


def _write_json(path: Path, data: Any) -> None:
    path.write_text(json.dumps(data, indent=4), encoding="utf-8")
