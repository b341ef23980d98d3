"""The learner: it learns to predict what is being recorded, and offers newer weights when they are better.

It trains only the trunk and the heads that predict: encoders, arcs and keys of names stay the same, bit for bit. Other
heads that read the trunk are held to their old answers (distillation: Hinton et al., 2015; against forgetting: Li and
Hoiem, "Learning without Forgetting", 2016). The new and the live weights both predict new Moments before anything is
learned from them (prequential evaluation: Dawid, 1984); only better weights are handed over.
"""

from __future__ import annotations

import copy
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

from devmind.agent.agent import Agent
from devmind.agent.batch import Batch, as_opening, collate
from devmind.agent.output import drifts
from devmind.agent.prediction import Residual, predicting, residuals
from devmind.live.learning.following import Following
from devmind.moment import TICK_HZ, Moment
from devmind.seeding import numpy_rng

TRAINED = ("trunk.", "readout", "heads.next_")
"""Prefixes of the parameters that are trained while living."""
LEARNING_RATES = {"trunk": 3e-4, "heads": 3e-3}
"""The heads that predict serve nothing else, so they may learn faster than the trunk, which other heads read too."""
WARM_UP = 20
MOMENTS = 128
"""Moments in a batch: as many rows of the trunk's whole window as fit."""
RECENT_TICKS = 120 * TICK_HZ
"""Half of the rows are from the last two minutes, half from the whole recording, each tick equally likely."""
FIRST_TICKS = 10 * TICK_HZ
JUDGED_ROWS = 16
MAX_DRIFT = 0.05
"""Newer weights may change another head's answers by at most this share of their variance."""
WORTH_IT = 0.002
"""Weights are saved to disk only if their error is smaller by at least this share."""


@dataclass
class PredictionErrors:
    """Prediction errors on Moments not yet learned from, relative to predicting no change."""

    live: dict[str, float] = field(default_factory=dict)
    newer: dict[str, float] = field(default_factory=dict)
    drift: dict[str, float] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """`handed_over`, `taken_back` (they predict worse), or `undecided`: hardly better, or another head drifted.

        A drift is no reason to start again, because distillation pulls the head back as learning goes on.
        """
        newer, live = sum(self.newer.values()), sum(self.live.values())
        if not newer <= live:
            return "taken_back"
        drifted = max(self.drift.values(), default=0.0) > MAX_DRIFT
        return "undecided" if drifted or newer > (1 - WORTH_IT) * live else "handed_over"


class Improver:
    """Trains a copy of an agent on windows of a recording.

    Attributes:
        agent: the newer weights; live: those handed over last; reference: those at the start, which guarded heads are
            held to.
        step: number of training steps.
    """

    def __init__(self, agent: Agent, recording: Following) -> None:
        self.agent, self.recording, self.step = agent.eval(), recording, 0
        self.live, self.reference = copy.deepcopy(self.agent), copy.deepcopy(self.agent)
        self.senses = set(agent.sense_order)
        self.predicting = predicting(agent, self.senses)
        self.guarded = [
            entry["name"]
            for entry in agent.config.heads
            if entry["name"] in agent.heads
            and agent.tap_of(entry["name"]).on_trunk
            and entry["name"] not in self.predicting
        ]
        self.ticks = agent.config.window
        self.rows = max(2, MOMENTS // self.ticks)
        for name, parameter in self.agent.named_parameters():
            parameter.requires_grad_(name.startswith(TRAINED))
        self._begin()

    def _begin(self) -> None:
        trained = {name: x for name, x in self.agent.named_parameters() if x.requires_grad}
        heads = [x for name, x in trained.items() if name.startswith("heads.")]
        trunk = [x for name, x in trained.items() if not name.startswith("heads.")]
        groups = [
            {"params": trunk, "rate": LEARNING_RATES["trunk"]},
            {"params": heads, "rate": LEARNING_RATES["heads"]},
        ]
        self._optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.95), weight_decay=0.0)
        self._trained, self._warm = list(trained.values()), 0

    def learn(self, until: int) -> None:
        """Take one training step on rows drawn from the Moments before `until`."""
        batch = self._batch(until)
        outputs = self.agent(batch, self._heads(batch))
        loss = sum((each.ratio() for each in residuals(outputs, batch).values()), start=torch.zeros(()))
        if self.guarded:
            with torch.no_grad():
                wanted = self.reference(batch, self._guarded(batch))
            loss = loss + sum(drifts(outputs, wanted, batch["valid"]).values())
        self._warm += 1
        for group in self._optimizer.param_groups:
            group["lr"] = group["rate"] * min(1.0, self._warm / WARM_UP)
        self._optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self._trained, 1.0)
        self._optimizer.step()
        self.step += 1

    @torch.no_grad()
    def judge(self, start: int, stop: int) -> PredictionErrors:
        """Predict the Moments [start, stop), only the newest if there are many."""
        start = max(start, stop - JUDGED_ROWS * self.ticks)
        rows = [self.recording.moments(at, min(self.ticks, stop - at)) for at in range(start, stop - 1, self.ticks)]
        batch = self._collated(rows)
        outputs, before = (agent(batch, self._heads(batch)) for agent in (self.agent, self.live))
        reference = self.reference(batch, self._guarded(batch))
        drift = {name: float(value) for name, value in drifts(outputs, reference, batch["valid"]).items()}
        return PredictionErrors(_ratios(residuals(before, batch)), _ratios(residuals(outputs, batch)), drift)

    def hand_over(self) -> None:
        """Make the newer weights the live ones."""
        self.live.load_state_dict(self.agent.state_dict())

    def take_back(self) -> None:
        """Start again from the live weights."""
        self.agent.load_state_dict(self.live.state_dict())
        self._begin()

    def _heads(self, batch: Batch) -> list[str]:
        return predicting(self.agent, batch["senses"]) + self._guarded(batch)

    def _guarded(self, batch: Batch) -> list[str]:
        """The guarded heads that have something to read: without a sense, some have nothing."""
        return [name for name in self.guarded if self.agent.tap_of(name).can_read(batch["senses"])]

    def _batch(self, until: int) -> Batch:
        rng = numpy_rng(0, "live", self.step)
        last = max(0, until - self.ticks)
        recent = rng.integers(max(0, last - RECENT_TICKS), last + 1, self.rows - self.rows // 2)
        anywhere = rng.integers(0, last + 1, self.rows // 2)
        return self._collated([self.recording.moments(int(at), self.ticks) for at in (*recent, *anywhere)])

    def _collated(self, rows: Sequence[Sequence[Moment]]) -> Batch:
        """Collate rows of the senses that the agent has; each row is an episode of its own."""
        own_parameters = [
            [Moment(m.time_s, {k: v for k, v in m.senses.items() if k in self.senses}, first=m.first) for m in row]
            for row in rows
        ]
        return collate([as_opening(row) for row in own_parameters])


def _ratios(errors: Mapping[str, Residual]) -> dict[str, float]:
    return {name: float(each.ratio()) for name, each in errors.items()}


def keep(agent: Agent, folder: Path) -> tuple[Path, str]:
    """Save a whole agent below `folder`, under its own hash; returns its folder and the hash."""
    sha256 = agent.sha256()
    place, partial = folder / sha256[:16], folder / f".{sha256[:16]}.partial"
    if not place.is_dir():
        shutil.rmtree(partial, ignore_errors=True)
        agent.save_pretrained(partial)
        partial.replace(place)
    return place, sha256
