"""The one door for files that a person names, and for their JSON and YAML."""

import os
from pathlib import Path

import pytest

from devmind import bounds
from devmind.errors import ConfigError

SENTENCE = "'it' is not readable ({}). Use a backup."


def test_a_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "plan.txt"
    path.write_bytes(b"\xef\xbb\xbfgr\xc3\xbcn")
    assert bounds.read_file(path, ConfigError, 8) == path.read_bytes()
    assert bounds.read_text(path, ConfigError) == "grün"
    with pytest.raises(ConfigError, match="over 7 bytes"):
        bounds.read_file(path, ConfigError, 7)


def test_what_is_no_plain_file_is_refused_by_a_sentence(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path, says in ((pipe, "no plain file"), (tmp_path, "no plain file"), (Path("/dev/zero"), "no plain file")):
        with pytest.raises(ConfigError, match=says):
            bounds.read_file(path, ConfigError)
    for path, says in ((tmp_path / "gone", "There is no file"), (tmp_path / ("x" * 300), "cannot be read")):
        with pytest.raises(ConfigError, match=says):
            bounds.read_file(path, ConfigError)
    latin = tmp_path / "latin.txt"
    latin.write_bytes("grün".encode("latin-1"))
    with pytest.raises(ConfigError, match="byte 2 is none"):
        bounds.read_text(latin, ConfigError)


@pytest.mark.parametrize("text", ["[" * 100_000, "{", "9" * 5000, b"\xff"], ids=["deep", "open", "digits", "bytes"])
def test_json_fails_with_the_given_sentence(text: str | bytes) -> None:
    with pytest.raises(ConfigError, match=r"'it' is not readable \(.*\). Use a backup\."):
        bounds.parse_json(text, ConfigError, SENTENCE)
    assert bounds.parse_json('{"a": [1]}', ConfigError, SENTENCE) == {"a": [1]}


@pytest.mark.parametrize("text", ["a: " + "[" * 20_000, "a: 1: 2", "seeds: " + "9" * 5000, "!!python/name:os.sep x"])
def test_yaml_fails_with_the_given_sentence(text: str) -> None:
    with pytest.raises(ConfigError, match=r"'it' is not readable \(.*\). Use a backup\."):
        bounds.parse_yaml(text, ConfigError, SENTENCE)
    assert bounds.parse_yaml("a: [1]", ConfigError, SENTENCE) == {"a": [1]}


def test_panic_of_a_library_is_a_sentence_and_a_request_to_stop_is_none() -> None:
    class PanicException(BaseException):
        """As libraries in Rust raise it."""

    class Terminated(BaseException):
        """As the command line raises it at SIGTERM."""

    with pytest.raises(ConfigError, match="PanicException: index"), bounds.damage(ConfigError, SENTENCE):
        raise PanicException("index out of range")
    for stop in (KeyboardInterrupt, SystemExit, GeneratorExit, Terminated):
        with pytest.raises(stop), bounds.damage(ConfigError, SENTENCE):
            raise stop
