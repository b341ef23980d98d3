"""devmind's Q-learning against Stable-Baselines3's DQN: environment steps and CPU-seconds until solved.

Both run in this process on one thread, alternating seed by seed, for `--steps` environment steps. Every 5,120 of them
the greedy policy plays 20 episodes, outside the clock, on seeds that neither learns from; CartPole-v1 counts as solved
at a mean of 475, a room of MiniGrid at 0.90. At the end 100 other episodes are played. Stable-Baselines3 has the
settings of its RL Zoo for CartPole-v1 and, for MiniGrid, for which the Zoo has none, ours where it has them. Ours were
tuned on seeds from 1000 on, which are not used here.

    OMP_NUM_THREADS=1 python benchmarks/q_learning.py --seeds 3
    OMP_NUM_THREADS=1 python benchmarks/q_learning.py --world MiniGrid-DoorKey-5x5-v0 --steps 100000
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import torch
from torch import Tensor, nn

from devmind import worlds
from devmind.acting import Policy, Senses, returns
from devmind.learners.gradient import schedule
from devmind.learners.q_learning import Practice, QLearning, greedy
from devmind.seeding import exam_seeds, lesson_seeds, numpy_rng
from devmind.worlds.gym_world import GymWorld
from devmind.worlds.minigrid import Board, planes
from devmind.worlds.restarting import Restarting
from devmind.worlds.side_by_side import SideBySide
from stages.reasoning.values.lesson import DRILLS
from stages.reasoning.values.rooms import rooms

CARTPOLE = "CartPole-v1"
LOOK_EVERY, EPISODES, LAST_EPISODES = 5120, 20, 100


@dataclass(frozen=True)
class Settings:
    """Settings of our side; the learning rate falls linearly to zero from 0.3 of the steps on."""

    learning: QLearning
    learning_rate: float
    rows: int
    ticks: int
    steps: int
    hidden: int
    sense: str = "body"
    effector: str = "push"
    goal: float = 475.0
    actions: int = 2
    n_in: int = 4


MINIGRID = Settings(
    QLearning(discount=0.95, n_step=5, batch=64, capacity=50_000, target_every=200, epsilon=(1.0, 0.05, 0.5)),
    learning_rate=5e-4, rows=16, ticks=32, steps=64, hidden=128, sense="board", effector="choose", goal=0.90, actions=7,
    n_in=13 * 49,
)  # fmt: skip


KEYED = replace(MINIGRID, ticks=256, steps=512)
"""As many updates a step, but episodes go on to MiniGrid's own end: by chance a key and a door take hundreds of steps,
and of rooms that began anew every 32 nothing was learned (docs/log.md, 2026-11-27)."""


def cartpole_settings() -> Settings:
    """As in the lesson `values`."""
    drill = DRILLS["cartpole"]
    return Settings(drill.learning, drill.learning_rate, drill.rows, drill.ticks, drill.steps, hidden=128)


class Result(NamedTuple):
    """Result of one seed: steps and CPU-seconds until it was first solved (None: never), all CPU-seconds, the mean of
    the last episodes, and the means on the way.
    """

    solved_at: int | None
    solved_cpu_s: float | None
    cpu_s: float
    last: float
    means: list[float]


@dataclass
class Watch:
    """Plays the greedy policy at intervals, outside the clock."""

    settings: Settings
    name: str
    began: float = field(default_factory=time.process_time)
    out: float = 0.0
    solved: tuple[int, float] | None = None
    means: list[float] = field(default_factory=list)

    def look(self, steps: int, policy: Policy) -> None:
        """Note whether it is solved for the first time."""
        before = time.process_time()
        learned_s = before - self.began - self.out
        mean = play(self.name, exam_seeds(EPISODES, "q learning", steps), policy)
        self.means.append(round(mean, 2))
        if mean >= self.settings.goal and self.solved is None:
            self.solved = steps, learned_s
        self.out += time.process_time() - before

    def result(self, policy: Policy) -> Result:
        """The result after the last step."""
        cpu_s = time.process_time() - self.began - self.out
        last = play(self.name, exam_seeds(LAST_EPISODES, "q learning", "last"), policy)
        return Result(*(self.solved or (None, None)), cpu_s, last, self.means)


class Network(nn.Module):
    """Two hidden layers on the sensed numbers; a `ValueNetwork`."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.sense, self.effector = settings.sense, settings.effector
        sizes = settings.n_in, settings.hidden, settings.hidden
        self.net = nn.Sequential(
            nn.Flatten(), nn.Linear(sizes[0], sizes[1]), nn.ReLU(), nn.Linear(sizes[1], sizes[2]), nn.ReLU(),
            nn.Linear(sizes[2], settings.actions),
        )  # fmt: skip

    def read(self, senses: Senses) -> Tensor:
        """The sense unchanged."""
        return torch.from_numpy(np.asarray(senses[self.sense]))

    def forward(self, observation: Tensor) -> Tensor:
        """Values [B, A, 1]."""
        values: Tensor = self.net(observation.float())[..., None]
        return values


def beginning(name: str, seeds: np.ndarray) -> SideBySide:
    """Episodes of a Gymnasium environment, one per seed."""
    if name == CARTPOLE:
        return SideBySide([GymWorld(gymnasium.make(name)) for _ in seeds], seeds)
    return rooms(seeds, name)


def play(name: str, seeds: np.ndarray, policy: Policy) -> float:
    """The mean return of whole episodes."""
    return float(returns(policy, beginning(name, seeds)).mean())


def train_ours(name: str, settings: Settings, seed: int, most_steps: int) -> Result:
    """Train `devmind.learners.q_learning`, as in the reasoning stage."""
    settings = KEYED if "DoorKey" in name else settings
    watch = Watch(settings, name)
    torch.manual_seed(seed)
    practice = Practice(Network(settings), settings.learning, "q learning", seed)
    parameters = list(practice.network.parameters())
    optimizer = torch.optim.AdamW(parameters, lr=settings.learning_rate, betas=(0.9, 0.95), weight_decay=0.0)

    def descend(loss: Tensor) -> None:
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 10.0)
        optimizer.step()

    each = settings.rows * settings.ticks
    phases, looked = most_steps // each, 0
    lasting: Any = None
    if name == CARTPOLE:
        start = worlds.make("cartpole", "", lesson_seeds(settings.rows, seed))
        lasting = Restarting(start, numpy_rng("q learning", "starts", seed))
    for phase in range(phases):
        for group in optimizer.param_groups:
            group["lr"] = settings.learning_rate * schedule(phase, phases)
        world = lasting or beginning(name, lesson_seeds(settings.rows, seed, phase))
        practice.act(world, settings.ticks, settings.learning.explores(phase / phases), phase)
        practice.learn(settings.steps, phase, descend)
        if practice.env_steps - looked >= LOOK_EVERY:
            looked = practice.env_steps
            watch.look(looked, greedy(practice.network))
    return watch.result(greedy(practice.network))


def train_sb3(name: str, settings: Settings, seed: int, most_steps: int) -> Result:
    """Train Stable-Baselines3's DQN."""
    from stable_baselines3 import DQN
    from stable_baselines3.common.callbacks import BaseCallback

    class Looking(BaseCallback):
        def _on_step(self) -> bool:
            if self.num_timesteps % LOOK_EVERY == 0:
                watch.look(self.num_timesteps, policy)
            return True

    watch = Watch(settings, name)
    ours = settings.learning
    zoo: Mapping[str, Any] = {
        "learning_rate": 2.3e-3, "batch_size": 64, "buffer_size": 100_000, "learning_starts": 1000, "gamma": 0.99,
        "target_update_interval": 10, "train_freq": 256, "gradient_steps": 128, "exploration_fraction": 0.16,
        "exploration_final_eps": 0.04, "policy_kwargs": {"net_arch": [256, 256]},
    }  # fmt: skip
    alike: Mapping[str, Any] = {
        "learning_rate": settings.learning_rate, "batch_size": ours.batch, "buffer_size": ours.capacity,
        "learning_starts": 1000, "gamma": ours.discount, "target_update_interval": settings.rows * settings.ticks,
        "train_freq": settings.rows * settings.ticks, "gradient_steps": settings.steps,
        "exploration_fraction": ours.epsilon[2], "exploration_final_eps": ours.epsilon[1],
        "policy_kwargs": {"net_arch": [settings.hidden] * 2},
    }  # fmt: skip
    model = DQN("MlpPolicy", sb3_env(name), seed=seed, device="cpu", **(zoo if name == CARTPOLE else alike))

    def policy(senses: Senses, first: np.ndarray) -> dict[str, np.ndarray]:
        seen = np.asarray(senses[settings.sense])
        return {settings.effector: model.predict(seen.reshape(len(seen), -1).astype(np.float32), deterministic=True)[0]}

    model.learn(total_timesteps=most_steps, callback=Looking())
    return watch.result(policy)


def sb3_env(name: str) -> gymnasium.Env:
    """The environment with a vector of numbers as its observation, as both sides read it."""
    if name == CARTPOLE:
        return gymnasium.make(name)
    import minigrid  # noqa: F401 - it registers its environments

    env = gymnasium.make(name).unwrapped
    whole: Callable[[Any], np.ndarray] = lambda seen: planes(seen["image"]).reshape(-1).astype(np.float32)  # noqa: E731
    return gymnasium.wrappers.TransformObservation(
        env,
        whole,
        gymnasium.spaces.Box(0.0, 10.0, (int(np.prod(Board(env).observation_space.shape or ())),), np.float32),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds on both sides")
    parser.add_argument("--first-seed", type=int, default=0, help="the first seed")
    parser.add_argument("--world", default=CARTPOLE, help="CartPole-v1, or one of MiniGrid's")
    parser.add_argument("--steps", type=int, default=50_000, help="environment steps of each run")
    parser.add_argument("--only", choices=["devmind", "sb3"], help="run one side alone")
    given = parser.parse_args()
    torch.set_num_threads(1)
    settings = cartpole_settings() if given.world == CARTPOLE else MINIGRID
    sides = {"devmind": train_ours, "sb3": train_sb3}
    sides = {name: train for name, train in sides.items() if given.only in (None, name)}
    found: dict[str, list[Result]] = {name: [] for name in sides}
    for seed in range(given.first_seed, given.first_seed + given.seeds):
        for name, train in sides.items():
            result = train(given.world, settings, seed, given.steps)
            found[name].append(result)
            reached = (
                "never" if result.solved_at is None else f"{result.solved_at} steps, {result.solved_cpu_s:.1f} CPU-s"
            )
            print(
                f"seed {seed}  {name:8s} {settings.goal:g} first at {reached};  {result.cpu_s:.1f} CPU-s in all, "
                f"last {LAST_EPISODES} episodes {result.last:.2f}  (load {os.getloadavg()[0]:.1f})\n"
                f"  on the way {result.means}",
                flush=True,
            )
    for name, results in found.items():
        reached = sum(r.solved_at is not None for r in results)
        ended = sum(r.last >= settings.goal for r in results)
        steps = np.median([r.solved_at or given.steps for r in results])
        cpu_s = np.median([r.solved_cpu_s or r.cpu_s for r in results])
        print(
            f"{name:8s} reached {settings.goal:g} on {reached}/{len(results)} seeds, ended there on {ended}; medians "
            f"{steps:.0f} steps and {cpu_s:.1f} CPU-s until then, {np.median([r.cpu_s for r in results]):.1f} in all"
        )


if __name__ == "__main__":
    main()
