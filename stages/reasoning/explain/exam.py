"""The exam explain: the agent writes a line of play after its own moves to held-out positions.

A sentence is right if the search behind the move has looked at every move of its line, and if the line is as long as
the search knows one. The agent writes the likeliest byte each time; the exam parses the text afterwards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from devmind.agent.agent import Agent
from devmind.curriculum.exam import Measure, Parts, in_parts
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Context
from devmind.seeding import numpy_rng
from stages.reasoning.explain.lesson import NAME, held_out
from stages.reasoning.explain.lines import (
    GAME,
    Moved,
    due,
    parse_sentence,
    positions,
    said_of,
    searched_moves,
    sentence,
)

MOVES, IMAGES = 200, 3
ELSEWHERE = f"{NAME}/another position"
GATE = Gate([Threshold(NAME, 0.90), Threshold(ELSEWHERE, 0.25, lower_is_better=True)])


@in_parts
def examine(agent: Agent, context: Context) -> Parts:
    """The share of sentences that are true of the agent's own search, and of those about another position and its
    search.
    """
    own = own_moves(agent, context.seed)
    own = own.take(np.arange(min(context.episodes(MOVES), len(own.after))))
    texts = said_of(agent, own.after, own.lookahead)
    others, searches = (np.roll(each, 1, axis=0) for each in (own.after, own.lookahead))
    right, elsewhere = right_of(own, texts), right_of(own, said_of(agent, others, searches))
    templates = [sentence(line, value) for line, value in zip(own.line.tolist(), own.value.tolist(), strict=True)]
    canned = float(right_of(own, [Counter(templates).most_common(1)[0][0]] * len(texts)).mean())
    groups, episodes = GAME.canonical(own.after)[0], GAME.keys(own.after)
    own_measure = Measure(
        NAME, "sentences true of the search", right, chance=0.0, ceiling=1.0, rate=True, episodes=episodes,
        groups=groups,
        note=f"own moves in tic-tac-toe, to positions without an image in lessons; for example: {texts[0].strip()}",
    )  # fmt: skip
    of_another = Measure(
        ELSEWHERE, "sentences true of the search, with another position's features", elsewhere, chance=canned,
        ceiling=0.0, rate=True, episodes=episodes, groups=groups, higher_is_better=False,
        note="a sentence that fits every position keeps its score here",
    )  # fmt: skip
    yield [own_measure, of_another]
    # From the same tree that the agent sees: the skill is to read the tree and to spell.
    by_template = float(right_of(own, templates).mean())
    floors = {"canned sentence": canned, "a template filled in from the search": by_template}
    best_replies = [_moves(text)[:1] == [best] for text, best in zip(texts, own.line[:, 0], strict=True)]
    verbs = [_verb(text) == due(one) for text, one in zip(texts, own.value, strict=True)]
    rows = {
        "a sentence": np.mean([parse_sentence(text) is not None for text in texts]),
        "the best reply": np.mean(best_replies),
        "the right verb": np.mean(verbs),
        "its own search with another position": right_of(own, said_of(agent, others, own.lookahead)).mean(),
        "another search with its own position": right_of(own, said_of(agent, own.after, searches)).mean(),
    }
    yield [
        replace(own_measure, floors=floors, rows={name: float(value) for name, value in rows.items()}),
        replace(of_another, floors={"canned sentence": canned}),
    ]


def own_moves(agent: Agent, seed: int) -> Moved:
    """The agent's moves to held-out positions, from three images of every position, in random order."""
    rng, marks = numpy_rng("exam", NAME, seed), np.repeat(positions(), IMAGES, axis=0)
    symmetry = rng.integers(0, len(GAME.symmetries[0]), len(marks))
    all_moves = searched_moves(agent, np.take_along_axis(marks, GAME.symmetries[0][symmetry], 1))
    return all_moves.take(rng.permutation(np.flatnonzero(held_out(all_moves.after))))


def lesson_episodes(context: Context, n: int) -> np.ndarray:
    """Positions of lessons, int64 [up to n], one image of each; no exam asks about them."""
    return GAME.keys(positions()[~held_out(positions())][:n])


def right_of(own: Moved, sentences: Sequence[str]) -> np.ndarray:
    """Whether each sentence is true of the search behind the move, float64 [N] of 0 and 1."""
    known = (own.line >= 0).sum(-1)
    named = [_moves(text) for text in sentences]
    right = [len(line) >= known[at] and own.has_looked_at(at, line) for at, line in enumerate(named)]
    return np.array(right, np.float64)


def _moves(text: str) -> list[int]:
    read = parse_sentence(text)
    return read[1] if read else []


def _verb(text: str) -> str:
    read = parse_sentence(text)
    return read[0] if read else ""
