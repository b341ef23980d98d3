"""The exam explain: the agent writes a line of play after its own moves to held-out positions.

A sentence is right if the search behind the move has looked at every move of its line, and if the line is as long as
the search knows one. The agent writes the likeliest byte each time; the exam parses the text afterwards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from devmind.agent.agent import Agent
from devmind.curriculum.exam import Measure
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Context
from devmind.seeding import numpy_rng
from stages.reasoning.explain.lesson import NAME, held_out
from stages.reasoning.explain.lines import GAME, Moved, due, moved, positions, said_of, sentence, understood

MOVES, IMAGES = 200, 3
ELSEWHERE = f"{NAME}/another position"
GATE = Gate([Threshold(NAME, 0.90), Threshold(ELSEWHERE, 0.25, lower_is_better=True)])


def examine(agent: Agent, context: Context, level: str) -> Sequence[Measure]:
    """The share of sentences that are true of the agent's own search, and of those about another position and its
    search.
    """
    mine = own_moves(agent, context.seed)
    mine = mine.take(np.arange(min(context.episodes(MOVES, level), len(mine.after))))
    said, full = said_of(agent, mine.after, mine.lookahead), level == "full"
    others, searches = (np.roll(each, 1, axis=0) for each in (mine.after, mine.lookahead))
    right, elsewhere = right_of(mine, said), right_of(mine, said_of(agent, others, searches))
    told = [sentence(line, value) for line, value in zip(mine.line.tolist(), mine.value.tolist(), strict=True)]
    canned = float(right_of(mine, [Counter(told).most_common(1)[0][0]] * len(said)).mean())
    # From the same tree that the agent sees: the skill is to read the tree and to spell.
    floors = {"canned sentence": canned, "a template filled in from the search": float(right_of(mine, told).mean())}
    groups, episodes = GAME.canonical(mine.after)[0], GAME.keys(mine.after)
    rows = {
        "a sentence": np.mean([understood(text) is not None for text in said]),
        "the best reply": np.mean(
            [_moves(text)[:1] == [best] for text, best in zip(said, mine.line[:, 0], strict=True)]
        ),
        "the right verb": np.mean([_verb(text) == due(one) for text, one in zip(said, mine.value, strict=True)]),
    }
    if full:
        rows["its own search with another position"] = right_of(mine, said_of(agent, others, mine.lookahead)).mean()
        rows["another search with its own position"] = right_of(mine, said_of(agent, mine.after, searches)).mean()
    return [
        Measure(
            NAME, "sentences true of the search", right, chance=0.0, ceiling=1.0, rate=True, episodes=episodes,
            groups=groups, floors=floors if full else {},
            note=f"own moves in tic-tac-toe, to positions without an image in lessons; for example: {said[0].strip()}",
            rows={name: float(value) for name, value in rows.items()} if full else {},
        ),
        Measure(
            ELSEWHERE, "sentences true of the search, with another position's features", elsewhere, chance=canned,
            ceiling=0.0, rate=True, episodes=episodes, groups=groups, higher_is_better=False,
            floors={"canned sentence": canned} if full else {},
            note="a sentence that fits every position keeps its score here",
        ),
    ]  # fmt: skip


def own_moves(agent: Agent, seed: int) -> Moved:
    """The agent's moves to held-out positions, from three images of every position, in random order."""
    rng, marks = numpy_rng("exam", NAME, seed), np.repeat(positions(), IMAGES, axis=0)
    which = rng.integers(0, len(GAME.symmetries[0]), len(marks))
    every = moved(agent, np.take_along_axis(marks, GAME.symmetries[0][which], 1))
    return every.take(rng.permutation(np.flatnonzero(held_out(every.after))))


def taught(context: Context, n: int) -> np.ndarray:
    """Positions of lessons, int64 [up to n], one image of each; no exam asks about them."""
    return GAME.keys(positions()[~held_out(positions())][:n])


def right_of(mine: Moved, said: Sequence[str]) -> np.ndarray:
    """Whether each sentence is true of the search behind the move, float64 [N] of 0 and 1."""
    known = (mine.line >= 0).sum(-1)
    named = [_moves(text) for text in said]
    right = [len(line) >= known[at] and mine.has_looked_at(at, line) for at, line in enumerate(named)]
    return np.array(right, np.float64)


def _moves(text: str) -> list[int]:
    read = understood(text)
    return read[1] if read else []


def _verb(text: str) -> str:
    read = understood(text)
    return read[0] if read else ""
