"""The lesson `hidden`: where the named thing is, of single Moments and whole episodes in which things are hidden."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from devmind.agent.agent import Agent
from devmind.agent.batch import pad_body
from devmind.agent.tracker import entries, recall, recalled_batch
from devmind.curriculum.stage import Context
from devmind.seeding import lesson_seeds, numpy_rng
from devmind.worlds.nursery import hiding
from stages.memory.living import delays, lived, of_delay
from stages.memory.parts import NAMED
from stages.memory.things import NAMES

KINDS = ("unmoved", "moved", "a-not-b", "swapped", "unmoved", "moved", "unmoved", "swapped")
"""The turns of the lesson. In half of them nothing moves unseen: where a thing was seen last is the likeliest place.
With fewer of the others, a quarter of what was believed lost lay where it had been seen, and nothing was learned."""
REUSE = 3
"""Updates that share their episodes; each asks other questions."""
BLANK, ASKED = 0.25, 0.5
"""Share of rows without beliefs, and of ticks with a question."""
ALONE, POOL = 32, 8
"""Single Moments asked beside each row; from how many of the latest blocks of episodes these and the rows are drawn: a
block is of one kind, and a step of one kind alone taught what it was, not what to look at."""
LOST, ALONE_LOST = 0.8, 0.5
"""From which share of belief in `elsewhere` on a thing counts as lost; how many of the single Moments ask for such."""
ELSEWHERE = -2
"""Its place among a belief's numbers."""


Lives = dict[str, Tensor]
_KEPT: WeakKeyDictionary[Agent, tuple[tuple[int, int], dict[int, Lives]]] = WeakKeyDictionary()


def episodes(agent: Agent, context: Context, blocks: range, size: int) -> list[Lives]:
    """`size` whole episodes of one level and delay for each block, by (seed, block) and the agent's fixed heads.

    sight, body [B, T, ...]; values [B, T, 8, 15], age_s and valid [B, T, 8]; places [B, T, 2] and what can be known
    of them [B, T, 2, 3]; colours [B, 2]. Blocks that are asked for again are not lived again.
    """
    key = (context.seed, size)
    kept = _KEPT.get(agent)
    known = kept[1] if kept is not None and kept[0] == key else {}
    known = {b: known[b] if b in known else _episodes(agent, context, b, size) for b in blocks}
    _KEPT[agent] = (key, known)
    return list(known.values())


def _episodes(agent: Agent, context: Context, block: int, size: int) -> dict[str, Tensor]:
    kind = KINDS[block % len(KINDS)]
    every = delays(kind)
    delay = every[block // len(KINDS) % len(every)] if context.config.size != "tiny" else every[0]
    seeds = of_delay(lesson_seeds(20 * size, context.seed, "hidden", block), kind, delay)[:size]
    plan, rows = hiding.plan(seeds, kind), dict[str, list[Any]]()
    for number, tick in enumerate(lived(agent, context, kind, seeds)):
        told = dict(zip(("values", "age_s", "valid"), entries(tick.beliefs, len(NAMES)), strict=True))
        seen = {"sight": tick.senses["sight"], "body": pad_body(tick.senses["body"])}
        known = plan.known(np.full(len(seeds), number)).astype(np.float32)
        for name, value in (seen | told | {"places": tick.truth["places"], "known": known}).items():
            rows.setdefault(name, []).append(value)
        colours = tick.truth["colour"][:, : hiding.THINGS]
    stacked = {name: torch.from_numpy(np.stack(values, 1)) for name, values in rows.items()}
    return stacked | {"colours": torch.from_numpy(colours)}


def lesson_batch(
    agent: Agent, context: Context, update: int, size: int, whole: bool = True, steps: int | None = None
) -> dict[str, Any]:
    """Single Moments of the latest episodes under the name `alone`, and if `whole` also episodes with their questions.

    Behind `steps` of its lesson no more episodes are lived, only other questions asked: rehearsals are far apart, and
    each would have to live through all of its episodes.

    `place` int64 [B, T] is where the asked thing is and `known` [B, T, 3] what can be known of it, `asked` bool [B, T]
    where there is a question, `lost` where what is asked for is believed to be elsewhere. A quarter of the whole rows
    come without beliefs, so that the trunk also learns to remember by itself.
    """
    block = (update if steps is None else min(update, steps - 1)) // REUSE
    pool = episodes(agent, context, range(max(0, block - POOL + 1), block + 1), size)
    rng, told = numpy_rng(context.seed, "hidden", "questions", update), named(agent)
    batch = {"alone": alone(pool, size * ALONE, ALONE_LOST, rng, told)}
    if not whole:
        return batch
    lives, valid = _drawn(pool, size, rng)
    gone = absent(lives) & valid[..., None]
    n, ticks = valid.shape
    thing = np.where(gone.any(-1), gone.argmax(-1), rng.integers(0, hiding.THINGS, (n, ticks)))
    asked = (gone.any(-1) | (rng.random((n, ticks)) < ASKED)) & valid
    batch |= _batch(lives, asked, thing, np.asarray(rng.random(n) < BLANK), told)
    return batch | {"lost": torch.from_numpy(gone.any(-1)), "valid": torch.from_numpy(valid)}


def _drawn(pool: Sequence[Lives], n: int, rng: np.random.Generator) -> tuple[Lives, np.ndarray]:
    """`n` whole episodes out of all blocks of the pool, and where they are not over yet, bool [n, T]."""
    picked = [(pool[b], int(rng.integers(len(pool[b]["colours"])))) for b in rng.integers(0, len(pool), n)]
    ticks = np.array([len(lives["places"][row]) for lives, row in picked])

    def drawn(name: str, lives: Lives, row: int) -> Tensor:
        value = lives[name][row]  # shorter ones go on with their last tick, which nobody asks about
        return value if name == "colours" else value[torch.arange(int(ticks.max())).clamp(max=len(value) - 1)]

    together = {name: torch.stack([drawn(name, *each) for each in picked]) for name in pool[0]}
    return together, np.arange(ticks.max()) < ticks[:, None]


def absent(lives: Lives) -> np.ndarray:
    """Which of the two things are believed to be no longer where they were seen last, bool [B, T, 2].

    Those Moments are few, and what is to be learned in them is another answer: they are asked about more often.
    """
    values, colours = lives["values"].numpy(), lives["colours"].numpy()
    mine = np.take_along_axis(values[..., : len(NAMES)], colours[:, None, None], -1)
    return np.asarray(((mine * values[..., ELSEWHERE, None]).max(2)) >= LOST)


def alone(pool: Sequence[Lives], n: int, lost: float, rng: np.random.Generator, told: np.ndarray) -> dict[str, Any]:
    """`n` single Moments without their pictures, each with a question; `lost` of them for what is lost."""
    every, gone = (np.concatenate(part) for part in zip(*map(_askable, pool, range(len(pool))), strict=True))
    picked = every[rng.integers(0, len(every), n)]
    if len(gone):
        some = rng.random(n) < lost
        picked[some] = gone[rng.integers(0, len(gone), int(some.sum()))]
    parts: dict[str, list[Tensor]] = {}
    for number, lives in enumerate(pool):
        rows, at = picked[picked[:, 3] == number, :2].T
        for name, value in lives.items():
            if name != "sight":
                parts.setdefault(name, []).append(value[rows] if name == "colours" else value[rows, at][:, None])
    joined = {name: torch.cat(values) for name, values in parts.items()}
    thing = picked[np.argsort(picked[:, 3], kind="stable"), 2]
    return _batch(joined, np.ones((n, 1), bool), thing[:, None], np.zeros(n, bool), told)


def _askable(lives: Lives, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Row, tick (not the first) and thing of all that can be asked, and of what is lost: int64 [m, 4] with `number`."""
    lost = absent(lives)
    later = np.ones_like(lost)
    later[:, 0] = False
    every, gone = (
        np.pad(np.argwhere(which), ((0, 0), (0, 1)), constant_values=number) for which in (later, lost & later)
    )
    return every, gone


@torch.no_grad()
def named(agent: Agent) -> np.ndarray:
    """What the head says each of the eight colours' names names, [8, 8]."""
    words = torch.from_numpy(NAMES)[:, None]
    here = torch.ones(len(NAMES), 1, dtype=torch.bool)
    batch = {"senses": {"words": words}, "present": {"words": here}, "first": here, "valid": here}
    told: Any = agent(batch, [NAMED])[NAMED]
    return np.asarray(told.probabilities()[:, 0].float().cpu())


def _batch(
    lives: Mapping[str, Tensor], asked: np.ndarray, thing: np.ndarray, blank: np.ndarray, told: np.ndarray
) -> dict[str, Any]:
    row, tick = np.indices(thing.shape)
    colour = lives["colours"].numpy()[row, thing]
    words = np.where(asked[..., None], NAMES[colour], 0)
    every = tuple(lives[name].numpy() for name in ("values", "age_s", "valid"))
    values, age_s, valid = recall(every, told[colour] * asked[..., None])  # type: ignore[arg-type]
    here = torch.ones(asked.shape, dtype=torch.bool)
    senses = {name: lives[name] for name in ("sight", "body") if name in lives} | {"words": torch.from_numpy(words)}
    first = torch.zeros_like(here)
    first[:, 0] = True
    valid = valid & ~blank[:, None, None]
    return {
        "senses": senses,
        "present": {name: here for name in senses} | {"words": torch.from_numpy(asked)},
        "first": first,
        "valid": here,
        "recalled": recalled_batch(*(torch.from_numpy(value) for value in (values, age_s, valid))),
        "place": lives["places"][row, tick, thing],
        "known": lives["known"][row, tick, thing],
        "asked": torch.from_numpy(asked),
    }


def loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Cross-entropy with what can be known, where there is a question: of Moments alone, and of whole episodes.

    Where a thing went unseen nobody can tell: taught by the truth, the trunk learned the lesson's rooms by heart.
    In episodes what is lost counts by itself: it is asked for in a few Moments, and in all others the answer is where
    it was seen last.
    """
    found = _told(agent, batch["alone"], {"alone": batch["alone"]["asked"]})
    if "senses" in batch:
        asked, lost = batch["asked"], batch["lost"]
        found |= _told(agent, batch, {"episodes": asked & ~lost, "lost": asked & lost})
    right = {f"right {name}": share for name, (_, share) in found.items()}
    losses = {name: value for name, (value, _) in found.items()}
    return torch.stack(list(losses.values())).sum(), {k: v.detach() for k, v in losses.items()} | right


def _told(agent: Agent, batch: Mapping[str, Any], asked: Mapping[str, Tensor]) -> dict[str, tuple[Tensor, Tensor]]:
    """The loss and the share that is right over each part of what is asked, if there is any of it."""
    logits = agent(batch, ["place"])["place"].logits
    found = {}
    for name, which in asked.items():
        if which.any():
            said, place = logits[which], batch["place"][which]
            found[name] = F.cross_entropy(said, batch["known"][which]), (said.argmax(-1) == place).float().mean()
    return found
