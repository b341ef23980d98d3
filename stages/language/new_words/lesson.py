"""The lesson `new_words`: to use a memory of one look at a thing, and of the word that was said with it.

What is learned is no word, since in every life the words are others: it is to compare what is looked at with what comes
to mind, and point at the memory that fits ("what is that?", the head `copied`: its word is what is said); and to look
for what was seen when a word was taught, and point at it in the picture ("where is the zib?", the head `point`). Of
some that are looked at nothing was taught, and then no memory fits.

What comes to mind is what `devmind.acting.recall` would bring: what a name in the question stands for first, then what
looks most alike. The eye and the senses stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from devmind.agent.agent import Agent
from devmind.agent.batch import RECALLED_BUDGET, encode_text, encode_words
from devmind.curriculum.stage import Context, Lesson
from devmind.learners.gradient import gradient_lesson
from devmind.seeding import lesson_seeds, numpy_rng
from stages.language import parts
from stages.language.caregiver.scene import TAUGHT
from stages.language.name.lesson import WHAT, where
from stages.language.name.scenes import THINGS
from stages.language.new_words.lives import Lives, lives, teaching
from stages.language.parts import COPIED, DETAIL, POINT, SIGHT, TEXT, WORDS
from stages.language.seeing import Page, batch_of

NAME = "new_words"
STEPS = {"tiny": 8, "nursery": 500, "child": 2500, "adult": 8000}
STRANGE = 0.2
"""Of those who are asked what they look at, the share to whom it was never shown before."""
YOUNGEST_S, OLDEST_S = 3.0, 1e6
_NAMED = 10.0
"""More than any likeness: what is named comes first."""


def lesson(context: Context) -> Lesson:
    """The lesson as data."""
    return gradient_lesson(
        context, NAME, loss, lambda agent, context, update, rows, steps: lesson_batch(context, update, rows),
        steps=STEPS, rows=32, learning_rate=2e-3, minutes=2.0, trains=trained, prefetch=True, skills=(NAME,),
        control_trains=lambda agent: tuple(each for each in trained(agent) if not each.startswith("trunk.")),
    )  # fmt: skip


def trained(agent: Agent) -> tuple[str, ...]:
    """What the stage may train, without the eye: what was kept is seen by the eye that is there when it comes back."""
    return tuple(prefix for prefix in parts.trained(agent) if prefix != f"encoders.{DETAIL}.")


def lesson_batch(context: Context, update: int, rows: int) -> dict[str, Any]:
    """`rows` lives of pairs that are taught: in every second one the child is asked what it looks at, else where.

    Returns:
        As `batch_of`, and `recalled` with all THINGS memories of each life; `named` and `unknown` bool [N, THINGS]:
        which of them the question names, and which was never shown; `copied` int64 [N]: the one that is looked at,
        RECALLED_BUDGET where none is of it, -1 where that is not asked.
    """
    what = np.arange(rows) % 2 == 0
    seeds = lesson_seeds(rows, context.seed, NAME, update)
    of = lives(context, seeds, TAUGHT, TAUGHT, what, exam=False)
    rng = numpy_rng(context.seed, NAME, update)
    target = np.arange(THINGS) == of.met.target[:, None]
    pages = [Page(WHAT if asked else where(word)) for asked, word in zip(what, of.asked, strict=True)]
    batch = batch_of(of.met, pages, rng, target & ~what[:, None])
    strange = what & (rng.random(rows) < STRANGE)
    ages = np.exp(rng.uniform(np.log(YOUNGEST_S), np.log(OLDEST_S), (rows, THINGS)))
    return batch | {
        "recalled": memories(of, ages),
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
    """Cross-entropy of the memory that is pointed at, where that is asked, and of the cell, where that is."""
    recalled, place = brought_back(agent, batch)
    outputs: Any = agent.forward({**batch, "recalled": recalled}, [COPIED, POINT])
    value, scalars = torch.zeros((), device=agent.device), dict[str, Tensor]()
    asked = batch["copied"] >= 0
    if asked.any():
        logits, wanted = outputs[COPIED].logits[:, 0][asked], place[asked]
        nats = F.cross_entropy(logits, wanted)
        value = value + nats
        scalars |= {"says": nats.detach(), "said right": (logits.argmax(-1) == wanted).float().mean()}
    pointed = batch["pointed"]
    if (asked := pointed.any(-1)).any():
        nats = outputs[POINT].loss(pointed, asked)
        found = pointed.gather(-1, outputs[POINT].mode()[..., None])[asked] > 0
        value = value + nats
        scalars |= {"points": nats.detach(), "cell right": found.float().mean()}
    return value, scalars


@torch.no_grad()
def brought_back(agent: Agent, batch: Mapping[str, Any]) -> tuple[dict[str, Any], Tensor]:
    """The memories of each life in the order in which a memory would bring them back, and the place of the one that is
    to be `copied` among them, int64 [N].
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
    in_order = {
        "senses": {name: turn(value) for name, value in recalled["senses"].items()},
        "present": {name: turn(value) & known for name, value in recalled["present"].items()},
        "valid": turn(recalled["valid"]) & known,
        "age_s": turn(recalled["age_s"]),
    }
    place = (order == batch["copied"][:, None]).int().argmax(-1)
    return in_order, torch.where(batch["copied"] < THINGS, place, batch["copied"])
