"""Real-time factors of hearing, repeating and speaking on one core, Moment by Moment as in a life.

The factor is CPU seconds per second of sound (goal: 0.3 on one core of 100 GFLOP/s).

    OMP_NUM_THREADS=1 python benchmarks/voice_speed.py [--agent after-voice] [--seconds 10]

The input is noise; the spoken output is words of its lessons, from the page to sound, Griffin-Lim included. A question
is ten seconds of noise before a grey picture, and its answer one second of sound.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from devmind.acting import Actor
from devmind.agent.agent import Agent
from devmind.agent.batch import collate_tick
from devmind.agent.threads import intra_op_threads
from devmind.curriculum.machine import gflops
from devmind.moment import SIGHT_SIZE, SOUND_RATE_HZ, TICK_HZ, TICK_SAMPLES, Moment
from devmind.raised import raised
from stages.voice import parts
from stages.voice.abilities.spoken_answers import as_asked, ask
from stages.voice.caregiver.speech import SPOKEN
from stages.voice.listening import Hearing, repeat
from stages.voice.say.lesson import pages
from stages.voice.sound_heads import sounded

GOAL = 0.3


def heard_by_trunk(agent: Agent, moments: list[np.ndarray]) -> float:
    """Hear words and kinds by the heads on the trunk, as `devmind hear` does; return seconds of sound."""
    list(Hearing(agent, moments).words())
    return len(moments) / TICK_HZ


def heard_by_arcs(agent: Agent, moments: list[np.ndarray]) -> float:
    """Hear words and kinds by the arcs; return seconds of sound."""
    actor = Actor(agent, 1, effectors=(parts.NOTE, parts.SORT), trunk=False)
    for number, moment in enumerate(moments):
        actor.act(collate_tick({parts.SOUND: moment[None, None]}, np.array([number == 0])))
    return len(moments) / TICK_HZ


def repeated(agent: Agent, moments: list[np.ndarray]) -> float:
    """Repeat the sound by the codec; return seconds of sound."""
    return len(repeat(agent, moments)[1]) / SOUND_RATE_HZ


def said(agent: Agent, moments: list[np.ndarray]) -> float:
    """Read and say as many words as there are seconds of `moments`; return seconds of sound."""
    seconds, codec = 0.0, agent.head(parts.CODEC)
    for number in range(max(1, len(moments) // TICK_HZ)):
        actor = Actor(agent, 1, effectors=(parts.SPEAK,), standing={parts.SPEAK: (parts.SAY,)})
        done: Any = actor.act(pages([SPOKEN[number % len(SPOKEN)]]))
        sound = codec.as_sound(done.outputs[parts.SAY].mode()[0])
        assert sound is not None
        seconds += len(sound) / SOUND_RATE_HZ
    return seconds


def answered(agent: Agent, moments: list[np.ndarray]) -> float:
    """Answer the sound as a question, aloud, as in a life; return seconds of sound, including the answer."""
    heard = [Moment(number / TICK_HZ, {parts.SOUND: moment[None]}) for number, moment in enumerate(moments)]
    done = ask(agent, as_asked(heard, np.full((SIGHT_SIZE, SIGHT_SIZE, 3), 128, np.uint8)), (parts.REPLIES,))
    answer: Any = done.outputs[parts.REPLIES]
    sound = sounded(agent, answer.mode()[0])
    assert sound is not None
    return len(moments) / TICK_HZ + sound.shape[1] / SOUND_RATE_HZ


WAYS: dict[str, Callable[[Agent, list[np.ndarray]], float]] = {
    "heard by the trunk": heard_by_trunk,
    "heard by the arcs": heard_by_arcs,
    "repeated by the codec": repeated,
    "words said": said,
    "asked and answered": answered,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agent", default="after-voice", help="a saved agent, or the name of a packaged one")
    parser.add_argument("--seconds", type=float, default=10.0)
    given = parser.parse_args()
    agent = Agent.from_pretrained(raised().get(given.agent, Path(given.agent))).eval()
    rng = np.random.default_rng(0)
    moments = [rng.normal(0, 0.1, TICK_SAMPLES).astype(np.float32) for _ in range(round(given.seconds * TICK_HZ))]
    with intra_op_threads(1):
        print(f"one core: {gflops():.1f} GFLOP/s (float32); goal {GOAL}")
        print(f"{'':<24} {'sound s':>8} {'CPU s':>8} {'real-time factor':>17}")
        for name, way in WAYS.items():
            way(agent, moments[:10])  # what is made only once
            began = time.process_time()
            seconds = way(agent, moments)
            took = time.process_time() - began
            print(f"{name:<24} {seconds:>8.1f} {took:>8.2f} {took / seconds:>17.3f}", flush=True)


if __name__ == "__main__":
    main()
