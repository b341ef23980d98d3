"""The report of a finished study: outcomes from its runs' results, and the comparisons of its file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from devmind import bounds
from devmind.agent.device import pick_device
from devmind.checkpointing.files import write_atomically
from devmind.curriculum.finished import RunResult
from devmind.curriculum.machine import measure_machine
from devmind.curriculum.study.file import Comparison
from devmind.curriculum.study.run import StudyRun
from devmind.curriculum.study.statistics import compare_paired, holm, interquartile_mean, iqm_interval
from devmind.errors import ConfigError, ExamError
from devmind.report import results as report_results
from devmind.report.results import MeasureResult, Results
from devmind.report.study import (
    ArmOutcome,
    ArmReport,
    ComparisonReport,
    SeedValue,
    StudyReport,
    as_csv,
    as_latex,
    render,
)

PAGE, TABLE, LATEX, GATHERED = "study.html", "outcomes.csv", "study.tex", "study.json"
Made = Mapping[int, Mapping[str, Results]]


def close(run: StudyRun) -> StudyReport:
    """Gather the measures of all runs of a study, and write the page, the CSV, the LaTeX table and `study.json`.

    Finished runs are only read, others are made. If the study was gathered before, its report is only read.
    """
    if (run.out / GATHERED).is_file():
        run.freeze()
        data = bounds.read_file(run.out / GATHERED, ConfigError, 1 << 28)
        with bounds.damage(
            ConfigError, f"'{run.out / GATHERED}' is damaged ({{}}); delete it to gather the runs again."
        ):
            return StudyReport.model_validate_json(data)
    made: Made = {seed: _read(run.run_seed(seed)) for seed in run.seeds}
    gathered = gather(run, made, run.freeze())
    write_atomically(run.out / TABLE, as_csv(gathered))
    write_atomically(run.out / LATEX, as_latex(gathered))
    write_atomically(run.out / PAGE, render(gathered))
    # Last, since a study that has it counts as finished.
    write_atomically(run.out / GATHERED, gathered.model_dump_json(indent=1, by_alias=True) + "\n")
    return gathered


def _read(done: Mapping[str, RunResult]) -> dict[str, Results]:
    return {leg: report_results.load(result.results) for leg, result in done.items()}


def gather(run: StudyRun, made: Made, frozen: Mapping[str, Any]) -> StudyReport:
    """The report of a study whose runs have all finished.

    Args:
        made: by seed, by leg.
    """
    file, plan = run.study.file, run.plan
    outcomes = list(plan.skills)
    values = {
        (arm, seed, outcome): _value(arm, seed, outcome, made[seed][legs[-1]])
        for arm, legs in plan.arms.items()
        for seed in run.seeds
        for outcome in outcomes
    }

    def of(arm: str, outcome: str) -> list[SeedValue]:
        return [values[arm, seed, outcome] for seed in run.seeds]

    arms = [
        ArmReport(
            name=name,
            walk=plan.walk(name),
            steps=plan.steps(name),
            stage_steps={stage: steps for stage in file.stages if (steps := plan.steps_in(name, stage))},
            rehearsals=sum(
                lesson.rehearsals for seed in run.seeds for leg in legs for lesson in made[seed][leg].lessons
            ),
            seconds=sum(made[seed][leg].cost.seconds for seed in run.seeds for leg in legs) / len(run.seeds),
            outcomes=[_over_seeds(name, of(name, outcome)) for outcome in outcomes],
        )
        for name, legs in plan.arms.items()
    ]
    every = [result for legs in made.values() for result in legs.values()]
    return StudyReport(
        name=run.study.name,
        question=file.question,
        command=frozen["command"],
        begun=frozen["begun"],
        finished=datetime.now(UTC).isoformat(timespec="seconds"),
        file=run.study.text,
        machine=str(measure_machine(str(pick_device(run.study.config.device)))),
        seeds=list(run.seeds),
        size=run.study.config.size,
        alpha=file.alpha,
        power=file.power,
        runs=len(every),
        seconds=sum(result.cost.seconds for result in every),
        arms=arms,
        comparisons=_compared(file.comparisons, plan.equal, values, run.seeds, file.alpha, file.power),
        values=list(values.values()),
        **{key: frozen[key] for key in ("file_sha256", "code_sha256", "commit", "versions", "gates")},
        **{"schema": 1},
    )


def _value(arm: str, seed: int, outcome: str, results: Results) -> SeedValue:
    measures = {measure.name: measure for skill in results.skills for measure in skill.measures}
    if (found := measures.get(outcome)) is None:
        raise ExamError(
            f"The exam of arm '{arm}' with seed {seed} has no measure '{outcome}'; it has {', '.join(measures)}. "
            "Name one of these in the study's file, and begin it with another --out."
        )
    return SeedValue(arm=arm, seed=seed, outcome=outcome, value=found.score, **_shared(found))


def _shared(one: MeasureResult) -> dict[str, Any]:
    keys = ("low", "high", "chance", "floor", "ceiling", "gate", "passed", "unit", "higher_is_better")
    return {key: getattr(one, key) for key in keys} | {"n": one.n if one.distinct is None else one.distinct}


def _over_seeds(arm: str, values: Sequence[SeedValue]) -> ArmOutcome:
    scores = [one.value for one in values]
    low, high = iqm_interval(scores, f"{arm}/{values[0].outcome}")
    return ArmOutcome(
        outcome=values[0].outcome,
        mean=float(np.mean(scores)),
        iqm=float(interquartile_mean(np.asarray(scores))),
        low=low,
        high=high,
        chance=float(np.mean([one.chance for one in values])),
        floor=float(np.mean([one.floor for one in values])),
        ceiling=float(np.mean([one.ceiling for one in values])),
        gate=values[0].gate,
        passed=sum(one.passed is True for one in values),
        unit=values[0].unit,
        higher_is_better=values[0].higher_is_better,
        seeds=scores,
    )


def _compared(
    comparisons: Sequence[Comparison],
    equal: Sequence[str],
    values: Mapping[tuple[str, int, str], SeedValue],
    seeds: Sequence[int],
    alpha: float,
    power: float,
) -> list[ComparisonReport]:
    """All comparisons: first the primary one, without correction, then the others with Holm's correction."""
    pairs = []
    for one in comparisons:
        first, second = ([values[arm, seed, one.outcome] for seed in seeds] for arm in one.arms)
        pairs.append(
            compare_paired(
                [value.value for value in first],
                [value.value for value in second],
                f"{'/'.join(one.arms)}/{one.outcome}",
                alpha=alpha,
                power=power,
                higher_is_better=first[0].higher_is_better,
            )
        )
    adjusted = [None, *holm([pair.p for pair in pairs[1:]])]
    made = []
    for number, (one, pair) in enumerate(zip(comparisons, pairs, strict=True)):
        p = pair.p if (corrected := adjusted[number]) is None else corrected
        shown = p <= alpha and pair.difference != 0
        made.append(
            ComparisonReport(
                arms=one.arms,
                outcome=one.outcome,
                primary=number == 0,
                equal=equal[number],
                p_holm=corrected,
                answer="no difference shown" if not shown else "better" if pair.difference > 0 else "worse",
                **vars(pair),
            )
        )
    return made
