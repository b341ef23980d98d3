"""Put a raised agent beside the newborn: `python -m devmind.raised.pack RUN/milestones/01-reflex newborn`.

`python -m devmind.raised.pack RUN`, where RUN is the folder of a whole childhood (`devmind stage run all`), packs all
of its agents at once, each over the one before.

Critics are left out, as the agents get no rewards, and weights are in half precision. With `--over NAME` only weights
that the agent of that name lacks are written. `--exams FILE`, written by
`devmind stage exam STAGE --agent newborn --json FILE` for the packed agent, adds its scores, which decide which heads
may act.
"""

from __future__ import annotations

import argparse
import copy
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from devmind import bounds
from devmind.acting.confidence import FILE as CONFIDENCE
from devmind.acting.confidence import read_confidence, seal_confidence
from devmind.acting.standing import RESULTS
from devmind.agent.agent import Agent
from devmind.agent.saving import save, seal
from devmind.errors import CheckpointError
from devmind.raised import HERE, NEWBORN, stages_of

LARGEST_BYTES = 16_000_000
ENDED = ("*/milestones/*/config.json", "*/agent/config.json")
"""Agents at the end of a curriculum's stages, below its folder: milestones, or agents that failed a gate."""
KNOWN = ("pictures:scikit-learn digits", "text:", "nursery ")
"""Groups in `trained_on` that are allowed here: pictures that come with a library, texts, and held-out parts of the
nursery. None is of a person's voice or face."""


def pack_agent(agent: Agent) -> Agent:
    """A copy of `agent` in half precision, without critics, which only lessons need."""
    config = copy.deepcopy(agent.config)
    config.heads = [head for head in config.heads if not agent.head(head["name"]).critic]
    config.encoders = list(config.encoders)
    small = Agent(config)
    kept = small.state_dict()
    small.load_state_dict({name: value for name, value in agent.state_dict().items() if name in kept})
    return small.half().eval()


def pack(source: Path, out: Path, over: Path | None = None) -> int:
    """Write the agent in `source`, packed, to `out`; returns its size in bytes.

    Args:
        over: the packed agent beside it from which it was raised; weights that both have are not written again.

    Raises:
        CheckpointError: `source` holds no agent, it learned from somebody's recordings, or it is too large.
    """
    agent = Agent.from_pretrained(source)
    others = [group for group in agent.config.trained_on if not group.startswith(KNOWN)]
    if others:
        raise CheckpointError(
            f"An agent that comes with devmind learns from nobody's recordings, and '{source}' learned from "
            f"{', '.join(others[:3])}; raise one without them."
        )
    save(pack_agent(agent), out, over)
    small = Agent.from_pretrained(out).eval()
    (out / CONFIDENCE).unlink(missing_ok=True)  # of an agent that was here before
    if over is None or read_confidence(over, small) is None:
        seal_confidence(small, out)
    size = sum(path.stat().st_size for path in out.iterdir())
    if size > LARGEST_BYTES:
        raise CheckpointError(f"The agent has {size:,} bytes, {LARGEST_BYTES:,} are allowed; pack a smaller one.")
    return size


def pack_childhood(run: Path, into: Path = HERE) -> dict[str, int]:
    """Pack the last agent of each stage of the curriculum in the folder `run`; returns their sizes in bytes by name.

    Raises:
        CheckpointError: an agent cannot be packed (`pack`), or one in `into` would lose the agent that it was
            packed over.
    """
    ended = [path.parent for pattern in ENDED for path in run.glob(pattern)]
    ended.sort(key=lambda folder: len(stages_of(folder)))
    names = {f"after-{stages_of(folder)[-1]}": folder for folder in ended}
    if ended:
        names = {NEWBORN: ended[0], **dict(list(names.items())[1:])}
    if missing := {path.parent.name for path in into.glob("*/config.json")} - set(names):
        raise CheckpointError(
            f"No stage of '{run}' has ended with {', '.join(sorted(missing))}, which '{into}' keeps as what "
            "differs from agents that would be replaced; let the childhood end, or delete those."
        )
    written: dict[str, int] = {}
    before: Path | None = None
    for name, folder in names.items():
        written[name] = pack(folder, into / name, before)
        before = into / name
    return written


def seal_exams(folder: Path, exams: Sequence[Path]) -> None:
    """Add the scores in the files `exams`, each of a stage or of a skill, to the packed agent in `folder`.

    They are its results, which have passed if all of them have.

    Raises:
        CheckpointError: one of them is of another agent.
    """
    sha256 = Agent.from_pretrained(folder).sha256()
    skills: list[dict[str, Any]] = []
    passed = True
    for path in exams:
        data = bounds.read_file(path, CheckpointError)
        found = bounds.parse_json(data, CheckpointError, f"The scores in '{path}' are not JSON ({{}}).")
        if found["agent_sha256"] != sha256:
            raise CheckpointError(
                f"The scores in '{path}' are of another agent than '{folder}' holds; examine that one."
            )
        skills.append({"measures": [{"name": name, **row} for name, row in found["skills"].items()]})
        passed &= found["passed"]
    results = {"verdict": {"passed": passed}, "skills": skills, "agent_sha256": sha256}
    seal(folder, RESULTS, json.dumps(results, indent=1).encode())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("agent", type=Path, help="a milestone, or a childhood, of a run without recordings of anybody")
    parser.add_argument("name", nargs="?", help="what --agent will call the milestone; a childhood's have their names")
    parser.add_argument("--over", help="the agent beside it that it grew out of: only what differs is kept")
    parser.add_argument("--exams", type=Path, nargs="+", help="scores of the packed agent, which is not packed again")
    arguments = parser.parse_args()
    if arguments.name is None:
        if arguments.over or arguments.exams:
            parser.error("--over and --exams are of one agent: give its NAME")
        sizes = pack_childhood(arguments.agent)
    elif arguments.exams:
        seal_exams(HERE / arguments.name, arguments.exams)
        sizes = {}
    else:
        over = HERE / arguments.over if arguments.over else None
        sizes = {arguments.name: pack(arguments.agent, HERE / arguments.name, over)}
    for name, size in sizes.items():
        print(f"{HERE / name}: {size:,} bytes")
