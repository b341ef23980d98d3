"""MiniGrid's rooms as Rules, and instructions that replace the room's own."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from devmind.errors import WorldError
from devmind.live.virtual import VirtualClock
from devmind.testing import check_world
from devmind.worlds.minigrid import FORWARD, INSTRUCTION_WORDS, env_of, glances, room
from devmind.worlds.rules import rules_of
from devmind.worlds.world_room import WorldRoom, words_in

LOCAL = "BabyAI-GoToLocal-v0"


def test_a_room_keeps_the_laws_of_worlds() -> None:
    check_world(rules_of("minigrid", LOCAL))


def test_the_rules_show_the_board_and_mission_of_the_room() -> None:
    rules, world = rules_of("minigrid", LOCAL), room(LOCAL)
    state = rules.initial(np.array([3, 4]))
    for seed in (3, 4):
        board = world.reset(seed=seed)[0]["board"]
        seen = rules.observe(state)
        np.testing.assert_array_equal(seen["board"][seed - 3], board)
        assert seen["text"][seed - 3] == env_of(world).mission
    assert rules.picture(state).shape == (2, 384, 384, 3)


def test_an_unknown_room_is_refused() -> None:
    with pytest.raises(WorldError, match=r"no environment 'BabyAI-GoToLocla-v0'.*BabyAI-GoToLocal-v0"):
        rules_of("minigrid", "BabyAI-GoToLocla-v0")


def test_a_room_whose_file_minigrid_lacks_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """MiniGrid 3.2's wheel has none of the pictures from which it makes six of its rooms."""
    from minigrid.envs.wfc.config import WFC_PRESETS_ALL

    maze = replace(WFC_PRESETS_ALL["MazeSimple"], pattern_path=tmp_path / "Maze.png")
    monkeypatch.setitem(WFC_PRESETS_ALL, "MazeSimple", maze)
    with pytest.raises(WorldError, match=r"installed without 'Maze.png', from which it makes 'MiniGrid-WFC-MazeSimple"):
        room("MiniGrid-WFC-MazeSimple-v0")


def test_an_instruction_stands_until_the_episode_ends() -> None:
    clock, rules = VirtualClock(), rules_of("minigrid", LOCAL)
    here = WorldRoom(rules, 5, now=clock.now, sleep=clock.sleep)
    own, next_one = (rules.observe(rules.initial(np.array([seed])))["text"][0] for seed in (5, 6))
    assert here.reset()[0]["text"] == own
    here.say("go to the blue box")
    told = [here.step({"choose": np.array(FORWARD)})[0]["text"] for _ in range(3)]
    assert told == ["go to the blue box"] * 3
    here._left = 0  # as if the episode had ended and lingered
    senses, *_, info = here.step({"choose": np.array(FORWARD)})
    assert info["first"]
    assert senses["text"] == next_one


def test_a_long_instruction_is_given_whole_and_one_over_a_page_is_refused() -> None:
    clock = VirtualClock()
    here = WorldRoom(rules_of("minigrid", LOCAL), 5, now=clock.now, sleep=clock.sleep)
    here.reset()
    said = "go to the yellow door, then go to the yellow box and go to the yellow door"
    here.say(said)
    heard = [here.step({"choose": np.array(FORWARD)})[0] for _ in range(3)]
    assert [senses["text"] for senses in heard] == [said] * 3
    assert " ".join(senses["words"] for senses in heard[:2]) == said, "words are heard as they fit into a tick"
    assert "words" not in heard[2]
    with pytest.raises(WorldError, match="A page holds 500 letters; 803 came"):
        here.say(", ".join(["go to a door"] * 58)[:803])
    assert here.step({"choose": np.array(FORWARD)})[0]["text"] == said


def test_an_instruction_with_an_unknown_word_is_refused_and_the_last_one_stands() -> None:
    clock = VirtualClock()
    here = WorldRoom(rules_of("minigrid", LOCAL), 5, now=clock.now, sleep=clock.sleep)
    own = here.reset()[0]["text"]
    for said, why in (
        ("go to the rde ball", r"'rde' is in no instruction of this world; did you mean 'red'"),
        ("xyzzy", "'xyzzy' is in no instruction"),
        (" ... ", "no words"),
        ("\N{SNOWMAN}" * 1000, "in no instruction"),
    ):
        with pytest.raises(WorldError, match=why):
            here.say(said)
        assert here.step({"choose": np.array(FORWARD)})[0]["text"] == own


@pytest.mark.parametrize(
    ("typed", "page"),
    [
        ("Go to the RED ball, then open a door!", "go to the red ball, then open a door"),
        (" go  to the “red” ball. ", "go to the red ball"),
        ("Go to the red ball. Then open a door", "go to the red ball then open a door"),
    ],
)
def test_capitals_and_marks_of_typed_instructions_do_not_reach_the_page(typed: str, page: str) -> None:
    """Instructions of lessons have neither; all in capitals, an agent carried out 0.58 of 64 instead of 0.95."""
    clock = VirtualClock()
    here = WorldRoom(rules_of("minigrid", LOCAL), 5, now=clock.now, sleep=clock.sleep)
    here.reset()
    here.say(typed)
    assert here.step({"choose": np.array(FORWARD)})[0]["text"] == page


def test_a_room_with_untaught_words_reports_them_and_runs() -> None:
    clock = VirtualClock()
    here = WorldRoom(rules_of("minigrid", "MiniGrid-Empty-5x5-v0"), now=clock.now, sleep=clock.sleep)
    here.reset()
    assert "nobody taught 'get'" in here.fault
    assert here.step({"choose": np.array(FORWARD)})[0]["text"].startswith("get to")
    taught = WorldRoom(rules_of("minigrid", LOCAL), now=clock.now, sleep=clock.sleep)
    taught.reset()
    assert taught.fault == ""


def test_every_word_of_babyai_is_an_instruction_word() -> None:
    import gymnasium

    room(LOCAL)
    names = [name for name in gymnasium.registry if name.startswith("BabyAI-")]
    assert len(names) > 50
    for name in (*names[::12], "BabyAI-BossLevel-v0", "BabyAI-GoToSeq-v0", "BabyAI-PutNextLocal-v0"):
        for seed in range(3):
            world = room(name)
            world.reset(seed=seed)
            assert set(words_in(str(env_of(world).mission))) <= INSTRUCTION_WORDS


def test_rooms_that_threads_look_into_at_once_stay_apart() -> None:
    """As when a thread makes the next batch of a lesson during an exam: up to a quarter of the views were of the room
    that the other thread had begun meanwhile."""

    def look(seed: int) -> np.ndarray:
        return glances((LOCAL,), np.arange(seed, seed + 30), 4, np.random.default_rng(seed))

    alone = [look(seed) for seed in (100, 200, 300)]
    with ThreadPoolExecutor(3) as pool:
        together = list(pool.map(look, (100, 200, 300)))
    for views, expected in zip(together, alone, strict=True):
        np.testing.assert_array_equal(views, expected)
