"""devmind's PPO against Stable-Baselines3's on CartPole-v1: CPU-seconds and environment steps to learn it.

Both run in this process, one thread, seed by seed in turn, until the mean return of the last 100 finished episodes is
475, or for 100,000 steps, where both learning rates reach zero. Stable-Baselines3 has the settings of its RL Zoo; ours
were tuned on seeds from 1000 on, which are not used here. Imports and a short warm-up are outside the clock.

    OMP_NUM_THREADS=1 python benchmarks/ppo_vs_sb3.py --seeds 10
"""

from __future__ import annotations

import argparse
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from devmind.algorithms.distributions import Categorical
from devmind.algorithms.ppo import minibatches, normalize, ppo_loss
from devmind.algorithms.returns import generalized_advantages
from devmind.algorithms.rollout import Rollout, Step, collect, rows
from devmind.seeding import lesson_seeds, numpy_rng, torch_generator
from devmind.worlds.cartpole import CartPoleRules

GOAL_RETURN, WINDOW, MOST_STEPS = 475.0, 100, 100_000


@dataclass(frozen=True)
class Settings:
    """Of our side. The learning rate and the clip fall linearly to zero over MOST_STEPS."""

    children: int = 8
    length: int = 32
    epochs: int = 12
    batches: int = 1
    discount: float = 0.98
    gae_lambda: float = 0.8
    clip: float = 0.2
    learning_rate: float = 1.5e-3
    max_grad_norm: float = 0.5


class Result(NamedTuple):
    """Of one seed: environment steps and CPU-seconds until solved, or until given up."""

    steps: int
    cpu_s: float
    solved: bool


def is_solved(finished: deque[float]) -> bool:
    """The last WINDOW finished episodes (steps survived = return) have a mean of GOAL_RETURN."""
    return len(finished) == WINDOW and sum(finished) >= GOAL_RETURN * WINDOW


class Children:
    """N carts that start anew when they end; counts returns for the criterion."""

    def __init__(self, n: int, seed: int) -> None:
        self.rules = CartPoleRules()
        self.seeds = numpy_rng("cartpole-starts", seed)
        self.state = self.rules.initial(lesson_seeds(n, seed))
        self.finished: deque[float] = deque(maxlen=WINDOW)

    def observation(self) -> Tensor:
        return torch.from_numpy(self.rules.observe(self.state)["body"])

    def step(self, action: Tensor) -> Step[Tensor]:
        self.state = self.rules.step(self.state, {"push": action.numpy()})
        outcome = self.rules.outcome(self.state)
        led_to = self.observation()
        ended = np.flatnonzero(outcome.terminal | outcome.truncated)
        if len(ended):
            self.finished.extend(self.state.tick[ended].tolist())
            self.restart(ended)
        return Step(
            self.observation() if len(ended) else led_to,
            torch.from_numpy(outcome.reward),
            torch.from_numpy(outcome.terminal),
            torch.from_numpy(outcome.truncated),
            led_to if len(ended) else None,
        )

    def restart(self, ended: np.ndarray) -> None:
        fresh = self.rules.initial(self.seeds.integers(0, 2**31, len(ended)))
        for name, values in vars(fresh).items():
            getattr(self.state, name)[ended] = values


class Network(nn.Module):
    """Policy and value networks 4-64-64 with tanh, evaluated as one batch of two."""

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

    def forward(self, body: Tensor) -> tuple[Tensor, Tensor]:
        """Body [B, 4] to logits [B, 2] and values [B]."""
        hidden = torch.tanh(torch.baddbmm(self.first_bias, body.expand(2, -1, -1), self.first))
        hidden = torch.tanh(torch.baddbmm(self.second_bias, hidden, self.second))
        logits = torch.addmm(self.policy_bias, hidden[0], self.policy[0])
        return logits, torch.addmm(self.value_bias, hidden[1], self.value[0]).squeeze(1)


def _orthogonal(n: int, rows_: int, columns: int, gain: float, generator: torch.Generator) -> nn.Parameter:
    weights = torch.empty(n, rows_, columns)
    for weight in weights:
        nn.init.orthogonal_(weight, gain, generator=generator)
    return nn.Parameter(weights)


def train_ours(seed: int, most_steps: int = MOST_STEPS, settings: Settings | None = None) -> Result:
    """devmind's pure functions on devmind's CartPole."""
    settings = settings or Settings()
    began = time.process_time()
    generator = torch_generator("ppo", seed)
    network, children = Network(generator), Children(settings.children, seed)
    optimizer = torch.optim.Adam(network.parameters(), lr=settings.learning_rate, eps=1e-5, fused=True)

    def policy(body: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        logits, value = network(body)
        choice = Categorical(logits)
        action = choice.sample(generator)
        return action, choice.log_prob(action), value

    def value_of(body: Tensor) -> Tensor:
        return network(body)[1]

    body, steps = children.observation(), 0
    while steps < most_steps and not is_solved(children.finished):
        rollout, body = collect(policy, value_of, children.step, body, settings.length, generator)
        update(network, optimizer, rollout, settings, 1 - steps / MOST_STEPS, generator)
        steps += settings.children * settings.length
    return Result(steps, time.process_time() - began, is_solved(children.finished))


def update(
    network: Network,
    optimizer: torch.optim.Optimizer,
    rollout: Rollout[Tensor, Tensor],
    settings: Settings,
    left: float,
    generator: torch.Generator,
) -> None:
    """One PPO update; `left` is the share of the schedule that is left, 1 at the start."""
    for group in optimizer.param_groups:
        group["lr"] = settings.learning_rate * left
    advantage, target = generalized_advantages(
        rollout.reward,
        rollout.value,
        rollout.next_value,
        rollout.terminal,
        rollout.last,
        discount=settings.discount,
        gae_lambda=settings.gae_lambda,
    )
    for index in minibatches(rollout.mask, settings.epochs, settings.batches, generator):
        logits, value = network(rows(rollout.observation, index))
        choice = Categorical(logits)
        loss = ppo_loss(
            choice.log_prob(rows(rollout.action, index)),
            rows(rollout.log_prob, index),
            normalize(rows(advantage, index)),
            value,
            rows(target, index),
            choice.entropy(),
            clip=settings.clip * left,
        )
        optimizer.zero_grad()
        loss.total.backward()
        nn.utils.clip_grad_norm_(network.parameters(), settings.max_grad_norm)
        optimizer.step()


def train_sb3(seed: int, most_steps: int = MOST_STEPS) -> Result:
    """Stable-Baselines3 with the RL Zoo's settings for CartPole-v1."""
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_vec_env

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
    model.learn(total_timesteps=most_steps, callback=watch)
    return Result(model.num_timesteps, time.process_time() - began, is_solved(watch.finished))


def quartiles(values: Iterable[float]) -> np.ndarray:
    """Lower quartile, median, upper quartile."""
    return np.percentile(list(values), [25, 50, 75])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10, help="how many seeds on both sides")
    parser.add_argument("--first-seed", type=int, default=0, help="the first of them")
    arguments = parser.parse_args()
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
    torch.set_num_threads(1)
    train_ours(10_000, most_steps=2048)
    train_sb3(10_000, most_steps=512)
    ours, theirs = [], []
    for seed in seeds:
        ours.append(train_ours(seed))
        theirs.append(train_sb3(seed))
        for name, result in (("devmind", ours[-1]), ("sb3", theirs[-1])):
            note = "" if result.solved else "  not solved"
            print(f"seed {seed}  {name:8s}{result.steps:7d} steps {result.cpu_s:7.2f} CPU-s{note}", flush=True)
    for name, results in (("devmind", ours), ("sb3", theirs)):
        steps, cpu_s = quartiles(r.steps for r in results), quartiles(r.cpu_s for r in results)
        print(
            f"{name:8s} solved {sum(r.solved for r in results)}/{len(results)}"
            f"  steps {steps[0]:.0f} {steps[1]:.0f} {steps[2]:.0f}  CPU-s {cpu_s[0]:.2f} {cpu_s[1]:.2f} {cpu_s[2]:.2f}"
            "  (quartiles; unsolved counted as where they stopped)"
        )
    steps_ratio = quartiles(r.steps for r in ours)[1] / quartiles(r.steps for r in theirs)[1]
    cpu_ratio = quartiles(r.cpu_s for r in ours)[1] / quartiles(r.cpu_s for r in theirs)[1]
    print(f"devmind / sb3, medians: {cpu_ratio:.2f} x the CPU-seconds, {steps_ratio:.2f} x the steps")


if __name__ == "__main__":
    main()
