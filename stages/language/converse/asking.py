"""The measure `converse/asks`: the agent asks what it looks at if, and only if, it was never told.

The lives are those of `new_words`, an hour after four things were named. In every second life the thing looked at was
left out, so that only three were named. The head `recognised` decides whether the agent asks, by the function that a
life calls when somebody holds something up (`stages.language.taught_words.ask`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from devmind.agent.agent import Agent
from devmind.algorithms.calibration import calibration_error
from devmind.curriculum.exam import Exhibit, Measure, Parts, in_parts
from devmind.curriculum.stage import Context
from devmind.report.exhibits import png
from devmind.seeding import exam_seeds, lesson_seeds
from stages.language.caregiver.scene import HELD_OUT, PAIRS, TAUGHT
from stages.language.name.scenes import THINGS
from stages.language.new_words.exam import NewWordLives, Rules
from stages.language.new_words.lives import Lives, lives
from stages.language.taught_words import WHAT, answers_by_looks

ASKS = "converse/asks"
EPISODES = 400
TUNED_ON = 400
"""Lives of lessons on which the baselines' thresholds are tuned."""
NOTE = (
    "right if it asks 'what is that?' about a thing that was never named, and not about one that was named once, an "
    "hour before; half of the things are of either kind; pairs of colour and form that no lesson has"
)


@in_parts
def examine(agent: Agent, context: Context) -> Parts:
    """One value a life. An agent without the heads for words taught once is not asked, and the gate says so."""
    if not answers_by_looks(agent):
        return
    n = context.episodes(EPISODES)
    of, strange = draw_lives(context, exam_seeds(n, context.seed, ASKS), exam=True)
    answer = NewWordLives(agent, of, untaught=strange).answered([WHAT] * n)
    right = answer.asks == strange
    measure = Measure(
        ASKS, "asked or not, rightly", right.astype(float), 0.5, 1.0, rate=True, note=NOTE, episodes=of.episodes()
    )
    yield [measure]
    unremembering = NewWordLives(agent, of, memory=False).answered([WHAT] * n)
    rows = {
        "asked about things that were never named": float(answer.asks[strange].mean()),
        "asked about things that were named once": float(answer.asks[~strange].mean()),
        "calibration error of its doubt": calibration_error(answer.doubt, _unnamed(answer.nearest, of, strange)),
        "asked with memory off": float(unremembering.asks.mean()),
    }
    floors, mistakes = _floors(context, of, strange), _mistakes(of, strange, answer.asks)
    yield [replace(measure, floors=floors, rows=rows, exhibits=mistakes)]


def draw_lives(context: Context, seeds: np.ndarray, exam: bool) -> tuple[Lives, np.ndarray]:
    """Lives of the seeds int64 [N], and in which of them the thing looked at was never named, bool [N]."""
    pairs = (HELD_OUT, PAIRS) if exam else (TAUGHT, TAUGHT)
    return lives(context, seeds, *pairs, np.ones(len(seeds), bool), exam=exam), np.arange(len(seeds)) % 2 == 1


def _unnamed(nearest: Sequence[str], of: Lives, strange: np.ndarray) -> np.ndarray:
    """Whether the likeliest word is not that of the thing looked at, bool [N]; `doubt` is its probability."""
    return strange | (np.array(nearest) != of.asked)


def _floors(context: Context, of: Lives, strange: np.ndarray) -> dict[str, float]:
    """Baselines: two habits, and the rules of `new_words`, which are told where each thing is. These ask if no named
    look is as similar to the thing looked at as a threshold, the best one in lives of lessons.
    """
    n, rules = context.scaled(TUNED_ON), Rules(context)
    lesson, without = draw_lives(context, lesson_seeds(n, context.seed, ASKS), exam=False)
    floors = {"never asks": float((~strange).mean()), "always asks": float(strange.mean())}
    tuned, fits_of_exam = (
        {name: _best_fit(fits[:, 0], one.scenes.target, unknown) for name, fits in rules.fits(one, looked_at=True)}
        for one, unknown in ((lesson, without), (of, strange))
    )
    for name, fits in fits_of_exam.items():
        least = threshold(tuned[name], ~without)
        floors[f"{name}, asks below a threshold"] = float(((fits < least) == strange).mean())
    return floors


def _best_fit(fits: np.ndarray, target: np.ndarray, strange: np.ndarray) -> np.ndarray:
    """How well the thing looked at fits the most similar look that was named, float64 [N].

    Args:
        fits: of each look, [N, THINGS]; target: the thing's own look, int64 [N], named unless it is `strange`.
    """
    left_out = strange[:, None] & (np.arange(THINGS) == target[:, None])
    return np.where(left_out, -np.inf, fits).max(1)


def threshold(scores: np.ndarray, known: np.ndarray) -> float:
    """The score from which on calling things known agrees best with `known`, bool [N]; the lowest of equals."""
    options = np.unique(scores)
    right = [((scores >= option) == known).mean() for option in options]
    return float(options[int(np.argmax(right))])


def _mistakes(of: Lives, strange: np.ndarray, asked: np.ndarray) -> tuple[Exhibit, ...]:
    wrong = np.flatnonzero(asked != strange)[:6]
    history = {False: "was told once", True: "was never told"}
    return tuple(
        Exhibit("failure", f"the {of.scenes.names[i]} in the middle, which it {history[bool(strange[i])]}: it "
                f"{'asked' if asked[i] else 'did not ask'}", png=png(of.scenes.sight[i]))
        for i in wrong
    )  # fmt: skip
