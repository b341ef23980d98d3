"""What a skill measures: one value per independent episode, with chance, floors and ceiling in the same unit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import sqrt
from typing import Literal

import numpy as np

from devmind.errors import ExamError
from devmind.seeding import numpy_rng

Z95 = 1.959963984540054


@dataclass(frozen=True)
class Exhibit:
    """A picture or a sound for the report: what happened in one episode.

    Args:
        kind: 'example' or 'failure'.
        caption: one line for a reader who sees only this.
        png: an encoded picture, or None.
        wav: an encoded sound, or None.
        labels: of a picture that is several side by side, what each shows, from left to right.
    """

    kind: Literal["example", "failure"]
    caption: str
    png: bytes | None = None
    wav: bytes | None = None
    labels: tuple[str, ...] = ()


@dataclass(frozen=True)
class Measure:
    """One measured ability.

    Args:
        name: the skill, or skill/part when a skill has several measures.
        unit: what a value is ('correct', 'IoU', 'fraction of ticks', 'reward').
        values: float64 [n], one per independent episode.
        chance: the expected value of an agent that knows nothing.
        ceiling: the best that can be reached, in the same unit.
        floors: the best trivial methods, name to value, computed in the same run on the same episodes.
        rate: every value is 0 or 1, so the interval is Wilson's; otherwise it is a bootstrap.
        exhaustive: the values are of every case there is, none was drawn: the mean is exact, and so is its interval.
        higher_is_better: False for errors.
        reference: what others reach, with its source; '' when there is none.
        note: what a reader must know (a read-out was fitted, which group was held out).
        exhibits: evidence for the report.
        rows: the same measure under a change ('sight off'), name to value.
        answered: how often each head decided for an effector: {effector: {head: count}}.
    """

    name: str
    unit: str
    values: np.ndarray
    chance: float
    ceiling: float
    floors: Mapping[str, float] = field(default_factory=dict)
    rate: bool = False
    exhaustive: bool = False
    higher_is_better: bool = True
    reference: str = ""
    note: str = ""
    exhibits: tuple[Exhibit, ...] = ()
    rows: Mapping[str, float] = field(default_factory=dict)
    answered: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        values = np.asarray(self.values, dtype=np.float64)
        if values.ndim != 1 or len(values) == 0 or not np.isfinite(values).all():
            raise ExamError(
                f"Measure '{self.name}' needs one finite value per episode; got shape {values.shape}"
                f" with {int((~np.isfinite(values)).sum())} values that are not finite."
            )
        if self.rate and not np.isin(values, (0.0, 1.0)).all():
            raise ExamError(f"Measure '{self.name}' is a rate, so every value must be 0 or 1.")
        object.__setattr__(self, "values", values)

    @property
    def n(self) -> int:
        """Number of independent episodes."""
        return len(self.values)

    @property
    def score(self) -> float:
        """Mean over the episodes, in the measure's unit."""
        return float(self.values.mean())

    @property
    def floor(self) -> float:
        """The best of the floors; chance when there is none."""
        best = max if self.higher_is_better else min
        return best([self.chance, *self.floors.values()])

    @property
    def beaten_by(self) -> str | None:
        """The best floor, by name, where it is better than the score; 'chance' counts as one."""
        better = self.floor > self.score if self.higher_is_better else self.floor < self.score
        named = {**self.floors, "chance": self.chance}
        return next(name for name, value in named.items() if value == self.floor) if better else None

    def interval(self, resamples: int = 2000) -> tuple[float, float]:
        """Bounds of the 95 % interval of the mean: Wilson for rates, percentile bootstrap otherwise.

        Where nothing was drawn there is nothing to bound: both are the mean.
        """
        if self.exhaustive:
            return self.score, self.score
        if self.rate:
            return wilson(int(self.values.sum()), self.n)
        return bootstrap(self.values, resamples, self.name)

    def skill_scores(self) -> np.ndarray:
        """(value - chance) / (ceiling - chance) per episode: for retention and the matrix only."""
        return (self.values - self.chance) / (self.ceiling - self.chance)


def wilson(successes: int, n: int, z: float = Z95) -> tuple[float, float]:
    """Wilson's score interval of a rate (E. B. Wilson 1927, JASA 22)."""
    rate, z2 = successes / n, z * z
    centre = rate + z2 / (2 * n)
    half = z * sqrt(rate * (1 - rate) / n + z2 / (4 * n * n))
    return max(0.0, (centre - half) / (1 + z2 / n)), min(1.0, (centre + half) / (1 + z2 / n))


def bootstrap(values: np.ndarray, resamples: int, name: str) -> tuple[float, float]:
    """Percentile bootstrap of the mean (Efron 1979); the resamples are named by `name`, so they repeat."""
    rng = numpy_rng("bootstrap", name)
    means = np.concatenate(
        [rng.choice(values, (chunk, len(values))).mean(axis=1) for chunk in _chunks(resamples, len(values))]
    )
    low, high = np.quantile(means, (0.025, 0.975))
    return float(low), float(high)


def _chunks(resamples: int, n: int) -> list[int]:
    """Sizes of resampling blocks of at most two million numbers each."""
    block = max(1, 2_000_000 // n)
    return [min(block, resamples - start) for start in range(0, resamples, block)]


@dataclass(frozen=True)
class Retention:
    """How much of a skill score was kept, on the same exam seeds before and after (DESIGN, law 5.2)."""

    name: str
    change: float
    low: float
    kept: bool


def retention(before: Measure, after: Measure, resamples: int = 2000) -> Retention:
    """Paired bootstrap of the change in skill score; kept when the mean is >= -0.02 and the lower bound >= -0.05.

    Where nothing was drawn the means are exact, and so is the change: which cases there are may hang on the agent (all
    the games that its moves allow), so they are not paired.
    """
    if before.exhaustive and after.exhaustive:
        exact = float(after.skill_scores().mean() - before.skill_scores().mean())
        return Retention(after.name, exact, exact, exact >= -0.02)
    if before.n != after.n:
        raise ExamError(
            f"Retention of '{after.name}' needs the same episodes before and after; got {before.n} and {after.n}."
        )
    change = after.skill_scores() - before.skill_scores()
    low, _ = bootstrap(change, resamples, f"retention/{after.name}")
    return Retention(after.name, float(change.mean()), low, bool(change.mean() >= -0.02 and low >= -0.05))
