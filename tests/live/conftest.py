"""A small fake life for tests of the page: it turns to bright things and knows things by their colour."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any, Self

import numpy as np
import pytest

from devmind.errors import DevmindError, StaleReading, StoreError
from devmind.live.serving.hub import Hub
from sensors.browser import BrowserCamera, BrowserMicrophone

TICK_S = 0.1
FOVEA_WIDTH = 0.35


class FakeLife:
    """Looks through the page's camera ten times a second and publishes its findings to its hub.

    Attributes:
        done: received commands with their arguments.
        moments: memories that were not taught, as the page gets them; recalled: the recalled memories of each tick.
        frames: times of received frames; loudest: the largest received sample.
        camera_is: the place of the camera, for the welcome: "browser", "here" or "none".
        extra: values added to every view; own: values added to every answer to words.
        questions: those that its lessons taught it to answer.
    """

    def __init__(self) -> None:
        self.hub = Hub()
        self.camera, self.microphone = BrowserCamera(), BrowserMicrophone()
        self.mailboxes: list[Any] = [self.camera, self.microphone]
        self.done: list[tuple[str, dict[str, Any]]] = []
        self.frames: list[float] = []
        self.heard_s, self.loudest, self.ticks = 0.0, 0.0, 0
        self.taught: list[dict[str, Any]] = []
        self.moments: list[dict[str, Any]] = []
        self.recalled: list[dict[str, Any]] = []
        self.is_recording = self.is_paused = False
        self.camera_is = "browser"
        self.extra: dict[str, Any] = {}
        self.own: dict[str, Any] = {}
        self.questions: list[str] = []
        self.faults: list[str] = []
        self.colour: np.ndarray | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._live, daemon=True)

    def __enter__(self) -> Self:
        self._open = ExitStack()
        for mailbox in self.mailboxes:
            self._open.enter_context(mailbox)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()
        self._open.close()

    def welcome(self) -> dict[str, Any]:
        """Like a life in which the page is camera and microphone."""
        ages = [
            {"id": "start", "label": "before its first lesson", "new": "Nothing was taught yet."},
            {"id": "now", "label": "today", "new": "Language: it answers about colours."},
        ]
        words: dict[str, Any] = {
            "type": "welcome",
            "mode": "live",
            "camera": self.camera_is,
            "microphone": "browser",
            "hz": 10,
        }
        words |= {
            "questions": self.questions,
            "private": False,
            "ages": ages,
            "age": "now",
            "can_record": True,
            "version": "0.1.0",
        }
        words |= {"command": "devmind hello", "paused": self.is_paused}
        return words | {"examples": self._examples()}

    def do(self, command: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Run a command of the page; any other command gives an error."""
        self.done.append((command, dict(arguments)))
        if command == "teach":
            return self._teach(str(arguments["name"]))
        if command == "forget":
            kept = [memory for memory in self.taught if memory["name"] != arguments["name"]]
            forgotten, self.taught = len(self.taught) - len(kept), kept
            return {"forgotten": forgotten, "examples": self._examples(), "notes": []}
        if command == "memories":
            shown = ("id", "name", "time_s", "picture", "sound_s")
            every = [*reversed(self.taught), *self.moments]
            return {"memories": [{name: memory[name] for name in shown} for memory in every]}
        if command == "record":
            self.is_recording = bool(arguments["on"])
            return {"recording": self.is_recording, "file": "me.mcap"}
        if command == "pause":
            self.is_paused = bool(arguments["on"])
            return {"paused": self.is_paused}
        if command == "age":
            return dict(arguments)
        if command == "say":
            return {"answer": f"It does not know “{arguments['text']}”; show it one and teach it."} | self.own
        if command == "answer":
            page = f"{arguments['text']} a key"
            return {"answer": f"Its instruction is now: “{page}”.", "page": page}
        if command == "break":
            raise RuntimeError("This is a fault of the program, and no sentence for a user.")
        raise DevmindError(f"'{command}' is nothing that can be done here.")

    def _teach(self, name: str) -> dict[str, Any]:
        if self.colour is None:
            raise StoreError("There is no picture and no sound to give a name to; show or play something.")
        memory = {"id": f"m{len(self.taught)}", "name": name, "time_s": time.time(), "sound_s": 0.0}
        self.taught.append(memory | {"picture": "", "colour": self.colour})
        answer = f"It has learned “{name}” from one example."
        return {"name": name, "id": memory["id"], "picture": "", "examples": self._examples(), "answer": answer}

    def _examples(self) -> dict[str, int]:
        names = [memory["name"] for memory in self.taught]
        return {name: names.count(name) for name in names}

    def _live(self) -> None:
        while not self._stop.wait(TICK_S):
            begun_s = time.perf_counter()
            view = {"type": "tick", "tick": self.ticks, "time_s": self.ticks * TICK_S, "writing": self.is_recording}
            view |= {"recording": self.is_recording, "paused": self.is_paused, "skipped": 0, "faults": self.faults}
            view |= {"recalled": self.recalled} if self.recalled else {}
            view |= self._look() | self._listen() | self.extra
            self.hub.publish(view | {"work_ms": 1e3 * (time.perf_counter() - begun_s)})
            self.ticks += 1

    def _look(self) -> dict[str, Any]:
        """Turn to the middle of the bright region, and name it by its colour."""
        try:
            frame, captured_s = self.camera.read_latest(0.5)
        except StaleReading:
            return {}
        self.frames.append(captured_s)
        height, width = frame.shape[:2]
        bright = frame.max(axis=2) > 150
        if not bright.any():
            return {}
        y, x = (float(places.mean()) for places in np.nonzero(bright))
        self.colour = frame[bright].mean(axis=0) / 255
        tall = FOVEA_WIDTH * width / height
        corner = {
            "x": min(max(x / width - FOVEA_WIDTH / 2, 0), 1 - FOVEA_WIDTH),
            "y": min(max(y / height - tall / 2, 0), 1 - tall),
        }
        view = {
            "fovea": corner | {"w": FOVEA_WIDTH, "h": tall},
            "follows": True,
            "gaze": {"pan_deg": 12, "tilt_deg": 0},
        }
        return view | {"arcs": ["look_arc"], "names": {"sight": self._name()}}

    def _name(self) -> dict[str, Any] | None:
        far = {memory["name"]: float(np.linalg.norm(memory["colour"] - self.colour)) for memory in self.taught}
        if not far:
            return None
        nearest = min(far, key=far.__getitem__)
        confidence = math.exp(-3 * far[nearest])
        return {"name": nearest if confidence > 0.6 else None, "nearest": nearest, "confidence": confidence}

    def _listen(self) -> dict[str, Any]:
        end_s = time.monotonic() - 0.25
        try:
            sound = self.microphone.read_window(end_s - TICK_S, end_s)
        except StaleReading:
            return {}
        self.heard_s += TICK_S
        self.loudest = max(self.loudest, float(np.abs(sound).max()))
        level_db = 20 * math.log10(float(np.sqrt(np.mean(sound**2))) + 1e-6)
        return {"sound": {"level_db": level_db, "direction_deg": None, "mel": [[0.5] * 64]}}


@pytest.fixture
def life() -> Iterator[FakeLife]:
    """A running life."""
    with FakeLife() as begun:
        yield begun
