"""Rows of states, outcomes, and Gymnasium environments as Rules."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils import EzPickle

from devmind import worlds
from devmind.errors import WorldError
from devmind.testing import LampRules, check_world
from devmind.worlds.adapter import RulesWorld
from devmind.worlds.cartpole import CartPoleRules
from devmind.worlds.gym_world import GymRules, GymWorld
from devmind.worlds.memory_len import MemoryLenRules
from devmind.worlds.rules import Outcome

TAXI = max(name for name in gymnasium.registry if name.startswith("Taxi-v"))


def test_rows_are_put_joined_and_repeated() -> None:
    rules = LampRules()
    state, other = rules.initial(np.array([1, 2, 3])), rules.step(rules.initial(np.array([7, 8])), {})
    state.put([2, 0], other)
    assert state.seed.tolist() == [8, 2, 7]
    assert state.tick.tolist() == [1, 0, 1]
    other.tick += 5
    assert state.tick.tolist() == [1, 0, 1]
    joined = type(state).concat([state, other])
    assert joined.seed.tolist() == [8, 2, 7, 7, 8]
    assert joined.take([1]).repeat(2).seed.tolist() == [2, 2]
    assert joined.repeat(2).seed.tolist() == [8, 8, 2, 2, 7, 7, 7, 7, 8, 8]
    state.put(np.array([False, True, False]), other.take([0]))
    assert state.seed.tolist() == [8, 7, 7]
    with pytest.raises(WorldError, match=r"'seed' of \[2\] cannot be put where \[1\] are"):
        state.put([0], other)


def test_rows_that_do_not_fit_replace_nothing() -> None:
    state, longer = (MemoryLenRules(length).initial(np.arange(6)) for length in ("5", "6"))
    kept = state.copy()
    longer.context[:] = 1 - kept.context
    with pytest.raises(WorldError, match=r"'distractors' of \[6, 7\] cannot be put"):
        state.put(np.arange(6), longer)
    assert np.array_equal(state.context, kept.context)


def test_a_row_continues_equally_at_any_position() -> None:
    rules, push = CartPoleRules(), np.array([0, 1, 1, 0])
    apart = [rules.initial(np.array([seed])) for seed in (3, 4)]
    together = type(apart[0]).concat(apart).repeat(2)
    after = rules.step(together, {"push": push})
    for i in range(4):
        alone = rules.step(apart[i // 2], {"push": push[i : i + 1]})
        assert np.array_equal(rules.observe(after)["body"][i], rules.observe(alone)["body"][0])


def test_an_outcome_gives_the_player_and_the_discount() -> None:
    over = np.array([True, False])
    alone = Outcome(np.zeros(2, np.float32), over, ~over)
    assert alone.player.tolist() == [0, 0]
    assert alone.discount.tolist() == [0.0, 1.0]
    assert alone.ended.all()
    game = Outcome(np.zeros(2, np.float32), over, ~over, np.array([1, 1]), np.float32([0, -1]))
    assert game.discount.tolist() == [0.0, -1.0]


@pytest.mark.parametrize("level", ["CartPole-v1", TAXI, "Acrobot-v1"])
def test_gymnasium_environments_become_rules(level: str) -> None:
    """With episodes of 20 steps: each step copies the environments, and Taxi's hold a table of all its moves."""
    spec = gymnasium.spec(level)
    gymnasium.register("devmind-test/Short-v0", entry_point=spec.entry_point, kwargs=spec.kwargs, max_episode_steps=20)
    try:
        rules = GymRules("devmind-test/Short-v0")
    finally:
        del gymnasium.registry["devmind-test/Short-v0"]
    check_world(rules, ticks=5)
    assert rules.horizon == 20
    assert GymRules(level).horizon == spec.max_episode_steps


def test_gymnasium_rules_step_as_gymnasium_does() -> None:
    rules, inner = RulesWorld(GymRules("CartPole-v1")), gymnasium.make("CartPole-v1")
    expected, _ = inner.reset(seed=3)
    senses, _ = rules.reset(seed=3)
    kept = rules.state()
    for _ in range(2):
        assert np.array_equal(senses["body"], expected)
        ended = False
        while not ended:
            expected, reward, ended, _, _ = inner.step(1)
            senses, got, terminal, _, _ = rules.step({"push": np.array(1)})
            assert np.array_equal(senses["body"], expected)
            assert (got, terminal) == (reward, ended)
        assert rules.step({"push": np.array(1)})[1:4] == (0.0, True, False)
        expected, _ = inner.reset(seed=3)
        senses = rules.restore(kept)
    assert np.array_equal(rules.step({})[0]["body"], senses["body"])


def test_taxi_gives_its_legal_moves() -> None:
    rules = GymRules(TAXI)
    state = rules.initial(np.array([1, 2]))
    mask = gymnasium.make(TAXI).reset(seed=2)[1]["action_mask"]
    assert rules.legal(state)["push"][1].tolist() == mask.astype(bool).tolist()
    assert rules.observe(state)["body"].shape == (2, 500)


class Narrowing(gymnasium.Env):
    """Forbids the action 1; episodes of even seeds end with the first step, when nothing is allowed any more."""

    observation_space, action_space = spaces.Box(0, 1, (2,)), spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        self.short = seed % 2 == 0
        return np.zeros(2, np.float32), {"action_mask": np.int8([1, 0, 1])}

    def step(self, action):
        info = {} if self.short else {"action_mask": np.int8([0, 0, 1])}
        return np.zeros(2, np.float32), 1.0, self.short, False, info


def test_an_ended_row_does_not_make_all_moves_of_the_others_legal() -> None:
    gymnasium.register("devmind-test/Narrowing-v0", Narrowing)
    try:
        rules = GymRules("devmind-test/Narrowing-v0")
    finally:
        del gymnasium.registry["devmind-test/Narrowing-v0"]
    state = rules.initial(np.array([4, 5]))
    assert rules.legal(state)["push"].tolist() == [[True, False, True]] * 2
    state = rules.step(state, {"push": np.array([0, 0])})
    assert rules.outcome(state).terminal.tolist() == [True, False]
    assert rules.legal(state)["push"].tolist() == [[True, True, True], [False, False, True]]
    assert rules.legal(state.take([0]))["push"].all(), "also where all rows have ended"
    assert "push" not in GymRules("CartPole-v1").legal(GymRules("CartPole-v1").initial(np.array([4])))


def test_gymnasium_worlds_have_names(monkeypatch: pytest.MonkeyPatch) -> None:
    from devmind import plugins

    entry = plugins.Plugin("worlds", "gymnasium", "devmind.worlds.gym_world:GymRules", "devmind", "0")
    monkeypatch.setattr(plugins, "available", lambda group: {"gymnasium": entry})
    world = worlds.make("gymnasium", "CartPole-v1", [3, 4])
    assert world.observe()["body"].shape == (2, 4)
    with pytest.raises(WorldError, match="no Gymnasium environment 'CartPool-v1' that can be made"):
        worlds.make("gymnasium", "CartPool-v1", [1])
    with pytest.raises(WorldError, match="no Gymnasium environment 'nobody_has_this:Pole-v1' that can be made"):
        GymRules("nobody_has_this:Pole-v1")


class Uncopied(gymnasium.Env):
    """Holds something that cannot be copied."""

    observation_space, action_space = spaces.Box(0, 1, (2,)), spaces.Discrete(2)

    def __init__(self) -> None:
        self.lines = (line for line in "ab")

    def reset(self, *, seed=None, options=None):
        return np.zeros(2, np.float32), {}

    def step(self, action):
        return np.zeros(2, np.float32), 0.0, False, False, {}


class Forgetful(Uncopied):
    """Copies share their counter."""

    count = [0]  # noqa: RUF012

    def __init__(self) -> None:
        pass

    def step(self, action):
        self.count[0] += 1
        return np.float32([self.count[0] % 2, 0]), 0.0, False, False, {}


class Anew(Uncopied, EzPickle):
    """A copy is made anew, and is where every episode begins."""

    def __init__(self) -> None:
        EzPickle.__init__(self)
        self.tick = 0

    def reset(self, *, seed=None, options=None):
        self.tick = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.tick += 1
        return np.float32([self.tick / 10, 0]), 0.0, False, False, {}


class Unready(Anew):
    def __init__(self) -> None:
        EzPickle.__init__(self)
        self.tick = -1

    def step(self, action):
        assert self.tick >= 0, "Call reset first."
        return super().step(action)


class Unmade(Uncopied):
    def __init__(self, size: int) -> None:
        pass


class Unbegun(Uncopied):
    def reset(self, *, seed=None, options=None):
        raise FileNotFoundError("There is no 'rooms.png'.")


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (Uncopied, "cannot be copied"),
        (Forgetful, "does not go on as the"),
        (Unmade, r"that can be made: .*'size'"),
        (Anew, "does not go on as the"),
        (Unready, "cannot be copied"),
        (Unbegun, r"cannot be played \(There is no 'rooms.png'.\): choose another"),
    ],
)
def test_environments_that_cannot_be_copied_are_refused(kind: type, said: str) -> None:
    gymnasium.register("devmind-test/Odd-v0", kind)
    try:
        with pytest.raises(WorldError, match=said):
            GymRules("devmind-test/Odd-v0")
    finally:
        del gymnasium.registry["devmind-test/Odd-v0"]


class Everything(gymnasium.Env):
    """Every space that GymWorld accepts."""

    observation_space = spaces.Dict(
        {
            "place": spaces.Discrete(3, start=1),
            "cards": spaces.MultiDiscrete([2, 3]),
            "doors": spaces.MultiBinary(2),
            "speed": spaces.Box(-1.0, 1.0, (), np.float64),
            "image": spaces.Box(0, 255, (8, 8, 3), np.uint8),
        }
    )
    action_space = spaces.Dict({"walk": spaces.MultiDiscrete([2, 2]), "jump": spaces.Discrete(2)})

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.seen(2, [1, 0]), {}

    def seen(self, place, cards):
        doors, speed = np.array([1, 0], np.int8), np.array(0.5)
        image = np.full((8, 8, 3), 9, np.uint8)
        return {"place": place, "cards": np.array(cards), "doors": doors, "speed": speed, "image": image}

    def step(self, action):
        assert isinstance(action["jump"], int)
        return self.seen(1 + action["jump"], [action["walk"][0], 2]), 1.0, False, False, {}


def test_dicts_choices_and_numbers_are_sensed_and_acted() -> None:
    world = GymWorld(Everything())
    check_world(world)
    senses, _ = world.reset(seed=1)
    assert senses["place"].tolist() == [0, 1, 0]
    assert senses["cards"].tolist() == [0, 1, 1, 0, 0]
    assert senses["doors"].tolist() == [1, 0]
    assert senses["speed"].tolist() == [0.5]
    assert senses["image"].dtype == np.uint8
    senses, *_ = world.step({"walk": np.array([1, 0]), "jump": np.array([1])})
    assert senses["place"].tolist() == [0, 1, 0]
    assert senses["cards"].tolist() == [0, 1, 0, 0, 1]
    with pytest.raises(WorldError, match=r"Expected the effector 'jump'; got \['walk'\]"):
        world.step({"walk": np.array([1, 0])})


def test_a_discrete_observation_is_one_hot() -> None:
    world = GymWorld(gymnasium.make("FrozenLake-v1"))
    assert world.reset(seed=0)[0]["body"].tolist() == [1.0] + [0.0] * 15


class Texts(gymnasium.Env):
    observation_space, action_space = spaces.Text(5), spaces.Discrete(2)


def test_unsupported_spaces_are_refused() -> None:
    with pytest.raises(WorldError, match=r"to observe, or a Dict of these .*got Text\(1, 5"):
        GymWorld(Texts())
    with pytest.raises(WorldError, match=r"'board' must be int8 .* Give the sense another name"):
        GymWorld(gymnasium.make("CartPole-v1"), sense="board")


class Generous(LampRules):
    """Pays after the end."""

    def outcome(self, state):
        outcome = super().outcome(state)
        return Outcome(outcome.reward + np.float32(1), outcome.terminal, outcome.truncated)


class Endless(LampRules):
    """Continues beyond its horizon."""

    def outcome(self, state):
        never = np.zeros(len(state), bool)
        return Outcome(super().outcome(state).reward, never, never)


class Hopeful(LampRules):
    """Keeps a discount after a terminal."""

    def outcome(self, state):
        outcome = super().outcome(state)
        return Outcome(outcome.reward, outcome.terminal, outcome.truncated, discount=np.ones(len(state), np.float32))


@pytest.mark.parametrize(
    ("kind", "law"),
    [
        (Generous, "an ended child stays ended and earns nothing"),
        (Endless, "no episode is longer than the horizon"),
        (Hopeful, "nothing counts after a terminal"),
    ],
)
def test_check_world_checks_the_laws_of_endings(kind: type, law: str) -> None:
    with pytest.raises(AssertionError, match=law):
        check_world(kind())


def test_an_episode_ends_at_the_horizon() -> None:
    rules = MemoryLenRules("5")
    state = rules.initial(np.array([1]))
    for step in range(rules.horizon):
        assert not rules.outcome(state).ended[0], step
        state = rules.step(state, {"choose": np.array([0])})
    assert rules.outcome(state).ended[0]
