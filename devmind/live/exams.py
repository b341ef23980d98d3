"""Exams through life: the exam's own code, with live loops on a virtual clock in place of its Actors.

Every episode is a room with a loop of its own. The level's Rules fill its sensors in one of two ways:

    mailbox     each sense unchanged. Every Moment must equal the world's, and every action the one that the exam's own
                Actor gives, within 1e-5: the loop, the room and its clock must change nothing.
    rendered    a camera of 640 x 480 pixels on the torso, seen through the room's fovea, and sound in 16 bits; the
                score must lie within the plain exam's 95 % interval.

A mailbox takes any sense and any action. A room with a camera can only move the gaze and withdraw, so skills that need
a hand, legs or a cart are examined through the mailbox alone. An exam without an acting agent cannot be held in life at
all. `LiveExamResult.in_life` says what was left out, and why (`devmind.acting.in_life`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from devmind.acting import Actor, Policy, Senses
from devmind.acting.in_life import why_no_camera, why_not_in_life
from devmind.acting.rollout import Actions, acting_through
from devmind.agent.agent import Agent
from devmind.agent.threads import stepping_threads
from devmind.curriculum.exam import Exam, Measure
from devmind.curriculum.examining import Examined, examine_skill
from devmind.curriculum.stage import Context, Skill, Stage
from devmind.errors import ExamError
from devmind.live.loop import Tick
from devmind.live.virtual import VirtualLife
from devmind.worlds.adapter import row as row_of
from devmind.worlds.nursery import NurseryState
from devmind.worlds.nursery.views import frames

EPISODES = 50
TOLERANCE = 1e-5
FRAME = (640, 480)
"""Width and height of the rendered frames."""
FULL_SCALE = 32_767


@dataclass
class Comparison:
    """The comparison of the mailbox run with the exam.

    Attributes:
        ticks: Moments compared, each with its actions; worst: the largest difference of any number in them.
        different: number of unequal ticks; first: the difference in the first of them.
    """

    ticks: int = 0
    worst: float = 0.0
    different: int = 0
    first: str = ""

    def compare(self, where: str, one: Mapping[str, Any], other: Mapping[str, Any]) -> None:
        """Compare what went through life (`one`) with what the world and the exam's Actor gave."""
        self.ticks += 1
        fault = "" if one.keys() == other.keys() else f"{sorted(one)} instead of {sorted(other)}"
        for name in one.keys() & other.keys():
            off = _difference(one[name], other[name])
            self.worst = max(self.worst, off)
            if off > TOLERANCE and not fault:
                fault = f"'{name}' by {off:.2g}"
        if fault:
            self.different += 1
            self.first = self.first or f"{where}: {fault}"


def _difference(one: Any, other: Any) -> float:
    """The largest difference of two readings; infinite where their kinds differ."""
    if isinstance(one, str) or isinstance(other, str):
        return 0.0 if one == other else float("inf")
    a, b = np.asarray(one), np.asarray(other)
    if a.shape != b.shape or a.dtype.kind != b.dtype.kind:
        return float("inf")
    off = np.abs(a.astype(np.float64) - b.astype(np.float64))
    return (
        float(np.where(np.isnan(a) & np.isnan(b), 0.0, off).max(initial=0.0))
        if a.dtype.kind == "f"
        else float(off.max(initial=0.0))
    )


class _RowByRow:
    """An exam's Actor that steps its rows one at a time: the same answers as in a batch, except for the last bits.

    A picture that differs in one bit is another picture a second later, so life, which has one row, is compared with
    this.
    """

    def __init__(self, actor: Actor) -> None:
        self.actor = actor
        self.rows: list[Actor] = []

    def __call__(self, senses: Senses, first: np.ndarray) -> Actions:
        if first.all():
            self.rows = [_single_row_actor(self.actor) for _ in first]
        each = [
            row({name: value[i : i + 1] for name, value in senses.items()}, first[i : i + 1])
            for i, row in enumerate(self.rows)
        ]
        for row in self.rows:
            self.actor.count(row.answered)
            row.answered.clear()
        return {name: np.concatenate([one[name] for one in each]) for name in each[0]}


def _single_row_actor(actor: Actor) -> Actor:
    """One row in the same form."""
    return Actor(
        actor.agent,
        effectors=actor.effectors,
        heads=actor.heads,
        without=actor.without,
        trunk=actor.trunk,
        beliefs=actor.beliefs,
        standing=actor.standing,
    )


class _LivePolicy:
    """The policy in place of an Actor: N live loops side by side."""

    def __init__(self, actor: Actor, world: Any, rendered: bool, comparison: Comparison) -> None:
        self.actor, self.world, self.rendered, self.comparison = actor, world, rendered, comparison
        self.lives: list[VirtualLife] = []
        self.mounted = np.zeros((0, 2))
        self.plain = _RowByRow(actor)

    def __call__(self, senses: Senses, first: np.ndarray) -> Actions:
        n, sensed = len(first), {name: value for name, value in senses.items() if name not in self.actor.without}
        rows = [row_of(sensed, i) for i in range(n)]
        if first.all():
            self.lives = [VirtualLife(self.actor, sensed, self.rendered) for _ in range(n)]
            if self.rendered:
                self._mount()
        readings = self._rendered(rows) if self.rendered else rows
        ticks = [life.tick(one, bool(new)) for life, one, new in zip(self.lives, readings, first, strict=True)]
        actions = self._actions(ticks)
        if self.rendered:
            for tick in ticks:
                self.actor.count(tick.output.answered)
            return actions
        plain = self.plain(senses, first)
        # An effector that nobody moves is missing in life, and zero in a batch.
        actions = {name: np.zeros_like(value) for name, value in plain.items()} | actions
        for i, (tick, row) in enumerate(zip(ticks, rows, strict=True)):
            done, meant = ({name: value[i] for name, value in each.items()} for each in (actions, plain))
            self.comparison.compare(f"episode {i}", {**tick.moment.senses, **done}, {**row, **meant})
        return actions

    def _mount(self) -> None:
        """Let the camera look where the head looks at first, because a room's fovea begins straight ahead.

        An exam's first Moment also has the change in view, so the room gets the frame before it.
        """
        state = self.world.state()
        self.mounted = np.stack((state.pan, state.tilt), 1)
        for i, life in enumerate(self.lives):
            if "sight" in life.boxes:
                life.wait({"sight": self._frame(state, i, before=True)})

    def _frame(self, state: NurseryState, row: int, before: bool = False) -> np.ndarray:
        pan, tilt = self.mounted[row, :1], self.mounted[row, 1:]
        return frames(state.take(np.array([row])), pan, tilt, *FRAME, before=before)[0]

    def _rendered(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        state = self.world.state()
        rendered_rows = []
        for i, row in enumerate(rows):
            rendered_row = {name: value for name, value in row.items() if name == "words"}
            if "sight" in row:
                rendered_row["sight"] = self._frame(state, i)
            if "sound" in row:
                coded = np.clip(np.rint(row["sound"] * FULL_SCALE), -FULL_SCALE - 1, FULL_SCALE).astype(np.int16)
                rendered_row["sound"] = coded.astype(np.float32) / FULL_SCALE
            rendered_rows.append(rendered_row)
        return rendered_rows

    def _actions(self, ticks: list[Tick]) -> dict[str, np.ndarray]:
        """Arrays [N, ...] by effector; zero for a row without an action."""
        actions: dict[str, np.ndarray] = {}
        for i, tick in enumerate(ticks):
            for name, value in tick.action.effectors.items():
                command = self.lives[i].turned(value) if self.rendered and name == "look" else value
                actions.setdefault(name, np.zeros((len(ticks), *command.shape), command.dtype))[i] = command
        return actions


@dataclass
class _ReplaceActors:
    """Replaces an exam's Actors by live loops, where a room has all that they use.

    Attributes:
        way: "plain" steps the Actor's rows one at a time; "mailbox" and "rendered" are live loops.
        lives: the acting policies, rollout by rollout.
    """

    way: str
    comparison: Comparison
    lives: list[Any] = field(default_factory=list)

    def __call__(self, policy: Policy, world: Any) -> Policy:
        if not isinstance(policy, Actor):
            return policy
        rendered = self.way == "rendered"
        if why_not_in_life(policy) or (rendered and why_no_camera(policy, world)):
            return policy
        made = _RowByRow(policy) if self.way == "plain" else _LivePolicy(policy, world, rendered, self.comparison)
        self.lives.append(made)
        return made


class _FewEpisodes(Context):
    """The context of an exam with EPISODES episodes, whatever its full number."""

    def episodes(self, n: int, glimpse_of: int | None = None) -> int:
        """EPISODES."""
        return EPISODES

    def scaled(self, n: int) -> int:
        """Enough for what is fitted, beside EPISODES."""
        return 5 * EPISODES


@dataclass
class LiveExamResult:
    """One skill's exam, plain and through life.

    When the edge of a fixed camera's frame stops the gaze, the exam cannot show where it would have looked. With
    targets all around, most episodes of some measures are of this kind. They are counted, and where there are any, the
    rendered score is judged on the other episodes only, against the plain score on the same ones.

    Attributes:
        plain, mailbox, rendered: measures by name; the latter two are empty where the skill cannot be asked this way.
        comparison: of the mailbox; in_life: what could be asked in life, and why something could not.
        judged: by measure, the rendered score beside the plain one.
    """

    skill: str
    plain: dict[str, Measure]
    mailbox: dict[str, Measure]
    rendered: dict[str, Measure]
    comparison: Comparison
    in_life: str
    judged: dict[str, RenderedScore]

    @property
    def asked(self) -> bool:
        """Whether the skill can be asked in life at all."""
        return bool(self.mailbox)

    @property
    def passed(self) -> bool:
        """Something was compared, all of it was equal, and every rendered score lies within the plain interval."""
        same = all(np.array_equal(self.mailbox[name].values, self.plain[name].values) for name in self.mailbox)
        comparison = self.comparison
        return (
            comparison.ticks > 0 and not comparison.different and same and all(j.within for j in self.judged.values())
        )


@dataclass(frozen=True)
class RenderedScore:
    """A rendered score beside the plain exam's, on the same `n` episodes, whose gaze no frame's edge stopped.

    Attributes:
        stopped: number of episodes with a stopped gaze; plain, low, high: the plain exam's score with its 95 %
            interval.
    """

    score: float
    plain: float
    low: float
    high: float
    n: int
    stopped: int

    @property
    def within(self) -> bool:
        """Whether the score lies within the plain exam's interval."""
        return self.n > 0 and self.low <= self.score <= self.high


def examine_in_life(stage: Stage, skill: Skill, agent: Agent, context: Context, bootstrap: int) -> LiveExamResult:
    """Hold one skill's exam plainly, through a lossless mailbox, and rendered, each with the same EPISODES episodes.

    Raises:
        ExamError: the exam could not be held at all.
    """
    short_exam = _FewEpisodes(**{name: getattr(context, name) for name in context.__dataclass_fields__})
    with stepping_threads():
        (plain, _), (in_mailbox, mailbox_actors), (rendered, rendered_actors) = (
            _examine_by(stage, skill, agent, short_exam, way) for way in ("plain", "mailbox", "rendered")
        )
    if not plain.measures:
        raise ExamError(f"No measure of the skill '{skill.name}' could be taken; give --data if it needs data.")
    return LiveExamResult(
        skill.name,
        plain.measures,
        in_mailbox.measures if mailbox_actors.lives else {},
        rendered.measures if rendered_actors.lives else {},
        mailbox_actors.comparison,
        plain.in_life,
        _rendered_scores(plain.measures, rendered.measures, rendered_actors.lives, bootstrap)
        if rendered_actors.lives
        else {},
    )


def _rendered_scores(
    plain: Mapping[str, Measure], rendered: Mapping[str, Measure], lives: Sequence[_LivePolicy], bootstrap: int
) -> dict[str, RenderedScore]:
    """Every measure's rendered score beside the plain one. Rollouts and measures are matched by their order."""
    scores = {}
    for number, (name, measure) in enumerate(rendered.items()):
        stopped = np.zeros(measure.n, bool)
        if len(lives) == len(rendered) and len(lives[number].lives) == measure.n:
            stopped = np.array([life.stopped for life in lives[number].lives])
        if stopped.all():
            scores[name] = RenderedScore(measure.score, plain[name].score, np.nan, np.nan, 0, measure.n)
            continue
        free, beside = (replace(m, values=m.values[~stopped]) for m in (measure, plain[name]))
        scores[name] = RenderedScore(
            free.score, beside.score, *beside.interval(bootstrap), int((~stopped).sum()), int(stopped.sum())
        )
    return scores


def _examine_by(
    stage: Stage, skill: Skill, agent: Agent, context: Context, way: str
) -> tuple[Examined, _ReplaceActors]:
    actors = _ReplaceActors(way, Comparison())
    with acting_through(actors):
        return examine_skill(stage, skill, agent, context, Exam.alone), actors
