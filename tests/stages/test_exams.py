"""The laws of every exam of every installed stage: its episodes, players that reach or miss the ceiling."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from devmind import plugins
from devmind.agent.agent import Agent
from devmind.curriculum.exam import Exam, Measure
from devmind.curriculum.examining import Examined, examine_skill
from devmind.curriculum.stage import Context, Skill, Stage
from devmind.testing import check_episodes, tiny_agent, tiny_context
from devmind.worlds import minigrid
from devmind.worlds.nursery import hiding
from stages.memory import lessons, short_term
from stages.memory.fetch import exam as fetch
from stages.memory.match import exam as match
from stages.memory.maze import exam as maze
from stages.memory.permanence import exam as permanence
from stages.reflex.orient import exam as orient
from tests.stages import exam_players
from tests.stages.exam_players import players
from tests.stages.floors import held_to_the_floors, told_in_life

STAGES: dict[str, Stage] = {
    name: plugins.load("stages", name)()
    for name, plugin in plugins.available("stages").items()
    if plugin.distribution == "devmind"
}
SKILLS = [(stage, skill) for stage in STAGES.values() for skill in stage.skills]
SLOW = ("sleep",)
EPISODES_HERE = (
    *("hear", "see", "bind", "foresee", "match", "grammar", "name", "explain", "criticise"),
    *("hear_words", "sounds"),
)
"""Skills of every stage whose glimpses take little: of all others the law check of whole stages looks alone at the
episodes, among 10,000 of lessons (`tests/test_testing_stages.py`)."""
DEAR = ("sleep", "track", "orient", "reach", "startle", "permanence", "puzzles", "recall", "maze", "values", "route")
DEAR += ("replan", "arrange", "manipulate", "trade", "follow", "instruct", "navigate", "sliding", "fetch")
DEAR += ("memory_len", "speak_answer", "say", "echo", "hear", "imagine", "converse")
"""Skills whose exam of an untaught agent takes so long that it is looked at where the law check of whole stages holds
it anyway (`tests/test_testing_stages.py`)."""
UNTAUGHT_ELSEWHERE = {
    skill.name
    for stage, skill in SKILLS
    if any(f'held_to_the_floors("{skill.name}"' in text for text in exam_players.own_tests(stage.name, skill.name))
}
"""Skills whose exam of an untaught agent is held once, by tests of their own that look at its rows as well."""


def of(names: Collection[str] | None = None, slow: tuple[str, ...] = SLOW) -> pytest.MarkDecorator:
    """Parametrize by (stage, skill), all skills or those of `names`."""
    return pytest.mark.parametrize(
        ("stage", "skill"),
        [
            pytest.param(stage, skill, id=skill.name, marks=[pytest.mark.slow] * (skill.name in slow))
            for stage, skill in SKILLS
            if names is None or skill.name in names
        ],
    )


@pytest.fixture(scope="module")
def agent() -> Agent:
    """An untaught agent with the parts of every stage."""
    agent = tiny_agent()
    for name in ("reflex", "memory", "language", "reasoning", "planning", "voice"):
        STAGES[name].admit(agent)
        agent.config.stages = [*agent.config.stages, name]
    return agent.eval()


def context_of(folder: Path, scale: float = 0.1) -> Context:
    return tiny_context(folder, f"exam.episodes_scale={scale}")


def scores(found: Mapping[str, Measure]) -> dict[str, tuple[float, float]]:
    """Score and ceiling of each measure."""
    return {name: (round(measure.score, 4), measure.ceiling) for name, measure in found.items()}


@of(EPISODES_HERE)
def test_an_exam_has_distinct_episodes_that_no_lesson_shows(
    stage: Stage, skill: Skill, agent: Agent, tmp_path: Path
) -> None:
    check_episodes(skill, agent, context_of(tmp_path), 300)  # the stages' own law check looks at 10,000


def test_every_skill_has_a_player_that_knows_the_answers() -> None:
    for stage, skill in SKILLS:
        texts = exam_players.own_tests(stage.name, skill.name)
        assert skill.name in players() or any("shuffle" in text for text in texts), (
            f"no test of '{skill.name}' has a player that knows the answers and, shuffled, falls; write one in "
            f"tests/stages/{stage.name}/, or add one to exam_players.players"
        )


def examined(stage: Stage, skill: Skill, agent: Agent, context: Context, turn, measures_of=Exam.in_full):
    with pytest.MonkeyPatch.context() as patch:
        players()[skill.name](patch, context, turn)
        return examine_skill(stage, skill, agent, context, measures_of)


@pytest.fixture(scope="module")
def known(agent: Agent, tmp_path_factory: pytest.TempPathFactory) -> Callable[[Stage, Skill], Examined]:
    """The full exam of a player that knows the answers, by skill; held once for all tests."""

    @cache
    def held(name: str) -> Examined:
        ((stage, skill),) = (one for one in SKILLS if one[1].name == name)
        return examined(stage, skill, agent, context_of(tmp_path_factory.mktemp(name)), np.arange)

    return lambda stage, skill: held(skill.name)


REACHED = {
    "track": 0.8,  # the first ticks count, before any gaze can arrive
    "reach": 0.9,
    "recall/both senses": 1.0,
    "recall": 0.9,  # an untaught agent's keys find most entries
    "see/unknown": 0.5,  # the readers learn from an untaught eye; the player speaks for the heads alone
}
"""What the player reaches where it is not quite the ceiling."""


@of(players(), slow=("startle", "track", "see", "permanence", "recall", "orient"))
def test_known_answers_reach_the_ceiling_and_shuffled_answers_fall(
    stage: Stage, skill: Skill, agent: Agent, tmp_path: Path, known: Callable[[Stage, Skill], Examined]
) -> None:
    best = known(stage, skill)
    for name, measure in best.measures.items():
        if name.endswith("/memory"):
            continue  # memory adds nothing where it is not needed
        span = measure.ceiling - measure.chance
        wanted = REACHED.get(name, REACHED.get(name.split("/")[0], 1.0))
        assert (measure.score - measure.chance) / span >= wanted - 1e-6, f"{name}: {scores(best.measures)}"
    # Each row gets the answer of another row, always the same one.
    rng, context = np.random.default_rng(5), context_of(tmp_path)
    shuffled = examined(stage, skill, agent, context, rng.permutation)
    for name, measure in shuffled.measures.items():
        if name.endswith("/beliefs"):
            continue  # two shuffled answers differ by 0.1 in 40 rooms, as places are seldom alike there
        sign = 1 if measure.higher_is_better else -1
        low, high = measure.interval()
        bound = low if sign > 0 else high
        floor = measure.floor if sign > 0 else min(measure.floor, measure.chance)
        assert sign * (bound - floor) <= 0.02, f"{name}: {measure.score:.3f} [{low:.3f}, {high:.3f}], floor {floor:.3f}"
        if name in {threshold.measure for threshold in skill.gate_in(context).thresholds}:
            decision = next((d for d in shuffled.verdict.decisions if d.measure == name), None)
            assert decision is None or not decision.passed, decision


@pytest.mark.parametrize("stage", STAGES)
def test_a_stages_page_says_of_every_skill_whether_a_life_uses_it(stage: str) -> None:
    assert told_in_life(stage).keys() == {skill.name for skill in STAGES[stage].skills}


@of([skill.name for _, skill in SKILLS if skill.name not in UNTAUGHT_ELSEWHERE.union(DEAR)])
def test_an_untaught_agent_stays_at_the_floors(stage: Stage, skill: Skill, agent: Agent, tmp_path: Path) -> None:
    held_to_the_floors(skill.name, agent, tmp_path)


OFF = {
    "memory_len": {"memory_len": [short_term.SHORT_OFF]},
    "maze": {maze.T_MAZE: [short_term.SHORT_OFF]},
    "repeat_previous": {"repeat_previous": [short_term.SHORT_OFF]},
    "recall": {"recall": ["memory off", "short-term only"]},
    "permanence": {"permanence/unmoved": [permanence.SHORT, permanence.OFF]},
    "fetch": {fetch.BY_TRUNK: [fetch.OFF, fetch.DEAF]},
    "match": {name: [match.OFF] for name in ("match/seen", "match/heard")},
}
"""By skill and measure the rows in which what its player lives by is off."""


@of(OFF)
def test_a_player_that_relies_on_memory_is_at_chance_without_it(
    stage: Stage, skill: Skill, known: Callable[[Stage, Skill], Examined]
) -> None:
    best = known(stage, skill)
    for name, rows in OFF[skill.name].items():
        measure = best.measures[name]
        for row in rows:
            assert measure.rows[row] <= measure.chance + 0.25 * (measure.ceiling - measure.chance), (name, row)
    if skill.name == "permanence":
        assert best.measures["permanence/unmoved"].rows[permanence.LONG] == 1.0


@pytest.mark.parametrize(("at", "right"), [(hiding.BEFORE_LOOKING, 1.0), (hiding.AFTER_LOOKING, 0.0)])
def test_permanence_is_asked_while_the_thing_is_out_of_sight(
    agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int, right: float
) -> None:
    exam_players.hide(monkeypatch, np.arange, (at,))
    unmoved, *_ = permanence.examine(agent, context_of(tmp_path).glimpse()).alone()
    assert unmoved.score == right


def test_orient_is_judged_by_the_final_gaze(agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Passing:
        """Turns to the target, and away in the last tick."""

        def __init__(self) -> None:
            self.tick = 0

        def __call__(self, truth, first):
            self.tick += 1
            last = self.tick == orient.TICKS
            return {"look": np.ones((len(first), 2), np.float32)} if last else exam_players.turn_to(truth, first)

    exam_players.acting(Passing, orient)(monkeypatch, context_of(tmp_path), np.arange)
    for measure in orient.examine(agent, context_of(tmp_path).glimpse()).alone():
        assert measure.score < 0.3, measure.name


@pytest.mark.parametrize("nowhere", [(0.3, 0.0), (0.05, 0.0), (0.015, 0.0)])
def test_orient_requires_rest_without_a_target(
    agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nowhere: tuple[float, float]
) -> None:
    """Finding every target but turning slightly where there is none passes all cues and not this one; a third of a
    degree a tick counts as rest.
    """

    def restless(truth, first):
        look = exam_players.turn_to(truth, first)["look"]
        return {"look": np.where((truth["target"] < 0)[:, None], np.float32(nowhere), look)}

    exam_players.acting(lambda: restless, orient)(monkeypatch, context_of(tmp_path), np.arange)
    rests = max(nowhere) < 0.02
    exam = orient.examine(agent, context_of(tmp_path))
    found = {measure.name: measure for measure in (exam.in_full() if rests else exam.alone())}
    assert found["orient/sight"].score == 1.0
    for name in (orient.REST, f"{orient.REST}/look_trunk"):
        assert found[name].score == float(rests)
    if rests:  # floors do not depend on who is examined
        floors = found[orient.REST].floors
        assert floors["hold still"] == 0.0, "who never turns finds nothing"
        assert floors["turn to the oddest blob"] < 0.95


def test_resting_alone_does_not_pass_orient(agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exam_players.acting(lambda: lambda truth, first: {}, orient)(monkeypatch, context_of(tmp_path), np.arange)
    found = {measure.name: measure for measure in orient.examine(agent, context_of(tmp_path).glimpse()).alone()}
    assert "at rest in 1.000" in found[orient.REST].note
    assert found[orient.REST].score == found[f"{orient.REST}/look_trunk"].score == 0.0


@pytest.mark.parametrize(("skill", "moments"), [("memory_len", 101), ("maze", 101)])
def test_exams_ask_for_longer_memory_than_any_lesson(
    agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, skill: str, moments: int
) -> None:
    monkeypatch.setattr(exam_players.Remembering, "longest", 0)
    monkeypatch.setattr(minigrid, "minigrid_installed", lambda: False)
    stage = STAGES["memory"]
    (one,) = (found for found in stage.skills if found.name == skill)
    examined(stage, one, agent, context_of(tmp_path).glimpse(), np.arange, Exam.alone)
    assert exam_players.Remembering.longest == moments
    context = context_of(tmp_path)
    nursery = replace(context, config=context.config.model_copy(update={"size": "nursery"}))
    assert lessons._longest(nursery, 1.0) == short_term.LONGEST_TAUGHT == 60
