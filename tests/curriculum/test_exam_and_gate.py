"""Intervals against known values, gates on bounds, and retention by pairs."""

import json
from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest
import torch

from devmind.curriculum.ablation import differences
from devmind.curriculum.exam import (
    Measure,
    bootstrap,
    bootstrap_percentiles,
    elsewhere,
    retention,
    unpaired_change,
    wilson,
)
from devmind.curriculum.gate import Gate, Threshold, elsewhere_thresholds
from devmind.errors import ExamError


def rate(successes: int, n: int, **more) -> Measure:
    return Measure("m", "correct", np.r_[np.ones(successes), np.zeros(n - successes)], 0.1, 1.0, rate=True, **more)


def test_wilson_matches_published_values():
    # Newcombe (1998), Statistics in Medicine 17, table I: 81/263 and 15/148, Wilson's score method.
    assert wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert wilson(15, 148) == pytest.approx((0.0624, 0.1605), abs=5e-5)
    assert wilson(0, 20)[0] == 0.0
    assert wilson(20, 20)[1] == 1.0


def test_numbers_of_a_plugins_exam_can_be_written():
    """Regression: a chance or a floor of NumPy's float32 ended a run in its exams, after all lessons."""
    found = Measure(
        "m", "correct", np.ones(4, np.float32), np.float32(0.5), torch.tensor(1.0), {"f": np.float32(0.25)},
        rows={"r": torch.tensor(0.75)},
    )  # fmt: skip
    assert json.loads(json.dumps([found.chance, found.ceiling, found.floor, found.rows, found.skill_score])) == [
        0.5, 1.0, 0.5, {"r": 0.75}, 1.0
    ]  # fmt: skip


def test_goal_is_judged_and_shown_but_decides_nothing():
    def judged(*thresholds):
        return Gate(thresholds).judge({"m": rate(81, 100)})

    held, wanted = Threshold("m", 0.7), Threshold("m", 0.9, goal=True)
    missed = judged(held, wanted)
    assert missed.passed
    assert [(decision.passed, decision.passed_or_none) for decision in missed.decisions] == [
        (True, True),
        (False, None),
    ]
    assert len(missed.reasons) == 1
    assert [decision.passed_or_none for decision in judged(Threshold("m", 0.7, goal=True)).decisions] == [True]
    assert not judged(Threshold("m", 0.9), Threshold("m", 0.7, goal=True)).passed
    assert judged(Threshold("absent", 0.9, goal=True), held).passed


def test_exact_scores_are_compared_with_the_twins_though_its_cases_are_others():
    """Regression: all games that an agent's moves allow were left out of the comparison."""
    mine, twin = rate(90, 100, exhaustive=True), rate(100, 200, exhaustive=True)
    assert differences({"m": mine}, {"m": twin}, 100)["m"] == pytest.approx(
        {"gained": 0.4, "low": 0.4, "high": 0.4, "n": 100, "significant": True}
    )
    assert differences({"m": rate(90, 100)}, {"m": rate(100, 200)}, 100) == {}


def test_close_miss_does_not_look_like_a_pass():
    """Regression: "lower bound 0.750 of 0.810, wanted at least 0.75" was the reason of a failure."""
    bound = rate(162, 200).interval()[0] + 4e-4
    (missed,) = Gate([Threshold("m", bound)]).judge({"m": rate(162, 200)}).reasons
    assert f"lower bound {bound - 4e-4:.5f} of 0.810" in missed
    (clear,) = Gate([Threshold("m", 0.7)]).judge({"m": rate(162, 200)}).reasons
    assert f"lower bound {bound - 4e-4:.3f} of 0.810" in clear


def test_exhaustive_rate_has_no_uncertainty():
    gate = Gate([Threshold("m", 1.0)])
    assert not gate.judge({"m": rate(4520, 4520)}).passed
    assert gate.judge({"m": rate(4520, 4520, exhaustive=True)}).passed
    assert not gate.judge({"m": rate(4519, 4520, exhaustive=True)}).passed
    assert rate(15, 148, exhaustive=True).interval() == (15 / 148, 15 / 148)


def test_bootstrap_agrees_with_the_normal_interval_and_repeats():
    values = np.random.default_rng(0).normal(5, 2, 800)
    low, high = bootstrap(values, 4000, "x")
    half = 1.96 * values.std() / np.sqrt(800)
    assert (low, high) == pytest.approx((values.mean() - half, values.mean() + half), abs=0.02)
    assert bootstrap(values, 4000, "x") == (low, high)
    assert bootstrap(values, 4000, "y") != (low, high)


def test_rate_of_two_hundred_episodes_must_exceed_the_bound():
    gate = Gate([Threshold("m", 0.90)])
    assert not gate.judge({"m": rate(187, 200)}).passed
    assert gate.judge({"m": rate(189, 200)}).passed  # 0.945, as in DESIGN law 5.1


def test_error_measure_is_judged_by_its_upper_bound():
    gate = Gate([Threshold("m", 0.10)])
    small = Measure("m", "AbsRel", np.full(400, 0.08), 1.0, 0.0, higher_is_better=False)
    wide = Measure("m", "AbsRel", np.r_[np.zeros(200), np.full(200, 0.199)], 1.0, 0.0, higher_is_better=False)
    assert gate.judge({"m": small}).passed
    assert not gate.judge({"m": wide}).passed


def test_bound_must_beat_the_best_floor():
    gate = Gate([Threshold("m", None, beats_floor=True)])
    assert gate.judge({"m": rate(180, 200, floors={"a": 0.5, "b": 0.8})}).passed
    verdict = gate.judge({"m": rate(165, 200, floors={"a": 0.5, "b": 0.8})})
    assert not verdict.passed
    assert "floor" in verdict.reasons[0]


@pytest.mark.parametrize("up", [True, False])
def test_elsewhere_is_paired_with_the_best_rule_only(up):
    """A small gain in each of many hard and easy episodes counts, though the scores' own intervals overlap."""
    better = 1 if up else -1
    rng = np.random.default_rng(0)
    rule = rng.uniform(0.2, 0.8, 200)
    measure = Measure(
        "m/elsewhere",
        "m",
        rule + better * rng.uniform(0, 0.04, 200),
        0.5 - better * 0.4,
        0.5 + better * 0.5,
        higher_is_better=up,
    )
    whole, gain = elsewhere(measure, {"worse": rule - better * 0.1, "best": rule})
    assert whole.floors.keys() == {"worse", "best"}
    assert whole.beaten_by() == "best", "unpaired, it may be no better"
    gate = Gate([Threshold("m", 0.0 if up else 1.0, lower_is_better=not up), *elsewhere_thresholds("m", 0.9, not up)])
    own = replace(measure, name="m")
    assert gate.judge({one.name: one for one in (own, whole, gain)}).passed
    assert gate.judge({"m": own}).passed, "without data of another source nothing is asked"
    level = elsewhere(measure, {"best": rule + better * 0.02})
    assert not gate.judge({one.name: one for one in (own, *level)}).passed


def test_missing_measure_fails_unless_it_may_be_skipped():
    measures = {"m": rate(200, 200)}
    assert not Gate([Threshold("m", 0.9), Threshold("other", 0.9)]).judge(measures).passed
    assert Gate([Threshold("m", 0.9), Threshold("other", 0.9, when_absent="skip")]).judge(measures).passed
    assert not Gate([Threshold("other", 0.9, when_absent="skip")]).judge(measures).passed


def test_retention_needs_pairs_and_sees_a_loss_that_means_hide():
    before = rate(900, 1000)
    slightly = Measure("m", "correct", np.r_[np.ones(895), np.zeros(105)], 0.1, 1.0, rate=True)
    much = Measure("m", "correct", np.r_[np.ones(840), np.zeros(160)], 0.1, 1.0, rate=True)
    assert retention(before, slightly).kept
    assert not retention(before, much).kept
    with pytest.raises(ExamError, match="same episodes"):
        retention(before, rate(90, 100))


@pytest.mark.parametrize("values", [[], [0.5, np.nan], [[1.0]]])
def test_measure_refuses_values_that_are_no_episodes(values):
    with pytest.raises(ExamError):
        Measure("m", "u", np.array(values), 0.0, 1.0)


def test_rate_refuses_values_other_than_zero_and_one():
    with pytest.raises(ExamError, match="0 or 1"):
        Measure("m", "u", np.array([0.5]), 0.0, 1.0, rate=True)


@pytest.mark.parametrize(
    ("values", "up", "floors", "rule"),
    [
        ([1.0, 0.64], True, {"a hand rule": 0.985, "stand still": 0.1}, "a hand rule"),
        ([1.0, 0.64], True, {"a hand rule": 0.63}, None),
        ([1.0, 0.64], True, {"a hand rule": 0.75}, "a hand rule"),  # below the score, and above its bound
        ([0.0, 0.1], True, {"stand still": 0.02}, "chance"),
        ([0.2, 0.4], False, {"the mean depth": 0.25, "the ground": 0.4}, "the mean depth"),
        ([0.2, 0.4], False, {"the ground": 0.41}, None),
    ],
)
def test_floor_above_the_bound_of_the_score_is_named(values, up, floors, rule):
    measure = Measure("m", "u", np.array(values), 0.5 if not up else 0.1, 1.0, floors=floors, higher_is_better=up)
    assert measure.beaten_by() == rule


def test_trunk_measure_passes_only_above_the_twin():
    def judged(successes, above=None, *others, **threshold):
        gate = Gate([Threshold("m", 0.90, beats_twin=True, **threshold), *others])
        return gate.judge({"m": rate(successes, 400)}, above_twin=above)

    assert judged(400).passed, "without a twin nothing is held against it"
    assert judged(400).decisions[0].twin == "not asked"
    assert judged(400, {"other": False}).decisions[0].twin == "not asked"
    assert judged(400, {"m": True}).verdict == "passed"
    level = judged(400, {"m": False})
    assert (level.passed, level.verdict, level.decisions[0].verdict) == (False, *["no better than its twin"] * 2)
    assert level.reasons[0].endswith("not significantly above its twin")
    assert judged(340, {"m": True}).verdict == "failed", "the twin alone is no gate"
    assert judged(340, {"m": False}).verdict == "failed"
    assert judged(400, {"m": False}, Threshold("absent", 0.5)).verdict == "failed", "something else is missing too"
    goal = judged(400, {"m": False}, goal=True)
    assert (goal.passed, goal.decisions[0].passed_or_none, goal.decisions[0].verdict) == (
        True,
        None,
        "no better than its twin",
    )
    blind = Gate([Threshold("m", 0.90)]).judge({"m": rate(400, 400)}, above_twin={"m": False})
    assert (blind.passed, blind.decisions[0].twin) == (True, None), "a gate that does not read the twin"


def test_verdicts_of_gates_goals_and_ungated_measures_have_their_words():
    def verdict(successes, **threshold):
        measure = rate(successes, 400, floors={"a rule": 0.93})
        return Gate([Threshold("m", 0.90, **threshold)]).judge({"m": measure})

    assert [verdict(n).verdict for n in (400, 376, 340)] == ["passed", "passed, a rule does better", "failed"]
    assert verdict(376).passed
    assert [d.verdict for n in (400, 376, 340) for d in verdict(n, goal=True).decisions] == [
        "passed", "passed, a rule does better", "goal missed"
    ]  # fmt: skip
    assert "a rule does better: a rule 0.930" in verdict(376).reasons[0]
    assert "a rule does better" not in verdict(400).reasons[0]


@pytest.mark.parametrize("up", [True, False])
def test_a_bound_equal_to_the_floor_does_not_beat_it(up):
    gate, ends = Gate([Threshold("m", None, beats_floor=True)]), (0.0, 1.0) if up else (1.0, 0.0)

    def passes(floor):
        values = np.array([0.0, 1.0, 0.0, 1.0])
        exact = Measure("m", "u", values, *ends, {"a rule": floor}, exhaustive=True, higher_is_better=up)
        return gate.judge({"m": exact}).passed

    better = (0.49, 0.51)
    assert [passes(floor) for floor in (better[not up], 0.5, better[up])] == [True, False, False]


def test_copies_of_an_episode_count_as_one():
    values, episodes = np.r_[np.ones(300), np.zeros(100)], np.r_[np.full(300, 7), np.full(100, -3)]
    copies = Measure("m", "u", values, 0.0, 1.0, rate=True, episodes=episodes)
    assert (copies.n, copies.distinct, copies.score) == (400, 2, 0.5)
    assert copies.interval() == wilson(1, 2)
    assert not Gate([Threshold("m", 0.5)]).judge({"m": copies}).passed
    assert rate(300, 400).distinct == 400
    with pytest.raises(ExamError, match="one number for each value"):
        Measure("m", "u", values, 0.0, 1.0, episodes=episodes[1:])


@pytest.mark.parametrize(("n", "low"), [(24, 0.8575), (36, 0.9026), (400, 0.9908)])
def test_equal_values_are_bounded_by_clopper_pearson(n, low):
    # Clopper and Pearson's two-sided 95 % bound of n successes in n trials is the n-th root of 0.025.
    at_ceiling = Measure("m", "return", np.full(n, 500.0), 22.0, 500.0)
    bounds = at_ceiling.interval()
    assert bounds == pytest.approx((22 + 478 * low, 500.0), abs=0.05)
    errors = Measure("m", "error", np.zeros(n), 1.0, 0.0, higher_is_better=False)
    assert errors.interval() == pytest.approx((0.0, 1 - low), abs=1e-4)
    assert Measure("m", "u", np.full(n, 0.4), 0.0, 1.0).interval() == pytest.approx(
        (0.4 * low, 0.4 + 0.6 * (1 - low)), abs=1e-4
    )


def test_values_of_one_life_are_resampled_together():
    rng = np.random.default_rng(0)
    lives = np.repeat(np.arange(12), 20)
    values = rng.normal(0, 1, 12)[lives] + rng.normal(0, 0.1, 240)
    alone, together = (Measure("m", "u", values, -3.0, 3.0, groups=groups).interval(20_000) for groups in (None, lives))
    # Student's interval of twelve means, whose quantile at 11 degrees of freedom is 2.201.
    half = 2.201 * values.reshape(12, 20).mean(1).std(ddof=1) / np.sqrt(12)
    assert (together[1] - together[0]) / 2 == pytest.approx(half, rel=0.08)
    assert together[1] - together[0] > 3 * (alone[1] - alone[0])


def in_groups(wrong: int, groups: int, n: int = 200) -> Measure:
    values = np.ones(n)
    values[np.linspace(0, n - 1, wrong).astype(int)] = 0.0
    return Measure("m", "u", values, 0.0, 1.0, rate=True, groups=np.arange(n) * groups // n)


@pytest.mark.parametrize(("groups", "values"), [(200, 200), (50, 192.6), (10, 152.0), (2, 4.8)])
def test_equal_values_of_few_groups_count_as_fewer_values(groups, values):
    # 200 times the squared ratio of Student's quantiles at 199 and at (groups - 1) degrees of freedom.
    assert in_groups(0, groups).interval()[0] == pytest.approx(wilson(values, values)[0], abs=2e-3)
    changes = Measure("m", "u", np.zeros(200), -1.0, 0.0, groups=np.arange(200) * groups // 200)
    assert changes.interval()[0] == pytest.approx(0.025 ** (1 / values) - 1, abs=2e-3)


def test_one_more_right_value_never_lowers_the_bound_of_a_grouped_rate():
    lows = [in_groups(wrong, 10).interval()[0] for wrong in range(12)]
    assert lows == sorted(lows, reverse=True)
    assert all(low <= wilson(200 - wrong, 200)[0] for wrong, low in enumerate(lows))


def test_values_alike_within_groups_count_once():
    values = np.repeat(np.r_[np.ones(45), np.zeros(5)], 40)
    alike = Measure("m", "u", values, 0.0, 1.0, rate=True, groups=np.arange(2000) // 40)
    assert alike.interval() == pytest.approx(wilson(45, 50), abs=0.005)
    apart = Measure("m", "u", values, 0.0, 1.0, rate=True, groups=np.arange(2000))
    assert apart.interval() == pytest.approx(wilson(1800, 2000))


def test_bounds_of_grouped_rates_seldom_lie_beyond_the_truth():
    # Groups with rates of a beta distribution around 0.95, whose values correlate by 0.1.
    rng, groups, above, trials = np.random.default_rng(5), np.repeat(np.arange(20), 10), 0, 400
    for _ in range(trials):
        values = (rng.random(200) < rng.beta(0.95 * 9, 0.05 * 9, 20)[groups]).astype(float)
        low, _ = Measure("m", "u", values, 0.0, 1.0, rate=True, groups=groups).interval()
        above += low > 0.95
    assert above / trials < 0.05  # 0.025 is promised; a bootstrap of whole groups has 0.08


def loses(one_in, all_of):
    before = np.ones(all_of)
    after = np.where(np.arange(all_of) % one_in == 0, 0.0, 1.0)
    return tuple(Measure("m", "u", values, 0.0, 1.0) for values in (before, after))


def test_retention_is_also_decided_by_its_bound():
    # One episode of sixty falls from the ceiling to chance: the mean is -0.017, and the bound is below -0.05.
    before, after = loses(60, 60)
    found = retention(before, after)
    assert found.change == pytest.approx(-1 / 60)
    assert found.change >= -0.02
    assert found.low < -0.05
    assert not found.kept
    many = retention(*loses(60, 6000))
    assert many.change == pytest.approx(-1 / 60)
    assert many.kept


@pytest.mark.parametrize(("one_in", "kept"), [(51, True), (48, False)])
def test_retention_allows_a_loss_of_two_hundredths(one_in, kept):
    assert retention(*loses(one_in, 48 * 51 * 10)).kept == kept


def test_retention_pairs_episodes_instead_of_sorting_them():
    # As many episodes win as lose: the means are equal, and only the pairs show the uncertainty.
    rng = np.random.default_rng(1)
    before = rng.permutation(np.r_[np.ones(50), np.zeros(50)])
    after = rng.permutation(before)
    found = retention(Measure("m", "u", before, 0.0, 1.0), Measure("m", "u", after, 0.0, 1.0))
    assert found.change == 0
    half = 1.96 * (after - before).std() / 10
    assert found.low == pytest.approx(-half, abs=0.03)
    assert not found.kept
    assert retention(Measure("m", "u", before, 0.0, 1.0), Measure("m", "u", before, 0.0, 1.0)).kept


def test_retention_does_not_pair_positions_that_the_agent_chose_itself() -> None:
    # The same ten positions in another order, three of them copies: each was answered as before, so nothing changed.
    values, episodes = np.r_[np.ones(5), np.zeros(5), np.ones(3)], np.r_[np.arange(10), 0, 1, 2]
    before = Measure("m", "u", values, 0.0, 1.0, episodes=episodes)
    after = replace(before, values=values[::-1], episodes=episodes[::-1])
    found = retention(before, after)
    assert found.change == 0
    # Two independent means of ten values; Student's quantile at 9 degrees of freedom is 2.262.
    assert found.low == pytest.approx(-2.262 * values[:10].std(ddof=1) * np.sqrt(2 / 10), abs=0.08)
    assert retention(before, before).low == 0
    fewer = replace(after, values=values[:12], episodes=-episodes[:12])
    assert retention(before, fewer).change == 0


def test_a_twin_of_other_positions_is_not_compared_pair_by_pair() -> None:
    wrong, more = np.r_[np.zeros(90), np.ones(10)], np.r_[np.ones(40), np.zeros(60)]
    own = Measure("m", "u", wrong, 1.0, 0.0, higher_is_better=False, episodes=np.arange(100))
    twin = replace(own, values=more, episodes=np.arange(100) + 50)
    found = differences({"m": own}, {"m": twin}, 2000)["m"]
    assert found["gained"] == pytest.approx(0.3)
    half = 1.984 * np.sqrt((0.09 + 0.24) / 100)
    assert (found["low"], found["high"]) == pytest.approx((0.3 - half, 0.3 + half), abs=0.02)
    assert found["significant"]


def test_percentiles_of_few_units_are_those_of_students_quantiles() -> None:
    # Student's quantiles at 11 and 3 degrees of freedom, by a variance that divides by n instead of n - 1.
    for n, quantile in ((12, 2.20099), (4, 3.18245)):
        tail = NormalDist().cdf(-quantile * (n / (n - 1)) ** 0.5)
        assert bootstrap_percentiles(n) == pytest.approx((tail, 1 - tail), rel=1e-3)
    assert bootstrap_percentiles(1) == (0.025, 0.975)
    assert bootstrap_percentiles(10**6) == pytest.approx((0.025, 0.975), abs=1e-5)


def test_of_unpaired_measures_the_one_of_fewer_groups_says_how_far_out_the_bounds_lie() -> None:
    many = Measure("m", "u", np.zeros(100), 0.0, 1.0)
    four = replace(many, values=np.repeat([0.1, 0.3, 0.5, 0.7], 25), groups=np.repeat(np.arange(4), 25))
    for before, after, change in ((many, four, 0.4), (four, many, -0.4)):
        # So few groups are resampled to nothing further out than the outermost of them.
        found = unpaired_change(before, after, lambda measure: measure.values, 5000, "few")
        assert found == pytest.approx((change, change - 0.3, change + 0.3), abs=1e-9)


def test_retention_of_exhaustive_measures_compares_exact_means() -> None:
    before = Measure("games", "not lost", np.array([1.0] * 99 + [0.0]), 0.0, 1.0, rate=True, exhaustive=True)
    after = Measure("games", "not lost", np.array([1.0] * 48 + [0.0] * 2), 0.0, 1.0, rate=True, exhaustive=True)
    kept = retention(before, after)
    assert (round(kept.change, 6), kept.low, kept.kept) == (-0.03, kept.change, False)
    assert retention(before, before).kept
