"""Teaching by a press of a user: a real life, Debian's Chromium, and a thing that a test holds up."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from devmind.agent.agent import Agent
from devmind.live.life import Life
from devmind.live.options import LiveOptions
from devmind.live.remembering.held_object import NEW_S
from devmind.live.serving.hub import Hub
from devmind.live.serving.server import PageServer
from devmind.memory import Memory, open_store
from devmind.raised import FOLDER
from devmind.worlds.room import Room
from tests.browsers import chromium, complaints_of
from tests.live.remembering.test_held_object import scene, with_thing

if TYPE_CHECKING:
    from playwright.sync_api import Page


pytestmark = pytest.mark.slow


class Camera:
    """Films a room and the thing that a test holds up in it.

    Attributes:
        holds: whether the red thing is held up.
    """

    sense, drops = "sight", 0

    def __init__(self) -> None:
        self.holds, self._count = False, 0

    def read_latest(self, max_age_s: float) -> tuple[np.ndarray, float]:
        """The current frame."""
        self._count += 1
        tremor = round(1.4 * np.sin(self._count / 3))
        small = with_thing(self._count, 80 + tremor, 52) if self.holds else scene(self._count)
        return small.repeat(2, 0).repeat(2, 1), time.monotonic()


@pytest.fixture
def camera() -> Camera:
    return Camera()


@pytest.fixture
def life(camera: Camera) -> Iterator[Life]:
    """A newborn that keeps taught things in RAM."""
    agent, room, memory = Agent.from_pretrained(FOLDER), Room({"eye": camera}), Memory(open_store(None))
    with Life(agent, room, memory, LiveOptions(FOLDER, {}), hub=Hub()) as life:
        stopped = threading.Event()
        thread = threading.Thread(target=life.run, kwargs={"stop": stopped.is_set})
        thread.start()
        yield life
        stopped.set()
        thread.join()


@pytest.fixture
def page(life: Life) -> Iterator[Page]:
    """The page of that life; it reports no errors."""
    assert life.hub is not None
    with chromium() as browser, PageServer(life, life.hub) as server:
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        complaints = complaints_of(page)
        page.goto(server.address)
        page.wait_for_timeout(1000 * NEW_S)  # it looks at a new scene first
        wait_for(page, "() => document.querySelector('#holding-says').textContent.startsWith('Nothing is held up')")
        yield page
    assert complaints == []


def wait_for(page: Page, script: str, **options: Any) -> None:
    page.wait_for_function(script, timeout=60_000, **options)


HELD = "() => document.querySelector('#held:not([hidden])')"
AWAY = "() => document.querySelector('#held[hidden]')"


def press(page: Page, name: str, seconds: float) -> None:
    """Type a name and keep the button pressed."""
    page.get_by_label("type its name").fill(name)
    page.get_by_role("button", name="Teach").hover()
    page.mouse.down()
    page.wait_for_timeout(1000 * seconds)
    page.mouse.up()


def test_one_press_names_what_is_held_up_and_can_be_undone(page: Page, life: Life, camera: Camera) -> None:
    page.wait_for_timeout(2000)
    camera.holds = True
    wait_for(page, HELD)
    box = page.locator("#held").bounding_box() or {}
    stage = page.locator("#stage").bounding_box() or {}
    middle = (box["x"] + box["width"] / 2 - stage["x"]) / stage["width"]
    assert abs(middle - 0.5) < 0.1, "the square is round the thing"
    page.get_by_text("This is what a press keeps.").wait_for()
    press(page, "brick", 2)
    page.get_by_text(re.compile("It has learned “brick” from \\d+ pictures")).wait_for(timeout=60_000)
    [memory] = [memory for memory in life.do("memories", {})["memories"] if memory["name"]]
    assert page.locator("#kept-picture").get_attribute("src") == memory["picture"], "shown is what was kept"
    wait_for(page, "() => document.querySelector('#named-sight b').textContent === 'brick'")
    bar = "() => Number(document.querySelector('#known .bar').style.getPropertyValue('--share'))"
    wait_for(page, f"() => ({bar})() > 0.5")
    camera.holds = False
    wait_for(page, AWAY)
    wait_for(page, f"() => ({bar})() === 0")
    assert page.locator("#named-sight b").inner_text() != "brick", "an empty scene has no name"
    page.get_by_role("button", name="Undo").click()
    page.get_by_text("The last example of “brick” is deleted.").wait_for()
    assert life.child.names.known() == {}
    assert not [memory for memory in life.do("memories", {})["memories"] if memory["name"]]


def test_press_at_an_empty_scene_gives_a_clear_error(page: Page, life: Life) -> None:
    press(page, "brick", 0.2)
    page.get_by_text("Nothing new is in view").wait_for(timeout=60_000)
    assert life.child.names.known() == {}
    assert page.locator("#kept").is_hidden()


def test_press_released_elsewhere_teaches_nothing(page: Page, life: Life, camera: Camera) -> None:
    camera.holds = True
    wait_for(page, HELD)
    page.get_by_label("type its name").fill("brick")
    page.get_by_role("button", name="Teach").hover()
    page.mouse.down()
    wait_for(page, "() => document.querySelector('#holding.pressed')")
    page.mouse.move(5, 5)
    page.mouse.up()
    wait_for(page, "() => !document.querySelector('#holding.pressed')")
    assert life.holding.frames is None
    assert life.child.names.known() == {}


def test_life_asks_about_a_held_thing_and_the_typed_name_teaches_it(page: Page, life: Life, camera: Camera) -> None:
    page.wait_for_timeout(2000)
    assert page.locator("#talk").is_hidden(), "an empty scene is no question"
    camera.holds = True
    question = page.locator("#talk .asks")
    question.get_by_text("What is that?").wait_for(timeout=60_000)
    assert life.asking.question is not None
    camera.holds = False  # put down to type
    wait_for(page, AWAY)
    page.get_by_label("What it is").fill("a red brick")
    page.keyboard.press("Enter")
    page.locator("#talk", has_text=re.compile("It has learned “red brick” from \\d+ pictures")).wait_for(timeout=60_000)
    [memory] = [memory for memory in life.do("memories", {})["memories"] if memory["name"]]
    assert question.locator("img").get_attribute("src") == memory["picture"], "the name is for what it asked about"
    page.locator("#known li", has_text="red brick").wait_for()
    wait_for(page, "() => !document.querySelector('#talk .asks form')")
    camera.holds = True
    wait_for(page, "() => document.querySelector('#named-sight b').textContent === 'red brick'")
    page.locator("#talk").get_by_role("button", name="Undo").click()
    page.get_by_text("The last example of “red brick” is deleted.").wait_for()
    assert life.child.names.known() == {}
    assert page.locator("#talk .undo").count() == 0


def test_sentence_teaches_and_stays_in_the_dialogue(page: Page, life: Life, camera: Camera) -> None:
    page.get_by_text("it may ask what a thing is").click()
    wait_for(page, "() => !document.querySelector('#may-ask input').checked")
    camera.holds = True
    wait_for(page, HELD)
    page.get_by_label("Say something").fill("this is a red brick")
    page.keyboard.press("Enter")
    page.locator("#talk .it", has_text="It has learned “red brick” from").wait_for(timeout=60_000)
    page.locator("#known li", has_text="red brick").wait_for()
    wait_for(page, "() => document.querySelector('#named-sight b').textContent === 'red brick'")
    page.get_by_label("Say something").fill("What do you see?")
    page.keyboard.press("Enter")
    page.locator("#talk .it", has_text=re.compile("It sees “red brick” .*%")).wait_for(timeout=60_000)
    camera.holds = False
    wait_for(page, AWAY)
    page.get_by_label("Say something").fill("this is a red brick")
    page.keyboard.press("Enter")
    page.locator("#talk .bad", has_text="Nothing new is in view").wait_for(timeout=60_000)
    said = page.locator("#talk .you p").all_inner_texts()
    assert said == ["this is a red brick", "What do you see?", "this is a red brick"]
    assert life.child.names.known() == {"red brick": 1}
