"""Strides of a plan: whether one stride leads from here to there, and the command for it.

The critic marks plans by how sound their strides are (MCSS: Lu et al. 2025, "What makes a good diffusion planner for
decision making?"); inverse dynamics give the command. Both are small networks on pairs of places in a maze.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from devmind.agent.heads import Head
from devmind.agent.output import masked_mean
from devmind.algorithms.diffusion import SPREAD_OUT, spread_out
from stages.planning.places import SPREAD, scaled, unscaled

STANDING, CRITICISED = 0.02, 4
"""Length below which a stride counts as standing; strides of a plan that teach the critic."""
LENGTH_PRICE = 1.0
"""What a unit of length costs a plan in the critic's marks."""


class StrideHead(Head):
    """A head with a critic of strides, `sound`, inverse dynamics, `dynamics`, and the names of strides, `names`."""

    guidance: float = 0.0
    """How far the critic's gradient pulls the denoised points in each step; 0: not at all."""

    def add_strides(self, hidden: int, words: int) -> None:
        """Make the networks, `hidden` wide. Without words strides have no names."""
        seen = 6 * SPREAD_OUT + 2 + self.inlet.width
        self.dynamics, self.sound = mlp(seen, hidden, 2), mlp(seen, hidden, 1)
        if words:
            self.names = mlp(2 * seen, hidden, words)

    def marks(self, plans: Tensor, maze: Tensor) -> Tensor:
        """The critic's marks [B, N] of plans [B, N, H, 2]: log probability that all strides can be walked, less length.

        The critic has learned to tell strides of the data from the same ones in other directions, so it finds a stride
        through a wall unlikely. It knows nothing of the goal, at which every plan ends.
        """
        strides = (plans[..., 1:, :] - plans[..., :-1, :]).norm(dim=-1)
        logits = self.soundness(plans[..., :-1, :], plans[..., 1:, :], maze[:, None, None])
        moving = strides > STANDING
        return (F.logsigmoid(logits) * moving).sum(-1) - LENGTH_PRICE * strides.sum(-1)

    def guide(self, maze: Tensor) -> Callable[[Tensor], Tensor]:
        """A function that pulls denoised plans [B, H, 2] along the gradient of what the critic finds sound."""

        def pulled(clean: Tensor) -> Tensor:
            # A life is stepped in inference mode, which records nothing for a gradient.
            with torch.inference_mode(False), torch.enable_grad():
                plan, which = unscaled(clean.clone()).requires_grad_(), maze.clone()
                logits = self.soundness(plan[:, :-1], plan[:, 1:], which[:, None])
                moving = (plan[:, 1:] - plan[:, :-1]).detach().norm(dim=-1) > STANDING
                (pull,) = torch.autograd.grad((F.logsigmoid(logits) * moving).sum(), plan)
            return clean + self.guidance * pull / SPREAD

        return pulled

    def soundness(self, here: Tensor, there: Tensor, maze: Tensor) -> Tensor:
        """Log odds [...] that one stride leads from `here` to `there` [..., 2]."""
        return self.sound(self._pair(here, there, maze)).squeeze(-1)

    def inverse(self, here: Tensor, there: Tensor, maze: Tensor) -> Tensor:
        """The command [..., 2] that leads from `here` towards `there`."""
        return self.dynamics(self._pair(here, there, maze))

    def moves(self, plans: Tensor, maze: Tensor) -> Tensor:
        """Logits [..., H, words] of the move at each point of plans [..., H, 2]: of the stride that begins there, and,
        as a stride may cross two borders, of the one before."""
        before = torch.cat((plans[..., :1, :], plans[..., :-1, :]), -2)
        behind = torch.cat((plans[..., 1:, :], plans[..., -1:, :]), -2)
        strides = (self._pair(before, plans, maze), self._pair(plans, behind, maze))
        return self.names(torch.cat(strides, -1))

    def _pair(self, here: Tensor, there: Tensor, maze: Tensor) -> Tensor:
        here, there = scaled(here), scaled(there)
        ends = torch.cat((spread_out(here), spread_out(there), spread_out((here + there) / 2)), -1)
        return torch.cat((ends, 4 * (there - here), maze.expand(*here.shape[:-1], maze.shape[-1])), -1)

    def critic_loss(self, plan: Tensor, imagined: Tensor, maze: Tensor, turn: Tensor) -> Tensor:
        """Loss of telling strides of the data from the same ones turned at random (noise contrastive: Gutmann,
        Hyvärinen 2010), and from those that the planner imagined in their place."""
        strides = (plan[:, 1:] - plan[:, :-1]).norm(dim=-1) > STANDING
        number = (turn[0] * strides.sum(-1, keepdim=True)).long()[..., None].expand(-1, -1, 2)  # they come first
        here, there, from_, to = (way.gather(1, number + k) for way in (plan, imagined) for k in (0, 1))
        way, angle = there - here, 2 * torch.pi * turn[1]
        x, y = way.unbind(-1)
        turned = torch.stack((angle.cos() * x - angle.sin() * y, angle.sin() * x + angle.cos() * y), -1)
        real, false, drawn_logits = (
            self.soundness(begin, end, maze[:, None])
            for begin, end in ((here, there), (here, here + turned), (from_, to))
        )
        moving = strides.any(-1)
        return 0.1 * masked_mean(F.softplus(-real) + 0.5 * (F.softplus(false) + F.softplus(drawn_logits)), moving)


def mlp(n_in: int, hidden: int, n_out: int) -> nn.Sequential:
    """A network with two hidden layers."""
    layers = [nn.Linear(n_in, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, n_out)]
    return nn.Sequential(*layers)
