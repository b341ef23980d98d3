"""The head of the exam answers a spoken question aloud; what is no question is not answered by it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from devmind.acting.abilities import Sentence
from devmind.agent.agent import Agent
from devmind.config import LiveConfig
from devmind.live.life import Life
from devmind.live.loop import Tick
from devmind.live.options import LiveOptions
from devmind.live.virtual import Mailbox, SoundMailbox, VirtualClock
from devmind.memory import Memory, open_store
from devmind.moment import TICK_HZ, TICK_SAMPLES, Moment
from devmind.raised import raised_agents
from devmind.testing import tiny_agent, tiny_context
from devmind.worlds.room import Room
from stages.voice import parts as parts_of_voice
from stages.voice.abilities.heard_words import END_S, LEAD_S, HeardWords
from stages.voice.abilities.spoken_answers import EXAM, Replying, ask, question_batch
from stages.voice.codec import codes_of, levels_of
from stages.voice.echo.lesson import decode
from stages.voice.parts import REPLY
from stages.voice.sound_heads import sound_of_answer
from stages.voice.speak_answer import exam
from stages.voice.speak_answer.asked import ANSWERS, TAUGHT, questions
from stages.voice.vocoder import sound_of
from tests.live.test_own_voice import Mouth, surroundings
from tests.live.test_speech_handler import PASSED, WORDS, Ears, Spoken, admitted_to_voice

FAILED = {"skills": [{"measures": [{"name": f"{EXAM}scenes", "passed": False}]}]}
QUESTION, REMARK = 20.0, -20.0
"""What the head takes everything that it hears for."""


class Listening(Ears):
    """Hears the words of a script, and keeps their sound."""

    def see(self, tick: Tick) -> None:
        """The next word of the script."""
        self._keep(tick.moment)
        super().see(tick)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return admitted_to_voice(tmp_path_factory.mktemp("run"))


def takes_for(agent: Any, what: float) -> Any:
    """An agent that sees things and takes everything that it hears for a question, or nothing."""
    with torch.no_grad():
        agent.encoder(parts_of_voice.DETAIL).things.bias.fill_(1.0)
        agent.head(parts_of_voice.REPLIES).is_asked.bias.fill_(what)
    return agent


@pytest.fixture
def home(run: Path) -> Iterator[Spoken]:
    with Spoken(run, Mouth()) as home:
        home.hears_by(Listening(takes_for(home.life.loop.agent, QUESTION)))
        home.life.sure = 0.0  # it was taught nothing, and so is sure of nothing
        yield home


def test_spoken_question_is_answered_by_the_head_of_the_exam(home: Spoken, monkeypatch: pytest.MonkeyPatch) -> None:
    agent: Any = home.life.loop.agent
    put: list[tuple[Any, ...]] = []

    def noted(heard: Any, sight: Any) -> Any:
        put.append((heard, sight))
        return question_batch(heard, sight)

    monkeypatch.setattr("stages.voice.abilities.spoken_answers.question_batch", noted)
    home.live(3)
    home.say("what", "is", "that")
    spoken = home.until(home.life.spoken_to.shown)
    assert home.life.speaker.said == [], "no words are spoken"
    [make] = home.life.speaker.makers
    [(heard, sight)] = put
    assert len(heard) == 6 + round(END_S * TICK_HZ), "all that was heard, and the quiet behind it"
    done = ask(agent, question_batch(heard, sight), (parts_of_voice.REPLIES,))
    output: Any = done.outputs[parts_of_voice.REPLIES]
    word = ANSWERS[int(output.logits[0].argmax())]
    assert spoken["text"] == "what is that"
    assert spoken["sure"] == pytest.approx(float(output.probabilities().max()), abs=0.01)
    assert (spoken["answer"], spoken["number"]) == (word, 1)
    with torch.inference_mode():
        wanted = sound_of(decode(agent, levels_of(output.mode()).float()).flatten(1, 2))
    torch.testing.assert_close(torch.from_numpy(make()), wanted, atol=1e-4, rtol=1e-4)


def test_speech_that_is_no_question_is_answered_by_words(home: Spoken) -> None:
    takes_for(home.life.loop.agent, REMARK)
    home.live(3)
    home.say("what", "is", "that")
    home.until(lambda: home.life.speaker.said)
    assert home.life.speaker.makers == []
    assert "sure" not in home.until(home.life.spoken_to.shown)


def test_spoken_question_in_a_strange_room_is_not_answered_by_ear(
    home: Spoken, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test of written answers holds for spoken ones too."""
    strange = SimpleNamespace(is_unlike=lambda agent, sight: True)
    monkeypatch.setattr(home.life, "confidence", SimpleNamespace(density=strange))
    home.live(3)
    home.say("what", "is", "that")
    home.until(lambda: home.life.speaker.said)
    assert home.life.speaker.makers == []
    assert "sure" not in home.until(home.life.spoken_to.shown)


def test_spoken_sentence_with_a_name_teaches_it_whatever_the_head_decides(home: Spoken) -> None:
    home.until(lambda: home.life.holding.square)
    home.say("this", "is", "a", "cup")
    home.until(lambda: home.life.child.names.known().get("cup"))
    assert home.life.speaker.makers == []


def test_replying_head_depends_on_exams_options_and_a_speaker(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agent, mouth = takes_for(Agent.from_pretrained(run), QUESTION), Mouth()
    one = (parts_of_voice.REPLIES,)

    def heads(who: Agent = agent, speaker: Any = mouth, **more: Any) -> tuple[str, ...]:
        return Replying(surroundings(speaker, **more)).heads_to_ask(who)

    assert heads() == one
    assert heads(results=PASSED) == one, "it was examined in something else"
    assert heads(results=FAILED) == ()
    assert heads(results=FAILED, answers={REPLY: one}) == one
    assert heads(speaker=None) == ()
    monkeypatch.setattr(type(agent.head(parts_of_voice.REPLIES)), "refuses", False)
    assert heads() == (), "it would answer whatever is said"
    assert heads(answers={REPLY: one}) == one
    monkeypatch.undo()
    assert heads(tiny_agent()) == ()
    rng = np.random.default_rng(0)
    heard = tuple(Moment(0.1 * at, {"sound": rng.normal(0, 0.1, (1, 1600)).astype(np.float32)}) for at in range(12))
    sight, notes = rng.integers(0, 255, (64, 64, 3), np.uint8), list[Any]()

    def reply(sounds: tuple[Moment, ...] = heard, **more: Any) -> Any:
        near = {"agent": agent, "sees": sight, "note": lambda kind, data: notes.append((kind, data))} | more
        return Replying(surroundings(mouth, **near)).hear(Sentence("", True, sounds))

    replied = reply()
    assert replied.text in ANSWERS
    assert replied.aloud == "", "no words are spoken"
    [(kind, noted)] = notes
    assert (kind, noted["word"], noted["head"]) == ("replied", replied.text, parts_of_voice.REPLIES)
    sure = replied.fields["sure"]
    assert reply(sure=sure - 1e-3) == replied
    assert reply(sure=sure + 1e-3) is None, "it is not sure"
    assert reply(is_elsewhere=lambda sight: True) is None
    mouth.makers.pop()
    assert reply(sees=None) is None, "there is nothing to look at"
    assert reply(()) is None
    assert len(mouth.makers) == 1


def said_by(agent: Any, sound: np.ndarray) -> str:
    """Which of its answers this sound [1, S] is."""
    head = agent.head(parts_of_voice.REPLIES)
    with torch.inference_mode():  # one by one: the phases depend on the number of sounds made at once
        every = [sound_of_answer(agent, codes_of(head.levels(torch.tensor([at])))[0]) for at in range(len(ANSWERS))]
    sounds = np.concatenate([one for one in every if one is not None])
    off = np.abs(sounds - sound).mean(1)
    assert off.min() < 0.1 * np.partition(off, 1)[1]
    return ANSWERS[int(off.argmin())]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_packaged_voice_agent_answers_in_a_life_as_in_its_exam(tmp_path: Path) -> None:
    """Six questions in new voices about new scenes, one after another in one life."""
    folder, mouth = raised_agents()["after-voice"], Mouth()
    agent = Agent.from_pretrained(folder).eval()
    some = exam.ask_questions(tiny_context(tmp_path), "asked in a life", questions(TAUGHT), TAUGHT, n=6).rows(6)
    with torch.inference_mode():
        wanted = exam.reply_to(agent, some).meant
    clock, ear = VirtualClock(), SoundMailbox()
    eye, answered = Mailbox("sight", clock, looks_itself=True), list[str]()
    room = Room({"eye": eye, "ear": ear}, now=clock.now, sleep=clock.sleep)
    options = LiveOptions(folder, {}, config=LiveConfig(answers={REPLY: parts_of_voice.REPLIES}))
    with Life(agent, room, Memory(open_store(None)), options, speaker=mouth) as life:
        ticks = life.loop.ticks()
        for wave, sight in zip(some.waves, some.shown.sight, strict=True):
            sound = np.pad(wave, (TICK_SAMPLES, -len(wave) % TICK_SAMPLES + 20 * TICK_SAMPLES))
            for part in sound.reshape(-1, 1, TICK_SAMPLES):
                eye.post(sight)
                ear.post(part)
                next(ticks)
            count = len(answered) + 1
            give_up_s = time.monotonic() + 20
            while life.spoken_to.shown().get("number") != count and time.monotonic() < give_up_s:
                life.loop.calls.run()
                time.sleep(0.01)
            answered.append(said_by(agent, mouth.makers.pop()()) if mouth.makers else "")
        life.loop.calls.close()
    print(f"\n{list(zip(some.shown.texts, some.shown.words.tolist(), wanted.tolist(), answered, strict=True))}")
    assert sum(one == other for one, other in zip(answered, wanted.tolist(), strict=True)) >= 5
    assert sum(one == other for one, other in zip(answered, some.shown.words.tolist(), strict=True)) >= 4


def test_codes_without_a_codec_give_no_sound() -> None:
    assert sound_of_answer(tiny_agent(), torch.zeros(10, 4, 2, dtype=torch.int64)) is None


def test_sound_of_a_sentence_begins_before_its_first_word_and_excludes_own_speech() -> None:
    agent = tiny_agent()
    parts_of_voice.admit(agent)
    ears = Ears(agent)
    word = lambda said: np.eye(len(WORDS))[WORDS.index(said)] * 0.9  # noqa: E731

    def live(start: int, count: int, *, deaf: bool = False) -> None:
        for tick in range(start, start + count):
            ears._keep(Moment(tick / TICK_HZ, {} if deaf else {"sound": np.full((1, 1600), tick, np.float32)}))

    def heard() -> list[int]:
        return [round(one.time_s * TICK_HZ) for one in ears.said]

    live(0, 30)
    ears._add(word("cup"), 2.0)
    assert ears.sentence(2.0 + END_S) == "cup"
    assert heard() == list(range(round((2.0 - LEAD_S) * TICK_HZ), 30))
    live(30, 2)
    live(32, 3, deaf=True)
    live(35, 3)
    ears._add(word("cup"), 3.6)
    assert ears.sentence(3.6 + END_S) == "cup"
    assert heard() == [35, 36, 37], "what came before it spoke is no part of it"
    assert isinstance(ears, HeardWords)
