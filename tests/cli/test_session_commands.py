"""`devmind session` record, export, and the other commands, on recordings of several parts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from devmind.moment import Moment
from devmind.sessions import Recorder, open_session, parts


@pytest.fixture
def walk(tmp_path: Path) -> Path:
    """Two parts of half a second: sight, sound and words."""
    with Recorder(tmp_path / "walk.mcap", source="media", rotate_s=0.5) as recorder:
        for k in range(10):
            senses = {"sight": np.full((64, 64, 3), 20 * k, np.uint8), "sound": np.zeros((1, 1600), np.float32)}
            recorder.write(Moment(k / 10, {**senses, "words": f"step {k}"}))
    return tmp_path / "walk.mcap"


def test_one_second_is_recorded_without_an_agent(devmind: Any, tmp_path: Path) -> None:
    words = ("session", "record", "me.mcap", "--mic", "synthetic", "--set", "seconds=0.6")
    done = devmind(*words, "--camera", "synthetic")
    assert done.exit_code == 0, done.output
    assert re.search(r"^recording +\d\.\d s · sight, sound$", done.output, re.MULTILINE)
    assert "session: me.mcap" in done.output
    session = open_session(tmp_path / "me.mcap")
    assert len(session) >= 1
    assert {"sight", "sound"} <= set(session.senses)
    assert session.effectors == {}, "nobody acted"
    assert session.frame_count == session.senses["sight"].count
    shown = [frame.time_s for frame in session.frames()]
    assert all(abs(frame_s - session.elapsed_s(k)) < 0.11 for k, frame_s in enumerate(shown)), "on the ticks' clock"
    assert session.health[0].data["sight"]["sense"] == "sight"
    assert (tmp_path / "me.mcap").stat().st_mode & 0o077 == 0, "people were in view"
    assert f"camera: {session.frame_count} frame" in devmind("session", "show", "me.mcap").output
    again = devmind(*words, "--camera", "synthetic")
    assert again.exit_code == 2
    assert "exists already" in again.stderr
    (tmp_path / "me.mcap").unlink()
    bare = devmind(*words, "--camera", "none", "--set", "frames=false")
    assert bare.exit_code == 0
    assert open_session(tmp_path / "me.mcap").frame_count == 0
    assert "nothing to sense" in devmind("session", "record", "x.mcap", "--camera", "none", "--mic", "none").stderr


@pytest.mark.usefixtures("walk")
def test_first_part_stands_for_all_parts(devmind: Any, tmp_path: Path) -> None:
    info = devmind("session", "show", "walk.mcap").output
    assert "in 2 parts, whole" in info
    assert "10 Moments" in info
    assert "1.0 s" in info
    lines = devmind("session", "replay", "walk.mcap", "--ticks", "4-5").output.splitlines()
    assert ["step 4" in lines[0], "step 5" in lines[1], len(lines)] == [True, True, 2]
    data = bytearray((tmp_path / "walk-0002.mcap").read_bytes())
    data[data.index(b"zstd") + 40] ^= 1
    (tmp_path / "walk-0002.mcap").write_bytes(data)
    mended = devmind("session", "repair", "walk.mcap")
    assert "5 Moments kept" in mended.output
    assert re.search(
        r"^lost of walk-0002\.mcap: what nothing tells of from the beginning to the end", mended.output, re.M
    )
    assert len(parts(tmp_path / "walk-repaired.mcap")) == 2


def test_empty_recording_leaves_no_file(devmind: Any, tmp_path: Path) -> None:
    before = sorted(tmp_path.iterdir())
    for _ in range(2):
        done = devmind("session", "record", "x.mcap", "--camera", "no.mp4", "--mic", "none", "--set", "seconds=0.3")
        assert (done.exit_code, "Nothing was ever sensed" in done.stderr) == (1, True), done.output
        assert "session: " not in done.output
        assert sorted(tmp_path.iterdir()) == before


@pytest.mark.usefixtures("walk")
def test_recording_is_exported_and_a_wrong_format_is_named(devmind: Any, tmp_path: Path) -> None:
    made = devmind("session", "export", "walk.mcap", "--to", "mkv")
    assert (made.exit_code, made.output.strip()) == (0, "mkv: walk.mkv")
    assert devmind("session", "export", "walk.mcap", "plain", "--to", "wav").exit_code == 0
    assert {path.name for path in (tmp_path / "plain").iterdir()} == {
        *("sound.wav", "sound.csv", "images", "images.csv", "words.srt")
    }
    assert devmind("session", "export", "walk.mcap").exit_code == 2, "a film is not replaced unasked"
    assert devmind("session", "export", "walk.mcap", "again.mkv").output.strip() == "mkv: again.mkv"
    other = devmind("session", "export", "walk.mcap", "film.mp4")
    assert (other.exit_code, "name it 'film.mkv', or choose a format by --to" in other.stderr) == (2, True)
    assert "film.mp4" not in {path.name for path in tmp_path.iterdir()}
    wrong = devmind("session", "export", "walk.mcap", "--to", "mvk")
    assert (wrong.exit_code, "did you mean 'mkv'" in wrong.stderr) == (2, True)
