"""What untaught encoders give, as a floor of exams: a ridge on their tokens has learned all that it knows by itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from devmind.acting import Policy, Senses, rollout
from devmind.acting.rollout import Actions
from devmind.agent.agent import Agent
from devmind.agent.batch import as_tensors
from devmind.agent.device import place
from devmind.algorithms.ridge import Ridge, fit_ridge
from devmind.seeding import lesson_seeds, numpy_rng
from stages.reflex.trials import Trial

FLOOR = "ridge on an untaught encoder's tokens"
MOMENTS = 2_000
"""Moments in rooms of lesson seeds that the ridge of a motor exam is fitted on."""

Teacher = Callable[[Mapping[str, np.ndarray]], np.ndarray]
"""The command [N, K] that the truth of N rows asks for; not numbers in rows that ask for nothing."""
Command = Callable[[np.ndarray], np.ndarray]
"""What is commanded, float32 [N, K], by the ridge's answers [N, K]."""


class UntrainedEncoders:
    """The encoders of an agent of this configuration as they are before the first lesson."""

    def __init__(self, agent: Agent) -> None:
        self.agent = place(Agent(agent.config), agent.device).eval()

    @torch.no_grad()
    def tokens(self, sense: str, values: Tensor) -> np.ndarray:
        """Tokens of a sense's values [N, *L, ...], float32 [N, *L, K, D]."""
        found = [self.agent.encode_senses({sense: x}, names=(sense,))[sense].tokens for x in values.split(256)]
        return np.asarray(torch.cat(found).float().cpu().numpy())


class _Moments:
    """The untaught tokens of this Moment and of the one before, tick by tick."""

    def __init__(self, untaught: UntrainedEncoders, senses: Sequence[str]) -> None:
        self.untaught, self.senses = untaught, senses
        self.before: np.ndarray | None = None

    def __call__(self, senses: Senses, first: np.ndarray) -> np.ndarray:
        """Float32 [N, D]; what begins an episode has itself before it."""
        values = as_tensors({sense: senses[sense] for sense in self.senses})
        tokens = [self.untaught.tokens(sense, value).reshape(len(first), -1) for sense, value in values.items()]
        now = np.concatenate(tokens, 1)
        before = now if self.before is None else np.where(first[:, None], now, self.before)
        self.before = now
        return np.concatenate([now, before], 1)


def clip_commands(answers: np.ndarray) -> np.ndarray:
    """Answers as commands of -1..1: a `Command`."""
    return answers.clip(-1, 1).astype(np.float32)


class RidgePolicy:
    """Commands what a ridge on untaught tokens, of this Moment and the one before, takes the truth to ask for."""

    def __init__(
        self,
        untaught: UntrainedEncoders,
        senses: Sequence[str],
        effector: str,
        ridge: Ridge,
        command: Command = clip_commands,
    ) -> None:
        self.ridge, self.effector, self.command = ridge, effector, command
        self.moments = _Moments(untaught, senses)

    def __call__(self, senses: Senses, first: np.ndarray) -> Actions:
        """The effector's command, float32 [N, K]."""
        return {self.effector: self.command(self.ridge.predict(self.moments(senses, first)))}


def imitating(
    agent: Agent, trial: Trial, senses: Sequence[str], effector: str, teacher: Teacher
) -> Callable[[], Policy]:
    """Makes policies whose ridge imitates `teacher` in rooms of the trial's level."""
    untaught = UntrainedEncoders(agent)
    ridge = fit_commands(*lesson_moments(untaught, trial, senses, effector, teacher))
    return partial(RidgePolicy, untaught, senses, effector, ridge)


def fit_commands(features: np.ndarray, asked: np.ndarray) -> Ridge:
    """The ridge from features [..., D] to commands [..., K], where all of these are numbers."""
    counts = np.isfinite(asked).all(-1)
    return fit_ridge(features[counts], asked[counts])


def lesson_moments(
    untaught: UntrainedEncoders,
    trial: Trial,
    senses: Sequence[str],
    effector: str,
    teacher: Teacher,
    moments: int = MOMENTS,
) -> tuple[np.ndarray, np.ndarray]:
    """Untaught tokens [T, N, D] of some `moments` in N rooms of lesson seeds, and what the truth asks for, [T, N, K].

    Two of four rooms move as `teacher` asks, the others at random.
    """
    context = trial.context
    seeds = lesson_seeds(context.episodes(moments // trial.ticks), context.seed, trial.level, "floor")
    rng, as_asked = numpy_rng(context.seed, trial.level, "floor", "moves"), np.arange(len(seeds)) % 4 < 2
    world = context.make_world("nursery", trial.level, seeds)
    read, features, commands = _Moments(untaught, senses), [], []

    def moving(given: Senses, first: np.ndarray) -> Actions:
        asked = teacher(world.truth())
        features.append(read(given, first))
        commands.append(asked)
        moves = np.where(as_asked[:, None], np.nan_to_num(asked), rng.uniform(-1, 1, asked.shape))
        return {effector: moves.astype(np.float32)}

    for _ in rollout(moving, world, trial.ticks):
        pass
    return np.stack(features), np.stack(commands)
