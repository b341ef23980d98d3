"""Any LeRobotDataset v3 as a session: pictures, states and actions at the agent's tick, tasks as words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from heapq import merge
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np

from devmind import bounds
from devmind.bounds import damage, memory_bytes
from devmind.errors import SessionError
from devmind.moment import SOUND_RATE_HZ, TICK_HZ
from devmind.sessions import sounds
from devmind.sessions.importing import (
    ROUNDED,
    Event,
    Imported,
    episode_steps,
    robots_extra,
    samples_in_tick,
    tick_of,
    write_session,
)
from devmind.sessions.lerobot import layout
from devmind.sessions.lerobot.columns import Columns, columns_of
from devmind.sessions.lerobot.video import read_video
from devmind.sessions.pictures import decode_picture, read_picture
from devmind.sessions.steps import Step

LAST_REWARD = "The reward in an episode's last row (next.reward) is left out, as it comes after the last Moment."
CONVERTER = "python -m lerobot.scripts.convert_dataset_v21_to_v30 --repo-id NAME --root FOLDER"
STAMP_TOLERANCE_S = 1e-3


def import_lerobot(
    folder: str | Path, out: str | Path, tick_hz: int = TICK_HZ, *, topic: str | None = None, overwrite: bool = False
) -> Imported:
    """Write the dataset in `folder` to the new session `out`, one episode each.

    `topic` names the feature whose pictures become sight, else it is `observation.images.sight` or the first one.

    Raises:
        SessionError: it is no dataset of version 3, a file of it is missing or damaged, a library of the extra
            `robots` is missing, or `out` cannot be written; nothing is left behind.
    """
    with robots_extra("A LeRobotDataset"):
        import pyarrow.parquet  # noqa: F401
    # Missing contents of its tables and texts show only in use, at any place.
    with damage(SessionError, f"The dataset '{folder}' is damaged or not a dataset ({{}}); download it again."):
        return _import(Path(folder), Path(out), tick_hz, topic, overwrite)


def _import(folder: Path, out: Path, tick_hz: int, topic: str | None, overwrite: bool) -> Imported:
    warnings = list[str]()
    info = read_info(folder)
    columns = columns_of(info, _json(folder / layout.OWN) if (folder / layout.OWN).exists() else {}, topic, warnings)
    dataset = _Dataset(folder, info, columns, warnings)

    def episodes() -> Iterator[tuple[Any, Iterator[Step]]]:
        yield from (dataset.episode(about, tick_hz) for about in dataset.about_episodes())
        if columns.rounded:
            warnings.append(ROUNDED)

    try:
        return write_session(out, "lerobot", tick_hz, episodes(), warnings, names=columns.names, overwrite=overwrite)
    except KeyError as error:
        raise SessionError(f"A table of the dataset '{folder}' lacks {error}; download it again.") from error


def read_info(folder: Path) -> dict[str, Any]:
    """meta/info.json of a dataset of version 3.

    Raises:
        SessionError: it is missing, damaged, empty, or of another version.
    """
    info = _json(folder / layout.INFO)
    version = str(info.get("codebase_version", "unknown"))
    if re.match(r"v?[12]\.", version):
        raise SessionError(
            f"'{folder}' is a LeRobotDataset {version}; version 3 is expected. Convert it with LeRobot: {CONVERTER}."
        )
    if not re.match(r"v?3\.", version):
        raise SessionError(f"'{folder}' is a LeRobotDataset of version {version}; this devmind reads version 3.")
    features, fps = info.get("features"), info.get("fps")
    if not isinstance(fps, int | float | None) or (fps and not 0 < fps < 1e6):
        raise SessionError(f"'{folder / layout.INFO}' says {fps!r:.40} pictures a second; download the dataset again.")
    if not (isinstance(features, dict) and features and info.get("data_path") and fps):
        raise SessionError(f"'{folder / layout.INFO}' lacks features, data_path or fps; download the dataset again.")
    return info


class _Dataset:
    """A dataset while it is read."""

    def __init__(self, folder: Path, info: dict[str, Any], columns: Columns, warnings: list[str]) -> None:
        self._folder, self._info, self._columns, self._warnings = folder, info, columns, warnings
        self._tasks = self._read_tasks()
        self._open: tuple[Path, Any] = (Path(), None)

    def about_episodes(self) -> list[dict[str, Any]]:
        """The rows of the episodes' table, in order."""
        files = sorted((self._folder / "meta/episodes").glob("*/*.parquet"))
        rows = [
            row
            for file in files
            for row in self._table(file, lambda name: not name.startswith("stats/")).to_pylist()
            if row.get("length")
        ]
        if not rows:
            raise SessionError(f"'{self._folder}' holds no episode; record or download it again.")
        return sorted(rows, key=lambda row: row["episode_index"])

    def episode(self, about: dict[str, Any], tick_hz: int) -> tuple[Any, Iterator[Step]]:
        """Its note, and its steps."""
        name = f"{self._folder}: episode {about['episode_index']}"
        note = {"folder": self._folder.name, "episode": about["episode_index"], "tasks": about.get("tasks")}
        events = self._events(about, tick_hz)
        return note, episode_steps(events, tick_hz, name, f"'{name}' has no rows; download the dataset again.")

    def _events(self, about: dict[str, Any], tick_hz: int) -> Iterator[Event]:
        rows = self._rows(about)
        if layout.REWARD in rows and np.ravel(rows[layout.REWARD][-1])[0] and LAST_REWARD not in self._warnings:
            self._warnings.append(LAST_REWARD)
        times_s = self._times_s(rows)
        ticks = [tick_of(time_s, tick_hz) for time_s in times_s]
        streams = [iter(self._columns.events(rows, ticks, self._tasks))]
        sight = self._columns.sight
        if sight and self._info["features"][sight]["dtype"] == "video":
            streams.append(self._video_events(about, ticks, self._columns.seen(rows)))
        elif sight:
            streams.append(self._image_events(rows[sight], ticks, self._columns.seen(rows)))
        if "sound" in self._columns.present:
            streams.append(self._sound_events(about, ticks, self._columns.heard(rows), tick_hz))
        return merge(*streams, key=attrgetter("tick"))

    def _rows(self, about: dict[str, Any]) -> dict[str, list[Any]]:
        """The episode's columns."""
        from pyarrow import compute

        where = {name: about[f"data/{name}"] for name in ("chunk_index", "file_index")}
        path = inside(self._folder, layout.fill_template(self._info["data_path"], where))
        if self._open[0] != path:
            self._open = path, self._table(path, self._columns.wanted)
        table = self._open[1]
        table = table.filter(compute.equal(table["episode_index"], about["episode_index"]))
        if len(table) != about["length"]:
            raise SessionError(
                f"'{path}' has {len(table)} rows of episode {about['episode_index']}, the dataset's table says "
                f"{about['length']}; download it again."
            )
        return {name: table[name].to_pylist() for name in table.column_names}

    def _times_s(self, rows: dict[str, list[Any]]) -> list[float]:
        """The rows' times since the episode's start; float32 stamps count as the nearest multiple of 1/fps."""
        fps, start_s = float(self._info["fps"]), float(rows["timestamp"][0])
        times_s = [float(stamp) - start_s for stamp in rows["timestamp"]]
        return [
            even if abs((even := round(time_s * fps) / fps) - time_s) < STAMP_TOLERANCE_S else time_s
            for time_s in times_s
        ]

    def _video_events(self, about: dict[str, Any], ticks: list[int], seen: list[bool]) -> Iterator[Event]:
        key = self._columns.sight
        at = f"videos/{key}/"
        where = {name: about[at + name] for name in ("chunk_index", "file_index")}
        path = inside(self._folder, layout.fill_template(self._info["video_path"], {"video_key": key, **where}))
        shown = set()
        for row, decode in read_video(path, about[f"{at}from_timestamp"], float(self._info["fps"]), len(ticks)):
            shown.add(row)
            if seen[row]:
                yield Event(ticks[row], "picture", value=decode)
        if len(shown) < len(ticks):
            lost = len(ticks) - len(shown)
            self._warnings.append(f"{lost} of {len(ticks)} pictures of episode {about['episode_index']} are missing.")

    def _image_events(self, images: list[Any], ticks: list[int], seen: list[bool]) -> Iterator[Event]:
        for tick, image, there in zip(ticks, images, seen, strict=True):
            if there and image:
                yield Event(tick, "picture", value=partial(self._decode_image, image))

    def _decode_image(self, image: dict[str, Any]) -> np.ndarray:
        data = image.get("bytes") or b""
        if not data and image.get("path"):
            path = inside(self._folder, image["path"])
            if not path.is_file():
                raise SessionError(f"The dataset's picture '{path}' is missing; download it again.")
            return read_picture(path)
        return decode_picture(data, f"{self._columns.sight} of {self._folder}")

    def _sound_events(
        self, about: dict[str, Any], ticks: list[int], heard: list[bool], tick_hz: int
    ) -> Iterator[Event]:
        """The sound that our own export puts beside the format's files."""
        import soundfile

        path = self._folder / layout.SOUND_PATH.format(episode_index=about["episode_index"])
        if not path.is_file():
            return
        if tick_hz != self._info["fps"]:
            samples = sounds.file_ticks(path, samples_in_tick(tick_hz), self._warnings.append)
            yield from (Event(tick, "sense", "sound", sound) for tick, sound in samples)
            return
        try:
            with soundfile.SoundFile(path) as file:
                for tick, there in zip(ticks, heard, strict=True):
                    sound = file.read(SOUND_RATE_HZ // tick_hz, "float32", always_2d=True).T
                    if there and sound.size:
                        yield Event(tick, "sense", "sound", np.ascontiguousarray(sound))
        except soundfile.LibsndfileError as error:
            self._warnings.append(f"'{path}' is damaged and was read only in part ({error}).")

    def _read_tasks(self) -> dict[int, str]:
        path = self._folder / layout.TASKS
        if not path.exists():
            return {}
        table = self._table(path, lambda name: True)
        texts = next(name for name in table.column_names if name != "task_index")  # pandas' index, under its own name
        return dict(zip(table["task_index"].to_pylist(), table[texts].to_pylist(), strict=True))

    def _table(self, path: Path, wanted: Any) -> Any:
        import pyarrow
        from pyarrow import parquet

        try:
            file = parquet.ParquetFile(path)
            _check_table(path, file.metadata)
            return file.read([name for name in file.schema_arrow.names if wanted(name)])
        except FileNotFoundError as error:
            raise SessionError(f"The dataset's file '{path}' is missing; download it again.") from error
        except (pyarrow.ArrowException, OSError) as error:
            first = str(error).splitlines()[0]
            raise SessionError(f"The dataset's file '{path}' is damaged ({first}); download it again.") from error


def _check_table(path: Path, about: Any) -> None:
    """SessionError when a table would unfold to more memory than a file of its size may take."""
    size = path.stat().st_size
    groups = [about.row_group(number).total_byte_size for number in range(about.num_row_groups)]
    numbers = about.num_rows * about.num_columns
    if sum(groups) > memory_bytes(size) or 8 * numbers > memory_bytes(size):
        raise SessionError(
            f"The dataset's file '{path}' says that its {size:,} bytes are {about.num_rows:,} rows of {sum(groups):,} "
            "bytes; that would take more memory than a file of this size may."
        )


def inside(folder: Path, place: Any) -> Path:
    """A path from a dataset, below its folder.

    Raises:
        SessionError: it is absolute, leaves the folder, or is no path.
    """
    if not isinstance(place, str) or not place or "\0" in place:
        raise SessionError(f"The dataset '{folder}' names a file {place!r:.80}, which is no path; download it again.")
    if Path(place).is_absolute() or ".." in Path(place).parts:
        raise SessionError(
            f"The dataset '{folder}' names a file outside its folder ({place!r:.80}); nothing there is read."
        )
    return folder / place


def _json(path: Path) -> dict[str, Any]:
    sentence = f"'{path}' cannot be read ({{}}); download the dataset again."
    found = bounds.parse_json(bounds.read_text(path, SessionError), SessionError, sentence)
    if not isinstance(found, dict):
        raise SessionError(sentence.replace("{}", "no JSON object"))
    return found
