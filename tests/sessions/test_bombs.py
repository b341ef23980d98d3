"""Decompression bombs: each is refused in seconds, within the memory that its file size allows."""

from __future__ import annotations

import struct
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
import pytest
import zstandard
from mcap.writer import CompressionType, Writer

from devmind.bounds import memory_bytes
from devmind.errors import SessionError
from devmind.moment import Moment
from devmind.sessions import import_any
from devmind.sessions.lerobot.layout import fill_template
from devmind.sessions.lerobot.reading import inside
from devmind.sessions.mcap_file import METADATA_NAME
from devmind.sessions.messages import decode
from devmind.sessions.metadata import FORMAT
from devmind.sessions.pictures import decode_picture, from_jpeg
from devmind.sessions.recorder import Recorder
from devmind.sessions.schemas import ARRAY, message_class


def chunk(compressed: bytes, declared: int) -> bytes:
    """An MCAP chunk record."""
    body = struct.pack("<QQQII", 0, 0, declared, 0, 4) + b"zstd" + struct.pack("<Q", len(compressed)) + compressed
    return struct.pack("<BQ", 6, len(body)) + body


def bomb(path: Path, chunks: list[bytes], profile: str = "devmind") -> Path:
    """A file that begins as a recording, with these chunks."""
    with path.open("wb") as file:
        writer = Writer(file, compression=CompressionType.ZSTD)
        writer.start(profile=profile)
        if profile == "devmind":
            writer.add_metadata(METADATA_NAME, {"format": FORMAT, "tick_hz": "10", "source": "test"})
        writer.flush()
        for one in chunks:
            file.write(one)
    return path


def zeros(size: int, says: bool = True) -> bytes:
    """A zstandard frame of `size` zeros, with or without its content size."""
    if says:
        return zstandard.ZstdCompressor(level=19).compress(bytes(size))
    maker = zstandard.ZstdCompressor(level=19).compressobj()
    return b"".join([*(maker.compress(bytes(1 << 20)) for _ in range(size >> 20)), maker.flush()])


def chunks_of(kind: str) -> list[bytes]:
    """Chunks by their kind of fault."""
    message = struct.pack("<BQHIQQ", 5, 22, 1, 0, 0, 0)
    return {
        "declared": lambda: [chunk(zeros(1 << 30), 1 << 30)],
        "undeclared": lambda: [chunk(zeros(256 << 20, says=False), 256 << 20)],
        "lying": lambda: [chunk(zeros(256 << 20), 1000)],
        "empty records": lambda: [chunk(zeros(30 << 20), 30 << 20)],
        "messages": lambda: [chunk(zstandard.compress(message * 900_000), 900_000 * len(message))],
        "many": lambda: [chunk(zstandard.compress(message * 200_000), 200_000 * len(message))] * 20,
        "frames": lambda: [chunk(zeros(1 << 20) * 40, 40 << 20)],
    }[kind]()


KINDS = ["declared", "undeclared", "lying", "empty records", "messages", "many", "frames"]


@pytest.mark.slow
@pytest.mark.parametrize("profile", ["devmind", "others"])
def test_chunk_bombs_are_refused_or_read_within_their_memory_budget(profile: str, tmp_path: Path) -> None:
    """In a separate process whose memory is measured; all files together may take what the smallest of them may."""
    paths = [bomb(tmp_path / f"{number}.mcap", chunks_of(kind), profile) for number, kind in enumerate(KINDS)]
    budget = memory_bytes(min(path.stat().st_size for path in paths))
    done = subprocess.run(
        [sys.executable, "-c", READ, str(budget), *map(str, paths)],
        capture_output=True, text=True, timeout=250, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("refused") >= len(KINDS), done.stdout


READ = """
import sys, time
from pathlib import Path
import av, cv2, mcap.reader, google.protobuf.descriptor_pool
import devmind.sessions.bags.mcaps
from devmind.errors import SessionError
from devmind.sessions import import_any, repair
from devmind.sessions.reader import Session as session
budget = int(sys.argv[1])
most = lambda: 1024 * int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
before = most()
for path in map(Path, sys.argv[2:]):
    other = path.with_name("other.mcap")
    for what in (session, lambda p: import_any(p, other, overwrite=True), lambda p: repair(p, other, overwrite=True)):
        began = time.process_time()
        try:
            print(path.name, what(path))
        except SessionError as error:
            print(path.name, "refused:", str(error)[-200:])
        took = time.process_time() - began
        assert took < 10, took
        used = most() - before
        print(f"{took:.1f} s, {used >> 20} MB of {budget >> 20}", flush=True)
        assert used <= budget, (used, budget)
"""


def png(width: int, height: int, bits: int = 8, colour: int = 2) -> bytes:
    """A PNG that unpacks to zeros; colour 2 is RGB, 6 has transparency."""
    samples = {2: 3, 6: 4}[colour]
    row = bytes(1 + width * samples * bits // 8)
    packer = zlib.compressobj(9)
    data = b"".join([*(packer.compress(row) for _ in range(height)), packer.flush()])

    def part(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", head) + part(b"IDAT", data) + part(b"IEND", b"")


@pytest.mark.parametrize(("side", "bits", "colour"), [(7000, 8, 2), (5000, 16, 2), (5000, 16, 6), (30_000, 8, 2)])
def test_a_picture_over_its_memory_budget_is_refused_by_its_header(side: int, bits: int, colour: int) -> None:
    small = png(64, 64, bits, colour)
    header = small[:16] + struct.pack(">II", side, side) + small[24:29]
    lying = header + struct.pack(">I", zlib.crc32(header[12:])) + small[33:]
    with pytest.raises(SessionError, match=r"more memory than a file|megapixels"):
        decode_picture(lying, "big.png")
    assert decode_picture(small, "small.png").shape == (64, 64, 3)


def png_film(path: Path, width: int, height: int, frames: int) -> Path:
    """A film whose frames are PNGs of zeros."""
    one = png(width, height)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("png", rate=20)
        stream.width, stream.height, stream.pix_fmt = 64, 64, "rgb24"  # less than the frames have
        for k in range(frames):
            packet = av.Packet(one)
            packet.stream, packet.pts, packet.dts, packet.is_keyframe = stream, k, k, True
            container.mux(packet)
    return path


def lying_heic(path: Path, width: int, height: int) -> Path:
    """A HEIC that declares these sides."""

    def box(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I4s", 8 + len(content), kind) + content

    infe = box(b"infe", struct.pack(">BBHHH4sB", 2, 0, 0, 1, 0, b"hvc1", 0))
    ispe = box(b"ispe", bytes(4) + struct.pack(">II", width, height))
    ipma = box(b"ipma", struct.pack(">IIHBB", 0, 1, 1, 1, 1))
    meta = box(b"pitm", struct.pack(">IH", 0, 1)) + box(b"iinf", struct.pack(">IH", 0, 1) + infe)
    meta += box(b"iprp", box(b"ipco", ispe) + ipma)
    path.write_bytes(box(b"ftyp", b"heic" + bytes(4) + b"mif1heic") + box(b"meta", bytes(4) + meta))
    return path


@pytest.mark.slow
def test_film_bombs_are_refused_or_read_within_their_memory_budget(tmp_path: Path) -> None:
    """FFmpeg refuses a frame by its own header, whatever the container declares."""
    paths = [
        png_film(tmp_path / "large.mov", 9000, 7000, 3),
        png_film(tmp_path / "largest.mov", 12_000, 6_000, 1),
        lying_heic(tmp_path / "large.heic", 7000, 7000),
        lying_heic(tmp_path / "largest.heic", 2**31, 2**31),
        png_film(tmp_path / "many.mov", 3840, 2160, 30),
    ]
    budget = memory_bytes(min(path.stat().st_size for path in paths))
    done = subprocess.run(
        [sys.executable, "-c", READ, str(budget), *map(str, paths)],
        capture_output=True, text=True, timeout=250, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    imported = [line for line in done.stdout.splitlines() if "Imported" in line]
    assert len(imported) == 1, done.stdout
    assert imported[0].startswith("many.mov Imported"), "30 frames in 4K are many, and no bomb"


def test_a_huge_camera_jpeg_is_refused_by_its_header() -> None:
    jpeg = bytearray(cv2.imencode(".jpg", np.zeros((64, 64, 3), np.uint8))[1].tobytes())
    at = jpeg.index(b"\xff\xc0") + 5
    jpeg[at : at + 4] = struct.pack(">HH", 60_000, 60_000)
    with pytest.raises(SessionError, match="megapixels"):
        from_jpeg(bytes(jpeg))


def test_large_pictures_decoded_in_strips_equal_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    from devmind.sessions import pictures

    rng = np.random.default_rng(0)
    for shape, dtype in (((50, 40, 4), np.uint8), ((50, 40, 3), np.uint16), ((50, 40), np.uint16)):
        picture = rng.integers(0, np.iinfo(dtype).max, shape, dtype=dtype, endpoint=True)
        coded = cv2.imencode(".png", picture)[1].tobytes()
        whole = decode_picture(coded, "x")
        monkeypatch.setattr(pictures, "_STRIP_NUMBERS", 700)
        np.testing.assert_array_equal(decode_picture(coded, "x"), whole)
        monkeypatch.undo()


def test_sound_of_one_sample_a_second_is_refused(tmp_path: Path) -> None:
    data = bytes(4000)
    head = struct.pack(
        "<4sI4s4sIHHIIHH4sI", b"RIFF", 36 + len(data), b"WAVE", b"fmt ", 16, 1, 1, 1, 2, 2, 16, b"data", len(data)
    )
    path = tmp_path / "slow.wav"
    path.write_bytes(head + data)
    with pytest.raises(SessionError, match="1 samples a second"):
        import_any(path, tmp_path / "out.mcap")
    assert not (tmp_path / "out.mcap").exists()


@pytest.mark.parametrize(
    "dtype", ["(2,3", "O", "U999999999", "V1000000000", "f4,f4", "S10", "<M8[s]", "('f4', (1000,))"]
)
def test_an_array_message_of_no_numeric_dtype_is_refused(dtype: str) -> None:
    message: Any = message_class(ARRAY)
    with pytest.raises(SessionError, match="no kind of numbers"):
        decode(ARRAY, message(dtype=dtype, shape=[1], data=b"\0\0\0\0").SerializeToString())


@pytest.mark.parametrize("number", ["9" * 4000, "[" * 5000, '"x"', "NaN"])
def test_a_note_with_an_endless_number_is_refused(number: str, tmp_path: Path) -> None:
    path = tmp_path / "a.mcap"
    with Recorder(path, source="test", tick_hz=10) as recorder:
        recorder.write(Moment(0.0, {"words": "x"}, first=True))
    from devmind.sessions.extras import decode_health, decode_note

    for read in (decode_note, lambda data: decode_health(data, 0)):
        try:
            read(b'{"kind": "x", "data": 0, "tick": ' + number.encode() + b"}")
        except SessionError:
            continue


@pytest.mark.parametrize("place", ["/etc/passwd", "../../etc/passwd", "data/../../x", "", 5, None, "a\0b", ["x"]])
def test_a_dataset_reads_nothing_outside_its_folder(place: Any, tmp_path: Path) -> None:
    with pytest.raises(SessionError, match=r"outside its folder|no path"):
        inside(tmp_path, place)
    assert inside(tmp_path, "data/..x/file.parquet") == tmp_path / "data/..x/file.parquet"


@pytest.mark.parametrize(
    "template",
    ["{", "{0}", 5, "{chunk_index:>99999999999}", "{chunk_index.__class__}", "{x}", None, "a}b", "{chunk_index:999d}"],
)
def test_an_invalid_path_template_raises_a_session_error(template: Any) -> None:
    with pytest.raises(SessionError, match="path template"):
        fill_template(template, {"chunk_index": 1, "file_index": 2})


def test_a_path_template_is_filled_in() -> None:
    values = {"chunk_index": 1, "file_index": 23, "video_key": "observation.images.{x}"}
    assert fill_template("v/{video_key}/chunk-{chunk_index:03d}/{file_index}.mp4", values) == (
        "v/observation.images.{x}/chunk-001/23.mp4"
    )
