"""Sentences that teach, with their names, and sentences that teach nothing."""

from __future__ import annotations

import pytest

from devmind.acting.sentences import is_short_reply, name_in, name_in_reply
from devmind.errors import StoreError


@pytest.mark.parametrize(
    ("sentence", "name"),
    [
        ("this is a cup", "cup"),
        ("This is the cup.", "cup"),
        ("that's my cup!", "cup"),
        ("That’s my cup", "cup"),
        ("thats a cup", "cup"),
        ("it is an apple", "apple"),
        ("it's a blue tea pot.", "blue tea pot"),
        ("these are my reading glasses", "reading glasses"),
        ("those are scissors", "scissors"),
        ("they're keys", "keys"),
        ("this one is the big key", "big key"),
        ("it is called cup", "cup"),
        ("This is called a cup.", "cup"),
        ("these are called pliers", "pliers"),
        ("its name is Tom", "Tom"),
        ("It's name is Tom.", "Tom"),
        ("her name is Ann-Marie", "Ann-Marie"),
        ("the name of this is “Big Ben”", "Big Ben"),
        ("we call it water", "water"),
        ("This is Tom", "Tom"),
        ("No, that's a 'cup'.", "cup"),
        ("look! this is   a\tcup …", "cup"),
        ("ok and this is a cup", "cup"),
        ("THIS IS A CUP", "CUP"),
        ("this is a c++ book", "c++ book"),
        ("das ist eine Tasse. ", None),
        ("Dies hier", None),
    ],
)
def test_sentence_that_gives_a_name_teaches_it(sentence: str, name: str | None) -> None:
    assert name_in(sentence) == name


@pytest.mark.parametrize(
    "sentence",
    [
        "what is this?", "what is this", "is this a cup", "is this a cup?", "this is a cup?", "that's a cup, isn't it?",
        "this is not a cup", "that's no cup", "this isn't a cup", "it's never a cup", "this is what I meant",
        "it is called what", "this is nice of you to say", "cup", "a cup", "hello", "", " ", "where is the cup",
        "I see this is a cup", "thistle is a plant", "the cup is red", "call me", "now this is a cup",
    ],
)  # fmt: skip
def test_other_sentences_teach_nothing(sentence: str) -> None:
    assert name_in(sentence) is None


@pytest.mark.parametrize(
    ("sentence", "said"),
    [
        ("this is", "1 to 64 bytes"),
        ("this is a", "1 to 64 bytes"),
        ("it is called.", "1 to 64 bytes"),
        ("its name is “”", "1 to 64 bytes"),
        (f"this is a {65 * 'w'}", "1 to 64 bytes"),
        (f"this is a {33 * 'ö'}", "1 to 64 bytes"),
        ("this is nice", "If “nice” is its name, say “it is called nice”"),
        ("that is all right.", "say “it is called all right”"),
        ("this is a cup, not a glass", "more than a name"),
        ("this is a cup. It is red.", "more than a name"),
    ],
)
def test_sentence_without_a_valid_name_gives_a_clear_error(sentence: str, said: str) -> None:
    with pytest.raises(StoreError, match=said):
        name_in(sentence)


def test_name_may_have_64_bytes_and_known_names_ignore_case() -> None:
    assert name_in(f"this is a {64 * 'w'}") == 64 * "w"
    assert name_in("This is the CUP", {"cup": 2, "key": 1}) == "cup"
    assert name_in("this is tom", ["Tom"]) == "Tom", "known, so it needs neither article nor capital"


@pytest.mark.parametrize("reply", ["cup", "a cup", "my cup!", "Cup", "it's a cup", "It is called cup."])
def test_question_is_answered_by_a_name_or_a_sentence(reply: str) -> None:
    assert name_in_reply(reply, ["cup"]) == "cup"


@pytest.mark.parametrize("reply", ["what?", "no idea", "not a cup", "", "it is nice"])
def test_invalid_answer_gives_a_clear_error(reply: str) -> None:
    with pytest.raises(StoreError, match=r"is no name|1 to 64 bytes|is its name"):
        name_in_reply(reply)


def test_few_words_are_an_answer_only_with_an_article() -> None:
    texts = ("a cup", "my red cup", "cup", "a cup?", "hello there", "the cup is red", "a")
    assert [text for text in texts if is_short_reply(text)] == ["a cup", "my red cup"]
