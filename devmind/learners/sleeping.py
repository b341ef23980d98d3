"""The learner of sleep: the agent learns to give without recall the answers that it gives with recall.

The awake agent is the teacher, and the same agent without recall the student (distillation: Hinton et al. 2015; of a
context into weights: Snell, Klein and Zhong 2022, arXiv 2209.15189). Replays of memories alternate with rehearsals of
earlier lessons, to prevent forgetting (complementary learning systems: McClelland, McNaughton and O'Reilly 1995).
Encoders stay bit-identical, so keys and names stay valid. Other heads that read the trunk are trained to keep their
answers.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from devmind.agent.agent import Agent
from devmind.agent.device import place
from devmind.agent.output import drifts
from devmind.curriculum.stage import Scalars
from devmind.errors import ConfigError
from devmind.learners.distil import divergence
from devmind.learners.gradient import GradientLearner
from devmind.learners.replay import Replay

GUARD = 0.05
"""Weight of the other heads' drift in the loss: nats for a drift of their whole variance. At 1 it would dominate."""


def heads_to_sleep(agent: Agent) -> list[str]:
    """The heads of this agent that were taught to answer from memory (`Agent.add_head(..., recalls=True)`).

    Raises:
        ConfigError: there are none.
    """
    found = [entry["name"] for entry in agent.config.heads if entry.get("recalls") and entry["name"] in agent.heads]
    if not found:
        raise ConfigError(
            "No head of this agent was taught to answer from memory, so there is nothing to sleep on; raise it with "
            "'devmind stage run memory' first."
        )
    return found


class SleepLearner(GradientLearner):
    """Trains the trunk and the heads that read it on a `Replay`.

    Args:
        agent: the agent at the beginning of sleep.
        replay: the Replay that makes the batches.
    """

    def __init__(self, agent: Agent, replay: Replay, *, seed: int, learning_rate: float) -> None:
        on_trunk = [
            e["name"] for e in agent.config.heads if e["name"] in agent.heads and agent.tap_of(e["name"]).on_trunk
        ]
        trains = ("trunk.", "readout", "slots", *(f"heads.{name}." for name in on_trunk))
        super().__init__(agent, self._loss, seed=seed, learning_rate=learning_rate, trains=trains)
        self.replay = replay
        self.guarded = [name for name in on_trunk if name not in replay.heads]
        self._born = copy.deepcopy(agent).requires_grad_(False).eval()

    def begin(self, step: int) -> None:
        """Move the frozen copy to the agent's device."""
        super().begin(step)
        place(self._born, self.agent.device)

    def state_dict(self) -> dict[str, Any]:
        """The states of the optimizer and of the sampler (priorities and number of draws)."""
        return super().state_dict() | {"sampler": self.replay.sampler.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state from `state_dict`."""
        super().load_state_dict(state)
        self.replay.sampler.load_state_dict(state["sampler"])

    def rehearse(self, batch: Any) -> tuple[Tensor, Scalars]:
        """Raise ConfigError: a night belongs to one memory, and the next night repeats what this one replayed."""
        raise ConfigError("A night is of one memory; the next night goes over what this one slept on.")

    def _loss(self, agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
        """Weighted divergence from the awake answers, and the drift of other heads; surprises become priorities."""
        replay, asked = self.replay, batch["place"].flatten()
        # Heads that tap senses which no memory of the batch has are left out.
        guarded = [name for name in self.guarded if agent.tap_of(name).can_read(batch["senses"])]
        names = [*replay.heads, *guarded]
        seen = agent.perceive(dict(batch), [agent.tap_of(name) for name in names])
        outputs: Any = agent.run_heads(names, seen)
        surprise = torch.zeros(len(asked), device=asked.device)
        for head in replay.heads:
            log_p = outputs[head].logits.log_softmax(-1).flatten(0, 1)
            wanted, sure = replay.wanted[head].to(asked.device)[asked], replay.sure[head].to(asked.device)[asked]
            surprise = surprise + sure * divergence(wanted, log_p)
        # Divided by their sum, since otherwise the loss would shrink as priorities spread.
        weight = batch["weight"].flatten()
        recall_loss = (weight * surprise).sum() / weight.sum()
        replay.surprised(replay.ids[asked.cpu().numpy()], surprise.detach().cpu().double().numpy())
        held = torch.zeros((), device=asked.device)
        if guarded:
            # Encoders do not learn in a night, so both have the same tokens.
            with torch.no_grad():
                wanted_of = self._born.run_heads(guarded, self._born.think(seen, batch["first"]))
            held = sum(drifts(outputs, wanted_of, batch["valid"]).values(), start=held)
        scalars = {"surprise": surprise.detach().mean(), "drift": held.detach()}
        return recall_loss + GUARD * held, scalars
