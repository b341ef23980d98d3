"""A life in a simulated world: episode after episode, on the clock of a room."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from devmind.testing import LampRules
from devmind.worlds.adapter import row
from devmind.worlds.nursery.handling import ASKED
from devmind.worlds.rules import rules_of
from devmind.worlds.world_room import LINGERS, PAGE, WorldRoom


class Clock:
    """Time that passes only in `sleep`."""

    def __init__(self) -> None:
        self.s = 0.0

    def now(self) -> float:
        return self.s

    def sleep(self, seconds: float) -> None:
        self.s += seconds


def room(world: str, level: str, seed: int = 5) -> tuple[WorldRoom, Any]:
    clock, rules = Clock(), rules_of(world, level)
    return WorldRoom(rules, seed, now=clock.now, sleep=clock.sleep), rules


def test_the_room_senses_and_acts_as_the_rules_do() -> None:
    here, rules = room("tabletop", "two")
    assert here.is_simulated, "pages offer nothing that only a person in the room can do"
    state = rules.initial(np.array([5]))
    senses, info = here.reset()
    for tick in range(4):
        assert info["time_s"] == pytest.approx(0.1 * (tick + 1))
        for name, value in rules.observe(state).items():
            np.testing.assert_array_equal(senses[name], value[0])
        assert here.frame is not None
        np.testing.assert_array_equal(here.frame, rules.picture(state)[0])
        arm = np.array([0.5, -1.0, 1.0], np.float32)
        state = rules.step(state, {"arm": arm[None]})
        senses, _, _, _, info = here.step({"arm": arm, "look": np.ones(2)})  # the agent has no head there
        assert info["first"] is False
    assert here.health.ticks == 5
    assert here.health.skipped == 0


def test_the_next_episode_begins_with_the_next_seed() -> None:
    here, rules = room("nursery", "handle/grasp")
    here.reset()
    firsts = [bool(here.step({})[4]["first"]) for _ in range(rules.horizon + LINGERS + 2)]
    assert [tick for tick, first in enumerate(firsts) if first] == [rules.horizon + LINGERS]
    assert (here.ended, here.rewarded) == (1, 0)
    begun = rules.step(rules.initial(np.array([6])), {})
    assert here.frame is not None
    np.testing.assert_array_equal(here.frame, rules.picture(begun)[0])


def test_typed_words_replace_the_worlds_words_for_one_tick() -> None:
    here, _ = room("nursery", "handle/push")
    own = here.reset()[0]["words"]
    here.say("stop that")
    assert here.step({})[0]["words"] == "stop that"
    assert here.step({})[0]["words"] == own


def test_the_square_follows_the_head() -> None:
    here, _ = room("nursery", "handle/push")
    here.reset()
    assert (here.fovea.pan_deg, here.fovea.tilt_deg) == pytest.approx((0, -25), abs=1e-3)
    here.step({"look": np.array([1.0, 0.2], np.float32)})
    assert (here.fovea.pan_deg, here.fovea.tilt_deg) == pytest.approx((25, -20), abs=1e-3)
    for _ in range(3):
        here.step({"look": np.array([1.0, 0.0], np.float32)})
    assert here.fovea.pan_deg < 60, "what it looks at is out of the picture, and the square at its edge"


def test_the_picture_shows_the_named_thing() -> None:
    _, rules = room("nursery", "handle/push")
    with_it = rules.initial(np.arange(3))
    without = with_it.copy()
    without.present[:, ASKED] = False
    assert (rules.picture(with_it) != rules.picture(without)).any((1, 2, 3)).all()


def test_page_of_a_world_gets_episodes_rewards_and_instructions() -> None:
    """It wore the page of a webcam: teaching, and nothing about its episodes."""
    here, rules = room("minigrid", "BabyAI-GoToLocal-v0", 5)
    here.reset()
    assert here.progress() == {"episodes": 0, "successes": 0, "seed": 5, "reward": None}
    others = [row(rules.observe(rules.initial(np.array([seed]))), 0)[PAGE] for seed in range(6, 18)]
    assert here.instructions == tuple(dict.fromkeys(others))[:4]
    here.say(here.instructions[0])
    assert here.step({})[0][PAGE] == here.instructions[0]
    clock, asked = Clock(), list[float]()
    lamp = WorldRoom(LampRules(), 3, now=clock.now, sleep=clock.sleep)
    lamp.reset()
    while not lamp.ended:
        asked.append(lamp.step({"press": np.array(0)})[1])
    assert lamp.progress()["reward"] == round(sum(asked), 3)
    assert lamp.progress()["successes"] == any(reward > 0 for reward in asked)
    assert lamp.instructions == ()
