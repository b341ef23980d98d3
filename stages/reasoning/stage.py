"""ReasoningStage and its five members. Each skill has a folder with its exam; budgets are in `lessons.py`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from devmind.agent.agent import Agent
from devmind.curriculum.stage import Context, Lesson, Skill
from stages.reasoning import parts
from stages.reasoning.connect4 import exam as connect4
from stages.reasoning.explain import exam as explain
from stages.reasoning.games import CONNECT4, OTHELLO
from stages.reasoning.imagine import exam as imagine
from stages.reasoning.lessons import lesson_episodes, lessons
from stages.reasoning.navigate import exam as navigate
from stages.reasoning.othello import exam as othello
from stages.reasoning.procedures import exam as procedures
from stages.reasoning.puzzles import exam as puzzles
from stages.reasoning.sliding import exam as sliding
from stages.reasoning.tictactoe import exam as tictactoe
from stages.reasoning.values import exam as values

_CONNECT4, _OTHELLO = (partial(lesson_episodes, game=game) for game in (CONNECT4, OTHELLO))

SKILLS: Sequence[Skill] = (
    Skill("tictactoe", tictactoe.examine, tictactoe.GATE, "the best move in every position, and no game lost"),
    Skill("explain", explain.examine, explain.GATE, "what it expects, hopes for or fears, in words",
    explain.lesson_episodes),
    Skill("connect4", connect4.examine, connect4.GATE, "Connect-4, compared with a solver", _CONNECT4),
    Skill("othello", othello.examine, othello.GATE, "endgames of Othello 6 x 6", _OTHELLO),
    Skill("puzzles", puzzles.examine, puzzles.GATE, "Lights Out 5 x 5, solved by Q*", puzzles.lesson_episodes),
    Skill("sliding", sliding.examine, sliding.GATE, "the 8-puzzle, and 15-puzzles from files", sliding.lesson_episodes),
    Skill("values", values.examine, values.GATE, "CartPole and an empty room, by Q-learning", values.lesson_episodes),
    Skill(
        "imagine", imagine.examine, imagine.GATE, "tic-tac-toe and CartPole, by search in a learned model",
        imagine.lesson_episodes,
    ),
    Skill(
        "navigate", navigate.examine, navigate.GATE, "the way to a goal through partially observed rooms",
        navigate.lesson_episodes,
    ),
    Skill(
        "procedures", procedures.examine, procedures.GATE, "plans written by people, chosen by beliefs and utilities",
        procedures.lesson_episodes,
    ),
)  # fmt: skip


class ReasoningStage:
    """Reasoning: it thinks ahead before it acts, in games, puzzles and tasks of the hand.

    It searches, guided by what it has learned from searching. Exams compare it with perfect players and optimal
    solutions.
    """

    name = parts.NAME
    requires = ("language",)
    skills = SKILLS
    part_classes: ClassVar = {
        "encoder.reasoning-layout": "stages.reasoning.navigate.cells:LayoutEncoder",
        "encoder.reasoning-lookahead": "stages.reasoning.explain.lookahead:LookaheadEncoder",
        "head.reasoning-cells": "stages.reasoning.navigate.cells:CellsHead",
        "head.reasoning-imagine": "stages.reasoning.imagine.head:ImagineHead",
    }

    def admit(self, agent: Agent) -> None:
        """Add the senses of boards and pages, and heads for games, puzzles, actions, cells and procedures."""
        parts.admit(agent)

    def lessons(self, context: Context) -> Sequence[Lesson]:
        """The lessons on rooms, puzzles, values, games, a learned model, procedures and sentences; and a review."""
        return lessons(context)
