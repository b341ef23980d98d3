"""Games with the caregiver: the ambiguity of her words, the lesson of two turns, and the exam."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from devmind.agent.agent import Agent
from devmind.agent.writing import STOPS, Conversation
from devmind.curriculum.exam import Exam
from devmind.curriculum.examining import examination
from devmind.curriculum.stage import Context
from devmind.seeding import lesson_seeds, numpy_rng
from devmind.testing import tiny_agent, tiny_context
from stages.language import parts
from stages.language.caregiver import turns
from stages.language.caregiver.grammar import check_words
from stages.language.caregiver.scene import COLOURS, HELD_OUT, NOUNS, PAIRS, TAUGHT
from stages.language.caregiver.turns import looked_at
from stages.language.converse import exam, lesson
from stages.language.converse.games import COLOUR, NOUN, SAID, Games, games
from stages.language.hand_rules import CLASSIFIERS, HUE
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


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exam without its lives in which it asks what things are: `test_asking_what.py` looks at those."""
    monkeypatch.setattr(exam.asking, "examine", lambda *given: Exam([]))


def test_words_fit_the_meant_things_and_are_ambiguous_as_declared(context: Context) -> None:
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


def test_words_alone_do_not_tell_when_to_ask(context: Context) -> None:
    """'Where is the ball?' is clear as often as not, so only the picture can tell."""
    shown = games(context, np.arange(600), TAUGHT, TAUGHT)
    one_word = np.array([len(SAID[kind][0]) == 1 for kind in shown.kind])
    assert 0.42 < shown.clear[one_word].mean() < 0.58
    assert shown.clear[~one_word].all()


def test_a_row_of_the_lesson_is_two_turns_about_one_picture_with_a_pause(context: Context) -> None:
    batch = lesson.lesson_batch(context, 0, 120)
    silent = batch["first"].shape[1] - 2
    assert silent == games(context, lesson_seeds(120, 0, "converse", 0), TAUGHT, TAUGHT).silent[0]
    assert batch["first"].tolist() == [[True] + [False] * (silent + 1)] * 120
    assert batch["present"][TEXT].tolist() == [[True] + [False] * silent + [True]] * 120, "nobody says anything"
    assert batch["present"]["sight"].all()
    for part in ("senses", "present"):
        batch[part] = {name: value[:, [0, -1]] for name, value in batch[part].items()}
    batch |= {name: batch[name][:, [0, -1]] for name in ("written", "pointed")}
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


def test_during_the_pause_the_child_looks_where_the_reply_then_fits(context: Context, monkeypatch) -> None:
    """Looking at the meant thing gets a yes, looking at another fitting thing a no; a child that asked looks on."""
    looked: list[np.ndarray] = []
    seen_by = Games.seen_by

    def noted(self, context, looks_at, rows=None):
        seen = seen_by(self, context, looks_at, rows)
        looked[:] = [looks_at, looked_at(seen.boxes), self.target, self.fitting, seen.sight]
        return seen

    monkeypatch.setattr(Games, "seen_by", noted)
    batch = lesson.lesson_batch(context, 0, 120)
    wanted, found, target, fitting, sight = looked
    assert (found == wanted).mean() > 0.98, "her own eyes find what the child looks at"
    pages = [bytes(n for n in page if 0 <= n < 256).decode() for page in batch["senses"][TEXT][:, -1].tolist()]
    turned = ~(torch.from_numpy(sight) == batch["plain"]).flatten(1).all(1).numpy()
    for row, page in enumerate(pages):
        assert turned[row] == (wanted[row] >= 0)
        if page == "yes.":
            assert wanted[row] == target[row]
        elif page.startswith("no, "):
            assert wanted[row] != target[row]
            assert fitting[row, wanted[row]]
        else:
            assert wanted[row] == -1
    plain = (batch["senses"]["sight"][:, 0] == batch["plain"]).flatten(1).all(1).numpy()
    np.testing.assert_array_equal(batch["senses"]["sight"][plain, 1].numpy(), sight[plain])


def test_her_reply_depends_on_what_the_child_looks_at() -> None:
    assert turns.answer(True, -1, 2, "the red one.") == "the red one."
    assert turns.answer(False, 2, 2, "the red one.") == "yes."
    assert turns.answer(False, 1, 2, "the red one.") == "no, the red one."
    assert turns.answer(False, -1, 2, "the red one.") == "no, the red one."
    boxes = np.zeros((3, 2, 4), np.float32)
    boxes[0] = [[2, 2, 12, 12], [27, 28, 37, 38]]
    boxes[1] = [[27, 18, 37, 28], [2, 2, 12, 12]]
    assert looked_at(boxes).tolist() == [1, -1, -1], "nothing is looked at that lies beside the middle or is not seen"
    drawn = {turns.pause(numpy_rng("test", seed)) for seed in range(60)}
    assert drawn == set(range(1, turns.LONGEST_PAUSE + 1))


def test_looking_ahead_looks_at_nothing_and_turning_to_a_thing_looks_at_it(context: Context) -> None:
    shown = games(context, np.arange(200), TAUGHT, TAUGHT)
    assert (looked_at(shown.boxes) == -1).all()
    for thing in range(4):
        seen = shown.seen_by(context, np.full(200, thing))
        assert (looked_at(seen.boxes) == thing).mean() > 0.95, "what stands before it may hide it"
    np.testing.assert_array_equal(shown.seen_by(context, np.full(200, -1)).sight, shown.sight)


def test_in_the_exam_she_is_silent_and_then_follows_the_gaze(agent: Agent, context: Context, monkeypatch) -> None:
    """Her words, their order and the view meanwhile, for a player that always points at the first thing."""
    shown = games(context, 2_000_000 + np.arange(40), HELD_OUT, PAIRS)
    said: dict[int, list[str]] = {row: [] for row in range(40)}
    now: list[np.ndarray] = []
    hear, listen = exam.turn_batch, Conversation.listen

    def heard(of, rows, words, first=False):
        now[:] = [rows]
        for row in rows.tolist():
            said[row].append(words[row])
        return hear(of, rows, words, first)

    def listened(self, sensed):
        assert set(sensed["senses"]) == {"sight"}
        for row in now[0].tolist():
            said[row].append("")
        listen(self, sensed)

    monkeypatch.setattr(exam, "turn_batch", heard)
    monkeypatch.setattr(Conversation, "listen", listened)
    monkeypatch.setattr(exam, "_thing", lambda cell, of, rows: np.zeros(len(rows), np.int64))
    played = exam.play(agent, context, shown)
    assert {len(each) - 2 for each in said.values()} == set(shown.silent.tolist()) == {1, 2, 3}
    assert not played.asked.any(), "an untaught agent writes no 'which one?'"
    looks_at = looked_at(shown.seen_by(context, np.zeros(40, np.int64)).boxes)
    for row, words in said.items():
        assert words[0] == shown.openings[row]
        assert words[1:-1] == [""] * shown.silent[row]
        follows = turns.answer(False, looks_at[row], shown.target[row], shown.completions[row])
        assert words[-1] == follows
    assert {words[-1] == "yes." for words in said.values()} == {True, False}
    now[:] = [np.array([0])]
    assert exam.be_silent(Conversation(agent, 1), context, shown, now[0], np.array([-1])).tolist() == [-1]


def test_turns_of_a_conversation_equal_the_lessons_forward_pass(agent: Agent, context: Context) -> None:
    """Two turns with a pause between them point where one forward pass over all of it does."""
    batch = lesson.lesson_batch(context, 1, 6)
    with torch.no_grad():
        wanted = agent.forward(dict(batch), [POINT])[POINT].logits[:, -1]
    talk, last = Conversation(agent, 6), batch["first"].shape[1] - 1
    assert last > 1
    for tick in range(last + 1):
        one = {
            **{name: batch[name][:, tick : tick + 1] for name in ("first", "valid")},
            **{
                part: {name: x[:, tick : tick + 1] for name, x in batch[part].items()} for part in ("senses", "present")
            },
        }
        if 0 < tick < last:
            talk.listen(one)
        else:
            heard = talk.turn(one, 0, [POINT])
    torch.testing.assert_close(heard.outputs[POINT].logits.flatten(1), wanted, atol=2e-4, rtol=1e-3)


def test_a_turn_ends_with_its_sentence(agent: Agent, context: Context, monkeypatch) -> None:
    shown = games(context, np.arange(3), TAUGHT, TAUGHT)
    talk = Conversation(agent, 3)
    turn = talk.turn(exam.turn_batch(shown, np.arange(3), shown.openings, first=True), 40)
    for text, sure in zip(turn.texts, turn.sure, strict=True):
        assert not set(text[:-1]) & set(STOPS)
        assert len(text.encode()) <= 40
        assert 0 <= sure <= 1


def test_known_answers_win_and_shuffled_answers_do_not(agent: Agent, context: Context, alone, monkeypatch) -> None:
    def played(shuffle: bool) -> float:
        def play(agent, context, shown, dark=False):
            turn = numpy_rng("shuffled").permutation if shuffle else np.arange
            order = turn(len(shown.target))
            asked = ~shown.clear[order]
            return exam.Played(asked, asked.astype(float), shown.target[order], shown.target[order])

        monkeypatch.setattr(exam, "play", play)
        (measure,) = exam.examine(agent, tiny_context(context.out, "exam.episodes_scale=1").glimpse()).alone()
        return measure.score

    with examination(agent):
        assert played(shuffle=False) == 1.0
        assert abs(played(shuffle=True) - exam.CHANCE) < 0.1


def test_asking_where_several_fit_wins_more_than_habits(agent: Agent, context: Context, alone: None) -> None:
    with examination(agent):
        (measure,) = exam.examine(agent, tiny_context(context.out, "exam.episodes_scale=0.2")).in_full()
    for rule in (CLASSIFIERS, HUE):
        never, always, asks = (score for floor, score in measure.floors.items() if floor.startswith(rule))
        assert asks > max(never, always) > 0.15
    assert measure.score < 0.35, "an untaught agent"
    assert not exam.GATE.judge({measure.name: measure}).passed


def test_a_cell_points_at_the_nearest_thing(context: Context) -> None:
    shown = games(context, np.arange(20), TAUGHT, TAUGHT)
    middle = cells(shown.boxes)[np.arange(20), shown.target]
    assert (exam._thing(middle, shown, np.arange(20)) == shown.target).mean() > 0.9
