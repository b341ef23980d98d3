"""Abilities of a life: found by entry point, asked in their order, shown on the page, and put to rest if they fail."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from devmind import plugins
from devmind.acting.abilities import Ability, Look, Reply, Sentence, Tick
from devmind.agent.agent import Agent
from devmind.errors import PluginError
from devmind.live.remembering.answering import CANNOT
from devmind.plugins import Plugin
from devmind.raised import FOLDER, raised_agents
from devmind.testing import BrokenLawError, check_ability, tiny_agent
from stages.language import parts as parts_of_language
from stages.reflex import parts
from stages.voice import parts as parts_of_voice
from tests.live.test_speech_handler import Spoken

INSTALLED = tuple(plugins.available("abilities").values())


class Rhyme(Ability):
    """Answers one request, has words of its own, and completes the view."""

    order = -3
    heads = ("look_arc",)
    asked: list[str] = []  # noqa: RUF012 - of this test

    def wants(self, agent: Agent) -> bool:
        return "look_arc" in agent.heads

    def see(self, tick: Tick) -> None:
        if self.asked and self.asked[-1] == "fail":
            raise RuntimeError("no rhyme")

    def hear(self, sentence: Sentence) -> Reply | None:
        self.asked.append(sentence.text)
        return Reply("A rhyme.", fields={"lines": 2}) if sentence.text == "rhyme" else None

    def remark(self, text: str, look: Look) -> Reply | None:
        return Reply("It rhymes badly.", "moon", {"own": {"text": "moon"}})

    def shown(self, tick: Tick) -> dict[str, Any]:
        return {"sound": {"direction_deg": 7.0}, "rhymes": 1}


def install(monkeypatch: pytest.MonkeyPatch, plugin: Any) -> None:
    """Let this be the only ability that is installed."""
    found = SimpleNamespace(available=lambda group: {"rhyme": plugin} if group == "abilities" else {})
    monkeypatch.setattr("devmind.acting.abilities.plugins", found)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "journal.jsonl").touch()
    agent = tiny_agent(2)
    parts.admit(agent)
    agent.save_pretrained(tmp_path / "milestones" / "01-reflex")
    install(monkeypatch, SimpleNamespace(load=lambda: Rhyme))
    monkeypatch.setattr(Rhyme, "asked", [])
    with Spoken(tmp_path / "milestones" / "01-reflex", None, ears=False) as home:
        home.life.between = lambda do: do()
        home.live(2)
        yield home


def test_stages_bring_all_abilities_that_come_with_devmind() -> None:
    assert INSTALLED
    assert all(one.value.startswith("stages.") for one in INSTALLED)


def test_ability_from_outside_hears_speaks_and_shows(home: Spoken) -> None:
    life = home.life
    assert life.do("say", {"text": "rhyme"}) == {"answer": "A rhyme.", "lines": 2}
    assert life.loop.heads == ("look_arc",)
    said = life.do("say", {"text": "what is a moon in the sky?"})
    assert said["answer"].startswith("It rhymes badly. ")
    assert CANNOT not in said["answer"], "it has words"
    assert said["own"] == {"text": "moon"}
    assert life.hub is not None
    with life.hub.viewer() as viewer:
        home.live(1)
        shown = viewer.take()
    assert shown is not None
    assert shown.view["rhymes"] == 1
    assert shown.view["sound"]["direction_deg"] == 7.0
    assert {"level_db", "mel"} <= shown.view["sound"].keys(), "it completes what is there"


def test_page_lists_the_kinds_of_sentences_in_their_order(tmp_path: Path) -> None:
    tiny_agent().save_pretrained(tmp_path / "agent")
    with Spoken(tmp_path / "agent", None, ears=False) as home:
        home.life._able = tuple(home.life.abilities.values())
        kinds = [intent.kind for intent in home.life.intents() if intent.kind]
    page = (Path(__file__).parents[2] / "docs/live-procedures.md").read_text(encoding="utf-8")
    assert re.findall(r"^[1-9]\. \*\*(.+?)\*\*", page, re.MULTILINE) == kinds


def test_failing_ability_rests_and_the_life_goes_on(home: Spoken) -> None:
    home.life.do("say", {"text": "fail"})
    home.live(2)
    assert [fault for fault in home.life.faults() if "The ability 'rhyme' failed and rests" in fault]
    assert home.life.do("say", {"text": "rhyme"})["answer"] != "A rhyme."


def test_ability_that_cannot_be_loaded_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = Plugin("abilities", "rhyme", "nowhere.at:all", "poems", "1")
    install(monkeypatch, broken)
    agent = tiny_agent()
    agent.save_pretrained(tmp_path / "agent")
    with pytest.raises(PluginError, match="The plugin 'rhyme'"):
        Spoken(tmp_path / "agent", None, ears=False)


def test_unknown_ability_is_called_one() -> None:
    with pytest.raises(PluginError, match="There is no ability named 'ekho'; did you mean 'echo'"):
        plugins.find("abilities", "ekho")


@pytest.mark.parametrize("plugin", INSTALLED, ids=lambda plugin: plugin.name)
def test_laws_of_abilities_hold(plugin: Plugin) -> None:
    agent = tiny_agent()
    for part in (parts, parts_of_language, parts_of_voice):
        part.admit(agent)
    check_ability(plugin.load())
    made = plugin.load()
    if plugin.name != "speak_answer":  # it wants a speaker that plays
        check_ability(made, agent)


class Loud(Ability):
    """Shows what is no JSON."""

    def wants(self, agent: Agent) -> bool:
        return True

    def shown(self, tick: Tick) -> dict[str, Any]:
        return {"tick": tick}


def test_broken_law_of_an_ability_is_named() -> None:
    with pytest.raises(BrokenLawError, match="plain JSON"):
        check_ability(Loud, tiny_agent())


def test_packaged_agents_keep_their_abilities() -> None:
    life = SimpleNamespace(speaker=None, answers={}, sure=0.7, results=None, is_attended=True)
    wanted = {}
    for name, folder in {"newborn": FOLDER, "after-voice": raised_agents()["after-voice"]}.items():
        agent = Agent.from_pretrained(folder)
        wanted[name] = {plugin.name for plugin in INSTALLED if plugin.load()(life).wants(agent)}
    assert wanted["after-voice"] >= {"sound_direction", "talk", "hear_words", "echo"}
    assert not wanted["newborn"] & {"talk", "hear_words", "echo", "speak_answer"}
