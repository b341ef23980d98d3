"""The lessons of a stage or a night: steps and rehearsals, decided once; a forecast of the time; how each is taught."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from devmind.agent.agent import Agent
from devmind.agent.device import place
from devmind.config import LessonConfig
from devmind.curriculum.journal import Journal
from devmind.curriculum.machine import measure_machine, step_s
from devmind.curriculum.progress import say
from devmind.curriculum.rehearsal import made_by, rehearsal_rate, rehearsals, rehearsed_by, unrehearsed_why
from devmind.curriculum.stage import Batches, Context, Lesson, Stage
from devmind.curriculum.teaching import LessonResult, LessonRun
from devmind.errors import ConfigError, some

NAMED = 8
"""The most gates that a forecast names."""


class LessonPlan:
    """The steps of a stage's lessons and how often each rehearses, the forecast of their time, and how each is taught.

    Steps and rehearsals are written to the journal before the first step. A run that continues reads them there, and no
    later measurement or clock changes them. Without `--minutes` they do not depend on the machine.

    Args:
        earlier: stages that are rehearsed, besides the lessons of the plan that a lesson names.
        attempt: 0 for the first; later attempts teach a stage that failed a gate again, with half its steps.

    Attributes:
        steps: own steps by lesson.
        every: by lesson, one of so many updates is a rehearsal; 0: none.
        speed: own steps a second by lesson, rehearsals included, measured when this process began; only of the lessons
            that are left.
        pace: by which factor the lessons so far took longer than forecast.
        kept: batches of earlier stages' lessons that all lessons of this plan rehearse repeatedly.
        later: how many batches later than elsewhere its rehearsals begin, where others of their kind came before.
    """

    def __init__(
        self,
        name: str,
        lessons: Sequence[Lesson],
        earlier: Sequence[Stage],
        context: Context,
        journal: Journal,
        attempt: int = 0,
    ) -> None:
        self.name, self.lessons, self.earlier = name, list(lessons), list(earlier)
        self.context, self.journal = context, journal
        self.attempt, self.later = attempt, 0
        known = journal.last("plan") or {}
        self.steps: dict[str, int] = {
            lesson: steps_in(attempt, steps) for lesson, steps in known.get("steps", {}).items()
        }
        self.every: dict[str, int] = dict(known.get("rehearsal_every", {}))
        self._share: dict[str, float] = dict(known.get("rehearsal_share", {}))
        self.speed: dict[str, float] = {}
        self._expected_s = self._taken_s = 0.0
        self.kept: dict[str, Batches] = {}

    def begin(
        self,
        left: Sequence[Lesson],
        saved: Mapping[str, Any] | None,
        copy: Callable[[], Agent],
        gates: Callable[[Sequence[Lesson]], Sequence[str]] = lambda lessons: (),
    ) -> None:
        """Measure the remaining lessons, settle steps and rehearsals unless they are settled, and print a forecast.

        Args:
            saved: the position to continue from, if there is one.
            copy: makes an agent with all parts of the stage, which is taught a little and thrown away.
            gates: gives the measures that may fail if some lessons are shorter than planned.
        """
        if not left:
            return
        say("Measuring the speed of this machine: some seconds a lesson.")
        machine, agent = measure_machine(self.context.device), place(copy(), self.context.device)
        if not self.every:
            self._settle(agent)
        own_s = {}
        for lesson in left:
            steps = self.steps.get(lesson.name) or self._asked(lesson)
            own_s[lesson.name] = step_s(lesson, agent, self.context, steps)
        self.speed = {name: (1 - self._share.get(name, 0.0)) / seconds for name, seconds in own_s.items()}
        new, factor = not self.steps, self._factor()
        if new:
            self.steps = {lesson.name: self._asked(lesson, factor) for lesson in self.lessons}
            self.journal.write(
                "plan",
                steps=self.steps,
                factor=round(factor, 4),
                rehearsal_every=self.every,
                rehearsal_share={name: round(share, 4) for name, share in self._share.items()},
            )
        left_s = self._left_s(left, saved)
        self._note("machine", left_s, cores=machine.cores, threads=machine.threads, gflops=machine.gflops)
        if new:
            say(f"This machine ({machine}) needs about {self._forecast(factor, left_s, gates)}")
        else:
            say(f"This machine ({machine}) needs about {about(left_s)} more for the lessons of '{self.name}'.")

    def fix(self, agent: Agent) -> None:
        """Use the lessons' own steps without measuring: for an exam, which no clock may influence."""
        if not self.steps:
            self.steps = {lesson.name: self._asked(lesson) for lesson in self.lessons}
            self._settle(agent)
            self.journal.write("plan", steps=self.steps, rehearsal_every=self.every)

    def _settle(self, agent: Agent) -> None:
        """Settle how often each lesson rehearses; refuse a lesson whose learner takes no rehearsals."""
        for at, lesson in enumerate(self.lessons):
            others = rehearsals(lesson, self.lessons[:at], self.earlier, agent, self.context)
            self.every[lesson.name], self._share[lesson.name] = rehearsal_rate(
                lesson, [other.lesson for other in others]
            )

    def rehearsed(self, lesson: Lesson, agent: Agent) -> dict[tuple[str, str], int]:
        """By stage ("" for its own) and lesson, the batch at which the rehearsals of `lesson` begin: behind those that
        all planned lessons before it rehearse, in earlier attempts too, and behind the steps of a longer lesson.

        It depends on the settled plan alone, so a run that continues goes on at the same batch.
        """
        planned = (self.journal.last("plan") or {}).get("steps", {})
        begin = Counter[tuple[str, str]](
            {("", other.name): max(0, planned.get(other.name, 0) - other.steps) for other in self.lessons}
        )
        others = [
            rehearsed_by(one, self.lessons[:at], self.earlier, agent, self.context)
            for at, one in enumerate(self.lessons)
        ]
        own = [one.name for one in self.lessons].index(lesson.name)
        for attempt in range(self.attempt + 1):
            for at, one in enumerate(self.lessons[: own if attempt == self.attempt else None]):
                steps = steps_in(attempt, planned.get(one.name, 0))
                begin += made_by(steps, self.every.get(one.name, 0), others[at])
        return {(stage, one.name): self.later + begin[stage, one.name] for stage, one in others[own]}

    def teach(
        self,
        lesson: Lesson,
        agent: Agent,
        resume: Mapping[str, Any] | None = None,
        scores: Mapping[str, float] | None = None,
        cut: bool = False,
        until: int | None = None,
        shared: bool = False,
    ) -> LessonResult:
        """Teach a lesson as planned, and note its result.

        Args:
            resume, scores, cut, until, shared: as of `LessonRun`.

        Raises:
            Interrupted, ConfigError, CheckpointError: as `LessonRun`.
        """
        run = self.prepare(lesson, agent, resume, scores, until, shared)
        left, steps = self.lessons[1 + [one.name for one in self.lessons].index(lesson.name) :], self.steps[lesson.name]
        rehearses = [one.lesson.name for one in run.rehearsal] if self._every(lesson) else []
        self.journal.write("begun", lesson=lesson.name, steps=steps, rehearses=rehearses)
        taught = run.run(cut)
        self.journal.write(
            "lesson_done",
            lesson=lesson.name,
            attempt=self.attempt,
            planned=steps,
            steps=taught.steps,
            seconds=round(taught.seconds, 2),
            status=taught.status,
            share=taught.share,
            rehearsals=taught.rehearsals,
            rehearsal_share=taught.rehearsal_share,
            trained=taught.trained,
            busy=taught.busy,
            unrehearsed=unrehearsed_why(lesson, agent, self.context),
            compared=_compared(lesson, taught, self.context.config.lessons.get(lesson.name)),
        )
        was = resume or {"update": 0, "seconds": 0.0}
        self.correct_forecast(lesson.name, taught.steps - was["update"], taught.seconds - was["seconds"], left)
        return taught

    def prepare(
        self,
        lesson: Lesson,
        agent: Agent,
        resume: Mapping[str, Any] | None,
        scores: Mapping[str, float] | None = None,
        until: int | None = None,
        shared: bool = False,
    ) -> LessonRun:
        """A lesson as planned, ready to be taught."""
        before = self.lessons[: [one.name for one in self.lessons].index(lesson.name)]
        begin = self.rehearsed(lesson, agent)
        return LessonRun(
            lesson, self.steps[lesson.name], agent, self.context, self.journal, attempt=self.attempt,
            rehearsal=rehearsals(lesson, before, self.earlier, agent, self.context, self.kept, begin),
            every=self._every(lesson), resume=resume, scores=scores, until=until, shared=shared,
        )  # fmt: skip

    def _every(self, lesson: Lesson) -> int:
        return self.every.get(lesson.name, lesson.rehearsal_every)

    def correct_forecast(self, lesson: str, steps: int, seconds: float, left: Sequence[Lesson]) -> None:
        """Correct the forecast by a lesson's time in this process, and print the forecast for the lessons in `left`."""
        if lesson in self.speed:
            self._expected_s += steps / self.speed[lesson]
            self._taken_s += seconds
        if left and self.speed:
            left_s = self._left_s(left, None)
            self._note("forecast", left_s)
            say(f"About {about(left_s)} of lessons are left.")

    @property
    def pace(self) -> float:
        """Measured over forecast time of the lessons so far; 1 before the first."""
        return self._taken_s / self._expected_s if self._expected_s and self._taken_s else 1.0

    def _note(self, event: str, left_s: float, **more: Any) -> None:
        speed = {name: round(speed / self.pace, 4) for name, speed in self.speed.items()}
        self.journal.write(event, **more, steps_per_s=speed, minutes=round(left_s / 60, 2))

    def _left_s(self, left: Sequence[Lesson], saved: Mapping[str, Any] | None) -> float:
        done = {saved["lesson"]: saved["update"]} if saved else {}
        return self.pace * sum(
            (self.steps[lesson.name] - done.get(lesson.name, 0)) / self.speed[lesson.name] for lesson in left
        )

    def _asked(self, lesson: Lesson, factor: float = 1.0) -> int:
        """The steps that the configuration sets, else `factor` times the lesson's own; at least one."""
        changed = self.context.config.lessons.get(lesson.name)
        return (changed and changed.steps) or max(1, round(factor * lesson.steps))

    def _factor(self) -> float:
        """The factor for the steps of lessons whose steps the configuration does not set, so that all lessons together
        take the configuration's minutes.

        Raises:
            ConfigError: the lessons whose steps are set take that long alone.
        """
        minutes, named = self.context.config.minutes, self.context.config.lessons
        if not minutes or self.steps:
            return 1.0
        fixed = [lesson for lesson in self.lessons if (said := named.get(lesson.name)) and said.steps]
        fixed_s = sum(self._asked(lesson) / self.speed[lesson.name] for lesson in fixed)
        if len(fixed) == len(self.lessons):
            return 1.0
        if 60 * minutes <= fixed_s:
            raise ConfigError(
                f"The lessons whose steps are named take {about(fixed_s)} here, and all of them are to take "
                f"{minutes:g} minutes: give more minutes, or name fewer steps."
            )
        return (60 * minutes - fixed_s) / (self._whole_s() - fixed_s)

    def _whole_s(self) -> float:
        """Seconds of all lessons on this machine without `--minutes`."""
        return sum(self._asked(lesson) / self.speed[lesson.name] for lesson in self.lessons)

    def _forecast(self, factor: float, planned_s: float, gates: Callable[[Sequence[Lesson]], Sequence[str]]) -> str:
        """The time that the lessons need, the effect of a changed length, and the gates that may fail because of it."""
        minutes = self.context.config.minutes
        text = f"{about(self._whole_s())} for the lessons of '{self.name}'"
        if minutes:
            text += f"; --minutes {minutes:g} teaches {times(factor)} their steps, in about {about(planned_s)}"
        shorter = [lesson for lesson in self.lessons if self.steps[lesson.name] < lesson.steps]
        if not shorter:
            return text + "."
        which = "All lessons are" if len(shorter) == len(self.lessons) else _listed([one.name for one in shorter])
        at_risk = list(gates(shorter))
        fails = f", and these gates may fail for it: {some(at_risk, NAMED)}" if at_risk else ""
        return f"{text}. {which} shorter than planned{fails}."


def steps_in(attempt: int, planned: int) -> int:
    """The steps of a lesson of `planned` steps: half of them if the stage is taught again."""
    return max(1, planned // 2) if attempt else planned


def _listed(names: Sequence[str]) -> str:
    """'The lesson watch is', 'The lessons watch, motor are'."""
    return f"The lesson {names[0]} is" if len(names) == 1 else f"The lessons {', '.join(names)} are"


def gates_of(stage: Stage, lessons: Sequence[Lesson], context: Context) -> list[str]:
    """The gated measures of `stage` that `lessons` affect; a lesson that names no skill affects all of them.

    Measures that need recordings are included if the run has some.
    """
    every = any(not lesson.skills for lesson in lessons)
    named = {name for lesson in lessons for name in lesson.skills}
    skills = [skill for skill in stage.skills if every or skill.name in named]
    thresholds = [threshold for skill in skills for threshold in skill.gate_in(context).thresholds]
    deciding = [threshold for threshold in thresholds if not threshold.goal]
    return [threshold.measure for threshold in deciding if context.data or threshold.when_absent != "skip"]


def about(seconds: float) -> str:
    """'40 s', '12 minutes', '2.5 hours': as exact as a forecast is."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} minutes" if minutes < 100 else f"{minutes / 60:.1f} hours"


def times(factor: float) -> str:
    """'31 % of', '1.5 times'."""
    return f"{factor:.2g} times" if factor >= 1 else f"{100 * factor:.2g} % of"


def _compared(lesson: Lesson, taught: LessonResult, changed: LessonConfig | None) -> str:
    """What is known about another way to teach it, and the time that was saved by not going down a gradient."""
    gradient = lesson.instead_of
    if not (changed and changed.steps):  # a run of fewer minutes would have fewer steps of either
        gradient = round(gradient * taught.steps / lesson.steps)
    if not taught.steps or gradient <= taught.steps:
        return lesson.compared
    saved_s = taught.seconds * (1 - taught.rehearsal_share) * (gradient / taught.steps - 1)
    said = f"Solved in closed form, which saved about {saved_s:.0f} s against {gradient:,} steps down a gradient."
    return f"{said} {lesson.compared}".strip()
