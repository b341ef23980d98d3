"""A life asks "What is that?" by the head and code of the exam `converse/asks`, and shows its confidence."""

from __future__ import annotations

import copy
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import torch

from devmind import worlds
from devmind.acting.abilities import Doubt
from devmind.acting.sentences import teaching
from devmind.agent.agent import Agent
from devmind.config import load
from devmind.curriculum.stage import Context
from devmind.live.remembering import asking
from devmind.live.remembering.asking import REST_S, STEADY_S, Asking
from devmind.live.remembering.held_object import Square
from devmind.live.remembering.press import Holding
from devmind.live.remembering.show_and_tell import ShowAndTell
from devmind.memory import Memory, open_store
from devmind.moment import Moment
from devmind.seeding import exam_seeds
from devmind.testing import tiny_agent
from stages.language import parts, talking, taught_words
from stages.language.converse.asking import draw_lives
from stages.language.name.scenes import THINGS
from stages.language.new_words.exam import LATER_S, NewWordLives
from stages.language.new_words.lives import Lives
from stages.language.parts import RECOGNISED, SIGHT, TEXT, WORDS
from stages.language.talking import Talk, doubt_of
from stages.language.taught_words import WHAT
from tests.live.test_life import Home, StillFinder
from tests.live.test_own_voice import surroundings

N = 8


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Lives, np.ndarray]:
    """Lives of the exam, and which of them were never taught what they look at."""
    context = Context(load("tiny"), 0, "cpu", tmp_path_factory.mktemp("out"), worlds.make)
    return draw_lives(context, exam_seeds(N, 0, "test"), exam=True)


@pytest.fixture(scope="module")
def undecided(scenes: tuple[Lives, np.ndarray]) -> Agent:
    """An agent that asks in some of these lives and not in others."""
    agent = tiny_agent()
    for sense in (SIGHT, WORDS):
        agent.add_encoder(sense)
    parts.admit(agent)
    agent.eval()
    of, strange = scenes
    head, low, high = agent.heads[RECOGNISED], -200.0, 200.0
    with torch.no_grad():
        head.gain.fill_(40.0)
        for _ in range(20):
            head.none.bias.fill_((low + high) / 2)
            share = NewWordLives(agent, of, untaught=strange).answered([WHAT] * N).asks.mean()
            if 0 < share < 1:
                return agent
            low, high = (low, (low + high) / 2) if share == 1 else ((low + high) / 2, high)
    raise AssertionError("it asks of all of them or of none")


def taught(agent: Agent, memory: Memory, scenes: tuple[Lives, np.ndarray], row: int) -> ShowAndTell:
    """An agent that was taught this life's things as by the page's button."""
    (of, strange), child = scenes, ShowAndTell(agent, memory)
    for thing in range(THINGS):
        if not (strange[row] and thing == of.scenes.target[row]):
            look, name = of.taught[row, thing], str(of.words[row, thing])
            child.teach(name, Moment(0.0, {SIGHT: look, TEXT: teaching(name)}))
    return child


def test_life_asks_about_a_scene_as_in_the_exam(scenes: tuple[Lives, np.ndarray], undecided: Agent) -> None:
    of, strange = scenes
    examined = NewWordLives(undecided, of, untaught=strange).answered([WHAT] * N)
    assert 0 < examined.asks.mean() < 1
    for row in range(N):
        now_s = [0.0]
        memory = Memory(open_store(None), clock=lambda now_s=now_s: now_s[0])
        child = taught(undecided, memory, scenes, row)
        now_s[0] = LATER_S
        doubt = doubt_of(undecided, memory, child.hashes, of.scenes.sight[row])
        assert doubt == (examined.asks[row], pytest.approx(examined.doubt[row], abs=1e-4), examined.nearest[row])


class Looking(Holding):
    """A thing is always held up, with the look of the exam."""

    def __init__(self, look: np.ndarray) -> None:
        super().__init__()
        self._finder, self.look = StillFinder(), look  # type: ignore[assignment]

    def see(self, frame: np.ndarray | None, time_s: float) -> None:
        """Unchanged, except for the look."""
        super().see(frame, time_s)
        if self.looked is not None:
            self.looked = self.look


@pytest.mark.parametrize("asks", [True, False])
def test_live_loop_decides_as_the_exam_and_the_page_shows_its_confidence(
    asks: bool, scenes: tuple[Lives, np.ndarray], undecided: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of, strange = scenes
    examined = NewWordLives(undecided, of, untaught=strange).answered([WHAT] * N)
    row = int(np.flatnonzero(examined.asks == asks)[0])
    undecided.save_pretrained(tmp_path / "agent")
    looked: list[Doubt] = []
    real = talking.doubt_of
    monkeypatch.setattr(asking, "STEADY_S", 0.2)
    monkeypatch.setattr(asking, "GONE_S", 60.0)  # ticks may be rare on a busy machine
    monkeypatch.setattr(talking, "doubt_of", lambda *given: looked.append(real(*given)) or looked[-1])
    with Home(tmp_path / "agent", tmp_path) as home:
        life, now_s = home.life, [0.0]
        monkeypatch.setattr(life.memory, "_clock", lambda: now_s[0])
        taught(life.loop.agent, life.memory, scenes, row)
        now_s[0] = LATER_S
        life.naming.changed()
        home.wait(lambda: len(life.child.names.known()) >= THINGS - 1 and life.naming.is_telling)
        monkeypatch.setattr(life, "holding", Looking(of.scenes.sight[row]))
        if asks:
            asked = home.seen(lambda view: "asks" in view)["asks"]
            assert asked["doubt"] == pytest.approx(examined.doubt[row], abs=2e-3)
            assert asked["confidence"] == pytest.approx(1 - examined.doubt[row], abs=2e-3)
            assert asked["nearest"] == examined.nearest[row]
        else:
            assert "asks" not in home.seen(lambda view: len(looked) >= 2), "it looked, and looked again"
            assert life.asking.question is None
        assert {one.asks for one in looked} == {asks}
        assert looked[0].share == pytest.approx(examined.doubt[row], abs=2e-3)


def test_agent_that_knows_the_thing_looks_again_after_two_seconds() -> None:
    may, here, due = Asking(), Square(0.5, 0.4, 0.3), []
    for tick in range(round(10 * REST_S)):
        if may.see(tick / 10, here, True):
            due.append(tick / 10)
            may.know()
    assert np.diff(due).min() == pytest.approx(STEADY_S, abs=0.11)
    assert np.diff(due).max() == pytest.approx(STEADY_S, abs=0.11)


def test_one_look_at_a_time_is_processed_beside_the_loop(
    scenes: tuple[Lives, np.ndarray], undecided: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    of, _ = scenes
    memory = Memory(open_store(None))
    child = taught(undecided, memory, scenes, 0)

    life = surroundings(agent=undecided, memory=memory, hashes=child.hashes)

    def of_look(talk: Talk) -> Doubt:
        give_up_s = time.monotonic() + 60
        while (found := talk.doubt(of.scenes.sight[0])) is None:
            assert time.monotonic() < give_up_s
            time.sleep(0.01)
        return found

    with closing(Talk(life)) as talk:
        same = doubt_of(undecided, memory, child.hashes, of.scenes.sight[0])
        assert of_look(talk) == (same.asks, pytest.approx(same.share, abs=1e-4), same.nearest)
        assert talk.doubt(of.scenes.sight[1]) is None
        talk.look_away()
        assert of_look(talk).nearest == same.nearest, "of what is looked at now"
        strange = child.hashes | {SIGHT: "0" * 32}
        assert doubt_of(undecided, memory, strange, of.scenes.sight[0]) == Doubt(False, 0.0, ""), (
            "another agent's memory"
        )
        monkeypatch.setattr(taught_words, "Actor", lambda *given, **more: 1 / 0)
        life.agent = copy.deepcopy(undecided)
        assert not of_look(talk).asks
        assert "division by zero" in talk.fault
