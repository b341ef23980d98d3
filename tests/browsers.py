"""Headless Chromium of Debian, for tests of pages."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

FAKE_DEVICES = ("--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream")
"""A camera and a microphone that exist and may be used."""


@contextmanager
def chromium(*flags: str) -> Iterator[Browser]:
    """A browser; the test is skipped if there is none."""
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("no chromium: make test-system")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--headless=new", "--no-sandbox", *flags])
        yield browser
        browser.close()


def complaints_of(page: Page) -> list[str]:
    """The list of errors that the page reports from now on."""
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    return complaints
