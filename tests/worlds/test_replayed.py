"""A replayed session is a world: the same Moments in order, whatever the actions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from gymnasium import spaces

from devmind.errors import WorldError
from devmind.moment import Action, Moment
from devmind.sessions import Recorder, open_session
from devmind.worlds.replayed import ReplayedWorld


def record(path: Path, moments: list[Moment]) -> Path:
    with Recorder(path, source="test") as recorder:
        for k, moment in enumerate(moments):
            recorder.write(moment, Action({"look": np.full(2, k, np.float32)}))
    return path


@pytest.fixture
def moments() -> list[Moment]:
    """Two episodes, of five Moments (terminal) and of three (the recording just stops)."""
    rng = np.random.default_rng(0)
    made = []
    for k in range(8):
        senses: dict[str, np.ndarray | str] = {
            "sight": rng.integers(0, 256, (6, 6, 3), np.uint8),
            "sound": rng.uniform(-1, 1, (1, 16)).astype(np.float32),
            "touch": rng.integers(0, 2, 3).astype(bool),
        }
        if k % 2:
            senses["words"] = f"word {k}"
        made.append(Moment(k / 10, senses, k * 0.5, first=k in (0, 5), last=k == 4, terminal=k == 4))
    return made


def test_a_replayed_world_gives_the_recorded_moments(tmp_path: Path, moments: list[Moment]) -> None:
    world = ReplayedWorld(record(tmp_path / "a.mcap", moments))
    senses, info = world.reset(seed=0)
    assert info["last_action"] is None
    got = [Moment(info["time_s"], senses, 0.0, first=True)]
    for k in range(1, 5):
        senses, reward, terminated, truncated, info = world.step(world.action_space.sample())
        got.append(Moment(info["time_s"], senses, reward, last=terminated or truncated, terminal=terminated))
        assert info["last_action"] == Action({"look": np.full(2, k - 1, np.float32)})
        assert info["tick"] == k
    assert got == moments[:5]
    with pytest.raises(WorldError, match="call reset"):
        world.step({})


def test_episodes_repeat_in_turn_and_a_seed_starts_from_the_first(tmp_path: Path, moments: list[Moment]) -> None:
    world = ReplayedWorld(open_session(record(tmp_path / "a.mcap", moments)))
    with pytest.raises(WorldError, match="call reset"):
        world.step({})
    assert [world.reset()[1]["tick"] for _ in range(3)] == [0, 5, 0]
    world.reset()
    endings = [world.step({})[2:4] for _ in range(2)]
    assert endings == [(False, False), (False, True)], "a recording that just stops is a truncation"
    assert world.reset(seed=3)[1]["tick"] == 0


def test_the_spaces_contain_the_recording(tmp_path: Path, moments: list[Moment]) -> None:
    world = ReplayedWorld(record(tmp_path / "a.mcap", moments))
    assert isinstance(world.observation_space, spaces.Dict)
    assert set(world.observation_space) == {"sight", "sound", "touch", "words"}
    for moment in moments:
        assert all(world.observation_space[name].contains(value) for name, value in moment.senses.items())
    assert world.action_space["look"].shape == (2,)


def test_a_recording_that_cannot_be_a_world_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WorldError, match="holds no Moment"):
        ReplayedWorld(record(tmp_path / "empty.mcap", []))
    sizes = [Moment(0.0, {"body": np.zeros(n, np.float32)}) for n in (2, 3)]
    with pytest.raises(WorldError, match=r"'body' was recorded in several forms \(float32 \[2\], float32 \[3\]\)"):
        ReplayedWorld(record(tmp_path / "sizes.mcap", sizes))
    single = ReplayedWorld(record(tmp_path / "one.mcap", [Moment(0.0, first=True, last=True)]))
    single.reset()
    with pytest.raises(WorldError, match="single Moment"):
        single.step({})
