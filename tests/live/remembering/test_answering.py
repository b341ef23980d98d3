"""Answers to words: known names, what is seen and where, and what the agent cannot do."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

from devmind.acting.abilities import LAPSE_S
from devmind.agent.agent import Agent
from devmind.agent.batch import collate
from devmind.agent.text import add_text
from devmind.agent.writing import Conversation
from devmind.live.remembering.answering import (
    CANNOT,
    HELLO,
    HINT,
    about_words,
    answer,
    say_learned,
    say_seen,
    where,
)
from devmind.memory import Named
from devmind.moment import Moment
from devmind.testing import tiny_agent
from stages.language import parts as parts_of_language
from stages.language.own_words import LONGEST, Dialogue, as_in_lessons, example_questions, is_in_lessons, questions
from stages.language.talking import NO_WORDS

CUP = Named("cup", "cup", 0.86, 0.9)
UNSURE = Named(None, "cup", 0.2, 0.4)


def test_answer_tells_what_is_known_seen_and_heard_and_what_is_not() -> None:
    named = {"sight": CUP, "sound": Named("bell", "bell", 0.75, 0.9)}
    said = answer("Where is the CUP?", {"cup": 3, "bell": 1}, named, (20.0, 1.0))
    assert said == f"It knows “cup” (3 examples). It sees “cup” to its left (86 %). It hears “bell” (75 %). {CANNOT}"


def test_question_without_a_name_is_answered_by_sight_first() -> None:
    said = answer("What do you see now?", {"cup": 3}, {"sight": CUP}, (20.0, 1.0))
    assert said == f"It sees “cup” to its left (86 %). It knows the name “cup”. {CANNOT}"


@pytest.mark.parametrize(
    ("text", "known", "said"),
    [
        ("good ball", {}, "It was taught no name yet."),
        ("cup", {"cup": 1}, "It knows “cup” (1 example)."),
        ("cups!", {"cup": 1}, "It does not know “cups”; it knows “cup”."),
        ("zebra", {"cup": 1}, "It does not know “zebra”; show it one and teach it."),
        ("a c++ book and a cup", {"c++": 2, "cup": 1}, "It knows “c++” (2 examples) and “cup” (1 example)."),
        (
            "what is that over there",
            {"cup": 1, "key": 1},
            "It knows the names “cup” and “key”.",
        ),
    ],
)
def test_only_whole_words_count_as_names(text: str, known: dict[str, int], said: str) -> None:
    assert about_words(text, known) == said


def test_long_list_is_shortened() -> None:
    said = about_words("tell me what you know", {f"n{number}": 1 for number in range(9)})
    assert said.endswith("“n5” and 3 more.")


def test_unsure_thing_is_described_by_its_place() -> None:
    assert say_seen(None, None) == say_seen(CUP, None) == "It sees nothing just now."
    assert say_seen(UNSURE, (0, 0)) == "It cannot name what it looks at, straight ahead; it may be “cup”."
    assert say_seen(replace(UNSURE, confidence=0.03), (0, 0)) == "It cannot name what it looks at, straight ahead."
    assert say_seen(None, (-30, 20)) == "It cannot name what it looks at, to its right and above."
    assert where(0, -40) == "below"


def test_agent_that_can_write_answers_with_its_confidence() -> None:
    agent = tiny_agent()
    agent.add_encoder("sight")
    picture = np.full((64, 64, 3), 90, np.uint8)
    assert Dialogue().reply(agent, "what is that?", picture, 0.0) is None
    add_text(agent, "bytes", stage="language")
    with torch.no_grad():  # certain of a full stop after any question
        for parameter in agent.heads["text"].parameters():
            parameter.zero_()
        agent.heads["text"].out.bias.copy_(agent.encoder("text").table.weight[ord(".")] * 40)
    agent.eval()
    found = Dialogue().reply(agent, "what is that?", picture, 0.0)
    assert found is not None
    assert (found.text, found.points) == (".", None)
    assert found.sure > 0.9
    assert answer("what?", {}, {}, None, writes=True) == "It sees nothing just now. It was taught no name yet."


def written(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Make an agent answer `text` to everything."""
    real = Conversation.turn
    monkeypatch.setattr(Conversation, "turn", lambda *given: real(*given)._replace(texts=[text], sure=[0.9]))


def test_written_blanks_count_as_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = tiny_agent()
    add_text(agent, "bytes", stage="language")
    written(monkeypatch, " \n")
    assert Dialogue().reply(agent.eval(), "what is that?", None, 0.0) is None


def test_dialogue_continues_until_a_silence_or_another_agent() -> None:
    agent = tiny_agent()
    add_text(agent, "bytes", stage="language")
    agent.eval()
    talk, after = Dialogue(), list[int]()
    for now_s in (0.0, 5.0, 6.0 + LAPSE_S):
        talk.reply(agent, "where is the ball?", None, now_s)
        assert talk._talk is not None
        after.append(int(talk._talk.state.ring.tick[0]))
    assert after == [1, 2, 1]
    talk.reply(copy.deepcopy(agent), "the red one.", None, 7.0 + LAPSE_S)
    assert int(talk._talk.state.ring.tick[0]) == 1


def test_dialogue_has_a_seeing_moment_between_turns_as_in_lessons() -> None:
    agent = tiny_agent()
    agent.add_encoder("sight")
    parts_of_language.admit(agent)
    agent.eval()
    talk, again = Dialogue(), Conversation(agent)
    pictures = [np.full((64, 64, 3), 60 * (1 + turn), np.uint8) for turn in range(2)]
    said = [talk.reply(agent, "where is the ball?", picture, 5.0 * turn) for turn, picture in enumerate(pictures)]
    assert talk._talk is not None
    assert int(talk._talk.state.ring.tick[0]) == 3
    for turn, picture in enumerate(pictures):
        if turn:
            again.listen(collate([[Moment(5.0, {"sight": picture})]]))
        heard = Moment(5.0 * turn, {"sight": picture, "text": "where is the ball?"}, first=not turn)
        told = again.turn(collate([[heard]]), LONGEST, ["point"])
        assert (said[turn].text if said[turn] else "") == told.texts[0].strip()
    torch.testing.assert_close(talk._talk.state.ring.layers[0].keys, again.state.ring.layers[0].keys)


def test_agent_without_sight_answers_but_points_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """A life with only a microphone: the head that points reads what is seen, and nothing is."""
    agent = tiny_agent()
    agent.add_encoder("sight")
    parts_of_language.admit(agent)
    written(monkeypatch, " there.")
    found = Dialogue().reply(agent.eval(), "where is the ball?", None, 0.0)
    assert found is not None
    assert (found.text, found.points) == ("there.", None)


def test_agent_points_only_if_its_words_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = tiny_agent()
    agent.add_encoder("sight")
    parts_of_language.admit(agent)
    picture = np.full((64, 64, 3), 90, np.uint8)
    written(monkeypatch, " which one?")
    asked = Dialogue().reply(agent.eval(), "where is the ball?", picture, 0.0)
    assert asked is not None
    assert (asked.text, asked.points) == ("which one?", None)
    written(monkeypatch, " there.")
    found = Dialogue().reply(agent, "where is the ball?", picture, 0.0)
    assert found is not None
    assert found.points is not None
    assert all(abs(at) < 1 and (at * 8 + 7) % 2 == 0 for at in found.points), "the middle of one of 8 x 8 cells"


@pytest.mark.parametrize(
    ("frames", "examples", "unseen", "said"),
    [
        (8, 1, "", "It has learned “cup” from 8 pictures."),
        (0, 1, "", "It has learned “cup” from one example."),
        (0, 3, "", "It has learned “cup” from 3 examples."),
        (0, 1, "Nothing new is in view.", "It has learned only the sound of “cup”. Nothing new is in view."),
    ],
)
def test_learned_name_is_reported(frames: int, examples: int, unseen: str, said: str) -> None:
    assert say_learned("cup", frames, examples, unseen) == said


@pytest.mark.parametrize("said", [" ", "why " * 200])
def test_empty_or_too_long_text_is_not_answered_in_writing(said: str) -> None:
    agent = tiny_agent()
    add_text(agent, "bytes", stage="language")
    assert Dialogue().reply(agent.eval(), said, None, 0.0) is None


@pytest.mark.parametrize("said", ["What is that?", "what's this", "who is it?"])
def test_short_question_is_no_name(said: str) -> None:
    assert answer(said, {"cup": 1}, {"sight": CUP}, (0.0, 0.0)).startswith("It sees “cup”")
    assert about_words(said, {"cup": 1}) == "It knows the name “cup”."


@pytest.mark.parametrize(
    ("typed", "asked"),
    [
        ("What is that", "what is that?"),
        ("Where's  the cup?", "where is the cup?"),
        ("What color is it?", "what colour is that?"),
        ("what's this", "what is that?"),
        ("Is there a gray box?", "is there a grey box?"),
        ("is it a cup?", "is it a cup?"),
        ("this is it", "this is it."),
        ("No, the red one", "no, the red one."),
        ("", ""),
        ("!", "!"),
    ],
)
def test_typed_question_is_put_into_the_form_of_lessons(typed: str, asked: str) -> None:
    assert as_in_lessons(typed) == asked


@pytest.mark.parametrize("said", ["hello", "Hi!", "hey there", "Good morning.", "hello again"])
def test_greeting_is_returned_and_is_no_unknown_name(said: str) -> None:
    assert answer(said, {"cup": 1}, {}, None) == f"{HELLO} {HINT}"


@pytest.mark.parametrize(
    ("said", "known", "begins"),
    [
        ("hello, what do you see?", {"cup": 1}, "Hello. It sees nothing just now. It knows the name"),
        ("hi", {"hi": 1}, "It knows “hi”"),
        ("hey cup", {"cup": 1}, "Hello. It knows “cup”"),
        ("high chair", {"cup": 1}, "It does not know “high chair”"),
        ("hiccup", {"cup": 1}, "It does not know “hiccup”"),
    ],
)
def test_what_stands_behind_a_greeting_is_answered(said: str, known: dict[str, int], begins: str) -> None:
    assert answer(said, known, {}, None, remarks=False).startswith(begins)


def test_reason_and_remark_stand_where_they_belong() -> None:
    assert answer("is there a red thing?", {}, {}, (0, 0), writes=True, why=NO_WORDS) == (
        f"{NO_WORDS} It cannot name what it looks at, straight ahead. It was taught no name yet."
    )
    assert CANNOT in answer("what do you see?", {}, {}, None)
    assert CANNOT not in answer("what do you see?", {}, {}, None, remarks=False)
    assert NO_WORDS not in answer("cup", {"cup": 1}, {}, None, writes=True, why=NO_WORDS), "it was about a name"


def taught_to_write() -> Agent:
    """An agent that went through language, without its lessons."""
    agent = tiny_agent()
    agent.add_encoder("sight")
    parts_of_language.admit(agent)
    agent.config.stages = ["language"]
    return agent.eval()


def test_questions_are_those_of_the_lessons_of_the_stage_that_taught_to_write() -> None:
    agent = taught_to_write()
    known = questions(agent)
    for asked in (
        "what is that?", "What color is it?", "where is the box", "where's the red one?", "is there a red ball?",
        "how many cans are there?", "what is on the left?", "is the green box in the middle?", "the red one.",
    ):  # fmt: skip
        assert is_in_lessons(asked, known), asked
    for asked in ("is there a red thing?", "what can you do?", "hello", "where is the mug?", "how are you?", "red"):
        assert not is_in_lessons(asked, known), asked
    assert example_questions(agent) == [
        "what is that?", "where is the box?", "what colour is the ball?", "is there a red ball?",
        "is the red ball on the left?", "how many balls are there?",
    ]  # fmt: skip
    assert all(is_in_lessons(one, known) for one in example_questions(agent))
    assert example_questions(tiny_agent()) == []
    agent.config.stages = []
    assert questions(agent) == {}, "it went through no lessons"


def test_answer_below_the_bound_or_beside_the_lessons_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """`CORIOLANUS: The counted both t` answered 'is there a red thing?' with 0 %."""
    agent, picture = taught_to_write(), np.full((64, 64, 3), 90, np.uint8)
    written(monkeypatch, " CORIOLANUS: The counted both t")  # with 0.9
    assert Dialogue(0.7).reply(agent, "is there a red thing?", picture, 0.0) is None
    assert Dialogue(0.95).reply(agent, "what is that?", picture, 0.0) is None
    talk = Dialogue(0.9)
    assert talk.reply(agent, "what is that?", picture, 0.0) is not None
    talk.sure = 0.95
    assert talk.reply(agent, "what is that?", picture, 1.0) is None
    assert talk._talk is None, "what was not said is no part of the dialogue"
