"""What earlier versions typed fails with a sentence that says what is typed now."""

from __future__ import annotations

from typing import Any

import pytest

from devmind.cli import renamed

GAVE = [(command, old, new) for command, options in renamed.OPTIONS.items() for old, new in options.items()]


@pytest.mark.parametrize(("old", "new"), renamed.COMMANDS.items())
def test_earlier_command_names_the_new_one_which_exists(devmind: Any, old: str, new: str) -> None:
    refused = devmind(*old.split()) if old != "plan market" else devmind("plan", "market:trend")
    assert (refused.exit_code, refused.stderr) == (2, f"'devmind {old}' has become: {new}.\n")
    if new.startswith("devmind"):
        words = [word for word in new.split()[1:] if word.islower() and word.isalpha()]
        assert "Usage: devmind" in devmind(*words[: 2 if len(words) > 1 else 1], "--help").output


@pytest.mark.parametrize(("command", "old", "new"), GAVE)
def test_earlier_option_names_the_new_way_which_exists(devmind: Any, command: str, old: str, new: str) -> None:
    refused = devmind(*command.split(), old)
    assert (refused.exit_code, refused.stderr) == (
        2, f"The option '{old}' of 'devmind {command}' has become: {new}.\n"
    )  # fmt: skip
    where, option = (command, new) if new.startswith("--") else (new.removeprefix("devmind "), "")
    words = [word for word in where.split() if word.islower() and word.isalpha()]
    shown = " ".join(devmind(*words, "--help").output.split())
    assert option.split(" ")[0] in shown


def test_names_of_today_are_not_taken_for_earlier_ones() -> None:
    for words in (["plan", "market"], ["plan", "market", "trend"], ["sensors", "webcam"], ["memory", "show", "3"], []):
        assert renamed.new_command(words) is None
    assert (
        renamed.new_command(["plan", "market:trend"]) == "'devmind plan market' has become: devmind plan market LEVEL."
    )
    assert renamed.new_option("live", "--camera") is None
