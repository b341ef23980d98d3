"""The page for a first-time user: it explains itself, hides engineering details, and never breaks its layout."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np
import pytest

from devmind.live.serving.server import PageServer
from tests.browsers import complaints_of
from tests.live.serving.conftest import text, wait_for

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from tests.live.conftest import FakeLife

LONG = "w" * 64
"""The longest possible name, without a place to break it."""
PIXEL = "data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///ywAAAAAAQABAAACAUwAOw=="
WIDTHS = (320, 390, 1280, 1920)
BEYOND = """() => [...document.querySelectorAll('#scroll *')].filter(part => {
    const box = part.getBoundingClientRect();
    const isInside = ['#memories', '.stage', '.hidden-title', '.skip'].some(place => part.closest(place));
    return !isInside && box.width > 0 && (box.right > innerWidth + 0.5 || box.left < -0.5);
}).map(part => `${part.tagName}#${part.id}`)"""
"""Elements that extend beyond the window; memories scroll in their own strip."""
MARKED = """() => {
    const mark = document.querySelector('#fovea #pointing').style;
    return ['--across', 'top'].map(name => parseFloat(mark.getPropertyValue(name)));
}"""
"""Position of the mark in the view, in per cent from the left and from the top."""


@pytest.fixture
def seeing(page: Page) -> Page:
    """The page after its first view."""
    page.locator("#steps:visible").wait_for()
    return page


def is_done(page: Page, step: str) -> bool:
    return bool(page.locator(f"#step-{step}").evaluate("step => step.classList.contains('done')"))


def test_three_steps_are_ticked_when_done_and_then_hidden(seeing: Page, life: FakeLife) -> None:
    page = seeing
    assert not is_done(page, "clap")
    assert not is_done(page, "teach")
    life.extra = {"follows": True}
    wait_for(page, "() => document.querySelector('#step-move.done')")
    wait_for_colour(life)
    life.do("teach", {"name": "cup"})
    page.reload()
    wait_for(page, "() => document.querySelector('#step-teach.done')")
    assert is_done(page, "move"), "what was done stays done"
    assert not is_done(page, "clap"), "nobody clapped yet"
    life.extra = {"arcs": ["move_arc"], "sound": {"level_db": -12}}
    wait_for(page, "() => document.querySelector('#step-clap.done')")
    page.get_by_text("That was all.").wait_for()
    page.locator("#steps").wait_for(state="hidden")
    page.reload()
    page.locator("#steps-back:visible").wait_for()
    assert not page.locator("#steps").is_visible()
    page.get_by_role("button", name="First steps").click()
    page.locator("#steps:visible").wait_for()


def test_steps_are_not_offered_in_a_simulated_world(
    seeing: Page, life: FakeLife, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, welcome = seeing, life.welcome
    monkeypatch.setattr(life, "welcome", lambda: welcome() | {"simulated": True})
    page.reload()
    page.locator("#state.connected").wait_for()
    page.locator("#about", has_text="devmind 0.1.0").wait_for()
    assert not page.locator("#steps").is_visible()
    assert not page.locator("#steps-back").is_visible()


def test_page_of_a_simulated_world_shows_its_episodes_and_gives_instructions(
    seeing: Page, life: FakeLife, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It asked a visitor to hold up a thing in a grid seen from above, and told nothing of rewards."""
    page, welcome = seeing, life.welcome
    assert page.locator("#teaching").is_visible()
    assert not page.locator("#world").is_visible()
    offered = {"simulated": True, "instructions": ["go to the red ball", "go to a green box"]}
    monkeypatch.setattr(life, "welcome", lambda: welcome() | offered)
    life.extra["world"] = {"episodes": 4, "successes": 3, "reward": 0.95, "seed": 1_000_000_004}
    page.reload()
    page.locator("#world-successes", has_text="3 (75 %)").wait_for()
    assert [text(page, f"#world-{name}") for name in ("episodes", "reward", "seed")] == ["4", "0.95", "1000000004"]
    for hidden in ("#teaching", "#named-sight", "#may-ask", "#held"):
        assert not page.locator(hidden).is_visible()
    assert "hold up" not in page.locator("body").inner_text()
    page.get_by_role("button", name="go to a green box").click()
    wait_for(page, "() => document.querySelectorAll('#talk li').length === 2")
    assert ("say", {"text": "go to a green box"}) in life.done
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.querySelector('#scroll').scrollWidth") <= width


def test_header_says_that_the_computer_is_busy_and_takes_it_back(seeing: Page, life: FakeLife) -> None:
    page = seeing
    assert not page.locator("#busy").is_visible()
    life.extra["busy"] = "This computer is busy: it lives at 3 Moments a second. Close other programs."
    page.locator("header #busy", has_text="lives at 3 Moments a second").wait_for()
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.querySelector('#scroll').scrollWidth") <= 390
    del life.extra["busy"]
    page.locator("#busy").wait_for(state="hidden")


def test_nothing_is_held_up_is_said_only_where_pictures_come(seeing: Page) -> None:
    """On a machine that lived without pictures the page blamed the visitor."""
    script = """async held => {
        const { showHeld } = await import('/naming.js');
        showHeld({ square: null, picture: '', frames: null, ...held });
        return document.querySelector('#holding-says').textContent;
    }"""
    says = [
        seeing.evaluate(script, {"sees": sees, "frames_hz": hz})
        for sees, hz in ((True, 10), (True, 1), (True, 0.5), (False, 1), (False, None))
    ]
    assert says[0].startswith("Nothing is held up.")
    assert says[0].endswith("around it.")
    assert "Only one picture reaches it a second: hold it still for 4 seconds." in says[1]
    assert "Only one picture reaches it every 2 seconds: hold it still for 8 seconds." in says[2]
    assert says[3] == says[4] == "No picture reaches it now, so it cannot tell what is held up."


def test_long_talk_leaves_no_gap_below_the_picture(seeing: Page) -> None:
    """At 1280 px the picture's card had 350 px of empty dark below it."""
    page = seeing
    page.set_viewport_size({"width": 1280, "height": 900})
    for number in range(6):
        page.fill("#words", f"what is that, number {number}?")
        page.press("#words", "Enter")
        page.locator("#say:not(.busy)").wait_for()
    boxes = {name: page.locator(f".{name}").bounding_box() or {} for name in ("seeing", "hearing", "talk", "teach")}
    under = page.locator(".stage").bounding_box() or {}
    assert boxes["talk"]["height"] > 250
    assert boxes["seeing"]["height"] - under["height"] < 120
    assert boxes["hearing"]["y"] - boxes["seeing"]["y"] - boxes["seeing"]["height"] < 20
    assert boxes["hearing"]["x"] < boxes["talk"]["x"]


def test_large_view_of_a_phone_can_be_left_without_a_keyboard(seeing: Page) -> None:
    page = seeing
    page.set_viewport_size({"width": 390, "height": 844})
    assert not page.get_by_role("button", name="Large view").is_visible()
    page.evaluate("location.hash = '#large'")
    page.get_by_role("button", name="All of it").click()
    page.locator("body:not(.large)").wait_for()


def test_steps_need_evidence(seeing: Page) -> None:
    """A square in another place did not follow, and a startle in quiet is no response to a clap."""
    script = """async views => {
        const { showSteps } = await import('/steps.js');
        for (const view of views) showSteps(view);
        return ['move', 'clap'].map(step => document.getElementById(`step-${step}`).classList.contains('done'));
    }"""
    page, quiet = seeing, {"arcs": ["move_arc"], "sound": {"level_db": -70}}
    page.context.clear_cookies(name="devmind-page-steps")
    fresh = page.evaluate("() => document.cookie")
    assert "steps=" not in fresh
    assert page.evaluate(script, [quiet, {"arcs": ["move_arc"]}])[1] is False
    clap = {"arcs": ["move_arc"], "sound": {"level_db": -12}}
    assert page.evaluate(script, [{"follows": False}] * 20 + [clap])[1] is True


def test_engineering_details_are_folded_and_stay_as_left(seeing: Page, life: FakeLife) -> None:
    page = seeing
    assert not page.locator("#health-title").is_visible()
    assert not page.locator("#answered").is_visible()
    page.get_by_text("For engineers").click()
    page.locator("#health-title:visible").wait_for()
    wait_for(page, "() => document.cookie.includes('engineers=open')")
    page.reload()
    page.locator("#health-title:visible").wait_for()
    assert not page.locator("#learning").is_visible(), "it learns nothing"
    life.extra = {"learning": {"lesson": "foretelling", "step": 3, "steps": 9}, "surprise": {"sight": 1.0}}
    page.locator("#learning:visible").wait_for()
    page.get_by_text("How wrong its predictions were").wait_for()


def test_overlay_that_was_never_confident_has_no_switch(seeing: Page, life: FakeLife) -> None:
    page, unsure = seeing, {"sure": False, "confidence": 0.0}
    life.extra = {"overlays": {"boxes": unsure, "masks": unsure, "depth": unsure}}
    page.wait_for_timeout(500)
    assert not page.locator("#overlays").is_visible()
    life.extra = {"overlays": {"boxes": {"sure": True, "confidence": 0.9, "boxes": [[0.1, 0.1, 0.5, 0.5, 0.9]]}}}
    page.locator("[data-overlay=boxes]:visible").wait_for()
    life.extra = {"overlays": {"boxes": unsure}}
    page.locator("[data-overlay=boxes]", has_text="not sure now").wait_for()
    assert page.locator("#overlays label:visible").count() == 1


def test_numbers_are_readable_and_a_busy_machine_gives_no_alarm(seeing: Page, life: FakeLife) -> None:
    page = seeing
    page.get_by_text("For engineers").click()
    ear = {"sense": "sound", "rate_hz": 50.49, "samples_hz": 16_000, "drops": 20_356}
    health = {"ear": ear, "eye": {"sense": "sight", "drops": 3}}
    life.extra = {"tick": 8000, "skipped": 1029, "viewers_dropped": 4, "health": health}
    page.locator("#sensors tr", has_text="50.5 blocks/s").locator("td", has_text="1.3 s").wait_for()
    page.locator("#vitals", has_text="1029 of 8000 (13 %)").wait_for()
    assert page.locator("#vitals .bad").count() == 0
    everything = text(page, "body")
    for word in ("ticks skipped", "decided by", "drops", "views left out", "20356"):
        assert word not in everything


def test_layout_holds_at_any_width_with_any_name(seeing: Page, life: FakeLife) -> None:
    page = seeing
    for name in (LONG, "cup", "thing"):
        wait_for_colour(life)
        life.do("teach", {"name": name})
    life.faults = [f"The folder {LONG} is full."]
    page.reload()
    page.locator("#known li").nth(2).wait_for()
    page.get_by_text("For engineers").click()
    page.get_by_label("Say something").fill(LONG)
    page.keyboard.press("Enter")
    page.locator("#talk .it", has_text=LONG).first.wait_for()
    show = f"""async () => {{
        (await import('/dom.js')).tell("It has learned “{LONG}”.", {{ seconds: 0 }});
        (await import('/naming.js')).showNames({{ sight: {{ name: "{LONG}", nearest: "{LONG}", confidence: 0.9 }},
            sound: {{ name: null, nearest: "{LONG}", confidence: 0.4 }} }});
    }}"""
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 800})
        page.wait_for_timeout(450)  # names change at most this fast
        page.evaluate(show)
        assert page.evaluate(BEYOND) == [], width
        assert page.evaluate("[document.documentElement, document.querySelector('#scroll')].map("
                             "all => Math.max(0, all.scrollWidth - all.clientWidth))") == [0, 0], width  # fmt: skip
        told, scroll = (page.locator(place).bounding_box() or {} for place in ("#told", "#scroll"))
        assert scroll["y"] + scroll["height"] <= told["y"] + 0.5, "a message covers nothing"
        assert told["y"] + told["height"] <= 800.5


def test_question_and_long_dialogue_fit_any_width(seeing: Page, life: FakeLife) -> None:
    page = seeing
    asks = {"number": 1, "text": "What is that?", "nearest": LONG, "confidence": 0.22, "picture": PIXEL}
    life.extra = {"asks": asks, "may_ask": True}
    page.locator("#talk .asks", has_text="22 %").wait_for()
    page.get_by_label("What it is").fill("half a wo")
    page.wait_for_timeout(500)
    assert page.get_by_label("What it is").input_value() == "half a wo", "nothing is lost while somebody types"
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate(BEYOND) == [], width
        talk = page.locator("#talk").evaluate("talk => talk.scrollWidth - talk.clientWidth")
        assert talk == 0, width
    wait_for_colour(life)
    page.get_by_label("What it is").fill("cup")
    page.get_by_role("button", name="Tell it").click()
    page.locator("#talk .it", has_text="It has learned “cup”").wait_for()
    assert ("teach", {"name": "cup", "of": "asked"}) in life.done
    life.extra = {"may_ask": True}
    wait_for(page, "() => !document.querySelector('#talk .asks form')")
    assert page.locator("#talk .asks", has_text="What is that?").is_visible(), "what it asked still stands there"
    for count in range(8):
        page.get_by_label("Say something").fill(f"word{count} {LONG}")
        page.keyboard.press("Enter")
        page.locator("#talk .it", has_text=f"It does not know “word{count}").wait_for()
    assert page.locator("#talk li").count() == 12, "the last exchanges are kept"
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate(BEYOND) == [], width
        box = page.locator("#talk").bounding_box() or {}
        assert box["height"] < 300


def test_answers_are_shown_in_the_dialogue_with_their_confidence(seeing: Page, life: FakeLife) -> None:
    page = seeing
    life.own = {"own": {"text": "a red ball.", "sure": 0.914}}
    page.get_by_label("Say something").fill("What is that?")
    page.keyboard.press("Enter")
    page.locator("#talk .it", has_text="“a red ball.” 91 % sure").wait_for()
    for points, says in (
        ([-0.6, 0.1], "to its left"),
        ([0.4, -0.9], "to its right and above"),
        ([0, 0], "straight ahead"),
    ):
        life.own = {"own": {"text": "there.", "sure": 0.8, "points": points}}
        page.fill("#words", "where is the ball?")
        page.press("#words", "Enter")
        page.locator("#talk .it", has_text=f"“there.” 80 % sure; it points {says}").wait_for()
        assert page.evaluate(MARKED) == pytest.approx([50 * (1 + at) for at in points]), "marked in what it looks at"
    life.own = {"learned": {"text": "wug", "sure": 0.7, "points": None}} | {"own": {"text": "a red ball.", "sure": 0.9}}
    page.fill("#words", "what is that?")
    page.press("#words", "Enter")
    last = page.locator("#talk .it", has_text="“wug” 70 % sure, by what it was shown")
    assert "“a red ball.” 90 % sure" in last.inner_text()
    life.extra = {"says": "look, a ball"}
    page.locator("#talk .it", has_text="look, a ball").wait_for()
    page.wait_for_timeout(500)
    assert page.locator("#talk li").count() == 3 + 2 * 4, "what it says again and again stands there once"


def test_taught_questions_are_pressed_and_the_slider_says_what_is_new(seeing: Page, life: FakeLife) -> None:
    page, chips = seeing, seeing.locator("#taught-questions button")
    assert not page.locator("#taught-questions").is_visible(), "it cannot write"
    assert text(page, "#age-new") == "New at this age. Language: it answers about colours."
    asked = ["what is that?", "where is the box?", "what colour is the ball?", "is the red ball on the left?"]
    life.own = {"questions": asked}
    page.fill("#words", "what can you do?")
    page.press("#words", "Enter")
    chips.first.wait_for()
    assert chips.all_inner_texts() == asked
    chips.nth(1).click()
    page.locator("#talk .you", has_text="where is the box?").wait_for()
    wait_for(page, "() => !document.querySelector('#say.busy')")
    assert life.done[-1] == ("say", {"text": "where is the box?"}), page.locator("#talk").inner_text()
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate(BEYOND) == [], width
    life.extra = {"age": "start"}
    wait_for(page, "() => document.querySelector('#taught-questions').hidden")
    assert text(page, "#age-new") == "New at this age. Nothing was taught yet."
    life.questions = asked[:2]
    page.reload()
    wait_for(page, "() => document.querySelector('#age-new').textContent.includes('yet')")


def test_panels_do_not_both_say_what_it_sees(seeing: Page, life: FakeLife) -> None:
    """'It sees: no name for it' stood above 'It sees yellow and orange.'"""
    ring = {"x": 0.5, "y": 0.5, "radius": 0.1, "there": 1, "age_s": 0, "lost": False, "beyond": False}
    life.extra = {"beliefs": [ring | {"name": name, "in_sight": True} for name in ("yellow", "orange")]}
    seeing.locator("#believes:visible").wait_for()
    assert text(seeing, "#believes") == "It follows in view what it takes for yellow and orange."


def test_question_is_shown_with_the_confidence_that_no_word_is_known(seeing: Page, life: FakeLife) -> None:
    asks = {"number": 1, "text": "What is that?", "nearest": "wug", "confidence": 0.171, "picture": PIXEL}
    life.extra = {"asks": asks | {"doubt": 0.829}, "may_ask": True}
    questions = seeing.locator("#talk .asks span")
    questions.first.wait_for()
    said = " ".join(questions.first.inner_text().split())
    assert said == "What is that? 83 % sure that it has no word for it; perhaps wug, 17 %"
    life.extra = {"asks": asks | {"number": 2}, "may_ask": True}
    questions.nth(1).wait_for()
    assert " ".join(questions.nth(1).inner_text().split()) == "What is that? perhaps wug, 17 %", "by naming"


def test_question_about_an_instruction_is_answered_beside_it(seeing: Page, life: FakeLife) -> None:
    page = seeing
    life.extra = {"wants": {"number": 1, "text": "What is 'fetch'?"}}
    page.locator("#talk .asks", has_text="What is 'fetch'?").wait_for()
    field = page.get_by_label("What it needs to know")
    field.fill("pick u")
    page.wait_for_timeout(500)
    assert field.input_value() == "pick u", "nothing is lost while somebody types"
    field.fill("pick up")
    page.get_by_role("button", name="Tell it").click()
    page.locator("#talk .it", has_text="Its instruction is now: “pick up a key”.").wait_for()
    assert ("answer", {"text": "pick up"}) in life.done
    life.extra = {"wants": {"number": 2, "text": "Where is a key? I look for one."}}
    page.locator("#talk .asks", has_text="Where is a key?").wait_for()
    assert page.locator("#talk .asks form").count() == 1, "one question is open"
    life.extra = {}
    wait_for(page, "() => !document.querySelector('#talk .asks form')")
    assert page.locator("#talk .asks").count() == 2, "what it asked still stands there"


def test_switch_tells_the_life_whether_it_may_ask(seeing: Page, life: FakeLife) -> None:
    page = seeing
    assert page.locator("#may-ask").is_hidden(), "one that sees nothing asks nothing"
    life.extra = {"may_ask": False}
    switch = page.get_by_label("it may ask what a thing is")
    wait_for(page, "() => !document.querySelector('#may-ask input').checked")
    switch.check()
    wait_for(page, "() => document.querySelector('#told').textContent !== ''")
    assert ("asks", {"on": True}) in life.done


def test_list_of_memories_shows_that_there_are_more(seeing: Page, life: FakeLife) -> None:
    page = seeing
    assert not page.get_by_role("button", name="earlier").is_visible()
    memory = {"name": "cup", "time_s": 1e9, "picture": "", "sound_s": 0.0}
    life.moments = [memory | {"id": number} for number in range(12)]
    page.reload()
    page.locator("#memories.more-after").wait_for()
    for _ in range(12):
        if not page.get_by_role("button", name="earlier").is_visible():
            break
        page.get_by_role("button", name="earlier").click()
        page.wait_for_timeout(700)
    assert page.locator("#memories.more-before:not(.more-after)").count() == 1


def test_paused_life_is_shown_also_to_later_viewers(seeing: Page, life: FakeLife) -> None:
    page = seeing
    assert text(page, "#state") == "awake"
    page.get_by_role("button", name="Pause").click()
    wait_for(page, "() => document.querySelector('#state').textContent === 'paused'")
    page.reload()
    wait_for(page, "() => document.querySelector('#state').textContent === 'paused'")
    page.get_by_role("button", name="Go on").click()
    wait_for(page, "() => document.querySelector('#state').textContent === 'awake'")


def test_own_picture_is_mirrored_and_the_square_marks_the_same_thing(seeing: Page) -> None:
    page = seeing
    page.locator(".mirrored #own:visible").wait_for()
    assert page.locator("#own").evaluate("own => getComputedStyle(own).transform") == "matrix(-1, 0, 0, 1, 0, 0)"
    script = """async mirrored => {
        const { mirror, showPicture } = await import('/picture.js');
        mirror(mirrored);
        const boxes = { sure: true, confidence: 1, boxes: [[0, 0, 0.25, 1, 1]] };
        showPicture({ fovea: { x: 0.1, y: 0.2, w: 0.3, h: 0.4 }, attention: [[1, 0], [0, 0]], overlays: { boxes } });
        const fovea = document.querySelector('#fovea'), attention = document.querySelector('#attention');
        return [fovea.style.left, fovea.style.top, document.querySelector('.box').style.left,
                getComputedStyle(attention).transform !== 'none'];
    }"""
    assert page.evaluate(script, True) == ["60%", "20%", "75%", True], "what is at the left is at the right in a mirror"
    assert page.evaluate(script, False) == ["10%", "20%", "0%", False]


def test_square_in_the_mirror_surrounds_the_thing_looked_at(
    browser: Browser, life: FakeLife, server: PageServer
) -> None:
    """A red disc is at the left of the camera's picture; on the page, disc and square are both at the right."""
    import cv2

    context = browser.new_context(permissions=["camera", "microphone"], viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.add_init_script("""
        const ask = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
        navigator.mediaDevices.getUserMedia = async ({ audio }) => {
            const canvas = Object.assign(document.createElement('canvas'), { width: 640, height: 480 });
            const context = canvas.getContext('2d');
            setInterval(() => {
                context.fillStyle = 'rgb(30, 30, 30)';
                context.fillRect(0, 0, 640, 480);
                context.fillStyle = 'rgb(225, 40, 40)';
                context.beginPath();
                context.arc(150, 300, 50, 0, 7);
                context.fill();
            }, 50);
            const sound = (await ask({ audio })).getAudioTracks();
            return new MediaStream([...canvas.captureStream(20).getVideoTracks(), ...sound]);
        };
    """)
    page.goto(server.address)
    wait_for(page, "() => parseFloat(document.querySelector('#fovea:not([hidden])')?.style.left) > 50")
    page.wait_for_timeout(500)  # the square moves smoothly
    stage = page.locator("#stage").bounding_box() or {}
    square = page.locator("#fovea").bounding_box() or {}
    picture = cv2.imdecode(np.frombuffer(page.locator("#stage").screenshot(), np.uint8), cv2.IMREAD_COLOR)
    blue, green, red = cv2.split(picture)
    y, x = (float(places.mean()) for places in np.nonzero((red > 150) & (green < 90) & (blue < 90)))
    assert x > stage["width"] / 2
    middle = square["x"] - stage["x"] + square["width"] / 2, square["y"] - stage["y"] + square["height"] / 2
    assert (x, y) == pytest.approx(middle, abs=0.03 * stage["width"])
    context.close()


def test_silent_camera_of_the_machine_is_explained_in_its_place(
    browser: Browser, life: FakeLife, server: PageServer
) -> None:
    fault = "The camera 'http://127.0.0.1:9/x' answers 404; is the address right?"
    life.camera_is, life.extra = "here", {"health": {"eye": {"sense": "sight", "rate_hz": None, "fault": fault}}}
    context = browser.new_context()
    page = context.new_page()
    page.goto(server.address)
    place = page.locator("#no-picture:visible", has_text="answers 404")
    place.wait_for()
    stage = page.locator("#stage").bounding_box() or {}
    box = place.locator("p").bounding_box() or {}
    assert stage["x"] < box["x"]
    assert stage["y"] < box["y"] < stage["y"] + stage["height"]
    assert page.locator(".mirrored").count() == 0, "only the page's own picture is a mirror"
    context.close()


def test_end_is_shown_and_camera_and_microphone_are_released(browser: Browser, life: FakeLife) -> None:
    context = browser.new_context(permissions=["camera", "microphone"])
    page = context.new_page()
    page.add_init_script("""
        window.tracks = [];
        const ask = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
        navigator.mediaDevices.getUserMedia = async wanted => {
            const stream = await ask(wanted);
            window.tracks.push(...stream.getTracks());
            return stream;
        };
    """)
    with PageServer(life, life.hub) as server:
        page.goto(server.address)
        page.locator("#own:visible").wait_for()
        wait_for(page, "() => window.tracks.length === 2 && window.tracks.every(track => track.readyState === 'live')")
    page.locator("#state", has_text="devmind has ended; start it again with “devmind hello”").wait_for()
    page.locator("#no-picture:visible", has_text="devmind has ended").wait_for()
    wait_for(page, "() => window.tracks.every(track => track.readyState === 'ended')")
    assert page.evaluate("document.querySelector('#own').srcObject") is None
    page.wait_for_timeout(1500)
    assert "trying again" not in text(page, "#state")
    context.close()


def wait_for_colour(life: FakeLife) -> None:
    """Wait until it sees something that can be taught."""
    give_up_s = time.monotonic() + 60
    while life.colour is None:
        assert time.monotonic() < give_up_s
        time.sleep(0.05)


def test_page_of_a_killed_life_reports_no_answer(page: Page) -> None:
    """A killed life sends no goodbye: the page tries for a while and then releases its devices."""
    script = """async () => {
        const { Link } = await import('/link.js');
        const real = window.WebSocket, ask = window.fetch, said = [];
        window.WebSocket = class { constructor() { setTimeout(() => this.onclose({ code: 1006 })); } };
        window.fetch = async () => { throw new TypeError('nobody'); };
        const wait = window.setTimeout;
        window.setTimeout = (done, ms) => wait(done, ms / 50);
        new Link({ state: state => said.push(state) });
        while (!said.includes('silent')) await new Promise(go => wait(go, 20));
        Object.assign(window, { WebSocket: real, fetch: ask, setTimeout: wait });
        return said;
    }"""
    assert page.evaluate(script)[:2] == ["lost", "silent"]


def test_page_that_is_told_nothing_any_more_opens_its_connection_anew(page: Page, life: FakeLife) -> None:
    """A broken tunnel closes nothing: the last picture would stay, beside the word "awake"."""
    page.add_init_script("const wait = setTimeout; setTimeout = (done, ms) => wait(done, ms === 15000 ? 300 : ms);")
    page.reload()
    wait_for(page, "() => document.getElementById('state').textContent === 'awake'")
    wait_for(page, "() => document.querySelector('#level-says').textContent.endsWith('dB')")  # it is told something
    life._stop.set()
    wait_for(page, "() => document.getElementById('state').textContent.startsWith('connection lost')")
    wait_for(page, "() => document.getElementById('state').textContent === 'awake'")


def test_heard_words_are_shown_with_their_confidence_and_speaking_is_shown(seeing: Page, life: FakeLife) -> None:
    page = seeing
    assert not page.locator("#words-heard").is_visible()
    life.extra = {"heard": {"words": [["two", 0.912], ["balls", 0.5]], "examined": True}}
    wait_for(page, "() => document.querySelector('#words-heard').textContent === 'It heard: two (91 %) balls (50 %).'")
    life.extra = {"heard": {"words": [["red", 1.0]], "examined": False}, "own_voice": True, "sound": None}
    wait_for(page, "() => document.querySelector('#words-heard').textContent.includes('no exam has tested')")
    wait_for(page, "() => document.querySelector('#level-says').textContent.startsWith('It is speaking')")
    life.extra = {}
    wait_for(page, "() => document.querySelector('#level-says').textContent.endsWith('dB')")
    assert "red (100 %)" in text(page, "#words-heard"), "what was heard last stays"


def test_only_the_main_button_of_a_mouse_shows_a_thing(seeing: Page, life: FakeLife) -> None:
    """Regression: a right click began a press that nothing ended; the next one taught what had been in view then."""
    page, presses = seeing, ("press", {"on": True})
    page.get_by_label("type its name").fill("cup")
    teach = page.get_by_role("button", name="Teach")
    teach.click(button="right")
    teach.click(button="middle")
    page.wait_for_timeout(300)
    assert presses not in life.done
    teach.click()
    wait_for(page, "() => document.querySelector('#told:not([hidden])')")
    assert presses in life.done


def test_undo_names_the_example_that_is_shown(seeing: Page, life: FakeLife) -> None:
    page = seeing
    wait_for_colour(life)
    page.get_by_label("type its name").fill("cup")
    page.get_by_role("button", name="Teach").click()
    page.locator("#kept", has_text="Kept as “cup”").wait_for()
    page.get_by_role("button", name="Undo").click()
    wait_for(page, "() => document.querySelector('#told.bad')")  # this life cannot
    assert ("undo", {"id": life.taught[0]["id"]}) in life.done


def test_microphone_that_cannot_be_read_is_told_and_the_camera_goes_on(browser: Browser, server: PageServer) -> None:
    """Regression: the page went on saying that the browser asks, and no sentence told why nothing was heard."""
    context = browser.new_context(permissions=["camera", "microphone"])
    page = context.new_page()
    complaints = complaints_of(page)
    page.add_init_script(
        "AudioWorklet.prototype.addModule = async () => { throw new DOMException('no', 'AbortError') }"
    )
    page.goto(server.address)
    page.get_by_text("The microphone cannot be used (AbortError).").wait_for()
    page.locator("#own:visible").wait_for()
    assert complaints == []
    context.close()
