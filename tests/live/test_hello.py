"""`devmind hello` in a real browser: the newborn sees and hears through the page, and is taught by its form."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
import time
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from devmind.memory import Filters, open_store
from tests.browsers import FAKE_DEVICES, chromium

if TYPE_CHECKING:
    from playwright.sync_api import Page

FPS, TURN_S, COLOUR_S = 30, 3.0, 8.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def media(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A disc that circles: eight seconds without it, eight of red, eight of blue; and a clap every three seconds.

    Things that are there at the start belong to the scene, so the film begins without the disc.
    """
    import cv2

    film, claps = (tmp_path_factory.mktemp("media") / name for name in ("discs.mjpeg", "claps.wav"))
    with film.open("wb") as file:
        for index in range(round(3 * COLOUR_S * FPS)):
            turn = 2 * math.pi * index / (TURN_S * FPS)
            frame = np.full((480, 640, 3), 170, np.uint8)
            middle = (320 + round(150 * math.cos(turn)), 240 + round(100 * math.sin(turn)))
            colour = (None, (40, 40, 225), (230, 60, 50))[int(index / (COLOUR_S * FPS))]
            if colour:
                cv2.circle(frame, middle, 60, colour, -1)
            file.write(cv2.imencode(".jpg", frame)[1].tobytes())
    rng = np.random.default_rng(0)
    sound = rng.normal(0, 0.001, 3 * 48_000)
    sound[24_000:60_000] += 0.9 * rng.uniform(-1, 1, 36_000) * np.exp(-np.arange(36_000) / (0.06 * 48_000))
    with wave.open(str(claps), "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(48_000)
        out.writeframes((np.clip(sound, -1, 1) * 32767).astype("<i2").tobytes())
    return film, claps


@pytest.fixture
def page(media: tuple[Path, Path], tmp_path: Path) -> Iterator[Page]:
    """The page of `devmind hello`, started as a newcomer does, in a browser with a camera and a microphone."""
    command = [Path(sys.executable).with_name("devmind"), "hello"]
    env = {**os.environ, "COLUMNS": "200", "XDG_DATA_HOME": str(tmp_path / "own")}
    files = (f"--use-file-for-fake-video-capture={media[0]}", f"--use-file-for-fake-audio-capture={media[1]}")
    with chromium(*FAKE_DEVICES, *files) as browser:
        hello = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True, env=env)
        try:
            assert hello.stdout is not None
            address = next(found[0] for line in hello.stdout if (found := re.findall(r"http://\S+", line)))
            context = browser.new_context(permissions=["camera", "microphone"], viewport={"width": 1280, "height": 800})
            page = context.new_page()
            page.goto(address)
            yield page
            context.close()
        finally:
            hello.terminate()  # a script's background processes ignore Ctrl-C
            hello.wait(20)
    assert hello.returncode == 0


SHOWN = """(red) => {
    const picture = document.getElementById('crop');
    if (picture.hidden || !picture.naturalWidth) return false;
    const drawn = Object.assign(document.createElement('canvas'), { width: 64, height: 64 }).getContext('2d');
    drawn.drawImage(picture, 0, 0, 64, 64);
    const [r, , b] = drawn.getImageData(32, 32, 1, 1).data;
    return red ? r > 180 && b < 100 : b > 180 && r < 100;
}"""
"""Whether the page shows the red (or the blue) disc as held up."""


def until(page: Page, script: str, seconds: float = 60) -> None:
    page.wait_for_function(script, timeout=1000 * seconds, polling=50)


def test_newborn_looks_startles_learns_a_name_and_keeps_it(page: Page, tmp_path: Path) -> None:
    page.wait_for_selector("#fovea:not([hidden])", timeout=60_000)
    page.mouse.click(5, 5)  # a browser gives sound only after a touch of the page
    until(page, f"() => ({SHOWN})(true)")
    places = set()
    end_s = time.monotonic() + 60
    while len(places) <= 8 and time.monotonic() < end_s:  # a busy machine draws few pictures a second
        places.add(page.locator("#fovea").evaluate("fovea => fovea.style.left + ' ' + fovea.style.top"))
        page.wait_for_timeout(100)
    assert len(places) > 8, "the fovea moves with what moves"
    until(page, "() => [...document.querySelectorAll('#arcs .fired')].some(arc => arc.textContent === 'startles')")
    page.get_by_label("type its name").fill("disc")
    until(page, f"() => ({SHOWN})(false)")
    until(page, "() => document.getElementById('crop').hidden")
    # It stays red for eight seconds from now, so a press of one second sees one colour, also on a slow machine.
    until(page, f"() => ({SHOWN})(true)")
    page.get_by_role("button", name="Teach").click()
    page.get_by_text(re.compile(r"It has learned “disc” from \d+ pictures\.")).wait_for()
    until(page, f"() => ({SHOWN})(true) && document.querySelector('#named-sight b').textContent === 'disc'")
    until(page, f"() => ({SHOWN})(false) && document.querySelector('#named-sight b').textContent === 'not sure'")
    with open_store(tmp_path / "own" / "devmind" / "memory") as store:
        assert [entry.name for entry in store.find(Filters(named=True), payloads=False)] == ["disc"]
    assert [path.name for path in tmp_path.iterdir()] == ["own"], "nothing else is kept"
