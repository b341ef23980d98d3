"""What a tick costs: stepping, reacting and training, hearing and speaking, on one thread.

    OMP_NUM_THREADS=1 python benchmarks/tick_speed.py [step] [voice] [--size nursery] [--agent after-voice]

CPU time is the cost of the work, wall time what a user waits; on a busy machine only the first can be compared.

**step**: p50 milliseconds of an untaught agent's step and reflexes, and training Moments a second.
**voice**: real-time factors (CPU seconds per second of sound) of hearing, repeating, speaking and answering by
`--agent`, Moment by Moment as in a life. The input is noise; the spoken output is words of its lessons, from the page
to sound, Griffin-Lim included. A question is noise before a grey picture, and its answer one second of sound.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from devmind.acting import Actor
from devmind.agent.agent import Agent
from devmind.agent.batch import Batch, collate, collate_tick
from devmind.agent.config import SIZES, AgentConfig
from devmind.agent.threads import intra_op_threads, stepping_threads, training_threads
from devmind.curriculum.machine import gflops
from devmind.moment import SIGHT_SIZE, SOUND_RATE_HZ, TICK_HZ, TICK_SAMPLES, Moment
from devmind.raised import raised_agents
from stages.voice import parts
from stages.voice.abilities.spoken_answers import ask, question_batch
from stages.voice.caregiver.speech import SPOKEN
from stages.voice.listening import Hearing, repeat
from stages.voice.say.lesson import pages
from stages.voice.sound_heads import sound_of_answer

ARC = ("sight", "sound")
REAL_TIME = 0.3
"""Goal of a real-time factor, on one core of 100 GFLOP/s."""
GOALS_MS = {"step, 22 tokens": 20.0, "arc's head": 0.3, "arc with its encoders": 3.0}


def make_agent(size: str) -> Agent:
    """A child with four senses (22 tokens per Moment, 23 with the readout), an arc and a trunk head."""
    agent = Agent(AgentConfig(size=size))
    for sense in ("sight", "periphery", "sound", "body"):
        agent.add_encoder(sense)
    agent.add_head("look_arc", "head.normal", tap=ARC, effector="look", options={"size": 2})
    agent.add_head("look_sight", "head.normal", tap="sight", options={"size": 2})
    agent.add_head("look_trunk", "head.normal", effector="reach", options={"size": 4})
    return agent.eval()


def make_moment(rng: np.random.Generator, t: int) -> Moment:
    """A Moment of noise with the nursery's shapes."""
    senses: dict[str, np.ndarray] = {
        "sight": rng.integers(0, 256, (64, 64, 3), dtype=np.uint8),
        "periphery": rng.random((1, 16, 16), dtype=np.float32),
        "sound": rng.normal(0, 0.1, (2, 1600)).astype(np.float32),
        "body": rng.normal(0, 1, 12).astype(np.float32),
    }
    return Moment(t / 10, senses, first=t == 0)


class Cost(NamedTuple):
    """Medians of one call: process time over all threads, and wall time, in milliseconds."""

    cpu_ms: float
    wall_ms: float


def cost_of(work: Callable[[], object], repeats: int) -> Cost:
    """Median cost of `work`, after three calls that do not count."""
    costs = []
    for i in range(repeats + 3):
        cpu_s, wall_s = time.process_time(), time.perf_counter()
        work()
        if i >= 3:
            costs.append((1e3 * (time.process_time() - cpu_s), 1e3 * (time.perf_counter() - wall_s)))
    return Cost(*np.median(costs, axis=0).tolist())


def stepping(agent: Agent, repeats: int) -> dict[str, Cost]:
    """p50 of stepping one agent with a full window, and of its arcs."""
    rng = np.random.default_rng(0)
    moments = [make_moment(rng, t) for t in range(agent.config.window + 4)]
    state = agent.new_state()
    for moment in moments:
        state, _ = agent.step(state, agent.encode(state, moment))
    percepts = agent.encode(state, moments[-1])
    raw = {name: x[:, 0] for name, x in percepts.batch["senses"].items()}
    previous = {"sight": (raw["sight"], torch.ones(1, dtype=torch.bool))}

    def react(names: tuple[str, ...], head: str) -> None:
        agent.run_heads([head], agent.encode_senses(raw, previous=previous, names=names))

    with torch.inference_mode():
        return {
            "step, 22 tokens": cost_of(lambda: agent.step(state, percepts), repeats),
            "encode, four senses and keys": cost_of(lambda: agent.encode(state, moments[-1]), repeats),
            "arc's head": cost_of(lambda: agent.run_heads(["look_arc"], percepts.seen), repeats),
            "arc with its encoders": cost_of(lambda: react(ARC, "look_arc"), repeats),
            "arc on sight alone, with its encoder": cost_of(lambda: react(("sight",), "look_sight"), repeats),
        }


def training(agent: Agent, rows: int, length: int, head: str, repeats: int) -> Cost:
    """Cost of one update: forward, backward and an AdamW step on the parameters that `head` needs."""
    agent.train()
    rng = np.random.default_rng(0)
    batch: Batch = collate([[make_moment(rng, t) for t in range(length)] for _ in range(rows)])
    optimizer = torch.optim.AdamW(agent.parameters(), lr=1e-4)

    def update() -> None:
        loss = agent.forward(batch, [head])[head].mode().square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    return cost_of(update, repeats)


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
    done = ask(agent, question_batch(heard, np.full((SIGHT_SIZE, SIGHT_SIZE, 3), 128, np.uint8)), (parts.REPLIES,))
    answer: Any = done.outputs[parts.REPLIES]
    sound = sound_of_answer(agent, answer.mode()[0])
    assert sound is not None
    return len(moments) / TICK_HZ + sound.shape[1] / SOUND_RATE_HZ


WAYS: dict[str, Callable[[Agent, list[np.ndarray]], float]] = {
    "heard by the trunk": heard_by_trunk,
    "heard by the arcs": heard_by_arcs,
    "repeated by the codec": repeated,
    "words said": said,
    "asked and answered": answered,
}


def step(asked: argparse.Namespace) -> None:
    """Print what stepping and training cost, with the goals of size nursery."""
    agent = make_agent(asked.size)
    config = agent.config
    print(f"{config.size}: {agent.num_parameters():,} parameters, window {config.window} Moments, {config.slots} slots")
    with stepping_threads():
        for name, cost in stepping(agent, asked.repeats).items():
            goal = f", goal {GOALS_MS[name]:g}" if name in GOALS_MS else ""
            print(f"  {name:<40} {cost.cpu_ms:8.2f} ms CPU, {cost.wall_ms:8.2f} ms wall{goal}")
    with training_threads(asked.threads):
        for name, rows, length, head in (
            ("training the trunk, 8 rows of 32", 8, 32, "look_trunk"),
            ("training the trunk, 4 rows of 128", 4, 128, "look_trunk"),
            ("training the arc with its encoders", 64, 1, "look_arc"),
        ):
            cost = training(agent, rows, length, head, max(3, asked.repeats // 20))
            cpu, wall = (1e3 * rows * length / spent for spent in cost)
            print(f"  {name:<40} {cpu:8.0f} Moments/CPU-s, {wall:8.0f} Moments/s, {torch.get_num_threads()} threads")


def voice(asked: argparse.Namespace) -> None:
    """Print the real-time factor of each way to hear and speak."""
    agent = Agent.from_pretrained(raised_agents().get(asked.agent, Path(asked.agent))).eval()
    rng = np.random.default_rng(0)
    moments = [rng.normal(0, 0.1, TICK_SAMPLES).astype(np.float32) for _ in range(round(asked.seconds * TICK_HZ))]
    with intra_op_threads(1):
        print(f"one core: {gflops():.1f} GFLOP/s (float32); goal {REAL_TIME}")
        for name, way in WAYS.items():
            way(agent, moments[:10])  # what is made only once
            began_s = time.process_time()
            seconds = way(agent, moments)
            took_s = time.process_time() - began_s
            print(f"  {name:<40} {took_s / seconds:8.3f} CPU s a second of sound", flush=True)


PARTS: dict[str, Callable[[argparse.Namespace], None]] = {"step": step, "voice": voice}


def main() -> None:
    """Measure the named parts, by default all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}; default: all")
    parser.add_argument("--size", default="nursery", choices=sorted(SIZES), help="of the untaught agents")
    parser.add_argument("--agent", default="after-voice", help="who speaks: saved, or the name of a packaged one")
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=10.0, help="of sound")
    parser.add_argument("--threads", type=int, help="threads of training; default: all cores")
    parser.add_argument("--tiny", action="store_true", help="only show that everything runs")
    asked = parser.parse_args()
    if asked.tiny:
        asked.size, asked.repeats, asked.seconds = "tiny", 3, 0.5
    for name in asked.parts or PARTS:
        print(name, flush=True)
        PARTS[name](asked)


if __name__ == "__main__":
    main()
