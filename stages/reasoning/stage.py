"""ReasoningStage: its five members. Each skill has a folder with its lesson and its exam."""

from __future__ import annotations

from collections.abc import Sequence

from devmind.agent.agent import Agent
from devmind.curriculum.stage import Context, Lesson, Skill
from stages.reasoning import parts
from stages.reasoning.puzzles import exam as puzzles_exam
from stages.reasoning.puzzles import lesson as puzzles_lesson
from stages.reasoning.tictactoe import exam as tictactoe_exam
from stages.reasoning.tictactoe import lesson as tictactoe_lesson

SKILLS: Sequence[Skill] = (
    Skill("tictactoe", tictactoe_exam.examine, tictactoe_exam.GATE, "every position there is, played without loss"),
    Skill("puzzles", puzzles_exam.examine, puzzles_exam.GATE, "Lights Out 5 x 5, solved by Q*", puzzles_exam.taught),
)


class ReasoningStage:
    """Reasoning: to search before acting, guided by what was learned from searching; judged by perfect players and
    optimal solutions, on the same trunk.
    """

    name = parts.NAME
    requires = ("language",)
    skills = SKILLS

    def admit(self, agent: Agent) -> None:
        """Add the sense of boards, policy and value of the games, and what a press of a puzzle costs."""
        parts.admit(agent)

    def lessons(self, context: Context) -> Sequence[Lesson]:
        """Tic-tac-toe, then puzzles."""
        return [tictactoe_lesson.lesson(context), puzzles_lesson.lesson(context)]
