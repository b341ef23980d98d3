"""Names taught by a few examples: ESC-10 sounds from 3 each, digits seen and heard from 5 each, beside simple methods.

No source (ESC-10) and no speaker (spoken digits) is on both sides; written digits have no groups to hold out. Each draw
takes other examples. `accuracy` is over ten taught names; for the other columns half of the names are taught and half
are unknown: `AUROC` of the confidence, and the effect of its threshold, without strangers (`names_calibrated.py` has
them). Intervals are over draws, which share recordings: they show how much the choice of examples matters, not how much
other recordings would.

The features of names were chosen on the ESC-10 sounds, on the first 2,500 pictures and on takes of even number; the
pictures and takes examined here are others, the ESC-10 sounds are the same.

    OMP_NUM_THREADS=1 python benchmarks/show_and_tell.py --agent checkpoints/.../milestones/01-reflex --data DIR
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from devmind.agent.agent import Agent
from devmind.agent.describing import Description, describe
from devmind.agent.features import log_mel
from devmind.agent.threads import stepping_threads
from devmind.live.remembering.show_and_tell import cut_examples
from devmind.memory.names import Fitted
from devmind.sessions.media import media_moments
from devmind.sessions.pictures import sight_of

PICTURES = slice(2_500, 5_000)
MAX_DISCRIMINANT = 1_000
"""More features take scikit-learn's discriminant seconds a fit, longer than a tick allows anyway."""
TESTED_PICTURES, TESTED_TAKES = 300, 20


@dataclass(frozen=True)
class Task:
    """`groups` are never on both sides; None where there are none. `raw` [n, F] is the input of the floor."""

    title: str
    labels: np.ndarray
    groups: np.ndarray | None
    described: list[Description]
    raw: np.ndarray
    raw_name: str
    shots: int
    split: Callable[[Task, np.random.Generator], tuple[np.ndarray, np.ndarray]]


def sounds(agent: Agent, title: str, files: list[Path], labels: list[str], groups: list[str], shots: int) -> Task:
    """A task of sound files: each is described whole, as by `devmind teach`."""
    described, raw = [], []
    for file in files:
        heard = cut_examples(media_moments(file))[0].senses["sound"]
        described.append(describe(agent, {"sound": heard})["sound"])
        raw.append(log_mel(torch.from_numpy(np.asarray(heard)).mean(0)).mean(0).numpy())
    split = held_out_speaker if title.startswith("spoken") else held_out_sources
    return Task(title, np.array(labels), np.array(groups), described, np.stack(raw), "log-mel means", shots, split)


def tasks(agent: Agent, data: Path) -> list[Task]:
    """The tasks for which the folder has recordings."""
    found = []
    files = sorted(data.glob("sounds/*/*/*.wav"))
    if files:
        sources = [file.stem.split("-")[1] for file in files]
        found.append(sounds(agent, "ESC-10", files, [file.parent.name for file in files], sources, 3))
    files = [file for file in sorted(data.glob("speech/*/*.wav")) if int(file.stem.split("_")[-1]) % 2]
    if files:
        parts = [file.stem.split("_") for file in files]
        found.append(sounds(agent, "spoken digits", files, [p[0] for p in parts], [p[1] for p in parts], 5))
    for path in sorted(data.glob("images/*.npz")):
        with np.load(path, allow_pickle=False) as file:
            images, labels = file["images"][PICTURES], file["labels"][PICTURES].astype(str)
        shown = [describe(agent, {"sight": sight_of(np.repeat(image[:, :, None], 3, 2))})["sight"] for image in images]
        raw = images.reshape(len(images), -1) / np.float32(255)
        found.append(Task("written digits", labels, None, shown, raw, "pixels", 5, at_random))
    return found


def held_out_sources(task: Task, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Examples from as many sources of a class as needed, in random order; the other sources are asked."""
    assert task.groups is not None
    taught, asked = [], []
    for name in np.unique(task.labels):
        sources = rng.permutation(np.unique(task.groups[task.labels == name]))
        rows = [np.flatnonzero((task.labels == name) & (task.groups == source)) for source in sources]
        counts = np.cumsum([len(part) for part in rows])
        used = min(int(np.searchsorted(counts, task.shots)) + 1, len(rows) - 1)
        taught.append(rng.permutation(np.concatenate(rows[:used]))[: task.shots])
        asked.append(np.concatenate(rows[used:]))
    return np.concatenate(taught), np.concatenate(asked)


def held_out_speaker(task: Task, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """One speaker is asked, the others teach."""
    assert task.groups is not None
    out = rng.choice(np.unique(task.groups))
    taught, asked = [], []
    for name in np.unique(task.labels):
        own = task.labels == name
        taught.append(rng.choice(np.flatnonzero(own & (task.groups != out)), task.shots, replace=False))
        asked.append(rng.permutation(np.flatnonzero(own & (task.groups == out)))[:TESTED_TAKES])
    return np.concatenate(taught), np.concatenate(asked)


def at_random(task: Task, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Any examples teach, any others are asked."""
    order = rng.permutation(len(task.labels))
    taught = np.concatenate([order[task.labels[order] == name][: task.shots] for name in np.unique(task.labels)])
    return taught, rng.permutation(np.setdiff1d(order, taught))[:TESTED_PICTURES]


Answers = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Names [n], likeness [n], and which were taken for known, bool [n] (all where a method has no threshold)."""


def nearest_mean(x: np.ndarray, names: np.ndarray, asked: np.ndarray) -> Answers:
    """Cosine to the mean of each name's examples."""
    known = np.unique(names)
    unit = lambda rows: rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)  # noqa: E731
    scores = unit(asked) @ unit(np.stack([unit(x)[names == name].mean(0) for name in known])).T
    return known[scores.argmax(1)], scores.max(1), np.ones(len(asked), dtype=bool)


def fitted(x: np.ndarray, names: np.ndarray, asked: np.ndarray) -> Answers:
    """The method of `devmind.memory.names`."""
    fit = Fitted(x, names.tolist())
    answers = [fit.ask(row) for row in asked]
    return (
        np.array([answer.nearest for answer in answers]),
        np.array([answer.confidence for answer in answers]),
        np.array([answer.name is not None for answer in answers]),
    )


def discriminant(x: np.ndarray, names: np.ndarray, asked: np.ndarray) -> Answers:
    """scikit-learn's linear discriminant with Ledoit and Wolf's shrinkage."""
    fit = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto").fit(x, names)
    return fit.predict(asked), fit.decision_function(asked).max(1), np.ones(len(asked), dtype=bool)


def auroc(known: np.ndarray, unknown: np.ndarray) -> float:
    """Probability that a known thing scores above an unknown one; ties count half."""
    above = (known[:, None] > unknown[None]).mean() + 0.5 * (known[:, None] == unknown[None]).mean()
    return float(above)


def measure(task: Task, features: np.ndarray, method: Callable[..., Answers], draws: int) -> np.ndarray:
    """[draws, 4]: accuracy, AUROC, share of known things refused, share of unknown ones named."""
    rows = []
    for draw in range(draws):
        rng = np.random.default_rng([7, draw])
        taught, asked = task.split(task, rng)
        names, _, _ = method(features[taught], task.labels[taught], features[asked])
        accuracy = float((names == task.labels[asked]).mean())
        half = rng.permutation(np.unique(task.labels))[: len(np.unique(task.labels)) // 2]
        some, known = taught[np.isin(task.labels[taught], half)], np.isin(task.labels[asked], half)
        _, likeness, named = method(features[some], task.labels[some], features[asked])
        rows.append(
            (accuracy, auroc(likeness[known], likeness[~known]), float((~named[known]).mean()), named[~known].mean())
        )
    return np.array(rows)


def interval(values: np.ndarray) -> str:
    """Mean and 95 % bootstrap interval over draws."""
    means = np.random.default_rng(0).choice(values, (2000, len(values))).mean(1)
    return f"{values.mean():.3f} [{np.quantile(means, 0.025):.3f}, {np.quantile(means, 0.975):.3f}]"


def main() -> None:
    """Print one table per task."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--agent", type=Path, required=True, help="a saved agent, preferably raised without this data")
    parser.add_argument("--data", type=Path, required=True, help="sounds/*/CLASS/*.wav, speech/*/*.wav, images/*.npz")
    parser.add_argument("--draws", type=int, default=40)
    arguments = parser.parse_args()
    agent = Agent.from_pretrained(arguments.agent)
    print(f"agent raised on {', '.join(agent.config.trained_on) or 'no files'}; {arguments.draws} draws")
    with stepping_threads():
        for task in tasks(agent, arguments.data):
            report(task, arguments.draws)


def report(task: Task, draws: int) -> None:
    """Print the rows of one task: devmind's names, and the methods they are compared with."""
    features = np.stack([what.features for what in task.described])
    keys = np.stack([what.vector for what in task.described])
    print(f"\n{task.title}, {len(np.unique(task.labels))} names from {task.shots} each ({len(task.labels)} recordings)")
    columns = ("accuracy", "AUROC", "known refused", "unknown named")
    print(f"  {'':<44}" + "".join(f"{column:<24}" for column in columns))
    for name, rows, method in (
        ("names, on the agent's features", features, fitted),
        ("nearest class mean", features, nearest_mean),
        ("linear discriminant", features, discriminant),
        ("names, on the agent's 64-d keys", keys, fitted),
        ("nearest class mean on the keys", keys, nearest_mean),
        (f"FLOOR: nearest class mean on {task.raw_name}", task.raw, nearest_mean),
        (f"names, on {task.raw_name}", task.raw, fitted),
    ):
        if method is discriminant and rows.shape[1] > MAX_DISCRIMINANT:
            continue
        values = measure(task, rows, method, draws)
        shown = values.T if method is fitted else values.T[:2]
        print(f"  {name:<44}" + "".join(f"{interval(column):<24}" for column in shown))
    taught, _ = task.split(task, np.random.default_rng(0))
    start_s = time.process_time()
    Fitted(features[taught], task.labels[taught].tolist())
    print(f"  fitting {len(taught)} examples: {1e3 * (time.process_time() - start_s):.1f} ms CPU")


if __name__ == "__main__":
    main()
