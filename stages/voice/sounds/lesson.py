"""The lessons `sounds`, which teaches the arc from log-mel that is computed once, and `kinds`, which teaches the head
on the trunk from sound.

There are few recordings, so each is varied: pieces from different places, faster or slower, moved on the frequency
axis, coloured, louder or softer, with bands and times taken away (SpecAugment, Park et al. 2019), and mixed with
another (mixup, Zhang et al. 2018).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from devmind.agent.agent import Agent
from devmind.agent.config import by_size
from devmind.agent.taps import Tapped
from devmind.curriculum.stage import Context, Lesson
from devmind.learners.closed_form import ClosedFormLearner, closed_form_lesson, reaching
from devmind.learners.gradient import gradient_lesson
from devmind.moment import SOUND_RATE_HZ, TICK_SAMPLES
from devmind.seeding import numpy_rng, torch_generator
from stages.voice.caregiver.speech import TAUGHT_PHRASES, bank
from stages.voice.ear import BEFORE, FRAMES, LEAD, MEL, MELS, TOKENS, add_log_mels, frames
from stages.voice.moments import as_batch, vary_sound
from stages.voice.parts import KINDS_ARC as ARC
from stages.voice.parts import KINDS_HEAD as HEAD
from stages.voice.sounds import strange
from stages.voice.sounds.kinds import KINDS, SPEECH, UNKNOWN
from stages.voice.sounds.recorded import SECONDS, groups, recordings_of_lessons
from stages.voice.utterances import utterance_names

ARC_STEPS = {"tiny": 8, "nursery": 900, "child": 3000, "adult": 8000}
STEPS = {"tiny": 8, "nursery": 500, "child": 2500, "adult": 8000}
SOLVED_STEPS = {"tiny": 8, "nursery": 125, "child": 625, "adult": 2000}
"""In closed form a quarter of the pieces is as good as all of them by gradient (docs/learners.md)."""
UNKNOWN_SHARE = 0.35
"""The share of sounds of no kind. For the arc half of these are taught sounds with the frequency axis reversed."""
MADE = SPOKEN = by_size(80, tiny=12)
"""Sounds of no kind that are made, and phrases of the caregiver, by size."""
ARC_MOMENTS, TRUNK_MOMENTS = (20, 36), 20
"""Moments of a piece, for the arc (a range) and for the head on the trunk."""
SILENCE = -2.0
"""Log-mel of silence."""
LOUD_ENOUGH = 0.3
"""A piece has at least this share of the energy of the loudest piece of its recording: a silent dog is no dog."""
SMOOTHED = 0.1


@dataclass(frozen=True)
class LessonSounds:
    """The sounds of lessons: waves float32 [S], repeated to at least 5 s; kinds int64 [N], in KINDS; sources [N], of
    recordings their source, else "".
    """

    waves: tuple[np.ndarray, ...]
    kinds: np.ndarray
    sources: np.ndarray

    def of(self, kind: int) -> np.ndarray:
        """The rows of a kind."""
        return np.flatnonzero(self.kinds == kind)

    def without(self, sources: Collection[str]) -> LessonSounds:
        """The sounds of none of these sources."""
        rows = np.flatnonzero(~np.isin(self.sources, list(sources)))
        return LessonSounds(tuple(self.waves[at] for at in rows), self.kinds[rows], self.sources[rows])


def arc_lesson(context: Context) -> Lesson:
    """The arc's lesson as data."""
    return gradient_lesson(
        context, "sounds", arc_loss, lambda agent, context, update, rows, steps: arc_batch(context, update, rows),
        steps=ARC_STEPS, rows=24, learning_rate=3e-3, minutes=1.0, prefetch=True, skills=("sounds",),
        trains=lambda agent: (f"heads.{ARC}.",), learns_from=groups(context),
    )  # fmt: skip


def lesson(context: Context) -> Lesson:
    """The lesson of the head on the trunk as data.

    The trunk's layers stay as `words` taught them. Training them too undid words, and rehearsals did not prevent that
    (docs/log.md, 2026-11-27). By the learner closed_form the head's last layer is solved instead.
    """
    said = context.config.lessons.get("kinds")
    if said and said.learner == "closed_form":
        return solved_lesson(context)
    return gradient_lesson(
        context, "kinds", loss, lambda agent, context, update, rows, steps: lesson_batch(context, update, rows),
        steps=STEPS, rows=16, learning_rate=2e-3, minutes=1.5, trains=trains, prefetch=True,
        rehearsed=True, control=(), skills=("sounds",), learns_from=groups(context),
        learners=("closed_form",),
    )  # fmt: skip


def solved_lesson(context: Context) -> Lesson:
    """The lesson of the head on the trunk in closed form: its answer for a whole piece is the mean over Moments, which
    the last layer gives of the mean of what reaches it.
    """

    def make_learner(agent: Agent, context: Context) -> ClosedFormLearner:
        return ClosedFormLearner(
            agent, HEAD, "kinds", seed=context.seed,
            features=lambda agent, batch: reaching(agent, HEAD, batch).mean(1), loss=loss,
        )  # fmt: skip

    return closed_form_lesson(
        context, "kinds", make_learner, lambda agent, context, update, rows: lesson_batch(context, update, rows),
        steps=SOLVED_STEPS, rows=16, minutes=0.4, prefetch=True, rehearsed=True, control=(), skills=("sounds",),
        learns_from=groups(context), learners=("closed_form",), instead_of=STEPS[context.config.size],
    )  # fmt: skip


def trains(agent: Agent) -> tuple[str, ...]:
    """The parameters that `kinds` trains: its head."""
    return (f"heads.{HEAD}.",)


def listened_to(context: Context) -> LessonSounds:
    """The recordings of two folds, the caregiver's phrases and sounds of no kind."""
    return _listened_to(context.data, context.seed, context.config.size)


@lru_cache(maxsize=2)
def _listened_to(data: Path | None, seed: int, size: str) -> LessonSounds:
    n, spoken = MADE[size], SPOKEN[size]
    rng = numpy_rng("sounds of no kind", seed)
    waves = [strange.make_sound(rng, SECONDS) for _ in range(n)]
    waves += [long_enough(wave) for wave in bank("sounds", seed, spoken, TAUGHT_PHRASES, False).waves]
    kinds, sources = np.repeat([UNKNOWN, SPEECH], [n, spoken]), np.full(n + spoken, "")
    if (known := recordings_of_lessons(data, seed)) is not None:
        waves += [long_enough(wave) for wave in known.waves]
        kinds, sources = np.concatenate((kinds, known.kinds)), np.concatenate((sources, known.sources))
    return LessonSounds(tuple(waves), kinds, sources)


@lru_cache(maxsize=2)
def _heard_once(data: Path | None, seed: int, size: str) -> Tensor:
    """Log-mel [N, F, 64] of all sounds of lessons, computed once."""
    waves = _listened_to(data, seed, size).waves
    return torch.cat([frames(torch.from_numpy(np.stack(waves[at : at + 50]))) for at in range(0, len(waves), 50)])


def long_enough(wave: np.ndarray, seconds: float = SECONDS) -> np.ndarray:
    """A sound float32 [S] cut or repeated to `seconds`, with a fifth of a second between repetitions."""
    n = round(seconds * SOUND_RATE_HZ)
    pause = np.zeros(2 * TICK_SAMPLES if len(wave) < n else 0, np.float32)
    return np.resize(np.concatenate((wave, pause)), n)


def draw_clips(rng: np.random.Generator, clips: LessonSounds, rows: int, share: float = UNKNOWN_SHARE) -> np.ndarray:
    """Drawn rows of `clips`: a `share` of no kind, and all other kinds equally often, int64 [rows]."""
    kinds = [kind for kind in np.unique(clips.kinds) if kind != UNKNOWN]
    chosen = [UNKNOWN if rng.random() < share else int(rng.choice(kinds)) for _ in range(rows)]
    return np.array([rng.choice(clips.of(kind)) for kind in chosen], dtype=np.int64)


def piece(rng: np.random.Generator, energy: np.ndarray, n: int) -> int:
    """Where a piece of `n` begins in `energy` [F]: a random place that is loud enough (LOUD_ENOUGH)."""
    sums = np.convolve(energy, np.ones(n), "valid")
    return int(rng.choice(np.flatnonzero(sums >= LOUD_ENOUGH * sums.max())))


def arc_batch(context: Context, update: int, rows: int) -> dict[str, Any]:
    """`rows` varied pieces: log-mel [N, 6 + 8 T, 64], and the share of each kind in each, [N, KINDS]."""
    where = (context.data, context.seed, context.config.size)
    rng, clips, mels = numpy_rng(context.seed, "sounds", update), _listened_to(*where), _heard_once(*where)
    n = LEAD + FRAMES * int(rng.integers(ARC_MOMENTS[0], ARC_MOMENTS[1]))
    index = draw_clips(rng, clips, rows, UNKNOWN_SHARE / 2)  # `turned_round` makes as many again
    mels_cut = []
    for row in index:
        whole = mels[row]
        # Up to a fifth faster or slower, and up to three bins up or down the frequency axis.
        length = min(len(whole), round(n * float(np.exp(rng.uniform(-0.2, 0.2)))))
        start = piece(rng, 10 ** (2 * whole.numpy()).mean(1), length)
        cut = F.interpolate(whole[start : start + length].T[None], n, mode="linear")[0].T
        mels_cut.append(cut.roll(int(rng.integers(-3, 4)), 1))
    targets = F.one_hot(torch.from_numpy(clips.kinds[index]), len(KINDS)).float()
    mel = disguise(torch.stack(mels_cut), torch_generator(context.seed, "sounds", update))
    return turned_round(mel, targets, rng)


def disguise(mel: Tensor, generator: torch.Generator) -> Tensor:
    """Log-mel [N, F, 64] varied: coloured, louder or softer, with bands and times taken away, and with noise."""
    n, f = mel.shape[:2]
    draw = lambda low, high: low + (high - low) * torch.rand(n, 1, generator=generator)  # noqa: E731
    colour = F.interpolate(0.15 * torch.randn(n, 1, 7, generator=generator), MELS, mode="linear", align_corners=True)
    mel = mel + colour + draw(-0.5, 0.4)[..., None]
    for axis, size, width, share in ((1, MELS, 12, 0.5), (2, f, f // 6, 0.5)):
        at, start = torch.arange(size)[None], draw(0, size)
        hidden = (at >= start) & (at < start + draw(0, width) * (draw(0, 1) < share))
        mel = mel.masked_fill(hidden.unsqueeze(axis), SILENCE)
    noise = draw(-2.2, -1.2)[..., None] + 0.1 * torch.randn(mel.shape, generator=generator)
    return add_log_mels(mel, noise)


def turned_round(mel: Tensor, targets: Tensor, rng: np.random.Generator) -> dict[str, Any]:
    """Reverses the frequency axis of some rows, which are of no kind then, and mixes half of the rows with others."""
    rows = len(mel)
    strange_ones = torch.from_numpy(rng.random(rows) < UNKNOWN_SHARE / 2)
    mel = torch.where(strange_ones[:, None, None], mel.flip(-1), mel)
    nothing = F.one_hot(torch.full((rows,), UNKNOWN), len(KINDS)).float()
    targets = torch.where(strange_ones[:, None], nothing, targets)
    share = torch.from_numpy(rng.beta(0.4, 0.4, rows) * (rng.random(rows) < 0.5)).float()
    share = torch.minimum(share, 1.0 - share)
    order = torch.from_numpy(rng.permutation(rows))
    # In amplitudes the louder has 1 - share.
    level = (share / (1.0 - share)).clamp_min(1e-3).log10()[:, None, None]
    mixed = add_log_mels(mel, mel[order] + level)
    weight = share[:, None]
    return {"mel": mixed, "wanted": (1.0 - weight) * targets + weight * targets[order]}


def arc_loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Cross-entropy of the arc against the kinds, from the sixth Moment on."""
    mel = batch["mel"].to(agent.device)
    moments = mel[:, LEAD + FRAMES - BEFORE :].unfold(1, BEFORE + FRAMES, FRAMES)[:, :, :, None]
    nothing = mel.new_zeros(*moments.shape[:2], TOKENS, agent.config.width)
    here = torch.ones_like(nothing[..., 0], dtype=torch.bool)
    output: Any = agent.head(ARC).respond(Tapped(nothing, here, {MEL: moments}))
    targets = batch["wanted"].to(agent.device)[:, None].expand_as(output.logits)
    value = smoothed_cross_entropy(output.logits[:, 5:], targets[:, 5:])
    return value, {"kinds by the arc": value.detach()}


def smoothed_cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy of logits [..., K] with smoothed shares [..., K]."""
    smooth = (1.0 - SMOOTHED) * targets + SMOOTHED / targets.shape[-1]
    return -(smooth * logits.log_softmax(-1)).sum(-1).mean()


def lesson_batch(context: Context, update: int, rows: int) -> dict[str, Any]:
    """`rows` pieces of 2 s as sound, varied, each of one kind."""
    rng, clips = numpy_rng(context.seed, "kinds", update), listened_to(context)
    n, index = TRUNK_MOMENTS * TICK_SAMPLES, draw_clips(rng, clips, rows)
    waves = []
    for row in index:
        whole = clips.waves[row]
        energy = np.square(whole).reshape(-1, TICK_SAMPLES).sum(1)
        start = piece(rng, energy, TRUNK_MOMENTS) * TICK_SAMPLES
        waves.append(np.ascontiguousarray(whole[start : start + n]))
    sound = vary_sound(torch.from_numpy(np.stack(waves)), torch_generator(context.seed, "kinds", update))
    return as_batch(sound) | {"kinds": torch.from_numpy(clips.kinds[index])}


def loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Cross-entropy of the head on the trunk, for a whole piece, against the kind and the arc's last answer."""
    agent.head(ARC).eval()  # it teaches and does not learn, so without dropout
    outputs = agent(dict(batch), [HEAD, ARC])
    logits = together(outputs[HEAD].numbers())
    targets = F.one_hot(batch["kinds"].to(agent.device), len(KINDS)).float()
    own = smoothed_cross_entropy(logits, targets)
    teacher = outputs[ARC].numbers()[:, -1].detach().softmax(-1)
    apart = -(teacher * logits.log_softmax(-1)).sum(-1).mean()
    return own + apart, {"kinds": own.detach(), "apart from the arc": apart.detach()}


def together(logits: Tensor) -> Tensor:
    """The answer of the head on the trunk for a whole piece, [N, T, K] to [N, K]: the mean of its logits."""
    return logits.mean(1)


def lesson_episodes(context: Context, n: int) -> np.ndarray:
    """Names of sounds of lessons, before they are varied: int64 [about n]."""
    return utterance_names(list(listened_to(context).waves[-n:]))
