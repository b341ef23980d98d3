"""Questions that taught words answer; `test_new_words.py` compares the answers with those of the exam."""

from __future__ import annotations

import numpy as np
import pytest

from devmind.agent.agent import Agent
from devmind.live.remembering.show_and_tell import ShowAndTell
from devmind.memory import Memory, open_store
from devmind.moment import Moment
from devmind.testing import tiny_agent
from stages.language import parts, word_questions
from stages.language.word_questions import answer_by_look, is_about_one, is_what_question, is_where_question

PICTURE = np.random.default_rng(0).integers(0, 256, (64, 64, 3)).astype(np.uint8)


@pytest.mark.parametrize(
    "text",
    [
        "what is that?",
        "What's this",
        "what is it called?",
        "and what are these?",
        "Who is that?",
        "so, what is that thing?",
        "what do you call that?",
    ],
)
def test_questions_for_a_name_are_recognised(text: str) -> None:
    assert is_what_question(text)
    assert not is_where_question(text)
    assert is_about_one(text)


@pytest.mark.parametrize("text", ["where is the zib?", "Where's my zib", "find the zib!", "can you point at the zib?"])
def test_questions_for_a_place_are_recognised(text: str) -> None:
    assert is_where_question(text)
    assert not is_what_question(text)
    assert not is_about_one(text)


@pytest.mark.parametrize(
    "text",
    ["what colour is that?", "is that a zib?", "what is that zib made of?", "what is the time?", "hello", "", "?"],
)
def test_other_sentences_are_no_questions(text: str) -> None:
    assert not is_what_question(text)
    assert not is_where_question(text)


@pytest.fixture(scope="module")
def agent() -> Agent:
    agent = tiny_agent()
    for sense in ("sight", "words"):
        agent.add_encoder(sense)
    parts.admit(agent)
    return agent.eval()


def test_question_without_a_taught_word_is_not_answered(agent: Agent) -> None:
    memory = Memory(open_store(None))
    child = ShowAndTell(agent, memory)

    def answer(text: str, sight: np.ndarray | None = PICTURE, of: Agent = agent):
        return answer_by_look(of, memory, child.hashes, text, sight)

    assert answer("what is that?") is None, "nothing was taught"
    child.teach("zib", Moment(0.0, {"sight": PICTURE, "text": "this is a zib."}))
    assert answer("where is the dop?") is None, "that was not"
    assert answer("is that a zib?") is None
    assert answer("what is that?", None) is None, "nothing is seen"
    pointing = answer("where is the ZIB?")
    assert pointing is not None
    assert pointing.text == "there."
    assert pointing.points is not None
    assert 0 < pointing.sure <= 1
    strange = child.hashes | {"sight": "0" * 32}
    assert answer_by_look(agent, memory, strange, "where is the zib?", PICTURE) is None, "another agent's memory"
    without = tiny_agent()
    without.add_encoder("sight")
    assert answer("where is the zib?", of=without.eval()) is None


def test_a_thing_is_not_sought_by_the_look_of_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked where the bell is, that was taught by its sound alone, the life pointed at the zib."""
    agent = tiny_agent()
    for sense in ("sight", "sound", "words"):
        agent.add_encoder(sense)
    parts.admit(agent)
    memory = Memory(open_store(None))
    child = ShowAndTell(agent.eval(), memory)
    child.teach("bell", Moment(0.0, {"sound": np.full((2, 1600), 0.1, np.float32)}))
    assert answer_by_look(agent, memory, child.hashes, "where is the bell?", PICTURE) is None
    child.teach("dop", Moment(0.0, {"sight": PICTURE[::-1].copy()}))
    child.teach("zib", Moment(0.0, {"sight": PICTURE}))
    assert answer_by_look(agent, memory, child.hashes, "where is the bell?", PICTURE) is None
    asked = []
    real = word_questions.ask
    monkeypatch.setattr(word_questions, "ask", lambda *given: asked.append(given[3]) or real(*given))
    assert answer_by_look(agent, memory, child.hashes, "where is the zib next to the dop?", PICTURE) is not None
    assert asked == [["where is the zib?"]], "what is asked for is named first"


def test_answer_none_of_them_gives_no_word(agent: Agent) -> None:
    memory = Memory(open_store(None))
    child = ShowAndTell(agent, memory)
    child.teach("zib", Moment(0.0, {"sight": PICTURE, "text": "this is a zib."}))
    bias = agent.heads["recognised"].none.bias
    for leaning, said in ((50.0, None), (-50.0, "zib")):
        bias.data.fill_(leaning)
        found = answer_by_look(agent, memory, child.hashes, "what is that?", PICTURE)
        assert (found and found.text) == said
