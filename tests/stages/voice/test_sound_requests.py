"""On request a life repeats, cleans or continues the last sound that it heard, as in the exam of echo."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from devmind.agent.agent import Agent
from devmind.live.loop import Tick
from devmind.live.remembering.answering import CANNOT
from devmind.moment import TICK_HZ, TICK_SAMPLES, Moment
from devmind.testing import tiny_agent
from stages.reflex import parts as parts_of_reflex
from stages.voice import parts
from stages.voice.abilities.heard_words import END_S, LEAD_S
from stages.voice.abilities.sound_requests import (
    BADLY,
    FAILED,
    NO_SPEAKER,
    NOT_TAUGHT,
    NOTHING_HEARD,
    PAUSE_S,
    UNEXAMINED,
    Echoing,
    parse_request,
)
from stages.voice.codec import levels_of
from stages.voice.echo.clean import exam as clean_exam
from stages.voice.echo.go_on import exam as go_on_exam
from stages.voice.echo.lesson import decode
from stages.voice.echo.tokens.exam import pages
from stages.voice.moments import as_batch
from stages.voice.vocoder import sound_of
from tests.live.test_own_voice import Mouth, surroundings
from tests.live.test_speech_handler import Ears, Spoken, admitted_to_voice

SAY_AGAIN, CLEAN, GO_ON = "say it again", "clean it", "go on"
QUIET = 2
"""Moments before a sound that heads get with it."""


def result(name: str, passed: bool) -> dict[str, Any]:
    """The results of an agent with one exam."""
    return {"skills": [{"measures": [{"name": name, "passed": passed}]}]}


class Listening(Ears):
    """Hears the words of a script that no lesson has, and keeps their sound."""

    def __init__(self, agent: Agent) -> None:
        super().__init__(agent)
        self.words = ["", "go", "on"]

    def see(self, tick: Tick) -> None:
        """The next word of the script."""
        self._keep(tick.moment)
        word = self.script.pop(0) if self.script else ""
        self._add(np.eye(len(self.words))[self.words.index(word)] * 0.9, tick.moment.time_s)


def outspoken(agent: Any) -> Any:
    """An untrained agent whose codes differ from Moment to Moment."""
    with torch.no_grad():
        agent.head(parts.GOES_ON).net[-1].weight.mul_(50)
        agent.head(parts.CODEC).coder[-1].weight.mul_(50)
    return agent


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = admitted_to_voice(tmp_path_factory.mktemp("run"))
    outspoken(Agent.from_pretrained(folder)).save_pretrained(folder)
    return folder


@pytest.fixture
def home(run: Path) -> Iterator[Spoken]:
    with Spoken(run, Mouth()) as home:
        yield home


def noise(ticks: int, seed: int = 0) -> np.ndarray:
    """Sound float32 [1, S] that differs in each Moment."""
    return np.random.default_rng(seed).normal(0, 0.1, (1, TICK_SAMPLES * ticks)).astype(np.float32)


def told(home: Spoken, text: str) -> str:
    """The answer to typed words, while the life goes on."""
    with ThreadPoolExecutor(1) as page:
        answer = page.submit(home.life.do, "say", {"text": text})
        home.until(answer.done)
        return str(answer.result()["answer"])


def played(home: Spoken) -> Any:
    """The call that made the last sound."""
    return home.life.speaker.makers[-1]


def with_quiet(sound: np.ndarray) -> torch.Tensor:
    """The episode float32 [1, S] that an exam would make of the last sound heard."""
    return torch.from_numpy(np.pad(sound, ((0, 0), (QUIET * TICK_SAMPLES, 0))))


def test_sound_is_continued_by_the_codes_of_the_exam_bit_for_bit(home: Spoken) -> None:
    agent: Any = home.life.loop.agent
    home.live(4)
    home.hear(noise(6))
    said = told(home, GO_ON)
    sound, row = with_quiet(noise(6)), played(home).args[1]
    with torch.inference_mode():
        by_head = agent(as_batch(sound), [parts.GOES_ON])[parts.GOES_ON].mode()[0]
        begun, came = pages(agent, sound)[0], go_on_exam.gone_on(agent, sound, torch.tensor([QUIET + 5]))
        told_of = decode(agent, levels_of(row[-2:])[None]).flatten(1, 2)
        wanted = sound_of(decode(agent, levels_of(row)[None]).flatten(1, 2))
    assert torch.equal(row[:-2].flatten(0, 1), begun)
    assert torch.equal(row[-2:], by_head[-1])
    assert not torch.equal(by_head[-1], by_head[-2]), "another Moment goes on otherwise"
    torch.testing.assert_close(told_of, came, atol=1e-5, rtol=1e-5)
    assert np.array_equal(played(home)(), wanted.numpy())
    assert (
        said
        == f"It says again in its own voice the 0.8 s that it heard last, and goes on with them for 0.2 s.{UNEXAMINED}"
    )
    assert home.life.speaker.said == [], "sound is the answer"


def test_sound_is_repeated_and_cleaned_as_in_the_exam_bit_for_bit(
    home: Spoken, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent: Any = home.life.loop.agent
    notes: list[tuple[str, Any]] = []
    monkeypatch.setattr(home.life, "note", lambda kind, data: notes.append((kind, data)))
    home.live(4)
    home.hear(noise(5))
    assert told(home, SAY_AGAIN) == f"It says again in its own voice the 0.7 s that it heard last.{UNEXAMINED}"
    sound = with_quiet(noise(5))
    with torch.inference_mode():
        assert torch.equal(played(home).args[1].flatten(0, 1), pages(agent, sound)[0])
    assert told(home, CLEAN) == f"It plays the 0.7 s that it heard last with less noise.{UNEXAMINED}"
    with torch.inference_mode():
        wanted = clean_exam.by_agent(agent, sound).numpy()
    assert np.array_equal(played(home)(), wanted)
    assert not np.array_equal(wanted, sound.numpy())
    done = [data for kind, data in notes if kind == "echoed"]
    assert [(one["what"], one["heads"]) for one in done] == [("utter", ["codec"]), ("clean", ["cleaned"])]
    assert done[0]["heard_s"] == pytest.approx([0.3, 0.9])


def test_own_voice_does_not_count_as_a_heard_sound(home: Spoken) -> None:
    home.live(4)
    home.hear(noise(5))
    home.life.speaker.is_heard = True
    home.hear(noise(8, seed=1))
    home.life.speaker.is_heard = False
    told(home, SAY_AGAIN)
    with torch.inference_mode():
        wanted = pages(home.life.loop.agent, with_quiet(noise(5)))[0]
    assert torch.equal(played(home).args[1].flatten(0, 1), wanted)


def test_spoken_request_does_not_count_as_the_last_sound(home: Spoken) -> None:
    ears = Listening(home.life.loop.agent)
    home.hears_by(ears)
    home.live(4)
    home.hear(noise(5))
    home.live(round((LEAD_S + END_S) * TICK_HZ))
    ears.script += ["go", "on"]
    home.hear(noise(2, seed=1))
    spoken = home.until(home.life.spoken_to.shown)
    assert (spoken["text"], spoken["answer"][:27]) == ("go on", "It says again in its own vo")
    with torch.inference_mode():
        wanted = pages(home.life.loop.agent, with_quiet(noise(5)))[0]
    assert torch.equal(played(home).args[1][:-2].flatten(0, 1), wanted)


def test_last_sound_begins_after_a_pause_and_ends_where_it_stopped(run: Path) -> None:
    echoing = Echoing(surroundings(Mouth()))
    loud = [*range(5, 8), *range(20, 22), *range(25, 30)]
    for tick in range(40):
        sound = noise(1, seed=tick) * (1.0 if tick in loud else 1e-3)
        echoing.keep(Moment(tick / TICK_HZ, {"sound": sound}))

    def ticks(now_s: float, before_s: float = float("inf")) -> list[int]:
        return [round(one.time_s * TICK_HZ) for one in echoing.last_sound(now_s, before_s)]

    assert ticks(4.0) == list(range(18, 30)), "a pause of 0.3 s is none"
    assert ticks(4.0, before_s=1.5) == list(range(3, 8))
    assert ticks(60.0) == [], "that was long ago"
    echoing.keep(Moment(5.0, {"sound": noise(1)}))
    assert ticks(5.0) == [50], "what it did not hear is no pause"
    assert PAUSE_S < 1.2


def test_impossible_requests_give_clear_answers(run: Path) -> None:
    agent, mouth = Agent.from_pretrained(run), Mouth()
    heard, request = [Moment(0.0, {"sound": noise(1)})], parse_request(GO_ON)
    assert request is not None
    older = tiny_agent()
    older.add_encoder(parts.LISTEN, "encoder.voice-ear", stage=parts.NAME)
    older.add_head(parts.CODEC, "head.voice-codec", parts.LISTEN, effector=parts.UTTER, stage=parts.NAME, standby=True)
    failed, passed = result("echo/continued", False), result("echo/continued", True)
    named = {parts.GO_ON: (parts.GOES_ON,)}
    assert Echoing(surroundings()).wants(older)

    def said(of: Agent, sounds: list[Moment], speaker: Any = mouth, **more: Any) -> str:
        return Echoing(surroundings(speaker, **more)).answer(of, request, sounds).text

    assert said(older, heard) == NOT_TAUGHT.format("go on with")
    refused = FAILED.format("echo/continued", "go on with", parts.GO_ON, parts.GOES_ON)
    assert said(agent, heard, results=failed) == refused
    assert said(agent, heard, None) == NO_SPEAKER.format("go on with")
    assert said(agent, []) == NOTHING_HEARD.format("go on with")
    assert mouth.makers == []
    assert said(agent, heard, results=failed, answers=named).endswith(BADLY)
    assert said(agent, heard, results=passed).endswith("for 0.2 s.")
    assert len(mouth.makers) == 2


def test_answer_without_a_heard_sound_is_spoken(home: Spoken) -> None:
    home.live(3)
    said = [told(home, text) for text in (GO_ON, SAY_AGAIN, CLEAN)]
    assert said == [NOTHING_HEARD.format(verb) for verb in ("go on with", "say again", "clean")]
    assert home.life.speaker.said == said
    assert home.life.speaker.makers == []


def test_life_without_a_speaker_says_how_to_get_one(run: Path) -> None:
    with Spoken(run, None) as home:
        home.hear(noise(5))
        assert told(home, GO_ON) == NO_SPEAKER.format("go on with")


def test_agent_without_the_voice_stage_talks_as_before(tmp_path: Path) -> None:
    (tmp_path / "journal.jsonl").touch()
    agent = tiny_agent(2)
    parts_of_reflex.admit(agent)
    agent.save_pretrained(tmp_path / "milestones" / "01-reflex")
    with Spoken(tmp_path / "milestones" / "01-reflex", Mouth()) as home:
        home.hear(noise(5))
        assert told(home, GO_ON).endswith(CANNOT)
        assert home.life.speaker.makers == []
        assert home.life.abilities["echo"].last_sound(0.5) == ()


@pytest.mark.parametrize(
    ("text", "effector"),
    [
        ("go on", "go_on"), ("Go on!", "go_on"), ("please continue", "go_on"), ("OK, now carry on with that.", "go_on"),
        ("say it again", "utter"), ("Can you repeat that, please?", "utter"), ("repeat", "utter"),
        ("clean", "clean"), ("clean it up", "clean"), ("say that again without the noise", "clean"),
        ("this is a cup", None), ("clean the box", None), ("go on the red ball", None), ("say this", None), ("", None),
        ("what is that?", None), ("continuous", None), ("go to the red ball and go on", None),
    ],
)  # fmt: skip
def test_request_is_recognised_by_the_form_of_its_sentence(text: str, effector: str | None) -> None:
    request = parse_request(text)
    assert (request.effector if request else None) == effector
