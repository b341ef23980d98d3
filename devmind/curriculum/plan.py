"""How many steps each lesson gets and how often it rehearses, decided once; and a forecast of how long that takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from devmind.agent.agent import Agent
from devmind.agent.device import place
from devmind.curriculum.journal import Journal
from devmind.curriculum.machine import measured, step_s
from devmind.curriculum.progress import say
from devmind.curriculum.rehearsal import rehearsals, settled
from devmind.curriculum.stage import Batches, Context, Lesson, Stage
from devmind.errors import ConfigError


class Plan:
    """The steps of a stage's lessons and how often each rehearses, and the forecast of their time.

    Both are written to the journal before the first step is made; no later measurement changes them, nor does any
    clock: a run that goes on reads them there. Without `--minutes` neither depends on the machine.

    Args:
        attempt: 0; above it the stage failed a gate and is taught again, at half its steps.

    Attributes:
        steps: own ones, by lesson.
        every: by lesson, of how many updates one is a rehearsal; 0: none.
        speed: own steps a second by lesson, with the rehearsals among them, as measured when this process began with
            it; of the lessons left only.
        pace: how much longer the lessons so far took than was expected of them.
        kept: batches of earlier stages' lessons that all lessons of this plan rehearse again and again.
    """

    def __init__(
        self, name: str, lessons: Sequence[Lesson], context: Context, journal: Journal, attempt: int = 0
    ) -> None:
        self.name, self.lessons, self.context, self.journal = name, list(lessons), context, journal
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
        earlier: Sequence[Stage],
        gates: Callable[[Sequence[Lesson]], Sequence[str]] = lambda lessons: (),
    ) -> None:
        """Measure the lessons that are left, settle steps and rehearsals unless that was done before, and say how long
        it will take.

        Args:
            saved: the position to go on from, if there is one.
            copy: makes an agent with all parts of the stage, which is taught a little and thrown away.
            earlier: stages that are rehearsed.
            gates: the measures that may fail where these lessons are shorter than planned.
        """
        if not left:
            return
        say("Measuring how fast this machine teaches: some seconds a lesson.")
        machine, agent = measured(self.context.device), place(copy(), self.context.device)
        if not self.every:
            self._settle(agent, earlier)
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
            say(f"This machine ({machine}) needs about {self._told(factor, left_s, gates)}")
        else:
            say(f"This machine ({machine}) needs about {about(left_s)} more for the lessons of '{self.name}'.")

    def fix(self, agent: Agent, earlier: Sequence[Stage]) -> None:
        """Steps as the lessons say, with nothing measured: for an exam, which no clock may decide."""
        if not self.steps:
            self.steps = {lesson.name: self._asked(lesson) for lesson in self.lessons}
            self._settle(agent, earlier)
            self.journal.write("plan", steps=self.steps, rehearsal_every=self.every)

    def _settle(self, agent: Agent, earlier: Sequence[Stage]) -> None:
        """How often each lesson rehearses; a lesson whose learner takes no rehearsals is refused before a step."""
        for at, lesson in enumerate(self.lessons):
            others = rehearsals(lesson, self.lessons[:at], earlier, agent, self.context)
            self.every[lesson.name], self._share[lesson.name] = settled(lesson, [other.lesson for other in others])

    def taught(self, lesson: str, steps: int, seconds: float, left: Sequence[Lesson]) -> None:
        """Correct the forecast by what a lesson took in this process, and say what the lessons in `left` will take."""
        if lesson in self.speed:
            self._expected_s += steps / self.speed[lesson]
            self._taken_s += seconds
        if left and self.speed:
            left_s = self._left_s(left, None)
            self._note("forecast", left_s)
            say(f"About {about(left_s)} of lessons are left.")

    @property
    def pace(self) -> float:
        """1 until a lesson was taught."""
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
        """The steps that the configuration names, else `factor` times the lesson's own, at least one."""
        changed = self.context.config.lessons.get(lesson.name)
        return (changed and changed.steps) or max(1, round(factor * lesson.steps))

    def _factor(self) -> float:
        """What lessons' steps are multiplied by, those that the configuration names left out, so that all of them take
        as many minutes as it says.

        Raises:
            ConfigError: the named ones alone take as long.
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
        """What all lessons take here when no minutes are given."""
        return sum(self._asked(lesson) / self.speed[lesson.name] for lesson in self.lessons)

    def _told(self, factor: float, planned_s: float, gates: Callable[[Sequence[Lesson]], Sequence[str]]) -> str:
        """What the lessons need, what a changed length makes of them, and the gates that may fail for it."""
        minutes = self.context.config.minutes
        told = f"{about(self._whole_s())} for the lessons of '{self.name}'"
        if minutes:
            told += f"; --minutes {minutes:g} teaches {times(factor)} their steps, in about {about(planned_s)}"
        shorter = [lesson for lesson in self.lessons if self.steps[lesson.name] < lesson.steps]
        if not shorter:
            return told + "."
        which = "All lessons are" if len(shorter) == len(self.lessons) else _listed([one.name for one in shorter])
        bears_on = ", ".join(gates(shorter))
        fails = f", and these gates may fail for it: {bears_on}" if bears_on else ""
        return f"{told}. {which} shorter than planned{fails}."


def steps_in(attempt: int, planned: int) -> int:
    """The steps of a lesson for which `planned` were planned: a stage that is taught again has half of them."""
    return max(1, planned // 2) if attempt else planned


def _listed(names: Sequence[str]) -> str:
    """'The lesson watch is', 'The lessons watch, motor are'."""
    return f"The lesson {names[0]} is" if len(names) == 1 else f"The lessons {', '.join(names)} are"


def gates_of(stage: Stage, lessons: Sequence[Lesson], context: Context) -> list[str]:
    """The measures gated in `stage` that `lessons` bear on; a lesson that names no skill bears on all of them.

    Those that need recordings are among them when the run was given some.
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
