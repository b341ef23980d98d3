"""Datasets of other programs: 30 pictures a second, pictures in the table, names, old spellings, broken files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from devmind.errors import SessionError
from devmind.moment import Moment
from devmind.sessions import Recorder, open_session
from devmind.sessions.lerobot import export_lerobot, import_lerobot

FRONT, WRIST = "observation.images.front", "observation.images.wrist"


def png(grey: int) -> dict[str, Any]:
    picture = cv2.imencode(".png", np.full((48, 64, 3), grey, np.uint8))[1].tobytes()
    return {"bytes": picture, "path": f"frame-{grey:06d}.png"}


def a_dataset(folder: Path, fps: int = 30, lengths: tuple[int, ...] = (60, 31)) -> Path:
    """A dataset as LeRobot writes it without videos; row k of an episode has brightness k and the state (k, -k)."""
    features = {
        FRONT: {"dtype": "image", "shape": [48, 64, 3], "names": ["height", "width", "channels"]},
        WRIST: {"dtype": "image", "shape": [48, 64, 3], "names": ["height", "width", "channels"]},
        "observation.state": {"dtype": "float64", "shape": [2], "names": {"motors": ["hip.pos", "knee.pos"]}},
        "observation.sound": {"dtype": "float32", "shape": [1], "names": None},
        "action": {"dtype": "float32", "shape": [2], "names": ["hip.pos", "knee.pos"]},
        "next.reward": {"dtype": "float32", "shape": [1], "names": None},
        "subtask": {"dtype": "string", "shape": [1], "names": None},
    }
    rows, episodes = [], []
    for number, length in enumerate(lengths):
        for k in range(length):
            task = int(number == 1 and k >= 15)
            row = {FRONT: png(k), WRIST: png(200), "observation.state": [float(k), -float(k)], "action": [k / 3, 1.0]}
            row |= {
                "observation.sound": 0.5,
                "next.reward": 1.0,
                "subtask": "x",
                "task_index": task,
                "index": len(rows),
            }
            rows.append(row | {"timestamp": k / fps, "frame_index": k, "episode_index": number})
        about = {"episode_index": number, "length": length, "tasks": ["pick", "place"], "data/chunk_index": 0}
        start = len(rows) - length
        episodes.append(about | {"data/file_index": 0, "dataset_from_index": start, "dataset_to_index": len(rows)})
    table = pa.Table.from_pylist(rows)
    stamps = table.schema.get_field_index("timestamp")
    table = table.set_column(stamps, "timestamp", table["timestamp"].cast("float32"))
    for path, what in {
        "data/chunk-000/file-000.parquet": table,
        "meta/episodes/chunk-000/file-000.parquet": pa.Table.from_pylist(episodes),
        "meta/tasks.parquet": pa.table({"task_index": [0, 1], "__index_level_0__": ["pick", "place"]}),
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        parquet.write_table(what, folder / path)
    paths = {"data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet", "video_path": None}
    info = {"codebase_version": "v3.0", "fps": fps, "features": features, "total_episodes": len(lengths), **paths}
    (folder / "meta/info.json").write_text(json.dumps(info))
    return folder


def test_thirty_rows_a_second_become_ten_ticks(tmp_path: Path) -> None:
    made = import_lerobot(a_dataset(tmp_path / "dataset"), tmp_path / "a.mcap")
    session = open_session(made.path)
    assert session.episodes() == [range(20), range(20, 31)]
    for k, (moment, action) in enumerate(session.window(0, 20)):
        assert moment.time_s == pytest.approx(k / 10)
        assert (moment.senses["sight"] == 3 * k + 2).all(), "the last of the tick's three pictures"
        assert np.array_equal(moment.senses["body"], np.array([3 * k + 2, -3 * k - 2], np.float32))  # type: ignore[arg-type]
        assert np.array_equal(action.effectors["action"], np.array([(3 * k + 2) / 3, 1], np.float32))  # type: ignore[union-attr]
        assert moment.reward == (2 if k == 0 else 3), "the sum of what came in the tick, one row later"
        assert moment.senses["sound_numbers"].shape == (1,)  # type: ignore[union-attr]
    assert [(k, m.senses["words"]) for k, (m, _) in enumerate(session) if "words" in m.senses] == [
        (0, "pick"),
        (20, "pick"),
        (25, "place"),
    ]
    notes = {note.kind: note.data for note in session.notes}
    assert notes["names"]["body"] == notes["names"]["action"] == ["hip.pos", "knee.pos"]
    assert [sentence for sentence in made.warnings if WRIST in sentence]
    assert [sentence for sentence in made.warnings if "subtask" in sentence]


@pytest.mark.parametrize(("lengths", "notes"), [((3,), 1), ((3, 4, 5), 1)])
def test_reward_that_no_moment_can_hold_is_told_once(tmp_path: Path, lengths: tuple[int, ...], notes: int) -> None:
    """Regression: it was left out without a note, in datasets of single tasks the only reward of an episode."""
    made = import_lerobot(a_dataset(tmp_path / "dataset", fps=10, lengths=lengths), tmp_path / "a.mcap")
    assert sum("next.reward" in sentence for sentence in made.warnings) == notes
    export_lerobot([made.path], tmp_path / "own")
    assert not any("next.reward" in one for one in import_lerobot(tmp_path / "own", tmp_path / "b.mcap").warnings)


def test_a_camera_can_be_chosen_and_a_slow_dataset_imported(tmp_path: Path) -> None:
    dataset = a_dataset(tmp_path / "dataset", fps=5, lengths=(10,))
    made = import_lerobot(dataset, tmp_path / "a.mcap", topic=WRIST)
    session = open_session(made.path)
    assert len(session) == 19
    assert [k for k, (m, _) in enumerate(session) if "sight" in m.senses] == list(range(0, 19, 2)), "none is repeated"
    assert (session[0][0].senses["sight"] == 200).all()
    with pytest.raises(SessionError, match="did you mean"):
        import_lerobot(dataset, tmp_path / "b.mcap", topic="observation.images.fornt")


def test_pictures_named_in_the_table_are_read_from_their_files(tmp_path: Path) -> None:
    dataset = a_dataset(tmp_path / "dataset", fps=10, lengths=(3,))
    path = dataset / "data/chunk-000/file-000.parquet"
    table = parquet.read_table(path)
    named = pa.array([{"bytes": None, "path": f"images/{k}.png"} for k in range(3)], table[FRONT].type)
    parquet.write_table(table.set_column(table.schema.get_field_index(FRONT), FRONT, named), path)
    (dataset / "images").mkdir()
    for k in range(3):
        cv2.imwrite(str(dataset / f"images/{k}.png"), np.full((9, 9, 3), 50 + k, np.uint8))
    import_lerobot(dataset, tmp_path / "a.mcap")
    assert [m.senses["sight"].max() for m, _ in open_session(tmp_path / "a.mcap")] == [50, 51, 52]  # type: ignore[union-attr]
    (dataset / "images/1.png").unlink()
    with pytest.raises(SessionError, match=r"picture .*images/1\.png' is missing"):
        import_lerobot(dataset, tmp_path / "b.mcap")


def test_an_own_dataset_of_another_rate_keeps_its_sound(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    wave = (rng.integers(-9000, 9000, (1, 16000)) / 32768).astype(np.float32)
    with Recorder(tmp_path / "a.mcap", source="test", tick_hz=20) as recorder:
        for k in range(20):
            recorder.write(Moment(k / 20, {"sound": wave[:, 800 * k : 800 * (k + 1)]}, first=k == 0))
    export_lerobot([tmp_path / "a.mcap"], tmp_path / "dataset")
    import_lerobot(tmp_path / "dataset", tmp_path / "b.mcap")
    back = np.concatenate([m.senses["sound"] for m, _ in open_session(tmp_path / "b.mcap")], axis=1)  # type: ignore[misc]
    assert np.array_equal(back, wave)


def _edit(folder: Path, **changes: Any) -> None:
    path = folder / "meta/info.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _as_videos(folder: Path) -> None:
    """Let the table of episodes refer to videos that do not exist."""
    info = json.loads((folder / "meta/info.json").read_text())
    info["features"][FRONT]["dtype"] = "video"
    _edit(folder, features=info["features"], video_path="videos/{video_key}/file-{file_index}.mp4")
    path = folder / "meta/episodes/chunk-000/file-000.parquet"
    promised = {"chunk_index": 0, "file_index": 0, "from_timestamp": 0.0, "to_timestamp": 1.0}
    more = {f"videos/{FRONT}/{name}": value for name, value in promised.items()}
    parquet.write_table(pa.Table.from_pylist([row | more for row in parquet.read_table(path).to_pylist()]), path)


def _noise_video(folder: Path) -> None:
    _as_videos(folder)
    (folder / f"videos/{FRONT}").mkdir(parents=True)
    (folder / f"videos/{FRONT}/file-0.mp4").write_bytes(b"noise" * 1000)


def _drop_rows(folder: Path) -> None:
    path = folder / "data/chunk-000/file-000.parquet"
    parquet.write_table(parquet.read_table(path).slice(0, 70), path)


BROKEN: dict[str, tuple[Callable[[Path], Any], str]] = {
    "version_2": (lambda folder: _edit(folder, codebase_version="v2.1"), "convert_dataset_v21_to_v30"),
    "version_4": (lambda folder: _edit(folder, codebase_version="v4.0"), "reads version 3"),
    "no_version": (lambda folder: (folder / "meta/info.json").write_text("{}"), "version unknown"),
    "no_json": (lambda folder: _cut(folder / "meta/info.json"), "cannot be read"),
    "no_info": (lambda folder: (folder / "meta/info.json").unlink(), "There is no file"),
    "no_fps": (lambda folder: _edit(folder, fps=0), "lacks features, data_path or fps"),
    "no_episodes": (lambda folder: (folder / "meta/episodes/chunk-000/file-000.parquet").unlink(), "holds no episode"),
    "no_data": (lambda folder: (folder / "data/chunk-000/file-000.parquet").unlink(), "is missing"),
    "cut_data": (lambda folder: _cut(folder / "data/chunk-000/file-000.parquet"), "is damaged"),
    "rows_missing": (_drop_rows, "has 10 rows of episode 1"),
    "no_video": (_as_videos, "video .* is missing"),
    "noise_video": (_noise_video, "video .* cannot be read"),
    "column_missing": (
        lambda folder: _edit(folder, features={"observation.other": {"dtype": "float32", "shape": [1]}}),
        "lacks 'observation.other'",
    ),
    "nothing_to_sense": (lambda folder: _edit(folder, features={"note": {"dtype": "string", "shape": [1]}}), "nothing"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_datasets_raise_one_sentence_and_leave_nothing(tmp_path: Path, kind: str) -> None:
    breaks, words = BROKEN[kind]
    folder = a_dataset(tmp_path / "dataset")
    breaks(folder)
    with pytest.raises(SessionError, match=words) as raised:
        import_lerobot(folder, tmp_path / "a.mcap")
    assert "\n" not in str(raised.value)
    assert [path.name for path in tmp_path.iterdir()] == ["dataset"]


def test_a_video_that_ends_early_is_reported(tmp_path: Path) -> None:
    with Recorder(tmp_path / "a.mcap", source="test") as recorder:
        for k in range(10):
            recorder.write(Moment(k / 10, {"sight": np.full((64, 64, 3), 20 * k, np.uint8)}, first=k == 0))
    export_lerobot([tmp_path / "a.mcap"], tmp_path / "short")
    with Recorder(tmp_path / "b.mcap", source="test") as recorder:
        for k in range(20):
            recorder.write(Moment(k / 10, {"sight": np.full((64, 64, 3), 10 * k, np.uint8)}, first=k == 0))
    export_lerobot([tmp_path / "b.mcap"], tmp_path / "long")
    name = "videos/observation.images.sight/chunk-000/file-000.mp4"
    (tmp_path / "long" / name).write_bytes((tmp_path / "short" / name).read_bytes())
    made = import_lerobot(tmp_path / "long", tmp_path / "c.mcap")
    assert made.warnings == ("10 of 20 pictures of episode 0 are missing.",)
    assert open_session(made.path).senses["sight"].count == 10


def test_whole_numbers_and_float64_stay_exact(tmp_path: Path) -> None:
    folder = a_dataset(tmp_path / "dataset", fps=10, lengths=(3,))
    rows = parquet.read_table(folder / "data/chunk-000/file-000.parquet")
    info = json.loads((folder / "meta/info.json").read_text())
    counted = {"int32": 2**24 + 1, "int64": 2**53 + 1, "uint64": 2**64 - 1, "float64": 100_000_001.0, "int16": 7}
    for dtype, value in counted.items():
        name = f"observation.{dtype}"
        info["features"][name] = {"dtype": dtype, "shape": [1], "names": None}
        rows = rows.append_column(name, pa.array([value] * 3, dtype.replace("float64", "double")))
    rows = rows.set_column(
        rows.schema.get_field_index("observation.state"), "observation.state", pa.array([[1e8 + 1, 0.1]] * 3)
    )
    parquet.write_table(rows, folder / "data/chunk-000/file-000.parquet")
    (folder / "meta/info.json").write_text(json.dumps(info))
    made = import_lerobot(folder, tmp_path / "a.mcap")
    senses = open_session(made.path)[0][0].senses
    for dtype, value in counted.items():
        assert senses[dtype].tolist() == [value]  # type: ignore[union-attr]
    assert senses["body"].dtype == np.float32  # type: ignore[union-attr]
    assert any("Whole numbers over 16,777,216 in 'body'" in sentence for sentence in made.warnings)
