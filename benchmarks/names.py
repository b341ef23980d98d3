"""Names of sounds from a few examples: said rightly, strangers named, and whether a percentage means what it says.

    OMP_NUM_THREADS=1 python benchmarks/names.py [--data DIR] [--fit] [--tiny]

Kinds are made up, of other seeds than the built-in strangers and the kinds that `--fit` computes the weights of
`devmind/memory/confidence.py` from. With --data also the recordings DIR/sounds/SET/NAME/TAKE-SOURCE-...wav: each run is
a look at them, and nothing is chosen there. No source is on both sides of a draw. Half of the weight is on things of
taught names, half on strangers. Rules have the same "unknown".

right, wrong: shares of known things that got their name, or another. named: of strangers that got one. ECE: calibration
error. nearest: known things whose nearest name is right. guessed: of known ones not named, those guessed rightly.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from devmind.agent.agent import Agent
from devmind.agent.describing import describe_many
from devmind.agent.features import log_mel
from devmind.agent.threads import stepping_threads
from devmind.algorithms.calibration import calibration_error
from devmind.algorithms.ridge import fit_ridge_classifier
from devmind.live.remembering import made_sounds
from devmind.live.remembering import strangers as built_in
from devmind.live.remembering.show_and_tell import cut_examples
from devmind.memory import Strangers
from devmind.memory.confidence import GUESSED_FROM, NAMED_FROM
from devmind.memory.names import Fitted
from devmind.memory.similarity import Likeness
from devmind.raised import FOLDER
from devmind.sessions.media import media_moments

KINDS, EACH, FAMILY = 60, 6, 6
CELLS, DRAWS = ((3, 1), (3, 3), (5, 3)), 40
FIT_CELLS, FIT_DRAWS = [(names, shots) for names in (1, 2, 3, 5) for shots in (1, 2, 3, 5)], 15
ASKED, PENALTY = 60, 1e-4
Method = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
AS_THEY_ARE: Any = SimpleNamespace(rows=lambda rows: rows)


@dataclass(frozen=True)
class Sounds:
    """n sounds: rows of the agent's features and of log-mel [n, F], labels and sources [n]."""

    title: str
    rows: np.ndarray
    plain: np.ndarray
    labels: np.ndarray
    sources: np.ndarray


class Rows:
    """How sounds become rows, of the agent's features and of log-mel, and the built-in strangers as such rows."""

    def __init__(self, agent: Agent, every: int = 1) -> None:
        self.agent, alien = agent, built_in.strangers(agent, "sound")
        assert alien is not None
        plain = Strangers(np.stack([course(np.asarray(sound)) for sound in built_in.made_sounds()[0][::every]]))
        self.likeness = [Likeness(one.features.shape[1], one) for one in (alien, plain)]
        own, log_mels = (like.rows(one.features) for like, one in zip(self.likeness, (alien, plain), strict=True))
        self.strangers, self.plain_strangers = Strangers(own, alien.kinds), Strangers(log_mels)

    def sounds(self, title: str, waves: list[np.ndarray], labels: Sequence[str], sources: Sequence[str]) -> Sounds:
        """Every sound described whole, as by `devmind teach`."""
        parts = [waves[start : start + 32] for start in range(0, len(waves), 32)]
        features = [one.features for part in parts for one in describe_many(self.agent, "sound", part)]
        rows = self.likeness[0].rows(np.stack(features)), self.likeness[1].rows(np.stack([*map(course, waves)]))
        return Sounds(title, *rows, np.array(labels), np.array(sources))


def course(sound: np.ndarray) -> np.ndarray:
    """Log-mel of [C, S]: mean, deviation, and the mean of each of eight parts, [640]."""
    frames = log_mel(torch.from_numpy(np.asarray(sound, np.float32)).mean(0)).numpy()
    return np.concatenate([frames.mean(0), frames.std(0), *(part.mean(0) for part in np.array_split(frames, 8))])


def variant(kind: made_sounds.SoundKind, rng: np.random.Generator) -> made_sounds.SoundKind:
    """A kind of the same source, of slightly other pitch, resonances and course."""
    octaves = {"pitch_hz": 0.4, "clicks_hz": 0.6, "ring_s": 0.6, "beat_hz": 0.6}
    other: dict[str, Any] = {name: getattr(kind, name) * 2 ** rng.normal(0, by) for name, by in octaves.items()}
    other |= {name: getattr(kind, name) + rng.normal(0, by) for name, by in (("slope", 0.2), ("glide", 0.3))}
    return replace(kind, peaks_hz=tuple(peak * 2 ** rng.normal(0, 0.4) for peak in kind.peaks_hz), **other)


def made(rows: Rows, seed: int, alike: bool, count: int = KINDS) -> Sounds:
    """Made-up kinds of EACH examples; `alike`: FAMILY of them are variants of one, and vary more."""
    rng, waves = np.random.default_rng(seed), []
    if alike:
        parents = [made_sounds.sound_kind(rng) for _ in range(count // FAMILY)]
        kinds = [variant(parent, rng) for parent in parents for _ in range(FAMILY)]
        waves = [made_sounds.sound_example(kind, rng, 1.5, 1.6) for kind in kinds for _ in range(EACH)]
    else:
        mixtures = [made_sounds.mixture(rng) for _ in range(count)]
        waves = [made_sounds.mixture_example(one, rng, rng.uniform(0.8, 2.4)) for one in mixtures for _ in range(EACH)]
    waves, numbers = [made_sounds.as_recorded(wave, rng) for wave in waves], np.arange(len(waves))
    labels = (numbers // EACH).astype(str).tolist()
    return rows.sounds("made up, variants" if alike else "made up, unlike", waves, labels, numbers.astype(str).tolist())


def recorded(rows: Rows, folder: Path) -> Sounds:
    """The recordings of DIR/sounds/SET/NAME/*.wav."""
    files = sorted(folder.glob("*/*.wav"))
    waves = [np.asarray(cut_examples(media_moments(file))[0].senses["sound"]) for file in files]
    sources = [file.stem.split("-")[1] if "-" in file.stem else file.stem for file in files]
    return rows.sounds(f"recorded, {folder.name}", waves, [file.parent.name for file in files], sources)


def draws(of: Sounds, names: int, shots: int, count: int, seed: int) -> Iterator[tuple[np.ndarray, ...]]:
    """Rows of taught sounds, of queries for their names, and of strangers; sources are on one side only."""
    for number in range(count):
        rng = np.random.default_rng([seed, names, shots, number])
        chosen = rng.permutation(np.unique(of.labels))[:names]
        taught, asked, used = [], [], []
        for name in chosen:
            mine = of.labels == name
            own = rng.permutation(np.unique(of.sources[mine]))
            rows = [np.flatnonzero(mine & (of.sources == source)) for source in own]
            enough = min(int(np.searchsorted(np.cumsum([*map(len, rows)]), shots)) + 1, len(rows) - 1)
            taught.append(rng.permutation(np.concatenate(rows[:enough]))[:shots])
            asked.append(np.concatenate(rows[enough:]))
            used.append(own[:enough])
        free = ~np.isin(of.sources, np.concatenate(used))
        known = rng.permutation(np.concatenate(asked))
        others = rng.permutation(np.flatnonzero(~np.isin(of.labels, chosen) & free))
        yield np.concatenate(taught), known[free[known]][:ASKED], others[:ASKED]


def by(alien: Strangers, ridge: bool) -> Method:
    """Examples, their names and what is asked to nearest names and confidences: by `devmind name`, or by ridge."""

    def method(x: np.ndarray, names: np.ndarray, asked: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        fitted = Fitted(x, names.tolist(), strangers=alien, likeness=AS_THEY_ARE, sense="sound")
        if not ridge:
            best, _, confidence = fitted.answers(asked)
            return fitted.names[best], confidence
        best = np.searchsorted(fitted.names, fit_ridge_classifier(x, names).predict(asked))
        return fitted.names[best], 1 / (1 + np.exp(-fitted.log_odds(*fitted.cosines(asked), best)))

    return method


def scores(of: Sounds, rows: np.ndarray, method: Method, names: int, shots: int, count: int) -> str:
    """One row of the table."""
    found = []
    for taught, known, strangers in draws(of, names, shots, count, seed=7):
        asked = np.concatenate([known, strangers])
        said, confidence = method(rows[taught], of.labels[taught], rows[asked])
        is_known = np.arange(len(asked)) < len(known)
        weights = np.where(is_known, 0.5 / len(known), 0.5 / max(len(strangers), 1))
        found.append((confidence, (said == of.labels[asked]) & is_known, is_known, weights))
    sure, right, known, weights = (np.concatenate(part) for part in zip(*found, strict=True))
    share = lambda what, among: float((weights * what)[among].sum() / weights[among].sum())  # noqa: E731
    named, guessed = sure >= NAMED_FROM, (sure >= GUESSED_FROM) & (sure < NAMED_FROM)
    values = share(right & named, known), share(~right & named, known), share(named, ~known)
    values += calibration_error(sure, right, weights), share(right, known), share(right & guessed, known & ~named)
    return " | ".join(f"{value:.3f}" for value in values)


def fit(tasks: list[Sounds], alien: Strangers) -> np.ndarray:
    """The weights of `Evidence.rows` for sound with the least log loss plus a small ridge, by Newton's method."""
    used = [0, 2, 5, 6, 7, 8]  # of the others what falls short counts alone
    found = []
    for of in tasks:
        for names, shots in FIT_CELLS:
            for taught, known, strangers in draws(of, names, shots, FIT_DRAWS, seed=11):
                asked, labels = np.concatenate([known, strangers]), of.labels[taught].tolist()
                fitted = Fitted(of.rows[taught], labels, strangers=alien, likeness=AS_THEY_ARE, sense="sound")
                cosines, strange = fitted.cosines(of.rows[asked])
                best = cosines.argmax(1)
                right = (fitted.names[best] == of.labels[asked]) & (np.arange(len(asked)) < len(known))
                weights = np.repeat((0.5 / len(known), 0.5 / len(strangers)), (len(known), len(strangers)))
                found.append((fitted.speaks_for(cosines, strange, best).rows()[:, used], right, weights))
    rows, right, weights = (np.concatenate(part) for part in zip(*found, strict=True))
    weights, ridge, at = weights / weights.sum(), PENALTY * (np.arange(len(used)) > 0), np.zeros(len(used))
    for _ in range(50):
        share = 1 / (1 + np.exp(-np.clip(rows @ at, -30, 30)))
        curvature = (rows.T * (weights * share * (1 - share))) @ rows + np.diag(ridge + 1e-12)
        at = at - np.linalg.solve(curvature, rows.T @ (weights * (share - right)) + ridge * at)
    every = np.zeros(9)
    every[used] = at
    return every


def main() -> None:
    """Print the table, or the weights."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="a folder with sounds/SET/NAME/*.wav")
    parser.add_argument("--fit", action="store_true", help="print the weights, fitted on other seeds")
    parser.add_argument("--tiny", action="store_true")
    given = parser.parse_args()
    count, repeats, every = (6, 2, 8) if given.tiny else (KINDS, DRAWS, 1)
    with stepping_threads():
        rows = Rows(Agent.from_pretrained(FOLDER), every)
        if given.fit:
            print(fit([made(rows, 11, False), made(rows, 12, True)], rows.strangers).round(2).tolist())
            return
        tasks = [made(rows, 21, False, count), made(rows, 22, True, count)]
        tasks += [recorded(rows, folder) for folder in sorted((given.data or FOLDER).glob("sounds/*"))]
        print("| sounds | taught | who | right | wrong | named | ECE | nearest | guessed |\n" + "|---" * 9 + "|")
        for of in tasks:
            for names, shots in CELLS:
                for who, shown, method in (
                    ("devmind", of.rows, by(rows.strangers, False)),
                    ("ridge, log-mel", of.plain, by(rows.plain_strangers, True)),
                ):
                    row = scores(of, shown, method, names, shots, repeats)
                    print(f"| {of.title} | {names} x {shots} | {who} | {row} |", flush=True)


if __name__ == "__main__":
    main()
