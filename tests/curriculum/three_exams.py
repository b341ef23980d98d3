"""A stage whose exams raise, end their process or wait, in a module of its own that workers import quickly."""

from __future__ import annotations

import os
import time

import numpy as np
import torch

from devmind.agent.agent import Agent
from devmind.curriculum.exam import Exam, Measure
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Context, Skill
from devmind.errors import ExamError
from tests.curriculum.lamp_stage import LampStage


class ThreeExams(LampStage):
    """Its skills beside `lamps-lit`: one that raises, one whose process dies, and two that take ten minutes, one
    of them the first time only."""

    def __init__(self) -> None:
        super().__init__()
        strange = {"refuses": self.refuse, "dies": self.die, "waits": self.wait, "threads": self.count}
        strange["waits-once"] = self.wait_once
        gate = Gate([Threshold("none", 0.5)])
        self.skills += tuple(Skill(name, examine, gate, name) for name, examine in strange.items())

    def refuse(self, agent: Agent, context: Context) -> Exam:
        raise ExamError("There are no recordings to ask about.")

    def die(self, agent: Agent, context: Context) -> Exam:
        os._exit(9)

    def wait(self, agent: Agent, context: Context) -> Exam:
        (context.out / f"{os.getpid()}.pid").touch()
        time.sleep(600)
        return Exam([])

    def wait_once(self, agent: Agent, context: Context) -> Exam:
        if not list(context.out.glob("*.pid")):
            self.wait(agent, context)
        return self.count(agent, context)

    def count(self, agent: Agent, context: Context) -> Exam:
        return Exam([Measure("threads", "threads", np.array([float(torch.get_num_threads())]), 0.0, 1.0)])


STAGE = ThreeExams()
