"""The page in a real browser: it serves as camera and microphone, teaches, records, and is closed to others."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from devmind.live.remembering.recalling import Recalled
from devmind.live.remembering.remembered import as_shown
from devmind.live.serving.server import PageServer
from devmind.memory import Entry
from tests.live.serving.conftest import BLUE, RED, wait_for

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from tests.live.conftest import FakeLife


@pytest.fixture
def elsewhere() -> Iterator[str]:
    """The address of a page of another program on this machine."""

    class Another(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<title>another page</title>")

        def log_message(self, format: str, *args: Any) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Another) as other:
        threading.Thread(target=other.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{other.server_address[1]}/"
        other.shutdown()


def wait_for_turn(page: Page, life: FakeLife, colour: tuple[int, int, int]) -> None:
    """Wait until a disc of this colour has just replaced the other; it stays for two seconds."""
    give_up_s, was_other = time.monotonic() + 60, False
    while not (was_other and is_seen(life, colour)):
        was_other |= life.colour is not None and not is_seen(life, colour)
        assert time.monotonic() < give_up_s, f"no disc of {colour} was seen but {life.colour}"
        page.wait_for_timeout(20)


def is_seen(life: FakeLife, colour: tuple[int, int, int]) -> bool:
    return life.colour is not None and float(np.abs(life.colour * 255 - colour).max()) < 40


def teach(page: Page, name: str) -> None:
    page.get_by_label("type its name").fill(name)
    page.get_by_role("button", name="Teach").click()


def test_fovea_moves_and_a_taught_thing_is_recognised(page: Page, life: FakeLife) -> None:
    page.wait_for_selector("#fovea:not([hidden])")
    page.evaluate("window.places = new Set()")
    place = "document.querySelector('#fovea').style.left + document.querySelector('#fovea').style.top"
    wait_for(page, f"() => window.places.add({place}).size > 5")
    wait_for_turn(page, life, RED)
    teach(page, "apple")
    page.get_by_text("It has learned “apple” from one example.").wait_for()
    wait_for(page, "() => document.querySelector('#named-sight b').textContent === 'apple'")
    assert page.locator("#known").inner_text().split() == ["apple", "×1", "forget"]
    assert page.locator("#memories li").count() == 1
    wait_for_turn(page, life, BLUE)
    wait_for(page, "() => document.querySelector('#named-sight b').textContent === 'not sure'")
    teach(page, "ball")
    for name in ("ball", "apple"):
        wait_for(page, "name => document.querySelector('#named-sight b').textContent === name", name)
    page.get_by_label("forget apple").click()
    assert life.taught[0]["name"] == "apple", "the first press asks, the second forgets"
    page.get_by_label("forget apple").click()
    page.get_by_text("It has forgotten “apple” (one example).").wait_for()
    assert [memory["name"] for memory in life.taught] == ["ball"]


def test_recalled_memory_is_highlighted_with_its_picture(page: Page, life: FakeLife) -> None:
    names = ["cup", *(f"a rather long name of thing {number}" for number in range(20))]
    picture = np.full((64, 64, 3), RED, np.uint8)
    entries = [Entry(1e9 + at, 0.0, name, {}, {"sight": picture}, id=at) for at, name in enumerate(names, 1)]
    heard = Entry(1e9 + 99, 0.0, None, {}, {"sound": np.zeros((2, 1600), np.float32)}, id=99)
    life.moments = [as_shown(entry) for entry in (heard, *reversed(entries))]
    found = Recalled((replace(entries[0], score=0.9), replace(heard, score=0.5)), (5.0, 5.0), None, 0.0)
    life.recalled = found.shown()
    wait_for(page, "() => document.querySelectorAll('#memories .recalled').length === 2")
    cup = page.locator("#memories .recalled", has_text="cup")
    wait_for(page, "() => document.querySelector('#memories .recalled img')?.naturalWidth === 64")
    whole = page.locator("#memories").bounding_box() or {}
    box = cup.bounding_box() or {}
    right, end = box["x"] + box["width"], whole["x"] + whole["width"]
    assert whole["x"] <= box["x"] < right <= end, "nobody has to scroll for it"
    widths = page.locator("#memories li").evaluate_all("items => [...new Set(items.map((item) => item.offsetWidth))]")
    assert widths == [84], "a long name takes no more room than its picture"
    assert "♪ 0.1 s" in page.locator("#memories .recalled", has_text="no name").inner_text()
    said = page.locator("#reminded").inner_text()
    assert said.startswith("This reminds it of cup (")
    assert ", something (" in said
    assert page.locator("#points").is_hidden(), "it has no head that points"
    for points, sentence in (
        ({"id": 1, "name": "cup", "share": 0.834}, "It points at its memory of “cup”, 83 % sure."),
        ({"id": 99, "name": "", "share": 0.5}, "It points at a memory without a name, 50 % sure."),
        ({"id": None, "name": "", "share": 0.9}, "It points at none of its memories, 90 % sure."),
    ):
        life.extra = {"points": points}
        page.get_by_text(sentence).wait_for()
        assert page.locator("#memories .pointed").count() == (points["id"] is not None)
    life.recalled, life.extra = [], {}
    wait_for(page, "() => !document.querySelector('#memories .recalled')")
    wait_for(page, "() => document.getElementById('points').hidden && !document.querySelector('.pointed')")
    assert page.locator("#reminded").inner_text() == ""


def test_fault_is_shown_until_it_is_fixed(page: Page, life: FakeLife) -> None:
    life.faults = ["The disk is full."]
    page.get_by_text("The disk is full.").wait_for()
    life.faults = []
    page.get_by_text("The disk is full.").wait_for(state="hidden")


def test_intentions_of_procedures_are_shown_under_the_picture(page: Page, life: FakeLife) -> None:
    life.extra = {"doing": ["errand: found(red) by ask"]}
    page.get_by_text("It intends errand: found(red) by ask.").wait_for()
    life.extra = {"doing": []}
    page.get_by_text("It has procedures, but intends nothing now.").wait_for()
    life.extra = {}
    page.locator("#intends").wait_for(state="hidden")


@pytest.mark.slow
def test_plan_is_drawn_into_the_picture_with_its_words_below(page: Page, life: FakeLife) -> None:
    points = [
        {"x": 0.2, "y": 0.5, "word": "the cup", "closed": True},
        {"x": 0.6, "y": 0.9, "word": "", "closed": False},
    ]
    plan = {"head": "handles_things", "effector": "arm", "points": points, "at": 1, "now": [0.4, 0.5], "number": 2}
    life.extra = {"plan": plan | {"share": 0.834}}
    page.get_by_text("Plan 2 of handles things, 83 % sure of its words:").wait_for()
    assert page.locator("#plan-words li").all_inner_texts() == ["1 the cup, closed", "2 –"]
    assert page.locator("#plan-words .gone").inner_text() == "1 the cup, closed"
    assert page.locator("#plan-words [aria-current=step]").inner_text() == "2 –"
    # The page's own camera is shown mirrored, and so are drawings on it.
    wait_for(page, "() => document.querySelector('#stage.mirrored #plan .hand')?.style.left === '60%'")
    stage, mark, hand = (
        page.locator(at).bounding_box() or {} for at in ("#stage", "#plan .point.closed", "#plan .hand")
    )
    for box, x, y in ((mark, 0.8, 0.5), (hand, 0.6, 0.5)):
        assert (box["x"] + box["width"] / 2 - stage["x"]) / stage["width"] == pytest.approx(x, abs=0.01)
        assert (box["y"] + box["height"] / 2 - stage["y"]) / stage["height"] == pytest.approx(y, abs=0.01)
    assert page.locator("#plan .ahead").get_attribute("points") == "60,50 40,90"
    life.extra = {}
    page.locator("#plan").wait_for(state="hidden")
    assert page.locator("#plans").is_hidden()


@pytest.mark.slow
def test_frames_and_sound_come_at_correct_rates(page: Page, life: FakeLife) -> None:
    page.wait_for_selector("#fovea:not([hidden])")
    page.mouse.click(5, 5)  # a browser gives sound only after a touch of the page
    wait_for(page, "() => document.querySelector('#level-says').textContent.endsWith('dB')")
    for _ in range(3):  # a browser that waits for a core is slow once; a wrong one is wrong each time
        life.frames.clear()
        life.loudest = 0.0
        ticks, heard_s = life.ticks, life.heard_s
        page.wait_for_timeout(4000)
        frames, ticks, heard_s = sorted(set(life.frames)), life.ticks - ticks, life.heard_s - heard_s
        faults = rate_faults(life, frames, ticks, heard_s)
        if not faults:
            break
    assert not faults
    assert life.camera.read_latest(1.0)[0].shape == (480, 640, 3)


@pytest.mark.slow
def test_a_muted_camera_or_microphone_is_absent_and_not_black_or_silent(page: Page, life: FakeLife) -> None:
    """A closed lid or a key of the system mutes a track, which then gives black frames and zeros (W3C's
    mediacapture-main, section "Media Flow").
    """
    wait_for_turn(page, life, RED)
    page.mouse.click(5, 5)
    wait_for(page, "() => document.querySelector('#level-says').textContent.endsWith('dB')")
    page.evaluate("Object.defineProperty(MediaStreamTrack.prototype, 'muted', { get: () => true, configurable: true })")
    page.wait_for_timeout(1500)
    life.frames.clear()
    heard_s = life.heard_s
    page.wait_for_timeout(2000)
    assert not life.frames
    assert life.heard_s == heard_s
    page.evaluate("Object.defineProperty(MediaStreamTrack.prototype, 'muted', { get: () => false })")
    wait_for_turn(page, life, BLUE)
    give_up_s = time.monotonic() + 60
    while life.heard_s == heard_s:
        assert time.monotonic() < give_up_s
        page.wait_for_timeout(50)


def rate_faults(life: FakeLife, frames: list[float], ticks: int, heard_s: float) -> dict[str, Any]:
    """Faults of four seconds with their values: times of frames in s, ticks, seconds of sound."""
    gaps = [after - before for before, after in itertools.pairwise(frames)]
    seen: dict[str, tuple[bool, Any]] = {
        "a new frame in most ticks": (len(frames) > max(1, 0.7 * ticks), (len(frames), ticks)),
        "frames one after the other": (all(0.03 < gap < 1.0 for gap in gaps), gaps),
        "as much sound as ticks": (heard_s > 0.07 * ticks, (heard_s, ticks)),
        "Chromium's fake microphone beeps once a second": (0.05 < life.loudest < 1.3, life.loudest),
        "ten frames a second": (8 < life.camera.health.capture_hz < 16, life.camera.health.capture_hz),
        "no fault": (life.camera.health.fault == "", life.camera.health.fault),
    }
    return {what: was for what, (is_so, was) in seen.items() if not is_so}


@pytest.mark.slow
def test_record_pause_and_words_reach_the_life_and_the_lamp_turns_red(page: Page, life: FakeLife) -> None:
    lamp = page.locator("#lamp")
    page.get_by_role("button", name="Record").click()
    wait_for(page, "() => document.querySelector('#lamp.lit')?.textContent.includes('recording')")
    assert lamp.locator("span").evaluate("lamp => getComputedStyle(lamp).backgroundColor") == "rgb(255, 90, 82)"
    page.get_by_role("button", name="Stop recording").click()
    wait_for(page, "() => !document.querySelector('#lamp.lit')")
    page.get_by_role("button", name="Pause").click()
    page.locator("#paused:visible").wait_for()
    page.get_by_label("Say something").fill("hello")
    page.keyboard.press("Enter")
    page.locator("#talk .it", has_text="It does not know “hello”").wait_for()
    page.locator("#age").focus()
    page.keyboard.press("ArrowLeft")
    page.get_by_text("Now it is as it was before its first lesson.").wait_for()
    assert page.locator("#age").get_attribute("aria-valuetext") == "before its first lesson", "also while it has focus"
    told = [("record", {"on": True}), ("record", {"on": False}), ("pause", {"on": True}), ("say", {"text": "hello"})]
    assert [asked for asked in life.done if asked[0] != "memories"] == [*told, ("age", {"id": "start"})]


@pytest.mark.slow
def test_large_view_keeps_picture_names_arcs_and_lamp(page: Page) -> None:
    page.locator("#arcs li").first.wait_for()
    page.get_by_role("button", name="Large view").click()
    assert page.url.endswith("/#large")
    # The view follows the address, on a busy machine with a delay.
    for name in ("#teach", "#memories", "#mel", "#vitals", "#record"):
        page.locator(name).wait_for(state="hidden")
    for name in ("#stage", "#named-sight", "#named-sound", "#arcs", "#lamp"):
        assert page.locator(name).is_visible(), name
    page.set_viewport_size({"width": 1280, "height": 400})
    ratio = page.locator("#stage").evaluate("stage => stage.clientWidth / stage.clientHeight")
    assert ratio == pytest.approx(4 / 3, rel=0.02), "or the square would be in the wrong place"
    page.keyboard.press("Escape")
    page.locator("#teach").wait_for()


@pytest.mark.slow
def test_page_on_a_phone_needs_no_sideways_scrolling(page: Page) -> None:
    for width in (1280, 390, 320):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.slow
def test_old_page_reports_a_restart_of_devmind(browser: Browser, life: FakeLife) -> None:
    context = browser.new_context(permissions=["camera", "microphone"])
    page = context.new_page()
    with PageServer(life, life.hub) as server:
        page.goto(server.address)
        page.get_by_text("awake").wait_for()
        port = server.port
    page.get_by_text("devmind has ended").first.wait_for()
    with PageServer(life, life.hub, port=port):
        page.get_by_text("open the new address").first.wait_for(timeout=20_000)
    context.close()


@pytest.mark.slow
def test_tab_of_a_life_that_is_over_gives_its_key_to_nobody(browser: Browser, life: FakeLife) -> None:
    """Regression: after a restart at the same port, a new tab got the old key from it, and was refused."""
    context = browser.new_context(permissions=["camera", "microphone"])
    old = context.new_page()
    with PageServer(life, life.hub) as server:
        old.goto(server.address)
        old.get_by_text("awake").wait_for()
        port = server.port
    old.get_by_text("devmind has ended").first.wait_for()
    with PageServer(life, life.hub, port=port) as server:
        page = context.new_page()
        page.goto(server.address)
        page.get_by_text("awake").wait_for()
        old.locator("#state:is(.stranger, .keyless)").wait_for(timeout=20_000)
        third = context.new_page()
        third.goto(server.address.partition("?")[0])
        third.get_by_text("awake").wait_for()
        old.reload()
        old.get_by_text("awake").wait_for()
    context.close()


@pytest.mark.slow
def test_page_without_permission_shows_how_to_get_it(browser: Browser, server: PageServer) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.add_init_script(
        "navigator.mediaDevices.getUserMedia = async () => { throw new DOMException('no', 'NotAllowedError') }"
    )
    page.goto(server.address)
    page.get_by_text("The browser keeps the camera from this page.").wait_for()
    page.get_by_role("button", name="Try again").wait_for()
    context.close()


def test_page_is_closed_without_the_token_and_to_other_origins(
    browser: Browser, server: PageServer, elsewhere: str
) -> None:
    context = browser.new_context()
    page = context.new_page()
    bare = server.address.partition("?")[0]
    answer = page.goto(bare)
    assert answer is not None
    assert answer.status == 403
    assert "address that devmind printed" in page.inner_text("body")
    page.goto(server.address)
    page.get_by_text("awake").wait_for()
    script = """address => new Promise(tell => {
        const socket = new WebSocket(address);
        socket.onopen = () => tell("open");
        socket.onclose = () => tell("refused");
    })"""
    refused = server.guard.refused
    page.goto(elsewhere)  # the browser sends the cookie: the site is the same, but the origin is not
    assert page.evaluate(script, f"ws://127.0.0.1:{server.port}/ws") == "refused"
    assert server.guard.refused == refused + 1
    context.close()


def test_second_tab_gets_the_key_from_the_first_but_another_port_does_not(
    browser: Browser, server: PageServer, elsewhere: str
) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(server.address)
    page.get_by_text("awake").wait_for()
    bare = server.address.partition("?")[0]
    assert page.url == bare, "the key does not stay in the address"
    page.reload()
    page.get_by_text("awake").wait_for()
    second = context.new_page()
    second.goto(bare)
    second.get_by_text("awake").wait_for()
    page.goto(elsewhere)
    assert page.evaluate("() => JSON.stringify(sessionStorage)") == "{}"
    second.close()
    third = context.new_page()  # no tab is left to pass the key on, and the cookie alone opens nothing
    third.goto(bare)
    third.get_by_text("go to the tab that was").first.wait_for()
    context.close()
