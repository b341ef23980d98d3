"""Real and generated media as Moments: every rate, size and depth on one clock, and every kind of bad file."""

from __future__ import annotations

import errno
import io
import os
import struct
import sys
import zlib
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import av
import cv2
import numpy as np
import pytest
import soundfile

from devmind.errors import SessionError
from devmind.moment import TICK_SAMPLES, Moment
from devmind.sessions import import_media, open_session, pictures
from devmind.sessions.media import media_moments
from devmind.sessions.messages import as_s16
from devmind.sessions.pictures import central_square, change_in_view, fovea, read_picture, sight_of
from devmind.worlds.nursery.pixels import pooled_change

RNG = np.random.default_rng(0)


def tone(rate_hz: int, channels: int, seconds: float = 1.0, hz: float = 440.0) -> np.ndarray:
    """A sine [n, C], each channel softer than the one before."""
    times_s = np.arange(int(rate_hz * seconds)) / rate_hz
    return np.stack([0.5 / (c + 1) * np.sin(2 * np.pi * hz * times_s) for c in range(channels)], axis=1)


def write_video(path: Path, frames: int = 30, fps: float = 30.0) -> Path:
    """Write a black picture that turns white in steps of grey, as motion JPEG, which every build of OpenCV writes."""
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"MJPG"), fps, (96, 64))
    for k in range(frames):
        writer.write(np.full((64, 96, 3), 255 * k // (frames - 1), np.uint8))
    writer.release()
    return path


def write_mp4(path: Path, seconds: float = 2.0, sound_from_s: float = 0.0) -> Path:
    """Write a flash and a click, both at 1.05 s: the picture turns white and the sound begins."""
    with av.open(str(path), "w") as container:
        pictures = container.add_stream("mpeg4", rate=20)
        pictures.width, pictures.height, pictures.pix_fmt = 64, 64, "yuv420p"
        sound = container.add_stream("aac", rate=44100, layout="mono")
        for k in range(int(seconds * 20)):
            grey = np.full((64, 64, 3), 255 if k / 20 >= 1.05 else 0, np.uint8)
            container.mux(pictures.encode(av.VideoFrame.from_ndarray(grey, "rgb24")))
        times_s = np.arange(int(sound_from_s * 44100), int(seconds * 44100)) / 44100
        wave = np.where(times_s >= 1.05, 0.5 * np.sin(2 * np.pi * 1000 * times_s), 0).astype(np.float32)
        for start in range(0, len(wave), 1024):
            frame = av.AudioFrame.from_ndarray(wave[None, start : start + 1024], "fltp", "mono")
            frame.rate, frame.pts = 44100, int(sound_from_s * 44100) + start
            container.mux(sound.encode(frame))
        container.mux(pictures.encode())
        container.mux(sound.encode())
    return path


def write_film(
    path: Path,
    codec: str = "mpeg4",
    sound: str = "aac",
    late_s: float = 0.0,
    colour: tuple[int, int, int] = (255, 255, 255),
    size: tuple[int, int] = (64, 64),
    pixels: str = "yuv420p",
    times_s: np.ndarray | None = None,
) -> Path:
    """Write 3 s of sound with a click at 1.55 s, and pictures from `late_s` on that turn to a colour at 1.55 s."""
    with av.open(str(path), "w") as container:
        shown = container.add_stream(codec, rate=20)
        shown.height, shown.width, shown.pix_fmt = *size, pixels
        shown.codec_context.time_base = Fraction(1, 1000)
        heard = container.add_stream(sound, rate=48000, layout="mono")
        for at_s in np.arange(late_s, 3, 0.05) if times_s is None else times_s:
            still = np.full((*size, 3), colour if at_s >= 1.5499 else (0, 0, 0), np.uint8)
            frame = av.VideoFrame.from_ndarray(still, "rgb24")
            frame.pts, frame.time_base = round(1000 * at_s), Fraction(1, 1000)
            container.mux(shown.encode(frame))
        clicks = np.where(np.arange(3 * 48000) >= 1.55 * 48000, 0.5, 0) * np.sin(np.arange(3 * 48000) / 8)
        for start in range(0, len(clicks), 960):
            wave = clicks[None, start : start + 960].astype(np.float32)
            block = av.AudioFrame.from_ndarray(wave, "fltp" if sound == "aac" else "flt", "mono")
            block.rate, block.pts = 48000, start
            container.mux(heard.encode(block))
        container.mux(shown.encode())
        container.mux(heard.encode())
    return path


def first_moments(moments: list[Moment]) -> tuple[int, int]:
    """The Moments of the flash and of the click."""
    bright = [k for k, m in enumerate(moments) if np.max(m.senses.get("sight", 0)) > 128]
    loud = [k for k, m in enumerate(moments) if np.max(m.senses.get("sound", 0)) > 0.2]
    return bright[0], loud[0]


def replays_equal(paths: object, out: Path) -> list[Moment]:
    moments = list(media_moments(paths))  # type: ignore[arg-type]
    imported = import_media(paths, out)  # type: ignore[arg-type]
    assert imported.ticks == len(moments)
    assert list(open_session(out)) == [(moment, None) for moment in moments]
    return moments


def test_a_video_gives_a_picture_and_its_change_every_tick(tmp_path: Path) -> None:
    moments = replays_equal(write_video(tmp_path / "a.avi"), tmp_path / "a.mcap")
    assert [m.time_s for m in moments] == [k / 10 for k in range(10)]
    assert [(m.first, m.last) for m in moments] == [(True, False)] + [(False, False)] * 8 + [(False, True)]
    brightness = np.array([m.senses["sight"].mean() for m in moments])  # type: ignore[union-attr]
    assert np.allclose(brightness, 255 / 29 * (3 * np.arange(10) + 2), atol=4), "the last of the tick's three frames"
    assert "periphery" not in moments[0].senses
    changes = [m.senses["periphery"] for m in moments[1:]]
    assert np.allclose(np.stack(changes)[:, 0, 3:13], 3 / 29, atol=0.02)


@pytest.mark.parametrize("fps", [5.0, 12.5, 29.97, 60.0])
def test_any_frame_rate_keeps_the_clock_and_repeats_no_picture(tmp_path: Path, fps: float) -> None:
    moments = list(media_moments(write_video(tmp_path / "a.avi", frames=int(2 * fps), fps=fps)))
    assert 19 <= len(moments) <= 20
    seen = [k for k, m in enumerate(moments) if "sight" in m.senses]
    assert seen == (list(range(0, 19, 2)) if fps == 5 else list(range(len(moments))))


def test_sound_and_pictures_of_a_video_share_the_clock(tmp_path: Path) -> None:
    moments = replays_equal(write_mp4(tmp_path / "a.mp4"), tmp_path / "a.mcap")
    assert len(moments) == 20
    bright = [m.senses["sight"].mean() > 128 for m in moments]  # type: ignore[union-attr]
    sound = np.concatenate([m.senses["sound"][0] for m in moments if "sound" in m.senses])
    assert bright.index(True) == 10
    assert np.flatnonzero(np.abs(sound) > 0.1)[0] / 16000 == pytest.approx(1.05, abs=0.005)


def test_ticks_before_a_late_sound_have_no_sound(tmp_path: Path) -> None:
    moments = list(media_moments(write_mp4(tmp_path / "a.mkv", sound_from_s=0.75)))
    heard = [k for k, m in enumerate(moments) if "sound" in m.senses]
    assert heard == list(range(8, 20)), "the tick in which it begins is not filled up with invented silence"
    sound = np.concatenate([moments[k].senses["sound"][0] for k in heard])
    assert 0.8 + np.flatnonzero(np.abs(sound) > 0.1)[0] / 16000 == pytest.approx(1.05, abs=0.005)


def test_without_pyav_a_video_is_imported_without_sound_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_mp4(tmp_path / "a.mp4")
    monkeypatch.setitem(sys.modules, "av", None)
    imported = import_media(path, tmp_path / "a.mcap")
    session = open_session(tmp_path / "a.mcap")
    assert session.senses.keys() == {"sight", "periphery"}
    (sentence,) = imported.warnings
    assert "devmind[video]" in sentence
    assert [note.data for note in session.notes if note.kind == "warning"] == [sentence]


@pytest.mark.parametrize("rate_hz", [8000, 16000, 44100, 48000])
@pytest.mark.parametrize("channels", [1, 2])
def test_sound_of_any_rate_is_resampled_to_16_khz(tmp_path: Path, rate_hz: int, channels: int) -> None:
    soundfile.write(tmp_path / "a.wav", tone(rate_hz, channels, 1.05), rate_hz, subtype="PCM_16")
    moments = replays_equal(tmp_path / "a.wav", tmp_path / "a.mcap")
    assert len(moments) == 10, "the last half tick is dropped, not padded"
    sounds = [m.senses["sound"] for m in moments]
    assert {(s.shape, str(s.dtype)) for s in sounds} == {((channels, TICK_SAMPLES), "float32")}  # type: ignore[union-attr]
    assert all(as_s16(s) is not None for s in sounds), "recorded as plain 16-bit PCM"  # type: ignore[arg-type]
    got = np.concatenate(sounds, axis=1)
    wanted = tone(16000, channels).T
    assert np.abs(got - wanted)[:, 200:-200].max() < 2e-3
    if rate_hz == 16000:
        assert np.abs(got - wanted).max() <= 1 / 32768


@pytest.mark.parametrize(
    ("suffix", "subtype"), [("flac", None), ("ogg", None), ("mp3", None), ("wav", "FLOAT"), ("aiff", None)]
)
def test_every_codec_of_libsndfile_can_be_imported(tmp_path: Path, suffix: str, subtype: str | None) -> None:
    soundfile.write(tmp_path / f"a.{suffix}", tone(44100, 2, 0.5), 44100, subtype=subtype)
    moments = replays_equal(tmp_path / f"a.{suffix}", tmp_path / "a.mcap")
    assert 4 <= len(moments) <= 5


def test_loud_float_sound_is_clipped_and_four_channels_are_mixed(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", np.tile([[4.0, 2.0, 1.0, 1.0]], (1600, 1)), 16000, subtype="FLOAT")
    (moment,) = media_moments(tmp_path / "a.wav")
    assert moment.senses["sound"].shape == (1, 1600)  # type: ignore[union-attr]
    assert moment.senses["sound"].max() == 32767 / 32768  # type: ignore[union-attr]


@pytest.mark.parametrize("shape", [(300, 200, 3), (64, 64, 3), (28, 28), (8, 8, 3), (8, 400, 4), (33, 47, 1)])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_pictures_of_any_size_colour_and_depth_are_imported(
    tmp_path: Path, shape: tuple[int, ...], dtype: type
) -> None:
    for name in ("b10.png", "b9.png"):
        cv2.imwrite(str(tmp_path / name), RNG.integers(0, np.iinfo(dtype).max, shape, dtype))
    moments = replays_equal(tmp_path, tmp_path.parent / f"{tmp_path.name}.mcap")
    assert [m.senses["sight"].shape for m in moments] == [(64, 64, 3)] * 2  # type: ignore[union-attr]
    assert np.array_equal(moments[0].senses["sight"], sight_of(read_picture(tmp_path / "b9.png"))), "9 comes before 10"


def png_header(width: int, height: int) -> bytes:
    """A picture whose header declares this size, without data."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")


@pytest.mark.parametrize("size", [(8001, 8000), (10_000, 10_000), (20_000, 20_000), (60_000, 60_000)])
def test_huge_pictures_are_refused_by_their_header(
    tmp_path: Path, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.png").write_bytes(png_header(*size))
    monkeypatch.setattr(cv2, "imdecode", lambda *_: pytest.fail("it was decoded"))
    with pytest.raises(SessionError, match=r"a\.png' has more than 64 megapixels; give a smaller one"):
        next(media_moments(tmp_path / "a.png"))


@pytest.mark.parametrize("shape", [(1, 1, 3), (7, 400, 3), (400, 7)])
@pytest.mark.parametrize("suffix", ["png", "jpg", "bmp"])
def test_tiny_pictures_are_refused(tmp_path: Path, shape: tuple[int, ...], suffix: str) -> None:
    cv2.imwrite(str(tmp_path / f"a.{suffix}"), np.zeros(shape, np.uint8))
    with pytest.raises(SessionError, match=rf"has {shape[1]}x{shape[0]} pixels; at least 8x8"):
        next(media_moments(tmp_path / f"a.{suffix}"))


def test_read_pictures_keep_their_colours(tmp_path: Path) -> None:
    orange, path = np.array([255, 128, 0], np.uint8), tmp_path / "a.png"
    bgr = np.tile(orange[::-1], (8, 8, 1))
    for picture, wanted in (
        (bgr, orange),
        (bgr.astype(np.uint16) * 257, orange),
        (np.dstack([bgr, np.full((8, 8), 255, np.uint8)]), orange),
        (np.dstack([bgr, np.zeros((8, 8), np.uint8)]), [255, 255, 255]),
        (np.full((8, 8), 90, np.uint8), [90, 90, 90]),
    ):
        cv2.imwrite(str(path), picture)
        assert (read_picture(path) == wanted).all()


def test_the_fovea_is_the_middle_third_of_a_frame_and_the_whole_square_of_a_drawing() -> None:
    frame = np.zeros((50, 150, 3), np.uint8)
    frame[:, 50:100] = 200
    assert (fovea(frame) == 200).all()
    assert (central_square(frame) == 200).all()
    tall = frame.transpose(1, 0, 2)
    assert (central_square(tall) == 200).all()
    assert (fovea(tall) == 200).all()
    assert fovea(np.pad(frame[:, 50:100], ((50, 50), (50, 50), (0, 0)))).min() == 200


def test_pictures_are_taken_whole_and_frames_by_the_fovea(tmp_path: Path) -> None:
    square = np.zeros((96, 96, 3), np.uint8)
    square[:, 48:] = 200
    assert (sight_of(square)[:, 31], sight_of(square)[:, 32]) == pytest.approx((0, 200))
    wide = np.zeros((60, 90, 3), np.uint8)
    wide[:, 15:75] = 200
    wide[:, 30:60] = 100
    assert (sight_of(wide) == 100).all()
    cv2.imwrite(str(tmp_path / "a.png"), wide)
    (alone,) = media_moments(tmp_path / "a.png")
    assert sorted(np.unique(alone.senses["sight"])) != [100]  # the thing in it, up to the edges of the square
    assert (alone.senses["sight"][:, 0] == 200).all()  # type: ignore[index]
    cv2.imwrite(str(tmp_path / "b.png"), wide)
    assert all((one.senses["sight"] == 100).all() for one in media_moments([tmp_path / "a.png", tmp_path / "b.png"]))


def test_change_in_view_gives_place_and_amount() -> None:
    before, after = np.full((160, 320, 3), 100, np.uint8), np.full((160, 320, 3), 100, np.uint8)
    after[20:40, 300:320] = 151
    change = change_in_view(after, before)
    assert (change.shape, change.dtype) == ((1, 16, 16), np.float32)
    assert change[0, 5, 15] == pytest.approx(51 / 255, abs=1e-5)
    assert change.sum() == pytest.approx(51 / 255, abs=1e-5)
    assert np.array_equal(change, change_in_view(before, after))
    assert change_in_view(before, cv2.resize(before, (33, 17))).max() < 1e-5, "two sizes of the same view"
    black, white = np.zeros_like(before), np.full_like(before, 255)
    assert np.allclose(change_in_view(black, white)[0, 4:12], 1), "a frame of 2:1 fills half of the wide view's rows"
    assert change_in_view(black, white).sum() == 8 * 16


def test_motion_within_a_cell_is_a_change_as_in_the_nursery() -> None:
    stripes = np.tile(np.repeat(np.array([0, 0, 255, 255], np.uint8), 2), 12)
    before = np.broadcast_to(stripes[None, :, None], (96, 96, 3))
    after = np.roll(before, 4, axis=1)
    grey = [np.ascontiguousarray(frame[None, ::2, ::2, 0]) for frame in (after, before)]
    in_the_nursery = np.empty((1, 1, 16, 16), np.float32)
    pooled_change(*grey, in_the_nursery)
    change = change_in_view(after, before)
    assert change.min() > 0.5, "averaged over a part first, much of it would cancel out"
    assert np.allclose(change, in_the_nursery[0], atol=0.01)


def test_several_files_become_several_episodes(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", tone(16000, 1, 0.2), 16000)
    (tmp_path / "pictures").mkdir()
    for k in range(3):
        cv2.imwrite(str(tmp_path / "pictures" / f"{k}.png"), RNG.integers(0, 255, (9, 9, 3), np.uint8))
    (tmp_path / "pictures" / "notes.txt").write_text("not a picture")
    paths = [tmp_path / "a.wav", tmp_path / "pictures", *sorted((tmp_path / "pictures").glob("*.png"))[:2]]
    imported = import_media(paths, tmp_path / "a.mcap")
    session = open_session(tmp_path / "a.mcap")
    assert session.episodes() == [range(2), range(2, 5), range(5, 7)]
    assert [(n.tick, n.data["kind"]) for n in session.notes if n.kind == "media"] == [
        (0, "sound"),
        (2, "pictures"),
        (5, "pictures"),
    ]
    assert "1 of the 4 files" in imported.warnings[0]


def test_another_tick_rate_gives_other_ticks(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", tone(16000, 1), 16000)
    import_media(tmp_path / "a.wav", tmp_path / "a.mcap", tick_hz=20)
    session = open_session(tmp_path / "a.mcap")
    assert (len(session), session.tick_hz, session.duration_s) == (20, 20, 1.0)
    assert session[0][0].senses["sound"].shape == (1, 800)  # type: ignore[union-attr]
    with pytest.raises(SessionError, match="tick_hz must divide"):
        import_media(tmp_path / "a.wav", tmp_path / "b.mcap", tick_hz=30)


def make_cut_png(path: Path) -> None:
    path.write_bytes(cv2.imencode(".png", RNG.integers(0, 255, (50, 50, 3), np.uint8))[1].tobytes()[:4000])


def make_odd_codec(path: Path) -> None:
    data = write_video(path.with_suffix(".avi")).read_bytes()
    path.write_bytes(data.replace(b"MJPG", b"zzzz"))
    path.with_suffix(".avi").unlink()


BAD: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (lambda path: None, "No such file"),
    "empty": (lambda path: path.write_bytes(b""), "is empty"),
    "text": (lambda path: path.write_text("hello " * 100), "no media file"),
    "noise": (lambda path: path.write_bytes(RNG.bytes(5000)), "no media file"),
    "odd_codec": (make_odd_codec, "codec is unknown"),
    "cut_mp4": (lambda path: path.write_bytes(write_mp4(path.with_suffix(".mp4")).read_bytes()[:3000]), "damaged"),
    "cut_png": (make_cut_png, "damaged or cut"),
    "only_a_header": (lambda path: path.write_bytes(b"\xff\xd8\xff\xe0\x00\x10JFIF"), "damaged"),
    "too_short": (lambda path: soundfile.write(path, np.zeros(100), 16000, format="WAV"), "shorter than one tick"),
    "empty_folder": (lambda path: path.mkdir(), "no pictures in the folder"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_files_raise_one_sentence_and_leave_nothing(tmp_path: Path, kind: str) -> None:
    make, words = BAD[kind]
    path, out = tmp_path / "media", tmp_path / "out" / "a.mcap"
    make(path)
    soundfile.write(tmp_path / "good.wav", tone(16000, 1, 0.3), 16000)
    with pytest.raises(SessionError, match=words) as raised:
        import_media([tmp_path / "good.wav", path], out)
    assert str(path) in str(raised.value)
    assert "\n" not in str(raised.value)
    assert not out.parent.exists() or not list(out.parent.iterdir())


@pytest.mark.parametrize("suffix", ["wav", "aiff", "flac"])
def test_cut_sound_is_read_to_its_end_and_reported(tmp_path: Path, suffix: str) -> None:
    soundfile.write(tmp_path / f"a.{suffix}", RNG.uniform(-0.5, 0.5, 32000), 16000, subtype="PCM_16")
    whole = list(media_moments(tmp_path / f"a.{suffix}"))
    data = (tmp_path / f"a.{suffix}").read_bytes()
    (tmp_path / "cut").write_bytes(data[: len(data) // 2])
    warnings: list[str] = []
    moments = list(media_moments(tmp_path / "cut", warnings=warnings))
    assert 5 <= len(moments) < 20
    assert all(np.array_equal(m.senses["sound"], w.senses["sound"]) for m, w in zip(moments[:-1], whole, strict=False))
    assert len(warnings) == 1
    assert "only in part" in warnings[0]


def test_a_cut_video_is_read_to_its_end_and_reported(tmp_path: Path) -> None:
    data = write_video(tmp_path / "a.avi", frames=60).read_bytes()
    (tmp_path / "cut.avi").write_bytes(data[: len(data) // 2])
    imported = import_media(tmp_path / "cut.avi", tmp_path / "a.mcap")
    assert 5 <= imported.ticks <= 12
    assert any("of 60 pictures" in sentence for sentence in imported.warnings)


def test_an_existing_session_is_replaced_only_on_request(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", tone(16000, 1, 0.3), 16000)
    out = tmp_path / "a.mcap"
    out.write_bytes(b"precious")
    with pytest.raises(SessionError, match="exists already"):
        import_media(tmp_path / "a.wav", out)
    with pytest.raises(SessionError, match="No such file"):
        import_media(tmp_path / "b.wav", out, overwrite=True)
    assert out.read_bytes() == b"precious"
    assert import_media(tmp_path / "a.wav", out, overwrite=True).ticks == 3
    assert len(open_session(out)) == 3


def test_a_full_disk_leaves_nothing_and_names_the_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    soundfile.write(tmp_path / "a.wav", tone(16000, 1, 0.3), 16000)

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SessionError, match=r"a\.mcap' cannot be written any further: the disk .* is full") as raised:
        import_media(tmp_path / "a.wav", tmp_path / "a.mcap")
    assert "safe" not in str(raised.value)
    assert [path.name for path in tmp_path.iterdir()] == ["a.wav"]


def test_replays_of_real_videos_and_sounds_are_equal(tmp_path: Path, data_folder: Path) -> None:
    videos = sorted(data_folder.glob("video/*.mp4"), key=lambda path: path.stat().st_size)[:3]
    sounds = [path for kind in ("sounds", "speech") for path in sorted(data_folder.glob(f"{kind}/**/*.wav"))[:1]]
    for k, path in enumerate([*videos, *sounds]):
        moments = replays_equal(path, tmp_path / f"{k}.mcap")
        assert len(moments) >= 3
        assert all(m.senses for m in moments[:-1])
        if path.suffix == ".mp4":
            assert all("sight" in m.senses for m in moments)
            assert max(m.senses["periphery"].max() for m in moments[1:]) > 0.01, "something moves in a real video"  # type: ignore[union-attr]


@pytest.mark.parametrize(("name", "codec", "sound"), [
    ("a.mkv", "mpeg4", "aac"), ("a.webm", "libvpx", "libopus"), ("a.mp4", "mpeg4", "aac"), ("a.ts", "libx264", "aac"),
])  # fmt: skip
@pytest.mark.parametrize("late_s", [0.0, 0.7])
def test_sound_of_a_film_whose_pictures_start_late_is_not_early(
    tmp_path: Path, name: str, codec: str, sound: str, late_s: float
) -> None:
    """OpenCV counts from another zero in Matroska: a click of 1.55 s came in the Moment of 0.85 s."""
    warnings: list[str] = []
    film = write_film(tmp_path / name, codec, sound, late_s)
    moments = list(media_moments(film, warnings=warnings))
    flash, click = first_moments(moments)
    assert flash == int(10 * (1.55 - late_s) + 1e-6)
    assert abs(flash - click) <= 1, "AAC and Opus begin some milliseconds early"
    assert not warnings


def test_an_av1_film_has_its_pictures(tmp_path: Path) -> None:
    film = write_film(tmp_path / "a.mp4", "libsvtav1", colour=(200, 30, 30))
    warnings: list[str] = []
    moments = list(media_moments(film, warnings=warnings))
    assert first_moments(moments) == (15, 15)
    assert np.abs(moments[-1].senses["sight"].astype(int) - (200, 30, 30)).max() < 8  # type: ignore[union-attr]
    assert not warnings


@pytest.mark.parametrize("with_pyav", [True, False])
@pytest.mark.parametrize("name", ["a.mkv", "a.mp4"])
def test_a_variable_rate_is_no_lack_of_pictures(
    tmp_path: Path, name: str, with_pyav: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container that gives no number of pictures has a guess: "59 of 121 pictures could be read"."""
    times_s = np.array([0, 0.05, 0.1, 0.15, 1.0, 1.05, 1.6, 2.9])
    film = write_film(tmp_path / name, times_s=times_s)
    if not with_pyav:
        monkeypatch.setitem(sys.modules, "av", None)
    warnings: list[str] = []
    moments = list(media_moments(film, warnings=warnings))
    assert [k for k, m in enumerate(moments) if "sight" in m.senses] == [0, 1, 10, 16, 29]
    assert [sentence for sentence in warnings if "devmind[video]" not in sentence] == []


def test_a_cut_film_without_a_number_of_pictures_is_reported_by_its_time(tmp_path: Path) -> None:
    data = write_film(tmp_path / "a.mkv").read_bytes()
    (tmp_path / "cut.mkv").write_bytes(data[: len(data) // 2])
    warnings: list[str] = []
    assert 5 <= len(list(media_moments(tmp_path / "cut.mkv", warnings=warnings))) < 29
    assert any("ends early" in sentence and "of 3.0 s" in sentence for sentence in warnings)


def aac(path: Path, rate_hz: int, layout: str, hz: float) -> bytes:
    """One second of a tone as a bare AAC stream."""
    channels = 2 if layout == "stereo" else 1
    with av.open(str(path), "w", format="adts") as container:
        stream = container.add_stream("aac", rate=rate_hz, layout=layout)
        wave = np.ascontiguousarray(tone(rate_hz, channels, 1.0, hz).T.astype(np.float32))
        for start in range(0, rate_hz, 1024):
            frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(wave[:, start : start + 1024]), "fltp", layout)
            frame.rate, frame.pts = rate_hz, start
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path.read_bytes()


@pytest.mark.parametrize("turn", [1, -1])
def test_sound_that_changes_its_channels_and_rate_is_read_whole(tmp_path: Path, turn: int) -> None:
    """As broadcasts do at an advertisement; the time of a bare stream follows from the parts' lengths."""
    parts = [aac(tmp_path / "a.aac", 44100, "mono", 440), aac(tmp_path / "b.aac", 48000, "stereo", 1000)][::turn]
    (tmp_path / "changed.aac").write_bytes(b"".join(parts))
    warnings: list[str] = []
    moments = list(media_moments(tmp_path / "changed.aac", warnings=warnings))
    assert 20 <= len(moments) <= 21
    assert not warnings
    sounds = [m.senses["sound"] for m in moments]
    assert {sound.shape for sound in sounds} == {(1 if turn > 0 else 2, TICK_SAMPLES)}  # type: ignore[union-attr]
    pitches = [np.abs(np.fft.rfft(sound[0])).argmax() * 10 for sound in sounds]  # type: ignore[index]
    assert [pitches[5], pitches[15]] == [440, 1000][::turn]


def test_a_broadcast_whose_sound_changes_keeps_pictures_and_sound(tmp_path: Path) -> None:
    for name, layout in (("a.ts", "mono"), ("b.ts", "stereo")):
        with av.open(str(tmp_path / name), "w") as container:
            shown, heard = (
                container.add_stream("mpeg2video", rate=25),
                container.add_stream("aac", 44100, layout=layout),
            )
            shown.width = shown.height = 64
            shown.pix_fmt = "yuv420p"
            for k in range(25):
                frame = av.VideoFrame.from_ndarray(np.full((64, 64, 3), 9 * k, np.uint8), "rgb24")
                frame.pts, frame.time_base = k + 25 * (name == "b.ts"), Fraction(1, 25)
                container.mux(shown.encode(frame))
            for start in range(0, 44100, 1024):
                wave = np.zeros((2 if layout == "stereo" else 1, 1024), np.float32) + 0.1
                block = av.AudioFrame.from_ndarray(wave, "fltp", layout)
                block.rate, block.pts = 44100, start + 44100 * (name == "b.ts")
                container.mux(heard.encode(block))
            container.mux(shown.encode())
            container.mux(heard.encode())
    (tmp_path / "c.ts").write_bytes((tmp_path / "a.ts").read_bytes() + (tmp_path / "b.ts").read_bytes())
    moments = list(media_moments(tmp_path / "c.ts"))
    assert sum("sight" in m.senses for m in moments) >= 19
    assert sum("sound" in m.senses for m in moments) >= 17
    assert {m.senses["sound"].shape for m in moments if "sound" in m.senses} == {(1, TICK_SAMPLES)}  # type: ignore[union-attr]


@pytest.mark.parametrize(("lost", "kept"), [("sound", "sight"), ("sight", "sound")])
def test_a_film_keeps_pictures_without_sound_and_sound_without_pictures(tmp_path: Path, lost: str, kept: str) -> None:
    """A codec that nobody decodes, as the spatial sound of new phones, costs its own track alone."""
    film = write_film(tmp_path / "a.mov", "mjpeg", "pcm_f32le", pixels="yuvj420p")
    codec = b"fl32" if lost == "sound" else b"jpeg"
    assert codec in film.read_bytes()
    film.write_bytes(film.read_bytes().replace(codec, b"zzzz"))
    imported = import_media(film, tmp_path / "a.mcap")
    senses = open_session(tmp_path / "a.mcap").senses
    assert kept in senses
    assert lost not in senses
    (sentence,) = imported.warnings
    assert "codec is unknown here" in sentence


def test_damaged_sound_costs_a_film_no_picture(tmp_path: Path) -> None:
    film = write_film(tmp_path / "a.mkv")
    with av.open(str(film)) as container:
        packets = [bytes(p) for p in container.demux(audio=0) if p.size > 40]
    data = film.read_bytes()
    for packet in packets[10:20]:
        data = data.replace(packet, bytes(len(packet)))
    film.write_bytes(data)
    moments = list(media_moments(film))
    assert sum("sight" in m.senses for m in moments) >= 29
    assert sum("sound" in m.senses for m in moments) >= 20


def test_a_sound_file_in_a_container_lacks_no_pictures(tmp_path: Path) -> None:
    """Of a voice memo it was said that no picture could be read, as if it were damaged."""
    with av.open(str(tmp_path / "memo.m4a"), "w", format="ipod") as container:
        stream = container.add_stream("aac", rate=16000, layout="mono")
        wave = tone(16000, 1).T.astype(np.float32)
        for start in range(0, 16000, 1024):
            frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(wave[:, start : start + 1024]), "fltp", "mono")
            frame.rate, frame.pts = 16000, start
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    imported = import_media(tmp_path / "memo.m4a", tmp_path / "a.mcap")
    assert (imported.ticks, imported.warnings) == (10, ())


@pytest.mark.parametrize(("pixels", "codec", "size"), [
    ("yuv420p10le", "libx265", (64, 96)), ("yuv444p", "libx264", (63, 65)), ("yuv420p10le", "libx264", (96, 64)),
])  # fmt: skip
def test_films_of_ten_bits_and_odd_sides_keep_their_colours(
    tmp_path: Path, pixels: str, codec: str, size: tuple[int, int]
) -> None:
    film = write_film(tmp_path / "a.mkv", codec, colour=(40, 180, 90), size=size, pixels=pixels)
    *_, (_, picture) = pictures.video_ticks(film, 10, print)
    assert picture.shape == (*size, 3)
    assert np.abs(picture.astype(int) - (40, 180, 90)).max() < 12


MATRICES = {
    "turned right": (0, 1, -1, 0, lambda picture: np.rot90(picture, -1)),
    "turned left": (0, -1, 1, 0, np.rot90),
    "upside down": (-1, 0, 0, -1, lambda picture: np.rot90(picture, 2)),
    "mirrored": (-1, 0, 0, 1, lambda picture: picture[:, ::-1]),
    "not turned": (1, 0, 0, 1, lambda picture: picture),
}


@pytest.mark.parametrize("kind", MATRICES)
def test_a_film_is_turned_as_its_display_matrix_says(tmp_path: Path, kind: str) -> None:
    *numbers, upright = MATRICES[kind]
    quarters = np.zeros((64, 96, 3), np.uint8)
    quarters[:32, :48], quarters[:32, 48:], quarters[32:, :48] = (200, 0, 0), (0, 200, 0), (0, 0, 200)
    film = tmp_path / "a.mp4"
    with av.open(str(film), "w") as container:
        stream = container.add_stream("mpeg4", rate=10)
        stream.height, stream.width, stream.pix_fmt = 64, 96, "yuv420p"
        for _ in range(3):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(quarters, "rgb24")))
        container.mux(stream.encode())
    data = bytearray(film.read_bytes())
    a, b, c, d = (n << 16 for n in numbers)
    at = data.index(b"tkhd") + 44
    data[at : at + 36] = struct.pack(">9i", a, b, 0, c, d, 0, 0, 0, 1 << 30)
    film.write_bytes(data)
    _, picture = next(iter(pictures.video_ticks(film, 10, print)))
    assert picture.shape == upright(quarters).shape
    assert np.abs(picture.astype(int) - upright(quarters)).mean() < 12


def box(kind: bytes, *parts: bytes) -> bytes:
    content = b"".join(parts)
    return struct.pack(">I4s", 8 + len(content), kind) + content


def heic(
    path: Path,
    picture: np.ndarray,
    columns: int = 1,
    rows: int = 1,
    properties: tuple[bytes, ...] = (),
    kind: bytes = b"grid",
    sides: tuple[int, int] | None = None,
) -> Path:
    """Write a picture [H, W, 3] as phones do: a grid of tiles, or one coded item where it has one tile."""
    height, width = (side // n for side, n in zip(picture.shape[:2], (rows, columns), strict=True))
    tiles, configuration = [], b""
    for k in range(rows * columns):
        top, left = k // columns * height, k % columns * width
        with io.BytesIO() as file:
            with av.open(file, "w", format="mp4") as container:
                stream = container.add_stream("libx265", rate=1, options={"x265-params": "log-level=none:crf=10"})
                stream.height, stream.width, stream.pix_fmt = height, width, "yuv420p"
                tile = np.ascontiguousarray(picture[top : top + height, left : left + width])
                frames = (av.VideoFrame.from_ndarray(tile, "rgb24"), None)
                for packet in (packet for frame in frames for packet in stream.encode(frame)):
                    packet.pts = packet.dts = 0
                    container.mux(packet)
            data = file.getvalue()
        at = data.index(b"hvcC") - 4
        configuration = data[at : at + struct.unpack_from(">I", data, at)[0]]
        at = data.index(b"mdat")
        tiles.append(data[at + 4 : at - 4 + struct.unpack_from(">I", data, at - 4)[0]])
    grid = len(tiles) > 1
    high, wide = sides or picture.shape[:2]
    whole = struct.pack(">BBBBHH", 0, 0, rows - 1, columns - 1, wide, high)
    ids = list(range(1, len(tiles) + 1))
    kinds = [(k, b"hvc1") for k in ids] + ([(99, kind)] if grid else [])
    primary = 99 if grid else 1
    sizes = [box(b"ispe", bytes(4), struct.pack(">II", *size)) for size in ((width, height), (wide, high))]
    # Properties by number: 1 hvcC, 2 size of a tile, 3 size of the whole, then the given ones.
    own = [2 if not grid else 3, *range(4, 4 + len(properties))]
    uses = [(k, [1, 2]) for k in ids if grid] + [(primary, own if grid else [1, *own])]
    ipma = struct.pack(">II", 0, len(uses)) + b"".join(
        struct.pack(">HB", k, len(numbers)) + bytes(numbers) for k, numbers in uses
    )

    def meta(places: list[int]) -> bytes:
        iloc = struct.pack(">BBHBBH", 1, 0, 0, 0x44, 0, len(kinds))
        for k, place, tile in zip(ids, places, tiles, strict=True):
            iloc += struct.pack(">HHHHII", k, 0, 0, 1, place, len(tile))
        if grid:
            iloc += struct.pack(">HHHHII", 99, 1, 0, 1, 0, len(whole))
        infe = [box(b"infe", struct.pack(">BBHHH4sB", 2, 0, 0, k, 0, what, 0)) for k, what in kinds]
        refs = box(b"dimg", struct.pack(f">HH{len(ids)}H", 99, len(ids), *ids)) if grid else b""
        return box(
            b"meta", bytes(4),
            box(b"hdlr", bytes(8), b"pict", bytes(13)),
            box(b"pitm", struct.pack(">IH", 0, primary)),
            box(b"iloc", iloc),
            box(b"iinf", struct.pack(">IH", 0, len(infe)), *infe),
            box(b"iref", bytes(4), refs),
            box(b"iprp", box(b"ipco", configuration, *sizes, *properties), box(b"ipma", ipma)),
            box(b"idat", whole),
        )  # fmt: skip

    head = box(b"ftyp", b"heic", bytes(4), b"mif1heic")
    at, places = len(head) + len(meta([0] * len(tiles))) + 8, []
    for tile in tiles:
        places.append(at)
        at += len(tile)
    path.write_bytes(head + meta(places) + box(b"mdat", *tiles))
    return path


def quarters(height: int, width: int) -> np.ndarray:
    picture = np.zeros((height, width, 3), np.uint8)
    picture[: height // 2, : width // 2], picture[: height // 2, width // 2 :] = (200, 30, 30), (30, 160, 30)
    picture[height // 2 :, : width // 2], picture[height // 2 :, width // 2 :] = (30, 30, 200), (220, 200, 30)
    return picture


IROT, IMIR = box(b"irot", b"\1"), box(b"imir", b"\1")
CLAP = box(b"clap", struct.pack(">8i", 100, 1, 60, 1, 10, 1, -20, 1))


@pytest.mark.parametrize(("properties", "upright"), [
    ((), lambda picture: picture),
    ((IROT,), np.rot90),
    ((IMIR,), lambda picture: picture[:, ::-1]),
    ((CLAP,), lambda picture: picture[14:74, 56:156]),
    ((IROT, IMIR), lambda picture: np.rot90(picture)[:, ::-1]),
])  # fmt: skip
@pytest.mark.parametrize("tiles", [(1, 1), (3, 2)])
def test_a_heic_is_read_whole_upright_and_cut_as_it_says(
    tmp_path: Path, tiles: tuple[int, int], properties: tuple[bytes, ...], upright: Callable[[np.ndarray], np.ndarray]
) -> None:
    """Of a phone's photo the first tile alone was taught and named, without a word."""
    picture = quarters(128, 192)
    photo = heic(tmp_path / "a.heic", picture, *tiles, properties)
    assert pictures.is_picture(photo)
    read = read_picture(photo)
    assert read.shape == upright(picture).shape
    assert np.abs(read.astype(int) - upright(picture)).mean() < 6
    (moment,) = media_moments(photo)
    assert np.array_equal(moment.senses["sight"], sight_of(central_square(read))), "a photograph, no camera's frame"


def test_a_heic_whose_tiles_reach_beyond_its_sides_is_cut_to_them(tmp_path: Path) -> None:
    picture = quarters(128, 192)
    read = read_picture(heic(tmp_path / "a.heic", picture, 3, 2, sides=(120, 180)))
    assert read.shape == (120, 180, 3)
    assert np.abs(read.astype(int) - picture[:120, :180]).mean() < 6


def test_a_folder_of_heic_photos_is_imported(tmp_path: Path) -> None:
    for k in range(2):
        heic(tmp_path / f"{k}.HEIC", quarters(128, 128), 2, 2)
    assert [m.senses["sight"].shape for m in media_moments(tmp_path)] == [(64, 64, 3)] * 2  # type: ignore[union-attr]


@pytest.mark.parametrize("kind", ["an overlay", "a lost tile", "too few tiles", "no place"])
def test_a_heic_that_cannot_be_read_whole_is_refused(tmp_path: Path, kind: str) -> None:
    photo = heic(tmp_path / "a.heic", quarters(128, 192), 3, 2, kind=b"iovl" if kind == "an overlay" else b"grid")
    data = photo.read_bytes()
    if kind == "a lost tile":
        data = data.replace(struct.pack(">HHH", 4, 5, 6), struct.pack(">HHH", 4, 5, 77))
    elif kind == "too few tiles":
        data = data.replace(struct.pack(">BBBBHH", 0, 0, 1, 2, 192, 128), struct.pack(">BBBBHH", 0, 0, 1, 9, 192, 128))
    elif kind == "no place":
        data = data.replace(b"iloc", b"free")
    photo.write_bytes(data)
    with pytest.raises(SessionError, match=r"a\.heic' is damaged, or a HEIC that cannot be read .*; save it as JPEG"):
        list(media_moments(photo))


def test_without_pyav_a_heic_is_refused_and_no_tile_taken_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    photo = heic(tmp_path / "a.heic", quarters(128, 192), 3, 2)
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(SessionError, match=r"devmind\[video\]'\); or save it as JPEG"):
        list(media_moments(photo))


@pytest.mark.parametrize("orientation", range(1, 9))
def test_an_avif_is_turned_as_a_jpeg_is(tmp_path: Path, orientation: int) -> None:
    from PIL import Image

    read = []
    for name in ("a.jpg", "a.avif"):
        exif = Image.Exif()
        exif[0x112] = orientation
        Image.fromarray(quarters(64, 96)).save(tmp_path / name, exif=exif, quality=95)
        read.append(read_picture(tmp_path / name).astype(int))
    assert read[0].shape == read[1].shape == ((64, 96, 3) if orientation < 5 else (96, 64, 3))
    assert np.abs(read[0] - read[1]).mean() < 4


DOCUMENTS = {
    "talk.TextGrid": ('File type = "ooTextFile"\nObject class = "TextGrid"\n'.encode("utf-16"), "transcript of Praat"),
    "talk.eaf": (b'<?xml version="1.0"?><ANNOTATION_DOCUMENT/>', "transcript of ELAN"),
    "talk.cha": (b"@UTF8\n@Begin\n*CHI:\tmore cookie .\n@End\n", "transcript of CHAT"),
    "talk.opf": (b"PK\x03\x04" + bytes(40), "transcript of Datavyu"),
    "a.hdf5": (b"\x89HDF\r\n\x1a\n" + bytes(90), "HDF5"),
    "a.tfrecord": (struct.pack("<QI", 5, 1) + b"\n\x03abc" + bytes(4), "TFRecord"),
    "a.csv": (b"time,open\n1,2\n", "table"),
    "a.json": (b'{"a": 1}', "JSON"),
    "a.pdf": (b"%PDF-1.7\n\xe2\xe3\xcf\xd3\n", "PDF"),
    "notes": ("Müller".encode("latin-1"), "text"),
    "list.m3u8": (b"#EXTM3U\n#EXTINF:1,\nfilm.ts\n", "text"),
    "list.txt": (b"ffconcat version 1.0\nfile film.mp4\n", "text"),
}


@pytest.mark.parametrize("with_pyav", [True, False])
@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_is_not_told_to_become_an_mp4(
    tmp_path: Path, name: str, with_pyav: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_film(tmp_path / "film.mp4")
    data, what = DOCUMENTS[name]
    (tmp_path / name).write_bytes(data)
    if not with_pyav:
        monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(SessionError, match=rf"is an? .*{what}|is text") as raised:
        list(media_moments(tmp_path / name))
    assert "mp4" not in str(raised.value).replace(str(tmp_path), "")
    assert "text/*.txt" in str(raised.value)


def test_a_playlist_opens_no_other_file(tmp_path: Path) -> None:
    """FFmpeg would read what it names; a film is a container of its own."""
    write_film(tmp_path / "film.mp4")
    (tmp_path / "list").write_bytes(b"ffconcat version 1.0\nfile film.mp4\n")
    with pytest.raises(av.error.FFmpegError):
        pictures.open_film(tmp_path / "list")
    with av.open(str(tmp_path / "list"), format="concat") as container:
        assert container.streams.video, "without the list of formats it would"
