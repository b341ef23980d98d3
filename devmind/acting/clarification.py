"""The information that an acting agent lacks, and when it asks for it; the same live and in an exam.

A head says what it lacks (`devmind.agent.plans.Lack`). The agent asks once, after it has searched in vain, and the
question stays open as long as the same thing is lacking.
"""

from __future__ import annotations

from dataclasses import dataclass

from devmind.agent.agent import StepOutput
from devmind.agent.plans import Lack


def lacking(output: StepOutput, page: str, row: int = 0) -> Lack | None:
    """What the first head lacks, of those that decided in this tick; None if none lacks anything.

    Args:
        page: the instruction of the row's agent; "" is none.
    """
    lacks = (output.outputs[name].lacks(page, row) for _, name in output.decided() if name in output.outputs)
    return next((lack for lack in lacks if lack is not None), None)


@dataclass
class Inquiry:
    """The open question of one agent, updated tick by tick.

    Attributes:
        asked: what was asked for and is still lacking; None: no question is open.
    """

    asked: Lack | None = None
    _question: str = ""
    _since_s: float = 0.0

    def is_due(self, lack: Lack | None, now_s: float) -> bool:
        """Whether the agent asks now for what it lacks in this tick; if so, `asked` is set."""
        question = "" if lack is None else lack.question
        if question != self._question:
            self._question, self._since_s, self.asked = question, now_s, None
        if lack is None or self.asked is not None or now_s - self._since_s < lack.looks_s:
            return False
        self.asked = lack
        return True
