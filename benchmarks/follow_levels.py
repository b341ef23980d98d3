"""Following instructions in BabyAI's rooms: the effect of the stage's lesson `follow` alone.

    OMP_NUM_THREADS=1 python benchmarks/follow_levels.py --agent after-language --steps 300 --out DIR

The head that multiplies words into cells learns by DAgger, and the trunk stays fixed. `--own 0` leaves out DAgger,
`--plain` the symmetries. `--rewards 40` continues by reward for that many steps, examined before and after on the same
rooms, with the paired difference of the return. A return is normalised: 0 is that of random steps and 1 that of the bot
in the same rooms.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from devmind import raised, worlds
from devmind.agent.agent import Agent
from devmind.agent.config import AgentConfig
from devmind.config import load
from devmind.curriculum.examining import examination
from devmind.curriculum.stage import Context
from devmind.seeding import exam_seeds, numpy_rng
from devmind.worlds.minigrid import FORWARD, PICKUP
from stages.language import parts
from stages.language.follow import lesson
from stages.language.follow.exam import earned, misled
from stages.language.follow.hand_rules import at_random
from stages.language.follow.rewards import RewardLearner, rewarded_batch
from stages.language.follow.rooms import Likeliest, demonstrate, following

EVERY = 25


def main() -> None:
    """Teach, save, and print a row for each room."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--agent", default="after-language", help="name of a packaged agent, a folder, or 'none'")
    options.add_argument("--rooms", nargs="+", default=list(lesson.ROOMS), help="rooms of the lesson")
    options.add_argument("--asked", nargs="*", default=list(lesson.ROOMS), help="rooms of the exam")
    options.add_argument("--steps", type=int, default=300, help="steps of the lesson; 0: examine the agent as it is")
    options.add_argument("--rows", type=int, default=lesson.ROWS)
    options.add_argument("--own", type=float, default=lesson.OWN, help="share of own episodes (DAgger)")
    options.add_argument("--plain", action="store_true", help="only the bot's episodes, without symmetries")
    options.add_argument("--rewards", type=int, default=0, help="steps by reward after the lesson")
    options.add_argument("--episodes", type=int, default=128, help="episodes of each room's exam")
    options.add_argument("--size", default="nursery")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--out", type=Path, help="folder to save the taught agent in")
    given = options.parse_args()
    agent = begun(given)
    with tempfile.TemporaryDirectory() as folder:
        config = load(given.size, sets=["device=cpu", "threads=1", "loggers=[]"])
        context = Context(config, given.seed, "cpu", Path(folder), worlds.make)
        teach(agent, context, given)
        before = exam(agent, given) if given.rewards else {}
        reward(agent, context, given)
    if given.out:
        agent.save_pretrained(given.out)
    found = exam(agent, given)
    for room, earned_before in before.items():
        more = found[room] - earned_before
        low, high = bounds(more)
        print(f"{room:26} by reward, likeliest: {more.mean():+.4f} [{low:+.4f}, {high:+.4f}] of the return")


def exam(agent: Agent, given: argparse.Namespace) -> dict[str, np.ndarray]:
    """Print a row for each room; return the returns of the most likely choices."""
    print(
        "room                        random    bot  likeliest [95 %]          done  sampled   done  another", flush=True
    )
    return {room: row(agent, room, given) for room in given.asked}


def bounds(values: np.ndarray) -> np.ndarray:
    """95 % bounds of a mean, by bootstrap."""
    rng = numpy_rng("bootstrap")
    return np.quantile([rng.choice(values, len(values)).mean() for _ in range(2000)], (0.025, 0.975))


def begun(given: argparse.Namespace) -> Agent:
    """The agent before the lesson, with the parts that its head reads."""
    if given.agent == "none":
        agent = Agent(AgentConfig(size=given.size, seed=given.seed))
    else:
        agent = Agent.from_pretrained(raised.raised().get(given.agent, Path(given.agent)))
    parts.admit(agent)
    if parts.NAME not in agent.config.stages:
        agent.config.stages = [*agent.config.stages, parts.NAME]
    return agent


def teach(agent: Agent, context: Context, given: argparse.Namespace) -> None:
    """Teach the lesson, with a line for every EVERY steps."""
    learner = lesson.lesson(context).make_learner(agent, context)
    learner.steps, begun_s, scalars = given.steps, time.process_time(), list[tuple[float, float]]()
    agent.train()
    learner.begin(0)
    for step in range(given.steps):
        torch.manual_seed(step)
        own = given.own if step >= lesson.IMITATES * given.steps else 0.0
        batch = lesson.mixed_batch(agent, context, step, given.rows, own, given.rooms, given.plain)
        result = learner.update(batch, step)
        scalars.append((float(result["loss"]), float(result["as the bot"])))
        if step % EVERY == EVERY - 1:
            loss, right = np.mean(scalars[-EVERY:], 0)
            spent_s = time.process_time() - begun_s
            print(f"step {step + 1}: loss {loss:.3f}, as the bot {right:.3f}, {spent_s:.0f} CPU s", flush=True)
    learner.end()


def reward(agent: Agent, context: Context, given: argparse.Namespace) -> None:
    """Policy gradient on own episodes, one room per step."""
    learner = RewardLearner(agent, lesson.loss, seed=given.seed, learning_rate=3e-4, trains=lesson.trained(agent))
    learner.steps, begun_s, successes = given.rewards, time.process_time(), list[float]()
    learner.begin(0)
    for step in range(given.rewards):
        room = given.rooms[step % len(given.rooms)]
        successes.append(float(learner.update(rewarded_batch(agent, context, step, 32, room), step)["done as told"]))
        if step % 6 == 5:
            spent_s = time.process_time() - begun_s
            print(
                f"reward {step + 1}: done as told, sampled {np.mean(successes[-6:]):.3f}, {spent_s:.0f} CPU s",
                flush=True,
            )
    learner.end()


def row(agent: Agent, room: str, given: argparse.Namespace) -> np.ndarray:
    """One room's exam: the most likely choices and their returns [N]; sampled choices; and another instruction."""
    seeds = exam_seeds(given.episodes, given.seed, "follow", room)
    last = PICKUP if "Pickup" in room else FORWARD
    random = earned(seeds, at_random(numpy_rng(given.seed, "random"), last), room).mean()
    shown = [demonstrate(room, int(seed)) for seed in seeds[: max(8, len(seeds) // 4)]]
    bot = float(np.mean([one.reward if one else 0.0 for one in shown]))
    with examination(agent):
        likeliest, sampled = (earned(seeds, policy, room) for policy in (Likeliest(agent), following(agent)))
        other = misled(seeds, following(agent), room)
    found = np.array([likeliest.mean(), *bounds(likeliest), sampled.mean(), other.mean()])
    score, low, high, drawn, wrong = (found - random) / (bot - random)
    print(f"{room:26} {random:7.3f} {bot:6.3f} {score:7.3f} [{low:6.3f}, {high:6.3f}] {(likeliest > 0).mean():6.3f} "
          f"{drawn:8.3f} {(sampled > 0).mean():6.3f} {wrong:8.3f}", flush=True)  # fmt: skip
    return likeliest


if __name__ == "__main__":
    main()
