"""Procedures in a life: a plan file directs an agent by its own tracker's and memory's beliefs, as in the exam.

Nothing heavy is imported before the first tick, so that a plan file is checked before an agent is loaded.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from devmind.errors import ConfigError
from devmind.worlds.fovea import BODY_SIZE
from stages.reasoning.procedures.checking import check
from stages.reasoning.procedures.interpreter import Goal, Intention, Node
from stages.reasoning.procedures.library import Library
from stages.reasoning.procedures.parser import library_of
from stages.reasoning.procedures.procedural import LOOK, SAY, Procedural, Row, Thing
from stages.reasoning.procedures.terms import PlanError, show

if TYPE_CHECKING:
    from devmind.acting.directing import Observation
    from devmind.agent.output import Output

CHOOSE = "choose"
"""The effector for walking through a room."""
SETTLED = 1e-3
"""A command of `look` (1: 25 degrees) below which the gaze has arrived."""
STOPPED_DEG = 0.01
"""A gaze that was turned but moved less than this in a tick cannot go further."""


def read_plans(file: Path) -> LivingProcedures:
    """A director for the plans in a file, or in the packaged one of that name.

    Raises:
        PlanError: a plan has a fault, or asks for what no life can do; the sentence gives line and column.
    """
    library, row = library_of(file), Row()
    if wrong := check(library, list(row.actions), list(row.beliefs.sensed)):
        raise PlanError("\n".join(wrong))
    return LivingProcedures(library)


class LivingProcedures:
    """A `devmind.acting.directing.Director`: the exam's `Procedural` for one child.

    An order to look takes the gaze until it has arrived and no intention is left; otherwise the gaze is the agent's
    own. `saw` holds for what the tracker believes, and for what memory named while it was held up. `find_way` walks by
    the agent's own reading of the board, `follow_plan` by a plan that a head draws.
    """

    def __init__(self, library: Library) -> None:
        self.fault = ""
        self._observation: Observation | None = None
        self._body, self._feels = np.zeros(BODY_SIZE, np.float32), False
        self._named: dict[str, Thing] = {}
        self._turned_from: tuple[float, ...] | None = None  # where to, and from where, in the last tick
        self.policy = Procedural(self._believed, library, lambda: self._named, self._cells, self._read)

    def direct(self, observation: Observation) -> dict[str, np.ndarray]:
        """One tick. If a plan asks for something impossible, the procedures stop for the rest of this episode."""
        first = observation.moment.first
        if first:
            self.fault, self._named, self._turned_from = "", {}, None
        if self.fault:
            return {}
        self._take_in(observation)
        try:
            page = observation.moment.senses.get("text")
            senses = {
                "body": self._body[None],
                "words": [self._heard(observation)],
                "text": [page if isinstance(page, str) else ""],
            }
            done = self.policy(senses, np.array([first or not self.policy.rows]))
        except ConfigError as error:
            self.fault = f"The procedures stop until the next episode begins: {error}"
            return {}
        return self._orders(done)

    def _take_in(self, observation: Observation) -> None:
        self._observation = observation
        body = observation.moment.senses.get("body")
        self._feels = isinstance(body, np.ndarray) and body.shape == (BODY_SIZE,)
        self._body = np.asarray(body) if self._feels else self._body
        self._named = {name: (left, up, False, gone) for name, (left, up, _, gone) in self._named.items()}
        self._named |= {name: (left, up, True, False) for name, (left, up) in observation.named.items()}

    def _believed(self, senses: Any, first: np.ndarray) -> tuple[list[str], Any]:
        assert self._observation is not None
        return list(self._observation.labels), self._observation.beliefs

    def _cells(self, row: int) -> np.ndarray | None:
        """The class of each cell of the view, as the agent reads it in this tick."""
        from devmind.algorithms.grid import SIDE
        from stages.reasoning.parts import CELLS

        assert self._observation is not None
        said = self._observation.read(CELLS)
        return None if said is None else np.asarray(said.mode().cpu().numpy()).reshape(SIDE, SIDE)

    def _read(self, head: str) -> Output | None:
        assert self._observation is not None
        return self._observation.read(head)

    def _heard(self, observation: Observation) -> str:
        """The first word heard that the agent has a name for, as in "where is the cup?"; else everything said."""
        from devmind.acting.sentences import names_in

        words = observation.moment.senses.get("words")
        text = words if isinstance(words, str) else ""
        known = names_in(text, [*observation.labels, *self._named])
        return min(known, key=lambda name: text.lower().index(name.lower())) if known else text

    def _orders(self, done: dict[str, Any]) -> dict[str, np.ndarray]:
        row, (mind,), orders = self.policy.rows[0], self.policy.minds, dict[str, np.ndarray]()
        if row.saying:
            from devmind.agent.batch import WORDS_BYTES, encode_words

            orders[SAY] = encode_words(show(row.saying).encode()[:WORDS_BYTES].decode(errors="ignore"))
        if row.walking.order is not None:
            orders[CHOOSE] = np.array(row.walking.order, np.int64)
        orders |= row.coursing.order
        if row.target is None or not self._feels:  # who does not feel where the head is turns it nowhere
            self._turned_from = None
            return orders
        orders[LOOK] = done[LOOK][0]
        settled, now = np.abs(orders[LOOK]).max() < SETTLED, (*row.target, row.pan, row.tilt)
        stopped = self._turned_from is not None and np.abs(np.subtract(now, self._turned_from)).max() < STOPPED_DEG
        self._turned_from = None if settled else now
        if not mind.intentions and (settled or stopped):
            row.target = None
        return orders

    def doing(self) -> list[str]:
        """A line for each intention: "errand: found(red) by ask"."""
        minds = self.policy.minds if not self.fault else []
        return [describe_intention(intention) for mind in minds for intention in mind.intentions]


def describe_intention(intention: Intention) -> str:
    """An intention, with its goals from outermost to innermost and the plan at work for each."""
    steps = list[str]()
    nodes: list[Node] = [] if intention.root is None else [intention.root]
    while nodes:
        node = nodes.pop(0)
        if isinstance(node, Goal) and node.option is not None:
            steps.append(f"{show(node.term)} by {node.option.plan.name}")
        nodes = [*node.children(), *nodes]
    return f"{intention.name}: {', then '.join(steps)}" if steps else intention.name
