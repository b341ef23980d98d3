"""Spoken digits: the trunk listens to a second of speech and names the digit at its end.

Needs recordings (`--data`). One speaker is kept out of the lessons; the exam hears only speakers the agent never met.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import cv2
import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from devmind.agent.agent import Agent
from devmind.agent.features import mel_power
from devmind.algorithms.ridge import fit_ridge_classifier
from devmind.curriculum.episodes import identities
from devmind.curriculum.exam import Exhibit, Measure
from devmind.curriculum.stage import Context
from devmind.errors import ExamError
from devmind.moment import TICK_SAMPLES
from devmind.seeding import numpy_rng, torch_generator
from stages.reflex.batches import clip
from stages.reflex.evidence import wav
from stages.reflex.recordings import CLIP_SAMPLES, CLIP_TICKS, Clips, clips, held_out_speaker, speaker_group

NORMAL_FRAMES = 32
FLOOR_PENALTY, READ_OUT_PENALTY = 3000.0, 1000.0
"""Ridge penalties; the floor's is its best of 300, 3,000 and 10,000 on the recordings at hand, to be fair to it."""


def taught(context: Context) -> bool:
    """Whether the run was given speech."""
    return clips(context.data) is not None


def lesson_clips(context: Context) -> Clips:
    """The clips of every speaker but the one held out."""
    every = clips(context.data)
    assert every is not None
    out = held_out_speaker(list(every.speakers), context.seed, context.config.exam.holdout)
    return every.take(every.speakers != out)


def as_sound(waves: Tensor) -> Tensor:
    """Waves [N, 16000] as ten ticks of mono sound [N, 10, 1, 1600]."""
    return waves.reshape(len(waves), CLIP_TICKS, 1, TICK_SAMPLES)


def lesson_batch(context: Context, update: int, size: int) -> dict[str, Any]:
    """Half of `size` clips, varied at random, with the digit; the answer is asked for in the last tick."""
    known, n = lesson_clips(context), max(2, size // 2)
    index = numpy_rng(context.seed, "speech", update).integers(0, len(known.labels), n)
    waves = vary(torch.from_numpy(known.waves[index]), torch_generator(context.seed, "speech", update))
    return clip({"sound": as_sound(waves)}) | {"digit": torch.from_numpy(known.labels[index])}


def vary(waves: Tensor, generator: torch.Generator) -> Tensor:
    """Other voices and rooms: played 0.8 to 1.25 times as fast (pitch and formants move), shifted, filtered, noisy."""
    n, s = waves.shape
    draw = lambda low, high: low + (high - low) * torch.rand(n, 1, generator=generator)  # noqa: E731
    speed, shift = draw(0.8, 1.25), draw(-0.15, 0.15)
    base = torch.linspace(-1, 1, s).expand(n, s) * speed + shift
    grid = torch.stack((base, torch.zeros_like(base)), -1)[:, None]
    warped = F.grid_sample(waves[:, None, None], grid, align_corners=True)[:, 0, 0]
    spectrum = torch.fft.rfft(warped)
    knots = torch.randn(n, 1, 9, generator=generator) * 4.0
    gain_db = F.interpolate(knots, spectrum.shape[-1], mode="linear", align_corners=True)[:, 0]
    coloured = torch.fft.irfft(spectrum * 10 ** (gain_db / 20), s)
    noise = torch.randn(n, s, generator=generator) * 10 ** draw(-4.0, -2.0)
    return (coloured + noise) * 10 ** draw(-0.4, 0.2)


def loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Cross-entropy of the digit over the last ticks: early answers are guesses, so they count little."""
    output = agent(batch, ["spoken"])["spoken"]
    logits = output.logits[:, CLIP_TICKS // 2 :]
    wanted = batch["digit"][:, None].expand(logits.shape[:2])
    each = F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), reduction="none", label_smoothing=0.05)
    weight = torch.linspace(0.2, 1.0, logits.shape[1], device=logits.device)
    value = (each.unflatten(0, logits.shape[:2]) * weight).sum(1).mean() / weight.sum()
    return value, {"speech": value.detach()}


def unmet(agent: Agent, every: Clips) -> Clips:
    """The clips of speakers the agent never learned from.

    Raises:
        ExamError: it learned from all of them.
    """
    met = [speaker_group(name) in agent.config.trained_on for name in every.speakers]
    if all(met):
        raise ExamError(
            "The agent learned from every speaker of the data, so none is left to examine it on; give other --data."
        )
    return every.take(~np.array(met))


def examine(agent: Agent, context: Context, level: str) -> Sequence[Measure]:
    """(a) unmet speakers, no adaptation; (b) all speakers in turn, a closed-form read-out on frozen features."""
    every = clips(context.data)
    if every is None:
        return []
    unseen = unmet(agent, every)
    if level == "glimpse":
        unseen = unseen.take(np.arange(0, len(unseen.labels), 5))
        return [_direct(agent, every, unseen, {})]
    scores = normal_features(every)
    measures = []
    if len(set(unseen.speakers)) < len(set(every.speakers)):
        # With every speaker unmet the agent was never taught digits, and naming them is not asked of it.
        measures.append(_direct(agent, every, unseen, _floors_on(every, unseen, scores) if level == "full" else {}))
    return [*measures, _read_out(agent, every, scores)]


def _answers(agent: Agent, part: Clips) -> np.ndarray:
    chosen = []
    for waves in torch.from_numpy(part.waves).split(100):
        output = agent(clip({"sound": as_sound(waves)}), ["spoken"])["spoken"]
        chosen.append(output.logits[:, -1].argmax(-1))
    return torch.cat(chosen).cpu().numpy()


def _direct(agent: Agent, every: Clips, unseen: Clips, floors: dict[str, float]) -> Measure:
    chosen = _answers(agent, unseen)
    right = chosen == unseen.labels
    wrong = np.flatnonzero(~right)[:6]
    exhibits = tuple(
        Exhibit(
            "failure",
            f"{unseen.speakers[i]} says {unseen.labels[i]}, heard as {chosen[i]}",
            wav=wav(unseen.waves[i][None]),
        )
        for i in wrong
    )
    return Measure(
        "hear/speech",
        "spoken digits named rightly",
        right.astype(np.float64),
        chance=0.1,
        ceiling=1.0,
        rate=True,
        floors=floors,
        reference="goal 0.90; a small convolutional net with two trunk layers 0.854 over four speakers (measured)",
        note=f"speakers never met: {', '.join(sorted(set(unseen.speakers)))}; no adaptation",
        **_clips(unseen),
        exhibits=exhibits if floors else (),
    )


def _clips(every: Clips) -> dict[str, Any]:
    """Which clips the values are of, and whose voice they share."""
    voices = np.unique(every.speakers, return_inverse=True)[1]
    return {"episodes": identities({"wave": every.waves}), "groups": voices}


def taught_clips(context: Context, n: int) -> np.ndarray:
    """Up to `n` of the clips that lessons show, before they are varied: int64."""
    return identities({"wave": lesson_clips(context).waves[:n]}) if taught(context) else np.zeros(0, np.int64)


def _floors_on(every: Clips, unseen: Clips, features: dict[str, np.ndarray]) -> dict[str, float]:
    out = np.isin(every.speakers, list(set(unseen.speakers)))
    return {name: _accuracy(x[~out], every.labels[~out], x[out], every.labels[out]) for name, x in features.items()}


def normal_features(every: Clips) -> dict[str, np.ndarray]:
    """Log-mel of the whole second, and of the speech alone stretched to 32 frames, both [N, D]."""
    power = np.concatenate([mel_power(part, 512, 160, 40).numpy() for part in torch.from_numpy(every.waves).split(200)])
    mel = 10 * np.log10(np.maximum(power, 1e-10))
    mel = np.maximum(mel, mel.max((1, 2), keepdims=True) - 80)
    stretched = []
    for frames, length in zip(mel, every.lengths, strict=True):
        start = (CLIP_SAMPLES - length) // 2 // 160
        spoken = np.ascontiguousarray(frames[start : start + max(2, length // 160 + 1)])
        stretched.append(cv2.resize(spoken, (spoken.shape[1], NORMAL_FRAMES), interpolation=cv2.INTER_LINEAR))
    return {
        "log-mel + ridge": mel[:, ::3].reshape(len(mel), -1),
        "time-normalised log-mel + ridge": np.stack(stretched).reshape(len(mel), -1),
    }


def _read_out(agent: Agent, every: Clips, floors: dict[str, np.ndarray]) -> Measure:
    frozen = frozen_features(agent, every)
    right = _in_turn(frozen, every, READ_OUT_PENALTY)
    met = sorted({name for name in every.speakers if speaker_group(name) in agent.config.trained_on})
    note = "each speaker in turn held out of a ridge read-out fitted on frozen features"
    if met:
        note += f"; the features were taught with {', '.join(met)}"
    return Measure(
        "hear/speech read-out",
        "spoken digits named rightly",
        right,
        chance=0.1,
        ceiling=1.0,
        rate=True,
        floors={name: float(_in_turn(x, every, FLOOR_PENALTY).mean()) for name, x in floors.items()},
        reference="time-normalised log-mel + ridge: 0.820 on four speakers (measured)",
        note=note,
        **_clips(every),
    )


def frozen_features(agent: Agent, every: Clips) -> np.ndarray:
    """The agent's sound tokens and readouts over the second, [N, D], sound tokens averaged by tick."""
    rows = []
    for waves in torch.from_numpy(every.waves).split(100):
        seen = agent.perceive(clip({"sound": as_sound(waves)}), ["trunk"])
        assert seen.readout is not None
        rows.append(torch.cat((seen.encoded["sound"].tokens.mean(-2), seen.readout), -1).flatten(1))
    return torch.cat(rows).cpu().numpy()


def _in_turn(features: np.ndarray, every: Clips, penalty: float) -> np.ndarray:
    right = np.zeros(len(every.labels))
    for name in sorted(set(every.speakers)):
        out = every.speakers == name
        fitted = fit_ridge_classifier(features[~out], every.labels[~out], penalty=penalty)
        right[out] = fitted.predict(features[out]) == every.labels[out]
    return right


def _accuracy(x: np.ndarray, labels: np.ndarray, y: np.ndarray, wanted: np.ndarray) -> float:
    return float((fit_ridge_classifier(x, labels, penalty=FLOOR_PENALTY).predict(y) == wanted).mean())
