"""Learning while living: what is learned, which weights are better, hand-overs, and the end of the process."""

from __future__ import annotations

import copy
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch

from devmind.agent.agent import Agent
from devmind.errors import DevmindError
from devmind.live.checking import check_replay
from devmind.live.learning.following import Following
from devmind.live.learning.improving import TRAINED, Improver, PredictionErrors, keep
from devmind.live.learning.learner import Handover, LiveLearner
from devmind.moment import Moment
from devmind.sessions.recorder import Recorder
from devmind.testing import tiny_agent
from stages.reflex import parts as reflex


@pytest.fixture
def agent() -> Agent:
    """With random weights: a newborn trunk is the identity and starts learning slowly."""
    agent, generator = tiny_agent(), torch.Generator().manual_seed(0)
    reflex.admit(agent)
    with torch.no_grad():
        for parameter in agent.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return agent.eval()


def blinking(ticks: int, start: int = 0) -> list[Moment]:
    """A predictable world: the light alternates between left and right."""
    left = np.full((64, 64, 3), 100, np.uint8)
    left[:, :32] = 140
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 8, (8, 64, 64, 3), dtype=np.uint8)
    return [
        Moment(k / 10, {"sight": (left if k % 2 else left[:, ::-1]) + noise[k % 8]}, first=k == 0)
        for k in range(start, start + ticks)
    ]


def record(path: Path, moments: list[Moment]) -> Path:
    with Recorder(path, source="room", details={"recording": "one"}) as file:
        for moment in moments:
            file.write(moment)
    return path


def followed(path: Path) -> Following:
    recording = Following(path)
    recording.refresh()
    return recording


def small(agent: Agent, recording: Following) -> Improver:
    """An improver with small batches."""
    learner = Improver(agent, recording)
    learner.rows = 4
    return learner


def test_live_learning_improves_predictions_and_changes_only_its_own_parts(agent: Agent, tmp_path: Path) -> None:
    recording = followed(record(tmp_path / "s.mcap", blinking(160)))
    before = copy.deepcopy(agent.state_dict())
    learner = small(copy.deepcopy(agent), recording)
    assert learner.judge(120, 160).newer == learner.judge(120, 160).live, "nothing was learned yet"
    for _ in range(30):
        learner.learn(120)
    judged = learner.judge(120, 160)
    assert judged.newer["next_sight"] < 0.97 * judged.live["next_sight"]
    assert judged.verdict == "handed_over"
    changed = {name for name, value in learner.agent.state_dict().items() if not torch.equal(value, before[name])}
    assert changed
    assert all(name.startswith(TRAINED) for name in changed), "encoders, arcs and keys stay bit by bit"
    on_senses = {"see_trunk", "bind_trunk", "look_trunk", "reach_trunk", "move_trunk", "foresee_sight"}
    assert set(judged.drift) == {"spoken"} | on_senses, "what taps sound alone had nothing to read"
    assert max(judged.drift.values()) < 0.05


def test_other_heads_drift_without_the_guard(agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recording = followed(record(tmp_path / "s.mcap", blinking(120)))
    drifts = {}
    for guarded in (True, False):
        learner = small(copy.deepcopy(agent), recording)
        if not guarded:
            learner.guarded = []
        for _ in range(15):
            learner.learn(120)
        learner.guarded = ["look_trunk", "spoken"]
        drifts[guarded] = sum(learner.judge(0, 120).drift.values())
    assert drifts[True] < 0.5 * drifts[False]


@pytest.mark.parametrize(
    ("newer", "drift", "verdict"),
    [
        ((0.9, 0.85), 0.01, "handed_over"),
        ((1.0, 0.8), 0.0, "undecided"),
        ((0.9995, 0.8), 0.0, "undecided"),
        ((1.1, 0.8), 0.0, "taken_back"),
        ((0.5, 0.5), 0.2, "undecided"),
        ((float("nan"), 0.5), 0.0, "taken_back"),
    ],
)
def test_only_weights_that_predict_better_are_handed_over(
    newer: tuple[float, float], drift: float, verdict: str
) -> None:
    names = ("next_sight", "next_sound")
    live = dict(zip(names, (1.0, 0.8), strict=True))
    assert PredictionErrors(live, dict(zip(names, newer, strict=True)), {"spoken": drift}).verdict == verdict


def test_take_back_restarts_from_the_live_weights(agent: Agent, tmp_path: Path) -> None:
    learner = small(agent, followed(record(tmp_path / "s.mcap", blinking(40))))
    first = learner.live.sha256()
    learner.learn(40)
    assert learner.agent.sha256() != first
    learner.take_back()
    assert learner.agent.sha256() == first
    learner.learn(40)
    learner.hand_over()
    assert learner.live.sha256() == learner.agent.sha256() != first


def test_all_parts_of_a_recording_are_followed_while_being_written(tmp_path: Path) -> None:
    lived = blinking(30)
    path = tmp_path / "s.mcap"
    recording = Following(path)
    assert (recording.refresh(), len(recording)) == (0, 0), "the file may come later"
    with Recorder(path, source="room", details={"recording": "one"}) as file:
        for moment in lived[:12]:
            file.write(moment)
        file.flush()
        assert recording.refresh() == 12
        for moment in lived[12:20]:
            file.write(moment)
    record(tmp_path / "s-0002.mcap", lived[20:])
    assert recording.refresh() == 18
    assert recording.moments(0, 99) == lived
    assert recording.moments(18, 4) == lived[18:22]
    assert recording.moments(25, 2) == lived[25:27]


def test_following_keeps_no_notes_which_would_fill_the_memory_in_a_day(tmp_path: Path) -> None:
    with Recorder(tmp_path / "s.mcap", source="room", details={"recording": "one"}) as file:
        for tick in range(1000):
            file.note("recalled", {"ids": [1000 + tick] * 8, "ages_s": [tick / 7 + old for old in range(8)]})
            file.write(Moment(tick / 10, {"body": np.zeros(4, np.float32)}, first=tick == 0))
    followed(tmp_path / "s.mcap")  # what is loaded once does not count
    recording = Following(tmp_path / "s.mcap")
    tracemalloc.start()
    assert recording.refresh() == 1000
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 200 * 1000
    assert recording.moments(998, 2)[1].time_s == 99.9


def test_hand_over_swaps_the_weights_in_place(agent: Agent, tmp_path: Path) -> None:
    learner = small(copy.deepcopy(agent), followed(record(tmp_path / "s.mcap", blinking(40))))
    learner.learn(40)
    place, sha256 = keep(learner.agent, tmp_path / "s.weights")
    assert keep(learner.agent, tmp_path / "s.weights") == (place, sha256), "kept once"
    tensors = {name: value for name, value in learner.agent.named_parameters() if name.startswith(TRAINED)}
    Handover(place, sha256, 1, {name: value.detach() for name, value in tensors.items()}).swap_into(agent)
    assert agent.sha256() == sha256 == Agent.from_pretrained(place).sha256()


def test_agent_without_predicting_heads_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DevmindError, match="no head 'next_sight'"):
        LiveLearner(tiny_agent(), tmp_path / "s.mcap")


@pytest.mark.slow
def test_second_process_learns_hands_over_and_ends(agent: Agent, tmp_path: Path) -> None:
    """The whole way: recorded, learned from, swapped in between ticks, and checked, with a second process."""
    path, lived, handed_over, stop_at = tmp_path / "s.mcap", blinking(4000), [], -1
    with (
        Recorder(path, source="room", details={"effectors": "look"}) as file,
        LiveLearner(agent, path, every_s=0.5) as learner,
    ):
        process = learner._process
        assert process is not None
        file.note("weights", learner.note(learner.sha256))
        state, waited_until = agent.new_state(), time.monotonic() + 120
        for moment in lived:
            ready = learner.poll()
            if ready:
                ready.swap_into(agent)
                file.note("weights", learner.note(ready.sha256))
                handed_over.append(ready)
                stop_at = file.ticks + 5  # some ticks with the newer weights
            state, output = agent.step(state, agent.encode(state, moment), effectors=["look"])
            file.write(moment, output.to_action())
            if file.ticks == stop_at or time.monotonic() > waited_until:
                break
            time.sleep(0.01)
        assert handed_over, (learner.fault, learner.view())
        assert agent.sha256() == handed_over[-1].sha256
        view = learner.view()
        assert view["handed_over"] >= 1
        assert view["curves"]["next_sight"][-1][1] < view["curves"]["next_sight, as it lives"][-1][1]
        started_s = time.monotonic()
    assert time.monotonic() - started_s < 15, "it is asked for two seconds, then killed"
    assert process.returncode == 0, "it ended because it was asked to"
    assert learner.fault == ""
    assert not list((tmp_path / "s.weights").glob(".*"))
    check = check_replay([path])
    assert check.passed, (check.first_difference, check.refused)
    assert check.hand_overs == len(handed_over)
