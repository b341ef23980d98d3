"""Following by reward: the agent's actions become likelier if its episode earned more than its other episodes in such
rooms, and less likely if it earned less.

The policy gradient with a group's mean as its baseline (Williams, 1992, "REINFORCE"; Shao et al., 2024, "GRPO"), with
PPO's clipped ratio. It uses the room's own reward alone and no bot. The head `follow` learns on a frozen trunk.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from devmind.acting import Policy, rollout
from devmind.agent.agent import Agent
from devmind.algorithms.ppo import minibatches, ppo_loss
from devmind.curriculum.stage import Context, Rehearsed, Scalars
from devmind.learners.gradient import GradientLearner
from devmind.seeding import lesson_seeds, torch_generator
from devmind.worlds.minigrid import room
from stages.language.follow.learner import moments_of, only
from stages.language.follow.lesson import NAME, episodes
from stages.language.follow.rooms import Demonstration, Instructed, following
from stages.language.parts import BOARD, CHOOSE, FOLLOW

TICKS = 64
"""After which BabyAI's small rooms end an episode."""
DISCOUNT = 0.97
"""Discount of the reward for each tick until it comes."""
PASSES, MOMENTS, CLIP, ENTROPY = 2, 96, 0.2, 0.003


def lived(name: str, seeds: np.ndarray, policy: Policy, ticks: int = TICKS) -> list[Demonstration]:
    """Whole episodes in which `policy` acts; `choice` is what was done, as there is no teacher."""
    rooms = Instructed([room(name) for _ in seeds], seeds)
    n = rooms.num_envs
    boards, done, earned, over = [rooms.observe()[BOARD]], list[np.ndarray](), np.zeros(n), np.zeros(n, bool)
    ends = np.zeros(n, np.int64)
    for tick in rollout(policy, rooms, ticks, sparing=True):
        ends[~over] += 1
        earned += tick.reward
        over |= tick.ended
        boards.append(tick.following[BOARD])
        done.append(np.asarray(tick.actions[CHOOSE]))
        if over.all():
            break
    rooms.rooms.close()
    views, actions = np.stack(boards, 1), np.stack(done, 1)
    return [
        Demonstration(
            views[row, : end + 1], actions[row, :end], actions[row, :end], rooms.instructions[row], earned[row]
        )
        for row, end in enumerate(ends.tolist())
    ]


def rewarded_batch(agent: Agent, context: Context, update: int, rows: int, name: str) -> dict[str, Any]:
    """`rows` episodes of the agent as it is at this update, in the room `name`, with sampled actions.

    Returns:
        A Batch as `episodes` makes it, with `lived` float32 [B, T, 2], actions and their advantages, and `earned` float
        [B, 1].
    """
    seeds = lesson_seeds(rows, context.seed, NAME, "rewards", name, update)
    generator = torch_generator(context.seed, NAME, "rewards", name, update, device=agent.device)
    was_training = agent.training
    agent.eval()
    try:
        with torch.no_grad():
            demos = lived(name, seeds, following(agent, generator=generator))
    finally:
        agent.train(was_training)
    batch = episodes(demos, TICKS)
    valid = batch["valid"]
    left = (valid.sum(1, keepdim=True) - torch.arange(valid.shape[1]) - 1).clamp_min(0)
    earned = torch.tensor([one.reward for one in demos])
    worth = earned[:, None] * DISCOUNT**left
    spread, usual = torch.std_mean(worth[valid], correction=0)
    advantage = torch.where(valid, (worth - usual) / (spread + 1e-6), 0.0)
    return batch | {"lived": torch.stack((batch["choice"].float(), advantage.float()), -1), "earned": earned[:, None]}


class RewardLearner(GradientLearner):
    """Learns batches of `rewarded_batch` by the clipped policy gradient. Its scalars have the share of episodes with a
    reward (`done as told`) and the entropy of the actions.
    """

    def update(self, batch: Any, step: int) -> Scalars:
        """One batch, `PASSES` times over, in parts of `MOMENTS`."""
        if isinstance(batch, Rehearsed):
            return super().update(batch, step)
        self.set_rates(step)
        tapped, targets = moments_of(self.agent, batch, "lived")
        done, advantage = targets[:, 0].long(), targets[:, 1]
        head: Any = self.agent.head(FOLLOW)
        with torch.no_grad():
            acted = head(tapped)
            old, entropy = acted.log_prob(done), acted.entropy().mean()
        order = torch_generator(self.seed, NAME, "rewards", "order", step)
        everything = torch.ones(len(done), 1, dtype=torch.bool, device=done.device)
        for rows in minibatches(everything, PASSES, -(-len(done) // MOMENTS), order):
            now = head(only(tapped, rows))
            nothing = torch.zeros_like(old[rows])
            loss = ppo_loss(
                now.log_prob(done[rows]), old[rows], advantage[rows], nothing, nothing, now.entropy(),
                clip=CLIP, entropy_weight=ENTROPY,
            )  # fmt: skip
            self.descend(loss.total)
        return {"loss": loss.policy.detach(), "entropy": entropy, "done as told": batch["earned"].gt(0).float().mean()}
