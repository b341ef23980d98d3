"""A recorded life is checked bit by bit: a change is found at its tick, and an uncheckable part is refused."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from devmind.agent.agent import Agent
from devmind.agent.batch import collate_recalled
from devmind.agent.threads import stepping_threads
from devmind.errors import SessionError
from devmind.live import checking
from devmind.live.checking import check_replay
from devmind.moment import Action, Moment, Sense
from devmind.sessions.extras import Note
from devmind.sessions.pointed import FORGOTTEN
from devmind.sessions.recorder import Recorder
from devmind.testing import tiny_agent
from stages.reflex import parts

TICKS = 24
EFFECTORS = ("look", "move")
Write = Callable[[Recorder, int], None]
"""Called before each tick, with its number."""


@pytest.fixture(scope="module")
def agent() -> Agent:
    agent = tiny_agent()
    parts.admit(agent)
    # It answers if no other sense is present, so the state of the trunk shows.
    agent.add_head("move_readout", "head.regression", tap="trunk", effector="move", options={"shape": 1})
    return _shaken(agent, 0)


@pytest.fixture(scope="module")
def newer(agent: Agent) -> Agent:
    return _shaken(copy.deepcopy(agent), 1)


def _shaken(agent: Agent, seed: int) -> Agent:
    """All weights are random: a trunk with zero output projections would ignore the state."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in agent.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return agent.eval()


def moments(ticks: int = TICKS, openings: Iterable[int] = (0,)) -> list[Moment]:
    """A life in which sight is sometimes absent, so the trunk answers, too."""
    rng, opened = np.random.default_rng(0), set(openings)
    lived = []
    for tick in range(ticks):
        senses: dict[str, Sense] = {"body": rng.normal(0, 1, 4).astype(np.float32)} if tick % 3 else {}
        if tick % 4:
            senses |= {"sight": rng.integers(0, 256, (64, 64, 3), dtype=np.uint8)}
        lived.append(Moment(tick / 10, senses, first=tick in opened))
    return lived


class Life:
    """Steps and records as the live loop does."""

    def __init__(self, agent: Agent, file: Recorder) -> None:
        self.agent, self.file, self.tick = agent, file, 0
        self.state = agent.new_state()

    def named(self, kept: str | None = None) -> None:
        self.file.note("weights", {"agent_sha256": self.agent.sha256(), "kept": kept})

    def live(self, moment: Moment, change: Callable[[Action], Action] = lambda action: action, **step: object) -> None:
        if moment.first:
            self.state = self.agent.new_state()
        with stepping_threads():  # as in the loop: two threads would give other bits
            percepts = self.agent.encode(self.state, moment)
            self.state, output = self.agent.step(self.state, percepts, effectors=EFFECTORS, **step)  # type: ignore[arg-type]
        self.file.write(moment, change(output.to_action()))


def recorder(path: Path, **details: object) -> Recorder:
    return Recorder(path, source="room", details={"effectors": ",".join(EFFECTORS), **details})


def test_recorded_life_equals_the_steps_of_the_agent(agent: Agent, tmp_path: Path) -> None:
    with recorder(tmp_path / "s.mcap") as file:
        life = Life(agent, file)
        life.named()
        for moment in moments(openings=(0, 11)):
            life.live(moment)
    check = check_replay([tmp_path / "s.mcap"], {agent.sha256(): agent})
    assert (check.ticks, check.checked, check.different, check.hand_overs) == (TICKS, TICKS, 0, 0)
    assert check.passed


def test_flipped_bit_is_found_at_its_tick(agent: Agent, tmp_path: Path) -> None:
    def flipped(action: Action) -> Action:
        look = action.effectors["look"].copy()
        look.view(np.uint8)[0] ^= 1
        return Action({**action.effectors, "look": look})

    with recorder(tmp_path / "s.mcap") as file:
        life = Life(agent, file)
        life.named()
        for tick, moment in enumerate(moments()):
            life.live(moment, flipped if tick in (17, 20) else lambda action: action)
    check = check_replay([tmp_path / "s.mcap"], {agent.sha256(): agent})
    assert (check.checked, check.different, check.passed) == (TICKS, 2, False)
    found = check.first_difference
    assert found is not None
    assert (found.tick, found.effector) == (17, "look")
    assert found.recorded is not None
    assert found.replayed is not None
    assert np.abs(found.recorded - found.replayed).max() < 1e-5
    assert str(found).startswith("tick 17, look: recorded float32 [")


def test_missing_effector_is_a_difference(agent: Agent, tmp_path: Path) -> None:
    with recorder(tmp_path / "s.mcap") as file:
        life = Life(agent, file)
        life.named()
        for moment in moments(3):
            life.live(moment, lambda action: Action({"move": action.effectors["move"]}))
    found = check_replay([tmp_path / "s.mcap"], {agent.sha256(): agent}).first_difference
    assert found is not None
    assert (found.tick, found.effector, found.recorded) == (1, "look", None)  # the first tick has no look


def hand_over(agent: Agent, newer: Agent, path: Path, kept: str | None) -> None:
    """A life in which newer weights take over before tick 9 and keep the state."""
    with recorder(path) as file:
        life = Life(agent, file)
        life.named()
        for tick, moment in enumerate(moments()):
            if tick == 9:
                life.agent = newer
                life.named(kept)
            life.live(moment)


def test_hand_over_of_weights_is_replayed(agent: Agent, newer: Agent, tmp_path: Path) -> None:
    hand_over(agent, newer, tmp_path / "s.mcap", "s.weights/new")
    newer.save_pretrained(tmp_path / "s.weights" / "new")
    check = check_replay([tmp_path / "s.mcap"], {agent.sha256(): agent})
    assert (check.checked, check.hand_overs, check.passed) == (TICKS, 1, True)
    without = check_replay([tmp_path / "s.mcap"])
    assert [(r.start, r.stop) for r in without.refused] == [(0, TICKS)], "the state before the hand-over is unknown"
    assert not without.passed


@pytest.mark.parametrize("kept", [None, "s.weights/gone", "../s.weights/new", "s.weights/other", "s.weights/broken"])
def test_missing_weights_are_refused(agent: Agent, newer: Agent, tmp_path: Path, kept: str | None) -> None:
    (tmp_path / "here").mkdir()
    path = tmp_path / "here" / "s.mcap"
    hand_over(agent, newer, path, kept)
    newer.save_pretrained(tmp_path / "s.weights" / "new")
    agent.save_pretrained(tmp_path / "here" / "s.weights" / "other")
    newer.save_pretrained(tmp_path / "here" / "s.weights" / "broken")
    (tmp_path / "here" / "s.weights" / "broken" / "model.safetensors").write_bytes(b"cut")
    check = check_replay([path], {agent.sha256(): agent})
    assert (check.ticks, check.checked, check.different) == (TICKS, 9, 0)
    assert [(refused.start, refused.stop) for refused in check.refused] == [(9, TICKS)]
    assert not check.passed
    assert "weights" in str(check.refused[0])


def test_ticks_after_lost_ones_are_unchecked_until_an_episode_begins(agent: Agent, tmp_path: Path) -> None:
    with recorder(tmp_path / "s.mcap") as file:
        life = Life(agent, file)
        life.named()
        for tick, moment in enumerate(moments(openings=(0, 15))):
            if tick == 10:
                file.note("lost", {"ticks": 4})
            life.live(moment)
    check = check_replay([tmp_path / "s.mcap"], {agent.sha256(): agent})
    assert [(refused.start, refused.stop) for refused in check.refused] == [(10, 15)]
    assert "4 ticks before it were lost" in check.refused[0].reason
    assert (check.checked, check.different, check.passed) == (TICKS - 5, 0, False)


def test_episode_without_its_first_tick_is_refused(agent: Agent, tmp_path: Path) -> None:
    with recorder(tmp_path / "s.mcap") as file:
        life = Life(agent, file)
        life.named()
        for tick, moment in enumerate(moments(openings=(0, 15))):
            if not tick:
                file.note(FORGOTTEN, {})
            life.live(moment)
    check = check_replay([tmp_path / "s.mcap"], {agent.sha256(): agent})
    assert [(refused.start, refused.stop) for refused in check.refused] == [(0, 15)]
    assert "were forgotten" in check.refused[0].reason
    assert (check.checked, check.different) == (TICKS - 15, 0)


def test_parts_form_one_life_and_a_missing_part_is_detected(agent: Agent, tmp_path: Path) -> None:
    first, second = tmp_path / "s.mcap", tmp_path / "s-0002.mcap"
    lived = moments()
    with recorder(first, part=1) as file:
        life = Life(agent, file)
        life.named()
        for moment in lived[:13]:
            life.live(moment)
    with recorder(second, part=2, continues=first.name) as file:
        life.file = file
        life.named()
        for moment in lived[13:]:
            life.live(moment)
    whole = check_replay([first, second], {agent.sha256(): agent})
    assert (whole.ticks, whole.hand_overs, whole.passed) == (TICKS, 0, True)
    alone = check_replay([second], {agent.sha256(): agent})
    assert (alone.checked, len(alone.refused)) == (0, 1)
    assert "continues 's.mcap'" in alone.refused[0].reason


def test_replay_steps_with_the_recalled_entries(agent: Agent, tmp_path: Path) -> None:
    payload: dict[str, Sense] = {"sight": np.full((64, 64, 3), 200, np.uint8)}
    recalled = agent.encode_recalled(collate_recalled([[(payload, 2.5)]])).map(lambda x: x.detach())
    with recorder(tmp_path / "s.mcap") as file:
        life = Life(agent, file)
        life.named()
        for tick, moment in enumerate(moments()):
            if tick == 7:
                file.note("recalled", {"ids": [3], "ages_s": [2.5]})
            life.live(moment, recalled=recalled if tick == 7 else None)
    agents = {agent.sha256(): agent}
    assert check_replay([tmp_path / "s.mcap"], agents, {3: payload}.get).passed
    without = check_replay([tmp_path / "s.mcap"], agents)
    assert [(refused.start, refused.stop) for refused in without.refused] == [(7, TICKS)]
    black = {3: {"sight": np.zeros((64, 64, 3), np.uint8)}}
    assert check_replay([tmp_path / "s.mcap"], agents, black.get).different, "another memory, another life"


def test_recording_without_actions_cannot_be_checked(agent: Agent, tmp_path: Path) -> None:
    with Recorder(tmp_path / "s.mcap", source="media") as file:
        for moment in moments(4):
            file.write(moment)
    check = check_replay([tmp_path / "s.mcap"], {agent.sha256(): agent})
    assert [str(refused) for refused in check.refused] == [
        "ticks 0 to 3: the recording does not say which weights acted"
    ]
    assert not check.passed


@pytest.mark.parametrize(("kind", "data"), [("weights", [1]), ("recalled", {"ages_s": 3, "ids": 7}), ("weights", 5)])
def test_invalid_notes_give_a_clear_error(kind: str, data: Any, tmp_path: Path) -> None:
    replay = checking._Replay({}, lambda ids: [])
    replay.agent = tiny_agent()
    with pytest.raises(SessionError, match="is not one that a life writes"):
        replay.take_note(Note(0, kind, data), tmp_path)
