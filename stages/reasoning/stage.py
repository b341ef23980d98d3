"""ReasoningStage: its five members. Each skill has a folder with its lesson and its exam."""

from __future__ import annotations

from collections.abc import Sequence

from devmind.agent.agent import Agent
from devmind.curriculum.stage import Context, Lesson, Skill
from stages.reasoning import parts
from stages.reasoning.connect4 import exam as connect4_exam
from stages.reasoning.connect4 import lesson as connect4_lesson
from stages.reasoning.othello import exam as othello_exam
from stages.reasoning.othello import lesson as othello_lesson
from stages.reasoning.puzzles import exam as puzzles_exam
from stages.reasoning.puzzles import lesson as puzzles_lesson
from stages.reasoning.sliding import exam as sliding_exam
from stages.reasoning.sliding import lesson as sliding_lesson
from stages.reasoning.tictactoe import exam as tictactoe_exam
from stages.reasoning.tictactoe import lesson as tictactoe_lesson

SKILLS: Sequence[Skill] = (
    Skill("tictactoe", tictactoe_exam.examine, tictactoe_exam.GATE, "every position there is, played without loss"),
    Skill("connect4", connect4_exam.examine, connect4_exam.GATE, "Connect-4 beside a solver", connect4_lesson.taught),
    Skill(
        "othello", othello_exam.examine, othello_exam.GATE, "Othello 6 x 6, the ends of games", othello_lesson.taught
    ),
    Skill("puzzles", puzzles_exam.examine, puzzles_exam.GATE, "Lights Out 5 x 5, solved by Q*", puzzles_exam.taught),
    Skill(
        "sliding", sliding_exam.examine, sliding_exam.GATE, "the 8-puzzle, and files' 15-puzzles", sliding_exam.taught
    ),
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
        """Games, then puzzles."""
        taught = (tictactoe_lesson, connect4_lesson, othello_lesson, puzzles_lesson, sliding_lesson)
        return [one.lesson(context) for one in taught]
