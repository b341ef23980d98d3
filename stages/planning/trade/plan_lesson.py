"""The lesson trade_plan: prices as they may go on from what was seen, and the plan that is best for all of them.

The teacher of the trajectory is how a history goes on; that of the symbols is the plan whose net worth grows most on
average over several such continuations of the same history, drawn by the frozen process itself from where it was. So no
symbol knows which of them will come, and what is to be told can be told from the history: the head `trade`'s own trades
along a path would not do, as later ones of them are answers to prices that are only imagined.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from devmind.agent.agent import Agent
from devmind.agent.batch import clip
from devmind.agent.config import by_size
from devmind.curriculum.stage import Context, Lesson
from devmind.learners.gradient import gradient_lesson, sum_losses
from devmind.learners.muon import MuonLearner
from devmind.seeding import lesson_seeds, numpy_rng
from devmind.worlds.market import LEVELS, SCALE, SEEN, TICKS
from stages.planning import parts
from stages.planning.trade import HORIZON
from stages.planning.trade.plans import best

NAME = "trade_plan"
STEPS = {"tiny": 10, "nursery": 1000, "child": 4000, "adult": 8000}
HISTORIES = by_size(16, tiny=3)
"""Of each level in a batch."""
CONTINUED, SHOWN = 8, 2
"""How a history goes on: paths that its plan is best for, in pairs whose noise is mirrored; and how many of them are
told as trajectories in a batch: a pair, so that the mean of what comes is learned with little noise."""
LONGEST = 64
"""Ticks before those that are seen, at most: trends and waves have begun by then, a mean has been left."""
HELD, UNREALISED = 0.5, 0.05
"""Share of accounts that hold the asset, and how far its gain, by wealth, usually is from nothing."""
HEAD = f"heads.{parts.TRADE_PLAN}."


class TradePlanLearner(MuonLearner):
    """Muon on the head's linear maps, as for arranging."""

    orthogonal, muon_betas = (HEAD,), (0.9, 0.95)


def lesson(context: Context) -> Lesson:
    """Histories of all levels; which one it is nobody says."""
    return gradient_lesson(
        context, NAME, loss, make, steps=STEPS, rows=HISTORIES, learning_rate=2e-3,
        minutes=1.3, trains=lambda agent: (HEAD,), learner=TradePlanLearner, prefetch=True, skills=("trade",),
    )  # fmt: skip


def make(agent: Agent, context: Context, update: int, rows: int, steps: int = 0) -> dict[str, Any]:
    """`rows` histories of each level, and how they go on; see `histories`."""
    return histories({level: lesson_seeds(rows, context.seed, NAME, level, update) for level in LEVELS})


def histories(seeds: Mapping[str, np.ndarray], shown: int = SHOWN) -> dict[str, Any]:
    """One Moment for each seed, one level behind the other, and what comes of it.

    Returns:
        a batch of the senses `returns` [B, 1, SEEN] and `account` [B, 1, 3]; `steps` float32 [B, 1, S, H], log returns
        of `shown` continuations; `words` int64 [B, 1, H], the best plan for all CONTINUED of them.
    """
    level_seeds = [(level, int(seed)) for level, of in seeds.items() for seed in of]
    ways = [continue_history(level, seed, CONTINUED) for level, seed in level_seeds]
    seen, steps = (np.stack(part) for part in zip(*ways, strict=True))
    account = np.stack([accounts(numpy_rng(NAME, "account", level, seed)) for level, seed in level_seeds])
    words = best(steps, account, [LEVELS[level][1] for level, _ in level_seeds])
    arrays = {parts.RETURNS: SCALE * seen, parts.ACCOUNT: account, "steps": steps[:, :shown]}
    tensors = {name: torch.from_numpy(value).float()[:, None] for name, value in arrays.items()}
    senses = {name: tensors.pop(name) for name in (parts.RETURNS, parts.ACCOUNT)}
    return clip(senses) | tensors | {"words": torch.from_numpy(words)[:, None]}


def accounts(rng: np.random.Generator) -> np.ndarray:
    """An account as it is sensed [3], at any time of an episode: all cash, or all in the asset."""
    held = float(rng.random() < HELD)
    return np.array([held, held * UNREALISED * rng.standard_normal(), 1 - rng.integers(TICKS) / TICKS])


class GoingOn:
    """Stands for a generator: the first `at` numbers of each draw are those of `before`, all others those of `behind`,
    or their mirror image. So a process goes on from where it was in another way, whatever it keeps to itself."""

    def __init__(
        self, before: np.random.Generator, behind: np.random.Generator, at: int, mirrored: bool = False
    ) -> None:
        self.before, self.behind, self.at, self.mirrored = before, behind, at, mirrored

    def random(self, n: int) -> np.ndarray:
        """Drawn evenly from 0..1, [n]."""
        new = self.behind.random(n)
        return self._joined(self.before.random(n), 1 - new if self.mirrored else new)

    def standard_normal(self, n: int) -> np.ndarray:
        """[n]."""
        new = self.behind.standard_normal(n)
        return self._joined(self.before.standard_normal(n), -new if self.mirrored else new)

    def integers(self, n: int) -> int:
        """A number below `n`: what a process begins with."""
        return int(self.before.integers(n))

    def _joined(self, old: np.ndarray, new: np.ndarray) -> np.ndarray:
        return np.concatenate((old[: self.at], new[self.at :]))


def continue_history(level: str, seed: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """The last SEEN log returns of a history of a level, and `n` ways [n, H] in which it goes on."""
    at = SEEN + int(numpy_rng(NAME, "long", level, seed).integers(LONGEST))
    paths = []
    for number in range(n):
        rng: Any = GoingOn(numpy_rng(NAME, level, seed), numpy_rng(NAME, level, seed, number // 2), at, number % 2 == 1)
        paths.append(LEVELS[level][0](rng, at + HORIZON))
    return paths[0][at - SEEN : at], np.stack(paths)[:, at:]


def loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """What is told of noised prices and of masked symbols."""
    output: Any = agent.forward(dict(batch), [parts.TRADE_PLAN])[parts.TRADE_PLAN]
    return sum_losses(output.losses({name: batch[name].to(agent.device) for name in ("steps", "words")}))
