"""A gate is a pure function of measures: it decides on the bound of the 95 % interval, in the measure's own unit.

There are four verdicts: failed; passed; "passed, a rule does better" if the bound is worse than the best floor; and
"no better than its twin" if the bound is reached but the agent is not significantly above its twin (see `ablation`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from devmind.curriculum.exam import Measure
from devmind.errors import ExamError

PASSED, OUTDONE, FAILED = "passed", "passed, a rule does better", "failed"
NO_BETTER = "no better than its twin"
CLOSE = 1e-3
"""A bound that is nearer than this to the wanted one is told with more digits, as both would look alike."""
GOAL_MISSED, NOT_GATED = "goal missed", "not gated"
ABOVE, NOT_ABOVE, NOT_ASKED = "above", "not above", "not asked"
"""If a gate reads the twin: whether the agent is significantly above it; NOT_ASKED if no twin was raised."""


@dataclass(frozen=True)
class Threshold:
    """The worst acceptable bound of one measure.

    Args:
        measure: the measure's name.
        bound: the lower bound must be at least this (the upper at most, where lower is better).
        beats_floor: the bound must also beat the best floor; with bound None it must beat only the floor.
        lower_is_better: the negation of the measure's `higher_is_better`, for readers who have no measure yet.
        when_absent: 'fail', or 'skip' if the measure needs data that a run may lack.
        goal: the threshold is judged and shown, but decides nothing; for a bound that not every run reaches yet.
        beats_twin: if a twin was raised (`--ablate`), the agent must also be significantly above it on the same
            episodes.
    """

    measure: str
    bound: float | None
    beats_floor: bool = False
    when_absent: str = "fail"
    lower_is_better: bool = False
    goal: bool = False
    beats_twin: bool = False

    def __post_init__(self) -> None:
        if self.bound is None and not self.beats_floor:
            raise ExamError(f"The threshold of '{self.measure}' asks for nothing; give a bound, or beats_floor=True.")


def elsewhere_thresholds(skill: str, goal: float, lower_is_better: bool = False) -> tuple[Threshold, Threshold]:
    """Of `skill`/elsewhere (`exam.elsewhere`), if data are given that no lesson saw: `goal`, and, as a gate, that it is
    above the best rule of the same lessons' data, paired."""
    name, absent = f"{skill}/elsewhere", "skip"
    return (
        Threshold(name, goal, when_absent=absent, lower_is_better=lower_is_better, goal=True),
        Threshold(f"{name}/gain", None, True, absent, lower_is_better),
    )


@dataclass(frozen=True)
class Decision:
    """The gate's decision on one measure.

    Attributes:
        twin: ABOVE, NOT_ABOVE or NOT_ASKED if the gate reads the twin; else None.
        no_better: the bound is reached, but the agent is not above its twin.
    """

    measure: str
    bound: float | None
    reached: float | None
    passed: bool
    reason: str
    goal: bool = False
    beaten_by: str | None = None
    twin: str | None = None
    no_better: bool = False

    @property
    def verdict(self) -> str:
        """The verdict in words: PASSED, OUTDONE, NO_BETTER, FAILED or GOAL_MISSED."""
        if self.passed:
            return OUTDONE if self.beaten_by else PASSED
        if self.no_better:
            return NO_BETTER
        return GOAL_MISSED if self.goal else FAILED

    @property
    def passed_or_none(self) -> bool | None:
        """Whether it was passed; None for a missed goal, which is no failure."""
        return None if self.goal and not self.passed else self.passed


@dataclass(frozen=True)
class Verdict:
    """The gate's verdict on a whole skill or stage."""

    passed: bool
    decisions: tuple[Decision, ...]

    @property
    def verdict(self) -> str:
        """The verdict in words: PASSED; OUTDONE if a rule does better at something that was passed; NO_BETTER if being
        above the twin is all that is missing; else FAILED.
        """
        if not self.passed:
            missed = [decision for decision in self.decisions if not (decision.passed or decision.goal)]
            return NO_BETTER if missed and all(decision.no_better for decision in missed) else FAILED
        return OUTDONE if any(decision.verdict == OUTDONE for decision in self.decisions) else PASSED

    @property
    def reasons(self) -> tuple[str, ...]:
        """One sentence for each decision except missed goals, which are shown only with their measures."""
        return tuple(decision.reason for decision in self.decisions if decision.passed_or_none is not None)


@dataclass(frozen=True)
class Gate:
    """All thresholds of a skill."""

    thresholds: Sequence[Threshold]

    def judge(
        self, measures: Mapping[str, Measure], resamples: int = 2000, above_twin: Mapping[str, bool] | None = None
    ) -> Verdict:
        """Decide every threshold; a missing measure fails unless its threshold may be skipped.

        Args:
            above_twin: by measure, whether the agent is significantly above its twin; None if there is no twin.
        """
        decisions = []
        for threshold in self.thresholds:
            measure = measures.get(threshold.measure)
            if measure is not None:
                decisions.append(_with_twin(_decide(threshold, measure, resamples), threshold, above_twin or {}))
            elif threshold.when_absent == "fail" and not threshold.goal:
                reason = f"{threshold.measure} was not measured"
                decisions.append(Decision(threshold.measure, threshold.bound, None, False, reason))
        return Verdict(bool(decisions) and all(d.passed or d.goal for d in decisions), tuple(decisions))


def _decide(threshold: Threshold, measure: Measure, resamples: int) -> Decision:
    low, high = measure.interval(resamples)
    up = measure.higher_is_better
    reached = low if up else high
    needs = [] if threshold.bound is None else [threshold.bound]
    if threshold.beats_floor:
        needs.append(measure.floor)
    wanted = max(needs) if up else min(needs)
    strict = threshold.beats_floor and wanted == measure.floor
    if up:
        passed = reached > wanted if strict else reached >= wanted
    else:
        passed = reached < wanted if strict else reached <= wanted
    side, sign, beyond = ("lower", "at least", "more than") if up else ("upper", "at most", "less than")
    target = f"{beyond} {wanted:.3g} (its floor)" if strict else f"{sign} {wanted:.3g}"
    digits = 3 if abs(reached - wanted) >= CLOSE else 5
    bound = f"{side} bound {reached:.{digits}f} of {measure.score:.3f}"
    reason = f"{measure.name}: {bound} (n={measure.distinct}), wanted {target}"
    if beaten_by := measure.beaten_by(resamples):
        reason += f"; a rule does better: {beaten_by} {measure.floor:.3f}"
    return Decision(measure.name, wanted, reached, passed, reason, threshold.goal, beaten_by)


def _with_twin(decision: Decision, threshold: Threshold, above_twin: Mapping[str, bool]) -> Decision:
    """The decision, with the twin's result if the threshold reads it; without a twin it stays as it is."""
    if not threshold.beats_twin:
        return decision
    above = above_twin.get(threshold.measure)
    said = {True: ABOVE, False: NOT_ABOVE, None: NOT_ASKED}[above]
    reason = f"{decision.reason}; not compared with a twin"
    if above is not None:
        reason = f"{decision.reason}; {'' if above else 'not '}significantly above its twin"
    missed = above is False
    return replace(
        decision, twin=said, reason=reason, passed=decision.passed and not missed, no_better=decision.passed and missed
    )
