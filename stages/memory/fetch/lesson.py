"""The lesson `fetch`: reach by the trunk for a thing that was in view and is hidden, as far as beliefs tell its place.

The teacher is the agent's own arc, shown the last picture in which the thing was visible: the hand has to move as if it
still were. So moving need not be learned anew; the trunk only has to hold the place where the arc's copy reads it.

Episodes are played once, and their encoded senses and beliefs are kept: neither encoders nor tracker learn here, and
hidden things stay where they are. The lesson asks about single Moments of these episodes: for any of the things, with
the hand anywhere, as long as nothing shows the hand. So every state that the agent may come to is taught, without
playing its own policy (DAgger: Ross et al., 2011), and a batch has as many places and hands as rows. After a third of
the steps whole episodes follow, to teach the trunk to ignore the rest of the window. Things in view are asked for too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from devmind.agent.agent import Agent
from devmind.agent.batch import clip, to_device
from devmind.agent.encoders import Encoded
from devmind.agent.output import masked_mean
from devmind.agent.taps import Perceived
from devmind.agent.tracker import recall, recalled_batch
from devmind.curriculum.stage import Context
from devmind.learners.gradient import sum_losses
from devmind.learners.muon import MuonLearner
from devmind.seeding import numpy_rng
from devmind.worlds.nursery.fetching import SEEN_TICKS
from devmind.worlds.nursery.state import HAND_HIGH, HAND_LOW
from stages.memory.fetch.episodes import (
    ARC,
    CLEAR_M,
    HEAD,
    HIDDEN,
    LAST,
    NAME,
    PRESENT,
    SEEN,
    TICKS,
    TOKENS,
    Lives,
    draw_lives,
    lives,
    tokens_of,
)
from stages.memory.permanence.detections import NAMES
from stages.memory.permanence.lesson import name_colours

ANSWERS = (f"heads.{HEAD}.more.", f"heads.{HEAD}.inner.answer.")
"""Parameters that read the readout, the place and the body; those that read the picture stay as reflex taught them."""
PLAYED, REUSE, POOL = 16, 12, 12
"""Episodes a block, updates that share a block, and the number of latest blocks that episodes are drawn from."""
ALONE, WHOLE_FROM, WHOLE_EVERY = 20, 1 / 3, 2
"""Single Moments for each whole episode; the share of the steps before whole episodes begin, and their period."""
IN_VIEW, BLANK = 0.35, 0.25
"""Share of single Moments with things in view, and the share of these without recalled beliefs."""
NEAR = 0.5
"""Share of hidden hands in front of the thing; the others are anywhere."""
ANYWHERE_M = (0.2, -0.4, -0.5), (0.65, 0.4, 0.1)
HAND, TOUCHES = slice(3, 6), 6
"""Columns of the sense `body`."""
HAND_SCALE_M = 0.75
"""Metres per unit of proprioception."""


class FetchLearner(MuonLearner):
    """Muon on the trunk's matrices; the answering layers of reflex's head learn at the rate of copies in reflex."""

    muon_rate = 0.03
    answer_rate = 5e-4

    def kind(self, name: str, parameter: nn.Parameter) -> str:
        """The parameter's group; answering layers have their own."""
        return "answer" if name.startswith(ANSWERS) else super().kind(name, parameter)

    def options(self) -> dict[str, Mapping[str, Any]]:
        """Answers have their own rate, though an earlier stage's: at a tenth of it the hand learned to rest."""
        rate = self.answer_rate / self.of_stage(ANSWERS[0])
        return super().options() | {"answer": {"rate": rate, "weight_decay": 0.0}}


def lesson_batch(agent: Agent, context: Context, update: int, size: int, steps: int) -> dict[str, Any]:
    """Single Moments of the latest episodes as `hidden` and `seen`, and at times `size` whole ones of both.

    Each part has `seen` (Perceived), `recalled`, `first`, `hand` [B, T, 4], the arc's command if the thing were seen,
    and `asked` bool [B, T]. After `steps` no more episodes are played: rehearsals are far apart, and each would have to
    play all of its own.
    """
    block, many = min(update, steps - 1) // REUSE, PLAYED if context.config.size != "tiny" else 4
    blocks = range(max(0, block - POOL + 1), block + 1)
    hidden, seen = (lives(agent, context, level, blocks, many) for level in (HIDDEN, SEEN))
    rng, name_probs, n = numpy_rng(context.seed, NAME, "questions", update), name_colours(agent), ALONE * size
    in_view = round(IN_VIEW * n)
    parts = {
        "hidden": alone(agent, hidden, n - in_view, rng, name_probs, True),
        "seen": alone(agent, seen, in_view, rng, name_probs),
    }
    if update >= WHOLE_FROM * steps and update % WHOLE_EVERY == 0:
        parts |= {
            "whole hidden": whole(agent, hidden, size - size // 2, rng, True),
            "whole seen": whole(agent, seen, max(1, size // 2), rng),
        }
    return parts


def alone(
    agent: Agent, pool: Sequence[Lives], n: int, rng: np.random.Generator, name_probs: np.ndarray, hidden: bool = False
) -> dict[str, Any]:
    """`n` single Moments of any lives, each with a question for any of the things.

    Args:
        name_probs: from `named`.
        hidden: Moments are those in which nothing is seen, and hands are anywhere.
    """
    row, tick = rng.integers(0, len(pool[0]["target"]), n), rng.integers(SEEN_TICKS if hidden else 1, TICKS, n)
    moments, rows = draw_lives(pool, np.sort(rng.integers(0, len(pool), n)), row, tick), np.arange(n)
    thing = (rng.random(moments["things"].shape) * moments["things"].numpy()).argmax(1)
    colour, place = moments["colour"].numpy()[rows, thing], moments["place"].numpy()[rows, thing]
    hand, body, asked = moments["hand"].numpy(), moments["body"].numpy(), ~moments["touched"].numpy()
    values, age_s, valid = recall(tuple(moments[x].numpy() for x in ("values", "age_s", "valid")), name_probs[colour])  # type: ignore[arg-type]
    if hidden:
        hand, body, asked = hands(place, rng), body.copy(), np.ones(n, bool)
        body[:, HAND], body[:, TOUCHES] = hand / HAND_SCALE_M, 0.0
    else:
        valid = valid & (rng.random(n) >= BLANK)[:, None]
    felt = clip({"body": torch.from_numpy(body)[:, None], "words": torch.from_numpy(NAMES[colour])[:, None]})
    with torch.no_grad():
        seen = agent.encode_batch(to_device(felt, agent.device))
    rest = tokens_of(moments, agent.device, but=tuple(seen.encoded))
    seen.encoded |= {name: encoded.map(lambda x: x[:, None]) for name, encoded in rest.items()}
    return {
        "seen": seen,
        "recalled": recalled_batch(*(torch.from_numpy(value)[:, None] for value in (values, age_s, valid))),
        "first": felt["first"],
        "hand": as_if_seen(agent, seen.encoded, moments if hidden else None),
        "asked": torch.from_numpy(asked)[:, None],
    }


def hands(place: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Where hands may be that go to `place` [n, 3]: NEAR of them before it, the others anywhere, [n, 3]."""
    n = len(place)
    before = place + rng.normal(0, 0.04, (n, 3))
    before[:, 0] = rng.uniform(CLEAR_M - 0.05, np.maximum(CLEAR_M, place[:, 0]))
    anywhere = rng.uniform(*ANYWHERE_M, (n, 3))
    return np.asarray(np.where(rng.random((n, 1)) < NEAR, before, anywhere).clip(HAND_LOW, HAND_HIGH))


def whole(
    agent: Agent, pool: Sequence[Lives], n: int, rng: np.random.Generator, hidden: bool = False
) -> dict[str, Any]:
    """`n` whole lives, from the question on until something is touched."""
    row = rng.integers(0, len(pool[0]["target"]), n)
    episodes = draw_lives(pool, np.sort(rng.integers(0, len(pool), n)), row)
    tokens = tokens_of(episodes, agent.device)
    asked = episodes["asked"] & (episodes["touched"].cumsum(1) == 0)
    first = torch.zeros_like(asked)
    first[:, 0] = True
    return {
        "seen": Perceived(tokens),
        "recalled": recalled_batch(*(episodes[f"given {name}"] for name in ("values", "age_s", "valid"))),
        "first": first,
        "hand": as_if_seen(agent, tokens, episodes if hidden else None),
        "asked": asked,
    }


@torch.no_grad()
def as_if_seen(agent: Agent, encoded: Mapping[str, Encoded], last: Lives | None) -> Tensor:
    """The command [B, T, 4] of the arc on what was encoded [B, T, ...], in place of the picture that of `last`."""
    senses, shape = dict(encoded), encoded["sight"].present.shape[:2]
    if last is not None:
        tokens, present = (
            last[LAST + part].to(agent.device)[:, None].expand(*shape, *last[LAST + part].shape[1:])
            for part in (TOKENS, PRESENT)
        )
        senses["sight"] = Encoded(tokens, present)
    return agent.run_heads([ARC], senses)[ARC].mode().clamp(-1, 1)


def loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Error of the hand's command, in each part of a batch."""
    losses = {name: _off(agent, part) for name, part in batch.items()}
    return sum_losses(losses)


def _off(agent: Agent, part: Mapping[str, Any]) -> Tensor:
    recalled = agent.encode_recalled(part["recalled"])
    seen = agent.think(part["seen"], part["first"], recalled=recalled)
    movement = agent.run_heads([HEAD], seen)[HEAD].mode()
    return masked_mean((movement - part["hand"]).abs().mean(-1), part["asked"])
