"""The attack on a childhood can be made in several calls, which are counted together."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.curriculum import attack, short


def test_several_calls_of_the_attack_use_one_undisturbed_childhood(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    raised: list[Path] = []
    differs: set[Path] = set()

    def killed(out: Path, straight: Path, command: Any, kills: int, seed: int, env: Any) -> list[str]:
        out.mkdir(parents=True)
        assert str(out) in command
        assert straight == tmp_path / "straight" / "childhood"
        return [f"reflex, behind checkpoint {seed}"] * kills

    monkeypatch.setattr(attack, "run", lambda command, env=None: raised.append(Path(command[-1])))
    monkeypatch.setattr(attack, "attack", killed)
    monkeypatch.setattr(attack, "outcome", lambda out: {"reflex": "other" if out in differs else "weights"})

    def piece(seed: int) -> str:
        told = ["attack", "--short", "--out", str(tmp_path), "--kills", "3", "--seed", str(seed)]
        monkeypatch.setattr(sys, "argv", told)
        attack.main()
        return capsys.readouterr().out

    assert "3 in all" in piece(0)
    assert "6 in all" in piece(1)
    assert set(raised) == {tmp_path / "straight" / "childhood"}
    with pytest.raises(SystemExit, match="with --seed 1 before"):
        piece(1)
    differs.add(tmp_path / "killed-2" / "childhood")
    with pytest.raises(SystemExit, match="these differ: reflex"):
        piece(2)
    assert len((tmp_path / "kills.txt").read_text().splitlines()) == 6, "what differs is not counted as survived"


def test_short_stages_can_be_installed_twice(tmp_path: Path) -> None:
    first, second = (short.installed(tmp_path / "site", attack.ROOT) for _ in range(2))
    assert first == second
