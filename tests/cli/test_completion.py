"""Shell completion, and `python -m devmind`: names come without loading torch, as in the terminal."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from devmind import plugins
from devmind.curriculum.start import load_stage

NO_TORCH = "import sys; sys.modules['torch'] = None; from devmind.cli import main; main()"


def completed(folder: Path, *words: str) -> list[str]:
    """What bash is offered for the last of `words`; whatever imports torch fails."""
    asked = {"_DEVMIND_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(["devmind", *words])}
    ran = subprocess.run(
        [sys.executable, "-c", NO_TORCH], cwd=folder, capture_output=True, text=True, check=False,
        env=os.environ | asked | {"COMP_CWORD": str(len(words))},
    )  # fmt: skip
    assert not ran.stderr
    return ran.stdout.split()


def test_names_of_stages_skills_agents_and_puzzles_are_completed_without_torch(tmp_path: Path) -> None:
    (tmp_path / "checkpoints" / "a" / "milestones" / "01-reflex").mkdir(parents=True)
    (tmp_path / "checkpoints" / "a" / "milestones" / "01-reflex" / "config.json").touch()
    assert completed(tmp_path, "stage", "exam", "re") == ["reasoning", "reflex"]
    assert completed(tmp_path, "stage", "exam", "reflex", "--skill", "s") == ["see", "startle"]
    assert completed(tmp_path, "stage", "run", "reflex", "mem") == ["memory"]
    assert completed(tmp_path, "hello", "--agent", "after-v") == ["after-voice"]
    assert completed(tmp_path, "hello", "--agent", "check") == [
        "checkpoints/a/milestones/01-reflex", "checkpoints/"
    ]  # fmt: skip
    assert completed(tmp_path, "solve", "l") == ["lights-out"]
    assert completed(tmp_path, "play", "o") == ["othello"]


@pytest.mark.parametrize("name", sorted(plugins.available("stages")))
def test_skills_read_from_a_stages_file_are_those_it_has(name: str) -> None:
    assert plugins.find("stages", name).skills == tuple(skill.name for skill in load_stage(name).skills)


def test_python_m_devmind_is_the_command(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "devmind", "stage", "shw"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stderr) == (2, "There is no command 'stage shw'; did you mean 'show'?\n")
