"""`devmind teach`, `name` and `forget` on files, with a newborn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import soundfile

from devmind.memory.stores.sqlite import FILE
from tests.sessions.test_media import png_header


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Pictures `red0.png`..., and sounds `low0.wav`, `high0.wav`."""
    for number in range(4):
        rng = np.random.default_rng(number)
        for name, colour in (("red", (30, 30, 200)), ("green", (40, 180, 40))):
            picture = np.clip(colour + rng.normal(0, 10, (80, 80, 3)), 0, 255).astype(np.uint8)
            cv2.imwrite(str(tmp_path / f"{name}{number}.png"), picture)
        for name, pitch_hz in (("low", 200), ("high", 3000)):
            wave = 0.3 * np.sin(2 * np.pi * pitch_hz * np.arange(16_000) / 16_000) + rng.normal(0, 0.01, 16_000)
            soundfile.write(tmp_path / f"{name}{number}.wav", wave, 16_000)
    return tmp_path


def test_pictures_and_sounds_are_taught_named_and_forgotten(devmind: Any, agent: Path, files: Path) -> None:
    for name in ("red", "green", "low", "high"):
        kind = "png" if name in ("red", "green") else "wav"
        taught = devmind("teach", name, *(files / f"{name}{n}.{kind}" for n in range(3)), "--agent", agent)
        assert taught.exit_code == 0, taught.output
        assert f"{name}: 3 examples taught, 3 examples in all" in taught.output
    asked = devmind("name", files / "red3.png", files / "low3.wav", "--agent", agent)
    assert asked.exit_code == 0, asked.output
    seen, heard = asked.output.splitlines()
    assert "red3.png, sight: red (" in seen
    assert "low3.wav, sound: low (" in heard
    gone = devmind("memory", "forget", "--name", "red")
    assert gone.output.startswith("3 entries forgotten\n")
    assert "red (" not in devmind("name", files / "red3.png", "--agent", agent).output
    assert b"red" not in (Path("memory") / FILE).read_bytes()
    wrong = devmind("memory", "forget", "--name", "gren")
    assert wrong.exit_code == 2
    assert "did you mean 'green'" in wrong.output


def test_names_taught_by_sounds_do_not_apply_to_pictures(devmind: Any, agent: Path, files: Path) -> None:
    devmind("teach", "low", files / "low0.wav", "--agent", agent, "--memory", "other")
    answer = devmind("name", files / "red0.png", "--agent", agent, "--memory", "other")
    assert "unknown (no example of this sense was taught)" in answer.output


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["teach", "cup", "cup.png"], "There is no file 'cup.png'"),
        (["teach", "cup", "."], "expects a file"),
        (["teach", "cup", "red0.png", "--agent", "nowhere"], "There is no folder 'nowhere'"),
        (["teach", "cup", "text.txt"], "is text and no media file"),
        (["name", "red0.png"], "There is no memory in 'memory'"),
        (["memory", "forget", "--name", "cup"], "There is no memory in 'memory'"),
        (["teach", "cup"], "Missing argument"),
        (["teach", "cup", "silent.wav"], "'silent.wav' is silent: no sample is above 0.001 of full scale (-60 dB)"),
        (["teach", "cup", "dot.png"], "'dot.png' has 1x1 pixels; at least 8x8 are needed"),
        (["teach", "cup", "huge.png"], "'huge.png' has more than 64 megapixels; give a smaller one"),
    ],
)
def test_impossible_commands_give_clear_errors(devmind: Any, files: Path, words: list[str], sentence: str) -> None:
    (files / "text.txt").write_text("no picture")
    soundfile.write(files / "silent.wav", np.full(16_000, 0.0009), 16_000)
    cv2.imwrite(str(files / "dot.png"), np.zeros((1, 1, 3), np.uint8))
    (files / "huge.png").write_bytes(png_header(60_000, 60_000))
    result = devmind(*words)
    assert result.exit_code == 2
    assert sentence in result.output
    assert not Path("memory").exists()


def test_files_that_the_agent_cannot_sense_are_neither_named_nor_recalled(
    devmind: Any, agent: Path, files: Path
) -> None:
    soundfile.write(files / "silent.wav", np.zeros(16_000), 16_000)
    cv2.imwrite(str(files / "dot.png"), np.zeros((1, 1, 3), np.uint8))
    (files / "huge.png").write_bytes(png_header(20_000, 20_000))
    devmind("teach", "red", files / "red0.png", "--agent", agent)
    told = {"silent.wav": "is silent", "dot.png": "has 1x1 pixels", "huge.png": "more than 64 megapixels"}
    for file, sentence in told.items():
        for words in (("name", file, "--agent", agent), ("memory", "recall", "--like", file, "--agent", agent)):
            refused = devmind(*words)
            assert (refused.exit_code, sentence in refused.output) == (2, True), refused.output


def test_silent_part_of_a_sound_is_left_out(devmind: Any, agent: Path, files: Path) -> None:
    wave = np.concatenate([np.zeros(80_000), 0.3 * np.sin(np.arange(80_000) / 4)])
    soundfile.write(files / "half.wav", wave, 16_000)
    taught = devmind("teach", "hum", files / "half.wav", "--agent", agent)
    assert "hum: 1 example taught" in taught.output
    assert "1 of 2 examples of" in taught.stderr


def test_one_damaged_file_among_others_teaches_nothing(devmind: Any, agent: Path, files: Path) -> None:
    (files / "cut.png").write_bytes((files / "red0.png").read_bytes()[:200])
    result = devmind("teach", "red", files / "red0.png", files / "cut.png", "--agent", agent)
    assert result.exit_code == 2
    assert "cut.png" in result.output
    assert not Path("memory").exists()
