"""LanguageStage: its five members. Each skill has a folder with its lesson and its exam."""

from __future__ import annotations

from collections.abc import Sequence

from devmind.agent.agent import Agent
from devmind.curriculum.stage import Context, Lesson, Skill
from stages.language import lessons, parts
from stages.language.answer import exam as answer_exam
from stages.language.converse import exam as converse_exam
from stages.language.follow import exam as follow_exam
from stages.language.grammar import exam as grammar_exam
from stages.language.name import exam as name_exam
from stages.language.new_words import exam as new_words_exam
from stages.language.new_words import lesson as new_words_lesson
from stages.language.read import exam as read_exam
from stages.language.read.corpus import corpus

SKILLS: Sequence[Skill] = (
    Skill(
        "read",
        read_exam.examine,
        read_exam.gate,
        "the next character of a text that no lesson showed",
        read_exam.taught,
    ),
    Skill(
        "grammar",
        grammar_exam.examine,
        grammar_exam.GATE,
        "what the caregiver may say from what she may not: pairs of words never met",
        grammar_exam.taught,
    ),
    Skill(
        "name",
        name_exam.examine,
        name_exam.GATE,
        "what is that, and where is the red ball: pairs never met",
        name_exam.shown_in_lessons,
    ),
    Skill(
        "new_words",
        new_words_exam.examine,
        new_words_exam.GATE,
        "invented words taught once, by one look: said and found among things in view",
        new_words_lesson.taught,
    ),
    Skill(
        "answer",
        answer_exam.examine,
        answer_exam.GATE,
        "colour, place, number, yes, no, none and unknown: questions about what is in view",
        answer_exam.shown_in_lessons,
    ),
    Skill(
        "converse",
        converse_exam.examine,
        converse_exam.GATE,
        "which one is meant: to ask where it is left open, and to find it by the answer",
        converse_exam.shown_in_lessons,
    ),
    Skill(
        "follow",
        follow_exam.examine,
        follow_exam.GATE,
        "go to the red ball, and in further rooms to what is named, or pick it up: rooms never met",
        follow_exam.taught,
    ),
)


class LanguageStage:
    """Language: to read, to tell what may be said, to name what is seen, to answer about it, and to follow
    instructions, all by pages of text on the shared trunk.
    """

    name = parts.NAME
    requires = ("reflex",)
    skills = SKILLS

    def admit(self, agent: Agent) -> None:
        """Add pages of text, trunk layers for pages alone, MiniGrid's boards, and heads that point and choose.

        Raises:
            ConfigError: the agent reads by patches, which only the lesson `read` can use.
        """
        parts.admit(agent)
        parts.check_reading(agent)

    def taught_text(self, context: Context) -> str:
        """The text of the lessons' pages, from which a vocabulary may be made."""
        return corpus(context).taught

    def lessons(self, context: Context) -> Sequence[Lesson]:
        """`read`, `call`, `senses`, `talk`, `follow` (with MiniGrid) and `new_words`, in this order."""
        return lessons.lessons(context)
