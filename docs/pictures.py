"""Draws the pictures at the head of the stages' pages anew, from the agents that come along: python docs/pictures.py

Each shows what an agent answers to seeds of exams; none is chosen by hand.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import torch

from devmind import worlds
from devmind.agent.agent import Agent
from devmind.agent.batch import one_tick
from devmind.raised import raised_agents
from devmind.seeding import exam_seeds

DOCS = Path(__file__).parent
LARGER, GAP = 3, 4
"""Screen pixels a pixel of the agent's eye, and between pictures."""
COLOURS = ((255, 80, 80), (80, 200, 80), (90, 140, 255), (240, 200, 60), (200, 90, 220))


def row(*pictures: np.ndarray) -> np.ndarray:
    """Pictures uint8 [H, W, 3] side by side, larger, with white between them."""
    large = [cv2.resize(one, None, fx=LARGER, fy=LARGER, interpolation=cv2.INTER_NEAREST) for one in pictures]
    return np.concatenate(
        [cv2.copyMakeBorder(one, 0, GAP, 0, GAP, cv2.BORDER_CONSTANT, value=(255,) * 3) for one in large], 1
    )


def reflex() -> np.ndarray:
    """Three rooms of the newborn's exam: what it sees with the boxes that it finds, its masks, and its depth."""
    agent = Agent.from_pretrained(raised_agents()["newborn"])
    sight = worlds.make("nursery", "room", exam_seeds(3, 0, "pictures")).observe()["sight"]
    scene = agent(one_tick({"sight": torch.from_numpy(sight)}), ["scene"])["scene"]
    depth = scene.mode()[:, 0].numpy()
    rows = []
    for picture, found, metres in zip(sight, scene.instances(), depth, strict=True):
        boxed, masks = picture.copy(), np.full_like(picture, 40)
        for number, (mask, box) in enumerate(zip(found.masks, found.boxes.astype(int).tolist(), strict=True)):
            colour = COLOURS[number % len(COLOURS)]
            cv2.rectangle(boxed, (box[0], box[1]), (box[2] - 1, box[3] - 1), colour)
            masks[mask] = colour
        near = np.clip(255 * (1 - metres / metres.max()), 0, 255).astype(np.uint8)
        rows.append(row(boxed, masks, cv2.applyColorMap(near, cv2.COLORMAP_VIRIDIS)[..., ::-1]))
    return np.concatenate(rows, 0)


def voice() -> np.ndarray:
    """Three words in the voice that the agent after voice learned from, above, and as it says them itself, below."""
    from stages.voice.exhibits import spectra
    from stages.voice.say.exam import say_words
    from stages.voice.say.lesson import own_voice

    agent, own = Agent.from_pretrained(raised_agents()["after-voice"]), own_voice(False)
    some = np.linspace(0, len(own.texts) - 1, 3).astype(int).tolist()
    words = replace(own, texts=tuple(own.texts[i] for i in some), manner=own.manner[some])
    sounds = say_words(agent, words)
    learned = [np.pad(own.waves[i], (0, sound.size))[: sound.size] for i, sound in zip(some, sounds, strict=True)]
    lines = [cv2.imdecode(np.frombuffer(spectra(*line), np.uint8), 1)[..., ::-1] for line in (learned, sounds)]
    return np.concatenate((lines[0], np.full_like(lines[0][:GAP], 255), lines[1]), 0)


PICTURES: Mapping[str, Callable[[], np.ndarray]] = {"reflex": reflex, "voice": voice}


@torch.no_grad()
def draw(name: str, folder: Path = DOCS) -> Path:
    """Write one picture, and return its file."""
    file = folder / f"{name}-stage.webp"
    cv2.imwrite(str(file), PICTURES[name]()[..., ::-1], [cv2.IMWRITE_WEBP_QUALITY, 90])
    return file


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(PICTURES), help="which pictures; all by default")
    for name in parser.parse_args().names:
        print(draw(name))
