"""Deep Q-learning of any network that gives action values, in worlds of rows.

`Practice` lets a network act in a world by `devmind.acting.rollout`, stores the transitions and learns from them (Mnih
et al. 2015): double, n-step, prioritised, and with quantiles if the network gives them. It needs no agent: the
benchmark against Stable-Baselines3 uses a network of its own, and the reasoning stage an agent's heads.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from devmind.acting import Senses, rollout
from devmind.acting.rollout import Actions, Steppable, starts_anew
from devmind.algorithms.q_learning import epsilon_greedy, n_step_returns, target, td_loss
from devmind.learners.transitions import Transitions
from devmind.seeding import numpy_rng, torch_generator


class ValueNetwork(Protocol):
    """A module that reads senses without a gradient, and answers with one; it can be copied."""

    effector: str

    def read(self, senses: Senses) -> Tensor:
        """The senses of N rows in the form that is stored, [N, ...]."""
        ...

    def __call__(self, observation: Tensor) -> Tensor:
        """Quantiles [B, A, K] of each action's return; K is 1 without quantiles."""
        ...


@dataclass(frozen=True)
class QLearning:
    """Settings of learning from transitions.

    Attributes:
        discount: per step; n_step: number of rewards that are summed before a target bootstraps from the network.
        double: the learning network chooses the action of a target, and the target network gives its value.
        batch: rows of a step; capacity: transitions that are stored.
        target_every: steps after which the learning network is copied to the target network.
        bounds: the lowest and highest possible return, if known; targets are clamped to them, which prevents
            overestimates from growing.
        priority, beta: as for `Transitions`; priority None draws uniformly.
        epsilon: share of random actions at the start and at the end, and the share of the lesson over which it falls.
    """

    discount: float = 0.99
    n_step: int = 1
    double: bool = True
    batch: int = 64
    capacity: int = 50_000
    target_every: int = 128
    bounds: tuple[float, float] | None = None
    priority: float | None = None
    beta: float = 0.6
    epsilon: tuple[float, float, float] = (1.0, 0.04, 0.16)

    def explores(self, progress: float) -> float:
        """Epsilon at this share of the lesson."""
        first, last, over = self.epsilon
        return first + min(1.0, progress / over) * (last - first)


class Practice:
    """The practice of one network: the learning network, the target network, and the stored transitions.

    Args:
        network: a `ValueNetwork` and a module.
        names: they name the seed of its random numbers.
    """

    def __init__(self, network: Any, settings: QLearning, *names: int | str) -> None:
        self.network, self.settings, self.names = network, settings, names
        self.fixed: Any = copy.deepcopy(network).requires_grad_(False)
        self.met = Transitions(settings.capacity, settings.priority)
        self.steps = self.env_steps = 0

    @torch.no_grad()
    def act(self, world: Steppable, ticks: int, epsilon: float, number: int, first: np.ndarray | None = None) -> float:
        """Act for `ticks` from the present state of `world` and store the transitions; gives their mean reward.

        In a world that resets ended rows all ticks count. In any other, only those up to a row's end count, and the
        rollout stops when all rows have ended. The last tick bootstraps from the state that it led to. In a world that
        is fed it does what was done there.

        Args:
            number: the number of this rollout, for the seed of its random numbers.
            first: which rows begin an episode at the first tick; all by default.
        """
        network, device = self.network, next(self.network.parameters()).device
        generator = torch_generator(*self.names, "act", number, device=device)
        seen, actions, rewards, terminals, lasts, led_to, masks = ([] for _ in range(7))

        def policy(senses: Senses, opening: np.ndarray) -> Actions:
            seen.append(network.read(senses))
            if (done := done_in(world, network.effector)) is not None:
                actions.append(done.to(device))
                return {network.effector: done.numpy()}
            legal = legal_in(world, network.effector)
            values = network(seen[-1]).mean(-1)
            actions.append(epsilon_greedy(values, epsilon, generator, None if legal is None else legal.to(device)))
            return {network.effector: actions[-1].cpu().numpy()}

        for tick in rollout(policy, world, ticks, first):
            rewards.append(torch.as_tensor(np.asarray(tick.reward, np.float32)))
            terminals.append(torch.as_tensor(tick.terminated))
            lasts.append(torch.as_tensor(tick.ended))
            led_to.append(network.read(tick.led_to))
            if (legal := legal_in(world, network.effector, led_to=True)) is not None:
                masks.append(legal)
            if tick.ended.all() and not starts_anew(world):
                break
        reward, terminal, last = torch.stack(rewards), torch.stack(terminals), torch.stack(lasts)
        total, factor, until = n_step_returns(
            reward, terminal, last, discount=self.settings.discount, n=self.settings.n_step
        )
        counts = torch.ones_like(last) if starts_anew(world) else last.cumsum(0) - last.long() == 0
        row = torch.arange(last.shape[1]).expand_as(last)
        rows = {
            "observation": torch.stack(seen),
            "action": torch.stack(actions).cpu(),
            "return": total,
            "factor": factor,
            "following": torch.stack(led_to)[until, row],
        }
        if masks:
            rows["legal"] = torch.stack(masks)[until, row]
        self.met.add({name: x[counts] for name, x in rows.items()})
        self.env_steps += int(counts.sum())
        return float(reward[counts].mean())

    def learn(self, steps: int, number: int, descend: Callable[[Tensor], None]) -> dict[str, float]:
        """Minimise the loss on stored transitions.

        Args:
            number: the number of this call, for the seed of what is drawn.
            descend: makes one step down a loss.

        Returns:
            The last step's loss, and the mean of its targets.
        """
        rng = numpy_rng(*self.names, "learn", number)
        for _ in range(steps):
            rows, places, weight = self.draw(rng)
            wanted = self.targets(rows)
            chosen = self.chosen(self.network(rows["observation"]), rows)
            loss = (weight * td_loss(chosen, wanted)).mean()
            descend(loss)
            self.met.tell(places, (wanted - chosen.detach()).mean(-1).cpu().numpy())
            self.steps += 1
            if self.steps % self.settings.target_every == 0:
                self.fixed.load_state_dict(self.network.state_dict())
        return {"loss": float(loss.detach()), "value": float(wanted.mean())}

    def draw(self, rng: np.random.Generator, n: int | None = None) -> tuple[dict[str, Tensor], np.ndarray, Tensor]:
        """Transitions on the network's device, as `Transitions.draw` gives them; by default a batch."""
        rows, places, weight = self.met.draw(n or self.settings.batch, rng, self.settings.beta)
        device = next(self.network.parameters()).device
        return {name: x.to(device) for name, x in rows.items()}, places, weight.to(device)

    @torch.no_grad()
    def targets(self, rows: Mapping[str, Tensor]) -> Tensor:
        """Targets for the values of the actions in these transitions, quantiles [B, K]."""
        legal, following = rows.get("legal"), rows["following"]
        chooser = self.network(following).mean(-1) if self.settings.double else None
        wanted = target(rows["return"], rows["factor"], self.fixed(following), chooser, legal)
        return wanted if self.settings.bounds is None else wanted.clamp(*self.settings.bounds)

    @staticmethod
    def chosen(quantiles: Tensor, rows: Mapping[str, Tensor]) -> Tensor:
        """The quantiles [B, K] of the actions that were taken, from [B, A, K]."""
        return quantiles[torch.arange(len(quantiles), device=quantiles.device), rows["action"]]

    def state_dict(self) -> dict[str, Any]:
        """The transitions, the target network, and the numbers of steps."""
        fixed = {name: x.clone() for name, x in self.fixed.state_dict().items()}
        return {"met": self.met.state_dict(), "fixed": fixed, "steps": self.steps, "env_steps": self.env_steps}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state from `state_dict`."""
        self.met.load_state_dict(state["met"])
        self.fixed.load_state_dict(state["fixed"])
        self.steps, self.env_steps = int(state["steps"]), int(state["env_steps"])


def done_in(world: Any, effector: str) -> Tensor | None:
    """What was done in the rows of a world that is fed (`devmind.worlds.fed`), int64 [N]; None in any other."""
    done = getattr(getattr(world, "rules", None), "done", None)
    return None if done is None else torch.as_tensor(np.asarray(done(world.state())[effector])).long()


def legal_in(world: Any, effector: str, led_to: bool = False) -> Tensor | None:
    """Legal actions of each row, bool [N, A], by the world's Rules; None if it has no Rules, or all actions are legal.

    Args:
        led_to: for the states that the last step led to, before ended rows were reset.
    """
    if not hasattr(world, "rules"):
        return None
    reached = getattr(world, "reached", None) if led_to else None
    legal = world.rules.legal(world.state() if reached is None else reached).get(effector)
    return None if legal is None else torch.from_numpy(np.asarray(legal, bool))
