"""VoiceStage: its five members. Each skill has a folder with its lesson and its exam."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from devmind.agent.agent import Agent
from devmind.curriculum.stage import Context, Lesson, Skill
from stages.voice import parts, utterances
from stages.voice.echo import exam as echo
from stages.voice.echo import lesson as echo_lesson
from stages.voice.echo.clean import lesson as clean_lesson
from stages.voice.echo.go_on import lesson as go_on_lesson
from stages.voice.echo.tokens import lesson as tokens_lesson
from stages.voice.hear_words import exam as hear_words
from stages.voice.hear_words import lesson as hear_lesson
from stages.voice.hear_words import listen
from stages.voice.name_heard import exam as name_heard
from stages.voice.name_heard import lesson as named_lesson
from stages.voice.say import exam as say
from stages.voice.say import lesson as say_lesson
from stages.voice.settings import configure
from stages.voice.sounds import exam as sounds
from stages.voice.sounds import lesson as sounds_lesson
from stages.voice.speak_answer import exam as speak_answer
from stages.voice.speak_answer import lesson as answer_lesson

SKILLS: Sequence[Skill] = (
    Skill(
        "hear_words", hear_words.examine, hear_words.GATE,
        "which words were said, by new voices and speakers and in new phrases", utterances.names_of_lessons,
    ),
    Skill(
        "echo", echo.examine, echo.GATE,
        "repeat new words for an independent recogniser, remove noise, and continue a sound", echo.lesson_episodes,
    ),
    Skill(
        "sounds", sounds.examine, sounds.GATE,
        "which kind of sound is heard, from new sources, or that its kind was never taught",
        sounds_lesson.lesson_episodes,
    ),
    Skill(
        "name_heard", name_heard.examine, name_heard.GATE,
        "which of four pictures is named aloud, by new voices and speakers", named_lesson.lesson_episodes,
    ),
    Skill(
        "say", say.examine, say.GATE, "say written words so that an independent recogniser understands them",
        say_lesson.lesson_episodes,
    ),
    Skill(
        "speak_answer", speak_answer.examine, speak_answer.GATE,
        "answer spoken questions about new scenes aloud, for an independent recogniser", answer_lesson.lesson_episodes,
    ),
)  # fmt: skip


class VoiceStage:
    """Voice: it hears words and kinds of sounds, repeats them, says words, and answers simple questions aloud."""

    name = parts.NAME
    requires = ("language",)
    skills = SKILLS
    part_classes: ClassVar = {
        "encoder.voice-ear": "stages.voice.ear:EarEncoder",
        "head.voice-words": "stages.voice.arc:WordsHead",
        "head.voice-written": "stages.voice.hear_words.written:WrittenHead",
        "head.voice-kinds": "stages.voice.sounds.arc:KindsHead",
        "head.voice-codec": "stages.voice.codec:CodecHead",
        "head.voice-cleaned": "stages.voice.echo.clean.head:CleanedHead",
        "encoder.voice-codes": "stages.voice.echo.tokens.model:CodesEncoder",
        "head.voice-next-code": "stages.voice.echo.tokens.model:NextCodeHead",
        "head.voice-goes-on": "stages.voice.echo.go_on.head:GoesOnHead",
        "head.voice-say": "stages.voice.say.head:SayHead",
        "head.voice-named": "stages.voice.name_heard.head:NamedHead",
        "head.voice-replies": "stages.voice.speak_answer.head:ReplyHead",
    }

    def admit(self, agent: Agent) -> None:
        """Add an ear for speech, trunk layers for it, a codec, and the heads of the stage's skills."""
        parts.admit(agent)

    def configure(self, agent: Agent, settings: Mapping[str, Any]) -> None:
        """Choose how the agent will hear words, by `stages.voice` of a configuration; before `admit`."""
        configure(agent, settings)

    def lessons(self, context: Context) -> Sequence[Lesson]:
        """`listen`, `codec` and `sounds`, which need no trunk; `words`, which trains its layers; `kinds`, `names`,
        `say`, `answers`, `clean`, `go_on` and `tokens`, which leave it as it is then.
        """
        alone = [listen.lesson(context), echo_lesson.lesson(context), sounds_lesson.arc_lesson(context)]
        trunk = [hear_lesson.lesson(context), sounds_lesson.lesson(context)]
        by_trunk = (named_lesson, say_lesson, answer_lesson, clean_lesson, go_on_lesson, tokens_lesson)
        return [*alone, *trunk, *(one.lesson(context) for one in by_trunk)]
