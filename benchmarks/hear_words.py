"""Words heard by every kind of arc, in one table; and each of four speakers held out in turn, with their mean.

    OMP_NUM_THREADS=1 python benchmarks/hear_words.py --data FOLDER [--steps 300] [--turns 1600] [--rows 48]

Each row is a newborn with the stage's parts, which is taught only the lesson `listen` for `--steps` steps; the trunk is
not used. One agent has both heads, which learn side by side. `digits`: the most likely of ten words by the held-out
speaker, without adaptation; `words wrong`: in phrases by voices that no lesson used; the real-time factor is CPU
seconds of the arc, one Moment after another, per second of sound. Figures are of one seed and the given number of
steps, so a row may lead another by chance.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from devmind import config
from devmind.acting import Actor
from devmind.agent.agent import Agent
from devmind.agent.batch import collate_tick
from devmind.agent.config import AgentConfig
from devmind.agent.threads import intra_op_threads
from devmind.curriculum.exam import wilson
from devmind.curriculum.machine import gflops
from devmind.curriculum.stage import Context
from devmind.curriculum.start import give_settings, load_stage
from devmind.errors import ExamError
from devmind.moment import TICK_HZ, TICK_SAMPLES
from devmind.sessions.spoken import Clips, clips, held_out_speaker
from devmind.worlds import make
from stages.voice import parts
from stages.voice.bodies import KINDS
from stages.voice.caregiver.speech import DIGITS, UNSEEN_PHRASES, bank
from stages.voice.ear import FEATURES
from stages.voice.hear_words import listen
from stages.voice.hear_words.exam import frames_of, writing_of
from stages.voice.transcript import likeliest, read_off, word_error_rate
from stages.voice.utterances import spoken

PHRASES = 100
FRAMES, WRITTEN = "ctc", "seq2seq"
HEADS = {FRAMES: parts.WORDS_ARC, WRITTEN: parts.WRITTEN_ARC}


@dataclass(frozen=True)
class Row:
    """The result of one head of one agent."""

    digits: np.ndarray
    words_wrong: float
    factor: float


def context_of(given: argparse.Namespace, out: Path, *sets: str) -> Context:
    """A run with these recordings on one core."""
    always = ("device=cpu", "threads=1", f"lessons.listen.batch={given.rows}")
    return Context(config.load(given.size, sets=(*always, *sets)), given.seed, "cpu", out, make, data=given.data)


def taught(context: Context, steps: int) -> tuple[Agent, float]:
    """A newborn after the lesson `listen`, and the CPU seconds."""
    agent = Agent(AgentConfig(size=context.config.size, seed=context.seed))
    give_settings(load_stage("voice"), agent, context.config)
    parts.admit(agent)
    lesson = listen.lesson(context)
    learner = lesson.make_learner(agent, context)
    learner.steps = steps
    agent.train()
    began = time.process_time()
    learner.begin(0)
    for step, batch in zip(range(steps), lesson.make_batches(agent, context, steps), strict=False):
        torch.manual_seed(1000 * context.seed + step)
        learner.update(batch, step)
    learner.end()
    return agent.eval(), time.process_time() - began


def unmet(every: Clips, speaker: str, thin: int) -> Clips:
    """What a speaker says, or every `thin`-th recording of it."""
    return every.take(np.flatnonzero(every.speakers == speaker)[::thin])


def asked(agent: Agent, context: Context, unmet: Clips, heads: Sequence[str]) -> dict[str, Row]:
    """What each head hears of an unmet speaker, and of phrases."""
    waves = [spoken(unmet, row) for row in range(len(unmet.labels))]
    said = bank("hear_words exam", context.seed, PHRASES, UNSEEN_PHRASES, True)
    found = {}
    for head in heads:
        name = HEADS[head]
        if head == FRAMES:
            named = likeliest(*_frames(agent, waves), DIGITS)
            texts = read_off(*_frames(agent, said.waves))
        else:
            named = writing_of(agent, waves, [name], DIGITS)[name].likeliest
            texts = writing_of(agent, said.waves, [name])[name].texts
        wrong = float(np.mean([min(1.0, word_error_rate(a, b)) for a, b in zip(texts, said.texts, strict=True)]))
        found[head] = Row(named == unmet.labels, wrong, real_time_factor(agent, name))
    return found


def _frames(agent: Agent, waves: Sequence[np.ndarray]) -> tuple[Any, Any]:
    found, counts = frames_of(agent, waves, [parts.WORDS_ARC])
    return found[parts.WORDS_ARC], counts


def real_time_factor(agent: Agent, head: str, moments: int = 100) -> float:
    """CPU seconds per second of sound heard Moment by Moment, the ear included."""
    effector = {parts.WORDS_ARC: parts.NOTE, parts.WRITTEN_ARC: parts.TELL}[head]
    actor = Actor(agent, 1, effectors=(effector,), trunk=False, standing={effector: (head,)})
    sound = np.random.default_rng(0).normal(0, 0.1, (moments + 5, 1, 1, TICK_SAMPLES)).astype(np.float32)
    began = 0.0
    for number, moment in enumerate(sound):
        if number == 5:
            began = time.process_time()
        actor.act(collate_tick({parts.SOUND: moment}, np.array([number == 0])))
    return (time.process_time() - began) / (moments / TICK_HZ)


def line_of(name: str, row: Row, cpu_s: float) -> str:
    """A line of the table."""
    low, high = wilson(int(row.digits.sum()), len(row.digits))
    return (
        f"{name:<32} {row.digits.mean():.3f} [{low:.3f}, {high:.3f}] {row.words_wrong:>11.3f} {row.factor:>9.3f}"
        f" {cpu_s:>7.0f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="speech/*/{digit}_{speaker}_{take}.wav")
    parser.add_argument("--size", default="nursery")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=300, help="steps of each row of the table; 0: no table")
    parser.add_argument("--turns", type=int, default=1600, help="steps for each held-out speaker; 0: none")
    parser.add_argument("--rows", type=int, default=48, help="utterances per step; half as many phrases")
    parser.add_argument("--thin", type=int, default=1, help="ask every Nth digit; 1: all")
    parser.add_argument("--encoders", nargs="+", default=list(KINDS), choices=KINDS)
    parser.add_argument("--features", nargs="+", default=list(FEATURES), choices=FEATURES)
    parser.add_argument("--speakers", nargs="+", default=None, help="speakers held out in turn; default: all")
    given = parser.parse_args()
    every = clips(given.data)
    if every is None:
        raise ExamError(f"{given.data} has no spoken digits: expected speech/*/{{digit}}_{{speaker}}_{{take}}.wav.")
    with tempfile.TemporaryDirectory() as folder, intra_op_threads(1):
        print(f"one core: {gflops():.1f} GFLOP/s (float32)", flush=True)
        print(
            f"{'encoder, features, head':<32} {'digits [95 %]':<20} {'words wrong':>11} {'real time':>9} {'CPU s':>7}"
        )
        if given.steps:
            table(given, every, Path(folder))
        if given.turns:
            turns(given, every, Path(folder))
        print(f"one core: {gflops():.1f} GFLOP/s (float32)")


def table(given: argparse.Namespace, every: Clips, out: Path) -> None:
    """Encoder by features by head, with one speaker held out."""
    for features in given.features:
        for encoder in given.encoders:
            sets = (
                f"stages.voice.encoder={encoder}",
                f"stages.voice.features={features}",
                "stages.voice.words=seq2seq",
            )
            context = context_of(given, out, *sets)
            left_out = held_out_speaker([*every.speakers], context.seed, None)
            agent, cpu_s = taught(context, given.steps)
            with torch.inference_mode():
                rows = asked(agent, context, unmet(every, left_out, given.thin), list(HEADS))
            for head, row in rows.items():
                print(line_of(f"{encoder}, {features}, {head}", row, cpu_s), flush=True)


def turns(given: argparse.Namespace, every: Clips, out: Path) -> None:
    """Each speaker held out, with the first of the given encoders and features, frame by frame."""
    encoder, features, scores = given.encoders[0], given.features[0], []
    for name in given.speakers or sorted(set(every.speakers)):
        sets = (f"exam.holdout={name}", f"stages.voice.encoder={encoder}", f"stages.voice.features={features}")
        context = context_of(given, out, *sets)
        agent, cpu_s = taught(context, given.turns)
        with torch.inference_mode():
            row = asked(agent, context, unmet(every, name, given.thin), [FRAMES])[FRAMES]
        print(line_of(f"without {name}", row, cpu_s), flush=True)
        scores.append(float(row.digits.mean()))
    print(f"mean of {len(scores)} speakers: {np.mean(scores):.3f} (goal 0.88)")


if __name__ == "__main__":
    main()
