"""devmind's PPO against Stable-Baselines3's on CartPole-v1: CPU-seconds and environment steps to learn it.

Both run in this process on one thread, alternating seed by seed, until the mean return of the last 100 finished
episodes is 475, or for 100,000 steps, where both learning rates reach zero. Stable-Baselines3 has the settings of its
RL Zoo; ours were tuned on seeds from 1000 on, which are not used here. Imports and a short warm-up are outside the
clock.

The environments' share of the seconds is reported separately: Stable-Baselines3 steps eight Gymnasium environments one
by one, under its Monitor, and devmind a batch in NumPy.

    OMP_NUM_THREADS=1 python benchmarks/ppo_vs_sb3.py --seeds 10
"""

from __future__ import annotations

import argparse
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from devmind import worlds
from devmind.acting import Senses
from devmind.agent.output import Categorical
from devmind.learners.ppo import PPO, collect, improve
from devmind.seeding import lesson_seeds, numpy_rng, torch_generator
from devmind.worlds.restarting import Restarting

GOAL_RETURN, WINDOW, MOST_STEPS = 475.0, 100, 100_000


ROWS, LENGTH, RATE, OURS = 8, 32, 1.5e-3, PPO(0.98, 0.8, epochs=12, batches=1)
"""Settings of our side. The learning rate and the clip fall linearly to zero over MOST_STEPS."""


class Result(NamedTuple):
    """Result of one seed: environment steps and CPU-seconds until solved or given up, and the environment's seconds."""

    steps: int
    cpu_s: float
    solved: bool
    env_s: float


def is_solved(finished: Sequence[float]) -> bool:
    """Whether the last WINDOW finished episodes (steps survived = return) have a mean of GOAL_RETURN."""
    return len(finished) == WINDOW and sum(finished) >= GOAL_RETURN * WINDOW


class Clock:
    """CPU-seconds of environment steps."""

    seconds = 0.0


@contextmanager
def clocked(kind: type[Any], name: str) -> Iterator[Clock]:
    """Within the context, time the method `name` of all instances of `kind`."""
    clock, method = Clock(), getattr(kind, name)

    def step(world: Any, *given: Any) -> Any:
        began = time.process_time()
        stepped = method(world, *given)
        clock.seconds += time.process_time() - began
        return stepped

    setattr(kind, name, step)
    try:
        yield clock
    finally:
        setattr(kind, name, method)


class Network(nn.Module):
    """Policy and value networks 4-64-64 with tanh, evaluated as one batch of two; an `ActorCritic`."""

    effector = "push"

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()
        self.first = _orthogonal(2, 4, 64, gain=2**0.5, generator=generator)
        self.second = _orthogonal(2, 64, 64, gain=2**0.5, generator=generator)
        self.policy = _orthogonal(1, 64, 2, gain=0.01, generator=generator)
        self.value = _orthogonal(1, 64, 1, gain=1.0, generator=generator)
        self.first_bias = nn.Parameter(torch.zeros(2, 1, 64))
        self.second_bias = nn.Parameter(torch.zeros(2, 1, 64))
        self.policy_bias = nn.Parameter(torch.zeros(2))
        self.value_bias = nn.Parameter(torch.zeros(1))

    def read(self, senses: Senses, first: np.ndarray) -> Tensor:
        """The body is the whole input."""
        return torch.from_numpy(senses["body"])

    def peek(self, senses: Senses) -> Tensor:
        """Nothing is carried from tick to tick."""
        return torch.from_numpy(senses["body"])

    def as_command(self, action: Tensor) -> np.ndarray:
        """0 pushes left, 1 right."""
        return action.numpy()

    def forward(self, body: Tensor) -> tuple[Categorical, Tensor]:
        """Body [B, 4] to the distribution over pushes and values [B]."""
        hidden = torch.tanh(torch.baddbmm(self.first_bias, body.expand(2, -1, -1), self.first))
        hidden = torch.tanh(torch.baddbmm(self.second_bias, hidden, self.second))
        logits = torch.addmm(self.policy_bias, hidden[0], self.policy[0])
        return Categorical(logits), torch.addmm(self.value_bias, hidden[1], self.value[0]).squeeze(1)


def _orthogonal(n: int, rows_: int, columns: int, gain: float, generator: torch.Generator) -> nn.Parameter:
    weights = torch.empty(n, rows_, columns)
    for weight in weights:
        nn.init.orthogonal_(weight, gain, generator=generator)
    return nn.Parameter(weights)


def train_ours(seed: int, most_steps: int = MOST_STEPS) -> Result:
    """Train `devmind.learners.ppo`, as in the reflex stage, on devmind's CartPole."""
    began = time.process_time()
    generator = torch_generator("ppo", seed)
    network = Network(generator)
    start = worlds.make("cartpole", "", lesson_seeds(ROWS, seed))
    world = Restarting(start, numpy_rng("cartpole-starts", seed))
    optimizer = torch.optim.Adam(network.parameters(), lr=RATE, eps=1e-5, fused=True)
    first, steps = np.ones(ROWS, bool), 0
    with clocked(Restarting, "step") as clock:
        while steps < most_steps and not is_solved(world.finished[-WINDOW:]):
            left = 1 - steps / MOST_STEPS
            for group in optimizer.param_groups:
                group["lr"] = RATE * left
            rollout = collect(network, world, LENGTH, generator, first)
            ppo = replace(OURS, clip=OURS.clip * left)
            improve(network, optimizer, rollout, ppo, generator, [list(network.parameters())])
            first, steps = rollout.last[-1].numpy(), steps + ROWS * LENGTH
    return Result(steps, time.process_time() - began, is_solved(world.finished[-WINDOW:]), clock.seconds)


def train_sb3(seed: int, most_steps: int = MOST_STEPS) -> Result:
    """Train Stable-Baselines3 with the RL Zoo's settings for CartPole-v1."""
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import DummyVecEnv

    class UntilSolved(BaseCallback):
        def __init__(self) -> None:
            super().__init__()
            self.finished: deque[float] = deque(maxlen=WINDOW)

        def _on_step(self) -> bool:
            self.finished.extend(info["episode"]["r"] for info in self.locals["infos"] if "episode" in info)
            return not is_solved(self.finished)

    began = time.process_time()
    watch = UntilSolved()
    model = PPO(
        "MlpPolicy",
        make_vec_env("CartPole-v1", n_envs=8, seed=seed),
        n_steps=32,
        batch_size=256,
        n_epochs=20,
        gamma=0.98,
        gae_lambda=0.8,
        ent_coef=0.0,
        learning_rate=lambda left: 0.001 * left,
        clip_range=lambda left: 0.2 * left,
        seed=seed,
        device="cpu",
    )
    with clocked(DummyVecEnv, "step_wait") as clock:
        model.learn(total_timesteps=most_steps, callback=watch)
    return Result(model.num_timesteps, time.process_time() - began, is_solved(watch.finished), clock.seconds)


def quartiles(values: Iterable[float]) -> np.ndarray:
    """Lower quartile, median, upper quartile."""
    return np.percentile(list(values), [25, 50, 75])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10, help="number of seeds on both sides")
    parser.add_argument("--first-seed", type=int, default=0, help="the first seed")
    parser.add_argument("--tiny", action="store_true", help="only show that everything runs: a few steps of one seed")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    learners: dict[str, Callable[..., Result]] = {"devmind": train_ours, "sb3": train_sb3}
    warm_ups = {"devmind": 2048, "sb3": 512}
    for name, train in learners.items():
        train(10_000, warm_ups[name])
    found: dict[str, list[Result]] = {name: [] for name in learners}
    for seed in range(asked.first_seed, asked.first_seed + (1 if asked.tiny else asked.seeds)):
        for name, train in learners.items():
            found[name].append(result := train(seed, warm_ups[name]) if asked.tiny else train(seed))
            note = "" if result.solved else "  not solved"
            print(
                f"seed {seed}  {name:8s}{result.steps:7d} steps {result.cpu_s:7.2f} CPU-s,"
                f" {result.env_s / result.cpu_s:.2f} of them the environment's{note}",
                flush=True,
            )
    for name, results in found.items():
        steps, cpu_s = quartiles(r.steps for r in results), quartiles(r.cpu_s for r in results)
        print(
            f"{name:8s} solved {sum(r.solved for r in results)}/{len(results)}"
            f"  steps {steps[0]:.0f} {steps[1]:.0f} {steps[2]:.0f}  CPU-s {cpu_s[0]:.2f} {cpu_s[1]:.2f} {cpu_s[2]:.2f}"
            "  (quartiles; unsolved ones count until their stop)"
        )
    print(f"devmind / sb3, medians: {compared(*found.values())}")


def compared(ours: Sequence[Result], theirs: Sequence[Result]) -> str:
    """Ratios of the medians: all CPU-seconds, those outside the environments, and steps."""
    each = [
        [quartiles(value(r) for r in results)[1] for results in (ours, theirs)]
        for value in (lambda r: r.cpu_s, lambda r: r.cpu_s - r.env_s, lambda r: r.steps)
    ]
    all_s, learning_s, steps = (mine / other for mine, other in each)
    return f"{all_s:.2f} x the CPU-seconds, {learning_s:.2f} x without environments', {steps:.2f} x the steps"


if __name__ == "__main__":
    main()
