"""The README's animation: the live page in a browser, taught a name by one press, as an animated WebP.

The browser's camera sees a drawn room with a drawn hand (`held_up.py`); everything else is real: `devmind hello` in its
own process with a temporary memory, its page in headless Chromium, the form filled in and pressed as by a person. The
film shows what really happens; a name that was not found again would be visible.

    python benchmarks/page_film.py docs/page.webp
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
from held_up import HEIGHT, WIDTH, Pose, camera, held, shown, thing
from playwright.sync_api import Page, sync_playwright

HZ, FILM_HZ = 10, 4
MUG, BALL, NAME = 3, 30, "mug"
SIZE = {"width": 1100, "height": 760}
SCALE = 0.62
"""Of the film to the page: text stays readable, and the file small."""
EMPTY, LONG, GONE = 30, 45, 12
"""Ticks of the empty room first, of a thing held, and of the room between two things."""
STEADY, AFTER, MOST = 3, 44, 90
"""Pictures: with a square round the thing before the press, after the press, and in the whole film at most."""
MOST_BYTES = 2_000_000


def room() -> np.ndarray:
    """A wall with a window and a shelf, RGB float32 [240, 320, 3]."""
    y, x = np.mgrid[:HEIGHT, :WIDTH].astype(np.float32)
    picture = np.stack((168 - 0.16 * y + 0.05 * x, 160 - 0.2 * y + 0.03 * x, 146 - 0.22 * y), 2)
    cv2.rectangle(picture, (18, 20), (104, 112), (205, 222, 236), -1)
    cv2.rectangle(picture, (18, 20), (104, 112), (112, 92, 72), 4)
    cv2.line(picture, (61, 20), (61, 112), (112, 92, 72), 3)
    cv2.rectangle(picture, (206, 66), (318, 73), (104, 78, 58), -1)
    for at, (height, colour) in enumerate(
        ((34, (72, 92, 128)), (42, (134, 62, 58)), (29, (80, 112, 86)), (38, (152, 128, 70)), (32, (92, 76, 110)))
    ):
        cv2.rectangle(picture, (214 + 17 * at, 66 - height), (228 + 17 * at, 65), colour, -1)
    return cv2.GaussianBlur(picture, (0, 0), 0.8)


def scene(seed: int = 3) -> Iterator[np.ndarray]:
    """The camera's view: an empty room, a mug in the middle, the room, the mug elsewhere, the room, a stranger."""
    rng, wall = np.random.default_rng(seed), room()
    held_up = (
        (MUG, Pose(0.5, 0.5, 0.46, 3)), (MUG, Pose(0.3, 0.42, 0.42, -12)), (BALL, Pose(0.66, 0.45, 0.42, 5)),
    )  # fmt: skip
    for number, (what, pose) in enumerate(held_up):
        for _ in range(GONE if number else EMPTY):
            yield camera(wall, rng)
        sprite = thing(what)
        for at, hand in shown(sprite, pose, LONG if not number else LONG // 2, rng, 1):
            yield camera(held(wall, sprite, at, hand) if at else wall, rng)
    while True:
        yield camera(wall, rng)


def as_camera(path: Path, seconds: float) -> None:
    """Write the scene as a film that Chromium uses as a camera (motion JPEG)."""
    with path.open("wb") as file:
        for _, frame in zip(range(round(seconds * HZ)), scene(), strict=False):
            larger = cv2.resize(frame, None, fx=2, fy=2, interpolation=cv2.INTER_CUBIC)
            # Chromium plays such a film at 30 pictures a second.
            jpeg = cv2.imencode(".jpg", cv2.cvtColor(larger, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, 90])[1]
            for _ in range(30 // HZ):
                file.write(jpeg.tobytes())


def filmed(page: Page) -> list[np.ndarray]:
    """Pictures of the page, FILM_HZ a second, while the mug is taught as soon as a square surrounds it."""
    page.wait_for_selector("#fovea:not([hidden])")
    begun_s, pictures, steady, taught_at = time.monotonic(), [], 0, None
    while len(pictures) < MOST and (taught_at is None or len(pictures) - taught_at < AFTER):
        steady = steady + 1 if page.locator("#held").is_visible() else 0
        if steady >= STEADY and taught_at is None:
            press(page)
            taught_at = len(pictures)
        png = np.frombuffer(page.screenshot(), np.uint8)
        picture = cv2.imdecode(png, cv2.IMREAD_COLOR)
        pictures.append(cv2.resize(picture, None, fx=SCALE, fy=SCALE, interpolation=cv2.INTER_AREA))
        time.sleep(max(0.0, begun_s + len(pictures) / FILM_HZ - time.monotonic()))
    return pictures


def press(page: Page) -> None:
    """Fill in the name, and hold the button down for a second."""
    page.locator("#name").fill(NAME)
    page.locator("#teach button[type=submit]").hover()
    page.mouse.down()
    page.wait_for_timeout(1000)
    page.mouse.up()


def write(path: Path, pictures: list[np.ndarray]) -> None:
    """Write an animated WebP, in the best quality that fits."""
    film = cv2.Animation()
    film.frames, film.durations = pictures, np.full(len(pictures), 1000 // FILM_HZ, np.int32)
    for quality in (70, 55, 40, 25):
        cv2.imwriteanimation(str(path), film, [cv2.IMWRITE_WEBP_QUALITY, quality])
        if path.stat().st_size <= MOST_BYTES:
            break
    print(f"{path}: {len(pictures)} pictures of {pictures[0].shape[1]}x{pictures[0].shape[0]}, ", end="")
    print(f"{path.stat().st_size / 1e6:.2f} MB at quality {quality}")


def main() -> None:
    """Film the page into the given file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--chromium", default="chromium", help="the browser")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        film = Path(folder, "camera.mjpeg")
        as_camera(film, 60)
        words = ["hello", "--no-open", "--mic", "none", "--memory", f"{folder}/memory"]
        life = subprocess.Popen(
            [str(Path(sys.executable).with_name("devmind")), *words], stdout=subprocess.PIPE, text=True
        )
        try:
            address = next(found[0] for line in life.stdout or () if (found := re.search(r"http://\S+", line)))
            with sync_playwright() as playwright:
                camera_options = [
                    "--use-fake-ui-for-media-stream",
                    "--use-fake-device-for-media-stream",
                    f"--use-file-for-fake-video-capture={film}",
                    "--no-sandbox",
                ]
                browser = playwright.chromium.launch(executable_path=_found(arguments.chromium), args=camera_options)
                page = browser.new_context(viewport=SIZE, permissions=["camera"]).new_page()
                page.goto(address)
                pictures = filmed(page)
                browser.close()
        finally:
            life.terminate()
            life.wait(20)
    write(arguments.file, pictures)


def _found(browser: str) -> str:
    import shutil

    path = shutil.which(browser)
    if path is None:
        raise SystemExit(f"The browser '{browser}' is not installed; name one with --chromium.")
    return path


if __name__ == "__main__":
    main()
