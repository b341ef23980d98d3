"""Following by reward: what the agent did in an episode of its own becomes likelier where that earned more than its
other episodes in such rooms did, and less likely where it earned less.

The policy gradient with the mean of a group as its baseline (Williams, 1992, "REINFORCE"; Shao et al., 2024, "GRPO"),
its steps held to the policy that acted by PPO's clipped ratio. The room's own reward is all that is told; no bot is
asked. The head that follows learns, on a trunk that stays as it is.
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
"""Of what is earned, for each tick that it is waited for."""
PASSES, MOMENTS, CLIP, ENTROPY = 2, 96, 0.2, 0.003


def lived(name: str, seeds: np.ndarray, policy: Policy, ticks: int = TICKS) -> list[Demonstration]:
    """Episodes in which `policy` acts, to their ends: what was done stands as `choice` too, for nobody tells better."""
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
    seen, acted = np.stack(boards, 1), np.stack(done, 1)
    return [
        Demonstration(seen[row, : end + 1], acted[row, :end], acted[row, :end], rooms.instructions[row], earned[row])
        for row, end in enumerate(ends.tolist())
    ]


def rewarded_batch(agent: Agent, context: Context, update: int, rows: int, name: str) -> dict[str, Any]:
    """`rows` episodes that the agent lives through in the room `name` as it is at this update, its choices drawn.

    Returns:
        A Batch as `episodes` makes it, with `lived` float32 [B, T, 2]: what was done, and its advantage; and `earned`
        float [B, 1].
    """
    seeds = lesson_seeds(rows, context.seed, NAME, "rewards", name, update)
    generator = torch_generator(context.seed, NAME, "rewards", name, update, device=agent.device)
    was_training = agent.training
    agent.eval()
    try:
        with torch.no_grad():
            shown = lived(name, seeds, following(agent, generator=generator))
    finally:
        agent.train(was_training)
    batch = episodes(shown, TICKS)
    valid = batch["valid"]
    left = (valid.sum(1, keepdim=True) - torch.arange(valid.shape[1]) - 1).clamp_min(0)
    earned = torch.tensor([one.reward for one in shown])
    worth = earned[:, None] * DISCOUNT**left
    spread, usual = torch.std_mean(worth[valid], correction=0)
    advantage = torch.where(valid, (worth - usual) / (spread + 1e-6), 0.0)
    return batch | {"lived": torch.stack((batch["choice"].float(), advantage.float()), -1), "earned": earned[:, None]}


class RewardLearner(GradientLearner):
    """Learns batches of `rewarded_batch` by the clipped policy gradient. Told are the share of episodes that earned
    anything (`done as told`) and the entropy of the choices.
    """

    def update(self, batch: Any, step: int) -> Scalars:
        """One batch, `PASSES` times over, in parts of `MOMENTS`."""
        if isinstance(batch, Rehearsed):
            return super().update(batch, step)
        self.set_rates(step)
        tapped, told = moments_of(self.agent, batch, "lived")
        done, advantage = told[:, 0].long(), told[:, 1]
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
