"""Part of the exam of `echo`: new words in new voices, in noise at 5 dB, are cleaned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from devmind.agent.agent import Agent
from devmind.curriculum.exam import Exhibit, Measure, Parts, in_parts
from devmind.curriculum.stage import Context
from devmind.moment import TICK_SAMPLES
from devmind.seeding import derive_seed
from stages.voice.caregiver.speech import NEW_WORDS
from stages.voice.echo.clean.filters import filter_sound, in_bins, si_sdr_db, sound_of_spectrum, spectrum
from stages.voice.echo.clean.lesson import LEAD, noise
from stages.voice.exhibits import spectra, wav
from stages.voice.hear_words.exam import UNTAUGHT, untrained_agent
from stages.voice.moments import as_batch, in_a_row
from stages.voice.parts import CLEANED
from stages.voice.utterances import of_exam, utterance_names

CLEAN = "echo/cleaned"
LOUD_DB = 5.0
ASKED, TOGETHER = 200, 50
GATED, BEST = "spectral gate", "ideal gains, from the clean sound"
"""A baseline, and a row: the best possible with gains of the ear's bands."""
NOISE_FRAMES = LEAD // 200 - 4
"""Frames from which the baseline estimates the noise; it is told that nobody speaks there yet."""
GATES = tuple((over, least) for over in (1.0, 2.0, 4.0) for least in (0.05, 0.2))
"""Settings of the baseline: how much noise it subtracts, and the least gain. The best on these very episodes counts."""


@in_parts
def measure_cleaning(agent: Agent, context: Context) -> Parts:
    """One value an utterance: by how many dB SI-SDR rises."""
    if CLEANED not in agent.heads:
        return
    words = of_exam("echo exam", context, ASKED, NEW_WORDS)
    clean, _ = in_a_row(words.waves, before=LEAD)
    generator = torch.Generator().manual_seed(derive_seed("echo cleaned", context.seed) % 2**62)
    noisy = clean + noise(clean, torch.full((len(clean), 1), LOUD_DB), generator)
    before = si_sdr_db(noisy, clean)
    gain = lambda sound: (si_sdr_db(sound, clean) - before).double().numpy()  # noqa: E731
    result = by_agent(agent, noisy)
    measure = Measure(
        CLEAN, "dB of SI-SDR gained", gain(result), 0.0, 20.0, episodes=utterance_names(list(words.waves)),
        groups=words.groups,
        note=f"words and voices of no lesson, by {words.speaker}, in noise of any colour {LOUD_DB:g} dB below; the "
        "spectral gate is told which frames precede speech; its best of six settings on these sounds counts",
    )  # fmt: skip
    yield [measure]
    floors = {GATED: max(float(gain(spectral_gate(noisy, *gate)).mean()) for gate in GATES)}
    floors[UNTAUGHT] = float(gain(by_agent(untrained_agent(agent), noisy)).mean())
    rows = {BEST: float(gain(best_gains(noisy, clean)).mean()), "SI-SDR before": float(before.mean())}
    exhibits = _exhibits(words.texts, noisy, result, gain(result))
    yield [replace(measure, floors=floors, rows=rows, exhibits=exhibits)]


def by_agent(agent: Agent, noisy: Tensor) -> Tensor:
    """Sound [N, T x 1600] through the agent's gains."""
    parts = []
    for some in noisy.split(TOGETHER):
        output: Any = agent(as_batch(some), [CLEANED])[CLEANED]
        parts.append(filter_sound(some, output.value.flatten(1, 2).cpu()))
    return torch.cat(parts)


def spectral_gate(noisy: Tensor, over: float, least: float) -> Tensor:
    """A spectral gate (Boll 1979): subtracts from each frequency the power of the noise at the beginning."""
    heard_ = spectrum(noisy)
    power = heard_.abs().square()
    hum = power[..., 2:NOISE_FRAMES].mean(-1, keepdim=True)
    smooth = torch.nn.functional.avg_pool1d(power, 3, 1, 1, count_include_pad=False)
    gains = (1.0 - over * hum / smooth.clamp_min(1e-12)).clamp_min(0.0).sqrt().clamp_min(least)
    return sound_of_spectrum(heard_ * gains)


def best_gains(noisy: Tensor, clean: Tensor) -> Tensor:
    """The ideal ratio mask on the ear's bands: each band times the share of its power that is speech."""
    speech, other = (spectrum(one).abs().square() for one in (clean, noisy - clean))
    weights = in_bins(torch.eye(64)[None])[0].mT  # [64, 257]
    share = (weights @ speech) / (weights @ (speech + other)).clamp_min(1e-12)
    return filter_sound(noisy, share.mT)


def _exhibits(texts: Sequence[str], noisy: Tensor, outputs: Tensor, gain: np.ndarray) -> tuple[Exhibit, ...]:
    """The two utterances that gained most and the two that gained least, in noise and cleaned."""
    order, exhibits = np.argsort(gain, kind="stable"), []
    for i in (*order[::-1][:2], *order[:2]):
        one, two = noisy[i].numpy(), outputs[i].numpy()
        caption = f"'{texts[i]}' in noise, then cleaned: {gain[i]:.1f} dB gained"
        together = wav(np.concatenate((one, np.zeros(2 * TICK_SAMPLES, np.float32), two)))
        exhibits.append(Exhibit("example", caption, spectra(one, two), together, ("in noise", "cleaned")))
    return tuple(exhibits)
