"""The lesson `answers`: spoken questions about what is in view, answered aloud. One head alone learns.

For each question it learns the true answer, the things at which the caregiver looks, what she asked, and the sound of
the answer in the agent's own voice. The sound is compared in log-mel, behind the codec's decoder, for the true answer,
whatever the head would have answered. It also learns that some utterances ask nothing.

It learns from log-mel that is computed once and varied anew at every use, as the ear does (`hear_words.listen`), with a
new scene for each question. As it needs no trunk, this takes a tenth of the time of perceiving sound.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from devmind.agent.agent import Agent
from devmind.agent.batch import one_tick
from devmind.agent.config import by_size
from devmind.agent.output import masked_mean
from devmind.agent.taps import Tap, Tapped
from devmind.agent.text import BEGIN
from devmind.curriculum.episodes import identities
from devmind.curriculum.stage import Context, Lesson
from devmind.seeding import lesson_seeds, numpy_rng, torch_generator
from stages.voice.abilities.spoken_answers import PAGE
from stages.voice.caregiver.speech import Bank, bank
from stages.voice.ear import EarEncoder
from stages.voice.hear_words.listen import disguise, mels_of
from stages.voice.one_head import HeadByMuon, head_lesson
from stages.voice.parts import DETAIL, LISTEN, REPLIES, SIGHT, TEXT
from stages.voice.say.head import MANNER
from stages.voice.say.lesson import how_far_off, own_voice, said_mel
from stages.voice.speak_answer.asked import (
    ANSWERS,
    NO_QUESTIONS,
    TAUGHT,
    UNDERSTOOD,
    Question,
    Scenes,
    questions,
    scenes,
)
from stages.voice.utterances import alike, utterance_names

STEPS = {"tiny": 8, "nursery": 1000, "child": 4000, "adult": 10_000}
ROWS = 32
"""Utterances of a step."""
ASK_NOTHING = 8
"""One of so many utterances asks nothing."""
SPOKEN = by_size(2400, tiny=44)
"""Questions that the caregiver says, each varied anew and with a new scene at every use."""
SPOKEN_A_QUESTION = 3
"""Spoken questions for each spoken utterance that asks nothing."""
SOUNDED = 8
"""Rows whose answers are decoded to log-mel: there are only 13 words, and the codec's decoder takes longest."""


def lesson(context: Context) -> Lesson:
    """The lesson as data."""
    return head_lesson(
        context, "answers", REPLIES, loss, lesson_batch, steps=STEPS, rows=ROWS, learning_rate=3e-3, minutes=2.5,
        skill="speak_answer", learner=HeadByMuon,
    )  # fmt: skip


@lru_cache(maxsize=2)
def spoken_questions(seed: int, size: str) -> Bank:
    """Questions of lessons in voices of lessons, sorted by length."""
    speech = bank("answers", seed, SPOKEN[size], tuple(BY_TEXT), False)
    return speech.take(np.argsort([len(wave) for wave in speech.waves], kind="stable"))


@lru_cache(maxsize=2)
def spoken_remarks(seed: int, size: str) -> Bank:
    """Utterances that ask nothing, in voices of lessons."""
    return bank("answers to nothing", seed, SPOKEN[size] // SPOKEN_A_QUESTION, NO_QUESTIONS, False)


BY_TEXT: Mapping[str, Question] = {question.text: question for question in questions(TAUGHT)}
"""Questions of lessons."""


@lru_cache(maxsize=2)
def heard_once(seed: int, size: str) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Log-mel [F, 64] of each question of lessons and of each utterance that asks nothing, with a Moment before it and
    two behind, computed once.
    """
    return tuple(mels_of(spoken_questions(seed, size).waves)), tuple(mels_of(spoken_remarks(seed, size).waves))


def lesson_batch(context: Context, update: int, rows: int) -> dict[str, Any]:
    """`rows` utterances, each with a scene in view: questions of similar length, then utterances that ask nothing.

    Returns:
        `heard`: log-mel [N, 6 + 8 T, 64]; `sight`: uint8 [N, 64, 64, 3]; `question` bool [N]; and the targets of the Q
        questions (`targets_of`).
    """
    rng, generator = numpy_rng(context.seed, "answers", update), torch_generator(context.seed, "answers", update)
    every = spoken_questions(context.seed, context.config.size)
    mels, others = heard_once(context.seed, context.config.size)
    count = rows - rows // ASK_NOTHING
    at, beside = alike(rng, len(mels), count), rng.integers(len(others), size=rows - count)
    asked = [BY_TEXT[every.texts[i]] for i in (*at, *rng.integers(len(mels), size=rows - count))]
    shown = scenes(context, lesson_seeds(rows, context.seed, "answers", update), asked, TAUGHT)
    mel, _ = disguise([*(mels[i] for i in at), *(others[i] for i in beside)], generator)
    heard = {"heard": mel, "sight": torch.from_numpy(shown.sight), "question": torch.arange(rows) < count}
    return heard | targets_of(shown.first(count), rng)


def targets_of(scenes_asked: Scenes, rng: np.random.Generator) -> dict[str, Tensor]:
    """Targets of questions about scenes; the manner of each answer is drawn at random.

    Returns:
        `answers` int64 [N]; `asked` int64 [N, 3], as in UNDERSTOOD; `meant` and `things` bool [N, 64], as in `Scenes`;
        `manner` [N, 2] and `mel` [N, 80, 64], the sound of the answer.
    """
    own = own_voice(False)
    takes = [int(rng.choice(_takes()[word])) for word in scenes_asked.words]
    return {
        "answers": torch.from_numpy(scenes_asked.answers),
        "asked": torch.tensor([(one.kind, one.colour + 1, one.noun) for one in scenes_asked.questions]),
        "meant": torch.from_numpy(scenes_asked.meant), "things": torch.from_numpy(scenes_asked.things),
        "manner": torch.from_numpy(own.manner[takes]).reshape(-1, MANNER), "mel": own.mel[takes],
    }  # fmt: skip


@lru_cache(maxsize=1)
def _takes() -> Mapping[str, Sequence[int]]:
    """By answer, the rows of the agent's own voice that say it."""
    rows = defaultdict[str, list[int]](list)
    for row, text in enumerate(own_voice(False).texts):
        rows[text].append(row)
    return {word: rows[word] for word in ANSWERS}


def perceive_batch(agent: Agent, batch: Mapping[str, Any]) -> Tapped:
    """What the head reads of a batch of the lesson, without gradients."""
    ear, page = agent.encoder(LISTEN), torch.tensor([BEGIN, *PAGE.encode()])
    assert isinstance(ear, EarEncoder)
    sight = batch["sight"].to(agent.device)
    looked_at = one_tick({TEXT: page.to(agent.device).expand(len(sight), -1), SIGHT: sight})
    with torch.no_grad():
        heard = ear.tokens_of(batch["heard"].to(agent.device))
        seen = Tap.of(DETAIL).read(agent.perceive(looked_at, [DETAIL]))
    assert seen is not None
    n, ticks, _, width = heard.shape
    # The scene is in view in the last Moment, the only one whose maps are read.
    things = heard.new_zeros(n, ticks, seen.tokens.shape[2], width)
    here = torch.ones(heard.shape[:-1], dtype=torch.bool, device=agent.device)
    views = here.new_zeros(things.shape[:-1])
    things[:, -1:], views[:, -1:] = seen.tokens, seen.present
    return Tapped(torch.cat((heard, things), 2), torch.cat((here, views), 2), seen.maps)


def loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """`reply_loss` of a whole batch."""
    return reply_loss(agent, agent.head(REPLIES).at_the_end(perceive_batch(agent, batch)), batch)  # type: ignore[operator]


def reply_loss(agent: Agent, output: Any, targets: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Nats of the answer, of looking at each thing, of what was asked and of whether anything was asked; and the error
    in log-mel of the true answer as the head says it.

    Args:
        output: of the last Moment, [N, ...]; targets: as `lesson_batch` gives them.
    """
    to = lambda name: targets[name].to(agent.device)  # noqa: E731
    count = len(targets["answers"])
    logits = output.logits[:count]
    missed = F.cross_entropy(logits, to("answers"))
    nats = F.binary_cross_entropy_with_logits(output.looked[:count], to("meant").float(), reduction="none")
    looks = masked_mean(nats, to("things"))
    parts = output.understood[:count].split(UNDERSTOOD, -1)
    asks = torch.stack([F.cross_entropy(part, to("asked")[:, at]) for at, part in enumerate(parts)]).sum()
    some = {name: to(name)[:SOUNDED] for name in ("answers", "manner", "mel")}
    off, sounds = how_far_off(said_mel(agent, output.by.levels(some["answers"], some["manner"])), some["mel"])
    right = (logits.argmax(-1) == to("answers")).float().mean()
    scalars = {"answers": missed.detach(), "looks": looks.detach(), "asks": asks.detach(), "right": right}
    whole = missed + looks + asks + off
    if output.asked is not None:
        doubted = F.binary_cross_entropy_with_logits(output.asked, to("question").float())
        whole, scalars["doubted"] = whole + doubted, doubted.detach()
    return whole, {**scalars, "sounds db": 20.0 * sounds.detach()}


def identity(waves: Sequence[np.ndarray], sight: np.ndarray) -> np.ndarray:
    """Names of questions asked as sounds float32 [S] about pictures uint8 [N, 64, 64, 3], int64 [N]."""
    return identities({"heard": utterance_names(list(waves)), "sight": sight})


def lesson_episodes(context: Context, n: int) -> np.ndarray:
    """Questions, before they are varied, with scenes of lessons: int64 [n]."""
    every, identities_of_parts = spoken_questions(context.seed, context.config.size), list[np.ndarray]()
    for part in np.array_split(lesson_seeds(n, context.seed, "answers", "episodes"), -(-n // 500)):
        speech = every.take(numpy_rng(context.seed, "answers", "episodes").integers(len(every.texts), size=len(part)))
        shown = scenes(context, part, [BY_TEXT[text] for text in speech.texts], TAUGHT)
        identities_of_parts.append(identity(speech.waves, shown.sight))
    return np.concatenate(identities_of_parts)
