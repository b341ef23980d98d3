"""The lesson `new_words`: to use a memory of one look at a thing, and of the word that was said with it.

What is learned is no word, since in every life the words are others: it is to compare what is looked at with what
comes to mind, and point at the memory that fits ("what is that?", the head `recognised`: its word is what is said); and
to look for what was seen when a word was taught, and point at it in the picture ("where is the zib?", the head
`sought`). Of some that are looked at nothing was taught, and then no memory fits.

What comes to mind is what `devmind.acting.recall` would bring: what a name in the question stands for first, then what
looks most alike. The two heads learn, and nothing else: what they read of a memory passed through the trunk as it is,
so a trunk that lets tokens through serves as well. Each batch goes through the trunk once, and the heads take several
small steps on what came of it and of those before it: a pass of the trunk costs as much as fifty of the heads' steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from devmind.acting.taught_words import WHAT, teaching, where
from devmind.agent.agent import Agent
from devmind.agent.batch import RECALLED_BUDGET, encode_text, encode_words, map_tensors, to_device
from devmind.agent.output import masked_mean
from devmind.agent.taps import RECALLED, Tapped, read_tap, sense_of, tap_parts
from devmind.algorithms.ridge import fit_ridge
from devmind.curriculum.stage import Batches, Context, Lesson, Rehearsed, Scalars
from devmind.learners.gradient import TINY_ROWS, GradientLearner
from devmind.seeding import lesson_seeds, numpy_rng
from stages.language.caregiver.scene import TAUGHT
from stages.language.eye import COLOUR, FORM
from stages.language.name.scenes import THINGS
from stages.language.new_words.lives import Lives, lives
from stages.language.parts import DETAIL, RECOGNISED, SIGHT, SOUGHT, TEXT, WORDS
from stages.language.seeing import Page, as_read, batch_of, cells

NAME = "new_words"
STEPS = {"tiny": 8, "nursery": 600, "child": 1200, "adult": 2400}
ROWS, EXAMPLES = 32, 8
"""Lives of a batch, and batches of lives on which it begins."""
KEPT, AGAIN = 24, 3
"""Batches that are learned from, the newest ones; and steps of an update behind the first, each on one of them."""
LIKE_UNTIL = 0.5
"""From this share of the lesson on, what the head `sought` makes of a memory need not be what the eye finds."""
STRANGE = 0.35
"""Of those who are asked what they look at, the share to whom it was never shown before."""
YOUNGEST_S, OLDEST_S = 3.0, 1e6
_NAMED = 10.0
"""More than any likeness: what is named comes first."""


def lesson(context: Context) -> Lesson:
    """The lesson as data."""

    def make_batches(agent: Agent, context: Context, steps: int) -> Batches:
        rows = context.rows(_rate(context)[0])
        return Batches(lambda update: lesson_batch(context, update, rows), steps, prefetch=True)

    # It trains two heads that nothing else has a part in, so there is nothing to rehearse.
    return Lesson(
        NAME, ComparingLearner, make_batches, STEPS[context.config.size], 2.5, rehearsal_every=0, skills=(NAME,),
        control=ComparingLearner,
    )  # fmt: skip


class ComparingLearner(GradientLearner):
    """Begins with a comparison in closed form: `looked` of both heads is the ridge regression, on memories of lessons,
    of what the eye finds in their pictures on what the trunk makes of them. Found step by step it took longer than all
    that is learned behind it.

    Attributes:
        kept: what the heads read of the newest batches (`read`).
    """

    def __init__(self, agent: Agent, context: Context) -> None:
        super().__init__(agent, loss, seed=context.seed, learning_rate=_rate(context)[1], trains=trained(agent))
        self.context = context
        self.kept: list[dict[str, Any]] = []

    def begin(self, step: int) -> None:
        """A lesson that goes on where it was stopped, or in another round, has begun already."""
        if step == 0 and not self.again:
            start_by_regression(self.agent, self.context)
        super().begin(step)

    def update(self, batch: Any, step: int) -> Scalars:
        """A step on a new batch, which is what is told, and AGAIN steps on batches that are kept; which, follows from
        the step.
        """
        if isinstance(batch, Rehearsed):
            return super().update(batch, step)
        self.set_rates(step)
        like = max(0.0, 1 - step / max(1.0, LIKE_UNTIL * self.steps))
        self.kept = [*self.kept, read(self.agent, batch)][-KEPT:]
        value, scalars = loss_of(self.agent, self.kept[-1], like)
        self.descend(value)
        for at in numpy_rng(self.seed, NAME, "again", step).integers(len(self.kept), size=AGAIN).tolist():
            self.descend(loss_of(self.agent, self.kept[at], like)[0])
        return {"loss": value.detach(), **scalars}

    def state_dict(self) -> dict[str, Any]:
        """The optimizer's state, and what is kept."""
        return super().state_dict() | {"kept": list(self.kept)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on with those."""
        super().load_state_dict(state)
        self.kept = [to_device(one, self.agent.device) for one in state["kept"]]


@torch.no_grad()
def start_by_regression(agent: Agent, context: Context) -> None:
    """Fit `looked` of both heads on EXAMPLES batches of lives that no step shows."""
    made, shown = [], []
    for number in range(1 if context.config.size == "tiny" else EXAMPLES):
        batch = lesson_batch(context, -1 - number, _rate(context)[0])
        batch = to_device(as_read(agent, batch), agent.device)
        recalled, _, codes = brought_back(agent, batch)
        seen = agent.perceive({**batch, "recalled": recalled}, [agent.tap_of(SOUGHT)])
        here = recalled["valid"][:, 0]
        made.append(seen.of_senses[RECALLED].tokens[:, 0][here].cpu())
        shown.append(codes[here].cpu())
    fitted = fit_ridge(torch.cat(made).numpy(), torch.cat(shown).numpy())
    for name in (SOUGHT, RECOGNISED):
        looked: Any = agent.head(name).looked
        looked.weight.copy_(torch.from_numpy(fitted.weights.T))
        looked.bias.copy_(torch.from_numpy(fitted.intercept))


def _rate(context: Context) -> tuple[int, float]:
    """Rows of a batch and learning rate, which the configuration may change."""
    return context.changed(NAME, TINY_ROWS if context.config.size == "tiny" else ROWS, 1e-3)


def trained(agent: Agent) -> tuple[str, ...]:
    """The two heads that compare."""
    return tuple(f"heads.{head}." for head in (SOUGHT, RECOGNISED))


def lesson_batch(context: Context, update: int, rows: int) -> dict[str, Any]:
    """`rows` lives of pairs that are taught: in every second one the child is asked what it looks at, else where.

    Args:
        update: of the lesson; below 0 lives that no update shows.

    Returns:
        As `batch_of`, and `recalled` with all THINGS memories of each life; `shown` int64 [N, THINGS]: the cell in
        which each memory has its thing; `named` and `unknown` bool [N, THINGS]: which of them the question names, and
        which was never shown; `copied` int64 [N]: the one that is looked at, RECALLED_BUDGET where none is of it, -1
        where that is not asked.
    """
    what = np.arange(rows) % 2 == 0
    part: tuple[int | str, ...] = ("begins", -update) if update < 0 else (update,)
    seeds = lesson_seeds(rows, context.seed, NAME, *part)
    of = lives(context, seeds, TAUGHT, TAUGHT, what, exam=False)
    rng = numpy_rng(context.seed, NAME, update)
    target = np.arange(THINGS) == of.met.target[:, None]
    pages = [Page(WHAT if asked else where(word)) for asked, word in zip(what, of.asked, strict=True)]
    batch = batch_of(of.met, pages, rng, target & ~what[:, None])
    strange = what & (rng.random(rows) < STRANGE)
    ages = np.exp(rng.uniform(np.log(YOUNGEST_S), np.log(OLDEST_S), (rows, THINGS)))
    return batch | {
        "recalled": memories(of, ages),
        "shown": torch.from_numpy(cells(of.looks.boxes[:, 0]).reshape(rows, THINGS)),
        "named": torch.from_numpy(target & ~what[:, None]),
        "unknown": torch.from_numpy(target & strange[:, None]),
        "copied": torch.from_numpy(np.where(strange, RECALLED_BUDGET, np.where(what, of.met.target, -1))),
    }


def memories(of: Lives, age_s: np.ndarray) -> dict[str, Any]:
    """What each life keeps of its things, as what was recalled comes in a Batch: [N, 1, THINGS, ...]."""
    rows, things = of.words.shape
    said = [encode_text(teaching(word)) for word in of.words.reshape(-1).tolist()]
    text = np.stack([np.pad(each, (0, max(map(len, said)) - len(each))) for each in said]).reshape(rows, things, -1)
    words = np.stack([encode_words(word) for word in of.words.reshape(-1).tolist()]).reshape(rows, things, -1)
    here = torch.ones(rows, 1, things, dtype=torch.bool)
    senses = {SIGHT: of.taught, TEXT: text, WORDS: words}
    return {
        "senses": {name: torch.from_numpy(value)[:, None] for name, value in senses.items()},
        "present": dict.fromkeys(senses, here),
        "valid": here,
        "age_s": torch.from_numpy(age_s).float()[:, None],
    }


def taught(context: Context, n: int) -> np.ndarray:
    """Lives of lessons, int64 [about n]."""
    seeds = lesson_seeds(n, context.seed, NAME, "episodes")
    return np.concatenate([
        lives(context, part, TAUGHT, TAUGHT, np.arange(len(part)) % 2 == 0, exam=False).episodes()
        for part in np.array_split(seeds, -(-n // 500))
    ])  # fmt: skip


def loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """`loss_of` a batch of lives."""
    return loss_of(agent, read(agent, batch))


@torch.no_grad()
def read(agent: Agent, batch: Mapping[str, Any]) -> dict[str, Any]:
    """What both heads read of each of N lives, which no lesson of theirs changes, and what is right there.

    Returns:
        `tokens` [N, K, D], `present` bool [N, K] and `maps` of the heads' tap; `memories` [N, THINGS, D] and which of
        them are `here`, bool [N, THINGS]; `shown` [N, THINGS, C] and `place` int64 [N] of `brought_back`; `asked` bool
        [N]: whether a memory is to be pointed at; `pointed` [N, 64] as in the batch.
    """
    batch = as_read(agent, batch)
    recalled, place, shown = brought_back(agent, batch)
    tap = agent.tap_of(SOUGHT)
    seen = agent.perceive({**batch, "recalled": recalled}, [tap])
    tapped = read_tap(tap, seen, {of: agent.tokens_of(of) for part in tap_parts(tap) if (of := sense_of(part))})
    assert tapped is not None, "each life has a page, a picture and memories"
    alone = tapped.map(lambda x: x[:, 0])
    found = {
        "tokens": alone.tokens, "present": alone.present, "maps": dict(alone.maps),
        "memories": seen.of_senses[RECALLED].tokens[:, 0], "here": recalled["valid"][:, 0], "shown": shown,
        "place": place, "asked": batch["copied"] >= 0, "pointed": batch["pointed"][:, 0],
    }  # fmt: skip
    # As they come back from a checkpoint: products of other strides are rounded otherwise.
    return map_tensors(found, lambda x: x.contiguous())


def loss_of(agent: Agent, lives: Mapping[str, Any], like: float = 1.0) -> tuple[Tensor, dict[str, Tensor]]:
    """Cross-entropy of the memory that is pointed at, where that is asked, and of the cell, where that is; and how far
    what the heads make of each memory is from what the eye finds in its picture.

    Args:
        lives: of `read`.
        like: how much the last counts for the head `sought`: it may find better by what tells things apart than by
            what they look like, and is not asked whether it knows them.
    """
    sought: Any = agent.head(SOUGHT)
    recognised: Any = agent.head(RECOGNISED)
    unlike = [
        masked_mean(
            F.mse_loss(head.looked(lives["memories"]), lives["shown"], reduction="none").mean(-1), lives["here"]
        )
        for head in (sought, recognised)
    ]
    value, asked, pointed = (like * unlike[0] + unlike[1]) / 2, lives["asked"], lives["pointed"]
    scalars = {"unlike": torch.stack(unlike).mean().detach()}
    if asked.any():
        logits, wanted = recognised(_rows(lives, asked)).logits, lives["place"][asked]
        nats = F.cross_entropy(logits, wanted)
        value = value + nats
        scalars |= {"says": nats.detach(), "said right": (logits.argmax(-1) == wanted).float().mean()}
    if (points := pointed.any(-1)).any():
        output = sought(_rows(lives, points))
        nats = output.loss(pointed[points])
        found = pointed[points].gather(-1, output.mode()[..., None]) > 0
        value = value + nats
        scalars |= {"points": nats.detach(), "cell right": found.float().mean()}
    return value, scalars


def _rows(lives: Mapping[str, Any], rows: Tensor) -> Tapped:
    """What a head reads of those of the lives, bool [N]."""
    return Tapped(lives["tokens"], lives["present"], lives["maps"]).map(lambda x: x[rows])


@torch.no_grad()
def brought_back(agent: Agent, batch: Mapping[str, Any]) -> tuple[dict[str, Any], Tensor, Tensor]:
    """The memories of each life in the order in which a memory would bring them back, the place of the one that is to
    be `copied` among them, int64 [N], and form and colour of what each shows, as the eye has them, [N, THINGS, C].
    """
    recalled, seen = batch["recalled"], batch["senses"][SIGHT]
    ask, kept = (agent.key(agent.encode_senses({SIGHT: x})[SIGHT]) for x in (seen, recalled["senses"][SIGHT][:, 0]))
    alike = (kept * ask).sum(-1)
    fits = alike + _NAMED * batch["named"] - _NAMED * batch["unknown"]
    order = torch.sort(fits, dim=-1, descending=True, stable=True).indices

    def turn(value: Tensor) -> Tensor:
        at = order[:, None].reshape(len(order), 1, -1, *[1] * (value.ndim - 3))
        return value.gather(2, at.expand(-1, -1, -1, *value.shape[3:]))

    known = turn(~batch["unknown"][:, None])
    pictures = {name: turn(value) for name, value in recalled["senses"].items()}
    in_order = {
        "senses": pictures,
        "present": {name: turn(value) & known for name, value in recalled["present"].items()},
        "valid": turn(recalled["valid"]) & known,
        "age_s": turn(recalled["age_s"]),
    }
    place = (order == batch["copied"][:, None]).int().argmax(-1)
    maps = agent.encode_senses({name: pictures[name][:, 0] for name in (SIGHT, TEXT)}, names=[DETAIL])[DETAIL].maps
    codes = torch.cat((maps[FORM], maps[COLOUR]), -3).flatten(-2)
    cell = batch["shown"].gather(1, order)[..., None, None].expand(*codes.shape[:-1], 1)
    return in_order, torch.where(batch["copied"] < THINGS, place, batch["copied"]), codes.gather(-1, cell)[..., 0]
