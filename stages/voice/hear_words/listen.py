"""The lesson `listen`: the ear and the arcs of words learn together, without the trunk.

They learn from log-mel that is computed once and varied anew at every use, forty times as fast as from sound through
the trunk. The texts do not say where their words are; connectionist temporal classification finds out, but begins
slowly. So at first each word also has a target where it would be if all letters were equally long (a flat start, as for
hidden Markov models of speech: Young et al., The HTK Book).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from devmind.agent.agent import Agent
from devmind.agent.taps import Tapped
from devmind.curriculum.stage import Context, Lesson
from devmind.learners.gradient import gradient_lesson
from devmind.moment import TICK_SAMPLES
from devmind.seeding import numpy_rng, torch_generator
from stages.voice.ear import FRAMES, HOP, LEAD, MELS, TOKENS, EarEncoder, add_log_mels, frames
from stages.voice.hear_words.written import nats_per_word
from stages.voice.moments import in_a_row
from stages.voice.parts import LISTEN, WRITTEN_ARC
from stages.voice.parts import WORDS_ARC as ARC
from stages.voice.transcript import ctc, word_numbers
from stages.voice.utterances import alike, groups, shares, sources, where

STEPS = {"tiny": 8, "nursery": 1800, "child": 8000, "adult": 20_000}
GUIDED = 0.4
"""The share of the steps with targets of the flat start, whose weight falls to 0."""
SLOWEST, FASTEST = 0.8, 1.25
WARP, BEND = 0.08, 0.03
"""Ranges of variation of the frequency axis: the length of the vocal tract, and its proportions."""
COLOUR = 0.15
"""Spread of the colour of a room or a microphone, in log-mel, at seven places of the frequency axis."""
QUIETEST, FAINT, LOUDEST = -2.2, -1.6, -0.8
"""Log-mel of noise: the quietest, the loudest of gentle variation, and the loudest."""
HISS, HUM = 0.3, 0.3
"""Spread of the colour of noise at four places of the frequency axis, and how often its lowest bands hum."""
SILENCE = -2.0
"""Log-mel of silence."""
_BEFORE, _AFTER = FRAMES - 1, 2 * FRAMES
"""Frames that are kept before and behind the speech."""


@dataclass(frozen=True)
class Source:
    """Utterances of one source, sorted by length: log-mel [F, 64] each, with a Moment before it and two behind."""

    mels: tuple[Tensor, ...]
    texts: tuple[str, ...]


def lesson(context: Context) -> Lesson:
    """The lesson as data."""
    return gradient_lesson(
        context, "listen", loss, lambda agent, context, update, rows, steps: batch(context, update, rows, steps),
        steps=STEPS, rows=48, learning_rate=3e-3, minutes=1.7, prefetch=True, skills=("hear_words",),
        trains=trained_weights, learns_from=groups(context),
    )  # fmt: skip


def trained_weights(agent: Agent) -> tuple[str, ...]:
    """Prefixes of the parameters that it trains: the ear, and the arcs for words that the agent has."""
    return (f"encoders.{LISTEN}.", *(f"heads.{head}." for head in (ARC, WRITTEN_ARC) if head in agent.heads))


def batch(context: Context, update: int, rows: int, steps: int) -> dict[str, Any]:
    """About `rows` utterances of one source and of similar length, varied.

    Returns:
        mel: [N, 6 + 8 T, 64]; texts; spans: where speech begins and ends in tokens, [N, 2]; guided: the weight of the
        flat start, 1 to 0.
    """
    mels, texts = draw_utterances(context, "listen", update, rows)
    mel, spans = disguise(mels, torch_generator(context.seed, "listen", update))
    guided = max(0.0, 1.0 - update / max(1.0, GUIDED * steps))
    return {"mel": mel, "spans": spans, "texts": texts, "guided": guided}


def draw_utterances(context: Context, lesson: str, update: int, rows: int) -> tuple[list[Tensor], list[str]]:
    """Log-mel and texts of about `rows` utterances of one source and of similar length; half as many of phrases."""
    rng, all_sources = numpy_rng(context.seed, lesson, update), heard_once(*where(context))
    source = all_sources[int(rng.choice(len(all_sources), p=shares(len(all_sources))))]
    index = alike(rng, len(source.texts), rows if " " not in source.texts[0] else max(2, rows // 2))
    return [source.mels[i] for i in index], [source.texts[i] for i in index]


def disguise(mels: Sequence[Tensor], generator: torch.Generator, gently: bool = False) -> tuple[Tensor, Tensor]:
    """Log-mel [N, 6 + 8 T, 64] varied as by other voices and rooms, and where speech is in it, in tokens [N, 2].

    Speed, frequency axis (Jaitly and Hinton 2013), colour, loudness, a telephone's band, bands and times taken away
    (Park et al. 2019, SpecAugment), and coloured noise that often hums; `gently`: nothing is taken away, and the noise
    is faint and does not hum.
    """
    n, draw = len(mels), lambda low, high: low + (high - low) * torch.rand(len(mels), 1, generator=generator)
    spoken = torch.tensor([[float(len(mel) - _BEFORE - _AFTER)] for mel in mels])
    speed, before = draw(np.log(SLOWEST), np.log(FASTEST)).exp(), draw(4, 14)
    took = spoken / speed
    moments = int(((before + took + 10).max() / FRAMES).ceil())
    frame = torch.arange(LEAD + FRAMES * moments)[None].float()
    longest = max(map(len, mels))
    source = torch.stack([torch.cat((mel, mel[-1:].expand(longest - len(mel), -1))) for mel in mels])
    time = ((frame - LEAD - before) * speed + _BEFORE).clamp(0, longest - 1) * 2 / (longest - 1) - 1
    tone = torch.linspace(0, 1, MELS)[None]
    warped = tone * draw(np.log(1 - WARP), np.log(1 + WARP)).exp() + draw(-BEND, BEND) * torch.sin(np.pi * tone)
    tones = (warped * 2 - 1).clamp(-1, 1)
    size = (n, frame.shape[1], MELS)
    grid = torch.stack((tones[:, None].expand(size), time[..., None].expand(size)), -1)
    mel = F.grid_sample(source[:, None], grid, align_corners=True)[:, 0]
    colour = F.interpolate(COLOUR * torch.randn(n, 1, 7, generator=generator), MELS, mode="linear", align_corners=True)
    mel = mel + colour + draw(-0.5, 0.25)[..., None]
    bin_ = torch.arange(MELS)[None]
    gone = bin_ > torch.where(draw(0, 1) < 0.3, draw(42, 50), torch.full((n, 1), MELS))
    for start, width, share, at in ((draw(0, 60), 12, 0.3, bin_), (draw(0, 1) * size[1], 6, 0.25, frame)):
        hidden = (at >= start) & (at < start + draw(0, width) * (draw(0, 1) < share * (not gently)))
        mel = mel.masked_fill(hidden[:, None] if at is bin_ else hidden[..., None], SILENCE)
    mel = mel.masked_fill(gone[:, None], SILENCE)
    hiss = F.interpolate(HISS * torch.randn(n, 1, 4, generator=generator), MELS, mode="linear")
    if not gently:
        hums = torch.where(draw(0, 1) < HUM, draw(0.4, 2.0), torch.full((n, 1), SILENCE)) - draw(0.1, 0.6) * bin_
        hiss = add_log_mels(hiss, hums[:, None])
    level = draw(QUIETEST, FAINT if gently else LOUDEST)[..., None]
    mel = add_log_mels(mel, level + hiss + 0.12 * torch.randn(size, generator=generator))
    return mel, torch.cat((before, before + took), 1) * TOKENS / FRAMES


@lru_cache(maxsize=2)
def heard_once(data: Path | None, seed: int, size: str, holdout: str | None) -> tuple[Source, ...]:
    """The log-mel of every source, computed once."""
    all_sources = []
    for waves, texts in sources(data, seed, size, holdout):
        all_sources.append(Source(tuple(mels_of(waves)), texts))
    return tuple(all_sources)


def mels_of(waves: Sequence[np.ndarray]) -> list[Tensor]:
    """Log-mel [F, 64] of each sound float32 [S], with a Moment before it and two behind, as `disguise` takes them."""
    mels: list[Tensor] = []
    for start in range(0, len(waves), 50):
        some = waves[start : start + 50]
        sound, _ = in_a_row(some, before=TICK_SAMPLES, after=2 * TICK_SAMPLES)
        # Its first frame ends with sample 400: the Moment before the speech is seven frames.
        mels += [
            row[: _BEFORE + len(wave) // HOP + _AFTER].clone() for row, wave in zip(frames(sound), some, strict=True)
        ]
    return mels


def loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Nats a word of the arc against the texts, with the flat start's loss as far as the batch is guided; and the same
    for the arc that writes, if there is one.
    """
    ear = agent.encoder(LISTEN)
    assert isinstance(ear, EarEncoder)
    tokens = ear.tokens_of(batch["mel"].to(agent.device))
    here = torch.ones(tokens.shape[:-1], dtype=torch.bool, device=agent.device)
    output: Any = agent.head(ARC).respond(Tapped(tokens, here))
    logits = output.logits.flatten(1, 2)
    counts = torch.full((len(logits),), logits.shape[1])
    words = torch.tensor([len(text.split()) for text in batch["texts"]])
    nats = (ctc(logits, counts, batch["texts"]) / words).clamp_max(50.0).mean().to(agent.device)
    scalars, value = {"words by the arc": nats.detach()}, guide_loss(logits, nats, batch)
    if WRITTEN_ARC in agent.heads:
        written: Any = agent.head(WRITTEN_ARC).respond(Tapped(tokens, here))
        by_writing = nats_per_word(written, batch["texts"], counts)
        value = value + guide_loss(written.frames, by_writing, batch)
        scalars["written by the arc"] = by_writing.detach()
    return value, scalars


def guide_loss(logits: Tensor, nats: Tensor, batch: Mapping[str, Any]) -> Tensor:
    """`nats` mixed with the cross-entropy of logits [N, L, W] against the flat start, as far as a batch is guided."""
    share = batch["guided"]
    if not share:
        return nats
    targets = flat_start(batch["texts"], batch["spans"], logits.shape[1]).to(logits.device)
    return (1.0 - 0.8 * share) * nats + 2.0 * share * F.cross_entropy(logits.transpose(1, 2), targets)


def flat_start(texts: Sequence[str], spans: Tensor, n: int, behind: float = 2.0) -> Tensor:
    """The word of each of `n` tokens if all letters were equally long, int64 [N, n]; 0 where there is none.

    A word can be known when most of it was heard: its target begins at 0.6 of it and ends `behind` tokens after it.
    """
    at, targets = torch.arange(n) + 0.5, torch.zeros(len(texts), n, dtype=torch.int64)
    for row, text in enumerate(texts):
        begin, end = spans[row].tolist()
        letter = (end - begin) / (len(text) + 1)
        for number, word in zip(word_numbers(text), text.split(), strict=True):
            whole = (len(word) + 1) * letter
            targets[row][(at >= begin + 0.6 * whole) & (at < begin + whole + behind)] = number
            begin += whole
    return targets
