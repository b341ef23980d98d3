"""Does the agent ask about what it does not know, and only about that? Drawn things, some taught, are held up for 4 s.

A scene is a generated background with a flickering lamp and something that swings in a corner. In each scene, ten
things (11 to 20) are taught by one press. Then these and ten strangers (201 to 210) are held up elsewhere, in other
sizes and rotations, for four seconds each, an empty hand ten times, and nothing ten times. The decision is made by the
code of a life: `Holding`, `ShowAndTell`, `Asking`, each thing by itself (without the twenty seconds between two
questions).

Printed over all scenes: precision (the share of questions that are about strangers), recall (the share of strangers
asked about), and questions about known things, empty hands and nothing. Precision ignores empty hands: they have no
name either, and asking about one is allowed. Beside the rule of `asking.py` stand rules by the share of unknown answers
in two seconds, one unknown answer, and two floors: always and never. Scenes 0 and 1 were used while the rule was made.

    OMP_NUM_THREADS=1 python benchmarks/asks.py [--scenes 3]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import cv2
import numpy as np
from held_up import HEIGHT, RISE, WIDTH, shown, thing
from one_press import Stage, taken

from devmind.agent.agent import Agent
from devmind.agent.threads import stepping_threads
from devmind.live.remembering.asking import STEADY_S, Asking
from devmind.live.remembering.held_object import Square
from devmind.live.remembering.show_and_tell import ShowAndTell
from devmind.memory import Memory, open_store
from devmind.moment import Moment
from devmind.raised import FOLDER

TAUGHT, STRANGERS = range(11, 21), range(201, 211)
EMPTY, PRESSED, HELD = 24, 12, 40
KINDS = ("stranger", "known", "hand", "nothing")
Tick = tuple[float, Square | None, bool]
"""When, the square round what is held up, and whether that has no name."""


def ground(seed: int) -> list[np.ndarray]:
    """Frames RGB uint8 [240, 320, 3] of an empty room."""
    rng = np.random.default_rng([12, seed])
    room = cv2.resize(
        rng.integers(40, 210, (9, 12, 3)).astype(np.uint8), (WIDTH, HEIGHT), interpolation=cv2.INTER_CUBIC
    )
    frames = []
    for tick in range(40):
        frame = np.clip(room * (1 + 0.02 * np.sin(tick)), 0, 255).astype(np.uint8)
        cv2.circle(frame, (22 + round(8 * np.sin(tick * np.pi / 10)), 30), 12, (20, 20, 20), -1)
        frames.append(frame)
    return frames


def play(agent: Agent, seed: int) -> list[tuple[str, list[Tick]]]:
    """What was held up, and its ticks, for every showing of one scene."""
    stage, child = Stage(ground(seed), seed), ShowAndTell(agent, Memory(open_store(None)))
    for number in TAUGHT:
        list(stage.empty(EMPTY))
        for tick, (pose, hand) in enumerate(shown(thing(number), stage.pose(False), PRESSED, stage.rng, number)):
            if tick == RISE + 2:
                stage.holding.begin()
            stage.tick(thing(number), pose, hand)
            if tick == RISE + PRESSED - 1 and not isinstance(kept := taken(stage.holding), str):
                child.teach(str(number), Moment(0.0, kept))
    child.names.fit()
    showings = []
    for kind, numbers in zip(KINDS, (STRANGERS, TAUGHT, range(10), range(10)), strict=True):
        for number in numbers:
            list(stage.empty(EMPTY))
            sprite = thing(number) if kind in KINDS[:2] else None
            poses = list(shown(sprite, stage.pose(True), HELD, stage.rng, number + 1))
            showings.append((kind, [look(stage, child, sprite, *one, kind == "nothing") for one in poses]))
    return showings


def look(stage: Stage, child: ShowAndTell, sprite: np.ndarray | None, pose: object, hand: int, empty: bool) -> Tick:
    """One tick of a showing."""
    crops = stage.tick() if empty else stage.tick(sprite, pose, hand)  # type: ignore[arg-type] - of `shown`
    unsure = False
    if crops is not None:
        unsure = child.ask(Moment(0.0, {"sight": crops[0]}), refit=False, above=crops[1])["sight"].name is None
    return stage.at / 10, stage.holding.square, unsure


def as_in_life(ticks: list[Tick]) -> bool:
    """The rule of `asking.py`."""
    asking = Asking()
    return any([asking.see(*tick) for tick in ticks])


def by_share(share: float) -> Callable[[list[Tick]], bool]:
    """Asks where this share of the answers within two seconds is unknown."""

    def asks(ticks: list[Tick]) -> bool:
        unsure = [is_unsure for _, square, is_unsure in ticks if square is not None]
        length = round(10 * STEADY_S)
        return any(sum(unsure[at : at + length]) >= share * length for at in range(len(unsure) - length + 1))

    return asks


RULES: dict[str, Callable[[list[Tick]], bool]] = {
    "two seconds without a name (`asking.py`)": as_in_life,
    "80 % of two seconds": by_share(0.8),
    "50 % of two seconds": by_share(0.5),
    "one unknown answer": lambda ticks: any(square is not None and unsure for _, square, unsure in ticks),
    "always (floor)": lambda ticks: True,
    "never (floor)": lambda ticks: False,
}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--scenes", type=int, default=3)
    agent = Agent.from_pretrained(FOLDER)
    with stepping_threads():
        showings = [one for seed in range(2, 2 + parser.parse_args().scenes) for one in play(agent, 1_000_000 + seed)]
    counts = {kind: sum(one == kind for one, _ in showings) for kind in KINDS}
    print("asks of " + ", ".join(f"{kind} ({counts[kind]})" for kind in KINDS))
    print("| rule | precision | recall | known | hand | nothing |\n|---|---|---|---|---|---|")
    for name, asks in RULES.items():
        asked = {kind: sum(asks(ticks) for one, ticks in showings if one == kind) for kind in KINDS}
        every = sum(asked.values()) - asked["hand"]
        precision = f"{asked['stranger'] / every:.2f}" if every else "-"
        rest = " | ".join(str(asked[kind]) for kind in KINDS[1:])
        print(f"| {name} | {precision} | {asked['stranger'] / counts['stranger']:.2f} | {rest} |")


if __name__ == "__main__":
    main()
