"""The lesson `beliefs`: what a belief's numbers say of a place, before the trunk is asked to make anything of it.

Where it was seen last, unless it was looked for there and not found: neither number tells that without the other, which
an encoder with a head of its own learns in seconds, and a trunk among other questions in many minutes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor
from torch.nn import functional as F

from devmind.agent.agent import Agent
from devmind.agent.tracker import SENSE
from devmind.curriculum.stage import Context
from devmind.seeding import numpy_rng
from stages.memory import hidden

HEAD = "believed"
TRAINS = (f"encoders.{SENSE}.", f"heads.{HEAD}.")
REUSE = 12
"""Updates that share their episodes."""
ROWS = 8
"""Episodes lived at a time."""


def lesson_batch(agent: Agent, context: Context, update: int, size: int) -> dict[str, Any]:
    """`size` single beliefs about what is asked for as the sense `belief`, with what can be `known`, and `asked`."""
    block = update // REUSE
    pool = hidden.episodes(agent, context, range(max(0, block - hidden.POOL + 1), block + 1), ROWS)
    rng = numpy_rng(context.seed, "beliefs", update)
    moments = hidden.alone(pool, size, hidden.ALONE_LOST, rng, hidden.named(agent))
    recalled = moments["recalled"]
    return {
        "senses": {SENSE: recalled["senses"][SENSE][:, :, 0]},
        "present": {SENSE: recalled["valid"][:, :, 0]},
        "first": moments["first"],
        "valid": moments["valid"],
        "place": moments["place"],
        "known": moments["known"],
        "asked": recalled["valid"][:, :, 0],
    }


def loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Cross-entropy with what can be known of the place, over all that something is believed of."""
    answer: Any = agent(batch, [HEAD])[HEAD]
    value = F.cross_entropy(answer.logits[batch["asked"]], batch["known"][batch["asked"]])
    right = (answer.mode() == batch["place"])[batch["asked"]]
    return value, {"believed": value.detach(), "right": right.float().mean()}
