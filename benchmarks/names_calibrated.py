"""Does a percentage mean what it says? Names, strangers and confidence, on data that nothing was fitted on.

    OMP_NUM_THREADS=1 python benchmarks/names_calibrated.py --data DIR

Nothing was chosen on ESC-10. The part of the features that keeps a sound's course, and three constants of
`confidence.py`, were chosen on spoken digits of even takes and on the first 600 written digits; odd takes and other
pictures are used here. Nursery things are drawn from other seeds. No source is on both sides of a draw, strangers
included. Known things and strangers have equal weight. Floors have the same rule for "unknown", with the built-in
strangers in their own features.

right: share of known things that got their name. wrong: share of known things that got another. named: share of
strangers that got a name. ECE: expected calibration error in ten bins. sure: mean confidence where the nearest name is
right, and where it is not.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
from naming_tasks import (
    Draw,
    Task,
    draws,
    plain_sound,
    recorded_sounds,
    things,
    written_digits,
)

from devmind.agent.agent import Agent
from devmind.agent.threads import stepping_threads
from devmind.algorithms.calibration import calibration_error
from devmind.algorithms.ridge import fit_ridge_classifier
from devmind.live.remembering import strangers as built_in
from devmind.memory import Strangers
from devmind.memory.confidence import NAMED_FROM
from devmind.memory.names import Fitted
from devmind.memory.similarity import Likeness
from devmind.raised import FOLDER

CELLS = ((3, 1), (3, 3), (5, 3), (1, 1))
TAKES, PICTURES = 20, slice(2_500, 3_100)

Method = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
"""(examples [n, D], names [n], asked [q, D]) to the nearest names [q] and confidences [q]."""


class Ready:
    """A likeness with precomputed rows."""

    def rows(self, features: np.ndarray) -> np.ndarray:
        """The rows unchanged."""
        return features


def devminds(alien: Strangers, sense: str) -> Method:
    """The answers of `devmind name`."""

    def method(x: np.ndarray, names: np.ndarray, asked: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        fitted = Fitted(x, names.tolist(), strangers=alien, likeness=Ready(), sense=sense)
        best, _, confidence = fitted.answers(asked)
        return fitted.names[best], confidence

    return method


def ridge(alien: Strangers, sense: str) -> Method:
    """The name by ridge regression, with the confidence that the same rule gives that name."""

    def method(x: np.ndarray, names: np.ndarray, asked: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        fitted = Fitted(x, names.tolist(), strangers=alien, likeness=Ready(), sense=sense)
        if len(fitted.names) == 1:
            return devminds(alien, sense)(x, names, asked)
        cosines, strange = fitted.cosines(asked)
        best = np.searchsorted(fitted.names, fit_ridge_classifier(x, names).predict(asked))
        return fitted.names[best], 1 / (1 + np.exp(-fitted.log_odds(cosines, strange, best)))

    return method


def measure(task: Task, rows: np.ndarray, method: Method, names: int, shots: int, count: int) -> np.ndarray:
    """right, wrong, named, calibration error, mean confidence of right and of other answers, accuracy on known ones."""
    found = []
    for draw in draws(task, names, shots, count):
        found.append(_asked(task, rows, method, draw))
    answered, right, known, weights = (np.concatenate(part) for part in zip(*found, strict=True))
    share = lambda what, of: float((weights * what)[of].sum() / weights[of].sum())  # noqa: E731
    named = answered >= NAMED_FROM
    return np.array(
        [
            share(right & named, known),
            share(~right & named, known),
            share(named, ~known),
            calibration_error(answered, right, weights),
            share(answered, right),
            share(answered, ~right),
            share(right, known),
        ]
    )


def _asked(task: Task, rows: np.ndarray, method: Method, draw: Draw) -> tuple[np.ndarray, ...]:
    asked = np.concatenate([draw.known, draw.strangers])
    names, confidence = method(rows[draw.taught], task.labels[draw.taught], rows[asked])
    known = np.arange(len(asked)) < len(draw.known)
    weights = np.where(known, 0.5 / max(len(draw.known), 1), 0.5 / max(len(draw.strangers), 1))
    return confidence, (names == task.labels[asked]) & known, known, weights


def tasks(agent: Agent, data: Path) -> list[Task]:
    """The tasks for which the folder has recordings, and the nursery's."""
    found = []
    files = sorted(data.glob("sounds/esc10/*/*.wav"))
    if files:
        labels, sources = [file.parent.name for file in files], [file.stem.split("-")[1] for file in files]
        found.append(recorded_sounds(agent, "ESC-10", files, labels, sources))
    takes = [(file, *file.stem.split("_")) for file in sorted(data.glob("speech/*/*.wav"))]
    takes = [take for take in takes if int(take[3]) % 2 and int(take[3]) < TAKES]
    if takes:
        every = [take[0] for take in takes], [take[1] for take in takes], [take[2] for take in takes]
        found.append(recorded_sounds(agent, "spoken digits", *every))
        found[-1] = Task(**{**vars(found[-1]), "groups": np.arange(len(takes)), "title": "spoken digits, voices known"})
    for path in sorted(data.glob("images/*.npz")):
        found.append(written_digits(agent, path, PICTURES))
    return [*found, things(agent, 1_000_003)]


def floor_strangers(sense: str) -> Strangers:
    """The built-in strangers in the features of the floors."""
    made, kinds = built_in.MAKERS[sense]()
    if sense == "sound":
        return Strangers(np.stack([plain_sound(np.asarray(sound)) for sound in made]), kinds)
    seen = [np.asarray(picture).reshape(32, 2, 32, 2, 3).mean((1, 3)).ravel() / 255 for picture in made]
    return Strangers(np.stack(seen), kinds)


def report(task: Task, alien: Strangers, count: int) -> None:
    """Print one block of rows."""
    print(
        f"\n{task.title} ({task.sense}, {len(np.unique(task.labels))} names, {len(task.labels)} things, {count} draws)"
    )
    print(f"  {'':<36}{'right':>7}{'wrong':>7}{'named':>7}{'ECE':>7}   sure     accuracy without unknown")
    plain = floor_strangers(task.sense)
    raw = "log-mel" if task.sense == "sound" else "pixels"
    standard = Strangers(plain.features)  # floors know only the scale of features, not which of them matter
    for names, shots in CELLS:
        for title, features, others, method in (
            ("devmind", task.features, alien, devminds),
            (f"FLOOR nearest mean, {raw}", task.plain, standard, devminds),
            (f"FLOOR ridge, {raw}", task.plain, standard, ridge),
        ):
            likeness = Likeness(features.shape[1], others)
            ready = Strangers(likeness.rows(others.features), others.kinds, others.shares)
            values = measure(task, likeness.rows(features), method(ready, task.sense), names, shots, count)
            numbers = "".join(f"{value:7.3f}" for value in values[:4])
            label = f"{names} x {shots}  {title}"
            print(f"  {label:<36}{numbers}   {values[4]:.2f} {values[5]:.2f}  {values[6]:.3f}", flush=True)


def main() -> None:
    """Print a block for each task."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--agent", type=Path, default=FOLDER)
    parser.add_argument("--data", type=Path, required=True, help="sounds/esc10, speech/*, images/*.npz")
    parser.add_argument("--draws", type=int, default=60)
    parser.add_argument("--only", default="", help="only tasks whose title contains this")
    arguments = parser.parse_args()
    agent = Agent.from_pretrained(arguments.agent)
    with stepping_threads():
        for task in tasks(agent, arguments.data):
            if arguments.only not in task.title:
                continue
            alien = built_in.strangers(agent, task.sense)
            assert alien is not None
            report(task, alien, arguments.draws)


if __name__ == "__main__":
    main()
