"""How often a life learns a name that it is told aloud, by sentences such as "this is a cup" in voices of no lesson.

In one life on a virtual clock, a thing is held still before the camera while one sentence after another is spoken:
those of the exam `hear_words/naming`, which no lesson had, in the voices of exams. The sound passes the ear, the trunk,
the word head and the code of a life. A name counts if it is the spoken one and nothing else was learned.

    OMP_NUM_THREADS=1 python benchmarks/named_by_voice.py --agent DIR [--sentences 42] [--seed 0]
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from devmind.agent.agent import Agent
from devmind.agent.threads import stepping_threads
from devmind.curriculum.exam import wilson
from devmind.live.life import Life
from devmind.live.options import LiveOptions
from devmind.live.serving.hub import Hub
from devmind.live.virtual import Mailbox, SoundMailbox, VirtualClock
from devmind.memory import Memory, open_store
from devmind.moment import TICK_SAMPLES
from devmind.worlds.room import Room
from stages.voice.caregiver.speech import UNSEEN_NAMING, bank
from stages.voice.moments import in_a_row

QUIET = 20
"""Ticks behind a sentence: its end is noticed, and what would go on is over."""
ANSWERED_S = 20.0
"""By the clock; who has not answered by then did not hear a sentence."""


def held_up(tick: int) -> np.ndarray:
    """The view: a red square that moves to the middle of a grey room after two seconds, and stays there."""
    frame = np.full((240, 320, 3), 90, np.uint8)
    left = 6 * min(max(0, tick - 20), 20)
    frame[60:120, left : left + 60] = (200, 40, 40)
    return frame


class Mute:
    """A speaker that makes no sound and notes nothing."""

    is_heard = False

    def say(self, text: str) -> None:
        """Do nothing."""

    act = play = say


class TalkingLife:
    """A life that hears sentences while something is held still."""

    def __init__(self, folder: Path) -> None:
        clock, self._ear, self._lived = VirtualClock(), SoundMailbox(), 0
        self._eye = Mailbox("sight", clock)
        room = Room({"eye": self._eye, "ear": self._ear}, now=clock.now, sleep=clock.sleep)
        agent = Agent.from_pretrained(folder).eval()
        self.life = Life(agent, room, Memory(open_store(None)), LiveOptions(folder, {}), hub=Hub(), speaker=Mute())
        self._ticks: Iterator[object] = iter(())

    def __enter__(self) -> TalkingLife:
        self.life.__enter__()
        self._ticks = self.life.loop.ticks()
        while not self.life.holding.square:
            self._live(np.zeros((1, TICK_SAMPLES), np.float32))
        return self

    def __exit__(self, *error: object) -> None:
        self.life.loop.calls.close()
        self.life.__exit__(None, None, None)

    def tell(self, wave: np.ndarray) -> tuple[str, Counter[str]]:
        """The text that a sentence was heard as ('' if it was not answered), and the names that were learned."""
        answered, known = self._answered(), Counter(self._known())
        sound, _ = in_a_row([wave], before=6 * TICK_SAMPLES, after=QUIET * TICK_SAMPLES)
        for part in sound.numpy().reshape(-1, 1, TICK_SAMPLES):
            self._live(part)
        give_up_s = time.monotonic() + ANSWERED_S
        hearing: Any = self.life.abilities["hear_words"]
        while hearing.ears.shown() and self._answered() == answered and time.monotonic() < give_up_s:
            self._live(np.zeros((1, TICK_SAMPLES), np.float32))
            time.sleep(0.01)
        text = self.life.spoken_to.shown()["text"] if self._answered() > answered else ""
        return text, Counter(self._known()) - known

    def _live(self, sound: np.ndarray) -> None:
        self._eye.post(held_up(self._lived))
        self._ear.post(sound)
        self._lived += 1
        next(self._ticks)  # type: ignore[call-overload]

    def _answered(self) -> int:
        return int(self.life.spoken_to.shown().get("number", 0))

    def _known(self) -> dict[str, int]:
        return dict(self.life.child.names.known())


def main() -> None:
    """Speak the sentences, and print the result of each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agent", type=Path, required=True, help="a saved agent that was taught such sentences")
    parser.add_argument("--sentences", type=int, default=42)
    parser.add_argument("--seed", type=int, default=0, help="seed of the voices and sentences")
    asked = parser.parse_args()
    said = bank("named by voice", asked.seed, asked.sentences, UNSEEN_NAMING, True)
    learned, begun_s = 0, time.process_time()
    with stepping_threads(), TalkingLife(asked.agent) as life:
        for number, (text, voice, wave) in enumerate(zip(said.texts, said.voices, said.waves, strict=True), 1):
            heard, names = life.tell(wave)
            learned += names == Counter({text.split()[-1]: 1})
            print(
                f"{voice} says '{text}', heard as '{heard}': learned {dict(names)}; {learned} of {number}", flush=True
            )
    low, high = wilson(learned, asked.sentences)
    share = f"{learned / asked.sentences:.3f} [{low:.3f}, {high:.3f}] of {asked.sentences}"
    print(f"names learned, spoken by {said.speaker}: {share}; {time.process_time() - begun_s:.0f} CPU s")


if __name__ == "__main__":
    main()
