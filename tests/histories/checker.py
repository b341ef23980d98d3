"""Whether a history of one object can be put into an order: linearizability by the search of Wing and Gong.

An operation takes effect at one instant between its call and its answer; one that was never answered (its process died)
takes effect at any instant after its call, or never. A history is linearizable when there are such instants at which
every answer is the one that a single process would have got (Herlihy and Wing 1990). The search tries, in every state,
each operation that may be next (Wing and Gong 1993), and remembers which sets of operations led to which state (Lowe
2017, "Testing for linearizability"). Objects are checked one by one: a history is linearizable when each object's is.

The object here is one entry of a memory. Its state is None (not there) or the name of the encoder its key is of.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

ADD, READ, DELETE, REKEY = "add", "read", "delete", "rekey"
State = str | None


@dataclass(frozen=True)
class Operation:
    """One call on one entry.

    Args:
        called_s, answered_s: when, on one clock; infinity: it was never answered.
        kind: ADD with `given` as encoder; READ with `got` as the state; DELETE with `got` as how many it deleted; REKEY
            to the encoder `given`, where the entry is there.
    """

    called_s: float
    answered_s: float
    kind: str
    given: str | None = None
    got: str | int | None = None

    @property
    def is_open(self) -> bool:
        """It was never answered."""
        return self.answered_s == math.inf


def after(state: State, done: Operation) -> tuple[bool, State]:
    """Whether the operation may have got its answer in this state, and the state after it."""
    if done.kind == ADD:
        return state is None, done.given
    if done.kind == READ:
        return done.is_open or state == done.got, state
    if done.kind == DELETE:
        return done.is_open or done.got == (state is not None), None
    if done.kind == REKEY:
        return True, None if state is None else done.given
    raise ValueError(done.kind)


def linearizable(history: Sequence[Operation], state: State = None) -> bool:
    """Whether there is an order; the entry begins in `state`."""
    every = sorted((done for done in history if not (done.is_open and done.kind == READ)), key=lambda o: o.called_s)
    must = sum(1 << at for at, done in enumerate(every) if not done.is_open)
    waiting, known = [(0, state)], set[tuple[int, State]]()
    while waiting:
        mask, state = waiting.pop()
        mask = _with_reads(every, mask, state)
        if mask & must == must:
            return True
        if (mask, state) in known:
            continue
        known.add((mask, state))
        for at in _next(every, mask):
            fits, then = after(state, every[at])
            if fits:
                waiting.append((mask | 1 << at, then))
    return False


def _with_reads(every: Sequence[Operation], mask: int, state: State) -> int:
    """The mask with every READ that may be next and sees this state: to take it now can never be wrong."""
    while True:
        fitting = [at for at in _next(every, mask) if every[at].kind == READ and every[at].got == state]
        if not fitting:
            return mask
        for at in fitting:
            mask |= 1 << at


def _next(every: Sequence[Operation], mask: int) -> list[int]:
    """The operations that no other one, not yet done, must come before: called before the first answer among these."""
    found, first_answer_s = list[int](), math.inf
    low = (~mask & (mask + 1)).bit_length() - 1  # of the first that is not done
    for at in range(low, len(every)):
        if every[at].called_s > first_answer_s:
            break
        if not mask >> at & 1:
            found.append(at)
            first_answer_s = min(first_answer_s, every[at].answered_s)
    return [at for at in found if every[at].called_s <= first_answer_s]
