"""What a life says aloud and utters, and that it does not hear its own voice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from devmind.acting.standing import Standing
from devmind.agent.agent import Agent
from devmind.live.life import PAUSED
from devmind.live.loop import LiveLoop, Tick
from devmind.live.virtual import SoundMailbox, VirtualClock
from devmind.raised import FOLDER
from devmind.sessions.reader import Session
from devmind.testing import tiny_agent
from devmind.testing.laws import ATOL
from devmind.worlds.room import Room
from stages.language.own_words import Dialogue, OwnWords
from stages.language.talking import Talk
from stages.voice import parts as parts_of_voice
from stages.voice.abilities.uttered_sound import GATHERED, NO_SOUND, NO_SPEAKER, Uttering
from stages.voice.codec import levels_of
from stages.voice.echo.lesson import decode
from stages.voice.parts import CODEC, UTTER
from stages.voice.vocoder import sound_of
from tests.live.test_life import Home, raise_agent


class Mouth:
    """A speaker with a voice that only notes its input.

    Attributes:
        is_heard: the value that it reports.
    """

    def __init__(self) -> None:
        self.said: list[str] = []
        self.played: list[np.ndarray] = []
        self.makers: list[Callable[[], np.ndarray]] = []
        self.is_heard = False

    def say(self, text: str) -> None:
        """Note words."""
        self.said.append(text)

    def act(self, value: np.ndarray) -> None:
        """Note sound."""
        self.played.append(value)

    def play(self, make: Callable[[], np.ndarray]) -> None:
        """Note what makes sound."""
        self.makers.append(make)


def surroundings(speaker: Any = None, answers: Standing = MappingProxyType({}), **more: Any) -> Any:
    """A life as an ability sees it, with nothing in it but this."""
    room = SimpleNamespace(say=lambda text: None)
    plain = {"results": None, "sure": 0.0, "sees": None, "is_elsewhere": lambda sight: False, "room": room}
    plain |= {"between": lambda do: do(), "note": lambda kind, data: None}
    return SimpleNamespace(speaker=speaker, answers=answers, **(plain | more))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of an agent that hears words and can repeat; a tick without sound must not end its life."""
    run = tmp_path_factory.mktemp("run")
    (run / "journal.jsonl").touch()
    agent = Agent.from_pretrained(raise_agent(run / "milestones" / "01-reflex", 2))
    parts_of_voice.admit(agent)
    agent.save_pretrained(run / "milestones" / "01-reflex")
    return run / "milestones" / "01-reflex"


@pytest.fixture
def home(run: Path, tmp_path: Path) -> Iterator[Home]:
    with Home(run, tmp_path, speaker=Mouth()) as home:
        yield home


def test_answer_to_typed_words_is_said_aloud(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    mouth, life = home.life.speaker, home.life
    monkeypatch.setattr(Talk, "wants", lambda self, agent: True)
    life.between(life._begin_abilities)
    monkeypatch.setattr(Dialogue, "reply", lambda *given: None)  # like an agent that cannot write
    answers = [life.do("say", {"text": text})["answer"] for text in ("hello", "what do you see?")]
    assert mouth.said == answers
    monkeypatch.setattr(Dialogue, "reply", lambda *given: OwnWords("a red ball.", 0.9, None))
    life.do("say", {"text": "what is that?"})
    assert mouth.said[2:] == ["a red ball."], "its own words, where it has some"
    life.do("pause", {"on": True})
    assert life.do("say", {"text": "what is that?"}) == {"answer": PAUSED}
    assert len(mouth.said) == 3


def test_lost_loudspeaker_is_a_fault_of_the_life(home: Home) -> None:
    why = "There is no sound output named 'gold'."
    home.life.speaker.speaker = SimpleNamespace(health=SimpleNamespace(fault=why))
    assert why in home.life.faults()
    home.life.speaker.speaker.health.fault = ""
    assert why not in home.life.faults()


def test_lesson_by_a_sentence_is_confirmed_aloud(home: Home) -> None:
    home.wait(lambda: home.life.holding.square)
    said = home.life.do("say", {"text": "this is a cup"})
    assert home.life.speaker.said == [said["answer"]]
    assert "“cup”" in said["answer"]


def test_page_shows_no_sound_during_speech_and_says_why(home: Home, tmp_path: Path) -> None:
    home.life.do("record", {"on": True})
    assert "sound" in home.seen(lambda view: "sound" in view)
    home.life.speaker.is_heard = True
    view = home.seen(lambda view: "own_voice" in view)
    assert "sound" not in view
    home.life.speaker.is_heard = False
    assert "own_voice" not in home.seen(lambda view: "sound" in view)
    home.life.do("record", {"on": False})
    session = Session(tmp_path / "kept" / "s.mcap")
    notes = [note.data for note in session.notes if note.kind == "own_voice"]
    assert notes == [{"on": True}, {"on": False}]
    heard = ["sound" in moment.senses for moment, _ in session]
    assert not all(heard)
    assert heard[-1], "it listens again"


def lived_through_a_clap(hears_itself: bool) -> tuple[Tick, ...]:
    """Ticks of the newborn in a quiet room with a clap in the tenth tick, speaking or silent."""
    agent, clock, ear = Agent.from_pretrained(FOLDER), VirtualClock(), SoundMailbox()
    room, rng = Room({"ear": ear}, now=clock.now, sleep=clock.sleep), np.random.default_rng(0)
    loop = LiveLoop(agent, room, hears_itself=lambda: hears_itself)
    ticks, going = [], loop.ticks()
    for number in range(12):
        sound = rng.normal(0, 0.001, (1, 1600))
        if number == 9:
            sound[0, 300:] += 0.8 * rng.uniform(-1, 1, 1300) * np.exp(-np.arange(1300) / 960)
        ear.post(sound.astype(np.float32))
        tick = next(going)
        assert tick is not None
        ticks.append(tick)
    return tuple(ticks)


def test_life_does_not_startle_at_its_own_voice() -> None:
    """The same clap from outside startles it: the newborn's arc, as in its exam."""
    startled = {own: [bool(tick.output.answered.get("move", {}).get("move_arc")) for tick in ticks]
                for own in (False, True) for ticks in [lived_through_a_clap(own)]}  # fmt: skip
    assert startled[False][9]
    assert not any(startled[True])
    assert all("sound" not in tick.moment.senses for tick in lived_through_a_clap(True))


@pytest.fixture(scope="module")
def echoing() -> Agent:
    agent = tiny_agent()
    parts_of_voice.admit(agent)
    return agent.eval()


def codes(ticks: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 4375, (ticks, 4, 2))


def test_codes_are_collected_for_a_second_and_decoded_by_the_codec(echoing: Agent) -> None:
    mouth, given = Mouth(), codes(2 * GATHERED + 3)
    uttering = Uttering(surroundings(mouth))
    for number, one in enumerate(given, 1):
        uttering.take(echoing, one, [CODEC])
        assert len(mouth.makers) == number // GATHERED, "nothing is made in the tick itself"
    uttering.take(echoing, None, [])
    assert (len(mouth.makers), uttering.fault) == (3, "")
    for make, part in zip(mouth.makers, np.split(given, [GATHERED, 2 * GATHERED]), strict=True):
        with torch.inference_mode():
            wanted = sound_of(decode(echoing, levels_of(torch.from_numpy(part))[None]).flatten(1, 2))
        np.testing.assert_allclose(make(), wanted.numpy(), atol=ATOL)
        assert make().shape == (1, 1600 * len(part))


def test_codes_are_decoded_by_the_agent_that_uttered_them(echoing: Agent) -> None:
    """Regression: when another age took over, its codec decoded what the one before had begun to say."""
    mouth, (one, two), other = Mouth(), codes(2), tiny_agent(7)
    parts_of_voice.admit(other)
    uttering = Uttering(surroundings(mouth))
    uttering.take(echoing, one, [CODEC])
    uttering.take(other.eval(), two, [CODEC])
    uttering.take(other, None, [])
    for make, agent, part in zip(mouth.makers, (echoing, other), (one, two), strict=True):
        with torch.inference_mode():
            wanted = sound_of(decode(agent, levels_of(torch.from_numpy(part[None]))[None]).flatten(1, 2))
        np.testing.assert_allclose(make(), wanted.numpy(), atol=ATOL)


def test_fault_of_an_age_that_utters_ends_with_it(echoing: Agent) -> None:
    mute = Uttering(surroundings())
    mute.take(echoing, codes(1)[0], [CODEC])
    mute.take(echoing, None, [])
    assert mute.fault == NO_SPEAKER, "it is only silent"
    mute.begin()
    assert mute.fault == ""


def test_codes_of_silence_are_not_played(echoing: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stages.voice.codec.sound_of", lambda mel: torch.full((1, 200 * mel.shape[1]), 1e-4))
    mouth = Mouth()
    uttering = Uttering(surroundings(mouth))
    for one in codes(GATHERED):
        uttering.take(echoing, one, [CODEC])
    assert mouth.makers[0]().shape == (1, 0)


def test_sound_is_played_at_once_and_unplayable_sound_is_reported(echoing: Agent) -> None:
    mouth = Mouth()
    sound: np.ndarray = np.zeros((1, 1600), np.float32)
    uttering = Uttering(surroundings(mouth))
    uttering.take(echoing, sound, ["voice"])
    assert mouth.played == [sound]
    agent = tiny_agent()
    agent.add_head("voice", "head.categorical", effector=UTTER, options={"classes": 3, "slots": 2})
    uttering.take(agent, np.zeros(2, np.int64), ["voice"])
    assert uttering.fault == NO_SOUND.format("voice")
    assert not mouth.makers
    mute = Uttering(surroundings())
    mute.take(echoing, codes(1)[0], [CODEC])
    assert mute.fault == NO_SPEAKER


@pytest.mark.parametrize("speaker", [None, Mouth()])
def test_life_that_repeats_is_heard_or_the_page_says_why_not(run: Path, tmp_path: Path, speaker: Mouth | None) -> None:
    with Home(run, tmp_path, speaker=speaker, answers={UTTER: (CODEC,)}) as home:
        if speaker is None:
            assert NO_SPEAKER in home.seen(lambda view: bool(view["faults"]))["faults"]
            return
        made = home.wait(lambda: speaker.makers)[0]()
        assert made.dtype == np.float32
        assert home.seen(lambda view: True)["faults"] == []
