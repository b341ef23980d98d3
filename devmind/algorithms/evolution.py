"""Search rules for populations: a genetic algorithm and an evolution strategy, as functions of one generation.

Both take members [P, D], each member's own spread [P] of mutations, and fitness [P] (higher is better), and give the
next members and spreads; nothing else is carried, so a search that stops goes on exactly from these. A member whose
fitness is NaN or infinite is set aside: it has no children and pushes nothing.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from devmind.errors import ConfigError

Rule = Callable[[Tensor, Tensor, Tensor, torch.Generator], tuple[Tensor, Tensor]]
PARENTS, ELITES = 0.2, 0.02
"""Shares of the members, the best ones, that have children and that stay as they are."""


def ranked(fitness: Tensor) -> Tensor:
    """Members from the best to the worst, those set aside last; equal ones in their order.

    Raises:
        ConfigError: no fitness is finite.
    """
    if not bool(fitness.isfinite().any()):
        raise ConfigError(
            f"None of the {len(fitness)} members has a finite fitness, so none can have children. Check what the world "
            "gives as a reward, or begin with a smaller spread."
        )
    return torch.where(fitness.isfinite(), fitness, -torch.inf).argsort(descending=True, stable=True)


def genetic(members: Tensor, spreads: Tensor, fitness: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Truncation selection with elites (Such et al. 2017, "Deep neuroevolution", arXiv 1712.06567, algorithm 1).

    Elites come first, the best one foremost. A child is its parent plus Gaussian noise of its spread, which is its
    parent's times a log-normal factor (Schwefel 1981's self-adaptation).
    """
    count, finite = len(members), int(fitness.isfinite().sum())
    order = ranked(fitness)[:finite]
    elites, parents = order[: max(1, round(ELITES * count))], order[: max(1, round(PARENTS * count))]
    chosen = parents[torch.randint(len(parents), (count - len(elites),), generator=generator)]
    factors = torch.exp(0.3 * torch.randn(len(chosen), generator=generator, dtype=spreads.dtype))
    inherited = spreads[chosen] * factors
    noise = torch.randn(len(chosen), members.shape[1], generator=generator, dtype=members.dtype)
    children = members[chosen] + inherited[:, None] * noise
    return torch.cat((members[elites], children)), torch.cat((spreads[elites], inherited))


def strategy(members: Tensor, spreads: Tensor, fitness: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """A natural evolution strategy with one spread (Wierstra et al. 2014, JMLR 15, the isotropic case of section 4).

    Members are pairs around a centre, which is their mean, so that it needs no state of its own; the first member is
    the centre itself where their number is odd.
    """
    count, size, spread, centre = len(members), members.shape[1], spreads[0], members.mean(0)
    order, finite = ranked(fitness), int(fitness.isfinite().sum())
    gains = (torch.tensor(count / 2 + 1.0).log() - torch.arange(1.0, count + 1).log()).clamp_min(0)
    utility = torch.zeros(count, dtype=members.dtype)
    utility[order[:finite]] = (gains / gains.sum())[:finite].to(members.dtype) - 1 / count
    steps = (members - centre) / spread
    centre = centre + spread * utility @ steps
    rate = (3 + torch.tensor(float(size)).log()) / (5 * size**0.5)
    spread = spread * torch.exp(rate / 2 * (utility @ (steps.square().mean(1) - 1)) * size**0.5)
    return around(centre, float(spread), count, generator)


def around(centre: Tensor, spread: float, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """`count` members in mirrored pairs around `centre` [D], with the centre first if the count is odd."""
    noise = spread * torch.randn(count // 2, len(centre), generator=generator, dtype=centre.dtype)
    members = torch.cat((centre[None][: count % 2], centre + noise, centre - noise))
    return members, torch.full((count,), spread, dtype=centre.dtype)


RULES: dict[str, Rule] = {"genetic": genetic, "strategy": strategy}
