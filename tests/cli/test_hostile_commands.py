"""Hostile command lines give a clear error and exit code 2; the hub is asked only for names that the user typed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from devmind.cli import house
from devmind.cli.settings import run_config

RUN = ("stage", "run", "reflex", "--config", "tiny")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((*RUN, "--set", 'loggers=!!python/object/apply:os.system ["true"]'), "is not a plain YAML value"),
        ((*RUN, "--set", "seed={"), "is not a plain YAML value"),
        ((*RUN, "--set", "seed=" + "[" * 5000), "is not a plain YAML value"),
        ((*RUN, "--set", "seed=2026-13-45"), "is not a plain YAML value"),
        ((*RUN, "--set", "threads=100000"), "less than or equal to 1024"),
        ((*RUN, "--minutes", "inf"), "--minutes expects a number above 0"),
        ((*RUN, "--minutes", "nan"), "--minutes expects a number above 0"),
        ((*RUN, "--set", "minutes=.inf"), "'minutes'"),
        (("session", "replay", "x.mcap", "--ticks", f"{2**70}-"), "--ticks expects ticks such as 8-20"),
        (("session", "replay", "x.mcap", "--ticks", "9-8"), "the smaller number first; got '9-8'"),
    ],
)
def test_hostile_command_line_gives_a_clear_error(devmind: Any, tmp_path: Path, words: Any, sentence: str) -> None:
    (tmp_path / "x.mcap").touch()
    result = devmind(*words)
    assert (result.exit_code, sentence in result.output) == (2, True), result.output
    assert len(result.output.splitlines()) == 1
    assert not (tmp_path / "checkpoints").exists()


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.delenv(house.HUB, raising=False)
    monkeypatch.delenv("TRANSFORMERS_OFFLINE", raising=False)
    monkeypatch.setattr(house, "_typed", True)
    return monkeypatch


def test_commands_ask_the_hub_only_for_a_decoder_that_the_user_named(hub: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import os

    house.stay_offline()
    run_config("tiny")
    run_config("tiny", sets=[f"trunk.pretrained={tmp_path}"])
    assert os.environ[house.HUB] == "1", "a folder is read, and nobody asked"
    run_config("tiny", sets=["trunk.pretrained=org/model"])
    assert os.environ[house.HUB] == "0"


def test_hub_settings_of_the_user_are_kept(hub: pytest.MonkeyPatch) -> None:
    import os

    hub.setenv(house.HUB, "1")
    house.stay_offline()
    run_config("tiny", sets=["trunk.pretrained=org/model"])
    assert os.environ[house.HUB] == "1"
