"""Lives of doubles: one sense alone tells no more than half of the things, both tell all of them."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from devmind.agent.agent import Agent
from devmind.curriculum.stage import Context
from devmind.seeding import EXAM_SEEDS_FROM, exam_seeds
from devmind.testing import tiny_agent, tiny_context
from devmind.worlds.nursery.looks import left_out
from devmind.worlds.nursery.timbre import tone_hz
from stages.memory import parts
from stages.memory.recall import doubles as made
from stages.memory.recall import exam
from stages.memory.recall.doubles import BY_ONE_SENSE, GROUP, Doubles, doubles
from stages.memory.recall.things import BOTH, NAMES, Lives, lives, looks, nearest_raw
from tests.stages import exam_players
from tests.stages.exam_players import heard_as, seen_as

THINGS = exam.THINGS


@pytest.fixture(scope="module")
def agent() -> Agent:
    agent = tiny_agent()
    for sense in ("sight", "sound", "words"):
        agent.add_encoder(sense)
    parts.admit(agent)
    return agent.eval()


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return tiny_context(tmp_path, "exam.episodes_scale=0.1")


def of_exam(n: int) -> Doubles:
    return doubles(exam_seeds(n, 3, exam.DOUBLES), THINGS // GROUP, exam.STRANGERS)


def test_each_thing_has_one_double_for_the_eye_and_another_for_the_ear() -> None:
    of = of_exam(100)
    eye, ear = seen_as(of), heard_as(of)
    for each in (eye, ear):
        assert ((each[:, :, None] == each[:, None]).sum(-1) == 2).all()
    together = (eye[:, :, None] == eye[:, None]) & (ear[:, :, None] == ear[:, None])
    assert (together == np.eye(THINGS, dtype=bool)).all(), "both senses tell all twelve apart"
    assert left_out(of.shape, of.colour, of.texture).all(), "no lesson of names shows these looks"


def test_doubles_have_other_names_and_the_pitches_of_a_group_are_apart() -> None:
    of = of_exam(100)
    eye, ear, answer, hertz = seen_as(of), heard_as(of), of.answer[:, :THINGS], tone_hz(of.tone_m[:, :THINGS])
    for each in (eye, ear):
        double = (each[:, :, None] == each[:, None]) & ~np.eye(THINGS, dtype=bool)
        assert (answer != np.take_along_axis(answer, double.argmax(-1), 1)).all()
    double = (eye[:, :, None] == eye[:, None]) & ~np.eye(THINGS, dtype=bool)
    ratio = hertz / np.take_along_axis(hertz, double.argmax(-1), 1)
    assert (np.maximum(ratio, 1 / ratio) > made.APART - 1e-9).all()


def test_a_life_of_doubles_is_a_function_of_its_own_seed_and_no_other_life() -> None:
    of = of_exam(60)
    assert (of.seed >= EXAM_SEEDS_FROM).all()
    assert len(np.unique(of.episodes(THINGS))) == 60
    plain = Lives(**{field.name: getattr(of, field.name) for field in fields(Lives)})
    assert (plain.episodes(THINGS) == of.episodes(THINGS)).all(), "a lesson's life of these things would be found"
    alone = doubles(of.seed[7:8], THINGS // GROUP, exam.STRANGERS)
    assert alone.episodes() == of.part(7, 8).episodes()
    np.testing.assert_array_equal(alone.pitch_m, of.first(8).pitch_m[7:])
    first = np.bincount(of.answer[:, 0], minlength=len(NAMES))
    assert (first > 0).all(), "any name may be the first"


def test_a_look_shows_the_size_and_sounds_the_pitch() -> None:
    """Of two things that sound alike and differ in colour the sound is one; of two that look alike the picture is."""
    of = of_exam(1)
    eye, ear = seen_as(of)[0], heard_as(of)[0]
    like = [int(np.flatnonzero((each == each[0]) & (np.arange(THINGS) > 0))[0]) for each in (eye, ear)]
    # The same look seed stands at place 0, so each thing is put there in turn.
    first, for_eye, for_ear = (
        {sense: value[0, 0] for sense, value in looks(of, np.array([[thing]]), "one").items()} for thing in (0, *like)
    )
    np.testing.assert_array_equal(first["sight"], for_eye["sight"])
    assert not np.array_equal(first["sound"], for_eye["sound"])
    np.testing.assert_allclose(first["sound"], for_ear["sound"], atol=0.02)
    assert not np.array_equal(first["sight"], for_ear["sight"])
    plain = lives(of.seed, 12)
    np.testing.assert_array_equal(plain.tone_m, plain.size_m)


def test_the_nearest_raw_look_needs_both_senses() -> None:
    of = of_exam(40)
    kept, seen = exam._met(of)
    right = {
        senses: (nearest_raw({s: seen[s] for s in senses}, {s: kept[s] for s in senses}) == np.arange(2)).mean()
        for senses in (BOTH, ("sight",), ("sound",))
    }
    assert right[BOTH] > 0.7
    for sense in BOTH:
        assert right[sense,] <= BY_ONE_SENSE + 0.15, "80 questions"


def test_who_knows_both_senses_reaches_the_ceiling_and_by_one_is_right_in_half(
    agent: Agent, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exam, "DOUBLED", 2000)
    exam_players.tell_doubles(monkeypatch, np.arange)
    monkeypatch.setattr(exam, "_by_one", lambda *given: 0.0)
    monkeypatch.setattr(exam, "_without_learning", lambda *given: {})
    found = exam._of_doubles(agent, context, "")
    assert found.score == found.ceiling == 1.0
    assert found.distinct == found.n == 200
    for sense in BOTH:
        assert abs(found.rows[f"both, by {sense} alone"] - BY_ONE_SENSE) < 0.12, "200 questions"


def test_lives_of_doubles_are_measured_in_full_exams_without_a_gate(agent: Agent, context: Context) -> None:
    found = exam._of_doubles(agent, context, "twelve things")
    assert found.n == 20
    assert found.name not in {threshold.measure for threshold in exam.GATE.thresholds}
    assert set(found.floors) == {
        "name of the nearest key",
        *(f"name of the nearest key by {sense} alone" for sense in BOTH),
        "name of the nearest key, untaught",
        "name of the nearest raw picture and sound",
        "name of the nearest raw sound",
    }
    assert found.floors["name of the nearest key"] > 2 * found.chance, "with the keys of an untaught agent"
    assert found.floors["name of the nearest raw picture and sound"] > 0.7
    by_one = [found.floors[f"name of the nearest key by {sense} alone"] for sense in BOTH]
    assert all(0.2 < share <= BY_ONE_SENSE + 0.25 for share in by_one), "40 questions"
    assert "50%" in found.note
