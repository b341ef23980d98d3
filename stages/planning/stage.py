"""PlanningStage: its five members."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from devmind.agent.agent import Agent
from devmind.curriculum.stage import Context, Lesson, Skill
from stages.planning import parts
from stages.planning.arrange import exam as arrange
from stages.planning.arrange import lesson as arrange_lesson
from stages.planning.criticise import exam as criticise
from stages.planning.criticise import lesson as criticise_lesson
from stages.planning.instruct import exam as instruct
from stages.planning.instruct import lesson as instruct_lesson
from stages.planning.manipulate import exam as manipulate
from stages.planning.manipulate import lesson as manipulate_lesson
from stages.planning.replan import exam as replan
from stages.planning.replan import lesson as replan_lesson
from stages.planning.route import exam as route
from stages.planning.route import lesson as route_lesson
from stages.planning.trade import exam as trade
from stages.planning.trade import lesson as trade_lesson
from stages.planning.trade import plan_lesson as trade_plan_lesson

SKILLS: Sequence[Skill] = (
    Skill(
        "route", route.examine, route.GATE, "paths through OGBench's mazes, planned as a whole and followed",
        route.lesson_episodes,
    ),
    Skill(
        "arrange", arrange.examine, arrange.GATE,
        "which thing goes where and the hand's path, planned together and followed", arrange.lesson_episodes,
    ),
    Skill(
        "manipulate", manipulate.examine, manipulate.GATE,
        "things pushed, grasped and put into a box in the nursery, by plans from what is seen",
        manipulate.lesson_episodes,
    ),
    Skill(
        "trade", trade.examine, trade.GATE, "the share of wealth to hold in five kinds of market, on paper",
        trade.lesson_episodes,
    ),
    Skill("criticise", criticise.examine, criticise.GATE, "which plans fail, where, and why",
    criticise.lesson_episodes),
    Skill(
        "instruct", instruct.examine, instruct.GATE,
        "BabyAI's missions, read as plans of symbols and carried out on the agent's own map", instruct.lesson_episodes,
    ),
    Skill(
        "replan", replan.examine, replan.GATE,
        "new paths when a passage closes or the goal moves, and knowing when there is none", replan.lesson_episodes,
    ),
)  # fmt: skip


class PlanningStage:
    """Planning: it imagines ways to a goal, chooses one, follows it step by step, and plans again if it fails.

    A path is imagined together with its plan in symbols, on the same trunk.
    """

    name = parts.NAME
    requires = ("reasoning",)
    skills = SKILLS
    part_classes: ClassVar = {
        "head.planning-route": "stages.planning.planner:PlannerHead",
        "head.planning-trade": "stages.planning.trade.head:TradeHead",
        "head.planning-trade-plan": "stages.planning.trade.plan_head:TradePlanHead",
        "head.planning-instruct": "stages.planning.instruct.head:InstructHead",
        "head.planning-arrange": "stages.planning.arrange.head:ArrangeHead",
        "head.planning-manipulate": "stages.planning.manipulate.head:ManipulateHead",
        "head.planning-judge": "stages.planning.judge:JudgeHead",
    }

    def admit(self, agent: Agent) -> None:
        """Add the senses of goals, mazes, markets, tables and plans, and the heads: the planner, the judge, and those
        that trade, carry out instructions, arrange, handle things and plan trades.
        """
        parts.admit(agent)

    def lessons(self, context: Context) -> Sequence[Lesson]:
        """Route, replan, trade, criticise, instruct, arrange, manipulate, trade_plan."""
        own = (
            route_lesson,
            replan_lesson,
            trade_lesson,
            criticise_lesson,
            instruct_lesson,
            arrange_lesson,
            manipulate_lesson,
            trade_plan_lesson,
        )
        return [each.lesson(context) for each in own]
