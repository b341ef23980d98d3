"""Which action a tree search tries next: PUCT, and Gumbel's with sequential halving and completed Q. Plain numpy.

Every function works on N nodes with A actions each, and each row is decided by itself. Constants and formulas are those
of mctx (https://github.com/google-deepmind/mctx), so that published settings carry over.

    PUCT    Silver et al. 2017, "Mastering the game of Go without human knowledge"
    Gumbel  Danihelka et al. 2022, "Policy improvement by planning with Gumbel"
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

Array = np.ndarray


@dataclass(frozen=True)
class Choices:
    """What is known of the actions at N nodes.

    Attributes:
        logits: float [N, A], the prior's.
        legal: bool [N, A], at least one a row.
        open: bool [N, A], legal and worth trying: its value is not known exactly, nor known to be no better than
            another's. A row without any is decided; what is selected there is of no consequence.
        visits: int64 [N, A]; q: float [N, A], its value to the player who acts, of no meaning where never visited.
        raw_value: float [N], what was estimated before any search; value: float [N], after it.
        bounds: the lowest and the highest value there can be; None: not known, and values are compared with those of
            the other actions at the same node.
    """

    logits: Array
    legal: Array
    open: Array
    visits: Array
    q: Array
    raw_value: Array
    value: Array
    bounds: tuple[float, float] | None = None


def softmax(logits: Array, legal: Array) -> Array:
    """Probabilities float [N, A]; 0 where not legal."""
    finite = np.where(legal, logits, -np.inf)
    powers = np.exp(finite - finite.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def mixed_value(choices: Choices) -> Array:
    """The value of actions never visited, float [N]: raw estimate and visited actions' Q by prior (appendix D)."""
    prior = np.maximum(softmax(choices.logits, choices.legal), np.finfo(np.float32).tiny)
    weight = np.where(choices.visits > 0, prior, 0.0)
    visited = (weight * np.where(choices.visits > 0, choices.q, 0.0)).sum(-1) / np.maximum(weight.sum(-1), 1e-300)
    count = choices.visits.sum(-1)
    return (choices.raw_value + count * visited) / (count + 1)


def completed_q(choices: Choices, value_scale: float, visit_offset: float) -> Array:
    """Q of visited actions, `mixed_value` for the others, in 0..1 and scaled to stand beside logits, float [N, A].

    The scale is (visit_offset + most visits) * value_scale (equation 8).
    """
    completed = np.where(choices.visits > 0, choices.q, mixed_value(choices)[:, None])
    if choices.bounds is None:
        low = np.where(choices.legal, completed, np.inf).min(-1, keepdims=True)
        high = np.where(choices.legal, completed, -np.inf).max(-1, keepdims=True)
    else:
        low, high = (np.full((len(completed), 1), bound) for bound in choices.bounds)
    unit = (completed - low) / np.maximum(high - low, 1e-8)
    return (visit_offset + choices.visits.max(-1, keepdims=True)) * value_scale * unit


def select_puct(choices: Choices, init: float, base: float) -> Array:
    """The action with the highest upper confidence bound among those that are open, int64 [N].

    An action never visited counts as the worst of those visited and of the node itself, as in mctx.
    """
    count = choices.visits.sum(-1, keepdims=True) + 1
    seen = np.where(choices.visits > 0, choices.q, choices.value[:, None])
    low = np.minimum(choices.value[:, None], np.where(choices.legal, seen, np.inf).min(-1, keepdims=True))
    high = np.maximum(choices.value[:, None], np.where(choices.legal, seen, -np.inf).max(-1, keepdims=True))
    completed = np.where(choices.visits > 0, choices.q, low)
    if choices.bounds is not None:
        low, high = (np.full_like(low, bound) for bound in choices.bounds)
    exploit = (completed - low) / np.maximum(high - low, 1e-8)
    factor = init + np.log((count + base + 1) / base)
    explore = np.sqrt(count) * factor * softmax(choices.logits, choices.legal) / (choices.visits + 1)
    return _argmax(exploit + explore, choices.open)


def select_improving(choices: Choices, value_scale: float, visit_offset: float) -> Array:
    """Below the root: the open action whose visits lag most behind the improved policy (equation 14), int64 [N]."""
    improved = improved_policy(choices, value_scale, visit_offset)
    share = choices.visits / (1 + choices.visits.sum(-1, keepdims=True))
    return _argmax(improved - share, choices.open)


def improved_policy(choices: Choices, value_scale: float, visit_offset: float) -> Array:
    """softmax(logits + completed Q), float [N, A] (equation 11): what a policy should learn from a search."""
    return softmax(choices.logits + completed_q(choices, value_scale, visit_offset), choices.legal)


def select_halving(
    choices: Choices, gumbel: Array, simulations: int, considered: int, value_scale: float, visit_offset: float
) -> Array:
    """At the root: sequential halving among the `considered` actions of highest gumbel + logits, int64 [N].

    Where none of those whose turn it is is open any more, the best open one is taken.
    """
    tables = np.array([considered_visits(m, simulations) for m in range(considered + 1)])
    most = np.minimum(considered, choices.legal.sum(-1))
    turn = tables[most, np.minimum(choices.visits.sum(-1), simulations - 1)]
    scores = choices.logits + gumbel + completed_q(choices, value_scale, visit_offset)
    due = choices.open & (choices.visits == turn[:, None])
    return _argmax(scores, np.where(due.any(-1, keepdims=True), due, choices.open))


@lru_cache(maxsize=256)
def considered_visits(considered: int, simulations: int) -> tuple[int, ...]:
    """Sequential halving as a sequence: at each simulation an action with so many visits has its turn (algorithm 2)."""
    if considered <= 1:
        return tuple(range(simulations))
    halvings, visits, sequence = math.ceil(math.log2(considered)), [0] * considered, list[int]()
    left = considered
    while len(sequence) < simulations:
        for _ in range(max(1, int(simulations / (halvings * left)))):
            sequence += visits[:left]
            visits[:left] = [count + 1 for count in visits[:left]]
        left = max(2, left // 2)
    return tuple(sequence[:simulations])


def _argmax(scores: Array, among: Array) -> Array:
    """The first of the highest scores where `among`, int64 [N]."""
    return np.where(among, scores, -np.inf).argmax(-1)
