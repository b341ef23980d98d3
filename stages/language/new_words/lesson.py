"""The lesson `new_words`: using a memory of one look at a thing, and of the word that was said with it.

No word is learned, since every life has other words. The head `recognised` learns to compare the thing looked at with
recalled memories and to point at the one that fits ("what is that?" is answered by its word); if the thing was never
shown, none fits. The head `sought` learns to find in the picture what was seen when a word was taught ("where is the
zib?").

Memories are recalled in the order of `devmind.acting.recall`: first those of a name in the question, then those that
look most alike. Only the two heads learn. The trunk passes memories on as they are, so a trunk that lets tokens through
serves as well. Each batch goes through the trunk once, and the heads take several small steps on its features and those
of batches before: a pass of the trunk costs as much as fifty such steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from devmind.agent.agent import Agent
from devmind.agent.batch import RECALLED, RECALLED_BUDGET, encode_text, encode_words, map_tensors, to_device
from devmind.agent.config import by_size
from devmind.agent.output import masked_mean
from devmind.agent.taps import Tapped
from devmind.algorithms.ridge import fit_ridge
from devmind.curriculum.stage import Batches, Context, Lesson, Rehearsed, Scalars
from devmind.learners.gradient import GradientLearner
from devmind.seeding import lesson_seeds, numpy_rng
from stages.language.caregiver.scene import TAUGHT
from stages.language.eye import COLOUR, FORM
from stages.language.name.scenes import THINGS
from stages.language.new_words.lives import Lives, lives
from stages.language.parts import DETAIL, RECOGNISED, SIGHT, SOUGHT, TEXT, WORDS
from stages.language.seeing import Page, as_read, batch_of, cells
from stages.language.taught_words import WHAT, teaching, where

NAME = "new_words"
STEPS = {"tiny": 8, "nursery": 600, "child": 1200, "adult": 2400}
ROWS, EXAMPLES = by_size(32, tiny=8), by_size(8, tiny=1)
"""Lives of a batch, and batches for the regression at the beginning."""
KEPT, AGAIN = 24, 3
"""The newest batches, which are kept to learn from; and further steps of an update, each on one of these."""
LIKE_UNTIL = 0.5
"""From this share of the lesson on, `sought` need no longer predict from a memory what the eye finds."""
STRANGE = 0.35
"""Of questions about the thing looked at, the share in which it was never shown."""
YOUNGEST_S, OLDEST_S = 3.0, 1e6
_NAMED = 10.0
"""Exceeds any similarity, so that memories of a named word come first."""


def lesson(context: Context) -> Lesson:
    """The lesson as data."""

    def make_batches(agent: Agent, context: Context, steps: int) -> Batches:
        rows = context.rows(_rate(context)[0])
        return Batches(lambda update: lesson_batch(context, update, rows), steps, prefetch=True)

    steps = STEPS[context.config.size]
    return Lesson(NAME, ComparingLearner, make_batches, steps, 2.5, rehearsed=True, skills=(NAME,), control=())


class ComparingLearner(GradientLearner):
    """Begins in closed form: the layer `looked` of both heads is a ridge regression, on memories of lessons, from the
    trunk's features of a memory to what the eye finds in its picture. Learned by gradient steps, this took longer than
    everything after it.

    Attributes:
        recent: features of the newest batches (`read`).
    """

    def __init__(self, agent: Agent, context: Context) -> None:
        super().__init__(agent, loss, seed=context.seed, learning_rate=_rate(context)[1], trains=trained_weights(agent))
        self.context = context
        self.recent: list[dict[str, Any]] = []

    def begin(self, step: int) -> None:
        """Fit the regression, unless the lesson resumes or is taught again."""
        if step == 0 and not self.again:
            start_by_regression(self.agent, self.context)
        super().begin(step)

    def update(self, batch: Any, step: int) -> Scalars:
        """A step on a new batch, which gives the scalars, and AGAIN steps on kept batches, drawn by the step."""
        if isinstance(batch, Rehearsed):
            return super().update(batch, step)
        self.set_rates(step)
        like = max(0.0, 1 - step / max(1.0, LIKE_UNTIL * self.steps))
        self.recent = [*self.recent, read_features(self.agent, batch)][-KEPT:]
        value, scalars = loss_of(self.agent, self.recent[-1], like)
        self.descend(value)
        for at in numpy_rng(self.seed, NAME, "again", step).integers(len(self.recent), size=AGAIN).tolist():
            self.descend(loss_of(self.agent, self.recent[at], like)[0])
        return {"loss": value.detach(), **scalars}

    def state_dict(self) -> dict[str, Any]:
        """The optimizer's state and the kept features."""
        return super().state_dict() | {"kept": list(self.recent)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore these."""
        super().load_state_dict(state)
        self.recent = [to_device(one, self.agent.device) for one in state["kept"]]


@torch.no_grad()
def start_by_regression(agent: Agent, context: Context) -> None:
    """Fit `looked` of both heads on EXAMPLES batches of lives that no update has."""
    tokens, targets = [], []
    for number in range(EXAMPLES[context.config.size]):
        batch = lesson_batch(context, -1 - number, _rate(context)[0])
        batch = to_device(as_read(agent, batch), agent.device)
        recalled, _, codes = brought_back(agent, batch)
        seen = agent.perceive({**batch, "recalled": recalled}, [agent.tap_of(SOUGHT)])
        here = recalled["valid"][:, 0]
        tokens.append(seen.of_senses[RECALLED].tokens[:, 0][here].cpu())
        targets.append(codes[here].cpu())
    fitted = fit_ridge(torch.cat(tokens).numpy(), torch.cat(targets).numpy())
    for name in (SOUGHT, RECOGNISED):
        looked: Any = agent.head(name).looked
        looked.weight.copy_(torch.from_numpy(fitted.weights.T))
        looked.bias.copy_(torch.from_numpy(fitted.intercept))


def _rate(context: Context) -> tuple[int, float]:
    """Rows of a batch and the learning rate; the configuration may change both."""
    return context.changed(NAME, ROWS[context.config.size], 1e-3)


def trained_weights(agent: Agent) -> tuple[str, ...]:
    """The two heads that compare."""
    return tuple(f"heads.{head}." for head in (SOUGHT, RECOGNISED))


def lesson_batch(context: Context, update: int, rows: int) -> dict[str, Any]:
    """`rows` lives of taught pairs: in every second one the question is what is looked at, else where a thing is.

    Args:
        update: of the lesson; below 0 lives that no update has.

    Returns:
        As `batch_of`, and `recalled` with all THINGS memories of each life; `shown` int64 [N, THINGS]: the cell with
        the thing in each memory; `named` and `unknown` bool [N, THINGS]: the memory that the question names, and the
        one that was never shown; `copied` int64 [N]: the memory of the thing looked at, RECALLED_BUDGET if there is
        none, -1 if that is not asked.
    """
    what = np.arange(rows) % 2 == 0
    part: tuple[int | str, ...] = ("begins", -update) if update < 0 else (update,)
    seeds = lesson_seeds(rows, context.seed, NAME, *part)
    of = lives(context, seeds, TAUGHT, TAUGHT, what, exam=False)
    rng = numpy_rng(context.seed, NAME, update)
    target = np.arange(THINGS) == of.scenes.target[:, None]
    pages = [Page(WHAT if asked else where(word)) for asked, word in zip(what, of.asked, strict=True)]
    batch = batch_of(of.scenes, pages, rng, target & ~what[:, None])
    strange = what & (rng.random(rows) < STRANGE)
    ages = np.exp(rng.uniform(np.log(YOUNGEST_S), np.log(OLDEST_S), (rows, THINGS)))
    return batch | {
        "recalled": memories(of, ages),
        "shown": torch.from_numpy(cells(of.looks.boxes[:, 0]).reshape(rows, THINGS)),
        "named": torch.from_numpy(target & ~what[:, None]),
        "unknown": torch.from_numpy(target & strange[:, None]),
        "copied": torch.from_numpy(np.where(strange, RECALLED_BUDGET, np.where(what, of.scenes.target, -1))),
    }


def memories(of: Lives, age_s: np.ndarray) -> dict[str, Any]:
    """What each life stores of its things, as recalled memories of a Batch: [N, 1, THINGS, ...]."""
    rows, things = of.words.shape
    texts = [encode_text(teaching(word)) for word in of.words.reshape(-1).tolist()]
    text = np.stack([np.pad(encoded, (0, max(map(len, texts)) - len(encoded))) for encoded in texts]).reshape(
        rows, things, -1
    )
    words = np.stack([encode_words(word) for word in of.words.reshape(-1).tolist()]).reshape(rows, things, -1)
    here = torch.ones(rows, 1, things, dtype=torch.bool)
    senses = {SIGHT: of.taught, TEXT: text, WORDS: words}
    return {
        "senses": {name: torch.from_numpy(value)[:, None] for name, value in senses.items()},
        "present": dict.fromkeys(senses, here),
        "valid": here,
        "age_s": torch.from_numpy(age_s).float()[:, None],
    }


def lesson_episodes(context: Context, n: int) -> np.ndarray:
    """Lives of lessons, int64 [about n]."""
    seeds = lesson_seeds(n, context.seed, NAME, "episodes")
    return np.concatenate([
        lives(context, part, TAUGHT, TAUGHT, np.arange(len(part)) % 2 == 0, exam=False).episodes()
        for part in np.array_split(seeds, -(-n // 500))
    ])  # fmt: skip


def loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """`loss_of` a batch of lives."""
    return loss_of(agent, read_features(agent, batch))


@torch.no_grad()
def read_features(agent: Agent, batch: Mapping[str, Any]) -> dict[str, Any]:
    """The features that both heads read of each of N lives, which the lesson does not change, and the targets.

    Returns:
        `tokens` [N, K, D], `present` bool [N, K] and `maps` of the heads' tap; `memories` [N, THINGS, D] and which of
        them are `here`, bool [N, THINGS]; `shown` [N, THINGS, C] and `place` int64 [N] of `brought_back`; `asked` bool
        [N]: whether to point at a memory; `pointed` [N, 64] as in the batch.
    """
    batch = as_read(agent, batch)
    recalled, place, codes = brought_back(agent, batch)
    tap = agent.tap_of(SOUGHT)
    seen = agent.perceive({**batch, "recalled": recalled}, [tap])
    tapped = tap.read(seen)
    assert tapped is not None, "each life has a page, a picture and memories"
    alone = tapped.map(lambda x: x[:, 0])
    compared = {
        "tokens": alone.tokens, "present": alone.present, "maps": dict(alone.maps),
        "memories": seen.of_senses[RECALLED].tokens[:, 0], "here": recalled["valid"][:, 0], "shown": codes,
        "place": place, "asked": batch["copied"] >= 0, "pointed": batch["pointed"][:, 0],
    }  # fmt: skip
    # Contiguous, as after a checkpoint: products of other strides are rounded differently.
    return map_tensors(compared, lambda x: x.contiguous())


def loss_of(agent: Agent, lives: Mapping[str, Any], like: float = 1.0) -> tuple[Tensor, dict[str, Tensor]]:
    """Cross-entropy of the memory or of the cell pointed at, as each life asks; and the distance of `looked` of each
    memory from what the eye finds in its picture.

    Args:
        lives: of `read`.
        like: the weight of this distance for the head `sought`, which may find things better by what tells them apart
            than by what they look like, and never has to say that a thing is unknown.
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
        logits, targets = recognised(_rows(lives, asked)).logits, lives["place"][asked]
        nats = F.cross_entropy(logits, targets)
        value = value + nats
        scalars |= {"says": nats.detach(), "said right": (logits.argmax(-1) == targets).float().mean()}
    if (points := pointed.any(-1)).any():
        output = sought(_rows(lives, points))
        nats = output.loss(pointed[points])
        hits = pointed[points].gather(-1, output.mode()[..., None]) > 0
        value = value + nats
        scalars |= {"points": nats.detach(), "cell right": hits.float().mean()}
    return value, scalars


def _rows(lives: Mapping[str, Any], rows: Tensor) -> Tapped:
    """What a head reads of the lives `rows`, bool [N]."""
    return Tapped(lives["tokens"], lives["present"], lives["maps"]).map(lambda x: x[rows])


@torch.no_grad()
def brought_back(agent: Agent, batch: Mapping[str, Any]) -> tuple[dict[str, Any], Tensor, Tensor]:
    """The memories of each life in the order of recall, the place of the `copied` one among them, int64 [N], and the
    eye's codes of form and colour of what each shows, [N, THINGS, C].
    """
    recalled, sight = batch["recalled"], batch["senses"][SIGHT]
    ask, stored = (agent.key(agent.encode_senses({SIGHT: x})[SIGHT]) for x in (sight, recalled["senses"][SIGHT][:, 0]))
    likeness = (stored * ask).sum(-1)
    fits = likeness + _NAMED * batch["named"] - _NAMED * batch["unknown"]
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
