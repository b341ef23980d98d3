"""LeRobotDataset v3: exports are read back by the documented layout with nothing but pyarrow and PyAV."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import soundfile
from pyarrow import parquet

from devmind.errors import SessionError
from devmind.moment import Action, Moment, same_arrays
from devmind.sessions import Recorder, open_session
from devmind.sessions.lerobot import export_lerobot, import_lerobot
from devmind.sessions.lerobot.stats import all_stats, picture_stats, stats_of

LENGTHS = (25, 15)


def a_session(path: Path, lengths: tuple[int, ...] = LENGTHS, seed: int = 0) -> Path:
    """A session with smooth pictures; body, words, sound and Actions are sometimes absent."""
    rng = np.random.default_rng(seed)
    with Recorder(path, source="test") as recorder:
        for length in lengths:
            for k in range(length):
                ramp = np.linspace(k, 255 - 3 * k, 64).astype(np.uint8)
                senses: dict[str, Any] = {"touch": np.array([[k, 1]], ">i4")}
                if k % 4:
                    senses["sight"] = np.repeat(np.tile(ramp, (64, 1))[:, :, None], 3, axis=2)
                if k % 3:
                    senses["body"] = rng.standard_normal(3, np.float32)
                if k % 5:
                    senses["sound"] = (rng.integers(-9000, 9000, (1, 1600)) / 32768).astype(np.float32)
                if k in (0, 7):
                    senses["words"] = f"go {k}"
                look = {"look": rng.standard_normal(2, np.float32)} if k % 2 else {}
                action = Action({"say": np.array(k), **look}) if k % 6 else None
                last = k == length - 1
                recorder.write(Moment(k / 10, senses, k / 4, k == 0, last, last and length == 15), action)
    return path


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A session and its dataset."""
    folder = tmp_path_factory.mktemp("lerobot")
    session = a_session(folder / "a.mcap")
    assert export_lerobot([session], folder / "dataset") == []
    return session, folder / "dataset"


def test_every_documented_file_and_column_is_there(exported: tuple[Path, Path]) -> None:
    _, folder = exported
    info = json.loads((folder / "meta/info.json").read_text())
    assert (info["codebase_version"], info["fps"], info["splits"]) == ("v3.0", 10, {"train": "0:2"})
    assert (info["total_episodes"], info["total_frames"], info["total_tasks"]) == (2, 40, 2)
    where = {"chunk_index": 0, "file_index": 0}
    key = "observation.images.sight"
    data = parquet.read_table(folder / info["data_path"].format(**where))
    assert (folder / info["video_path"].format(video_key=key, **where)).is_file()
    assert set(data.column_names) == info["features"].keys() - {key}
    for name in data.column_names:
        what, kind = info["features"][name], data.schema.field(name).type
        if what["shape"] == [1]:
            assert str(kind).replace("double", "float64") in (what["dtype"], "float"), name
        else:
            assert kind.list_size == what["shape"][0], name
    assert data["index"].to_pylist() == list(range(40))
    assert data["episode_index"].to_pylist() == [0] * 25 + [1] * 15
    assert data["frame_index"].to_pylist() == [*range(25), *range(15)]
    assert np.allclose(data["timestamp"].to_numpy(), [*np.arange(25) / 10, *np.arange(15) / 10])
    assert np.flatnonzero(data["next.done"].to_numpy()).tolist() == [24, 39]
    assert np.flatnonzero(data["next.terminated"].to_numpy()).tolist() == [39]
    episodes = parquet.read_table(folder / "meta/episodes/chunk-000/file-000.parquet")
    assert episodes["length"].to_pylist() == list(LENGTHS)
    assert episodes["dataset_from_index"].to_pylist() == [0, 25]
    assert episodes["dataset_to_index"].to_pylist() == [25, 40]
    assert episodes["tasks"].to_pylist() == [["go 0", "go 7"]] * 2
    assert episodes[f"videos/{key}/from_timestamp"].to_pylist() == [0.0, 2.5]
    assert episodes[f"videos/{key}/to_timestamp"].to_pylist() == [2.5, 4.0]
    for place in ("data", f"videos/{key}", "meta/episodes"):
        assert episodes[f"{place}/chunk_index"].to_pylist() == episodes[f"{place}/file_index"].to_pylist() == [0, 0]
    stats = json.loads((folder / "meta/stats.json").read_text())
    assert stats.keys() == info["features"].keys()
    names = {"min", "max", "mean", "std", "count", "q01", "q10", "q50", "q90", "q99"}
    assert all(of.keys() == names for of in stats.values())
    assert np.shape(stats[key]["mean"]) == (3, 1, 1)
    assert {f"stats/{feature}/{name}" for feature in stats for name in names} <= set(episodes.column_names)


def test_pandas_reads_the_tasks_indexed_by_task(exported: tuple[Path, Path]) -> None:
    tasks = parquet.read_table(exported[1] / "meta/tasks.parquet")
    assert dict(zip(tasks["task"].to_pylist(), tasks["task_index"].to_pylist(), strict=True)) == {"go 0": 0, "go 7": 1}
    about = json.loads(tasks.schema.metadata[b"pandas"])
    assert about["index_columns"] == ["task"]


def test_rows_hold_the_values_of_the_ticks(exported: tuple[Path, Path]) -> None:
    session, folder = exported
    data = parquet.read_table(folder / "data/chunk-000/file-000.parquet")
    names = json.loads((folder / "meta/info.json").read_text())["features"]["devmind.present"]["names"]
    present = np.array(data["devmind.present"].to_pylist(), bool)
    steps = list(open_session(session))
    for k, (moment, action) in enumerate(steps):
        done = action.effectors if action else {}
        there = {*moment.senses, *(f"action.{name}" for name in done), *(["action"] if action else [])}
        assert {name for name, flag in zip(names, present[k], strict=True) if flag} == there
        if moment.first:
            state = np.zeros(3, np.float32)
        state = moment.senses.get("body", state)  # type: ignore[assignment]
        assert np.array_equal(data["observation.state"][k].as_py(), state), "what is absent is as it was last"
        wanted = np.concatenate([done.get("look", np.zeros(2)), np.ravel(done.get("say", 0))])
        assert np.array_equal(data["action"][k].as_py(), wanted)
        following = 0.0 if moment.last else steps[k + 1][0].reward
        assert data["next.reward"][k].as_py() == following
    sound, rate_hz = soundfile.read(folder / "sound/episode-000001.flac", dtype="float32")
    assert (len(sound), rate_hz) == (15 * 1600, 16000)
    assert not sound[:1600].any()
    assert np.array_equal(sound[1600:3200], steps[26][0].senses["sound"][0])  # type: ignore[index]


def test_the_video_shows_each_row_at_its_time(exported: tuple[Path, Path]) -> None:
    session, folder = exported
    with av.open(str(folder / "videos/observation.images.sight/chunk-000/file-000.mp4")) as video:
        stream = video.streams.video[0]
        assert (stream.codec_context.name, stream.width, stream.height) == ("h264", 64, 64)
        frames = [(frame.time, frame.to_ndarray(format="rgb24")) for frame in video.decode(stream)]
    assert np.allclose([time for time, _ in frames], np.arange(40) / 10)
    shown = np.zeros((64, 64, 3), np.uint8)
    for (_, frame), (moment, _) in zip(frames, open_session(session), strict=True):
        if moment.first:
            shown = np.zeros_like(shown)
        shown = moment.senses.get("sight", shown)  # type: ignore[assignment]
        assert np.abs(frame.astype(int) - shown).mean() < 4


def test_an_exported_dataset_imports_as_recorded(exported: tuple[Path, Path], tmp_path: Path) -> None:
    session, folder = exported
    made = import_lerobot(folder, tmp_path / "back.mcap")
    assert (made.ticks, made.warnings) == (40, ())
    for (was, did), (moment, action) in zip(open_session(session), open_session(made.path), strict=True):
        assert did == action
        assert (was.first, was.last, was.terminal) == (moment.first, moment.last, moment.terminal)
        assert moment.time_s == pytest.approx(was.time_s)
        assert moment.reward == (0 if was.first else was.reward)
        sight, seen = was.senses.get("sight"), moment.senses.get("sight")
        assert (sight is None) == (seen is None)
        if sight is not None:
            assert np.abs(sight.astype(int) - seen).mean() < 4  # type: ignore[union-attr]
        given = {name: value for name, value in was.senses.items() if name not in ("sight", "touch")}
        back = {name: value for name, value in moment.senses.items() if name in given}
        assert same_arrays(given, back)
        assert np.array_equal(was.senses["touch"], moment.senses["touch"])  # type: ignore[arg-type]
        assert set(moment.senses) - set(was.senses) <= {"periphery"}, "made of the pictures, as in every import"


def test_policies_read_no_nan_and_imports_restore_absent_values(tmp_path: Path) -> None:
    """A camera's body: most of the nursery's numbers are always absent, one sometimes, the whole sense sometimes."""
    names = {"body": ["pan_sin", "hand_x", "tilt", "grip"], "look": ["pan", "tilt"]}
    with Recorder(tmp_path / "a.mcap", source="room", names=names) as recorder:
        for k in range(12):
            senses: dict[str, Any] = {"sonar": np.full((2, 1), np.nan)}
            if k % 5 != 1:
                tilt = np.nan if k in (0, 3, 9) else k
                senses["body"] = np.array([k / 4, np.nan, tilt, np.nan], np.float32)
            look = Action({"look": np.full(2, k / 8, np.float32)})
            recorder.write(Moment(k / 10, senses, first=k in (0, 7), last=k in (6, 11)), look)
    told = export_lerobot([tmp_path / "a.mcap"], tmp_path / "dataset")
    assert told == ["'sonar' has no known number; left out."]
    info = json.loads((tmp_path / "dataset/meta/info.json").read_text())["features"]
    assert (info["observation.state"]["names"], info["observation.state"]["shape"]) == (["pan_sin", "tilt"], [2])
    assert info["action"]["names"] == ["look.pan", "look.tilt"]
    assert info["devmind.known"]["names"] == ["observation.state.tilt"]
    data = parquet.read_table(tmp_path / "dataset/data/chunk-000/file-000.parquet")
    for name in data.column_names:
        assert np.isfinite(np.array(data[name].to_pylist(), float)).all(), name
    # Absent: body at 1, 6 and 11, tilt also at 0, 3 and 9. The second episode begins at 7.
    assert [tilt for _, tilt in data["observation.state"].to_pylist()] == [0, 0, 2, 2, 4, 5, 5, 7, 8, 8, 10, 10]
    known = np.ravel(data["devmind.known"].to_pylist())
    assert np.flatnonzero(known == 0).tolist() == [0, 1, 3, 6, 9, 11]
    stats = json.loads((tmp_path / "dataset/meta/stats.json").read_text())
    assert "NaN" not in json.dumps(stats)
    back = open_session(import_lerobot(tmp_path / "dataset", tmp_path / "b.mcap").path)
    for (was, did), (moment, action) in zip(open_session(tmp_path / "a.mcap"), back, strict=True):
        assert did == action
        body = {name: value for name, value in was.senses.items() if name == "body"}
        assert same_arrays(body, moment.senses)
    assert back.names() == names


def test_damaged_sound_is_reported_and_the_rest_is_read(tmp_path: Path) -> None:
    export_lerobot([a_session(tmp_path / "a.mcap", (8,))], tmp_path / "dataset")
    path = tmp_path / "dataset/sound/episode-000000.flac"
    path.write_bytes(path.read_bytes()[:20] + b"noise" * 1000)
    made = import_lerobot(tmp_path / "dataset", tmp_path / "b.mcap")
    assert made.ticks == 8
    assert "read only in part" in made.warnings[0]


def test_full_files_are_followed_by_further_ones(tmp_path: Path) -> None:
    sessions = [a_session(tmp_path / "a.mcap"), a_session(tmp_path / "b.mcap", (12,), seed=1)]
    export_lerobot(sessions, tmp_path / "dataset", data_file_mb=1e-6, video_file_mb=1e-6)
    table = parquet.read_table(tmp_path / "dataset/meta/episodes/chunk-000/file-000.parquet")
    assert table["data/file_index"].to_pylist() == [0, 1, 2]
    assert table["videos/observation.images.sight/file_index"].to_pylist() == [0, 1, 2]
    assert table["videos/observation.images.sight/from_timestamp"].to_pylist() == [0, 0, 0]
    import_lerobot(tmp_path / "dataset", tmp_path / "back.mcap")
    back = open_session(tmp_path / "back.mcap")
    assert back.episodes() == [range(25), range(25, 40), range(40, 52)]
    assert [action for _, action in back] == [action for path in sessions for _, action in open_session(path)]


def test_data_without_a_place_in_the_format_are_reported(tmp_path: Path) -> None:
    with Recorder(tmp_path / "a.mcap", source="test") as recorder:
        for k in range(3):
            senses = {"body": np.zeros(2, np.float32), "odd": np.zeros(k + 1), "sound": np.zeros((1, 100), np.float32)}
            voice = {"utter": np.zeros((1, 1600), np.float32)}
            recorder.write(Moment(k * 0.3, senses, first=k == 0, last=k == 2), Action(voice))
    told = export_lerobot([tmp_path / "a.mcap"], tmp_path / "dataset")
    for words in ("'odd' changes its shape", "'utter' is 1600 numbers", "sound is not of 1600", "4 ticks were skipped"):
        assert sum(words in sentence for sentence in told) == 1
    info = json.loads((tmp_path / "dataset/meta/info.json").read_text())
    assert info["video_path"] is None
    assert "action" not in info["features"]


def test_statistics_of_episodes_add_up() -> None:
    rng = np.random.default_rng(0)
    parts = [rng.normal(k, 1 + k, (50 * (k + 1), 3)) for k in range(3)]
    parts[0][:5, 1] = np.nan
    parts[1][:, 2] = np.nan
    whole, of = np.concatenate([parts[0], parts[2]]), all_stats([stats_of(parts[0]), stats_of(parts[2])])
    assert of["count"] == 200
    for name in ("min", "max", "mean", "std"):
        wanted = getattr(np, f"nan{name}")(whole, 0)
        assert np.allclose(of[name][[0, 2]], wanted[[0, 2]]), name
    alone = stats_of(parts[1])
    assert alone["mean"][2] == alone["std"][2] == 0, "no NaN in the file"
    assert np.allclose(alone["q50"][:2], np.median(parts[1][:, :2], 0))
    red = np.zeros((300, 400, 3), np.uint8)
    red[..., 0] = 255
    assert picture_stats([red])["mean"].ravel().tolist() == [1, 0, 0]


def test_a_failing_export_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = a_session(tmp_path / "a.mcap", (5,))
    (tmp_path / "there").mkdir()
    with pytest.raises(SessionError, match="exists already"):
        export_lerobot([session], tmp_path / "there")
    with pytest.raises(SessionError, match="no recording"):
        export_lerobot([tmp_path / "b.mcap"], tmp_path / "dataset")
    with Recorder(tmp_path / "c.mcap", source="test", tick_hz=20) as recorder:
        recorder.write(Moment(0.0, {"body": np.zeros(1, np.float32)}))
    with pytest.raises(SessionError, match="these sessions have 10, 20"):
        export_lerobot([session, tmp_path / "c.mcap"], tmp_path / "dataset")
    with Recorder(tmp_path / "d.mcap", source="test") as recorder:
        recorder.write(Moment(0.0))
    with pytest.raises(SessionError, match="nothing in these sessions"):
        export_lerobot([tmp_path / "d.mcap"], tmp_path / "dataset")
    with monkeypatch.context() as patched:
        patched.setattr("devmind.sessions.lerobot.writing.stats_of", lambda values: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            export_lerobot([session], tmp_path / "dataset")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(SessionError, match=r"pip install 'devmind\[robots\]'"):
        export_lerobot([session], tmp_path / "dataset")
    assert not (tmp_path / "dataset").exists()


def test_camera_frames_are_exported_as_another_video(tmp_path: Path) -> None:
    with Recorder(tmp_path / "a.mcap", source="test") as recorder:
        for k in range(10):
            recorder.write(Moment(5 + k / 10, {"sight": np.zeros((64, 64, 3), np.uint8)}, first=k == 0, last=k == 9))
            if k % 2 == 0:  # too late for its own tick
                recorder.frame(np.full((49, 81, 3), 20 * k, np.uint8), 5.02 + k / 10)
    export_lerobot([tmp_path / "a.mcap"], tmp_path / "dataset")
    info = json.loads((tmp_path / "dataset/meta/info.json").read_text())
    assert info["features"]["observation.images.camera"]["shape"] == [48, 80, 3]
    with av.open(str(tmp_path / "dataset/videos/observation.images.camera/chunk-000/file-000.mp4")) as video:
        shown = [frame.to_ndarray(format="rgb24").mean() for frame in video.decode(video=0)]
    assert np.allclose(shown, [0, 0, 0, 40, 40, 80, 80, 120, 120, 160], atol=3)
    made = import_lerobot(tmp_path / "dataset", tmp_path / "b.mcap", topic="observation.images.camera")
    seen = {k: m.senses["sight"].mean() for k, (m, _) in enumerate(open_session(made.path)) if "sight" in m.senses}  # type: ignore[union-attr]
    assert list(seen) == [1, 3, 5, 7, 9], "none is repeated"
    assert import_lerobot(tmp_path / "dataset", tmp_path / "c.mcap").ticks == 10


def test_camera_frame_of_an_earlier_episode_is_not_new_in_a_later_one(tmp_path: Path) -> None:
    """Regression: each episode read all frames from the recording's start, and began with the last one before it."""
    with Recorder(tmp_path / "a.mcap", source="test") as recorder:
        for k in range(10):
            senses = {"sight": np.zeros((64, 64, 3), np.uint8)}
            recorder.write(Moment(k / 10, senses, first=k in (0, 5), last=k in (4, 9)))
            if k == 1:
                recorder.frame(np.full((48, 80, 3), 200, np.uint8), k / 10)
    export_lerobot([tmp_path / "a.mcap"], tmp_path / "dataset")
    rows = parquet.read_table(tmp_path / "dataset/data/chunk-000/file-000.parquet")
    info = json.loads((tmp_path / "dataset/meta/info.json").read_text())
    at = info["features"]["devmind.present"]["names"].index("observation.images.camera")
    new = [flags[at] for flags in rows["devmind.present"].to_pylist()]
    assert new == [0, 1, 0, 0, 0, 0, 0, 0, 0, 0]


def test_a_session_of_frames_without_a_moment_is_refused(tmp_path: Path) -> None:
    with Recorder(tmp_path / "a.mcap", source="test") as recorder:
        recorder.frame(np.zeros((48, 80, 3), np.uint8), 0.0)
    with pytest.raises(SessionError, match="holds no Moment"):
        export_lerobot([tmp_path / "a.mcap"], tmp_path / "dataset")


def test_the_reason_why_nothing_can_be_exported_is_told(tmp_path: Path) -> None:
    with Recorder(tmp_path / "a.mcap", source="test") as recorder:
        for k in range(3):
            recorder.write(Moment(k / 10, {"laser": np.zeros(k + 1, np.float32)}))
    with pytest.raises(SessionError, match="'laser' changes its shape or dtype from tick to tick"):
        export_lerobot([tmp_path / "a.mcap"], tmp_path / "dataset")
