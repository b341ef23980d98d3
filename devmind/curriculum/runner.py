"""Functions that the command line calls: run a stage or a whole curriculum, or examine a saved agent."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from devmind import plugins
from devmind.agent.agent import Agent
from devmind.agent.device import pick_device, place
from devmind.agent.saving import CONFIG, read_config
from devmind.agent.threads import cores, training_threads
from devmind.checkpointing.lock import lock_folder
from devmind.config import TRIAL_SIZES, RunConfig, validate
from devmind.curriculum.childhood import close, examine_last
from devmind.curriculum.examining import decide, pick_skills
from devmind.curriculum.finished import check_same_run, deciding, found_path, path_from_run, run_folder
from devmind.curriculum.journal import Journal
from devmind.curriculum.pinned import pinned_settings
from devmind.curriculum.side_by_side import ExamResult, ExamTask, exam_folder, hold_all, say_passing
from devmind.curriculum.stage_run import RunResult, StageRun
from devmind.curriculum.start import apply_trunk, give_settings, load_stage, make_context, missing_parts
from devmind.errors import ConfigError, ExamError


def run_stage(
    name: str,
    config: RunConfig,
    *,
    out: Path | None = None,
    agent: Path | None = None,
    data: Path | None = None,
    sessions: Sequence[Path] = (),
    command: str = "",
    ablate: bool = False,
    cut: bool = False,
    threads: int | None = None,
) -> RunResult:
    """Run one stage from admission to its report, or continue where a killed run stopped.

    Args:
        cut: continue with the lesson after the stopped one.
        threads: used if neither the configuration nor a run that continues says how many.

    Raises:
        DevmindError: something given does not fit; nothing was half-written.
        Interrupted: asked to stop; the same call continues the run.
    """
    out = out or run_folder(name, config)
    command = command or f"devmind stage run {name}"
    return StageRun(load_stage(name), config, out, agent, data, tuple(sessions), command, ablate, cut, threads).run()


def examine(
    name: str, agent: Path, config: RunConfig, *, skill: str | None = None, data: Path | None = None
) -> dict[str, Any]:
    """Examine a saved agent: `{"agent_sha256": ..., "passed": ..., "skills": {measure: {...}}, "not_asked": [...]}`.

    No file is left beside the agent, because packaged agents lie where devmind is installed.

    Raises:
        ConfigError: the configuration wants a trunk or settings of the stage that the agent does not have.
        ExamError: the agent was not admitted to the stage, or the data does not allow the exam.
    """
    stage, loaded = load_stage(name), Agent.from_pretrained(agent)
    apply_trunk(config, loaded, agent)
    give_settings(stage, loaded, config)
    sha256 = loaded.sha256()
    if missing := missing_parts(stage, loaded, for_exam=True):
        raise ExamError(
            f"The agent in {agent} was never admitted to stage '{name}': it lacks {missing}; "
            f"run 'devmind stage run {name} --agent {agent}' first."
        )
    with training_threads(config.threads), exam_folder() as out:
        context = make_context(config, out, data, ())
        place(loaded, pick_device(config.device))
        asked = pick_skills(stage, skill)
        held = dict[str, ExamResult]()
        for due, one in hold_all([ExamTask(stage, one.name) for one in asked], loaded, context):
            held[due.skill] = one
            say_passing(due, one)
        examined = [decide(stage, one, held[one.name].measures, context) for one in asked]
    keep = ("score", "low", "high", "n", "distinct", "exhaustive", "unit", "chance", "floor", "ceiling", "gate",
            "passed", "verdict", "beaten_by", "higher_is_better", "floors", "rows", "note", "trunk")  # fmt: skip
    rows = [row for item in examined for row in item.result(config.exam.bootstrap).measures]
    skills = {row.name: row.model_dump(include=set(keep)) for row in rows}
    if not skills:
        raise ExamError(f"Nothing of stage '{name}' could be measured; give --data where a skill needs recordings.")
    gated = [threshold.measure for item in examined for threshold in item.skill.gate_in(context).thresholds]
    return {
        "agent_sha256": sha256,
        "passed": all(item.verdict.passed for item in examined),
        "skills": skills,
        "not_asked": [name for name in gated if name not in skills],
    }


class Curriculum:
    """Stages one after another in one folder; each continues from the agent of the stage before.

    A given agent that has been through a required stage is not taught it again, unless the stage is named.

    A stage that fails a gate is repeated once, with half its steps. Then the curriculum continues, with that stage
    marked as failed. Trial sizes repeat nothing unless `attempts` is given.
    """

    def __init__(
        self,
        stages: Sequence[str],
        config: RunConfig,
        out: Path,
        *,
        agent: Path | None = None,
        data: Path | None = None,
        sessions: Sequence[Path] = (),
        command: str = "",
        ablate: bool = False,
    ) -> None:
        self.stages, self.config, self.out = list(stages), repeated_once(config), Path(out)
        self.agent, self.data, self.sessions, self.command = agent, data, tuple(sessions), command
        self.ablate = ablate
        self.journal = Journal(self.out / "curriculum.jsonl")

    def run(self, cut: bool = False) -> list[RunResult]:
        """Run the stages in the order of their requirements; safe to call again after a kill.

        Args:
            cut: continue with the lesson after the stopped one.
        """
        with lock_folder(self.out):
            return self._run(cut)

    def _run(self, cut: bool) -> list[RunResult]:
        order = in_order(self.stages, _been_through(self.agent))
        threads = self._planned(order)["threads"]
        done, agent = [], self.agent
        for name in order:
            result = run_stage(
                name, self.config, out=self.out / name, agent=agent, data=self.data,
                sessions=self.sessions, command=self.command, ablate=self.ablate, cut=cut,
                threads=threads,
            )  # fmt: skip
            cut = cut and result.already_finished
            done.append(result)
            agent = result.agent
        close(self.out, done, self.command)
        return done

    def _planned(self, order: Sequence[str]) -> dict[str, Any]:
        """The plan in the folder's journal, which is written now where there is none, or where twins or places of files
        are new in it.
        """
        plan = {
            "stages": list(order),
            "config": self.config.model_dump(mode="json"),
            "agent": path_from_run(self.agent, self.out),
            "data": path_from_run(self.data, self.out),
            "sessions": [path_from_run(path, self.out) for path in self.sessions],
        }
        known = self.journal.last("plan")
        if known:
            begun = (pinned_settings(Journal(self.out / name / "journal.jsonl")) for name in order)
            contents = next((one for one in begun if one), None)
            check_same_run(self.out, plan | {"config": deciding(self.config)}, known, contents)
        more: dict[str, Any] = {"command": self.command, "ablate": self.ablate}
        if known is None or (self.ablate and not known["ablate"]):
            threads = known["threads"] if known else self.config.threads or cores()
            known = plan | more | {"threads": threads}
            self.journal.write("plan", **known)
        elif any(plan[name] != known[name] for name in ("agent", "data", "sessions")):
            known = plan | {name: known[name] for name in (*more, "threads")}
            self.journal.write("plan", **known)
        self.command, self.ablate = known["command"], known["ablate"]
        return known

    @classmethod
    def resume(cls, out: Path, cut: bool = False) -> list[RunResult]:
        """Continue the curriculum that was begun in `out`, with its own settings; `cut` as in `run`."""
        plan = _known_plan(out)
        agent, data, *sessions = (found_path(kept, out) for kept in (plan["agent"], plan["data"], *plan["sessions"]))
        return cls(
            plan["stages"], validate(plan["config"]), out, agent=agent, data=data,
            sessions=[path for path in sessions if path], command=plan["command"], ablate=plan["ablate"],
        ).run(cut)  # fmt: skip


def examine_childhood(out: Path) -> bool:
    """Hold the exams of a childhood's last milestone in half precision; returns whether every gate was passed."""
    plan = _known_plan(out)
    data = found_path(plan["data"], out)
    examined = examine_last(out, plan["stages"], validate(plan["config"]), data, plan.get("threads"))
    return all(item.verdict.passed for item in examined)


def _known_plan(out: Path) -> dict[str, Any]:
    plan = Journal(Path(out) / "curriculum.jsonl").last("plan")
    if plan is None:
        raise ConfigError(f"There is no curriculum in {out}; begin one with 'devmind stage run all --out {out}'.")
    return plan


def status(out: Path) -> dict[str, Any]:
    """The position of a curriculum, or of a single stage's run: by stage, its lesson, step and verdict."""
    out = Path(out)
    if (out / "journal.jsonl").is_file():
        return {"stages": {_stage_of(out): _stage_status(out)}}
    plan = _known_plan(out)
    return {"stages": {name: _stage_status(out / name) for name in plan["stages"]}}


def _stage_of(out: Path) -> str:
    start = Journal(out / "journal.jsonl").last("start")
    return start["identity"]["stage"] if start else out.name


def _stage_status(out: Path) -> dict[str, Any]:
    journal = Journal(out / "journal.jsonl")
    if (finished := journal.last("finished")) is not None:
        return {"state": "passed" if finished["passed"] else "failed", "agent": str(out / finished["agent"])}
    if journal.last("start") is None:
        return {"state": "not begun"}
    now = journal.last("progress", "lesson_done", "exam")
    stopped = (journal.last("start", "resumed", "stopped") or {}).get("event") == "stopped"
    steps = dict((journal.last("plan") or {"steps": {}})["steps"])
    steps |= {event["lesson"]: event["steps"] for event in journal.events("begun") if "steps" in event}
    if now is None or now["event"] == "exam":
        return {"state": "stopped" if stopped else "examining" if now else "begun"}
    where = {"lesson": now["lesson"], "step": now.get("step", now.get("steps")), "of": steps.get(now["lesson"])}
    return {"state": "stopped" if stopped else "teaching", **where}


def repeated_once(config: RunConfig) -> RunConfig:
    """The configuration of a curriculum's stages: two attempts, unless `attempts` is set."""
    if "attempts" in config.model_fields_set or config.size in TRIAL_SIZES:
        return config
    return config.model_copy(update={"attempts": 2})


def every_stage(agent: Path | None = None) -> list[str]:
    """All installed stages in the order of a childhood, without those that the agent in this folder has been through.

    Stages that no other stage requires come in order of name, each directly after the stages that it requires.

    Raises:
        ConfigError: the agent has been through all of them.
    """
    names, been = list(plugins.available("stages")), _been_through(agent)
    required = {name for one in names for name in load_stage(one).requires}
    order = [name for name in in_order([name for name in names if name not in required] or names) if name not in been]
    if not order:
        raise ConfigError(f"The agent in '{agent}' has been through all stages; name those that it is to repeat.")
    return order


def _been_through(agent: Path | None) -> list[str]:
    """The stages of the agent in this folder; none without one, as behind a childhood whose first agent is gone."""
    return list(read_config(agent).get("stages", [])) if agent and (agent / CONFIG).is_file() else []


def in_order(names: Sequence[str], been: Sequence[str] = ()) -> list[str]:
    """The named stages and all that they require, but for those in `been`, each after its requirements.

    Raises:
        ConfigError: stages require one another in a circle.
    """
    order: list[str] = []

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            raise ConfigError(f"Stages require one another in a circle: {' -> '.join((*path, name))}; break it.")
        for required in load_stage(name).requires:
            if required not in been or required in names:
                visit(required, (*path, name))
        if name not in order:
            order.append(name)

    for name in names:
        visit(name, ())
    return order
