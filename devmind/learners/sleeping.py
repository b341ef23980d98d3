"""Sleep's learner: what the agent answers with memories at hand, it learns to answer alone.

The awake agent is the teacher, the same agent without recall the pupil (distillation: Hinton et al. 2015; of a context
into weights: Snell, Klein and Zhong 2022, arXiv 2209.15189). Memories are replayed among rehearsals of earlier lessons,
since one without the other overwrites (complementary learning systems: McClelland, McNaughton and O'Reilly 1995).
Encoders stay as they are, bit by bit: keys and names go on to be valid. Other heads that read the trunk are held to
their old answers.
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
from devmind.agent.taps import can_read, taps_trunk
from devmind.curriculum.stage import Scalars
from devmind.errors import ConfigError
from devmind.learners.distil import divergence
from devmind.learners.gradient import GradientLearner
from devmind.learners.replay import Replay

GUARD = 0.05
"""How much a drift of all their variance counts, in nats: at 1 the other heads drown what is to be learned."""
UNREHEARSED = "A night is of one memory; the next night goes over what this one slept on."


def heads_to_sleep(agent: Agent) -> list[str]:
    """The heads of this agent that were taught to answer from memory (`Agent.add_head(..., recalls=True)`).

    Raises:
        ConfigError: there is none.
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
        agent: as it falls asleep.
        replay: its batches are what this learner is fed with.
    """

    def __init__(self, agent: Agent, replay: Replay, *, seed: int, learning_rate: float) -> None:
        on_trunk = [e["name"] for e in agent.config.heads if e["name"] in agent.heads and taps_trunk(e["tap"])]
        trains = ("trunk.", "readout", "slots", *(f"heads.{name}." for name in on_trunk))
        super().__init__(agent, self._loss, seed=seed, learning_rate=learning_rate, trains=trains)
        self.replay = replay
        self.guarded = [name for name in on_trunk if name not in replay.heads]
        self._born = copy.deepcopy(agent).requires_grad_(False).eval()

    def begin(self, step: int) -> None:
        """The frozen copy goes where the agent is."""
        super().begin(step)
        place(self._born, self.agent.device)

    def state_dict(self) -> dict[str, Any]:
        """The optimizer's state, the priorities, and how often was drawn."""
        return super().state_dict() | {"sampler": self.replay.sampler.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back what `state_dict` gave."""
        super().load_state_dict(state)
        self.replay.sampler.load_state_dict(state["sampler"])

    def rehearse(self, batch: Any) -> tuple[Tensor, Scalars]:
        """Refused: a night is of one memory, and the next night goes over again what this one slept on."""
        raise ConfigError(UNREHEARSED)

    def _loss(self, agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
        """Weighted divergence from the awake answers, and the drift of other heads; surprises become priorities."""
        replay, asked = self.replay, batch["place"].flatten()
        # What a memory holds no sense for has nothing to read.
        guarded = [name for name in self.guarded if can_read(agent.tap_of(name), batch["senses"])]
        outputs = agent(batch, [*replay.heads, *guarded])
        surprise = torch.zeros(len(asked), device=asked.device)
        for head in replay.heads:
            log_p = outputs[head].logits.log_softmax(-1).flatten(0, 1)
            wanted, sure = replay.wanted[head].to(asked.device)[asked], replay.sure[head].to(asked.device)[asked]
            surprise = surprise + sure * divergence(wanted, log_p)
        # Divided by their sum: as priorities spread, weights relative to the rarest memory would fade out the loss.
        weight = batch["weight"].flatten()
        told = (weight * surprise).sum() / weight.sum()
        replay.surprised(replay.ids[asked.cpu().numpy()], surprise.detach().cpu().double().numpy())
        held = torch.zeros((), device=asked.device)
        if guarded:
            with torch.no_grad():
                wanted_of = self._born(batch, guarded)
            held = sum(drifts(outputs, wanted_of, batch["valid"]).values(), start=held)
        scalars = {"surprise": surprise.detach().mean(), "drift": held.detach()}
        return told + GUARD * held, scalars
