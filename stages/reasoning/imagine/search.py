"""The stage's tree search in a learned model: the rules give only the actions that are legal now."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from devmind.agent.agent import Agent
from devmind.algorithms.tree_search import Expanded, Found, Roots, gumbel_search
from devmind.worlds.boards import MnkRules
from devmind.worlds.cartpole import CartPoleRules
from stages.reasoning.imagine.head import Imagined, ImagineHead

BOARD_HEAD, PUSH_HEAD = "imagine", "imagine_push"
TOGETHER = 512
"""Searches that run at once, at most."""


@dataclass(frozen=True)
class Domain:
    """A world whose model is learned.

    Attributes:
        head: the head with the model.
        sense, effector: what it observes, and how it acts.
        rules: makes the world's Rules.
        choices: number of actions.
        discount: of the next state's value; -1 where an opponent moves there.
        scale: of a reward, so that values lie within `bounds`.
        simulations: of a search, in lessons and exams.
        n_step: rewards that a value's target sums before it uses a search's value.
        opening: random actions before the first search, at most.
    """

    head: str
    sense: str
    effector: str
    rules: Callable[[], Any]
    choices: int
    discount: float
    scale: float
    bounds: tuple[float, float]
    simulations: int
    n_step: int
    opening: int = 0

    def legal(self, rules: Any, state: Any) -> np.ndarray:
        """Which actions are legal, bool [N, choices]."""
        legal = rules.legal(state).get(self.effector)
        return np.ones((len(state), self.choices), bool) if legal is None else np.asarray(legal)


DOMAINS: Mapping[str, Domain] = {
    "tictactoe": Domain(
        BOARD_HEAD, "position", "place", lambda: MnkRules("tictactoe"), 9,
        discount=-1.0, scale=1.0, bounds=(-1.0, 1.0), simulations=32, n_step=9, opening=5,
    ),
    # A pole that never falls has the value 1.
    "cartpole": Domain(
        PUSH_HEAD, "body", "push", CartPoleRules, 2,
        discount=0.97, scale=0.03, bounds=(0.0, 1.0), simulations=8, n_step=10,
    ),
}  # fmt: skip


@dataclass
class Latents:
    """Latents float32 [N, L], as rows of a tree."""

    rows: np.ndarray

    def take(self, index: Any) -> Latents:
        """Copies of some."""
        return Latents(self.rows[index].copy())

    def put(self, index: Any, other: Latents) -> None:
        """Replace some, in place."""
        self.rows[index] = other.rows


def imagine_states(agent: Agent, domain: Domain, observed: np.ndarray) -> Imagined:
    """The agent's latent states of N single observations, without gradients."""
    output = agent.evaluate({domain.sense: torch.from_numpy(observed)}, [domain.head])[domain.head]
    assert isinstance(output, Imagined)
    return output


@torch.no_grad()
def dream(
    agent: Agent,
    domain: Domain,
    observed: np.ndarray,
    legal: np.ndarray,
    simulations: int,
    gumbel: np.ndarray | None = None,
) -> Found[Latents]:
    """Search from N observations in the learned model; values are not proven, because a model may err.

    Args:
        legal: bool [N, choices], now; in later states the policy has to know what is possible.
        gumbel: noise for exploration, as `gumbel_search` takes it.
    """
    head = agent.head(domain.head)
    assert isinstance(head, ImagineHead)

    def roots(output: Imagined) -> tuple[Latents, np.ndarray, np.ndarray]:
        value = output.value.double().cpu().numpy().clip(*domain.bounds)
        return Latents(output.latent.cpu().numpy()), output.logits.double().cpu().numpy(), value

    def expand(states: Latents, actions: np.ndarray) -> Expanded[Latents]:
        latent = torch.from_numpy(states.rows).to(agent.device)
        output, reward = head.imagine(latent, torch.from_numpy(actions).to(agent.device))
        n, earned = len(actions), domain.scale * reward.double().cpu().numpy()
        discount, over = np.full(n, domain.discount), np.zeros(n, bool)
        return Expanded(*roots(output), np.ones((n, domain.choices), bool), earned, discount, over)

    return gumbel_search(
        Roots(*roots(imagine_states(agent, domain, observed)), legal), expand, simulations, gumbel=gumbel
    )


def choose_actions(
    agent: Agent, domain: Domain, observed: np.ndarray, legal: np.ndarray, simulations: int
) -> np.ndarray:
    """The actions int64 [N] that the searches choose; with 0 simulations those of the network alone."""
    actions = []
    for start in range(0, len(observed), TOGETHER):
        rows = slice(start, start + TOGETHER)
        if simulations:
            actions.append(dream(agent, domain, observed[rows], legal[rows], simulations).action)
        else:
            logits = imagine_states(agent, domain, observed[rows]).logits.cpu().numpy()
            actions.append(np.where(legal[rows], logits, -np.inf).argmax(-1))
    return np.concatenate(actions)
