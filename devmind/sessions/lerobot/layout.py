"""LeRobotDataset v3.0 by its documentation: names, path templates and the two tables beside the data.

Source: huggingface/lerobot, docs/source/lerobot-dataset-v3.mdx and src/lerobot/datasets, snapshot of 2026-08-23.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from devmind.errors import SessionError

_FIELD = re.compile(r"\{(\w+)(?::0?(\d{1,2})d)?\}", re.ASCII)

VERSION = "v3.0"
INFO, STATS, TASKS, OWN = "meta/info.json", "meta/stats.json", "meta/tasks.parquet", "meta/devmind.json"
CHUNK_FILE = "chunk-{chunk_index:03d}/file-{file_index:03d}"
EPISODES_PATH = f"meta/episodes/{CHUNK_FILE}.parquet"
DATA_PATH = f"data/{CHUNK_FILE}.parquet"
VIDEO_PATH = f"videos/{{video_key}}/{CHUNK_FILE}.mp4"
SOUND_PATH = "sound/episode-{episode_index:06d}.flac"
"""Ours: the format has no sound."""

FILES_PER_CHUNK = 1000
DATA_FILE_MB, VIDEO_FILE_MB = 100, 200

SIGHT, CAMERA = "observation.images.sight", "observation.images.camera"
STATE, ACTION = "observation.state", "action"
REWARD, DONE, TERMINATED = "next.reward", "next.done", "next.terminated"
PRESENT = "devmind.present"
"""Ours: 1.0 for what a row really holds. Not under `observation.`, so that policies do not take it for a state."""
KNOWN = "devmind.known"
"""Ours: the same for single numbers of a present sense, those that are not known in all of its rows."""

INDEXES = ("timestamp", "frame_index", "episode_index", "index", "task_index")
NO_TASK = "none"


def feature(dtype: str, shape: tuple[int, ...], names: list[str] | None = None, **more: Any) -> dict[str, Any]:
    """One entry of `features` in info.json."""
    return {"dtype": dtype, "shape": list(shape), "names": names, **more}


def fill_template(template: Any, values: Mapping[str, Any]) -> str:
    """A path template with `{name}` and `{name:03d}` filled in: only these two forms of `str.format`.

    Raises:
        SessionError: it is no text, or has anything else in braces.
    """
    if not isinstance(template, str):
        raise SessionError(f"A path template is a text; the dataset has {template!r:.80}. Download it again.")

    def put(found: re.Match[str]) -> str:
        value, width = values[found[1]], int(found[2] or 0)
        return str(value).zfill(width) if type(value) is int else str(value)

    made = _FIELD.sub(lambda found: put(found) if found[1] in values else found[0], template)
    if set("{}") & set(_FIELD.sub(lambda found: "" if found[1] in values else found[0], template)):
        raise SessionError(f"The dataset's path template {template!r:.80} is not read; download the dataset again.")
    return made


def place(number: int) -> dict[str, int]:
    """The chunk and file index of the `number`-th file."""
    return {"chunk_index": number // FILES_PER_CHUNK, "file_index": number % FILES_PER_CHUNK}


def info_json(features: dict[str, Any], fps: int, episodes: int, frames: int, tasks: int) -> dict[str, Any]:
    """The content of meta/info.json; `features` without the five indexes, which every dataset has."""
    whole = features | {name: feature("int64", (1,)) for name in INDEXES} | {"timestamp": feature("float32", (1,))}
    return {
        "codebase_version": VERSION,
        "robot_type": "devmind",
        "total_episodes": episodes,
        "total_frames": frames,
        "total_tasks": tasks,
        "chunks_size": FILES_PER_CHUNK,
        "data_files_size_in_mb": DATA_FILE_MB,
        "video_files_size_in_mb": VIDEO_FILE_MB,
        "fps": fps,
        "splits": {"train": f"0:{episodes}"},
        "data_path": DATA_PATH,
        "video_path": VIDEO_PATH if any(what["dtype"] == "video" for what in features.values()) else None,
        "features": whole,
    }


def tasks_table(tasks: list[str]) -> Any:
    """meta/tasks.parquet: `task_index` by task. The task is the index of a pandas frame, as LeRobot looks it up."""
    import pyarrow

    index = {"name": "task", "field_name": "task", "pandas_type": "unicode", "numpy_type": "object", "metadata": None}
    number = {"name": "task_index", "field_name": "task_index", "pandas_type": "int64", "numpy_type": "int64"}
    heading = {"name": None, "field_name": None, "pandas_type": "unicode", "numpy_type": "object"}
    about = {
        "index_columns": ["task"],
        "column_indexes": [heading | {"metadata": {"encoding": "UTF-8"}}],
        "columns": [number | {"metadata": None}, index],
        "creator": {"library": "pyarrow", "version": pyarrow.__version__},
        "pandas_version": "2.0.0",
    }
    table = pyarrow.table({"task_index": pyarrow.array(range(len(tasks)), "int64"), "task": tasks})
    return table.replace_schema_metadata({"pandas": json.dumps(about)})
