"""What a skill measures: one value per episode, with chance, floors and ceiling in the same unit.

Equal episodes count once: score and interval use the different ones, and `distinct` is their number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, wraps
from math import sqrt
from typing import Any, Literal, ParamSpec, TypedDict

import numpy as np

from devmind.curriculum.episodes import first_of_each, per_episode
from devmind.errors import ExamError
from devmind.seeding import numpy_rng

Z95 = 1.959963984540054
ELSEWHERE = "/elsewhere"
"""In the names of measures on data of a source that no lesson saw."""
LEFT_OUT, SHOWN = "that lessons left out", "that lessons showed"


class TrunkRow(TypedDict, total=False):
    """What the trunk's layers carry of a measure: a verdict and, if the trunk is in its path, how it was found, on a
    part of the episodes: the score of the `whole` agent and with layers that are `passing`, what the layers `gained`
    (above 0: better with them), bounds of its 95 % interval, and n.
    """

    verdict: str
    whole: float
    passing: float
    gained: float
    low: float
    high: float
    n: int


@dataclass(frozen=True)
class Exhibit:
    """A picture or a sound of one episode, for the report.

    Args:
        kind: 'example' or 'failure'.
        caption: one line for a reader who sees only this.
        png: an encoded picture, or None.
        wav: an encoded sound, or None.
        labels: of several pictures side by side, what each shows, from left to right.
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
        values: float64 [n], one per episode.
        chance: the expected value of an agent that knows nothing.
        ceiling: the best that can be reached, in the same unit.
        floors: the best trivial methods, name to value, computed in the same run on the same episodes.
        rate: every value is 0 or 1, so the interval is Wilson's; otherwise it is a bootstrap.
        exhaustive: the values are those of every possible case, none was drawn; the mean is exact, and so is its
            interval.
        episodes: int64 [n], the episode of each value (`devmind.curriculum.episodes`); values of one episode count as
            one. None: unknown, and every value counts.
        groups: int64 [n], the life, speaker or room of each value; values of one group may be alike, so the interval
            is wider, if there are several groups (`effective_n`, `bootstrap`).
        higher_is_better: False for errors.
        reference: scores of others, with their source; '' when there is none.
        note: what a reader must know (a read-out was fitted, which group was held out).
        exhibits: evidence for the report.
        rows: the same measure under a change ('sight off'), name to value.
        answered: how often each head decided for an effector: {effector: {head: count}}.
        in_life: whether the exam can be asked in life, else why not (`devmind.acting.in_life`); noted in the exam.
        trunk: what the trunk's layers carry of it; found by whoever holds the exam.
    """

    name: str
    unit: str
    values: np.ndarray
    chance: float
    ceiling: float = 1.0
    floors: Mapping[str, float] = field(default_factory=dict)
    rate: bool = False
    exhaustive: bool = False
    episodes: np.ndarray | None = None
    groups: np.ndarray | None = None
    higher_is_better: bool = True
    reference: str = ""
    note: str = ""
    exhibits: tuple[Exhibit, ...] = ()
    rows: Mapping[str, float] = field(default_factory=dict)
    answered: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    in_life: str = ""
    trunk: TrunkRow = field(default_factory=TrunkRow)

    def __post_init__(self) -> None:
        values = np.asarray(self.values, dtype=np.float64)
        if values.ndim != 1 or len(values) == 0 or not np.isfinite(values).all():
            raise ExamError(
                f"Measure '{self.name}' needs one finite value per episode; got shape {values.shape}"
                f" with {int((~np.isfinite(values)).sum())} values that are not finite."
            )
        if self.rate and not np.isin(values, (0.0, 1.0)).all():
            raise ExamError(
                f"Measure '{self.name}' is a rate, so every value must be 0 or 1; got values from {values.min():g} to"
                f" {values.max():g}."
            )
        object.__setattr__(self, "values", values)
        # A plugin's numbers may be numpy's or torch's, which journals and results cannot hold.
        for name in ("chance", "ceiling"):
            object.__setattr__(self, name, float(getattr(self, name)))
        for name in ("floors", "rows"):
            object.__setattr__(self, name, {of: float(value) for of, value in getattr(self, name).items()})
        answered = {of: {head: int(often) for head, often in heads.items()} for of, heads in self.answered.items()}
        object.__setattr__(self, "answered", answered)
        beside = {"chance": self.chance, "ceiling": self.ceiling, **self.floors}
        if unknown := [of for of, value in beside.items() if not np.isfinite(value)]:
            # A floor of NaN would be beaten by every score.
            raise ExamError(
                f"Measure '{self.name}' is compared with '{unknown[0]}' of {beside[unknown[0]]}; give a finite number, "
                "or leave a floor out that could not be computed."
            )
        for name in ("episodes", "groups"):
            if (given := getattr(self, name)) is not None:
                given = np.asarray(given, dtype=np.int64)
                object.__setattr__(self, name, given)
                if given.shape != values.shape:
                    raise ExamError(
                        f"Measure '{self.name}' has {len(values)} values, but `{name}` is of shape {given.shape};"
                        " give one number for each value."
                    )

    @property
    def n(self) -> int:
        """Number of episodes, copies included."""
        return len(self.values)

    @property
    def distinct(self) -> int:
        """Number of different episodes, on which the interval is based."""
        return self.n if self.episodes is None else len(np.unique(self.episodes))

    @property
    def score(self) -> float:
        """Mean over the different episodes, in the measure's unit."""
        return float(per_episode(self.values, self.episodes).mean())

    @property
    def skill_score(self) -> float:
        """The score on a scale where chance is 0 and the ceiling 1; only for the matrix."""
        return (self.score - self.chance) / self._range

    @property
    def _range(self) -> float:
        if self.ceiling == self.chance:
            raise ExamError(
                f"Measure '{self.name}' has {self.chance:g} as chance and as ceiling, so nothing could be learned; "
                "give the score of an agent that knows nothing, and the best possible one."
            )
        return self.ceiling - self.chance

    @property
    def floor(self) -> float:
        """The best of the floors; chance when there is none."""
        best = max if self.higher_is_better else min
        return best([self.chance, *self.floors.values()])

    def beaten_by(self, resamples: int = 2000) -> str | None:
        """The name of the best floor ('chance' counts as one), if it is better than the bound of the score; else None.

        Then the agent may be better than that rule, but the exam does not show it.
        """
        low, high = self.interval(resamples)
        better = self.floor > low if self.higher_is_better else self.floor < high
        named = {**self.floors, "chance": self.chance}
        return next(name for name, value in named.items() if value == self.floor) if better else None

    def interval(self, resamples: int = 2000) -> tuple[float, float]:
        """Bounds of the 95 % interval of the mean over different episodes.

        Wilson's for rates, Clopper and Pearson's for equal values (`of_equals`), both of the effective number of values
        if there are groups; else a percentile bootstrap, of whole groups if there are some. If the measure is
        exhaustive, both bounds are the mean.
        """
        if self.exhaustive:
            return self.score, self.score
        units, groups = per_episode(self.values, self.episodes), self.unit_groups
        equal, rate = bool((units == units[0]).all()), self.rate and bool(np.isin(units, (0.0, 1.0)).all())
        if not (rate or equal):
            return bootstrap(units, resamples, self.name, groups)
        n = len(units) if groups is None else effective_n(units, groups)
        return wilson(float(units.mean()) * n, n) if rate else of_equals(float(units[0]), n, self.chance, self.ceiling)

    @property
    def unit_groups(self) -> np.ndarray | None:
        """The group of each different episode; None if no groups are given, or all values share one."""
        groups = self.groups
        if groups is not None and self.episodes is not None:
            groups = groups[first_of_each(self.episodes)]
        return None if groups is None or (groups == groups[0]).all() else groups

    def of(self, name: str, values: np.ndarray, **changed: Any) -> Measure:
        """The same measure with another player's values on the same episodes: no rows or exhibits unless `changed`."""
        fields: dict[str, Any] = {"rows": {}, "exhibits": (), "trunk": {}, **changed}
        return replace(self, name=name, values=values, **fields)

    def skill_scores(self) -> np.ndarray:
        """(value - chance) / (ceiling - chance) per episode; only for retention."""
        return (self.values - self.chance) / self._range


@dataclass(frozen=True)
class Exam:
    """An exam as it was held: what the agent did, and how to find what is shown beside it.

    Args:
        measures: of the agent alone, all that retention and a glimpse need; or a function that takes them.
        complete: gives the same measures with floors, rows and exhibits, on the same episodes, and those that only a
            full exam has, in their order. None: the measures are complete.
    """

    measures: Sequence[Measure] | Callable[[], Sequence[Measure]]
    complete: Callable[[], Sequence[Measure]] | None = None

    def alone(self) -> Sequence[Measure]:
        """The measures of the agent alone."""
        return self.measures() if callable(self.measures) else self.measures

    def in_full(self) -> Sequence[Measure]:
        """The measures of a full exam."""
        return self.alone() if self.complete is None else self.complete()

    @staticmethod
    def joined(exams: Iterable[Exam]) -> Exam:
        """One exam of several, all held; they are completed one after another."""
        each = list(exams)
        return Exam(
            lambda: [measure for exam in each for measure in exam.alone()],
            lambda: [measure for exam in each for measure in exam.in_full()],
        )


Parts = Iterator[Sequence[Measure]]
P = ParamSpec("P")


def in_parts(exam: Callable[P, Parts]) -> Callable[P, Exam]:
    """An exam as one function that yields the measures of the agent alone and then, if it is held in full, the complete
    ones. One that yields nothing measures nothing.
    """

    @wraps(exam)
    def held(*args: P.args, **kwargs: P.kwargs) -> Exam:
        parts = exam(*args, **kwargs)
        measures = next(parts, [])
        return Exam(measures, cache(lambda: next(parts, measures)))

    return held


def held_out_rows(values: np.ndarray, left: np.ndarray, what: str) -> dict[str, float]:
    """Rows of a measure: the means of `values` [N] that lessons left out, `left` bool [N], and of the others, each with
    its n; no rows unless there are both.

    Args:
        what: the kind of thing that was left out, for the row's name: "of looks".
    """
    if left.all() or not left.any():
        return {}
    return {
        f"{what} {LEFT_OUT}, n {left.sum()}": float(values[left].mean()),
        f"{what} {SHOWN}, n {(~left).sum()}": float(values[~left].mean()),
    }


def elsewhere(measure: Measure, rules: Mapping[str, np.ndarray]) -> list[Measure]:
    """`measure`, on data of a source that no lesson saw, with the rules as floors; and how much its values are above
    those of the best rule, episode by episode (named `.../gain`; below, where lower is better).

    Args:
        measure: named SKILL + ELSEWHERE. How often a run looked at it is in the run's journal.
        rules: by name, the values [n] of simple rules, each fitted on what the lessons showed.
    """
    scores = {name: float(per_episode(values, measure.episodes).mean()) for name, values in rules.items()}
    best = (max if measure.higher_is_better else min)(scores, key=scores.__getitem__)
    gain = measure.of(
        f"{measure.name}/gain",
        measure.values - rules[best],
        unit=f"{measure.unit}, less those of {best}",
        chance=measure.chance - scores[best],
        ceiling=measure.ceiling - scores[best],
        floors={best: 0.0},
        rate=False,
        reference="",
        note="paired, episode by episode, with the best rule that was fitted on the same lessons' data",
    )
    return [replace(measure, floors={**measure.floors, **scores}), gain]


def wilson(successes: float, n: float, z: float = Z95) -> tuple[float, float]:
    """Wilson's score interval of a rate (E. B. Wilson 1927, JASA 22); of effective numbers, if values are grouped."""
    rate, z2 = successes / n, z * z
    centre = rate + z2 / (2 * n)
    half = z * sqrt(rate * (1 - rate) / n + z2 / (4 * n * n))
    return max(0.0, (centre - half) / (1 + z2 / n)), min(1.0, (centre + half) / (1 + z2 / n))


def effective_n(values: np.ndarray, groups: np.ndarray) -> float:
    """How many independent values would tell the mean of `values` [n] as well, if those of one group [n] may be alike.

    After Korn and Graubard 1998 ("Confidence intervals for proportions with small expected number of positive counts
    estimated from survey data", Survey Methodology 24). n is divided by the design effect: the variance of the mean
    between groups over that of independent 0s and 1s, at least 1. It is multiplied by the squared ratio of Student's
    quantiles at n - 1 and at (groups - 1) degrees of freedom, as few groups hardly tell that variance. Equal values
    show no design effect, so only the second factor counts: 200 values 1 of 50 words are worth 193, of 10 voices 152.
    A bootstrap of whole groups would draw bounds of rates near 1 too close: above the truth in 5 to 30 % of exams.
    """
    from scipy.special import stdtrit  # here, as importing exams must cost nothing

    n, rate = len(values), float(values.mean())
    _, which = np.unique(groups, return_inverse=True)
    off = np.bincount(which, values - rate)
    variance = len(off) / (len(off) - 1) * float((off**2).sum()) / n**2
    independent = rate * (1 - rate) / (n - 1)
    effect = max(1.0, variance / independent) if independent > 0 else 1.0
    return float(n / effect * (stdtrit(n - 1, 0.975) / stdtrit(len(off) - 1, 0.975)) ** 2)


def of_equals(value: float, n: float, chance: float, ceiling: float) -> tuple[float, float]:
    """Bounds of a mean of `n` equal values, for which a bootstrap would give an interval of width 0.

    By Clopper and Pearson (1934, Biometrika 26), at most a share p of all episodes has another value, where 1 - p is
    the n-th root of 0.025. The bounds assume that these episodes are at chance, or at the ceiling.
    """
    share = 1.0 - 0.025 ** (1.0 / n)
    ends = [value + share * (end - value) for end in (chance, ceiling)]
    return min(value, *ends), max(value, *ends)


def bootstrap(values: np.ndarray, resamples: int, name: str, groups: np.ndarray | None = None) -> tuple[float, float]:
    """Percentile bootstrap of the mean (Efron 1979); the resamples are named by `name`, so they repeat.

    Args:
        groups: [n], the group of each value; whole groups are drawn, with all their values. As groups are few, the
            percentiles lie further out (`bootstrap_percentiles`).
    """
    ends = (0.025, 0.975) if groups is None else bootstrap_percentiles(len(np.unique(groups)))
    low, high = np.quantile(_means(values, resamples, name, groups), ends)
    return float(low), float(high)


def _means(values: np.ndarray, resamples: int, name: str, groups: np.ndarray | None) -> np.ndarray:
    """Means float64 [resamples] of values [n] that are drawn anew, by whole groups if there are some."""
    sizes: np.ndarray | None = None
    rng, sums, means = numpy_rng("bootstrap", name), values, []
    if groups is not None:
        _, which = np.unique(groups, return_inverse=True)
        sums, sizes = np.bincount(which, values), np.bincount(which).astype(np.float64)
    for chunk in _chunks(resamples, len(sums)):
        drawn = rng.choice(len(sums), (chunk, len(sums)))
        drawn_sizes = np.float64(len(sums)) if sizes is None else sizes[drawn].sum(axis=1)
        means.append(sums[drawn].sum(axis=1) / drawn_sizes)
    return np.concatenate(means)


def bootstrap_percentiles(n: int) -> tuple[float, float]:
    """The percentiles of a 95 % bootstrap interval of few units, n of them: their resamples spread too little.

    Their variance is that of the sample divided by n and not by n - 1, and they know no Student's t (Hesterberg 2015,
    "What teachers should know about the bootstrap", The American Statistician 69, section 5.3). A single unit has
    nothing to expand.
    """
    from scipy.special import ndtr, stdtrit

    tail = float(ndtr(np.sqrt(n / (n - 1)) * stdtrit(n - 1, 0.025))) if n > 1 else 0.025
    return tail, 1 - tail


def of_others(one: Measure, other: Measure) -> bool:
    """Whether two measures are of other episodes, as where an agent's own moves lead to what is asked."""
    own, others = one.episodes, other.episodes
    return own is not None and others is not None and not np.array_equal(own, others)


def unpaired_change(
    before: Measure, after: Measure, of: Callable[[Measure], np.ndarray], resamples: int, name: str
) -> tuple[float, float, float]:
    """The change of the mean of `of(measure)` [n] from `before` to `after`, and bounds of its 95 % interval, where both
    are of other episodes: each is resampled by itself.
    """
    units = [per_episode(of(measure), measure.episodes) for measure in (before, after)]
    groups = [before.unit_groups, after.unit_groups]
    old, new = (
        _means(values, resamples, f"{name}/{when}", of_each)
        for values, of_each, when in zip(units, groups, ("before", "after"), strict=True)
    )
    fewest = min(len(x if of_each is None else np.unique(of_each)) for x, of_each in zip(units, groups, strict=True))
    low, high = np.quantile(new - old, bootstrap_percentiles(fewest))
    return float(units[1].mean() - units[0].mean()), float(low), float(high)


def _chunks(resamples: int, n: int) -> list[int]:
    """Sizes of resampling blocks of at most two million numbers each."""
    block = max(1, 2_000_000 // n)
    return [min(block, resamples - start) for start in range(0, resamples, block)]


@dataclass(frozen=True)
class Retention:
    """The change of a skill score on the same exam seeds, and whether the skill was kept (DESIGN, law 5.2)."""

    name: str
    change: float
    low: float
    kept: bool


def retention(before: Measure, after: Measure, resamples: int = 2000) -> Retention:
    """Paired bootstrap of the change in skill score; kept if the mean is >= -0.02 and the lower bound >= -0.05.

    The means of exhaustive measures are exact, and so is their change. Their cases may depend on the agent (all the
    games that its moves allow), so they are not paired; nor are other measures whose episodes do (`unpaired_change`).
    """
    if before.exhaustive and after.exhaustive:
        exact = float(after.skill_scores().mean() - before.skill_scores().mean())
        return Retention(after.name, exact, exact, exact >= -0.02)
    name = f"retention/{after.name}"
    if of_others(before, after):
        mean, low, _ = unpaired_change(before, after, Measure.skill_scores, resamples, name)
        return Retention(after.name, mean, low, is_retained(mean, low))
    if before.n != after.n:
        raise ExamError(
            f"Retention of '{after.name}' needs the same episodes before and after; got {before.n} and {after.n}."
        )
    change = per_episode(after.skill_scores() - before.skill_scores(), after.episodes)
    low, _ = bootstrap(change, resamples, name, after.unit_groups)
    return Retention(after.name, float(change.mean()), low, is_retained(float(change.mean()), low))


def is_retained(change: float, low: float) -> bool:
    """Whether a skill score that changed so, with this lower bound, counts as kept."""
    return change >= -0.02 and low >= -0.05
