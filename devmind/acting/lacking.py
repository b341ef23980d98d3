"""What an acting agent would have to be told first, and when it asks for it; the same in a life and in an exam.

A head knows what it lacks (`devmind.agent.plans.Lack`). The agent asks once, after it has looked in vain, and the
question stays open as long as the same thing is lacking.
"""

from __future__ import annotations

from dataclasses import dataclass

from devmind.agent.acting import StepOutput
from devmind.agent.plans import Lack


def lacking(output: StepOutput, page: str, row: int = 0) -> Lack | None:
    """What the first head that decided in this tick, and lacks anything, would have to be told.

    Args:
        page: what the row's agent was told to do; "" is nothing.
    """
    for heads in output.answered.values():
        for name in [name for name, count in heads.items() if count and name in output.outputs]:
            lack = output.outputs[name].lacks(page, row)
            if lack is not None:
                return lack
    return None


@dataclass
class Inquiry:
    """One agent's question, tick by tick.

    Attributes:
        asked: what was asked for and is lacking still; None: no question is open.
    """

    asked: Lack | None = None
    _question: str = ""
    _since_s: float = 0.0

    def is_due(self, lack: Lack | None, now_s: float) -> bool:
        """Whether what is lacking in this tick is asked for now, which it then is (`asked`)."""
        question = "" if lack is None else lack.question
        if question != self._question:
            self._question, self._since_s, self.asked = question, now_s, None
        if lack is None or self.asked is not None or now_s - self._since_s < lack.looks_s:
            return False
        self.asked = lack
        return True
