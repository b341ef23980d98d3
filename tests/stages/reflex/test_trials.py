"""The motor exams, and the hand rules that are printed beside them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch

from devmind import worlds
from devmind.acting import Policy
from devmind.acting.carts import balance_ticks
from devmind.agent.agent import Agent
from devmind.agent.config import AgentConfig
from devmind.agent.output import Categorical
from devmind.config import load
from devmind.curriculum.exam import Measure
from devmind.curriculum.gate import Gate
from devmind.curriculum.stage import Context
from devmind.seeding import EXAM_SEEDS_FROM, exam_seeds
from stages.reflex import hand_rules, trials
from stages.reflex.balance import exam as balance
from stages.reflex.bind import exam as bind
from stages.reflex.reach import exam as reach
from stages.reflex.startle import exam as startle
from tests import turning


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return Context(load("tiny", sets=["exam.episodes_scale=0.02"]), 0, "cpu", tmp_path, worlds.make)


@pytest.fixture(scope="module")
def agent() -> Agent:
    agent = Agent(AgentConfig(size="tiny"))
    turning.admit(agent)
    return agent.eval()


ONE = np.ones(1, bool)


def reached(context: Context, level: str, make: Callable[[], Policy], n: int = 24) -> float:
    trial = trials.Trial(context, level, 10, exam_seeds(n, "test", level), lambda truth, actions: truth["error_deg"])
    return float((trial.play(make).watched[-1] <= 10).mean())


def test_a_red_square_is_located() -> None:
    sight = np.full((2, 64, 64, 3), 120, np.uint8)
    sight[0, 30:34, 30:34] = (215, 30, 30)
    sight[1, 0:4, 30:34] = (215, 30, 30)
    angle, share = hand_rules.oddest_blob(sight)
    np.testing.assert_allclose(angle[0], 0.0, atol=0.1)
    assert angle[1, 1] > 25
    assert abs(angle[1, 0]) < 0.1
    np.testing.assert_allclose(share, 16 / 64**2)


def test_oddness_is_the_distance_from_the_median_colour_to_the_bit() -> None:
    for shape, levels in (((3, 64, 64, 3), 256), ((2, 8, 12, 3), 4)):
        sight = np.random.default_rng(0).integers(0, levels, shape, np.uint8)
        colour = sight.astype(np.float32)
        chroma = colour - colour.mean(-1, keepdims=True)
        plain = np.abs(chroma - np.median(chroma, axis=(1, 2), keepdims=True)).sum(-1)
        np.testing.assert_array_equal(hand_rules.oddness(sight), plain)


def test_a_rule_without_a_bound_on_growth_looks_at_no_blob(monkeypatch: pytest.MonkeyPatch) -> None:
    quiet, loud = np.full((1, 2, 1600), 0.01, np.float32), np.full((1, 2, 1600), 0.5, np.float32)
    sight = np.zeros((1, 64, 64, 3), np.uint8)
    monkeypatch.setattr(hand_rules, "oddest_blob", lambda sight: pytest.fail("nobody asked for it"))
    rule = hand_rules.LoudOrGrowing(larger=np.inf)
    moves = [
        rule({"sight": sight, "sound": sound}, np.array([tick == 0]))["move"].item()
        for tick, sound in enumerate((quiet, quiet, loud))
    ]
    assert moves == [0.0, 0.0, -1.0]


def test_the_rule_turns_to_the_ear_that_hears_first() -> None:
    wave = np.random.default_rng(0).standard_normal(1700).astype(np.float32)
    left_first = np.stack([wave[50:1650], wave[45:1645]])[None]
    rule = hand_rules.LookAtSound()
    assert rule({"sound": left_first}, ONE)["look"][0, 0] == 1.0
    assert rule({"sound": left_first[:, ::-1]}, ONE)["look"][0, 0] == -1.0


@pytest.mark.parametrize("first_ear", ["left", "right"])
def test_the_rule_binds_a_sound_to_the_odd_colour_on_its_side(first_ear: str) -> None:
    sight = np.full((1, 64, 64, 3), 120, np.uint8)
    boxes = np.array([[4, 30, 12, 36], [50, 10, 60, 18]], np.float32)  # left, and right
    for (x0, y0, x1, y1), colour in zip(boxes.astype(int), [(215, 30, 30), (30, 60, 215)], strict=True):
        sight[0, y0:y1, x0:x1] = colour
    np.testing.assert_array_equal(hand_rules.odd_boxes(sight)[0], boxes[[1, 0]])  # from above
    wave = np.random.default_rng(0).standard_normal(4000).astype(np.float32)
    early, late = ((np.stack([wave[at : at + 1600], wave[at + 800 : at + 2400]])) for at in (54, 50))
    sound = np.stack([early, late] if first_ear == "left" else [late, early], 1)[None]
    chosen = hand_rules.sounding_box(sight, sound)
    np.testing.assert_array_equal(chosen[0], boxes[0 if first_ear == "left" else 1])
    assert (hand_rules.sounding_box(np.full_like(sight, 120), sound) == 0).all(), "where nothing is there is no box"


def test_the_rule_reaches_for_the_named_colour_and_rests_without_it(context: Context) -> None:
    seeds = exam_seeds(24, "test", "reach")
    trial = trials.Trial(context, "reach", reach.TICKS, seeds, reach.first_touch)
    assert reach.right(trial.play(hand_rules.ReachByColour)).mean() > 0.8
    nowhere = {"sight": np.full((1, 64, 64, 3), 120, np.uint8), "words": ["red"], "body": np.zeros((1, 12), np.float32)}
    np.testing.assert_array_equal(hand_rules.ReachByColour()(nowhere, ONE)["reach"][0, :3], 0.0)


def test_binding_needs_a_detected_thing_and_gets_no_true_box(
    context: Context, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A head that points at the right cell is wrong where the eye detects nothing or another thing."""
    seeds = exam_seeds(context.episodes(bind.EPISODES), context.seed, "bind")
    truth = bind.scenes(context, seeds, bind.TICKS)[1]
    rows = np.arange(len(seeds))
    boxes = truth["boxes"][:, :4]
    asked = boxes[rows, truth["target"]]
    cell = (bind.centres(asked) // bind.CELL_PX).astype(int)
    pointed = torch.from_numpy(cell[:, 1] * bind.CELLS + cell[:, 0])
    logits = torch.nn.functional.one_hot(pointed, bind.CELLS**2).float()[:, None] * 50
    told = {head: Categorical(logits) for head in ("bind", "bind_trunk")}
    monkeypatch.setattr("devmind.agent.agent.Agent.__call__", lambda agent, batch, heads: told)
    for found, share in (
        (list(boxes), 1.0),
        ([each[[at]] for each, at in zip(boxes, (truth["target"] + 1) % 4, strict=True)], 0.0),
        ([np.zeros((0, 4), np.float32)] * len(seeds), 0.0),
    ):
        monkeypatch.setattr(bind, "detect_boxes", lambda agent, sight, found=found: found)
        assert {measure.score for measure in bind.examine(agent, context).in_full()} == {share}


@pytest.mark.parametrize(
    ("level", "rule", "least"),
    [("orient/sight", hand_rules.LookAtBlob, 0.6), ("orient/motion", hand_rules.LookAtChange, 0.6)],
)
def test_rules_on_the_senses_beat_holding_still(
    context: Context, level: str, rule: Callable[[], Policy], least: float
) -> None:
    assert reached(context, level, rule) > max(least, reached(context, level, hand_rules.HoldStill))


def test_the_rule_that_knows_the_truth_reaches_nearly_every_target(context: Context) -> None:
    trial = trials.Trial(context, "reach", 20, exam_seeds(24, "test", "reach"), reach.first_touch)
    assert (trial.play(hand_rules.ReachByTruth, with_truth=True).watched > 0).any(0).mean() > 0.95


def test_a_withdrawal_is_judged_by_the_truth_before_it() -> None:
    truth = {
        "tick": np.array([4, 5, 6, 7, 5, 5]),
        "event": np.array([1, 1, 1, 1, 0, 2]),
        "event_tick": np.array([5, 5, 5, 5, -1, 5]),
    }
    withdrawn = startle.withdrawal(truth, {"move": np.full((6, 1), -1.0)})
    resting = startle.withdrawal(truth, {"move": np.full((6, 1), -0.4)})
    nothing = startle.withdrawal(truth, {})
    a, q, x = startle.ALARM, startle.QUIET, startle.AFTER
    assert withdrawn.tolist() == [a, startle.ANSWERED, startle.ANSWERED, x, a, startle.ANSWERED]
    assert resting.tolist() == nothing.tolist() == [q, startle.MISSED, startle.MISSED, x, q, startle.MISSED]


def test_startle_has_as_many_events_as_requested(context: Context) -> None:
    seeds = startle.startle_seeds(context, 10)
    events = worlds.make("nursery", "startle", seeds).state().event
    assert (events != 0).sum() == 10
    assert (events == 0).any()
    assert seeds.min() >= EXAM_SEEDS_FROM


def test_a_disabled_sense_is_absent_and_answers_are_counted_by_head(agent: Agent) -> None:
    senses = worlds.make("nursery", "orient/sight", np.arange(3)).observe()
    opening = np.ones(3, bool)
    whole, blind = trials.arcs(agent, "look"), trials.arcs(agent, "look", ["sight"])
    with torch.inference_mode():
        turns = whole(senses, opening), blind(senses, opening)
    assert not np.array_equal(turns[0]["look"], turns[1]["look"])
    assert whole.answered["look"]["look_arc"] == blind.answered["look"]["look_arc"] == 3
    changed = senses | {"sight": 255 - senses["sight"]}
    with torch.inference_mode():
        assert np.array_equal(blind(changed, opening)["look"], turns[1]["look"])


@pytest.mark.parametrize(
    ("examine", "gate"),
    [
        (startle.examine, startle.GATE),
        (balance.examine, balance.GATE),
    ],
)
def test_every_exam_gives_the_measures_of_its_gate(
    agent: Agent, context: Context, examine: Callable[..., list], gate: Gate
) -> None:
    with torch.inference_mode():
        measures = {measure.name: measure for measure in examine(agent, context).in_full()}
    gives_the_measures_of(gate, measures)


def gives_the_measures_of(gate: Gate, measures: dict[str, Measure]) -> None:
    """A full exam of an untaught agent; those of looks and tones hold those of other skills (`test_left_out.py`)."""
    assert set(measures) == {threshold.measure for threshold in gate.thresholds}
    assert all(measure.floors and measure.n >= 4 for measure in measures.values())
    verdict = gate.judge(measures, 100)
    assert not verdict.passed
    assert not any("not measured" in reason for reason in verdict.reasons)


def test_balance_equals_gymnasiums_cart_pole() -> None:
    env = gymnasium.make("CartPole-v1")
    wanted = []
    for seed in (5, 6):
        env.reset(seed=seed)
        total, over = 0.0, False
        while not over:
            _, reward, terminated, truncated, _ = env.step(1)
            total, over = total + reward, terminated or truncated
        wanted.append(total)
    played = balance_ticks(np.array([5, 6]), lambda senses, first: {"push": np.ones(len(first), np.int64)})
    assert played.tolist() == wanted


def test_only_the_first_touch_counts(agent: Agent, context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    touches = np.array([[0, 0, 1], [-1, 1, -1], [1, -1, 0]])
    played = trials.Played(touches, *(np.zeros((3, 64, 64, 3), np.uint8),) * 2)
    monkeypatch.setattr(trials.Trial, "play", lambda *args, **kwargs: played)
    monkeypatch.setattr(trials.Trial, "episodes", np.arange(3))
    for measure in reach.examine(agent, context.glimpse()).alone():
        assert measure.values.tolist() == [0.0, 1.0, 1.0]


def test_nearest_labels_take_the_majority_for_any_batch_size() -> None:
    taught = np.array([[0.0], [1.0], [1.2], [5.0], [6.0], [7.0]]) + 100
    labels, asked = np.array([4, 2, 2, 7, 8, 9]), np.array([[0.3], [5.9], [4.0], [0.9]]) + 100
    for at_once in (2, 256):  # two of three outvote the nearest; of three different labels the nearest wins
        np.testing.assert_array_equal(hand_rules.nearest_labels(taught, labels, asked, at_once), [2, 8, 7, 2])
    from sklearn.neighbors import KNeighborsClassifier

    rng = np.random.default_rng(0)
    x, y, z = rng.normal(size=(200, 6)), rng.integers(0, 2, 200), rng.normal(size=(50, 6))
    known = KNeighborsClassifier(hand_rules.NEIGHBOURS).fit(x, y).predict(z)  # of two classes three never tie
    np.testing.assert_array_equal(hand_rules.nearest_labels(x, y, z), known)
