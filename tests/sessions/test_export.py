"""Other tools read back what is exported: the same pictures, samples, words and times."""

from __future__ import annotations

import csv
from pathlib import Path

import av
import cv2
import numpy as np
import pytest
import soundfile

from devmind.errors import SessionError
from devmind.moment import Moment
from devmind.sessions import Recorder, open_session
from devmind.sessions.export import export
from devmind.sessions.media import media_moments

TICKS = 30
SILENT = (12, 13)
"""Ticks that heard nothing."""


def tone(k: int) -> np.ndarray:
    at = np.arange(1600 * k, 1600 * (k + 1))
    steps = np.rint(np.stack([np.sin(at / 7), np.sin(at / 11)]) * 8000).astype(np.int16)
    return (steps / 32768).astype(np.float32)


def sight(k: int) -> np.ndarray:
    picture = np.zeros((64, 64, 3), np.uint8)
    picture[:, : 2 * k + 2], picture[:, 2 * k + 2 :, 2] = (200, 40, 40), 8 * k
    return picture


def moment(k: int, time_s: float) -> Moment:
    senses: dict[str, np.ndarray | str] = {"sight": sight(k)}
    if k not in SILENT:
        senses["sound"] = tone(k)
    if k in (5, 9, 20):
        senses["words"] = f"grüß dich {k}"
    return Moment(time_s, senses, first=k == 0)


@pytest.fixture
def seen(tmp_path: Path) -> Path:
    """A file's session in three parts, without camera frames."""
    with Recorder(tmp_path / "seen.mcap", source="media", rotate_s=1.0) as recorder:
        for k in range(TICKS):
            recorder.write(moment(k, k / 10))
    return tmp_path / "seen.mcap"


@pytest.fixture
def filmed(tmp_path: Path) -> Path:
    """A room's session with frames of an irregular camera; tick 7 was skipped."""
    with Recorder(tmp_path / "filmed.mcap", source="room") as recorder:
        for k in range(TICKS):
            if k != 7:
                recorder.write(moment(k, 50 + k / 10))
                recorder.frame(cv2.resize(sight(k), (161, 121)), 50 + k / 10 + 0.013 * (k % 3))
    return tmp_path / "filmed.mcap"


def film(path: Path) -> tuple[list[float], list[np.ndarray], np.ndarray, list[tuple[float, float, str]]]:
    """Times and pictures of a film, its samples [C, n], and its subtitles (from, to, text)."""
    with av.open(str(path)) as container:
        shown = [(float(f.time), f.to_ndarray(format="rgb24")) for f in container.decode(video=0)]
        container.seek(0)
        heard = [np.asarray(f.to_ndarray()) for f in container.decode(audio=0)]
        container.seek(0)
        said = []
        for packet in container.demux(container.streams.subtitles):
            if packet.size:
                begin_s = float(packet.pts * packet.time_base)
                said.append((begin_s, begin_s + float(packet.duration * packet.time_base), bytes(packet).decode()))
    channels = 2
    samples = np.concatenate([block.reshape(-1, channels) for block in heard]).T
    return [t for t, _ in shown], [p for _, p in shown], samples, said


def wanted_samples(skipped: tuple[int, ...]) -> np.ndarray:
    heard = [np.zeros((2, 1600), np.float32) if k in skipped else tone(k) for k in range(TICKS)]
    return np.rint(np.concatenate(heard, axis=1) * 32768).astype(np.int16)


def test_a_session_without_a_camera_is_exported_as_a_film_of_its_sight(seen: Path, tmp_path: Path) -> None:
    out, told = export(seen, "mkv", tmp_path / "seen.mkv")
    times, pictures, samples, said = film(out)
    assert times == pytest.approx([k / 10 for k in range(TICKS)], abs=0.001)
    assert pictures[0].shape == (512, 512, 3)
    for k, picture in enumerate(pictures):
        assert np.abs(cv2.resize(picture, (64, 64), interpolation=cv2.INTER_AREA).astype(int) - sight(k)).mean() < 6
    np.testing.assert_array_equal(samples, wanted_samples(SILENT))
    assert [text for _, _, text in said] == [f"grüß dich {k}" for k in (5, 9, 20)]
    assert [span[:2] for span in said] == [
        pytest.approx(span, abs=0.002) for span in ((0.5, 0.9), (0.9, 2.0), (2.0, 5.0))
    ]
    assert told == ["0.2 s of the sound are silence, because nothing was heard then."]


def test_an_exported_film_imports_as_recorded(seen: Path, tmp_path: Path) -> None:
    out, _ = export(seen, "mkv", tmp_path / "seen.mkv")
    moments = list(media_moments(out))
    assert len(moments) == TICKS
    for k, back in enumerate(moments):
        assert np.abs(back.senses["sight"].astype(int) - sight(k)).mean() < 6
        if k not in SILENT:
            np.testing.assert_array_equal(back.senses["sound"], tone(k))


def test_camera_frames_keep_their_times_and_sound_precedes_its_tick(filmed: Path, tmp_path: Path) -> None:
    out, _ = export(filmed, "mkv", tmp_path / "filmed.mkv")
    times, pictures, samples, _ = film(out)
    there = [k for k in range(TICKS) if k != 7]
    assert times == pytest.approx([0.1 + k / 10 + 0.013 * (k % 3) for k in there], abs=0.001)
    assert pictures[0].shape == (120, 160, 3), "H.264 wants even sides"
    np.testing.assert_array_equal(samples, wanted_samples((7, *SILENT)))


def test_exported_files_hold_the_samples_the_pictures_and_the_words(seen: Path, filmed: Path, tmp_path: Path) -> None:
    out, told = export(seen, "wav", tmp_path / "plain")
    assert told == []
    samples, rate = soundfile.read(out / "sound.wav", dtype="int16")
    assert rate == 16_000
    np.testing.assert_array_equal(samples.T, wanted_samples(SILENT))
    with (out / "sound.csv").open() as file:
        rows = [(float(row["from_s"]), float(row["to_s"]), row["what"][:7]) for row in csv.DictReader(file)]
    assert rows == [(0.0, 1.2, "heard"), (1.2, 1.4, "silence"), (1.4, 3.0, "heard")]
    with (out / "images.csv").open() as file:
        listed = list(csv.DictReader(file))
    assert [float(row["time_s"]) for row in listed] == pytest.approx([k / 10 for k in range(TICKS)])
    back = cv2.cvtColor(cv2.imread(str(out / listed[11]["file"])), cv2.COLOR_BGR2RGB)
    np.testing.assert_array_equal(back, sight(11))
    assert "00:00:00,500 --> 00:00:00,900\ngrüß dich 5\n" in (out / "words.srt").read_text(encoding="utf-8")
    copied, _ = export(filmed, "wav", tmp_path / "copied")
    jpegs = [file.read_bytes() for file in sorted((copied / "images").iterdir())]
    assert jpegs == [frame.jpeg for frame in open_session(filmed).frames()]


def test_a_failed_export_leaves_nothing(seen: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "me.txt").write_text("precious")
    (tmp_path / "there.mkv").write_text("precious")
    for to, out, overwrite, said in (
        ("mvk", None, False, "did you mean 'mkv'"),
        ("wav", "photos", True, "never replaced"),
        ("mkv", "there.mkv", False, "exists already"),
        ("mkv", seen, True, "the recording itself"),
    ):
        with pytest.raises(SessionError, match=said):
            export(seen, to, out, overwrite=overwrite)
    assert (tmp_path / "photos" / "me.txt").read_text() == "precious"
    with Recorder(tmp_path / "dull.mcap", source="test") as recorder:
        recorder.write(Moment(0.0))
    with pytest.raises(SessionError, match="neither pictures nor sound"):
        export(tmp_path / "dull.mcap", "mkv")
    with Recorder(tmp_path / "empty.mcap", source="test"):
        pass
    with pytest.raises(SessionError, match="no Moment"):
        export(tmp_path / "empty.mcap", "wav")
    assert not [path.name for path in tmp_path.iterdir() if "partial" in path.name or path.name == "dull.mkv"]
    assert export(seen, "mkv", "there.mkv", overwrite=True)[0].stat().st_size > 1000
