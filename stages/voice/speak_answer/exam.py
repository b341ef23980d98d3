"""The exam of `speak_answer`: a question is spoken in a new voice about a new scene, and the spoken answer has to be
understood.

The recogniser that judges `say` decides: of fifty words it has to name the true one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import cv2
import numpy as np
import torch
from torch import Tensor

from devmind.agent.agent import Agent
from devmind.agent.batch import clip
from devmind.agent.text import BEGIN
from devmind.curriculum.exam import Exhibit, Measure, Parts, in_parts
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Context
from devmind.moment import TICK_SAMPLES
from devmind.seeding import exam_seeds, lesson_seeds
from stages.voice.abilities.spoken_answers import PAGE, ask
from stages.voice.caregiver.speech import bank
from stages.voice.echo.exam import PAUSE_SAMPLES, store_recogniser
from stages.voice.exhibits import wav
from stages.voice.hear_words.exam import UNTAUGHT, untrained_agent
from stages.voice.moments import in_a_row
from stages.voice.parts import REPLIES, REPLY, SIGHT, SOUND, TEXT
from stages.voice.recogniser import Recogniser
from stages.voice.say.exam import OWN, the_judge
from stages.voice.say.lesson import own_voice, said_mel
from stages.voice.speak_answer.asked import (
    ANSWERS,
    HELD_OUT,
    KINDS,
    PAIRS,
    STRANGE_REMARKS,
    TAUGHT,
    Pair,
    Question,
    Scenes,
    questions,
    scenes,
)
from stages.voice.speak_answer.cascade import NOTHING_SAID, cascade, is_whole, said_aloud, written_answers
from stages.voice.speak_answer.lesson import BY_TEXT, identity
from stages.voice.vocoder import sound_of

SCENES = "speak_answer/scenes"
GATE = Gate([Threshold(SCENES, 0.80)])
QUESTIONS = 400
COUNTED_BY = 1000
"""Questions of lessons on which the baseline is counted."""
CASCADE = "the cascade: hear_words, language's answer, say"
QUESTION_ALONE = "the question alone, in writing"
TOLD = "the cascade, with the question in writing"
SILENCED, HIDDEN = "question silenced", "scene hidden"
MEANWHILE, STRANGE = "scene always in view", "pairs that no lesson has"
MEANT = "right by the meant word, without the recogniser"
MISTAKEN = "speech without a question, answered"
NO_ANSWER = ""
"""The meant word if nothing is answered."""
TOGETHER = 25


@dataclass(frozen=True)
class SpokenQuestions:
    """N questions: waves float32 [S] each, voices [N], and what is in view."""

    waves: tuple[np.ndarray, ...]
    voices: np.ndarray
    shown: Scenes
    speaker: str

    def rows(self, n: int) -> SpokenQuestions:
        """The first `n` of them."""
        return SpokenQuestions(self.waves[:n], self.voices[:n], self.shown.first(n), self.speaker)


@dataclass(frozen=True)
class Reply:
    """Answers: sounds float32 [16000] each, and the words that were meant, [N]; silence and NO_ANSWER where the agent
    heard no question.
    """

    sounds: Sequence[np.ndarray]
    meant: np.ndarray


@in_parts
def examine(agent: Agent, context: Context) -> Parts:
    """One value a question: whether the recogniser understands the true answer."""
    if REPLIES not in agent.heads:
        return
    whole, judge = ask_questions(context, "speak_answer exam", questions(TAUGHT), TAUGHT), the_judge(context)
    some = whole.rows(context.episodes(QUESTIONS))
    reply = reply_to(agent, some)
    right = is_understood(judge, reply.sounds, some)
    note = (
        f"questions of {len(BY_TEXT)} that lessons ask, spoken by {some.speaker} in voices of no lesson, about scenes "
        f"never seen; {store_recogniser(context, 'speak_answer', judge)}"
    )
    measure = Measure(
        SCENES, "answers understood", right, 1 / len(ANSWERS), 1.0, rate=True, note=note,
        episodes=identity(some.waves, some.shown.sight), groups=np.unique(some.voices, return_inverse=True)[1],
    )  # fmt: skip
    yield [measure]
    floors, rows = _floors(agent, context, judge, some), _rows(agent, context, judge, some, right, reply)
    yield [replace(measure, floors=floors, rows=rows, exhibits=_exhibits(some, reply, right))]


def ask_questions(
    context: Context, name: str, questions_asked: Sequence[Question], of: Sequence[Pair], n: int = QUESTIONS
) -> SpokenQuestions:
    """Questions of `questions_asked`, drawn by name, each about a scene with things of the pairs `of`."""
    n, by_text = context.scaled(n), {question.text: question for question in questions_asked}
    speech = bank(name, context.seed, n, tuple(by_text), True)
    shown = scenes(context, exam_seeds(n, context.seed, name), [by_text[text] for text in speech.texts], of)
    return SpokenQuestions(speech.waves, np.array(speech.voices), shown, speech.speaker)


def with_remarks(context: Context, some: SpokenQuestions) -> SpokenQuestions:
    """Utterances that ask nothing, in voices of exams, in place of the first quarter of these questions."""
    few = some.rows(max(8, len(some.waves) // 4))
    speech = bank("speak_answer remarks", context.seed, len(few.waves), STRANGE_REMARKS, True)
    return replace(few, waves=speech.waves, voices=np.array(speech.voices))


def reply_to(
    agent: Agent, some: SpokenQuestions, silenced: bool = False, hidden: bool = False, meanwhile: bool = False
) -> Reply:
    """The agent's answer to each question, by the head and the code that a life uses.

    Args:
        silenced: whether the sound is silent. hidden: whether the view is black. meanwhile: whether the scene is in
            view all the while, instead of at the end.
    """
    sound, counts = in_a_row([0.0 * wave for wave in some.waves] if silenced else some.waves)
    sight = torch.from_numpy(np.zeros_like(some.shown.sight) if hidden else some.shown.sight)
    sounds, meant = list[np.ndarray](), list[np.ndarray]()
    for rows in torch.arange(len(sound)).split(TOGETHER):
        heard = sound[rows, : int(counts[rows].max()) * TICK_SAMPLES]
        done = ask(agent, as_batch(ended_together(heard, counts[rows]), sight[rows], meanwhile), [REPLIES])
        output: Any = done.outputs[REPLIES]
        words, acted = output.logits.argmax(-1), done.acted[REPLY].cpu().numpy()
        waves = sound_of(said_mel(agent, output.by.levels(words)).cpu()).numpy()
        sounds += [sound if answers else NOTHING_SAID for sound, answers in zip(waves, acted, strict=True)]
        meant.append(np.where(acted, np.array(ANSWERS)[words.cpu().numpy()], NO_ANSWER))
    return Reply(sounds, np.concatenate(meant))


def ended_together(sound: Tensor, counts: Tensor) -> Tensor:
    """Sounds [N, T x 1600], of which the first `counts` Moments [N] count, moved to the end, so that each question
    ends where the answer is wanted.
    """
    ticks = sound.shape[1] // TICK_SAMPLES
    return torch.stack(
        [wave.roll((ticks - int(count)) * TICK_SAMPLES) for wave, count in zip(sound, counts, strict=True)]
    )


def as_batch(sound: Tensor, sight: Tensor, meanwhile: bool = False) -> dict[str, Any]:
    """Sound [N, T x 1600] of one ear as a Batch of T Moments. In the last one a PAGE asks for an answer and the scene
    [N, 64, 64, 3] comes into view; or, with `meanwhile`, it is in view all the while.
    """
    n, ticks = len(sound), sound.shape[1] // TICK_SAMPLES
    page = torch.tensor([BEGIN, *PAGE.encode()])
    pages = torch.full((n, ticks, len(page)), -1)
    pages[:, -1] = page
    views = sight[:, None].expand(-1, ticks, -1, -1, -1)
    batch = clip({SOUND: sound.unflatten(1, (-1, 1, TICK_SAMPLES)), TEXT: pages, SIGHT: views})
    last = torch.arange(ticks).expand(n, -1) == ticks - 1
    batch["present"] |= {TEXT: last, SIGHT: last | meanwhile}
    return batch


def is_understood(judge: Recogniser, sounds: Sequence[np.ndarray], some: SpokenQuestions) -> np.ndarray:
    """Whether each sound is understood as the true answer, 0 or 1, float64 [N]."""
    return (judge.named(sounds) == some.shown.words).astype(float)


def _floors(agent: Agent, context: Context, judge: Recogniser, some: SpokenQuestions) -> Mapping[str, float]:
    """Baselines: an untaught agent, the cascade, and the question alone."""
    share = lambda sounds: float(is_understood(judge, sounds, some).mean())  # noqa: E731
    floors = {UNTAUGHT: share(reply_to(untrained_agent(agent), some).sounds)}
    if is_whole(agent):
        floors[CASCADE] = share(cascade(agent, some.waves, some.shown.sight))
    common = _commonest(context)
    floors[QUESTION_ALONE] = float((np.array([common[text] for text in some.shown.texts]) == some.shown.words).mean())
    return floors


def _commonest(context: Context) -> Mapping[str, str]:
    """The commonest answer to each question in scenes of lessons."""
    every = list(BY_TEXT.values())
    n = -(-context.scaled(COUNTED_BY) // len(every))
    seeds = lesson_seeds(n * len(every), context.seed, "answers", "floors")
    counts = defaultdict[str, Counter[str]](Counter)
    for part in np.split(seeds, n):
        shown = scenes(context, part, every, TAUGHT)
        for text, word in zip(shown.texts, shown.words.tolist(), strict=True):
            counts[text][word] += 1
    return {text: words.most_common(1)[0][0] for text, words in counts.items()}


def _rows(
    agent: Agent, context: Context, judge: Recogniser, some: SpokenQuestions, right: np.ndarray, reply: Reply
) -> Mapping[str, float]:
    """Rows: by kind of question, and a quarter of the questions under changes."""
    kinds = np.array([KINDS[question.kind] for question in some.shown.questions])
    rows = {f"asked for {kind}": float(right[kinds == kind].mean()) for kind in KINDS if (kinds == kind).any()}
    rows[MEANT] = float((reply.meant == some.shown.words).mean())
    rows[MISTAKEN] = float((reply_to(agent, with_remarks(context, some)).meant != NO_ANSWER).mean())
    few = some.rows(max(8, len(some.waves) // 4))
    share = lambda sounds, of: float(is_understood(judge, sounds, of).mean())  # noqa: E731
    changes: tuple[tuple[str, dict[str, bool]], ...] = (
        (SILENCED, {"silenced": True}), (HIDDEN, {"hidden": True}), (MEANWHILE, {"meanwhile": True}),
    )  # fmt: skip
    rows |= {name: share(reply_to(agent, few, **change).sounds, few) for name, change in changes}
    every = [question for question in questions(HELD_OUT) if question.text not in BY_TEXT]
    others = ask_questions(context, "speak_answer pairs", every, PAIRS, QUESTIONS // 4)
    rows[STRANGE] = share(reply_to(agent, others).sounds, others)
    if is_whole(agent):
        words = written_answers(agent, few.shown.texts, few.shown.sight)
        rows[TOLD] = share(said_aloud(agent, words), few)
    own = own_voice(True)
    at = [row for row, text in enumerate(own.texts) if text in ANSWERS]
    rows[OWN] = float((judge.named([own.waves[row] for row in at]) == np.array([own.texts[row] for row in at])).mean())
    return rows


def _exhibits(some: SpokenQuestions, reply: Reply, right: np.ndarray) -> tuple[Exhibit, ...]:
    """Two answers that were understood and four that were not: question, answer and view."""
    pause, exhibits = np.zeros(PAUSE_SAMPLES, np.float32), list[Exhibit]()
    for i in (*np.flatnonzero(right)[:2], *np.flatnonzero(right == 0)[:4]):
        kind: Literal["example", "failure"] = "example" if right[i] else "failure"
        caption = f"'{some.shown.texts[i]}?' is answered '{reply.meant[i]}', and '{some.shown.words[i]}' is true"
        large = cv2.resize(some.shown.sight[i], None, fx=4, fy=4, interpolation=cv2.INTER_NEAREST)
        together = wav(np.concatenate((some.waves[i], pause, reply.sounds[i])))
        exhibits.append(Exhibit(kind, caption, cv2.imencode(".png", large[..., ::-1])[1].tobytes(), together))
    return tuple(exhibits)
