"""One stage in one folder: admit, teach, examine, pass or repeat, save, report; the journal stores the position."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import yaml

from devmind.acting.confidence import read_confidence, seal_confidence
from devmind.acting.standing import read_results
from devmind.agent.agent import Agent
from devmind.agent.device import place
from devmind.agent.precision import DOUBLE, round_to_half
from devmind.agent.saving import CHECKSUMS, seal
from devmind.agent.threads import training_threads
from devmind.checkpointing.engine import save
from devmind.checkpointing.files import make_folder, sha256, write_atomically
from devmind.checkpointing.generations import is_whole, number_of, on_shelf, read_manifest
from devmind.checkpointing.generations import load as load_state
from devmind.checkpointing.lock import lock_folder
from devmind.config import RunConfig, validate
from devmind.config import load as load_config
from devmind.curriculum import ranks
from devmind.curriculum import results as made
from devmind.curriculum.ablation import Control, compare_twin, differences, fresh_parts, identity_trunk
from devmind.curriculum.exam import Exam
from devmind.curriculum.examining import Examined, decide, examine_skill, glimpse_notes
from devmind.curriculum.finished import RunResult, finished_run, found_path, identity, path_from_run, result, shelves
from devmind.curriculum.journal import Journal
from devmind.curriculum.pinned import check_pins, own, pins, recorded_threads, refuse_leftovers, same_exams, versions
from devmind.curriculum.plan import LessonPlan, gates_of, steps_in
from devmind.curriculum.progress import say
from devmind.curriculum.run_exams import FOLDER, held_before, keep_exams, load, run_exams
from devmind.curriculum.sleep import carry_state
from devmind.curriculum.stage import Context, Lesson, Stage, check_lessons
from devmind.curriculum.start import (
    give_reading,
    give_settings,
    load_stage,
    make_context,
    other_version,
    starting_agent,
)
from devmind.curriculum.teaching import Interrupted, position
from devmind.curriculum.untouched import find_untouched
from devmind.errors import CheckpointError, ConfigError
from devmind.report.page import render
from devmind.report.results import Untouched

HANDED_OVER = "ranks/lesson"
"""The position that other ranks begin a lesson with; the folder of a run is shared by all its machines."""


@dataclass(frozen=True)
class Outcome:
    """Results of exams: those of earlier stages before the lessons, and all exams after them.

    Attributes:
        untouched: evidence that earlier stages' exams need not be held again; None if they were held.
        attempt: which attempt at the stage this is; 0 is the first.
    """

    before: Sequence[Examined] = ()
    examined: Sequence[Examined] = ()
    untouched: Untouched | None = None
    attempt: int = 0

    def reached(self, stage: str) -> tuple[bool, int]:
        """Whether all gates of `stage` were passed, and the number of passed gates and goals; larger is better.

        The number includes earlier stages, because a repeat can harm these as well.
        """
        passed = sum(decision.passed for item in self.examined for decision in item.verdict.decisions)
        return all(item.verdict.passed for item in self.examined if item.stage == stage), passed


def note_sources(agent: Agent, lesson: Lesson) -> None:
    """Add what the lesson learns from to the agent's `trained_on`."""
    agent.config.trained_on = list(dict.fromkeys([*agent.config.trained_on, *lesson.learns_from]))


class StageRun:
    """Begins or continues the run of `stage` in the folder `out`.

    Args:
        ablate: also train a twin; a run that has ended without one gets it now, and its report anew.
        cut: end the lesson in which the run was stopped, and continue with the next one.
        threads: used if neither the configuration nor a run that continues says how many; None: one for each core.

    Attributes:
        is_twin: whether this run is the twin of another one: it takes no exam of an earlier stage, and its agent is no
            milestone from which other runs would continue.
    """

    def __init__(
        self,
        stage: Stage,
        config: RunConfig,
        out: Path,
        agent: Path | None,
        data: Path | None,
        sessions: tuple[Path, ...],
        command: str,
        ablate: bool,
        cut: bool = False,
        threads: int | None = None,
    ) -> None:
        self.stage, self.config, self.out, self.threads = stage, config, Path(out), threads
        self.given_agent, self.command, self.ablate, self.cut = agent, command, ablate, cut
        self.is_twin = False
        self.context: Context = make_context(config, self.out, data, sessions)
        self.journal = Journal(self.out / "journal.jsonl")
        self.reports = self.out / "reports" / stage.name
        self.scores: dict[str, float] = {}

    def run(self) -> RunResult:
        """Do the whole run; safe to call again on a folder that holds a run of the same settings."""
        if done := finished_run(self.out, self._identity(), self.ablate):
            return done
        with ranks.joined(self.config.devices, self.out):
            if ranks.rank():
                return self._follow()
            with lock_folder(self.out):
                found = self._run()
            ranks.send({})
            return found

    def _run(self) -> RunResult:
        # Checked again: the process that held the folder may have finished the run meanwhile.
        if done := finished_run(self.out, self._identity(), self.ablate):
            return done
        start = self.journal.last("start")
        if self.cut:
            self._check_cut()
        threads = self.config.threads or recorded_threads(self.journal) or self.threads or ranks.threads()
        with self._noting_a_stop(), training_threads(threads):
            say(f"{'loading' if start else 'making'} the agent")
            agent = self._resume() if start else self._begin()
            earlier = self._earlier(agent)
            trunk = {name: value.clone() for name, value in agent.trunk.state_dict().items()}
            agent, outcome = self._teach_and_examine(agent, earlier)
            self._finish(agent, outcome, made.trunk_moved(trunk, agent))
        return result(self.stage.name, self.out, self.journal.last("finished") or {})

    def replay(self, at: Path, step: int, to: Path) -> tuple[str, int]:
        """Teach a part of a lesson again; this run is a copy of the one in `at`. See `replay`, the function."""
        check_pins(self.journal, at, self.context)
        shelf, backup = shelves(at, load_config(str(at / "config.yaml")))
        newest, since = None, None
        for path in sorted([*on_shelf(shelf), *(on_shelf(backup) if backup else ())], key=number_of, reverse=True):
            if not is_whole(path):
                continue
            about = read_manifest(path)["about"]
            newest = newest or about
            if (about["lesson"], about["attempt"]) == (newest["lesson"], newest["attempt"]) and about["step"] <= step:
                since = path
                break
        lessons, begun = list(self.stage.lessons(self.context)), self.journal.last("plan")
        if newest is None or begun is None:
            raise CheckpointError(f"The run in {at} has no checkpoint that is whole; continue it, or begin anew.")
        if newest.get("ranks", 1) > 1:
            raise ConfigError(
                f"The lesson '{newest['lesson']}' was taught by {newest['ranks']} processes, so one alone would make "
                "other steps; continue the run for its agent."
            )
        number = [lesson.name for lesson in lessons].index(newest["lesson"])
        if step > newest["steps"] or (since is None and (number or newest["attempt"])):
            raise ConfigError(
                f"Step {step:,} of the lesson '{newest['lesson']}' cannot be made again from what {at} holds; give one "
                f"from its oldest checkpoint ('devmind checkpoint list {at}') to {newest['steps']:,}."
            )
        saved = None if since is None else own(load_state(since), self.journal, at)
        with training_threads(recorded_threads(self.journal)):
            agent = place(Agent.from_pretrained(self.out / "start"), self.context.device)
            plan = LessonPlan(
                self.stage.name, lessons, self._earlier(agent), self.context, self.journal, newest["attempt"]
            )
            for lesson in lessons[: number + 1]:
                note_sources(agent, lesson)
            if saved:
                agent.load_state_dict(saved["agent"])
            if saved is None or saved["update"] < step:
                plan.teach(lessons[number], agent, saved, until=step)
        agent.save_pretrained(to)
        return str(newest["lesson"]), saved["update"] if saved else 0

    @contextmanager
    def _noting_a_stop(self) -> Iterator[None]:
        """Write to the journal if the run ends early, because `devmind watch` reads nothing else."""
        try:
            yield
        except BaseException as error:
            asked = not isinstance(error, Exception) or isinstance(error, Interrupted)
            if self.journal.last("start"):
                with suppress(CheckpointError):  # the disk that ended the run may be too full for this line
                    self.journal.write("stopped", fault=None if asked else str(error) or type(error).__name__)
            raise

    def _earlier(self, agent: Agent) -> list[Stage]:
        """The stages that are rehearsed, and examined for retention."""
        return [load_stage(name) for name in agent.config.stages if name != self.stage.name]

    # -- beginning

    def _identity(self) -> dict[str, Any]:
        data, sessions = self.context.data, self.context.sessions
        return identity(self.stage.name, self.config, self.given_agent, data, sessions, self.out)

    def _began_with(self) -> Path | None:
        """The folder of the agent that the run began with; None for a newborn."""
        return found_path((self.journal.last("start") or {}).get("agent"), self.out)

    def _begin(self) -> Agent:
        refuse_leftovers(self.out)
        agent, folder, failed = starting_agent(self.stage, self.config, self.given_agent, self.out.parent)
        give_reading(self.stage, agent, self.context)
        give_settings(self.stage, agent, self.config)
        self.stage.admit(agent)
        agent.config.stages = [*(s for s in agent.config.stages if s != self.stage.name), self.stage.name]
        self._check_lessons()
        make_folder(self.out / "checkpoints")
        agent.save_pretrained(self.out / "start")
        write_atomically(self.out / "config.yaml", yaml.safe_dump(self.config.model_dump(mode="json"), sort_keys=False))
        self.journal.write(
            "start",
            identity=self._identity(),
            command=self.command,
            threads=torch.get_num_threads(),
            device=self.context.device,
            pinned=pins(self.context, agent.config.stages),
            agent=path_from_run(folder, self.out),
            agent_sha256=Agent.from_pretrained(folder).sha256() if folder else None,
            predecessor_failed=failed,
            versions=versions(),
            commit=made.commit(),
        )
        return place(agent, self.context.device)

    def _check_lessons(self) -> None:
        check_lessons([self.stage], self.context)

    def _resume(self) -> Agent:
        check_pins(self.journal, self.out, self.context)
        agent = Agent.from_pretrained(self.out / "start")
        if why := other_version(self.stage, agent, self.journal.last("plan"), self.context):
            raise CheckpointError(
                f"The run in {self.out} was begun by another version of the stage '{self.stage.name}': its {why}. Give "
                "another --out and begin anew."
            )
        self.journal.write("resumed", commit=made.commit())
        return place(agent, self.context.device)

    def _check_cut(self) -> None:
        saved, plan = self._position(), self.journal.last("plan")
        names = [lesson.name for lesson in self.stage.lessons(self.context)]
        whole = not (saved and plan) or saved["update"] >= steps_in(saved["attempt"], plan["steps"][saved["lesson"]])
        if saved is None or whole or saved["lesson"] in self._done(names, saved):
            raise ConfigError(
                f"--cut continues with the lesson after the stopped one, but in {self.out} no lesson was stopped in "
                "its middle; give the same command without --cut."
            )

    def _position(self) -> dict[str, Any] | None:
        return own(position(self.context), self.journal, self.out)

    # -- teaching

    def _teach_and_examine(self, agent: Agent, earlier: Sequence[Stage]) -> tuple[Agent, Outcome]:
        """Make all attempts; returns the agent of the best one, and its outcome.

        A stage that fails a gate is taught again: all lessons with half their steps. It helps where little was missing,
        but it can also do harm: after lessons that change what the agent perceives, its effectors and its trunk have
        only half their steps to adapt. So the best attempt is kept, of equal ones the later.
        """
        retained = () if self.is_twin else earlier
        outcome, saved = Outcome(), self._position()
        if saved is None and self.journal.last("finished"):
            raise CheckpointError(
                f"The run in {self.out} has finished, but its checkpoints are gone, so no twin can be added to it. "
                "Give another --out, and run the stage anew with --ablate."
            )
        for attempt in range(saved["attempt"] if saved else 0, self.config.attempts):
            self._teach(agent, earlier, attempt, saved)
            self._round(agent)
            saved = None
            outcome = self._examine(agent, retained, attempt)
            passed, _ = outcome.reached(self.stage.name)
            if passed or attempt + 1 == self.config.attempts:
                break
            agent.save_pretrained(self.out / "attempts" / str(attempt))
        best, name = outcome, self.stage.name
        for attempt in reversed(range(outcome.attempt)):
            folder = self.out / "attempts" / str(attempt)
            if best.reached(name)[0] or not folder.is_dir():
                continue
            other = place(Agent.from_pretrained(folder), self.context.device)
            earlier_outcome = self._examine(other, retained, attempt)  # this run holds no exam again
            if earlier_outcome.reached(name) > best.reached(name):
                agent, best = other, earlier_outcome
        if best is not outcome:
            say(f"attempt {best.attempt + 1} is better than the last one, so it is kept")
        return agent, best

    def _round(self, agent: Agent) -> Agent:
        """Round an agent to half precision, in which it will be stored, so that exams are of just these weights."""
        if self.config.precision != DOUBLE:
            round_to_half(agent)
        return agent

    def _teach(self, agent: Agent, earlier: Sequence[Stage], attempt: int, saved: dict[str, Any] | None) -> None:
        lessons = list(self.stage.lessons(self.context))
        done = self._done([lesson.name for lesson in lessons], saved)
        cut = saved["lesson"] if self.cut and saved else None
        left = [lesson for lesson in lessons if lesson.name not in done and lesson.name != cut]
        plan = LessonPlan(self.stage.name, lessons, earlier, self.context, self.journal, attempt)
        self._settle(plan, left, saved)
        if saved:
            agent.load_state_dict(saved["agent"])
        for number, lesson in enumerate(lessons):
            note_sources(agent, lesson)
            if lesson.name in done:
                continue
            resume = saved if saved and saved["lesson"] == lesson.name else None
            say(f"lesson {lesson.name}, {number + 1} of {len(lessons)}")
            is_cut = lesson.name == cut
            shared = not is_cut and self._hand_over(lesson, agent, attempt, resume)
            plan.teach(lesson, agent, resume, self.scores, is_cut, shared=shared)
            if lesson is not lessons[-1]:  # behind the last one the exams themselves follow
                self._glimpse(lesson, agent)

    def _hand_over(self, lesson: Lesson, agent: Agent, attempt: int, resume: dict[str, Any] | None) -> bool:
        """Let other ranks teach the lesson too, from the same position; False if there are none, or it cannot be."""
        if ranks.world() == 1 or self.is_twin or not lesson.make_learner(agent, self.context).distributes:
            return False
        save(self.out / HANDED_OVER, {"agent": agent.state_dict(), "resume": resume})
        ranks.send({"lesson": lesson.name, "attempt": attempt, "threads": torch.get_num_threads()})
        return True

    def _follow(self) -> RunResult:
        """As another rank than 0: teach every lesson that rank 0 hands over, and write nothing."""
        while job := ranks.receive():
            given = load_state(self.out / HANDED_OVER)
            agent = place(Agent.from_pretrained(self.out / "start"), self.context.device)
            agent.load_state_dict(given["agent"])
            lessons = list(self.stage.lessons(self.context))
            lesson = next(one for one in lessons if one.name == job["lesson"])
            plan = LessonPlan(
                self.stage.name, lessons, self._earlier(agent), self.context, self.journal, job["attempt"]
            )
            with training_threads(job["threads"]):
                plan.prepare(lesson, agent, given["resume"], shared=True).follow()
        return result(self.stage.name, self.out, self.journal.last("finished") or {})

    def _settle(self, plan: LessonPlan, left: Sequence[Lesson], saved: dict[str, Any] | None) -> None:
        """Settle steps and rehearsals, and print the forecast of their time, before the first step."""
        plan.begin(
            left, saved, lambda: Agent.from_pretrained(self.out / "start"),
            lambda shorter: gates_of(self.stage, shorter, self.context),
        )  # fmt: skip

    def _done(self, names: Sequence[str], saved: dict[str, Any] | None) -> set[str]:
        """The lessons that the saved position contains: those before its own, and its own if that had ended.

        The journal alone is not enough: the checkpoint after its last lessons may have been damaged since.
        """
        if saved is None:
            return set()
        at = (saved["attempt"], saved["lesson"], saved["updates"])
        ended = any(
            (e["attempt"], e["lesson"], e["steps"] + e.get("rehearsals", 0)) == at
            for e in self.journal.events("lesson_done")
        )
        return set(names[: names.index(saved["lesson"]) + ended])

    def _glimpse(self, lesson: Lesson, agent: Agent) -> None:
        """Hold a fifth of the exam after a lesson, but the last; it is shown in the bar, but never judged."""
        shown: dict[str, float] = {}
        beside: dict[str, dict[str, Any]] = {}
        for skill in self.stage.skills:
            if skill.name in lesson.skills:
                item = examine_skill(self.stage, skill, agent, self.context.glimpse(), Exam.alone)
                shown |= {name: round(measure.score, 4) for name, measure in item.measures.items()}
                beside |= glimpse_notes(item, self.context)
        if shown:
            self.journal.write("glimpse", lesson=lesson.name, scores=shown, measures=beside)
            self.scores = shown

    # -- examining and ending

    def _examine(self, agent: Agent, earlier: Sequence[Stage], attempt: int) -> Outcome:
        """Hold the stage's own exams, and those of earlier stages if it has changed anything that they use; if not, the
        earlier results hold.
        """
        when = f"attempt {attempt}"
        before, same = self._inherited(earlier), None
        if earlier:
            given = self._round(Agent.from_pretrained(self._began_with() or self.out / "start"))
            place(given, self.context.device)
            same = find_untouched(given, agent, self.stage, earlier, self.context)
            before = before if same else self._before(before, earlier, given)
        if same is None:
            sits, known = [*earlier, self.stage], before
        else:
            self.journal.write("untouched", **same.model_dump())
            keep_exams(before, agent, self.context, when)
            sits, known = [self.stage], []
        examined = run_exams(sits, agent, self.context, self.journal, when, known, self.stage.name)
        return Outcome(before, examined if same is None else [*before, *examined], same, attempt)

    def _before(self, found: list[Examined], earlier: Sequence[Stage], given: Agent) -> list[Examined]:
        """The exams of earlier stages with which retention compares, of the agent that was given to this run.

        They come from the run that saved that agent (`found`), else they are held now. So changes that the mere
        presence of the stage's parts causes count as the stage's doing.
        """
        known = {(item.stage, item.skill.name) for item in found}
        left = [
            stage
            for stage in earlier
            if any((stage.name, skill.name) not in known for skill in stage.skills if not skill.unretained)
        ]
        return [*found, *run_exams(left, given, self.context, self.journal, "before")] if left else found

    def _inherited(self, earlier: Sequence[Stage]) -> list[Examined]:
        """The exams of the given agent in the run that saved it; none if that run had other settings, data or code."""
        start, folder = self.journal.last("start") or {}, self._began_with()
        run = next((path for path in folder.parents if (path / "journal.jsonl").is_file()), None) if folder else None
        theirs = Journal(run / "journal.jsonl").last("start") if run else None
        if folder is None or run is None or theirs is None:
            return []
        if not same_exams(theirs, start):
            return []
        return held_before(run, self._round(Agent.from_pretrained(folder)), earlier, self.context)

    def _finish(self, agent: Agent, outcome: Outcome, moved: float) -> None:
        twin = self._compared(agent, outcome) if self.ablate else None
        examined = self._beside_twin(outcome.examined, twin) if twin else outcome.examined
        begun = self._began_with()
        old = (read_results(begun) if begun else None) or {}
        results = made.assemble(
            self.stage, examined, agent, self.journal, self.config, outcome.attempt, old,
            retention=made.measure_retention(outcome.before, examined, self.config.exam.bootstrap),
            trunk_moved=moved,
            untouched=outcome.untouched,
            ablation=twin,
        )  # fmt: skip
        passed = results.verdict.passed
        folder = self._ends_in(agent, passed)
        agent.save_pretrained(folder)
        if begun:
            carry_state(begun, folder)
        seal(folder, "results.json", results.text.encode())
        known = read_confidence(begun, agent) if begun else None
        seal_confidence(agent, folder, known, self.config.exam.episodes_scale)
        write_atomically(self.reports / "results.json", results.text)
        write_atomically(self.reports / "report.html", render(results))
        self.journal.write(
            "finished",
            passed=passed,
            agent=str(folder.relative_to(self.out)),
            reasons=results.verdict.reasons,
            results_sha256=sha256(self.reports / "results.json"),
            twin=twin is not None,
        )

    def _ends_in(self, agent: Agent, passed: bool) -> Path:
        """Where the agent is saved: if it has passed, as a milestone, from which other runs continue.

        It stays where it is if only the twin was missing: later runs name that folder.
        """
        if before := self.journal.last("finished"):
            return self.out / str(before["agent"])
        if self.is_twin or not passed:
            return self.out / "agent"
        return self.out / "milestones" / f"{len(agent.config.stages):02d}-{self.stage.name}"

    def _compared(self, agent: Agent, outcome: Outcome) -> dict[str, Any]:
        """The twin's scores, and how much the agent is better on the same episodes."""
        controlled = any(lesson.control is not None for lesson in self.stage.lessons(self.context))
        begun = self.out / "twin" / "newborn"
        if controlled:
            if not (begun / CHECKSUMS).exists():
                start = place(Agent.from_pretrained(self.out / "start"), self.context.device)
                identity_trunk(agent, begun, start, self.stage, self.context)
            result = self._twin(Control(self.stage), begun, outcome.attempt)
        else:
            result = self._twin(self.stage, fresh_parts(self.out / "start", begun, ("trunk",)), outcome.attempt)
        twin = Agent.from_pretrained(result.agent).sha256()
        folders = sorted((self.out / "twin" / "run" / FOLDER).iterdir())
        theirs = {name: measure for folder in folders for name, measure in (load(folder, twin) or {}).items()}
        own = [item for item in outcome.examined if item.stage == self.stage.name]
        mine = {name: measure for item in own for name, measure in item.measures.items()}
        by = differences(mine, theirs, self.config.exam.bootstrap)
        return compare_twin(result.results, controlled) | {"differences": by}

    def _beside_twin(self, examined: Sequence[Examined], twin: dict[str, Any]) -> list[Examined]:
        """The exams, decided again by gates that read the twin; whether to repeat the stage was decided without it."""
        above = {name: bool(found["significant"]) for name, found in twin["differences"].items()}
        return [
            decide(self.stage, item.skill, item.measures, self.context, above_twin=above)
            if item.stage == self.stage.name
            else item
            for item in examined
        ]

    def _twin(self, stage: Stage, begins: Path, attempt: int) -> RunResult:
        """The twin, raised once in its own folder with the steps and rehearsals of all attempts up to `attempt`, which
        was kept; of cut lessons with the steps that were made.
        """
        taught = {lesson.name for lesson in stage.lessons(self.context)}
        lessons = {name: said for name, said in self.config.lessons.items() if name in taught}
        config = self.config.model_copy(update={"attempts": 1, "lessons": lessons})
        run = StageRun(
            stage, config, self.out / "twin" / "run", begins, self.context.data,
            self.context.sessions, f"{self.command} (twin)", ablate=False, threads=torch.get_num_threads(),
        )  # fmt: skip
        run.is_twin = True
        if run.journal.last("plan") is None:
            make_folder(run.out)
            steps: dict[str, int] = {}
            for event in made.lessons_done(self.journal):
                if event["lesson"] in taught and event["attempt"] <= attempt:
                    steps[event["lesson"]] = max(1, steps.get(event["lesson"], 0) + event["steps"])
            every = (self.journal.last("plan") or {}).get("rehearsal_every", {})
            run.journal.write("plan", steps=steps, rehearsal_every=every)
        return run.run()


def replay(out: Path, step: int, to: Path) -> tuple[str, int]:
    """Make the agent again as it was after own step `step` of the lesson in which the run in `out` saved last, bit for
    bit, and save it in `to`; the run stays as it is.

    Returns: the lesson, and the step of the checkpoint from which it was taught; 0 if from its beginning.

    Raises:
        CheckpointError: there is no such run, it has no whole checkpoint, or packages or recordings are others now.
        ConfigError: the step lies before the oldest checkpoint, or behind the lesson's end.
    """
    start = Journal(out / "journal.jsonl").last("start")
    if start is None:
        raise CheckpointError(f"There is no run of a stage in {out}; give the folder of one.")
    said = start["identity"]
    quietly = {"loggers": (), "checkpoint": {"every": "1e9 s"}}
    data, *sessions = (found_path(kept, out) for kept in (said["data"], *said["experience"]))
    with tempfile.TemporaryDirectory() as folder:
        apart = Path(folder) / "run"
        shutil.copytree(out / "start", apart / "start")
        shutil.copy(out / "journal.jsonl", apart)
        run = StageRun(
            load_stage(said["stage"]),
            validate(said["config"] | quietly),
            apart,
            None,
            data,
            tuple(path for path in sessions if path),
            "",
            ablate=False,
        )
        return run.replay(out, step, to)
