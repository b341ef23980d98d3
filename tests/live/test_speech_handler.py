"""Spoken words are answered as typed ones and teach names; on a virtual clock, with a fake ear.

`test_heard_words.py` tests which words the head hears; here a fake ear hears the words of a script.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from devmind.acting.abilities import Reply, Sentence
from devmind.agent.agent import Agent
from devmind.live.life import Life
from devmind.live.loop import Tick
from devmind.live.options import LiveOptions
from devmind.live.serving.hub import Hub
from devmind.live.speech_handler import WAITING, SpeechHandler
from devmind.live.virtual import Mailbox, SoundMailbox, VirtualClock
from devmind.memory import Memory, open_store
from devmind.moment import Moment
from devmind.testing import tiny_agent
from devmind.worlds.room import Room
from sensors.synthetic import SyntheticCamera
from stages.language.own_words import Dialogue, OwnWords
from stages.reflex import parts
from stages.voice import parts as parts_of_voice
from stages.voice.abilities.heard_words import END_S, HeardWords
from stages.voice.sounds.kinds import KINDS
from tests.live.test_own_voice import Mouth

PASSED = {"skills": [{"measures": [{"name": "hear_words/caregiver", "passed": True}]}]}
WORDS = ["", "what", "is", "that", "this", "a", "cup", "nice"]


class Ears(HeardWords):
    """Hears the words of a script: one a tick, '' for quiet."""

    def __init__(self, agent: Agent) -> None:
        super().__init__(agent, PASSED)
        self.words, self.script = WORDS, list[str]()

    def see(self, tick: Tick) -> None:
        """The next word of the script."""
        word = self.script.pop(0) if self.script else ""
        self._add(np.eye(len(WORDS))[WORDS.index(word)] * 0.9, tick.moment.time_s)


class Spoken:
    """A life with sight and sound, driven tick by tick."""

    def __init__(self, folder: Path, speaker: Any, ears: bool = True) -> None:
        clock, self.ear = VirtualClock(), SoundMailbox()
        self.eye, self.camera = Mailbox("sight", clock), SyntheticCamera()
        room = Room({"eye": self.eye, "ear": self.ear}, now=clock.now, sleep=clock.sleep)
        agent = Agent.from_pretrained(folder)
        self.life = Life(agent, room, Memory(open_store(None)), LiveOptions(folder, {}), hub=Hub(), speaker=speaker)
        if ears:
            self.hears_by(Ears(agent))
        self._ticks, self._lived = self.life.loop.ticks(), 0

    def hears_by(self, ears: Any) -> None:
        """Let the life hear by these ears."""
        hearing: Any = self.life.abilities["hear_words"]
        self.ears = hearing.ears = ears

    def __enter__(self) -> Spoken:
        self.life.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.life.loop.calls.close()
        self.life.__exit__(None, None, None)

    def live(self, ticks: int) -> None:
        self.hear(np.zeros((1, 1600 * ticks), np.float32))

    def hear(self, sound: np.ndarray) -> None:
        """Live through whole ticks of sound [1, S] for one ear."""
        for part in sound.reshape(-1, 1, 1600):
            self.ear.post(part)
            self.eye.post(self.camera._frame(3 * self._lived, 0.1 * self._lived))
            self._lived += 1
            next(self._ticks)

    def until(self, done: Callable[[], Any]) -> Any:
        give_up_s = time.monotonic() + 60
        while not (found := done()):
            assert time.monotonic() < give_up_s
            self.live(1)
            time.sleep(0.01)
        return found

    def say(self, *words: str) -> None:
        self.ears.script += words
        self.live(len(words))


def admitted_to_voice(run: Path) -> Path:
    """The milestone, in the folder of a run, of an untrained agent with all parts of voice."""
    (run / "journal.jsonl").touch()
    agent = tiny_agent(2)
    parts.admit(agent)
    parts_of_voice.admit(agent)
    agent.save_pretrained(run / "milestones" / "01-voice")
    return run / "milestones" / "01-voice"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return admitted_to_voice(tmp_path_factory.mktemp("run"))


@pytest.fixture
def home(run: Path) -> Iterator[Spoken]:
    with Spoken(run, Mouth()) as home:
        yield home


def test_spoken_question_is_answered_aloud_as_a_typed_one(home: Spoken, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def reply(self: Any, agent: Agent, text: str, *more: Any) -> OwnWords:
        asked.append(text)
        return OwnWords("a cup.", 0.9, None)

    monkeypatch.setattr(Dialogue, "reply", reply)
    home.live(3)
    home.say("what", "is", "that")
    home.live(round(END_S * 10) - 2)
    assert not asked, "it may go on"
    said = home.until(lambda: home.life.speaker.said)
    assert (asked, said) == (["what is that"], ["a cup."])
    spoken = home.until(home.life.spoken_to.shown)
    assert spoken == {"text": "what is that", "answer": "a cup.", "number": 1}
    assert home.life._extra()["spoken"] == spoken
    home.live(30)
    assert len(asked) == 1, "a sentence is answered once"
    home.say("is", "that", "a", "cup")
    home.until(lambda: len(asked) == 2)
    assert asked[-1] == "is that a cup"


def test_thing_is_named_by_voice(home: Spoken) -> None:
    home.until(lambda: home.life.holding.square)
    home.say("this", "is", "a", "cup")
    home.until(lambda: home.life.child.names.known().get("cup"))
    [said] = home.until(lambda: home.life.speaker.said)
    assert "“cup”" in said
    home.until(lambda: home.life.spoken_to.shown().get("answer") == said)


def test_voice_that_goes_on_talking_is_not_what_it_names(home: Spoken) -> None:
    home.until(lambda: home.life.holding.square)
    still = home.camera._frame(3 * home._lived, 0.5)
    home.camera._frame = lambda number, at_s: still  # type: ignore[method-assign]
    talk = np.random.default_rng(0)
    home.ears.script += ["this", "is", "a", "cup"]

    def goes_on() -> dict[str, int]:
        home.hear(talk.normal(0, 0.1, (1, 1600)).astype(np.float32))
        return dict(home.life.child.names.known())

    home.until(goes_on)
    (entry,) = [home.life.memory.store.get([one.id])[0] for one in home.life.memory.store.find() if one.name]
    assert (entry.name, "sight" in entry.senses, "sound" in entry.senses) == ("cup", True, False)


def test_invalid_spoken_name_is_answered_with_the_reason(home: Spoken) -> None:
    home.live(3)
    home.say("this", "is", "nice")
    [said] = home.until(lambda: home.life.speaker.said)
    assert "it is called nice" in said
    assert home.life.child.names.known() == {}
    assert home.life.spoken_to.fault == ""


def test_speech_is_not_answered_without_a_voice(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Spoken(run, None) as home:
        home.live(3)
        home.say("this", "is", "a", "cup")
        home.live(30)
        assert home.life.spoken_to.shown() == {}
        assert home.life.child.names.known() == {}


def test_unsure_word_is_left_out_and_a_sentence_is_given_once() -> None:
    agent = tiny_agent()
    parts_of_voice.admit(agent)
    ears = Ears(agent)
    for time_s, word, sure in (
        (0.1, "this", 0.9),
        (0.2, "", 1.0),
        (0.3, "is", 0.3),
        (0.4, "cup", 0.4),
        (0.5, "cup", 0.6),
    ):
        ears._add(np.eye(len(WORDS))[WORDS.index(word)] * sure, time_s)
    assert ears.sentence(0.5 + END_S - 0.1) == ""
    assert ears.sentence(0.5 + END_S) == "this cup"
    assert ears.sentence(5.0) == ""


def wait(until: Callable[[], Any]) -> None:
    give_up_s = time.monotonic() + 60
    while not until():
        assert time.monotonic() < give_up_s
        time.sleep(0.01)


def test_sentences_wait_and_a_fault_is_shown_until_one_is_answered() -> None:
    going: list[str] = []
    free = threading.Event()

    def say(sentence: Sentence) -> Reply:
        going.append(sentence.text)
        free.wait(10)
        return Reply("yes.")

    asked: Sequence[str] = [f"number {number}" for number in range(WAITING + 2)]
    with SpeechHandler(say, lambda text: None) as spoken:
        spoken.take(Sentence(asked[0]))
        wait(lambda: going)
        for words in asked[1:]:
            spoken.take(Sentence(words))
        assert asked[-1] in spoken.fault
        free.set()
        wait(lambda: spoken.shown().get("number") == WAITING + 1)
        assert spoken.fault == ""
    assert going == list(asked[:-1])


def test_unexpected_error_is_shown_and_the_next_sentence_is_answered() -> None:
    def say(sentence: Sentence) -> Reply:
        if sentence.text == "what is that":
            raise RuntimeError("shapes differ")
        return Reply("yes.")

    with SpeechHandler(say, lambda text: None) as spoken:
        spoken.take(Sentence("what is that"))
        wait(lambda: spoken.fault)
        assert "shapes differ" in spoken.fault
        assert "what is that" in spoken.fault
        spoken.take(Sentence("is that a cup"))
        wait(spoken.shown)
        assert spoken.shown()["text"] == "is that a cup"
        assert spoken.fault == ""


@pytest.mark.parametrize("kind", ["speech", "dog"])
def test_words_in_what_is_no_speech_are_not_answered(home: Spoken, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent's arc of kinds takes it for a dog."""
    asked: list[str] = []

    def reply(self: Any, agent: Agent, text: str, *more: Any) -> OwnWords:
        asked.append(text)
        return OwnWords("a cup.", 0.9, None)

    monkeypatch.setattr(Dialogue, "reply", reply)
    agent = home.life.loop.agent
    agent.head(parts_of_voice.KINDS_ARC).answer[-1].bias.data[KINDS.index(kind)] = 99.0  # type: ignore[union-attr,operator,index]
    home.live(3)
    for words in (("what", "is", "that"), ("is", "that", "a", "cup")):
        home.ears._keep(Moment(home._lived / 10, {"sound": np.ones((1, 1600), np.float32)}))
        home.say(*words)
        home.live(round(END_S * 10) + 2)
    if kind == "speech":
        home.until(lambda: len(asked) == 2)
    else:
        time.sleep(0.5)
        assert not asked
