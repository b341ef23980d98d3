"""The end of a childhood: its last agent in half precision, examined again in a new process, and one report."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from devmind import bounds
from devmind.acting.confidence import read_confidence, seal_confidence
from devmind.agent.agent import Agent
from devmind.agent.device import pick_device, place
from devmind.agent.precision import fits_half
from devmind.agent.saving import CHECKSUMS, WEIGHTS, all_tensors, hash_tensors, read_tensors, seal
from devmind.agent.threads import training_threads
from devmind.checkpointing.files import write_atomically
from devmind.checkpointing.lock import lock_folder
from devmind.config import RunConfig
from devmind.curriculum.examining import Examined
from devmind.curriculum.finished import RunResult, result
from devmind.curriculum.journal import Journal
from devmind.curriculum.pinned import same_exams
from devmind.curriculum.progress import say
from devmind.curriculum.ranks import ENDS
from devmind.curriculum.results import added_s, commit
from devmind.curriculum.run_exams import held_before, keep_exams, run_exams
from devmind.curriculum.stage import Context, Stage
from devmind.curriculum.start import load_stage, make_context
from devmind.errors import CheckpointError, ExamError
from devmind.report import childhood, results

HALF = "half"
"""Folder of the last agent in half precision, and of its exams."""
VERDICT = "verdict.json"


def close(out: Path, done: Sequence[RunResult], command: str) -> Path:
    """Hold the last exams in a new process, and write `childhood.json` and `childhood.html`; returns the page's path.

    After a kill, finished exams are not repeated.

    Raises:
        ExamError: the examining process ended without a verdict.
    """
    half = save_half(done[-1].agent, out / HALF)
    if not (half / VERDICT).is_file():
        say("last milestone: its exams in half precision, in a new process")
        _in_new_process(out)
    results_of_stages = [results.load(one.results) for one in done]
    whole = childhood.Saved(
        precision="float32",
        megabytes=_megabytes(done[-1].agent),
        agent_sha256=results_of_stages[-1].run.agent_sha256,
        gates=None,
    )
    sentence = f"'{half / VERDICT}' is not JSON ({{}}); delete it, and the exams are given again."
    verdict = bounds.parse_json(bounds.read_file(half / VERDICT, CheckpointError), CheckpointError, sentence)
    saved = [whole, childhood.Saved.model_validate(verdict)]
    pages = [os.path.relpath(one.report, out) for one in done]
    gathered = childhood.gather(results_of_stages, pages, saved, command)
    write_atomically(out / childhood.FILE, gathered.model_dump_json(indent=1, by_alias=True) + "\n")
    write_atomically(out / "childhood.html", childhood.render(gathered))
    return out / "childhood.html"


def save_half(agent: Path, folder: Path) -> Path:
    """Save the agent of the folder `agent` in float16; a tensor that float16 cannot represent stays as it is.

    If another agent is there, because a stage was raised anew, its verdict is removed with it.
    """
    half = Agent.from_pretrained(agent)
    for value in (*half.parameters(), *half.buffers()):
        if fits_half(value):
            value.data = value.detach().half()
    is_saved = (folder / CHECKSUMS).is_file() and hash_tensors(read_tensors(folder)) == hash_tensors(all_tensors(half))
    if not is_saved:
        for name in (VERDICT, CHECKSUMS):  # first, so that a kill leaves nothing that seems whole
            (folder / name).unlink(missing_ok=True)
        half.save_pretrained(folder)
    return folder


def examine_last(
    out: Path, stages: Sequence[str], config: RunConfig, data: Path | None, threads: int | None = None
) -> list[Examined]:
    """Examine the agent in half precision in the skills of all stages, except `unretained` ones, and write its verdict.

    Exams that hold already (`_held`) are taken over. After a kill, the same call continues with the remaining exams.
    """
    folder = Path(out) / HALF
    agent, taught = Agent.from_pretrained(folder), [load_stage(name) for name in stages]
    with lock_folder(folder), training_threads(config.threads or threads):
        context = make_context(config, folder, data, ())
        keep_exams(_held(Path(out), taught, agent, context), agent, context, "half")
        place(agent, pick_device(config.device))
        journal = Journal(folder / "exams.jsonl")
        examined = run_exams(taught, agent, context, journal, "half")
    decisions = [decision for item in examined for decision in item.verdict.decisions if not decision.goal]
    unasked = [item.skill.name for item in examined if not item.verdict.decisions]
    weights = agent.sha256()
    saved = childhood.Saved(
        precision="float16",
        megabytes=_megabytes(folder),
        agent_sha256=weights,
        gates=childhood.Gates(passed=sum(one.passed for one in decisions), of=len(decisions) + len(unasked)),
        seconds=sum(added_s(event) for event in journal.events("exam") if event["agent"] == weights),
        failed=[*(decision.measure for decision in decisions if not decision.passed), *unasked],
        folder=HALF,
    )
    skills = [item.result(config.exam.bootstrap).model_dump() for item in examined]
    shown = {"skills": skills, "agent_sha256": saved.agent_sha256}
    seal(folder, "results.json", json.dumps(shown, indent=1).encode())
    seal_confidence(agent, folder, read_confidence(folder, agent), config.exam.episodes_scale)
    write_atomically(folder / VERDICT, saved.model_dump_json(indent=1) + "\n")
    return examined


def _held(out: Path, stages: Sequence[Stage], agent: Agent, context: Context) -> list[Examined]:
    """The exams that runs of `stages` in `out` held of their own agents, as far as they are `agent`'s too.

    They are if it has every tensor of the examined one, to the bit, each later stage left all that the exam uses
    untouched (`find_untouched`), and version and data are the same.
    """
    found, last, newest = list[Examined](), agent.state_dict(), dict[str, Any]()
    for stage in reversed(stages):
        journal = Journal(out / stage.name / "journal.jsonl")
        start, finished = journal.last("start"), journal.last("finished")
        if start is None or finished is None:
            break
        newest = newest or start
        run = result(stage.name, out / stage.name, finished)
        examined = Agent.from_pretrained(run.agent)
        same = all(name in last and last[name].equal(value) for name, value in examined.state_dict().items())
        if not same or start.get("commit") != commit() or not same_exams(start, newest):
            break
        found += held_before(run.out, examined, [stage], context)
        if results.load(run.results).untouched is None:
            break
    return found


def _megabytes(agent: Path) -> float:
    return (agent / WEIGHTS).stat().st_size / 1e6


def _in_new_process(out: Path) -> None:
    """Run `devmind stage exam OUT`; it ends with this process, however this one ends."""
    command = [sys.executable, "-c", "from devmind.cli import main; main()", "stage", "exam", str(out)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, env={**os.environ, ENDS: "1"}) as process:
        try:
            code = process.wait()
        except BaseException:
            process.terminate()
            raise
    if not (out / HALF / VERDICT).is_file():
        raise ExamError(
            f"The exams of the last milestone ended with exit code {code} and no verdict; the same command continues "
            "with the remaining ones."
        )
