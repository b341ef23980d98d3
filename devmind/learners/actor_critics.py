"""An agent's heads as an actor and a critic: a reflex arc on encoder tokens, or a policy on the trunk's features."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from devmind.acting import Actor, Senses
from devmind.agent.agent import Agent
from devmind.agent.batch import Batch, collate_tick, to_device
from devmind.agent.output import Categorical, Normal
from devmind.agent.taps import Tapped
from devmind.algorithms.rollout import Tree
from devmind.errors import ConfigError


def actor_critic(agent: Agent, effector: str, head: str = "", critic: str = "") -> Arc | TrunkPolicy:
    """The head that acts for `effector` and its critic; by default `{effector}_arc` and `{effector}_value`.

    Raises:
        ConfigError: one of them taps the trunk but not both tap "trunk", the readout's feature.
    """
    head, critic = head or f"{effector}_arc", critic or f"{effector}_value"
    taps = agent.tap_of(head), agent.tap_of(critic)
    if not any(tap.on_trunk for tap in taps):
        return Arc(agent, effector, head, critic)
    if any(str(tap) != "trunk" for tap in taps):
        raise ConfigError(
            f"A policy on the trunk and its critic both tap 'trunk'; '{head}' taps '{taps[0]}' and '{critic}' "
            f"'{taps[1]}'."
        )
    return TrunkPolicy(agent, effector, head, critic)


class _HeadAndCritic:
    """A head of an agent that acts for an effector, and its critic."""

    def __init__(self, agent: Agent, effector: str, head: str, critic: str) -> None:
        self.agent, self.effector, self.names = agent, effector, (head, critic)
        self.arc, self.critic = agent.head(head), agent.head(critic)

    def _answer(self, tapped: Tapped) -> tuple[Categorical | Normal, Tensor]:
        return self.arc(tapped), self.critic(tapped).mode()

    def as_command(self, action: Tensor) -> np.ndarray:
        """Actions in the effector's form; if the head has a table, a class becomes its command."""
        table: Any = getattr(self.arc, "table", None)
        return np.asarray((action if table is None else table[action]).detach().cpu().numpy())

    def parts(self) -> nn.ModuleList:
        """Both heads."""
        return nn.ModuleList([self.arc, self.critic])


class Arc(_HeadAndCritic):
    """A reflex arc of an agent and its critic as an `ActorCritic`.

    An observation is what the arc taps, `tokens` [N, K, D] and `present` [N, K]. Each tick is encoded once, and only
    the senses that the arc reads.
    """

    def __init__(self, agent: Agent, effector: str, head: str, critic: str) -> None:
        super().__init__(agent, effector, head, critic)
        self.tap = agent.tap_of(head)
        self.senses = self.tap.encoded
        self.carried: dict[str, tuple[Tensor, Tensor]] = {}

    def read(self, senses: Senses, first: np.ndarray) -> dict[str, Tensor]:
        """`tokens` and `present`; keeps what encoders that see change need in the next tick."""
        read, self.carried = self._read(senses, first)
        return read

    def peek(self, senses: Senses) -> dict[str, Tensor]:
        """What `read` would give for the next tick in rows whose episode goes on, without changing anything."""
        n = len(next(iter(senses.values())))
        return self._read(senses, np.zeros(n, bool))[0]

    def _read(self, senses: Senses, first: np.ndarray) -> tuple[dict[str, Tensor], dict[str, tuple[Tensor, Tensor]]]:
        needed = {k: v for k, v in senses.items() if k in self.senses or k in self.tap.raw}
        batch: Batch = to_device(collate_tick(needed, first), self.agent.device)
        with torch.inference_mode():
            seen = self.agent.encode_batch(batch, self.senses, self.carried).map(lambda x: x[:, 0])
            tapped = self.tap.read(seen)
        assert tapped is not None, f"the worlds of '{self.tap}' give none of its senses"
        carried = {
            name: (batch["senses"][name][:, 0], batch["present"][name][:, 0])
            for name in seen.encoded
            if self.agent.encoder(name).uses_previous
        }
        return {"tokens": tapped.tokens, "present": tapped.present}, carried

    def __call__(self, observation: Tree) -> tuple[Categorical | Normal, Tensor]:
        """The answers of the arc and its critic."""
        assert isinstance(observation, dict)
        return self._answer(Tapped(observation["tokens"], observation["present"]))


class TrunkPolicy(_HeadAndCritic):
    """A head on the trunk and its critic as an `ActorCritic` that learns from rows of consecutive Moments.

    It acts by an `Actor`, tick by tick. An observation holds the senses (`senses.NAME`, `present.NAME` and `first`,
    each [N, ...]) and the readout's feature [N, D]. In learning, whole rows go through the trunk at once. So every row
    must begin an episode with the rollout, where the state is empty; then features equal those of stepping. Further
    episodes may begin in a row. Rows hold no beliefs, so an agent with a tracker practises without them.
    """

    def __init__(self, agent: Agent, effector: str, head: str, critic: str) -> None:
        super().__init__(agent, effector, head, critic)
        self.actor = Actor(agent, effectors=(), beliefs=False)

    def read(self, senses: Senses, first: np.ndarray) -> dict[str, Tensor]:
        """Step the trunk by one tick, from an empty state if all rows begin episodes."""
        if first.all():
            self.actor.reset(len(first))
        batch: Batch = to_device(collate_tick(dict(senses), first), self.agent.device)
        features = self.actor.act(batch).features
        return {
            **{f"senses.{name}": value[:, 0] for name, value in batch["senses"].items()},
            **{f"present.{name}": value[:, 0] for name, value in batch["present"].items()},
            "first": batch["first"][:, 0],
            "feature": features,
        }

    def peek(self, senses: Senses) -> dict[str, Tensor]:
        """What `read` would give for the next tick in rows whose episode goes on; the state is not changed."""
        kept = self.actor.state.clone()
        read = self.read(senses, np.zeros(len(kept), bool))
        self.actor.state = kept
        return read

    def __call__(self, observation: Tree) -> tuple[Categorical | Normal, Tensor]:
        """The answers of the head and its critic for one tick's features."""
        assert isinstance(observation, dict)
        return self._on(observation["feature"])

    def along(self, observation: Tree) -> tuple[Categorical | Normal, Tensor]:
        """Their answers [B, T, ...] for rows of consecutive Moments [B, T, ...], with gradients through the trunk."""
        assert isinstance(observation, dict)
        batch: Batch = {
            part: {key.removeprefix(f"{part}."): x for key, x in observation.items() if key.startswith(f"{part}.")}
            for part in ("senses", "present")
        }
        batch |= {"first": observation["first"], "valid": torch.ones_like(observation["first"])}
        seen = self.agent.perceive(batch, ["trunk"])
        assert seen.readout is not None
        return self._on(seen.readout)

    def _on(self, feature: Tensor) -> tuple[Categorical | Normal, Tensor]:
        here = torch.ones(*feature.shape[:-1], 1, dtype=torch.bool, device=feature.device)
        return self._answer(Tapped(feature[..., None, :], here))
