"""The live loop with synthetic camera and microphone: a recorded life replays to the same actions."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
import torch

from devmind.agent.agent import Agent
from devmind.live.loop import LiveLoop, Tick
from devmind.live.virtual import Mailbox, VirtualClock
from devmind.sessions.reader import Session
from devmind.sessions.recorder import Recorder
from devmind.testing import LampRules, tiny_agent
from devmind.worlds.room import Room
from devmind.worlds.rules import rules_of
from devmind.worlds.world_room import WorldRoom
from sensors.synthetic import SyntheticCamera, SyntheticMicrophone
from stages.reflex import parts


@pytest.fixture(scope="module")
def agent() -> Agent:
    torch.manual_seed(0)
    agent = tiny_agent()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "LOOK_THRESHOLD", None)  # an untrained arc turns by less than it
        parts.admit(agent)
    return agent


def test_recorded_life_replays_to_the_same_actions(agent: Agent, tmp_path: Path) -> None:
    lived: list[Tick] = []
    with SyntheticCamera() as eye, SyntheticMicrophone() as ear, Recorder(tmp_path / "s.mcap", source="room") as file:
        room = Room({"eye": eye, "ear": ear}, hz=20)
        watchers = {"recording": lambda tick: file.write(tick.moment, tick.action), "list": lived.append}
        summary = LiveLoop(agent, room, watchers=watchers).run(stop=lambda: len(lived) >= 5)
    assert summary.ticks == len(lived) == 5
    assert len(summary.work_s) == summary.ticks
    assert any("look" in dict(tick.output.decided()) for tick in lived)
    session = Session(tmp_path / "s.mcap")
    state = agent.new_state()
    for tick, (moment, action) in zip(lived, session.read(0, len(session)), strict=True):
        assert moment.senses["sight"].tobytes() == tick.moment.senses["sight"].tobytes()
        state, output = agent.step(state, agent.encode(state, moment), effectors=["look", "move"])
        assert action is not None
        assert np.array_equal(output.to_action().effectors["look"], action.effectors["look"])


def test_loop_runs_in_a_room_without_senses(agent: Agent) -> None:
    class Dead(SyntheticCamera):
        """Open, but silent."""

        def read_latest(self, max_age_s: float) -> tuple[np.ndarray, float]:
            from devmind.errors import StaleReading

            raise StaleReading("It is dark.")

    lived: list[Tick] = []
    with Dead() as eye:
        summary = LiveLoop(agent, Room({"eye": eye}, hz=20), watchers={"list": lived.append}).run(0.01)
    assert summary.ticks == 1
    assert summary.missing == {"sight": summary.ticks}
    assert lived[0].output.answered["look"] == {"look_arc": 0}, "no exam has passed its trunk head"


def test_moments_of_a_simulated_world_have_its_rewards(agent: Agent) -> None:
    lived: list[Tick] = []
    rules = LampRules()
    loop = LiveLoop(
        agent,
        WorldRoom(rules, seed=3, hz=50),
        watchers={"list": lived.append},
        directed=lambda moment, output, percepts: {"press": np.array(0)},
    )
    loop.run(stop=lambda: len(lived) >= 6)
    state, earned = rules.initial(np.array([3])), [0.0]
    for _ in lived[1:]:
        state = rules.step(state, {"press": np.array([0])})
        earned.append(float(rules.outcome(state).reward[0]))
    assert len(set(earned)) == 2
    assert [tick.moment.reward for tick in lived] == earned


def test_unanswered_effectors_are_reported_with_the_heads_that_could_answer(agent: Agent) -> None:
    room = WorldRoom(rules_of("nursery", "orient/sound"))
    untold = LiveLoop(agent, room).unanswered()
    assert "look" not in untold, "the arc answers"
    loop = LiveLoop(agent, room, answers={"look": ("look_trunk",)})
    loop.standing = {**loop.standing, "look": ()}
    assert loop.unanswered()["look"] == ["look_arc", "look_trunk"]


def test_loop_ends_on_request_and_raises_the_error_of_a_watcher(agent: Agent) -> None:
    with SyntheticCamera() as eye:
        room = Room({"eye": eye}, hz=20)
        assert LiveLoop(agent, room).run(60, stop=lambda: True).ticks == 1

        def broken(tick: Tick) -> None:
            raise RuntimeError("a watcher's fault")

        with pytest.raises(RuntimeError, match="watcher"):
            LiveLoop(agent, room, watchers={"broken": broken}).run(1)


def test_skipped_ticks_are_counted_by_their_cause(agent: Agent) -> None:
    def slow(tick: Tick) -> None:
        time.sleep(0.15 if tick.moment.first else 0)

    with SyntheticCamera() as eye:
        summary = LiveLoop(agent, Room({"eye": eye}, hz=20), watchers={"disk": slow}).run(0.5)
    assert summary.skipped >= 2
    assert summary.late["disk"] >= 2
    assert sum(summary.late.values()) == summary.skipped


def lived_at(agent: Agent, work_s: list[float]) -> list[tuple[float, str]]:
    """(Moments a second, what the pace says) after each tick, where the agent took so long on a virtual clock."""
    clock, paces = VirtualClock(), list[tuple[float, str]]()
    loop = LiveLoop(agent, Room({"eye": Mailbox("sight", clock)}, now=clock.now, sleep=clock.sleep))
    for _, seconds in zip(loop.ticks(), work_s, strict=False):
        paces.append((loop.pace.rate_hz, loop.pace.says))
        clock.sleep(seconds)
    return paces


def test_busy_computer_is_said_with_its_rate_and_taken_back(agent: Agent) -> None:
    busy = lived_at(agent, [0.0] * 100 + [0.25] * 40 + [0.0] * 200)
    says = [sentence for _, sentence in busy]
    assert not any(says[:100])
    assert not any(sentence for _, sentence in lived_at(agent, [8.0] + [0.0] * 110)), "the first step takes longer"
    assert says[139] == "This computer is busy: it lives at 3 Moments a second. Close other programs."
    assert not says[-1]
    assert busy[-1][0] == pytest.approx(10)
    changes = [now != before for now, before in zip(map(bool, says[1:]), map(bool, says), strict=False)]
    assert sum(changes) == 2, "once said, once taken back"


@pytest.mark.parametrize(
    ("work_s", "rate"), [(0.0, ""), (0.05, ""), (0.15, "5 Moments"), (0.35, "2.5 Moments"), (0.95, "1 Moment")]
)
def test_pace_is_slow_where_more_than_a_third_is_left_out(agent: Agent, work_s: float, rate: str) -> None:
    [*_, (_, says)] = lived_at(agent, [work_s] * 120)
    assert (f"lives at {rate} a second" in says) if rate else not says


def test_paused_agent_does_nothing_and_continues_afterwards(agent: Agent) -> None:
    lived: list[Tick] = []
    with SyntheticCamera() as eye:
        room = Room({"eye": eye}, hz=50)
        loop = LiveLoop(agent, room, watchers={"list": lived.append})
        loop.paused = True
        ticks = iter(range(10))

        def stop() -> bool:
            loop.paused = next(ticks) < 5
            return len(lived) >= 2

        loop.run(stop=stop)
    assert len(lived) == 2
    assert [tick.moment.first for tick in lived] == [True, False]
    assert room.health.ticks >= 7


def test_another_agent_starts_with_a_first_moment(agent: Agent) -> None:
    lived: list[Tick] = []
    with SyntheticCamera() as eye:
        loop = LiveLoop(agent, Room({"eye": eye}, hz=50), watchers={"list": lived.append})

        def stop() -> bool:
            loop.afresh = len(lived) == 2
            return len(lived) >= 4

        loop.run(stop=stop)
    assert [tick.moment.first for tick in lived] == [True, False, True, False]
