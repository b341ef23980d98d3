"""Fit the weights in `devmind/memory/confidence.py` on generated kinds; no recording is read.

    OMP_NUM_THREADS=1 python benchmarks/fit_names.py

Every task has the same weight, and in each draw half of the weight is on known things and half on strangers, so
confidence is the share of right answers when half of the things have a name. Takes a minute of CPU, and another one for
the nursery's renderer.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from naming_tasks import Task, draws, held_things, made_sounds, small_digits, things

from devmind.agent.agent import Agent
from devmind.agent.threads import stepping_threads
from devmind.algorithms.calibration import calibration_error
from devmind.live.remembering.strangers import strangers
from devmind.memory import Strangers
from devmind.memory.names import Fitted
from devmind.memory.similarity import Likeness
from devmind.raised import FOLDER

NAMES, MANY_NAMES, SHOTS, DRAWS = (1, 2, 3, 5), (1, 2, 3, 5, 10, 30), (1, 2, 3, 5), 30
"""The second for what is taught by a press."""
PENALTY = 1e-4


def evidence(task: Task, alien: Strangers) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The evidence for the nearest name [q, 6], whether it is right [q], and weights [q] that sum to 1."""
    likeness = Likeness(task.features.shape[1], alien)  # once for all draws: every fit would make the same
    task_rows = likeness.rows(task.features)
    alien_rows = Strangers(likeness.rows(alien.features), alien.kinds, alien.shares)
    taught = task_rows if task.taught is None else likeness.rows(task.taught)
    scenes = np.zeros((0, taught.shape[1])) if task.scenes is None else likeness.rows(task.scenes)
    found = []
    for names in NAMES if task.scenes is None else MANY_NAMES:
        for shots in SHOTS:
            for draw in draws(task, names, shots, DRAWS, seed=11):
                rows = np.concatenate([taught[draw.taught], scenes])
                labels = [*task.labels[draw.taught].tolist(), *[None] * len(scenes)]
                pressed = () if task.scenes is None else {label for label in labels if label is not None}
                fitted = Fitted(rows, labels, strangers=alien_rows, likeness=Plain(), sense=task.sense, pressed=pressed)
                asked = np.concatenate([draw.known, draw.strangers])
                cosines, strange = fitted.cosines(task_rows[asked])
                best = cosines[:, : len(fitted.names)].argmax(1)
                right = (fitted.names[best] == task.labels[asked]) & (np.arange(len(asked)) < len(draw.known))
                halves = (0.5 / len(draw.known), 0.5 / len(draw.strangers))
                weights = np.repeat(halves, (len(draw.known), len(draw.strangers)))
                found.append((fitted.speaks_for(cosines, strange, best).rows(), right, weights))
    rows, right, weights = (np.concatenate(part) for part in zip(*found, strict=True))
    return rows, right, weights / weights.sum()


class Plain:
    """A likeness with precomputed rows."""

    def rows(self, features: np.ndarray) -> np.ndarray:
        """The rows unchanged."""
        return features


def fit_logistic(rows: np.ndarray, right: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Weights of columns [D] with the least weighted log loss plus a small ridge, by Newton's method."""
    found, ridge = np.zeros(rows.shape[1]), PENALTY * np.r_[0, np.ones(rows.shape[1] - 1)]
    for _ in range(50):
        shares = 1 / (1 + np.exp(-np.clip(rows @ found, -30, 30)))
        gradient = rows.T @ (weights * (shares - right)) + ridge * found
        curvature = (rows * (weights * shares * (1 - shares))[:, None]).T @ rows + np.diag(ridge + 1e-12)
        found = found - np.linalg.solve(curvature, gradient)
    return found


def main() -> None:
    """Print the weights, and their calibration on each task."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--agent", type=Path, default=FOLDER)
    agent = Agent.from_pretrained(parser.parse_args().agent)
    with stepping_threads():
        tasks = [made_sounds(agent, 11, False), made_sounds(agent, 12, True), things(agent, 13), small_digits(agent)]
        tasks.append(held_things(agent, 14))
        parts = []
        for task in tasks:
            alien = strangers(agent, task.sense)
            assert alien is not None
            parts.append(evidence(task, alien))
        print("WEIGHTS = {")
        for title, of in (("sound", slice(0, 2)), ("sight", slice(2, 4)), ("press", slice(4, 5))):
            weights = fit_logistic(*(np.concatenate(part) for part in zip(*parts[of], strict=True)))
            print(f'    "{title}": np.array([' + ", ".join(f"{weight:.2f}" for weight in weights) + "]),")
            for task, (rows, right, share) in zip(tasks[of], parts[of], strict=True):
                confidence = 1 / (1 + np.exp(-rows @ weights))
                print(f"    # {task.title:<24} calibration error {calibration_error(confidence, right, share):.3f}")
        print("}")


if __name__ == "__main__":
    main()
