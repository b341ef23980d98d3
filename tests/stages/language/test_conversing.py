"""Games with the caregiver: what her words leave open, the lesson of two turns, and the exam."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from devmind.agent.agent import Agent
from devmind.agent.writing import STOPS, Conversation
from devmind.curriculum.examining import examination
from devmind.curriculum.stage import Context
from devmind.seeding import numpy_rng
from devmind.testing import tiny_agent, tiny_context
from stages.language import parts
from stages.language.caregiver.grammar import check_words
from stages.language.caregiver.scene import COLOURS, HELD_OUT, NOUNS, PAIRS, TAUGHT
from stages.language.converse import exam, lesson
from stages.language.converse.games import COLOUR, NOUN, SAID, games
from stages.language.parts import POINT, TEXT
from stages.language.seeing import cells


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return tiny_context(tmp_path / "run", "exam.episodes_scale=0.08")


@pytest.fixture(scope="module")
def agent() -> Agent:
    agent = tiny_agent()
    parts.admit(agent)
    return agent.eval()


def test_words_fit_the_things_they_name_and_leave_open_what_they_should(context: Context) -> None:
    shown = games(context, 2_000_000 + np.arange(120), HELD_OUT, PAIRS)
    assert set(shown.kind.tolist()) == set(range(len(SAID)))
    for row, pairs in enumerate(shown.pairs.tolist()):
        colour, noun = pairs[shown.target[row]]
        assert (colour, noun) in HELD_OUT
        said = shown.openings[row].removeprefix("where is the ").rstrip("?").split()
        named = lambda pair: {COLOURS[pair[COLOUR]], NOUNS[pair[NOUN]], "one"}  # noqa: E731
        fits = [set(said) <= named(pair) for pair in pairs]
        assert fits == shown.fitting[row].tolist()
        assert shown.clear[row] == (sum(fits) == 1)
        both = (set(said) | set(shown.completions[row].rstrip(".").split())) - {"the", "one"}
        assert both == {COLOURS[colour], NOUNS[noun]}, "her answer says what she had left out"
        alike = [sum(pair[word] == (colour, noun)[word] for pair in pairs) > 1 for word in (COLOUR, NOUN)]
        assert any(alike), "something beside it has its colour or its noun"


def test_who_goes_by_the_words_alone_cannot_know_when_to_ask(context: Context) -> None:
    """'Where is the ball?' is as often clear as not: only who looks can tell."""
    shown = games(context, np.arange(600), TAUGHT, TAUGHT)
    one_word = np.array([len(SAID[kind][0]) == 1 for kind in shown.kind])
    assert 0.42 < shown.clear[one_word].mean() < 0.58
    assert shown.clear[~one_word].all()


def test_a_row_of_the_lesson_is_two_turns_about_one_picture(context: Context) -> None:
    batch = lesson.lesson_batch(context, 0, 120)
    assert batch["first"].tolist() == [[True, False]] * 120
    assert torch.equal(batch["senses"]["sight"][:, 0], batch["senses"]["sight"][:, 1])
    pages = [
        [bytes(n for n in turn if 0 <= n < 256).decode() for turn in row] for row in batch["senses"][TEXT].tolist()
    ]
    written = [[bytes(n for n in turn if n >= 0).decode() for turn in row] for row in batch["written"].tolist()]
    meant = (batch["pointed"] > 0).sum(-1)
    misunderstood = 0
    for (first, second), (said, then), several in zip(pages, written, meant.tolist(), strict=True):
        assert then == ("" if second == "yes." else lesson.THERE)
        assert said in ("", lesson.THERE, lesson.WHICH)
        if said == lesson.WHICH:
            assert first.endswith("which one?")
            assert second.startswith("the ")
            assert second.endswith(". there.")
        elif said == lesson.THERE:
            assert (second, several[1]) == ("yes.", 0)
        else:
            misunderstood += 1
            assert first.endswith("there.")
            assert second.startswith("no, the ")
        check_words(second.removesuffix(lesson.THERE))
    assert 5 < misunderstood < 40
    plain = (batch["senses"]["sight"][:, 0] == batch["plain"]).flatten(1).all(1)
    assert 0.2 < (~plain).float().mean() < 0.5
    assert (meant[plain, 1] <= 1).all()
    assert (meant[~plain, 1] > 1).any(), "who sees no colours goes by the noun"


def test_turns_of_a_conversation_are_what_the_lesson_teaches(agent: Agent, context: Context) -> None:
    """Two turns one after the other point where one forward pass over both does."""
    batch = lesson.lesson_batch(context, 1, 6)
    with torch.no_grad():
        wanted = agent.forward(dict(batch), [POINT])[POINT].logits[:, 1]
    talk = Conversation(agent, 6)
    for turn in (0, 1):
        one = {
            **{name: batch[name][:, turn : turn + 1] for name in ("first", "valid")},
            **{
                part: {name: x[:, turn : turn + 1] for name, x in batch[part].items()} for part in ("senses", "present")
            },
        }
        heard = talk.turn(one, 0, [POINT])
    torch.testing.assert_close(heard.outputs[POINT].logits.flatten(1), wanted, atol=2e-4, rtol=1e-3)


def test_a_turn_ends_with_its_sentence(agent: Agent, context: Context, monkeypatch) -> None:
    shown = games(context, np.arange(3), TAUGHT, TAUGHT)
    talk = Conversation(agent, 3)
    turn = talk.turn(exam.heard(shown, np.arange(3), shown.openings, first=True), 40)
    for text, sure in zip(turn.texts, turn.sure, strict=True):
        assert not set(text[:-1]) & set(STOPS)
        assert len(text.encode()) <= 40
        assert 0 <= sure <= 1


def test_who_knows_all_wins_and_shuffled_answers_do_not(agent: Agent, context: Context, monkeypatch) -> None:
    def played(shuffle: bool) -> float:
        def play(agent, shown):
            turn = numpy_rng("shuffled").permutation if shuffle else np.arange
            order = turn(len(shown.target))
            asked = ~shown.clear[order]
            return exam.Played(asked, asked.astype(float), shown.target[order])

        monkeypatch.setattr(exam, "play", play)
        measure, _ = exam.examine(agent, tiny_context(context.out, "exam.episodes_scale=1"), "glimpse")
        return measure.score

    with examination(agent):
        assert played(shuffle=False) == 1.0
        assert abs(played(shuffle=True) - exam.CHANCE) < 0.1


def test_habits_win_less_than_who_asks_where_several_fit(agent: Agent, context: Context) -> None:
    with examination(agent):
        measure, _ = exam.examine(agent, tiny_context(context.out, "exam.episodes_scale=0.3"), "full")
    never, always, asks = measure.floors.values()
    assert asks > max(never, always) > 0.15
    assert measure.score < 0.35, "an untaught agent"
    assert not exam.GATE.judge({measure.name: measure}).passed


def test_it_points_at_the_thing_nearest_to_the_cell(context: Context) -> None:
    shown = games(context, np.arange(20), TAUGHT, TAUGHT)
    middle = cells(shown.boxes)[np.arange(20), shown.target]
    assert (exam._thing(middle, shown, np.arange(20)) == shown.target).mean() > 0.9
