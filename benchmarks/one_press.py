"""One press must be enough: drawn things held up in front of real video, taught by one press each, then held up again.

A scene is a video with a hand that brings a thing up, holds it for a moment with a tremor, and takes it away
(`held_up.py`). Each thing is taught by one press of a second, and later held up elsewhere in the picture, in another
size and rotation; between two things the scene is empty, and an empty hand comes up too. Queries pass the code of a
life: `Holding` finds, `ShowAndTell` keeps and names. A press that kept nothing counts as unknown.

Things 1 to 10 and 101 to 120 and the videos carphone and realshort were used in development; figures to report are of
things 11 to 30 and other videos. With 30 names all are taught, and 11 to 30 are asked. Confidence was fitted on things
300 to 359 before generated backgrounds (`fit_names.py`).

    OMP_NUM_THREADS=1 python benchmarks/one_press.py VIDEO... [--things 11-30]
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from held_up import RISE, Pose, camera, film, held, shown, thing

from devmind.agent.agent import Agent
from devmind.agent.threads import stepping_threads
from devmind.errors import StoreError
from devmind.live.remembering.press import Holding
from devmind.live.remembering.show_and_tell import ShowAndTell
from devmind.memory import Memory, open_store
from devmind.moment import Moment, Sense
from devmind.raised import FOLDER

EMPTY, HELD = 16, 12
"""Ticks of the empty scene before each thing, and in which it is held."""
SETTLED = 5
"""Ticks after it came to its place from which a look counts: the page shows no name before either."""
ASKED = 2
"""How often each thing is held up again."""
STRANGERS = (201, 202, 203, 204, 205)
"""Things that are never taught."""


Look = tuple[np.ndarray, np.ndarray]
"""Crops of what is held up, and above it."""


@dataclass
class Scene:
    """The data of one video, before anything is named.

    Attributes:
        presses: by thing, the payload that its press kept, or the reason why it kept none.
        looks: by thing, the crops of every look at which it was held up again; None where nothing was found.
        empty, hand: the same for the empty scene and for an empty hand.
    """

    presses: dict[int, dict[str, Sense] | str] = field(default_factory=dict)
    looks: dict[int, list[Look | None]] = field(default_factory=lambda: defaultdict(list))
    empty: list[Look | None] = field(default_factory=list)
    hand: list[Look | None] = field(default_factory=list)


class Stage:
    """Plays a video with hands in it to a `Holding`."""

    def __init__(self, frames: list[np.ndarray], seed: int) -> None:
        self.frames, self.rng, self.at = frames, np.random.default_rng([5, seed]), 0
        self.holding = Holding()

    def tick(self, sprite: np.ndarray | None = None, pose: Pose | None = None, hand: int = 0) -> Look | None:
        """Play one more frame; return the crops of what is held up, and of the place above it."""
        frame = self.frames[self.at % len(self.frames)].astype(np.float32)
        self.at += 1
        frame = held(frame, sprite, pose, hand) if pose else frame
        self.holding.see(camera(frame, self.rng), self.at / 10)
        crop, above = self.holding.crop, self.holding.above
        return None if crop is None or above is None else (crop, above)

    def empty(self, ticks: int = EMPTY) -> Iterator[Look | None]:
        """Play the scene without anything."""
        for _ in range(ticks):
            yield self.tick()

    def pose(self, again: bool) -> Pose:
        """The pose of a thing: in the middle for teaching; later elsewhere, in another size and rotation."""
        rng = self.rng
        if not again:
            return Pose(rng.uniform(0.42, 0.58), rng.uniform(0.4, 0.55), rng.uniform(0.4, 0.48), rng.uniform(-5, 5))
        x = rng.uniform(0.22, 0.38) if rng.random() < 0.5 else rng.uniform(0.62, 0.78)
        return Pose(
            x, rng.uniform(0.3, 0.55), rng.uniform(0.34, 0.54), rng.uniform(-20, 20), rng.uniform(0.85, 1),
            rng.uniform(0.9, 1.1),
        )  # fmt: skip


def play(frames: list[np.ndarray], things: list[int], seed: int) -> Scene:
    """Everything that is shown with one video."""
    stage, scene = Stage(frames, seed), Scene()
    for number in things:
        sprite = thing(number)
        list(stage.empty())
        for tick, (pose, hand) in enumerate(shown(sprite, stage.pose(again=False), HELD, stage.rng, number)):
            if tick == RISE + 2:
                stage.holding.begin()
            stage.tick(sprite, pose, hand)
            if tick == RISE + HELD - 1:
                scene.presses[number] = taken(stage.holding)
    for number in [*things, *STRANGERS] * ASKED:
        sprite = thing(number)
        scene.empty += list(stage.empty())[RISE:]
        for tick, (pose, hand) in enumerate(shown(sprite, stage.pose(again=True), HELD, stage.rng, number + 1)):
            crop = stage.tick(sprite, pose, hand)
            if RISE + SETTLED <= tick < RISE + HELD:
                scene.looks[number].append(crop)
    for number in range(6):
        list(stage.empty())
        for pose, hand in shown(None, stage.pose(again=True), HELD, stage.rng, number):
            scene.hand.append(stage.tick(None, pose, hand))
    return scene


def taken(holding: Holding) -> dict[str, Sense] | str:
    """What the press kept, or the reason why it kept nothing."""
    try:
        return dict(holding.take())
    except StoreError as error:
        return str(error)
    finally:
        holding.end()


def answers(child: ShowAndTell, looks: list[Look | None]) -> list[tuple[str | None, float]]:
    """The name that is shown for each look (None for unknown or nothing found), and its probability."""
    found = []
    for look in looks:
        seen = None if look is None else child.ask(Moment(0.0, {"sight": look[0]}), refit=False, above=look[1])
        named = seen.get("sight") if seen else None
        found.append((None, 0.0) if named is None else (named.name, named.confidence))
    return found


def measure(agent: Agent, scene: Scene, taught: list[int], asked: list[int]) -> dict[str, float]:
    """Shares of looks, with these things taught by one press each."""
    child = ShowAndTell(agent, Memory(open_store(None)))
    for number in taught:
        payload = scene.presses[number]
        if not isinstance(payload, str):
            child.teach(str(number), Moment(0.0, payload))
    child.names.fit()
    looks = [(str(number), answer) for number in asked for answer in answers(child, scene.looks[number])]
    others = [crop for number in STRANGERS for crop in scene.looks[number]]
    sure = np.array([confidence for _, (_, confidence) in looks])
    right = np.array([name == said for name, (said, _) in looks])
    named = np.array([said is not None for _, (said, _) in looks])
    named_share = lambda crops: float(np.mean([said is not None for said, _ in answers(child, crops)]))  # noqa: E731
    return {
        "right": float(right.mean()), "wrong": float((named & ~right).mean()), "unknown": float((~named).mean()),
        "said": float(sure[named].mean()) if named.any() else float("nan"),
        "empty": named_share(scene.empty), "hand": named_share(scene.hand), "strangers": named_share(others),
    }  # fmt: skip


def main() -> None:
    """Print a table for every video."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("videos", type=Path, nargs="+")
    parser.add_argument("--agent", type=Path, help="a saved agent; default: the packaged newborn")
    parser.add_argument("--things", default="11-30", help="the things to ask about, as FIRST-LAST")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    first, last = map(int, arguments.things.split("-"))
    asked = list(range(first, last + 1))
    everything = sorted({*asked, *range(1, 31)}) if last == 30 else asked
    with stepping_threads():
        agent = Agent.from_pretrained(arguments.agent or FOLDER)
        for path in arguments.videos:
            scene = play(film(path), everything, arguments.seed)
            report(agent, path.stem, scene, asked, everything)


def report(agent: Agent, title: str, scene: Scene, asked: list[int], everything: list[int]) -> None:
    """Print rows by the number of known names."""
    refused = [number for number in everything if isinstance(scene.presses[number], str)]
    crops = [crop for number in asked for crop in scene.looks[number]]
    print(f"\n{title}: {len(refused)} of {len(everything)} presses kept nothing {refused}; ", end="")
    print(f"found {np.mean([crop is not None for crop in crops]):.3f} of {len(crops)} looks;", end=" ")
    print(f"something found in {np.mean([crop is not None for crop in scene.empty]):.3f} of {len(scene.empty)} empty")
    for size in (3, 10, len(everything)):
        if size > len(everything):
            continue
        draws = [asked[start : start + size] for start in range(0, len(asked) - size + 1, size)] or [everything]
        rows = [measure(agent, scene, draw, [n for n in draw if n in asked]) for draw in draws]
        means = {name: np.nanmean([row[name] for row in rows]) for name in rows[0]}
        print(
            f"  {size:>2} names ({len(rows)} sets): " + ", ".join(f"{name} {mean:.3f}" for name, mean in means.items()),
            flush=True,
        )


if __name__ == "__main__":
    main()
