"""What of an exam the trunk's layers carry: a part of it is held again with layers that pass everything through.

The heads stay as they were taught. So where the score falls, they rely on the layers, which does not show that nothing
else would do: that is asked by heads that were taught anew (`ablation`). Where it stays, the layers carry nothing.

Which measures read the trunk is not declared but tried: a third time its features are zeros. A measure that keeps every
value has no trunk in its path, whatever its heads tap.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from devmind.agent.agent import Agent
from devmind.agent.decoders import zero_outputs
from devmind.curriculum.ablation import differences
from devmind.curriculum.exam import Measure, TrunkRow, is_retained, of_equals
from devmind.report.results import LAYERS_PASS

Ask = Callable[[Agent], Mapping[str, Measure]]
"""Holds the part of an exam for an agent: its measures by name, on the same episodes whenever it is called."""
NEEDS, WITHOUT, OUTSIDE, UNDECIDED = "needs the layers", "as good without", "not in its path", "undecided"


@dataclass
class Passes:
    """How often a trunk's decoder was run."""

    count: int = 0


@contextmanager
def counting_passes(agent: Agent) -> Iterator[Passes]:
    """Count the passes through the trunk in this block, also those of copies that are made in it."""
    passes = Passes()

    def note(*_: Any) -> None:
        passes.count += 1

    hook = agent.trunk.decoder.register_forward_pre_hook(note)
    try:
        yield passes
    finally:
        hook.remove()


def has_layers(agent: Agent) -> bool:
    """Whether any of the trunk's layers does more than to pass everything through, as a newborn's do."""
    every = agent.trunk.decoder.layers
    return any(bool(one.self_attn.o_proj.weight.any() or one.mlp.down_proj.weight.any()) for one in every)


def layers_pass(agent: Agent) -> Agent:
    """A copy of the agent each of whose layers, grown ones too, is the identity."""
    passing = copy.deepcopy(agent)
    for layer in passing.trunk.decoder.layers:
        zero_outputs(layer)
    return passing


def features_cut(agent: Agent) -> Agent:
    """A copy of the agent whose trunk gives zeros instead of features."""

    def cut(module: Any, given: Any, found: Any) -> Any:
        found.last_hidden_state = torch.zeros_like(found.last_hidden_state)
        return found

    blind = copy.deepcopy(agent)
    blind.trunk.decoder.register_forward_hook(cut)
    return blind


def add_trunk_rows(
    measures: Mapping[str, Measure], agent: Agent, ask: Ask, resamples: int, ran: bool
) -> tuple[dict[str, Measure], float]:
    """The measures of an exam, each with what the trunk carries of it, and the seconds that it took to ask.

    Args:
        ask: holds the part; all answers that are compared are its own, so that they are paired.
        ran: whether the trunk was run in the exam itself. If not, nothing is asked.
    """
    begun = time.monotonic()
    if not ran:
        return {name: _outside(measure) for name, measure in measures.items()}, 0.0
    with torch.random.fork_rng(devices=[]):
        with counting_passes(agent) as passes:
            whole = ask(agent)
        passing = ask(layers_pass(agent)) if passes.count else whole
        still = [name for name in whole if name in passing and _are_equal(whole[name], passing[name])]
        blind = ask(features_cut(agent)) if passes.count and still else passing
    outside = {name for name in still if name in blind and _are_equal(whole[name], blind[name])}
    gained = differences(whole, passing, resamples)
    found = dict[str, Measure]()
    for name, measure in measures.items():
        if name in outside:
            found[name] = _outside(measure)
        elif name in gained:
            row = _row(whole[name], passing[name], gained[name], name in still)
            found[name] = replace(measure, trunk=row, rows={**measure.rows, LAYERS_PASS: row["passing"]})
        else:
            found[name] = measure
    return found, time.monotonic() - begun


def _outside(measure: Measure) -> Measure:
    return replace(measure, trunk=TrunkRow(verdict=OUTSIDE))


def _are_equal(one: Measure, other: Measure) -> bool:
    return np.array_equal(one.values, other.values)


def _row(whole: Measure, passing: Measure, gained: Mapping[str, Any], equal: bool) -> TrunkRow:
    scale, low, high = abs(whole.ceiling - whole.chance) or 1.0, gained["low"], gained["high"]
    if equal and not whole.exhaustive:
        # Episodes that agree say nothing of those that were not asked: a bootstrap of zeros would.
        low, high = of_equals(0.0, gained["n"], -scale, scale)
    verdict = UNDECIDED
    if is_retained(-gained["gained"] / scale, -high / scale):
        verdict = WITHOUT
    elif low > 0:
        verdict = NEEDS
    return TrunkRow(
        verdict=verdict,
        whole=whole.score,
        passing=passing.score,
        gained=gained["gained"],
        low=low,
        high=high,
        n=gained["n"],
    )
