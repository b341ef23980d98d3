"""Names taught once each: are they known as well after 10,000 other memories and a restart?

Each name is taught by one example in the same way as `devmind teach`; further examples of the same names are asked.
Then other memories (unnamed looks at things of the nursery) are written to the same folder, this process closes its
store, and a new process opens it and asks the same again. Without recordings the names are of nursery things.

    OMP_NUM_THREADS=1 python benchmarks/names_after_many.py --agent DIR [--data DIR] [--others 10000]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from devmind.agent.agent import Agent
from devmind.agent.describing import encoder_hashes
from devmind.agent.threads import stepping_threads
from devmind.live.remembering.show_and_tell import ShowAndTell, cut_examples
from devmind.memory import Key, Memory, open_store
from devmind.moment import Moment
from devmind.seeding import numpy_rng
from devmind.sessions.media import media_moments
from stages.memory.recall.things import lives, looks

NAMES = 10
ASKED = 20
BLOCK = 100

Case = tuple[str, Moment]


def nursery(names: int, asked: int, draw: int) -> tuple[list[Case], list[Case]]:
    """Things seen and heard once each, and other looks at them."""
    of = lives(np.array([draw]), names)
    every = np.arange(names)[None]

    def cases(look: str) -> list[Case]:
        seen = looks(of, every, look)
        return [(f"thing {k}", Moment(0.0, {name: x[0, k] for name, x in seen.items()})) for k in range(names)]

    return cases("taught"), [case for look in range(asked) for case in cases(f"asked {look}")]


def recordings(data: Path, asked: int, draw: int) -> tuple[list[Case], list[Case]]:
    """Spoken words, one take each by one speaker; other takes by the same speaker are asked."""
    rng = numpy_rng("names after many", draw)
    files = sorted(data.glob("speech/*/*.wav"))
    speaker = str(rng.choice(sorted({file.stem.split("_")[1] for file in files})))
    taught, later = [], []
    for name in sorted({file.stem.split("_")[0] for file in files}):
        own = [file for file in files if file.stem.split("_")[:2] == [name, speaker]]
        chosen = [own[int(at)] for at in rng.permutation(len(own))[: asked + 1]]
        cases = [(name, cut_examples(media_moments(file))[0]) for file in chosen]
        taught.append(cases[0])
        later += cases[1:]
    return taught, later


def drawn(arguments: argparse.Namespace, draw: int) -> tuple[list[Case], list[Case]]:
    """The cases of one draw, the same in every process."""
    if arguments.data:
        return recordings(arguments.data, ASKED, draw)
    return nursery(NAMES, ASKED, draw)


def right(child: ShowAndTell, cases: list[Case]) -> list[bool]:
    """Whether the nearest name of the most similar taught sense is right."""
    found = []
    for name, example in cases:
        answers = child.ask(example).values()
        found.append(max(answers, key=lambda answer: answer.likeness).nearest == name)
    return found


def write_others(agent: Agent, memory: Memory, n: int) -> None:
    """Write `n` unnamed looks at things of other lives, one acknowledged write each."""
    hashes, written, block = encoder_hashes(agent), 0, 0
    while written < n:
        of = lives(np.array([10**6 + block]), 12)
        which = numpy_rng("others", block).integers(0, 12, (1, min(BLOCK, n - written)))
        seen = looks(of, which, "other")
        state = agent.new_state(which.shape[1])
        moments = [Moment(0.0, {s: x[0, k] for s, x in seen.items()}, first=True) for k in range(which.shape[1])]
        keys = agent.encode(state, moments).keys
        for row, moment in enumerate(moments):
            memory.write(moment, {s: Key(key[row].numpy(), hashes[s]) for s, key in keys.items() if s in hashes})
        written, block = written + len(moments), block + 1


def after_restart(arguments: argparse.Namespace, draw: int, folder: Path) -> None:
    """The part of the new process: open, ask, and print the result."""
    with open_store(folder) as store, stepping_threads():
        begun_s = time.perf_counter()
        child = ShowAndTell(Agent.from_pretrained(arguments.agent).float(), Memory(store))
        found = right(child, drawn(arguments, draw)[1])
        print(json.dumps({"right": found, "entries": store.sizes().entries, "seconds": time.perf_counter() - begun_s}))


def one_draw(arguments: argparse.Namespace, draw: int) -> tuple[list[bool], list[bool], dict[str, float]]:
    """Teach, ask, write the others, restart, ask: right before, right after, and seconds."""
    taught, asked = drawn(arguments, draw)
    agent = Agent.from_pretrained(arguments.agent).float()
    with tempfile.TemporaryDirectory() as folder, stepping_threads():
        with open_store(Path(folder)) as store:
            child = ShowAndTell(agent, Memory(store))
            for name, example in taught:
                child.teach(name, example)
            before = right(child, asked)
            begun_s = time.perf_counter()
            write_others(agent, child.memory, arguments.others)
            written_s = time.perf_counter() - begun_s
        command = [
            sys.executable,
            __file__,
            "--agent",
            str(arguments.agent),
            "--restarted",
            folder,
            "--draw",
            str(draw),
        ]
        command += ["--data", str(arguments.data)] if arguments.data else []
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    answer = json.loads(output.splitlines()[-1])
    assert answer["entries"] == arguments.others + len(taught), "a memory was lost"
    return before, answer["right"], {"written_s": written_s, "asked_s": answer["seconds"]}


def main() -> None:
    """Print one line per draw, and the total."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--agent", type=Path, required=True, help="a saved agent")
    parser.add_argument("--data", type=Path, help="speech/*/WORD_SPEAKER_TAKE.wav; nursery things without")
    parser.add_argument("--others", type=int, default=10_000)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--restarted", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--draw", type=int, default=0, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.restarted:
        after_restart(arguments, arguments.draw, arguments.restarted)
        return
    before, after = [], []
    for draw in range(arguments.draws):
        one, other, seconds = one_draw(arguments, draw)
        before, after = before + one, after + other
        print(
            f"draw {draw}: {np.mean(one):.3f} before, {np.mean(other):.3f} after {arguments.others:,} others and a "
            f"restart; written in {seconds['written_s']:.0f} s, {len(other)} asked again in {seconds['asked_s']:.1f} s",
            flush=True,
        )
    print(
        f"all: {np.mean(before):.3f} before, {np.mean(after):.3f} after, ratio {np.mean(after) / np.mean(before):.3f}"
    )
    print(f"answers that changed: {int(np.sum(np.not_equal(before, after)))} of {len(before)}")


if __name__ == "__main__":
    main()
