"""The measured comparison of many senses in one step with one sense after the other, and what follows from it.

`git show af69618b:benchmarks/many_senses.py` measured and wrote `measured.json`. From it come the lesson's
weights, and the verdict that the report of every run shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from scipy import stats

from devmind import bounds
from devmind.errors import ConfigError

FILE = Path(__file__).with_name("measured.json")
TOGETHER, BALANCED, IN_TURN = "together", "balanced", "in turn"


@dataclass(frozen=True)
class Measured:
    """Agents that were taught in several ways with equal steps, all agents of a seed from one.

    Attributes:
        agent: their kind, in words; steps: of each way; seeds: of each pair.
        nats: by way and by question about held-out pairs and pages, nats a byte of the right answer for each seed.
        balancing: by part of a step, the weights that make gradients equally large, mean over seeds.
    """

    agent: str
    steps: int
    seeds: list[int]
    nats: Mapping[str, Mapping[str, list[float]]]
    balancing: Mapping[str, float]

    def of(self, way: str) -> np.ndarray:
        """Nats a byte, mean over all questions, float64 [seeds]."""
        return np.mean([self.nats[way][asked] for asked in sorted(self.nats[way])], 0)

    def fewer(self, way: str, than: str, asked: str | None = None) -> tuple[float, float, float]:
        """How many nats a byte one way needs less than another, paired by seed, with the 95 % interval (Student's t).

        Args:
            asked: one question alone; by default all.
        """
        one, other = (self.of(each) if asked is None else np.array(self.nats[each][asked]) for each in (way, than))
        apart = other - one
        half = stats.t.ppf(0.975, len(apart) - 1) * stats.sem(apart)
        return float(apart.mean()), float(apart.mean() - half), float(apart.mean() + half)

    @property
    def weights(self) -> dict[str, float]:
        """Weight of each part's loss: the balancing one if these are shown to teach better, else 1."""
        better = self.fewer(BALANCED, TOGETHER)[1] > 0
        return {part: round(weight, 2) if better else 1.0 for part, weight in self.balancing.items()}

    @property
    def beats(self) -> bool:
        """Whether many senses in one step are shown to beat one sense after the other."""
        return self.fewer(TOGETHER, IN_TURN)[1] > 0

    def verdict(self) -> str:
        """Both findings, in two sentences."""
        mean, low, high = self.fewer(TOGETHER, IN_TURN)
        says = "Beats" if self.beats else "Does not beat"
        worse = " It is shown to be worse." if high < 0 else ""
        weights = "those that balance the gradients" if set(self.weights.values()) != {1.0} else "1 for all"
        gain, least, most = self.fewer(BALANCED, TOGETHER)
        pairs = f"{len(self.seeds)} pairs of {self.agent}, {self.steps} steps"
        return (
            f"{says} one sense after the other at equal steps: {mean:+.3f} [{low:+.3f}, {high:+.3f}] nats a byte "
            f"fewer ({pairs}).{worse} Weights are {weights}: balanced, they need {gain:+.3f} "
            f"[{least:+.3f}, {most:+.3f}] fewer."
        )


@cache
def measured_senses() -> Measured:
    """What `measured.json` holds."""
    data = bounds.read_file(FILE, ConfigError)
    return Measured(**bounds.parse_json(data, ConfigError, f"'{FILE}' is not JSON ({{}}); install devmind again."))
