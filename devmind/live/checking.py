"""Checks whether this agent reproduces a recorded life: it steps through the recording again and compares every action
bit by bit.

The recording's notes hold what the live loop did between ticks: which weights acted, what was recalled, what was lost.
A stretch that cannot be replayed (missing weights, lost ticks) is refused and named, never passed.

Equal bits need equal arithmetic: one thread, the same versions, the same kind of processor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from devmind.acting import Actor
from devmind.acting.recall import recalled_tokens
from devmind.acting.standing import Standing
from devmind.agent.agent import Agent
from devmind.agent.encoders import Encoded
from devmind.agent.pointing import point_at, pointer_of
from devmind.agent.taps import Perceived
from devmind.agent.threads import stepping_threads
from devmind.bounds import damage
from devmind.errors import CheckpointError, SessionError
from devmind.live.loop import DIRECTED
from devmind.moment import Action, Moment, Sense, same_arrays
from devmind.sessions.pointed import FORGOTTEN
from devmind.sessions.reader import Note, Session

UNNAMED = "the recording does not say which weights acted"
POINTED = "pointed"
"""A note, and the name in a `Difference`: the number of the memory that the agent pointed at (-1: none), and its
probability."""
UNOPENED = "no episode has begun since the weights were named"

Remembered = Callable[[int], Mapping[str, Sense] | None]
"""Gives the payload of a memory (`devmind.acting.recall.payload`) by its id, or None when it is not there."""


@dataclass(frozen=True)
class Difference:
    """The first action that differs from the recording; None where there was none, or none came."""

    tick: int
    effector: str
    recorded: np.ndarray | None
    replayed: np.ndarray | None

    def __str__(self) -> str:
        recorded, replayed = (_numbers(value) for value in (self.recorded, self.replayed))
        return f"tick {self.tick}, {self.effector}: recorded {recorded}, replayed {replayed}"


@dataclass
class Refused:
    """The ticks [start, stop) that could not be replayed, and why."""

    start: int
    stop: int
    reason: str

    def __str__(self) -> str:
        return f"ticks {self.start} to {self.stop - 1}: {self.reason}"


@dataclass
class Check:
    """The result of a check.

    Attributes:
        ticks: number of recorded ticks; checked: of these, stepped again and compared; different: of these, not equal.
        directed: ticks in which a director moved something; what it moved is taken from the recording.
        hand_overs: how often other weights took over.
        refused: stretches that could not be replayed, in order.
    """

    ticks: int = 0
    checked: int = 0
    different: int = 0
    directed: int = 0
    hand_overs: int = 0
    first_difference: Difference | None = None
    refused: list[Refused] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Every tick was checked, there was at least one, and all were equal."""
        return self.checked == self.ticks > 0 and not self.different


def check_replay(
    paths: Sequence[Path], agents: Mapping[str, Agent] | None = None, remembered: Remembered = lambda _: None
) -> Check:
    """Step through a recording (its parts in order) and compare every effector's action, tick by tick.

    Args:
        agents: available agents by the hash of their weights; the notes lead to weights kept beside the recording.
        remembered: gives recalled payloads; without it, a stretch that begins with a recall is refused.

    Raises:
        SessionError: a part cannot be read.
    """
    replay = _Replay(dict(agents or {}), remembered)
    before: Path | None = None
    with stepping_threads():
        for path in paths:
            session = Session(path)
            replay.open_part(session, before)
            notes = list(session.notes)
            for tick, (moment, action) in enumerate(session):
                while notes and notes[0].tick <= tick:
                    replay.take_note(notes.pop(0), path.parent)
                replay.take_tick(moment, action)
            for note in notes:  # behind its last tick, before the next part's first
                replay.take_note(note, path.parent)
            before = path
    return replay.check


class _Replay:
    """The state of a replay: the agent, its state, and while something is missing, the reason why nothing can be
    checked.
    """

    def __init__(self, agents: dict[str, Agent], remembered: Remembered) -> None:
        self.check = Check()
        self.agents, self.remembered = agents, remembered
        self.agent: Agent | None = None
        self.sha256 = ""
        self.actor: Actor | None = None
        self.recalled: Encoded | None = None
        self.recalled_ids: Sequence[int] = ()
        self.pointed: Mapping[str, Any] | None = None
        self.effectors: list[str] = []
        self.directed: list[str] = []
        self.refused_here = False
        self.standing: Standing | None = None  # without names of heads, all may act: an older recording
        self.why = UNNAMED

    def open_part(self, session: Session, before: Path | None) -> None:
        """Go on from the part before, unless that one is missing."""
        listed = session.metadata.get("effectors", "")
        self.effectors = [name for name in listed.split(",") if name] or sorted(session.effectors)
        follows = session.metadata.get("continues", "")
        if follows and follows != (before.name if before else ""):
            self._refuse(f"'{session.path.name}' continues '{follows}', which is missing; give all parts")

    def take_note(self, note: Note, folder: Path) -> None:
        """Apply what happened between two ticks.

        Raises:
            SessionError: the note is not one that a life writes.
        """
        with damage(SessionError, f"A note '{note.kind}' of the recording is not one that a life writes ({{}})."):
            self._take(note.kind, note.data, folder)

    def _take(self, kind: str, data: Any, folder: Path) -> None:
        if kind == "weights":
            named = data.get("heads")
            self.standing = {name: tuple(heads) for name, heads in named.items()} if named else None
            self._change_weights(str(data.get("agent_sha256", "")), data.get("kept"), folder)
        elif kind == "lost":
            self._refuse(f"{data.get('ticks', 'some')} ticks before it were lost while recording")
        elif kind == FORGOTTEN:
            self._refuse("its senses were forgotten")
        elif kind == "recalled" and "ages_s" in data:
            self._recall(data["ids"], data["ages_s"])
        elif kind == DIRECTED:
            self.directed = [str(name) for name in data["effectors"]]
        elif kind == POINTED:
            self.pointed = data

    def take_tick(self, moment: Moment, action: Action | None) -> None:
        """Step and compare, or count the tick as refused."""
        # A note about this tick holds, even if an episode begins with it.
        if moment.first and self.agent is not None and not self.refused_here:
            self.actor, self.why = Actor(self.agent), ""
        self.refused_here = False
        if not self.why and action is None:
            self._refuse("no action was recorded")
        recalled, self.recalled = self.recalled, None
        pointed_at, self.pointed = self.pointed, None
        if self.why or self.agent is None or self.actor is None or action is None:
            self._count_refused()
        else:
            self.actor.agent = self.agent
            self.actor.standing = self.standing
            self.actor.effectors = tuple(name for name in self.effectors if name in self.agent.effectors)
            percepts = self.actor.encode(moment)
            replayed = dict(self.actor.step(percepts, recalled).to_action().effectors)
            recorded = dict(action.effectors)
            for name in self.directed:
                recorded.pop(name, None)
                replayed.pop(name, None)
            self.check.directed += bool(self.directed)
            if pointed_at is not None:
                recorded[POINTED] = _numbered(pointed_at.get("id"), pointed_at.get("share"))
                replayed |= self._pointed(percepts.seen)
            self._compare(recorded, replayed)
        self.check.ticks += 1

    def _pointed(self, seen: Perceived) -> dict[str, np.ndarray]:
        """What the agent points at in this tick; empty where it has no head for it."""
        assert self.agent is not None
        head = pointer_of(self.agent)
        if head is None:
            return {}
        found = point_at(self.agent, head, seen)
        return {POINTED: _numbered(None if found.at is None else self.recalled_ids[found.at], found.share)}

    def _compare(self, was: Mapping[str, np.ndarray], now: Mapping[str, np.ndarray]) -> None:
        check = self.check
        check.checked += 1
        if same_arrays(was, now):
            return
        check.different += 1
        if check.first_difference is None:
            names = sorted(was.keys() | now.keys())
            name = next(n for n in names if not (n in was and n in now and same_arrays({n: was[n]}, {n: now[n]})))
            check.first_difference = Difference(check.ticks, name, was.get(name), now.get(name))

    def _change_weights(self, sha256: str, kept: Any, folder: Path) -> None:
        """Let other weights act from here on; the state goes on, as in the recorded life."""
        if sha256 == self.sha256 and self.agent is not None:
            return
        first = not self.sha256
        self.sha256, self.agent = sha256, self.agents.get(sha256)
        missing = ""
        if self.agent is None and kept:
            self.agent, missing = _agent_beside(folder, str(kept), sha256)
        if self.agent is None:
            self._refuse(missing or f"the weights {sha256[:12]} were not kept; give their agent with --agent")
        elif self.why == UNNAMED:
            self.why = UNOPENED
        self.check.hand_overs += not first

    def _recall(self, ids: Sequence[int], ages_s: Sequence[float]) -> None:
        self.recalled_ids = ids
        found = [self.remembered(number) for number in ids]
        if any(senses is None for senses in found):
            self._refuse("it recalls a memory that is not available; give --memory")
        elif self.agent is not None and found:
            row = [(senses, age_s) for senses, age_s in zip(found, ages_s, strict=True) if senses is not None]
            self.recalled = recalled_tokens(self.agent, [row])

    def _refuse(self, reason: str) -> None:
        """Check nothing from here until an episode begins, because the state is not that of the recorded life."""
        self.why, self.actor, self.refused_here = reason, None, True

    def _count_refused(self) -> None:
        here, refused = self.check.ticks, self.check.refused
        if refused and refused[-1].stop == here and refused[-1].reason == self.why:
            refused[-1].stop += 1
        else:
            refused.append(Refused(here, here + 1, self.why))


def _agent_beside(folder: Path, kept: str, sha256: str) -> tuple[Agent | None, str]:
    """The agent kept beside the recording, or the reason why there is none. A recording names only folders below its
    own.
    """
    path = PurePosixPath(kept)
    if path.is_absolute() or ".." in path.parts:
        return None, f"its weights are said to be in '{kept}', which is not beside the recording"
    try:
        agent = Agent.from_pretrained(folder / path)
    except CheckpointError as error:
        return None, f"the weights {sha256[:12]} cannot be used: {error}"
    if agent.sha256() != sha256:
        return None, f"the weights in '{kept}' are not those that acted ({sha256[:12]})"
    return agent, ""


def _numbered(number: Any, share: Any) -> np.ndarray:
    """The memory and probability of a note, or of a replay, as an array, to be compared like an action."""
    return np.array([-1 if number is None else number, np.nan if share is None else share], np.float64)


def _numbers(value: np.ndarray | None) -> str:
    """The numbers with all digits: two actions that differ in the last bit must not look alike."""
    return "nothing" if value is None else f"{value.dtype} {value.tolist()}"
