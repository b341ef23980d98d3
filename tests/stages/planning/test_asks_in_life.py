"""In a life, an agent that lacks something for its instruction asks for it, and continues once it knows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from devmind.agent.agent import Agent
from devmind.agent.rows import initial_carry
from devmind.agent.threads import stepping_threads
from devmind.config import LiveConfig, MemoryConfig
from devmind.errors import ConfigError, WorldError
from devmind.live.checking import check_replay
from devmind.live.life import Life
from devmind.live.options import LiveOptions
from devmind.live.recording import Recording
from devmind.live.virtual import VirtualClock
from devmind.memory import Memory, open_store
from devmind.raised import raised_agents
from devmind.sessions.reader import Session
from devmind.worlds import minigrid
from devmind.worlds.minigrid import DONE, minigrid_installed
from devmind.worlds.rules import rules_of
from devmind.worlds.world_room import WorldRoom
from stages.planning import parts
from stages.planning.instruct import symbols
from stages.planning.instruct.controller import Errand
from stages.planning.instruct.head import INSTRUCTED, InstructHead, Instruction
from stages.planning.instruct.lacks import LOOKS_S
from stages.planning.instruct.symbols import DROP_NEXT_TO, GO_TO, OPEN, PICK_UP, Subgoal

pytestmark = pytest.mark.skipif(not minigrid_installed(), reason=minigrid.MISSING)

FOLDER = raised_agents()["after-planning"]
FETCH, IN_TURN = "MiniGrid-Fetch-5x5-N2-v0", "BabyAI-GoToSeqS5R2-v0"
TICK_S = 0.1
BALL, BOX = 1, 2


@pytest.fixture(scope="module")
def agent() -> Agent:
    return Agent.from_pretrained(FOLDER).eval()


@dataclass
class Lived:
    """A life in one room of MiniGrid, tick by tick: the page, the questions, and the actions."""

    life: Life
    room: WorldRoom
    pages: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    done: list[int] = field(default_factory=list)

    def ticks(self, count: int) -> Iterator[int]:
        """Live until the episode is over, for `count` ticks at most."""
        for number, step in enumerate(self.life.loop.ticks(count * TICK_S)):
            assert step is not None
            wanted = self.life.wanted
            self.pages.append(str(step.moment.senses["text"]))
            self.asked.append(wanted.lack.question if wanted else "")
            self.done.append(int(step.action.effectors["choose"]))
            yield number
            if self.room.ended:
                return


def living(agent: Agent, level: str, seed: int, recording: Recording | None = None, asks: bool = True) -> Lived:
    clock = VirtualClock()
    room = WorldRoom(rules_of("minigrid", level), seed, now=clock.now, sleep=clock.sleep)
    nothing, memory = MemoryConfig(recalled=0, longest_s=None, novelty=2), Memory(open_store(None))
    config = LiveConfig(memory=nothing, asks=asks, answers={parts.CHOOSE: parts.INSTRUCT})
    options = LiveOptions(FOLDER, {}, record=recording.path if recording else None, config=config)
    return Lived(Life(agent, room, memory, options, recording=recording), room)


def test_an_untaught_word_is_asked_for_and_its_answer_is_used(agent: Agent, tmp_path: Path) -> None:
    recording = Recording(tmp_path / "s.mcap", {}, LiveConfig())
    lived = living(agent, FETCH, 3, recording)
    with lived.life, stepping_threads(), ThreadPoolExecutor(1) as other:
        answers: list[Any] = []
        for number in lived.ticks(40):
            if number == 5:
                # As the page does it, from another thread.
                answers.append(other.submit(lived.life.do, "answer", {"text": "pick up"}))
    assert lived.pages[0] == "fetch a grey ball"
    assert set(lived.asked[:5]) == {"What is 'fetch'?"}
    assert set(lived.done[:5]) == {DONE}, "nothing is done before it knows what is meant"
    assert answers[0].result()["page"] == lived.pages[-1] == "pick up a grey ball"
    assert (lived.room.ended, lived.room.rewarded) == (1, 1)
    check = check_replay([tmp_path / "s.mcap"], {agent.sha256(): agent})
    assert (check.passed, check.checked) == (True, len(lived.pages)), check
    session = Session(tmp_path / "s.mcap")
    notes = [note.data["text"] for note in session.notes if note.kind == "asked"]
    assert notes[0] == "What is 'fetch'?"
    assert len(notes) == len({*notes}), "each question is asked once"


def test_an_unseen_thing_is_looked_for_then_asked_for_until_it_is_shown(agent: Agent) -> None:
    lived = living(agent, IN_TURN, 4)
    with lived.life, stepping_threads():
        for _ in lived.ticks(60):
            pass
    looks = round(LOOKS_S / TICK_S)
    assert not any(lived.asked[:looks]), "it looks first"
    assert lived.asked[looks] == "Where is a yellow box? I look for one."
    assert DONE not in lived.done[:looks], "meanwhile it goes on looking"
    assert lived.asked[-1] == "", "it has seen one"
    assert (lived.room.ended, lived.room.rewarded) == (1, 1)


def test_a_question_where_is_answered_by_what_to_do_first(agent: Agent) -> None:
    lived, page = living(agent, IN_TURN, 4), ""
    with lived.life, stepping_threads():
        for number in lived.ticks(80):
            if lived.asked[number] and not page:
                page = lived.life.answer_question("go to the yellow door.")
    assert page == "go to the yellow door, then go to the yellow box and go to the yellow door"
    assert lived.pages[-1] == page
    # The room's own mission is the box and the door in any order; they come after the answer.
    assert (lived.room.ended, lived.room.rewarded) == (1, 1)


def test_a_life_without_asking_asks_nothing_and_refuses_answers(agent: Agent) -> None:
    lived, aloud = living(agent, FETCH, 3, asks=False), list[str]()
    with lived.life, stepping_threads():
        for _ in lived.ticks(4):
            pass
        assert not any(lived.asked)
        with pytest.raises(ConfigError, match="no longer asks about its instruction"):
            lived.life.answer_question("pick up")
        lived.life.asking.allow(True)
        lived.life.say_aloud = aloud.append  # type: ignore[method-assign]
        for number in lived.ticks(3):
            assert lived.life._open_questions()["wants"] == {"number": 1, "text": "What is 'fetch'?"}, number
        assert aloud == ["What is 'fetch'?"], "once"
        for text, error, said in ((" ", ConfigError, "answer it with words"), ("seize", WorldError, "'seize'")):
            with pytest.raises(error, match=said):
                lived.life.answer_question(text)


@pytest.fixture
def told(agent: Agent) -> Callable[..., Instruction]:
    """The output of a Moment with this errand, as the head keeps it."""
    head: Any = agent.head(parts.INSTRUCT)

    def output(plan: symbols.Subgoals, at: int = 0, stuck: bool = False) -> Instruction:
        kept = {name: np.array(value) for name, value in initial_carry(head.carry_spec, 1).items()}
        errand = Errand(plan=plan, at=at, action=DONE, stuck=stuck)
        kept["numbers"][0, INSTRUCTED] = 1
        InstructHead.keep(errand, kept, 0)
        none = torch.zeros(1)
        carry = {name: torch.from_numpy(value) for name, value in kept.items()}
        return Instruction(head, none, none, none, none, none, carry)

    return output


def test_the_rest_is_restated_in_babyais_words_after_the_answer(told: Callable[..., Instruction]) -> None:
    ball, box = Subgoal(PICK_UP, BALL, 0), Subgoal(DROP_NEXT_TO, BOX, 1)
    plan = (Subgoal(GO_TO, BALL, 0), ball, box, Subgoal(OPEN, symbols.DOORS, symbols.ANY))
    kinds = [one.kind for one in plan]
    put = f"put the {kinds[1]} next to the {kinds[2]} and open a door"

    def restated(at: int, stuck: bool = False) -> tuple[str, str]:
        lack = told(plan, at, stuck).lacks("a page")
        assert lack is not None
        return lack.question, lack.restated("open the red door.")

    assert restated(0)[1] == f"open the red door, then go to the {kinds[0]} and {put}"
    assert restated(1)[1] == f"open the red door, then {put}"
    assert restated(2)[1] == f"open the red door, then {put}", "what is in the hand is put down by who picked it up"
    assert restated(3, stuck=True) == (
        "Where is a door? I have looked wherever I can come to.", "open the red door, then open a door"
    )  # fmt: skip
    assert told(plan, 4).lacks("a page") is None, "it is done"
    assert told(plan, 0).lacks("") is None, "nothing stands there"


def test_an_answer_replaces_the_word_with_its_own_article(
    told: Callable[..., Instruction], monkeypatch: pytest.MonkeyPatch
) -> None:
    output = told(())
    output.carry["numbers"][0, 1] = 1
    monkeypatch.setattr(Instruction, "unknown_word", lambda output, text, row=0: "zorb")

    def restated(page: str, answer: str) -> str:
        lack = output.lacks(page)
        assert lack is not None
        assert lack.question == "What is 'zorb'?"
        return lack.restated(answer)

    assert restated("go to the zorb", "a red ball") == "go to a red ball"
    assert restated("go to the zorb ball, then open a door", "red") == "go to the red ball, then open a door"
    assert restated("pick up a zorb, then open a door", "the box") == "pick up the box, then open a door"
    assert restated("zorb a box", "pick up") == "pick up a box"
