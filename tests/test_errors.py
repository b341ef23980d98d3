"""Credentials are removed from all output and nothing else is; arguments of page commands are checked."""

from __future__ import annotations

import pytest

from devmind.errors import ConfigError, SessionError, bind_command, without_secrets


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("http://user:s3cret@host:80/x.mjpg", "http://host:80/x.mjpg"),
        ("rtsp://s3cret@host/live", "rtsp://host/live"),
        ("rtsp://user:p@s3cret@host/live", "rtsp://host/live"),
        ("rtsp://user:s3/cret@host/live", "rtsp://host/live"),
        ("rtsp://user:s3/cr@s3cret@host/live", "rtsp://host/live"),
        ("http://me:s3cret@127.0.0.1:81/a/b.mjpg?key=s3cret", "http://127.0.0.1:81/a/b.mjpg?key=***"),
        ("rtsp://:s3cret@[::1]:554/live", "rtsp://[::1]:554/live"),
        ("mqtts://me:s3cret@127.0.0.1:8883/home/hall", "mqtts://127.0.0.1:8883/home/hall"),
        ("There is no folder 'http:/user:s3cret@host/x'.", "There is no folder 'http:/host/x'."),
        ("webcam=http://user:s3cret@host/", "webcam=http://host/"),
        ("webcam=user:s3cret@192.168.1.9/video", "webcam=192.168.1.9/video"),
        ("Cameras 'http://u:s3cret@h/x' and 'http://v:s3cret@i/y'.", "Cameras 'http://h/x' and 'http://i/y'."),
        ("http://h/x?w=3&token=s3cret&b=1", "http://h/x?w=3&token=***&b=1"),
        ("http://h/x?Password=s3cret", "http://h/x?Password=***"),
        ("http://h/x?auth=s3cret#top", "http://h/x?auth=***#top"),
        ("http://h/c.cgi?loginuse=s3cret&loginpas=s3cret", "http://h/c.cgi?loginuse=***&loginpas=***"),
        ("rtsp://h:554/user=s3cret&password=s3cret&channel=1", "rtsp://h:554/user=***&password=***&channel=1"),
        ("https://h/x?access_token=s3cret&X-Amz-Signature=s3cret", "https://h/x?access_token=***&X-Amz-Signature=***"),
        ("https://h/x?api_key=s3cret", "https://h/x?api_key=***"),
        ("serial:///dev/ttyUSB0?baud=9600&auth=s3cret", "serial:///dev/ttyUSB0?baud=9600&auth=***"),
        ({"a": "http://u:s3cret@h/", "n": 3, "b": ["x", "me:s3cret@h"]}, {"a": "http://h/", "n": 3, "b": ["x", "h"]}),
    ],
)  # fmt: skip
def test_credentials_are_removed(given: object, shown: object) -> None:
    assert without_secrets(given) == shown
    assert without_secrets(shown) == shown, "once is enough"


@pytest.mark.parametrize(
    "text",
    [
        "http://127.0.0.1:8080/x.mjpg?size=640",
        "the camera http://10.0.0.1:80 of me@home is off",
        "mail me@home.org at 10:30",
        "serial:///dev/ttyUSB0?baud=9600",
        "--set exam.holdout=theo --seed=3",
        "Camera: a@b",
        "n_token=5;user=me",
        "/dev/video0",
        "C:/me@home/x.mp4",
    ],
)
def test_other_text_is_kept(text: str) -> None:
    assert without_secrets(text) == text


def test_error_messages_hold_no_password() -> None:
    assert str(SessionError("'http://me:s3cret@host/' does not answer.")) == "'http://host/' does not answer."


def test_command_is_bound_to_its_arguments_or_refused_with_a_clear_error() -> None:
    known = {"go": lambda place, pace=1: (place, pace)}
    assert bind_command("go", {"place": 3}, known)() == (3, 1)
    with pytest.raises(ConfigError, match=r"no command 'goo'; did you mean 'go'\?"):
        bind_command("goo", {"place": 3}, known)
    with pytest.raises(ConfigError, match="'go' cannot be done with where: "):
        bind_command("go", {"where": 3}, known)
    with pytest.raises(ConfigError, match="'go' cannot be done with nothing: "):
        bind_command("go", {}, known)
