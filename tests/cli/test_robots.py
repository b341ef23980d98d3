"""`devmind session import` and `export` of robot recordings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from devmind.moment import Action, Moment
from devmind.sessions import Recorder
from tests.sessions.robots import write_foxglove


def test_recording_is_exported_to_lerobot_and_imported_again(devmind: Any, tmp_path: Path) -> None:
    with Recorder(tmp_path / "walk.mcap", source="room") as recorder:
        for k in range(5):
            recorder.write(
                Moment(k / 10, {"body": np.full(2, k, np.float32)}, first=k == 0), Action({"look": np.ones(2)})
            )
    exported = devmind("session", "export", "walk.mcap", "--to", "lerobot")
    assert exported.exit_code == 0, exported.output
    assert "lerobot: walk-lerobot" in exported.output
    imported = devmind("session", "import", "walk-lerobot", "--out", "back.mcap")
    assert "5 Moments" in imported.output
    assert devmind("session", "export", "walk.mcap", "--to", "lerobot").exit_code == 2, "a dataset is never replaced"
    wrong = devmind("session", "import", "walk-lerobot", "--topic", "front", "--out", "c.mcap")
    assert (wrong.exit_code, (tmp_path / "c.mcap").exists()) == (2, False)
    assert "no pictures 'front'" in wrong.output


def test_foreign_mcap_file_is_imported_under_another_name(devmind: Any, tmp_path: Path) -> None:
    write_foxglove(tmp_path / "drive.mcap", "json")
    made = devmind("session", "import", "drive.mcap")
    assert made.exit_code == 0, made.output
    assert "session: drive-session.mcap" in made.output
    assert "Left out: /secret" in made.output
