"""LanguageStage: its five members. Each skill has a folder with its lesson and its exam."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from devmind.agent.agent import Agent
from devmind.curriculum.stage import Context, Lesson, Skill
from stages.language import lessons, parts
from stages.language.answer import exam as answer
from stages.language.answer import lesson as answer_lesson
from stages.language.caregiver.scene import PAIRS
from stages.language.converse import exam as converse
from stages.language.converse import games
from stages.language.follow import exam as follow
from stages.language.grammar import exam as grammar
from stages.language.name import exam as name
from stages.language.name import lesson as name_lesson
from stages.language.new_words import exam as new_words
from stages.language.new_words import lesson as new_words_lesson
from stages.language.read import exam as read
from stages.language.read.corpus import corpus

SKILLS: Sequence[Skill] = (
    Skill("read", read.examine, read.gate, "the next character of a text that no lesson showed", read.lesson_blocks),
    Skill(
        "grammar", grammar.examine, grammar.GATE,
        "tell sentences that the caregiver may say from others, with new pairs of words", grammar.lesson_episodes,
    ),
    Skill(
        "name", name.examine, name.GATE,
        "answer 'what is that?' and 'where is the red ball?', for new pairs of colour and noun", name.shown_in_lessons,
    ),
    Skill(
        "new_words", new_words.examine, new_words.GATE,
        "say and find things by invented words, each taught once with one look", new_words_lesson.lesson_episodes,
    ),
    Skill(
        "answer", answer.examine, answer.GATE,
        "answer questions about the picture: colour, place, number, yes, no, none, unknown", answer.shown_in_lessons,
    ),
    Skill(
        "converse", converse.examine, converse.GATE,
        "ask which one is meant if several things fit, and find it by the answer", converse.shown_in_lessons,
    ),
    Skill(
        "follow", follow.examine, follow.GATE,
        "go to the red ball, and in further levels go to or pick up the named thing, in new rooms",
        follow.lesson_episodes,
    ),
)  # fmt: skip


class LanguageStage:
    """Language: it reads and writes, and answers about the names, colours, places and numbers of simple things.

    It also tells what may be said and follows instructions, all by pages of text on the shared trunk.
    """

    name = parts.NAME
    requires = ("reflex",)
    skills = SKILLS
    part_classes: ClassVar = {
        "encoder.language-detail": "stages.language.eye:DetailEncoder",
        "encoder.language-view": "stages.language.eye:ViewEncoder",
        "head.language-cells": "stages.language.eye:CellsHead",
        "head.language-follow": "stages.language.follow.head:FollowHead",
        "head.language-point": "stages.language.eye:PointHead",
        "head.language-recognised": "stages.language.new_words.heads:RecognisedHead",
        "head.language-text": "stages.language.looking:LookingTextHead",
        "head.language-sought": "stages.language.new_words.heads:SoughtHead",
    }

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

    def questions(self) -> Mapping[str, Sequence[str]]:
        """What its lessons ask about a picture, by kind, also of the pairs that are held out."""
        openings, completions = games.all_said(PAIRS)
        about_scenes = answer_lesson.all_questions(PAIRS)
        return {"thing": name_lesson.QUESTIONS, "which": openings, **about_scenes, "completion": completions}

    def lessons(self, context: Context) -> Sequence[Lesson]:
        """`read`, `call`, `senses`, `talk`, `follow` (with MiniGrid) and `new_words`, in this order."""
        return lessons.lessons(context)
