"""BabyAI's rooms, its bot, demonstrations, and the exam of following."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("minigrid")

from devmind.curriculum.exam import Measure
from devmind.curriculum.examining import examination
from devmind.curriculum.stage import Context
from devmind.errors import ConfigError, DevmindError, SessionError, WorldError
from devmind.seeding import EXAM_SEEDS_FROM
from devmind.sessions.reader import Session
from devmind.testing import tiny_agent
from devmind.worlds.minigrid import FORWARD, room
from stages.language import parts
from stages.language.follow import demos, exam, hand_rules, lesson, rooms
from stages.language.stage import LanguageStage


class Knowing:
    """The bot as a policy: it looks at the rooms themselves."""

    def __init__(self, worlds: list) -> None:
        self.worlds, self.bots = worlds, []

    def __call__(self, senses, first):
        if first.all():
            self.bots = [rooms.Bot(world) for world in self.worlds]
        return {"choose": np.array([bot.choose() for bot in self.bots])}


def test_the_bot_carries_out_its_instruction() -> None:
    shown = rooms.demonstrate(lesson.ROOM, 5)
    assert shown is not None
    assert shown.instruction == "go to the red ball"
    assert len(shown.board) == len(shown.choice) + 1
    assert (shown.choice == shown.done).all()
    assert shown.reward > 0.5
    red_ball = (shown.board[-1, 6, 5, 3] == 1) & (shown.board[-1, 11, 5, 3] == 0)
    assert red_ball  # it ends facing a red ball


def test_rooms_in_turn_are_made_once_and_give_the_same_episodes() -> None:
    """Lessons go through three kinds of rooms in turn; a cache of two made a new room for every demonstration."""
    alone = [rooms.demonstrate(name, 5) for name in lesson.ROOMS]
    made = [rooms.room_of_bot(name) for name in lesson.ROOMS]
    for name, room_made, expected in zip(lesson.ROOMS, made, alone, strict=True):
        shown = rooms.demonstrate(name, 5)
        assert shown is not None
        assert expected is not None
        assert shown.instruction == expected.instruction
        np.testing.assert_array_equal(shown.board, expected.board)
        assert rooms.room_of_bot(name) is room_made


def test_the_bots_steps_succeed_and_shuffled_steps_do_not(monkeypatch) -> None:
    made = []

    def kept(name):
        made.append(room(name))
        return made[-1]

    monkeypatch.setattr(rooms, "room", kept)
    seeds = np.arange(2_000_000, 2_000_012)
    assert rooms.success_of_episodes(lesson.ROOM, seeds, Knowing(made)).mean() == 1.0
    made.clear()
    knowing = Knowing(made)

    def shuffled(senses, first):
        return {"choose": np.roll(knowing(senses, first)["choose"], 1)}

    assert rooms.success_of_episodes(lesson.ROOM, seeds, shuffled).mean() < 0.7


def test_a_faster_agent_earns_more(monkeypatch) -> None:
    made, waited = [], []

    def kept(name):
        made.append(room(name))
        return made[-1]

    monkeypatch.setattr(rooms, "room", kept)
    seeds = np.arange(2_000_000, 2_000_008)
    prompt = rooms.returns("BabyAI-GoToLocal-v0", seeds, Knowing(made))
    made.clear()
    knowing = Knowing(made)

    def turning_first(senses, first):
        waited.append(first)
        if len(waited) <= 4:  # one full turn first, then the bot's steps
            knowing.bots = [rooms.Bot(world) for world in made]
            return {"choose": np.zeros(len(seeds), int)}
        if len(waited) == 5:
            first = np.ones_like(first)
        return knowing(senses, first)

    late = rooms.returns("BabyAI-GoToLocal-v0", seeds, turning_first)
    assert (prompt > 0).all()
    assert (late < prompt).all()
    assert (late > 0).all()


def test_a_rule_that_sees_the_ball_beats_chance() -> None:
    seeds, rng = np.arange(2_000_000, 2_000_040), np.random.default_rng(0)
    rules = (hand_rules.at_random, hand_rules.straight_on, hand_rules.to_the_red_ball)
    random, straight, red = (rooms.success_of_episodes(lesson.ROOM, seeds, rule(rng)).mean() for rule in rules)
    assert red > 0.7 > straight
    assert red > random + 0.2


def test_strayed_steps_are_done_and_not_taught() -> None:
    shown = [rooms.demonstrate(lesson.ROOM, seed, stray=0.5) for seed in range(6)]
    slips = np.concatenate([one.choice != one.done for one in shown if one])
    assert 0.1 < slips.mean() < 0.6


def test_the_instruction_stands_in_every_tick() -> None:
    said = rooms.rooms_with_instructions([room(lesson.ROOM)], np.array([1]))
    heard = [said.observe()["text"][0]]
    for _ in range(3):
        heard.append(said.step({"choose": np.array([0])})[0]["text"][0])
    assert heard == ["go to the red ball"] * 4


def test_an_unknown_word_in_an_instruction_is_named(monkeypatch) -> None:
    world = room(lesson.ROOM)
    begin = world.reset

    def reset(**given):
        begun = begin(**given)
        world.env.unwrapped.mission = "go to the rde ball"
        return begun

    monkeypatch.setattr(world, "reset", reset)
    with pytest.raises(DevmindError, match=r"'rde' .* did you mean 'red'"):
        rooms.rooms_with_instructions([world], np.array([1]))


@pytest.mark.parametrize("name", ["BabyAI-GoToLocal-v0", "BabyAI-PickupLoc-v0", "BabyAI-PutNextLocal-v0",
                                  "BabyAI-BossLevel-v0", "BabyAI-SynthSeq-v0"])  # fmt: skip
def test_every_word_of_babyai_is_known(name: str) -> None:
    for seed in range(20):
        rooms.rooms_with_instructions([room(name)], np.array([seed]))


def test_unknown_and_broken_rooms_are_refused(tmp_path: Path) -> None:
    with pytest.raises(WorldError, match="did you mean 'BabyAI-GoToLocal-v0'"):
        room("BabyAI-GoToLocl-v0")
    for broken in (rooms.demonstrate, lambda name, seed: demos.make(name, 1, tmp_path)):
        with pytest.raises(WorldError, match="does not work in 'BabyAI-KeyInBox-v0'"):
            broken("BabyAI-KeyInBox-v0", 0)


@pytest.mark.parametrize("name", ["MiniGrid-GoToDoor-5x5-v0", "MiniGrid-Empty-5x5-v0", "MiniGrid-FourRooms-v0"])
def test_rooms_of_minigrid_are_refused_before_any_file(name: str, tmp_path: Path) -> None:
    for _ in range(2):  # a leftover file would fail the second attempt
        with pytest.raises(WorldError, match=f"'{name}' is a room of MiniGrid's own"):
            demos.make(name, 1, tmp_path / "demos")
    assert not (tmp_path / "demos").exists()
    with pytest.raises(WorldError, match="are for exams"):
        demos.make(lesson.ROOM, 2, tmp_path / "demos", seed=EXAM_SEEDS_FROM - 1)
    assert not (tmp_path / "demos").exists()


def test_a_file_in_the_folders_place_raises_a_config_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"--out expects a folder, and '.*file' is a file"):
        demos.make(lesson.ROOM, 1, tmp_path / "file")


def test_a_bot_that_fails_everywhere_leaves_no_empty_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demos, "demonstrate", lambda room, seed: None)
    for _ in range(2):
        with pytest.raises(WorldError, match="failed in 20 rooms"):
            demos.make(lesson.ROOM, 1, tmp_path)
    assert not list(tmp_path.iterdir())
    mine = tmp_path / f"{lesson.ROOM}-0.mcap"
    mine.write_bytes(b"mine")
    with pytest.raises(SessionError):
        demos.make(lesson.ROOM, 1, tmp_path)
    assert mine.read_bytes() == b"mine", "a file that was there is never taken away"


def test_a_batch_equals_what_the_actor_senses(context: Context) -> None:
    batch = lesson.lesson_batch(context, 0, 4)
    again = lesson.lesson_batch(context, 0, 4)
    assert all((batch["senses"][name] == again["senses"][name]).all() for name in batch["senses"])
    assert (batch["present"]["text"] == batch["valid"]).all()
    assert (batch["present"]["board"] == batch["valid"]).all()
    agent = tiny_agent()
    parts.admit(agent)
    value, _ = lesson.loss(agent, batch)
    assert value.item() == pytest.approx(np.log(parts.CHOICES), abs=0.3)
    with torch.no_grad():
        each = [lesson.loss(agent, batch | {"choice": torch.full_like(batch["choice"], one)})[1]["as the bot"]
                for one in range(parts.CHOICES)]  # fmt: skip
    assert float(sum(each)) == pytest.approx(1.0), "one action is the likeliest in each Moment"


def test_a_glimpse_has_one_measure(context: Context) -> None:
    agent = tiny_agent()
    parts.admit(agent)
    with examination(agent):
        assert len(exam.examine(agent, context.glimpse()).alone()) == 1


def of_an_untaught_agent(measures: Mapping[str, Measure]) -> None:
    measure, *others = measures.values()
    assert [other.name for other in others] == list(exam.FURTHER)
    for other in others:
        assert other.score < 0.5
        random, bot = map(float, re.findall(r"\d\.\d{3}", other.note))
        assert 0 < random < 0.6
        assert bot > 0.8
        done = other.rows["instructions carried out"]  # slower episodes earn less
        assert other.score * (bot - random) + random <= done + 0.001
    assert measure.rows["the bot"] > 0.95
    assert 0.05 < measure.floors["random"] < 0.8
    assert measure.score < 0.6
    assert not exam.GATE.judge({exam.NAME: measure}).passed


def test_without_minigrid_nothing_is_measured(context: Context, monkeypatch) -> None:
    monkeypatch.setattr(exam, "minigrid_installed", lambda: False)
    monkeypatch.setattr("stages.language.lessons.minigrid_installed", lambda: False)
    assert exam.examine(tiny_agent(), context).in_full() == []
    assert [one.name for one in LanguageStage().lessons(context)] == ["read", "call", "senses", "talk", "new_words"]
    assert "follow" not in LanguageStage().lessons(context)[1].skills


def test_the_bot_relabels_the_states_that_another_policy_reached() -> None:
    """A policy that always turns left is taught something else; one that acts as the bot is taught just that."""
    from stages.language.follow.dagger import relabel_episodes

    seeds = [3, 4, 5]
    turned = relabel_episodes(lesson.ROOM, seeds, lambda senses, first: {"choose": np.zeros(3, np.int64)}, ticks=6)
    assert len(turned) == 3
    for one in turned:
        assert len(one.choice) == len(one.done) == 6
        assert (one.done == 0).all()
        assert len(one.board) == 7
        assert (one.choice != 0).any()
        assert one.reward == 0
    shown = [rooms.demonstrate(lesson.ROOM, seed) for seed in seeds]
    plans = [one.choice if one is not None else np.zeros(1, np.int64) for one in shown]
    at = iter(range(100))

    def as_the_bot(senses, first):
        tick = next(at)
        return {"choose": np.array([plan[min(tick, len(plan) - 1)] for plan in plans])}

    for one, expected in zip(relabel_episodes(lesson.ROOM, seeds, as_the_bot), shown, strict=True):
        assert expected is not None
        np.testing.assert_array_equal(one.choice, expected.choice)
        np.testing.assert_array_equal(one.board, expected.board)
        assert one.reward == pytest.approx(expected.reward)


def test_a_batch_may_hold_own_episodes(context: Context) -> None:
    agent = tiny_agent()
    parts.admit(agent)
    agent.config.stages = ["reflex", "language"]
    batch = lesson.mixed_batch(agent.train(), context, 0, 8, own=0.5)
    plain = lesson.lesson_batch(context, 0, 8)
    assert batch["choice"].shape[0] == plain["choice"].shape[0]
    assert agent.training, "it goes on learning"
    rows = plain["choice"].shape[0] // 2
    own = batch["choice"][:rows][batch["valid"][:rows]]
    assert ((own >= 0) & (own < 7)).all()
    again = lesson.mixed_batch(agent, context, 0, 8, own=0.5)
    assert torch.equal(again["choice"], batch["choice"])
    value, _ = lesson.loss(agent, batch)
    assert value.isfinite()


@pytest.mark.slow
def test_demonstrations_are_sessions(tmp_path: Path) -> None:
    shares = demos.make(lesson.ROOM, 5, tmp_path, jobs=2, seed=7)
    assert [share.made for share in shares] == [3, 2]
    moments, actions = zip(*Session(shares[1].session), strict=True)
    assert len(moments) == shares[1].ticks
    assert sum(moment.first for moment in moments) == sum(moment.terminal for moment in moments) == 2
    shown = rooms.demonstrate(lesson.ROOM, 8)  # the second process's first room
    assert shown is not None
    np.testing.assert_array_equal(moments[0].senses["board"], shown.board[0])
    assert moments[0].senses["text"] == "go to the red ball"
    done = [int(action.effectors["choose"]) for action in actions[: len(shown.done)]]
    assert done == shown.done.tolist()
    assert max(done) <= FORWARD


def test_an_untaught_agent_acts_the_same_with_skipped_layers_computed(agent) -> None:
    seeds = np.arange(6) + EXAM_SEEDS_FROM
    whole = parts.untrained_agent(agent)
    for layer in whole.trunk.decoder.layers:
        assert "forward" in vars(layer)  # the layer is skipped
        del layer.forward
    fast, slow = (
        rooms.returns(lesson.ROOMS[1], seeds, rooms.following(one, generator=torch.Generator().manual_seed(0)), None)
        for one in (parts.untrained_agent(agent), whole)
    )
    np.testing.assert_array_equal(fast, slow)
