"""The laws of a stage: its five members, what it adds to an agent, its lessons and its exams."""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np

from devmind.errors import ConfigError
from devmind.plugins import Plugin
from devmind.seeding import EXAM_SEEDS_FROM
from devmind.testing.fakes import tiny_agent, tiny_context
from devmind.testing.laws import require
from devmind.testing.parts import check_learner, check_rehearsed, hash_after_lesson

if TYPE_CHECKING:
    from devmind.agent.agent import Agent
    from devmind.curriculum.exam import Exam, Measure
    from devmind.curriculum.stage import Batches, Context, Lesson, Skill

LESSON_EPISODES = 10_000
"""Episodes of lessons that are compared with those of an exam."""
SHARED = 0.01
"""The largest share of an exam's episodes that may be among them."""
FEWER = 0.5
"""Share of its episodes that an exam has in the checks of its measures, its repetition and its episodes."""


InFull = Callable[["Skill", Mapping[str, "Measure"]], None]


def check_stage(
    stage: Any, *, make_world: Callable[..., Any] | None = None, steps: int = 3, in_full: InFull | None = None
) -> None:
    """Check the laws of a stage at size tiny: a few steps of every lesson, every exam with few episodes.

    Args:
        stage: an instance of the stage.
        make_world: replaces `devmind.worlds.make` if the stage's worlds are not installed as plugins.
        steps: optimizer steps of each lesson.
        in_full: what else is asked of a skill and the measures of its full exam, of an untaught agent.

    Raises:
        BrokenLawError: the first law that does not hold, with what was found.
    """
    from devmind.curriculum.stage import Batches
    from devmind.curriculum.start import load_stage

    _check_members(stage)
    with tempfile.TemporaryDirectory() as folder, _all_by_rollout_only():
        context = tiny_context(Path(folder), make_world=make_world)
        context = replace(context, make_world=_by_rollout_only(context.make_world))
        agent = tiny_agent(context.seed)
        earlier = [load_stage(name) for name in stage.requires]
        for one in earlier:
            one.admit(agent)
        _check_admission(stage, agent, Path(folder, "agent"))
        # As in a run: the agent is in the stage, which decides what a learner may train.
        agent.config.stages = [*(one.name for one in earlier), stage.name]
        lessons, kept = list(stage.lessons(context)), dict[str, Batches]()
        _check_lessons(stage, lessons)
        for number, lesson in enumerate(lessons):
            check_learner(lesson, agent, context, steps=steps)
            check_rehearsed(lesson, agent, context)
            _check_among_rehearsals(lesson, lessons[:number], earlier, agent, context, kept)
        for skill in stage.skills:
            full = check_skill(skill, agent, context)
            if in_full is not None:
                in_full(skill, full)


def _by_rollout_only(make_world: Callable[..., Any]) -> Callable[..., Any]:
    """As `make_world`, but steps outside of a rollout break the law, as exam and life would become two programs."""

    def made(name: str, level: str, seeds: Any, *args: Any, **kwargs: Any) -> Any:
        world = make_world(name, level, seeds, *args, **kwargs)
        world.step = _watched(world.step, name)
        return world

    return made


def _watched(step: Callable[..., Any], name: str) -> Callable[..., Any]:
    from devmind.acting import is_rolling

    def watched(*args: Any) -> Any:
        law = "worlds are stepped by devmind.acting.rollout, in lessons and exams"
        require(is_rolling(), law, f"world '{name}' was stepped by hand: let a policy act, rollout(policy, world)")
        return step(*args)

    return watched


@contextmanager
def _all_by_rollout_only() -> Iterator[None]:
    """A block in which the same holds for worlds made without `make_world`, also single ones side by side."""
    from devmind.worlds.adapter import VectorWorld
    from devmind.worlds.side_by_side import SideBySide

    with ExitStack() as stack:
        for kind in (VectorWorld, SideBySide):
            stack.enter_context(mock.patch.object(kind, "step", _watched(kind.step, kind.__name__)))
        yield


def _check_members(stage: Any) -> None:
    from devmind.curriculum.start import MEMBERS

    for member in MEMBERS:
        require(hasattr(stage, member), f"a stage has five members, {', '.join(MEMBERS)}", f"no '{member}'")
    require(isinstance(stage.name, str) and stage.name.isidentifier(), "a stage's name is a word", repr(stage.name))
    texts = isinstance(stage.requires, tuple) and all(isinstance(name, str) for name in stage.requires)
    require(texts, "requires is a tuple of stage names", repr(stage.requires))
    require(stage.name not in stage.requires, "a stage does not require itself", repr(stage.requires))
    for skill in stage.skills:
        law = "a skill whose exam later stages do not sit again says why, in a sentence"
        require(_is_sentence(skill.unretained), law, f"skill '{skill.name}': '{skill.unretained}'")
    module = sys.modules.get(type(stage).__module__)
    if (table := getattr(stage, "part_classes", None)) is not None and module and module.__file__:
        where = f"{type(stage).__module__}:{type(stage).__name__}"
        written = Plugin("stages", stage.name, where, "", "").literal("part_classes")
        law = 'part_classes is a literal in the stage\'s class, part -> "module:Class"'
        require(written == table and all(":" in value for value in table.values()), law, repr(table))
    names = [skill.name for skill in stage.skills]
    require(bool(names) and len(set(names)) == len(names), "a stage has skills with names of their own", repr(names))


def _is_sentence(why: str) -> bool:
    return not why or (len(why.split()) > 2 and why.endswith("."))


def _check_admission(stage: Any, agent: Agent, folder: Path) -> None:
    before = {name: value.clone() for name, value in agent.state_dict().items()}
    names = {entry["name"] for entry in [*agent.config.encoders, *agent.config.heads]}
    stage.admit(agent)
    once = agent.sha256()
    after = agent.state_dict()
    changed = [name for name, value in before.items() if name not in after or not bool((after[name] == value).all())]
    require(not changed, "admit changes no weight that was there", f"{', '.join(changed[:3])} changed")
    added = [entry for entry in [*agent.config.encoders, *agent.config.heads] if entry["name"] not in names]
    # The parts of a newborn belong to its first stage; a later one would teach them as if they were another's.
    own = (stage.name,) if stage.requires else (stage.name, "newborn")
    foreign = [entry["name"] for entry in added if entry["stage"] not in own]
    advice = f"{', '.join(foreign)} of another stage; give `stage=self.name` to add_encoder and add_head"
    require(not foreign, "the parts a stage adds carry its name", advice)
    parts = [entry["name"] for entry in [*agent.config.encoders, *agent.config.heads]]
    stage.admit(agent)
    again = [entry["name"] for entry in [*agent.config.encoders, *agent.config.heads]]
    same = again == parts and agent.sha256() == once
    require(same, "admit is idempotent: twice is as once", f"parts {parts}, then {again}")
    agent.save_pretrained(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loaded = type(agent).from_pretrained(folder, strict=True)
    require(loaded.sha256() == once, "every part is saved and loaded by entry point", "other weights after loading")


def _check_lessons(stage: Any, lessons: Sequence[Lesson]) -> None:
    names = [lesson.name for lesson in lessons]
    require(bool(names) and len(set(names)) == len(names), "a stage has lessons with names of their own", repr(names))
    skills = {skill.name for skill in stage.skills}
    for number, lesson in enumerate(lessons):
        where = f"lesson '{lesson.name}'"
        require(lesson.steps >= 1, "a lesson's budget is a number of optimizer steps", f"{where}: {lesson.steps}")
        require(
            lesson.minutes > 0,
            "a lesson says the minutes its steps take on two cores of 100 GFLOP/s",
            f"{where}: {lesson.minutes}",
        )
        unknown = set(lesson.skills) - skills
        require(not unknown, "a lesson names skills of its stage", f"{where}: {', '.join(sorted(unknown))}")
        later = [name for name in lesson.rehearses if name not in names[:number]]
        require(not later, "a lesson rehearses lessons that were taught before it", f"{where}: {', '.join(later)}")


def _check_among_rehearsals(
    lesson: Lesson,
    before: Sequence[Lesson],
    earlier: Sequence[Any],
    agent: Agent,
    context: Context,
    kept: dict[str, Batches],
) -> None:
    """In turn a step of the lesson and one of each lesson that it rehearses; nothing without rehearsals.

    As in a run, expensive objects are made once for all lessons (`kept`).
    """
    from devmind.curriculum.rehearsal import rehearsals

    apart = replace(context, out=context.out / "among-rehearsals" / lesson.name)
    try:
        others = len(rehearsals(lesson, before, earlier, agent, apart, kept))
        if others:
            hash_after_lesson(
                lesson, agent, apart, others, every=2,
                rehearsal=lambda pupil: rehearsals(lesson, before, earlier, pupil, apart, kept),
            )  # fmt: skip
    except (RuntimeError, ConfigError) as error:
        advice = "where it trains nothing that they use, its learner's `trains` names the stage's own parts alone"
        law = "a lesson can be taught among rehearsals of what was taught before"
        require(False, law, f"lesson '{lesson.name}' raised '{error}'; {advice}")


def check_skill(skill: Skill, agent: Agent, context: Context) -> dict[str, Measure]:
    """Check the laws of one skill's exam: its measures, that it is repeatable, that the agent learns nothing in it, and
    that its episodes differ from each other and from those of lessons.

    Returns:
        The measures of its full exam, by name.

    Raises:
        BrokenLawError: the first law that does not hold, with what was found.
    """
    from devmind.curriculum.exam import Exam

    where, fewer = f"skill '{skill.name}'", _with_fewer_episodes(context)
    gate, weights = skill.gate_in(context), agent.sha256()
    require(bool(list(gate.thresholds)), "a skill has a gate with thresholds", f"{where} has none")
    full = _measured(skill, agent, fewer, Exam.in_full)
    for threshold in gate.thresholds:
        there = threshold.measure in full or threshold.when_absent == "skip"
        found = f"{where} measured {', '.join(full) or 'nothing'}, not '{threshold.measure}'"
        require(there, "a gate's thresholds are measured", found)
        if (measured := full.get(threshold.measure)) is not None:
            law = "a threshold says of its measure whether lower is better"
            require(threshold.lower_is_better != measured.higher_is_better, law, f"{where}, '{threshold.measure}'")
    for measure in full.values():
        _check_measure(skill, measure)
    # As long an exam in both ways: what it gives twice is by fixed seeds, and of the same episodes.
    alone = _measured(skill, agent, fewer, Exam.alone)
    for name, measure in alone.items():
        if name in full and np.array_equal(measure.values, full[name].values):
            # An agent that was taught nothing may answer all alike, so it is asked which episodes these are, too.
            same = _same_episodes(measure, full[name])
        else:
            _check_repeated(skill, agent, fewer, [name], alone)
            same = False
        require(same, "an exam of retention asks the full exam's episodes", f"{where}, '{name}' differs")
    glimpse = check_episodes(skill, agent, fewer)
    _check_repeated(skill, agent, fewer.glimpse(), [name for name in glimpse if name not in alone], glimpse)
    for name, measure in glimpse.items():
        at_most = name not in full or measure.n <= full[name].n
        require(at_most, "a glimpse has at most the full exam's episodes", f"{where}: {measure.n}")
    require(agent.sha256() == weights, "nothing is learned in an exam", f"{where} changed the agent's weights")
    return full


def _check_repeated(
    skill: Skill, agent: Agent, context: Context, names: Sequence[str], once: Mapping[str, Measure]
) -> None:
    """Hold the exam again, if there are `names` of measures whose repetition no other exam has shown."""
    from devmind.curriculum.exam import Exam

    again = _measured(skill, agent, context, Exam.alone) if names else {}
    for name in names:
        same = name in again and np.array_equal(once[name].values, again[name].values)
        law = "an exam's seeds are fixed: examined twice, the same values"
        require(same, law, f"skill '{skill.name}', '{name}' differs")


def _with_fewer_episodes(context: Context) -> Context:
    exam = context.config.exam
    exam = exam.model_copy(update={"episodes_scale": FEWER * exam.episodes_scale})
    return replace(context, config=context.config.model_copy(update={"exam": exam}))


def _same_episodes(one: Measure, other: Measure) -> bool:
    """Whether two measures say of the same episodes that they are of, where both say it."""
    return one.episodes is None or other.episodes is None or np.array_equal(one.episodes, other.episodes)


def check_episodes(
    skill: Skill, agent: Agent, context: Context, lesson_episodes: int = LESSON_EPISODES
) -> dict[str, Measure]:
    """Check that a skill's exam has different episodes, with exam seeds, and none that lessons show.

    The check runs a glimpse, without floors, as floors may be fitted on lessons. Teaching a copy of the agent within an
    exam may use lesson seeds.

    Returns:
        The measures of the glimpse, by name.

    Raises:
        BrokenLawError: the first law that does not hold, with what was found.
    """
    from devmind.curriculum.exam import Exam

    where, seeds = f"skill '{skill.name}'", list[np.ndarray]()
    noting = replace(context.glimpse(), make_world=_noting(context.make_world, seeds))
    measures = _measured(skill, agent, noting, Exam.alone)
    lowest = min((int(part.min()) for part in seeds if len(part)), default=EXAM_SEEDS_FROM)
    law = f"an exam's worlds have seeds from {EXAM_SEEDS_FROM:,} on"
    require(lowest >= EXAM_SEEDS_FROM, law, f"{where} made one of seed {lowest:,}")
    drawn = {name: measure for name, measure in measures.items() if not measure.exhaustive}
    for name, measure in drawn.items():
        law = "a measure says which episodes its values are of, or that they are of all there are"
        require(measure.episodes is not None, law, f"'{name}' has neither `episodes` nor `exhaustive`")
        law = "an exam has as many different episodes as it claims"
        require(measure.distinct == measure.n, law, f"'{name}' has {measure.n}, of which {measure.distinct} differ")
    if not drawn:
        return measures
    require(skill.taught is not None, "a skill says which episodes lessons show", f"{where} has no `taught`")
    assert skill.taught is not None
    shown = skill.taught(context, lesson_episodes)
    for name, measure in drawn.items():
        assert measure.episodes is not None
        share = float(np.isin(measure.episodes, shown).mean())
        law = f"of an exam's episodes at most {SHARED:.0%} are among {LESSON_EPISODES:,} of its lessons"
        require(share <= SHARED, law, f"of '{name}' {share:.0%} are among {len(shown):,}")
    return measures


def _noting(make_world: Callable[..., Any], seeds: list[np.ndarray]) -> Callable[..., Any]:
    """As `make_world`, but notes the seeds of worlds for an exam (not those for teaching within it)."""
    import torch

    def made(name: str, level: str, given: Any, *args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled():
            seeds.append(np.asarray(given))
        return make_world(name, level, given, *args, **kwargs)

    return made


def _measured(
    skill: Skill, agent: Agent, context: Context, measures_of: Callable[[Exam], Sequence[Measure]]
) -> dict[str, Measure]:
    from devmind.acting.in_life import noting
    from devmind.curriculum.examining import examination, hold

    with examination(agent), noting() as noted:
        measures = measures_of(hold(skill, agent, context))
    names = [measure.name for measure in measures]
    require(len(set(names)) == len(names), "each measure has a name of its own", f"'{skill.name}' gave {names}")
    return {measure.name: replace(measure, in_life=noted.said) for measure in measures}


def _check_measure(skill: Skill, measure: Measure) -> None:
    where = f"'{measure.name}'"
    named = measure.name == skill.name or measure.name.startswith(f"{skill.name}/")
    require(named, "a measure is named by its skill, or skill/part", f"{where} of skill '{skill.name}'")
    above = measure.ceiling > measure.chance if measure.higher_is_better else measure.ceiling < measure.chance
    law = "the ceiling is better than chance, in the measure's unit"
    require(above, law, f"{where}: chance {measure.chance:g}, ceiling {measure.ceiling:g}")
    require(bool(measure.floors), "a full exam prints a floor: the best trivial method", f"{where} has none")
