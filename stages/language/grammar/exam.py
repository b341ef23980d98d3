"""The skill `grammar`: of two pages that differ in one fault of grammar, the right one has to be the likelier."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from devmind.agent.agent import Agent
from devmind.curriculum.episodes import identities
from devmind.curriculum.exam import Exhibit, Measure, Parts, in_parts
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Context
from devmind.seeding import EXAM_SEEDS_FROM
from stages.language.grammar.lesson import nats_of, of_pages
from stages.language.grammar.pairs import KINDS_OF_FAULTS, TRUTH, Pair, pair
from stages.language.read.corpus import as_bytes, caregiver
from stages.language.read.ngrams import WittenBell

NAME = "grammar"
GATE = Gate([Threshold(NAME, 0.95)])
EACH = 56
"""Pairs of each kind of fault."""
TOGETHER = 32
ORDERS = (5, 9, 13)
"""Lengths of the baselines' n-grams."""
SAME_NATS = 1e-6
"""Costs that differ by no more are equal: the order of a sum must not decide."""

Telling = Callable[[list[str]], np.ndarray]
"""Nats float64 [N] of N pages."""


@in_parts
def examine(agent: Agent, context: Context) -> Parts:
    """One value a pair: 1 if the right pages cost fewer nats, 0.5 if both cost the same."""
    per_fault = context.episodes(EACH)
    all_pairs = pairs(context, per_fault)
    values = judge_pairs(all_pairs, lambda texts: nats(agent, texts))
    kinds = np.array([one.kind for one in all_pairs])
    measure = Measure(
        NAME,
        "of pairs told apart",
        values,
        chance=0.5,
        rate=bool(np.isin(values, (0.0, 1.0)).all()),
        note=f"{len(KINDS_OF_FAULTS)} kinds of faults, pairs of colour and noun that her texts never have; a "
        f"tie counts a half ({int((values == 0.5).sum())} here); '{TRUTH}' is measured too and does not count",
        episodes=identities({"text": texts_of(all_pairs)}),
    )
    yield [measure]
    rows = {kind: float(values[kinds == kind].mean()) for kind in KINDS_OF_FAULTS}
    untrue = [pair(TRUTH, EXAM_SEEDS_FROM + context.seed, number) for number in range(per_fault)]
    rows[TRUTH] = float(judge_pairs(untrue, lambda texts: nats(agent, texts)).mean())
    floors = {
        f"Witten-Bell {order}-gram": float(judge_pairs(all_pairs, grams(context, order)).mean()) for order in ORDERS
    }
    yield [replace(measure, floors=floors, rows=rows, exhibits=_mistakes(all_pairs, values))]


def pairs(context: Context, per_fault: int) -> list[Pair]:
    """The exam's minimal pairs, `per_fault` of every kind of fault, in turn."""
    return [
        pair(kind, EXAM_SEEDS_FROM + context.seed, number) for number in range(per_fault) for kind in KINDS_OF_FAULTS
    ]


def texts_of(some_pairs: Sequence[Pair]) -> list[str]:
    """All pages of each pair, joined."""
    return ["".join((*one.right, *one.wrong)) for one in some_pairs]


def judge_pairs(some_pairs: Sequence[Pair], telling: Telling) -> np.ndarray:
    """For each pair 1 if the right pages cost less, 0.5 if both cost the same, else 0, float64 [N]. The pages of each
    sort are summed.
    """
    begins = np.cumsum([0, *(len(one.right) for one in some_pairs[:-1])])
    right, wrong = (
        np.add.reduceat(telling([page for pages in sort for page in pages]), begins)
        for sort in ([one.right for one in some_pairs], [one.wrong for one in some_pairs])
    )
    return np.where(np.abs(wrong - right) <= SAME_NATS, 0.5, (wrong > right).astype(float))


def nats(agent: Agent, texts: list[str]) -> np.ndarray:
    """The cost of each page to an agent, in nats."""
    groups = [of_pages(texts[start : start + TOGETHER]) for start in range(0, len(texts), TOGETHER)]
    return np.concatenate([nats_of(agent, group).double().cpu().numpy() for group in groups])


def grams(context: Context, order: int) -> Telling:
    """The cost of each page by n-grams counted in the caregiver's sentences of lessons."""
    model = WittenBell(as_bytes(caregiver(context).taught).astype(np.int64), 256, order)

    def nats_of(texts: list[str]) -> np.ndarray:
        # In her sentences an empty line ends each exchange, so one stands before each page here.
        before = "\n\n"
        return np.array([model.nats(as_bytes(before + text).astype(np.int64))[len(before) :].sum() for text in texts])

    return nats_of


def lesson_episodes(context: Context, n: int) -> np.ndarray:
    """The exam's pairs of which a right page was read in lessons word for word: int64, at best none."""
    all_pairs = pairs(context, EACH)
    lessons_text = caregiver(context).taught
    ids = identities({"text": texts_of(all_pairs)})
    return ids[[any(page in lessons_text for page in one.right) for one in all_pairs]]


def _mistakes(some_pairs: Sequence[Pair], values: np.ndarray) -> tuple[Exhibit, ...]:
    wrong = np.flatnonzero(values < 1)[:6]
    return tuple(Exhibit("failure", f"{some_pairs[i].kind}: {_last(some_pairs[i].wrong)} was the likelier one than "
                         f"{_last(some_pairs[i].right)}") for i in wrong)  # fmt: skip


def _last(pages: Sequence[str]) -> str:
    """The last lines of pages."""
    return " with ".join(f"'{page.splitlines()[-1]}'" for page in pages)
