"""A password in a source reaches only the device: no file and no line of output has it."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devmind.cli import show
from devmind.curriculum.journal import Journal
from devmind.sessions import open_session
from devmind.worlds.room import sensor_health
from tests.sensors.conftest import MjpegCamera, camera  # noqa: F401 - a fixture
from tests.sensors.test_environment import Broker

SECRET = "s3cret"


def nothing_holds_it(folder: Path, *outputs: str) -> bool:
    """Neither the output nor any file has it, and some file was written."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    text = "".join(outputs)
    return SECRET not in text and not any(SECRET.encode() in path.read_bytes() for path in files)


def test_recording_of_a_camera_does_not_hold_its_password(tmp_path: Path, camera: MjpegCamera) -> None:  # noqa: F811
    url = f"{camera.url}?size=1&token={SECRET}"
    assert SECRET in url.partition("@")[0]

    def devmind(*words: Any) -> str:
        asked = [sys.executable, "-c", "from devmind.cli import main; main()", *map(str, words)]
        done = subprocess.run(asked, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    out = [devmind("session", "record", "a.mcap", "--camera", url, "--mic", "none", "--set", "seconds=2")]
    assert open_session(tmp_path / "a.mcap").frame_count > 0
    assert any(SECRET in path for path in camera.paths), "the camera itself was asked with all of it"
    out.append(devmind("session", "show", "a.mcap"))
    assert f"camera: http://127.0.0.1:{camera.server_address[1]}/x.mjpg?size=1&token=***" in out[-1]
    out.append(devmind("sensors", f"webcam={url}", "--seconds", 1))
    devmind("session", "export", "a.mcap", "plain", "--to", "wav")
    assert nothing_holds_it(tmp_path, *out)


@pytest.fixture
def broker() -> Iterator[Broker]:
    broker = Broker()
    yield broker
    broker.close()


def test_broker_gets_the_password_and_the_recording_does_not(devmind: Any, tmp_path: Path, broker: Broker) -> None:
    source = f"environment=mqtt://me:{SECRET}@127.0.0.1:{broker.port}/home"
    done = devmind(
        "session",
        "record",
        "a.mcap",
        "--camera",
        "none",
        "--mic",
        "synthetic",
        "--sensor",
        source,
        "--set",
        "seconds=1",
    )
    assert broker.subscribed.wait(30), done.output
    assert SECRET.encode() in broker.login
    info = devmind("session", "show", "a.mcap").output
    assert f"sensors: environment=mqtt://127.0.0.1:{broker.port}/home" in info
    assert nothing_holds_it(tmp_path, done.output, info)


def test_serial_line_with_a_token_does_not_leak_it(devmind: Any, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    source = f"environment=serial://{os.ttyname(theirs)}?baud=9600&auth={SECRET}"
    words = ("--camera", "none", "--mic", "synthetic", "--sensor", source, "--set", "seconds=0.5")
    done = devmind("session", "record", "a.mcap", *words)
    assert "was missing in" in done.output
    assert nothing_holds_it(tmp_path, done.output, devmind("session", "show", "a.mcap").output)
    os.close(ours)
    os.close(theirs)


@pytest.mark.parametrize(
    "words",
    [
        [
            "session",
            "record",
            "a.mcap",
            "--mic",
            "none",
            "--camera",
            f"http://u:{SECRET}@127.0.0.1:9/x",
            "--set",
            "seconds=1",
        ],
        ["session", "record", "a.mcap", "--mic", "none", "--camera", f"u:{SECRET}@127.0.0.1/x", "--set", "seconds=0.5"],
        ["sensors", f"environment=http://u:{SECRET}@127.0.0.1:9/x?token={SECRET}", "--seconds", 1],
        ["sensors", f"environment=ftp://u:{SECRET}@127.0.0.1:9/x"],
        ["sensors", f"webcam=rtsp://u:{SECRET}@127.0.0.1:9/x", "--seconds", 0.5],
        ["sensors", f"video_file=http://u:{SECRET}@127.0.0.1:9/x"],
        ["memory", "show", "--memory", f"mysql://u:{SECRET}@127.0.0.1:9/x"],
        ["live", "--agent", f"http://u:{SECRET}@h/x"],
        ["doctor", f"http://u:{SECRET}@h/x"],
    ],
)
def test_no_error_message_quotes_the_password(devmind: Any, tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "there").touch()
    done = devmind(*words)
    assert nothing_holds_it(tmp_path, done.output, done.stderr)
    assert done.output.strip()


def test_journal_health_and_tables_hold_no_password(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    class Plugin:
        """A third-party sensor with its own health."""

        name, sense = f"http://u:{SECRET}@h/", "sight"

        class health:  # noqa: N801
            fault, drops = f"'http://h/?password={SECRET}' is gone", 3

    assert sensor_health([Plugin()]) == {
        "http://h/": {"sense": "sight", "drops": 3, "fault": "'http://h/?password=***' is gone"}
    }
    Journal(tmp_path / "j.jsonl").write("start", command=f"devmind x --camera http://u:{SECRET}@h/", all=["a=b", 1])
    assert Journal(tmp_path / "j.jsonl").last()["all"] == ["a=b", 1]  # type: ignore[index]
    show.table(("a", "b"), [(f"http://u:{SECRET}@h/", 2)])
    show.line(f"http://u:{SECRET}@h/")
    show.lamp(f"http://u:{SECRET}@h/")
    assert nothing_holds_it(tmp_path, capsys.readouterr().out)
    show.door("http://127.0.0.1:1/?token=abc")
    assert "?token=abc" in capsys.readouterr().out, "who sits here must be able to open the page"
