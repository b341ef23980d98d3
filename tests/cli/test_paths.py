"""Paths that a user typed: suggestions of the right kind, and no long lists in error messages."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from devmind.cli import doctor
from devmind.cli.paths import existing, user_data
from devmind.errors import ConfigError, nearest


def refusal(path: Path, kind: str) -> str:
    with pytest.raises(ConfigError) as raised:
        existing(path, "--it", kind)
    return str(raised.value)


def test_files_are_not_suggested_for_a_folder(tmp_path: Path) -> None:
    (tmp_path / "agent.zip").touch()
    assert refusal(tmp_path / "agent", "folder").endswith(f"; there is no folder in '{tmp_path}'.")
    (tmp_path / "agents").mkdir()
    assert f"did you mean '{tmp_path}/agents'?" in refusal(tmp_path / "agent", "folder")
    assert f"did you mean '{tmp_path}/agent.zip'?" in refusal(tmp_path / "agent.zi", "file")
    assert f"did you mean '{tmp_path}/agents'?" in refusal(tmp_path / "agnts" / "life.mcap", "file")


def test_full_folder_is_not_listed_completely(tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / f"x{number:02}").mkdir()
    assert refusal(tmp_path / "nosuch", "folder").endswith("x06, x07 and 22 more.")


def test_long_list_of_names_is_shortened() -> None:
    assert nearest("zzz", ["one", "two"]) == "; known are: one, two."
    assert nearest("zzz", [f"n{number:02}" for number in range(21)]).endswith("n18, n19 and 1 more.")


def test_user_without_account_and_home_is_told_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression: `devmind hello` by a user id without account (a container) was a traceback of `Path.home`."""
    for name in ("HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "DEVMIND_CACHE", "NUMBA_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000)
    with pytest.raises(RuntimeError):
        Path.home()
    with pytest.raises(ConfigError, match=r"no home folder .* --memory DIR, or set HOME or XDG_DATA_HOME\."):
        user_data()
    from devmind.live.remembering.strangers import _cache

    assert _cache() is None, "what would be kept there is made anew"
    assert doctor._user_cache() is None
    assert doctor.compiled_cache().said
    monkeypatch.setenv("DEVMIND_CACHE", "there")
    assert _cache() == Path("there")


def test_user_data_is_in_one_place_from_any_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert user_data() == tmp_path / "devmind"
    monkeypatch.setenv("XDG_DATA_HOME", "not/absolute")  # the standard says to ignore relative paths
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("sys.platform", "linux")
    assert user_data() == tmp_path / ".local" / "share" / "devmind"
    monkeypatch.setattr("sys.platform", "darwin")
    assert user_data() == tmp_path / "Library" / "Application Support" / "devmind"
    monkeypatch.setattr("sys.platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert user_data() == tmp_path / "local" / "devmind"


def test_path_that_is_neither_file_nor_folder_is_reported_as_such(tmp_path: Path) -> None:
    pipe, file = tmp_path / "pipe", tmp_path / "file"
    os.mkfifo(pipe)
    file.touch()
    assert refusal(pipe, "file") == f"--it expects a file, and '{pipe}' is no ordinary file."
    assert refusal(pipe, "folder") == f"--it expects a folder, and '{pipe}' is no ordinary folder."
    assert refusal(tmp_path, "file") == f"--it expects a file, and '{tmp_path}' is a folder."
    assert refusal(file, "folder") == f"--it expects a folder, and '{file}' is a file."
