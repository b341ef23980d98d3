"""A browser for the page: Debian's Chromium with a fake camera that alternates between a red and a blue moving disc."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from devmind.live.serving.server import PageServer
from tests.browsers import FAKE_DEVICES, chromium, complaints_of

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from tests.live.conftest import FakeLife

RED, BLUE = (225, 40, 40), (50, 60, 230)
FPS = 30
TURN_S = 2.0


PATIENCE_MS = 120_000
"""A browser without a graphics card that shares its core with others draws a page of pictures slowly."""


@pytest.fixture(scope="module")
def film(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four seconds of a disc that circles on a dark ground, red first, then blue; Chromium repeats it."""
    import cv2

    path = tmp_path_factory.mktemp("film") / "discs.mjpeg"
    with path.open("wb") as file:
        for index in range(round(2 * TURN_S * FPS)):
            turn = 2 * math.pi * index / (TURN_S * FPS)
            frame = np.full((480, 640, 3), 30, np.uint8)
            middle = (320 + round(180 * math.cos(turn)), 240 + round(120 * math.sin(turn)))
            cv2.circle(frame, middle, 70, (RED if index < TURN_S * FPS else BLUE)[::-1], -1)
            file.write(cv2.imencode(".jpg", frame)[1].tobytes())
    return path


@pytest.fixture(scope="module")
def browser(film: Path) -> Iterator[Browser]:
    with chromium(*FAKE_DEVICES, f"--use-file-for-fake-video-capture={film}") as browser:
        yield browser


@pytest.fixture
def server(life: FakeLife) -> Iterator[PageServer]:
    with PageServer(life, life.hub) as server:
        yield server


@pytest.fixture
def page(browser: Browser, server: PageServer) -> Iterator[Page]:
    """The page as a first-time user opens it; it may contact only its server and report no errors."""
    context = browser.new_context(permissions=["camera", "microphone"], viewport={"width": 1280, "height": 800})
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    asked: list[str] = []
    complaints = complaints_of(page)
    page.on("request", lambda request: asked.append(request.url))
    page.goto(server.address)
    yield page
    context.close()
    own = server.address.partition("?")[0]
    assert [url for url in asked if not url.startswith((own, own.replace("http", "ws"), "data:"))] == []
    assert complaints == []


def wait_for(page: Page, script: str, argument: Any = None) -> Any:
    """The result of a script as soon as it is true."""
    return page.wait_for_function(script, arg=argument, timeout=PATIENCE_MS, polling=50).json_value()


def text(page: Page, place: str) -> str:
    """The text of an element of the page."""
    return page.locator(place).inner_text()
