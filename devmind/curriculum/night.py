"""A night: an agent sleeps on a memory and is saved as a new milestone; only then may known memories be deleted."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from devmind.acting.confidence import read_confidence, seal_confidence
from devmind.agent.agent import Agent
from devmind.agent.device import place
from devmind.agent.saving import read_sealed, seal
from devmind.agent.threads import training_threads
from devmind.checkpointing.lock import lock_folder
from devmind.config import RunConfig
from devmind.curriculum.finished import found_path, path_from_run
from devmind.curriculum.journal import Journal
from devmind.curriculum.pinned import check_pins, pins, recorded_threads, refuse_leftovers
from devmind.curriculum.rehearsal import stages_of
from devmind.curriculum.sleep import (
    Slept,
    has_ended,
    load_state,
    nothing_to_cut,
    prune,
    save_state,
    sleep,
    slept_in,
)
from devmind.curriculum.start import make_context
from devmind.memory import Memory

JOURNAL, RESULTS, OVER = "journal.jsonl", "results.json", "over"


@dataclass(frozen=True)
class Night:
    """The result of a night: how it went, the new agent's folder, and the numbers of the deleted memories."""

    slept: Slept
    agent: Path
    pruned: tuple[int, ...]


def night(
    agent: Agent,
    folder: Path,
    memory: Memory,
    out: Path,
    *,
    minutes: float | None = None,
    cut: bool = False,
    prune_known: bool = False,
    seed: int = 0,
) -> Night:
    """Let `agent` sleep on `memory`; after a kill, a call with the same `out` continues the night.

    The new agent keeps the results of the milestone that fell asleep, which say what it has passed.

    Args:
        agent: as it is saved in `folder`; it is changed, the folder is not.
        memory: a memory whose keys come from this agent's encoders.
        out: folder for the journal, checkpoints, and the new agent below `milestones`.
        minutes: how long to learn; converted to steps once, at the start. By default the steps of the agent's size.
        cut: end a stopped night where it is.

    Raises:
        StoreError, ConfigError, CheckpointError: see `sleep`.
    """
    given = {"size": agent.config.size, "seed": seed, "loggers": (), "minutes": minutes}
    config = RunConfig.model_validate(given)
    context = make_context(config, out, None, ())
    journal, new = Journal(out / JOURNAL), out / "milestones" / f"{len(agent.config.stages):02d}-sleep"
    if is_over(out):
        raise has_ended(out)
    if cut and journal.last("sleep") is None:
        raise nothing_to_cut(out)
    with lock_folder(out), training_threads(recorded_threads(journal)):
        if journal.last("sleep") is None:
            refuse_leftovers(out)
            journal.write("night", agent=path_from_run(folder, out), pinned=pins(context, agent.config.stages))
        else:
            check_pins(journal, out, context)
        place(agent, context.device)
        slept = slept_in(journal, new) or sleep(
            agent,
            memory,
            context,
            earlier=stages_of(agent),
            measure=True,
            cut=cut,
            consolidated=load_state(folder),
            save=lambda slept: _save(agent, slept, folder, new),
        )
        # Only now: a kill before this line loses no memory.
        pruned = prune(memory, slept, journal) if prune_known else []
        save_state(new, slept.consolidated)
        journal.write(OVER)
    return Night(slept, new, tuple(pruned))


def _save(agent: Agent, slept: Slept, folder: Path, new: Path) -> None:
    agent.save_pretrained(new)
    if (results := read_sealed(folder, RESULTS)) is not None:
        seal(new, RESULTS, results)
    if (confidence := read_confidence(folder, agent)) is not None:
        seal_confidence(agent, new, confidence)
    save_state(new, slept.consolidated)


def is_over(out: Path) -> bool:
    """Whether a night in this folder has ended completely."""
    journal = Journal(out / JOURNAL)
    slept = journal.last("slept")
    return journal.last(OVER) is not None or (slept is not None and "known" not in slept)  # as older nights ended


def sleeper(out: Path) -> Path | None:
    """The folder of the agent whose night was begun in `out`; None if there is none."""
    journal = Journal(out / JOURNAL)
    begun = journal.last("night")
    return found_path(begun["agent"], out) if begun and journal.last("sleep") else None
