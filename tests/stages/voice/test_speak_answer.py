"""A spoken question answered aloud: the truth of a scene, the head in a life, the lesson, and the exam's laws."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from devmind.acting import Actor
from devmind.agent.agent import Agent
from devmind.agent.batch import collate_tick
from devmind.curriculum.exam import Measure
from devmind.curriculum.examining import examine_skill
from devmind.curriculum.stage import Context
from devmind.seeding import lesson_seeds
from devmind.testing import tiny_agent, tiny_context
from stages.voice import parts
from stages.voice.abilities.spoken_answers import ask
from stages.voice.caregiver import formants
from stages.voice.caregiver.speech import SPOKEN
from stages.voice.codec import codes_of
from stages.voice.ear import frames
from stages.voice.one_head import HeadByMuon
from stages.voice.recogniser import Recogniser
from stages.voice.say.lesson import own_voice
from stages.voice.speak_answer import cascade, exam, lesson
from stages.voice.speak_answer.asked import (
    ALL,
    ANSWERS,
    HELD_OUT,
    KINDS,
    NO_QUESTIONS,
    PAIRS,
    STRANGE_REMARKS,
    TAUGHT,
    Question,
    answers_to,
    questions,
    scenes,
    truth,
)
from stages.voice.stage import SKILLS, VoiceStage

SKILL = next(skill for skill in SKILLS if skill.name == "speak_answer")
BALL, BOX, RED, BLUE = 0, 1, 0, 2


def examined(agent: Agent, context: Context) -> Measure:
    return examine_skill(VoiceStage(), SKILL, agent, context).measures[exam.SCENES]


def test_the_truth_of_a_scene_equals_a_hand_answer() -> None:
    pairs, cells = [(RED, BALL), (BLUE, BALL), (BLUE, BOX)], [0, 3, 5]  # left, middle, right
    asked = {
        Question(0, ALL, BOX): "blue",
        Question(0, ALL, BALL): None,  # there are two
        Question(1, RED, BALL): "left",
        Question(1, BLUE, BALL): "middle",
        Question(1, BLUE, BOX): "right",
        Question(1, RED, BOX): None,
        Question(2, RED, BALL): "yes",
        Question(2, RED, BOX): "no",
        Question(3, ALL, BALL): "two",
        Question(3, ALL, BOX): "one",
        Question(3, ALL, 2): "none",
    }
    assert {question: truth(question, pairs, cells) for question in asked} == asked


def test_questions_are_sentences_and_answers_are_sayable_words() -> None:
    every = questions(PAIRS)
    texts = [question.text for question in every]
    assert len(texts) == len(set(texts)) == 2 * 3 + 2 * 12
    assert {"what colour is the box", "how many boxes are there", "is there a red can"} <= set(texts)
    assert set(ANSWERS) == {answer for question in every for answer in answers_to(question)} <= set(SPOKEN)
    assert set(" ".join(texts).split()) <= set(formants.SAID), "without espeak-ng they are asked, too"


def test_scenes_hold_the_answer_and_lessons_hold_no_held_out_pair(tmp_path: Path) -> None:
    context, asked = tiny_context(tmp_path), list(questions(TAUGHT)) * 8
    shown = scenes(context, lesson_seeds(len(asked), "test"), asked, TAUGHT)
    assert not {(question.colour, question.noun) for question in asked} & set(HELD_OUT)
    for question, word, meant, things in zip(shown.questions, shown.words, shown.meant, shown.things, strict=True):
        assert word in answers_to(question)
        assert 2 <= things.sum() <= 4
        assert not (meant & ~things).any()
        many = {"none": 0, "no": 0, "one": 1, "two": 2, "three": 3}.get(word, 1)
        assert meant.sum() == many, "all that is asked about is seen, each in a cell of its own"
    for kind in KINDS:
        words = {
            word for question, word in zip(asked, shown.words.tolist(), strict=True) if kind == KINDS[question.kind]
        }
        assert len(words) == len(answers_to(Question(KINDS.index(kind), RED, BALL)))


def test_a_question_ends_where_the_page_asks_and_the_scene_appears() -> None:
    sound = torch.zeros(2, 5 * 1600)
    sound[0, 1600:3200], sound[1, 1600:6400] = 0.5, 0.5
    moved = exam.ended_together(sound, torch.tensor([3, 5]))
    loud = moved.unflatten(1, (5, 1600)).amax(-1) > 0
    assert loud.tolist() == [[False, False, False, True, False], [False, True, True, True, False]]
    batch = exam.as_batch(moved, torch.zeros(2, 64, 64, 3, dtype=torch.uint8))
    assert batch["present"][parts.SIGHT].tolist() == [[False] * 4 + [True]] * 2
    assert torch.equal(batch["present"][parts.TEXT], batch["present"][parts.SIGHT])
    assert batch["present"][parts.SOUND].all()
    assert exam.as_batch(moved, torch.zeros(2, 64, 64, 3, dtype=torch.uint8), True)["present"][parts.SIGHT].all()


def test_stepping_equals_the_answer_at_once_and_answers_only_where_a_page_asks(tmp_path: Path) -> None:
    agent: Any = tiny_agent()
    parts.admit(agent)
    with torch.no_grad():  # a newborn eye sees nothing
        agent.eval().encoder(parts.DETAIL).things.bias.fill_(1.0)
    asked = exam.ask_questions(tiny_context(tmp_path), "test", questions(TAUGHT), TAUGHT, n=1).rows(1)
    sound, counts = exam.in_a_row(asked.waves)
    sight = torch.from_numpy(asked.shown.sight)
    batch = exam.as_batch(exam.ended_together(sound, counts), sight)
    head: Any = agent.head(parts.REPLIES)
    with torch.inference_mode():
        output: Any = agent(batch, [parts.REPLIES])[parts.REPLIES]
        wanted = output.mode()[0, -1]
        said = codes_of(head.levels(output.logits[:, -1].argmax(-1)))[0]  # as the exam says it
        assert torch.equal(wanted, said)
    actor = Actor(agent, 1, effectors=(parts.REPLY,), standing={parts.REPLY: (parts.REPLIES,)})
    ticks = batch["senses"][parts.SOUND].shape[1]
    for again in range(2):  # the second time it starts anew
        for tick in range(ticks):
            senses: dict[str, Any] = {parts.SOUND: batch["senses"][parts.SOUND][:, tick].numpy()}
            if tick == ticks - 1:
                senses |= {parts.SIGHT: sight.numpy(), parts.TEXT: [lesson.PAGE]}
            done = actor.act(collate_tick(senses, np.array([tick == 0])))
            assert again or bool(done.acted[parts.REPLY][0]) == (tick == ticks - 1)
        told = done.outputs[parts.REPLIES].numbers()[0]
        torch.testing.assert_close(told, output.logits[0, -1], atol=1e-4, rtol=1e-4)
        assert torch.equal(done.outputs[parts.REPLIES].mode()[0], wanted)
    alone = ask(agent, batch, (parts.REPLIES,))
    assert bool(alone.acted[parts.REPLY][0])
    torch.testing.assert_close(alone.outputs[parts.REPLIES].numbers()[0], told, atol=1e-4, rtol=1e-4)


def test_a_look_without_sound_leaves_what_was_heard_as_it_is(tmp_path: Path) -> None:
    agent: Any = tiny_agent()
    parts.admit(agent)
    with torch.no_grad():  # a newborn eye sees nothing
        agent.eval().encoder(parts.DETAIL).things.bias.fill_(1.0)
    asked = exam.ask_questions(tiny_context(tmp_path), "test", questions(TAUGHT), TAUGHT, n=1).rows(1)
    sound, counts = exam.in_a_row(asked.waves)
    batch = exam.as_batch(exam.ended_together(sound, counts), torch.from_numpy(asked.shown.sight), meanwhile=True)
    heard = batch["present"][parts.SOUND]
    heard[:, 3:5] = False
    with torch.inference_mode():
        output: Any = agent(batch, [parts.REPLIES])[parts.REPLIES]
    actor = Actor(agent, 1, effectors=(parts.REPLY,), standing={parts.REPLY: (parts.REPLIES,)})
    for tick in range(heard.shape[1]):
        senses: dict[str, Any] = {parts.SIGHT: batch["senses"][parts.SIGHT][:, tick].numpy()}
        if tick == heard.shape[1] - 1:
            senses[parts.TEXT] = [lesson.PAGE]
        if heard[0, tick]:
            senses[parts.SOUND] = batch["senses"][parts.SOUND][:, tick].numpy()
        done = actor.act(collate_tick(senses, np.array([tick == 0])))
    told = done.outputs[parts.REPLIES].numbers()[0]
    torch.testing.assert_close(told, output.logits[0, -1], atol=1e-4, rtol=1e-4)


def test_a_head_that_takes_speech_for_no_question_says_nothing(tmp_path: Path) -> None:
    agent: Any = tiny_agent()
    parts.admit(agent)
    head: Any = agent.eval().head(parts.REPLIES)
    some = exam.ask_questions(tiny_context(tmp_path), "test", questions(TAUGHT), TAUGHT, n=8).rows(2)
    with torch.no_grad():  # a newborn eye sees nothing
        agent.encoder(parts.DETAIL).things.bias.fill_(1.0)
        for bias, answers in ((-20.0, False), (20.0, True)):
            head.is_asked.bias.fill_(bias)
            reply = exam.reply_to(agent, some)
            assert [bool(np.abs(sound).max() > 0) for sound in reply.sounds] == [answers] * 2
            assert [word != exam.NO_ANSWER for word in reply.meant] == [answers] * 2


def test_remarks_are_in_lessons_and_exams_but_none_in_both() -> None:
    asked = {question.text for question in questions(PAIRS)}
    assert not set(NO_QUESTIONS) & asked
    assert not set(STRANGE_REMARKS) & (asked | set(NO_QUESTIONS))
    assert set(" ".join((*NO_QUESTIONS, *STRANGE_REMARKS)).split()) <= set(formants.SAID), "without espeak-ng, too"


def test_an_eighth_of_a_lesson_are_remarks_and_the_head_learns_to_tell(tmp_path: Path) -> None:
    context, agent = tiny_context(tmp_path), tiny_agent(3)
    parts.admit(agent)
    batch = lesson.lesson_batch(context, 0, 16)
    assert batch["question"].tolist() == [True] * 14 + [False] * 2
    assert len(batch["heard"]) == len(batch["sight"]) == 16
    assert len(batch["answers"]) == len(batch["meant"]) == 14
    nats = [lesson.loss(agent, batch)[1]["doubted"]]
    for turned in (False, True):
        agent.head(parts.REPLIES).is_asked.bias.data.fill_(-20.0 if turned else 20.0)
        nats.append(lesson.loss(agent, batch)[1]["doubted"])
    assert nats[1] < nats[2], "most of it are questions"


def test_the_lesson_gives_the_head_the_input_of_a_life(tmp_path: Path) -> None:
    agent: Any = tiny_agent(3)
    parts.admit(agent)
    with torch.no_grad():  # a newborn eye sees nothing
        agent.eval().encoder(parts.DETAIL).things.bias.fill_(1.0)
    asked = exam.ask_questions(tiny_context(tmp_path), "test", questions(TAUGHT), TAUGHT, n=2).rows(2)
    sound, sight = exam.in_a_row(asked.waves)[0], torch.from_numpy(asked.shown.sight)
    tap = agent.tap_of(parts.REPLIES)
    for meanwhile in (False, True):
        with torch.no_grad():
            lived: Any = tap.read(agent.perceive(exam.as_batch(sound, sight, meanwhile), [tap]))
        # Seven frames of silence before it, of which the ear hears six.
        mel = frames(torch.nn.functional.pad(sound, (1600, 0)))[:, 1:]
        alone = lesson.perceive_batch(agent, {"heard": mel, "sight": sight})
        torch.testing.assert_close(alone.tokens[:, 1:], lived.tokens[:, 1:], atol=1e-4, rtol=1e-4)
        assert torch.equal(alone.present, lived.present)
        for name, seen in alone.maps.items():
            torch.testing.assert_close(seen[:, -1], lived.maps[name][:, -1])


def test_only_the_head_learns_and_a_short_lesson_lowers_its_loss(tmp_path: Path) -> None:
    pupil, context = tiny_agent(3), tiny_context(tmp_path)
    parts.admit(pupil)
    batch = lesson.lesson_batch(context, 0, 8)
    learner: Any = lesson.lesson(context).make_learner(pupil, context)
    assert isinstance(learner, HeadByMuon)
    learner.steps = 60
    kept = {name: value.clone() for name, value in pupil.state_dict().items()}
    learner.begin(0)
    told = [learner.update(batch, step) for step in range(60)]
    for name in ("answers", "looks", "asks", "doubted"):
        assert float(told[-1][name]) < 0.6 * float(told[0][name]), name
    changed = {name for name, value in pupil.state_dict().items() if not torch.equal(value, kept[name])}
    assert any(".memory." in name for name in changed)
    assert all(name.startswith(f"heads.{parts.REPLIES}.") for name in changed)


def test_a_head_without_refusal_takes_everything_for_a_question(tmp_path: Path) -> None:
    agent: Any = tiny_agent(3)
    agent.config.stages = ["voice"]
    parts.admit(agent)
    entry = next(entry for entry in agent.config.heads if entry["name"] == parts.REPLIES)
    del entry["options"]["refuses"]
    old: Any = Agent(agent.config).eval()
    with torch.no_grad():  # a newborn eye sees nothing
        old.encoder(parts.DETAIL).things.bias.fill_(1.0)
    context = tiny_context(tmp_path)
    asked = exam.ask_questions(context, "test", questions(TAUGHT), TAUGHT, n=2).rows(2)
    with torch.inference_mode():
        reply = exam.reply_to(old, asked)
    assert set(reply.meant) <= set(ANSWERS)


def test_lessons_use_their_own_voices_and_show_no_scene_of_the_exam(tmp_path: Path) -> None:
    context = tiny_context(tmp_path)
    met = lesson.lesson_episodes(context, 40)
    asked = exam.ask_questions(context, "speak_answer exam", questions(TAUGHT), TAUGHT, n=40)
    assert len(set(met.tolist())) == 40
    assert not set(met.tolist()) & set(lesson.identity(asked.waves, asked.shown.sight).tolist())
    assert not set(lesson.spoken_questions(context.seed, "tiny").voices) & set(asked.voices)


def test_the_nearest_question_shares_most_words(monkeypatch: pytest.MonkeyPatch, agent: Agent) -> None:
    told = ["red box", "boxes", "box", "is there a blue can"]
    monkeypatch.setattr(cascade, "frames_of", lambda agent, waves, heads: ({parts.WORDS: None}, None))
    monkeypatch.setattr(cascade, "read_off", lambda logits, counts: told)
    found = cascade.heard_questions(agent, [])
    assert found == [
        "where is the red box", "how many boxes are there", "what colour is the box", "is there a blue can",
    ]  # fmt: skip


def test_right_answers_in_the_own_voice_reach_the_ceiling_and_shuffled_ones_fall(
    agent: Agent, judge: Recogniser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exam, "the_judge", lambda context: judge)
    context = tiny_context(tmp_path, "exam.episodes_scale=0.1")
    untaught = examined(agent, context)
    assert untaught.score < 0.4
    assert {exam.UNTAUGHT, exam.QUESTION_ALONE} <= set(untaught.floors)
    assert 0.2 < untaught.floors[exam.QUESTION_ALONE] < 0.7
    assert {exam.SILENCED, exam.HIDDEN, exam.MEANWHILE, exam.STRANGE, exam.MEANT, exam.MISTAKEN, exam.OWN} <= set(
        untaught.rows
    )
    assert len(untaught.exhibits) >= 4
    assert (tmp_path / "recognisers" / "speak_answer.npz").is_file()
    own = own_voice(False)
    wave = {text: own.waves[row] for row, text in enumerate(own.texts)}

    def saying(turn: Any) -> Any:
        def reply(agent: Agent, some: exam.SpokenQuestions, **change: bool) -> exam.Reply:
            words = some.shown.words[turn(len(some.waves))]
            return exam.Reply([wave[word] for word in words], words)

        return reply

    monkeypatch.setattr(exam, "reply_to", saying(np.arange))
    best = examined(agent, context)
    assert best.score > 0.9
    assert best.rows[exam.MEANT] == 1.0
    monkeypatch.setattr(exam, "reply_to", saying(np.random.default_rng(0).permutation))
    worst = examined(agent, context)
    assert worst.score < 0.4
    assert not exam.GATE.judge({exam.SCENES: worst}, 200).passed
    assert exam.examine(tiny_agent(), context).in_full() == []
