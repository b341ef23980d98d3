"""The lesson route: trips of an oracle, imagined whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from devmind.agent.agent import Agent
from devmind.agent.config import by_size
from devmind.curriculum.stage import Batches, Context, Lesson
from devmind.learners.gradient import sum_losses
from devmind.learners.muon import MuonLearner
from devmind.seeding import numpy_rng
from stages.planning import parts
from stages.planning.route import trips

STEPS = {"tiny": 20, "nursery": 1000, "child": 6000, "adult": 20_000}
ROWS = by_size(6, tiny=4)
TICKS = 16
ASKED = by_size(640, tiny=8)
"""Plans of a batch that are read as numbers alone: without the trunk a plan costs a third."""
MINUTES = 6.5
LEARNING_RATE = 2e-3
LEVELS = by_size(("medium", "large", "giant"), tiny=("medium",), nursery=("medium", "large"))
"""Mazes that are learned and examined, by size."""
ORACLE_TICKS = by_size(50_000, tiny=4_000)
"""Ticks of the oracle in each maze, at most."""
JOINED = by_size(12_000, tiny=50)
"""Ways that are joined from the trips of each maze."""


class RouteLearner(MuonLearner):
    """Muon on the denoiser's matrices: imagined plans hold after half as many taught ones (docs/log.md, 2026-11-26)."""

    orthogonal: ClassVar[tuple[str, ...]] = (f"heads.{parts.ROUTE}.denoiser.",)
    muon_rate: ClassVar[float] = 0.01


def oracle_trips(context: Context) -> list[trips.Trips]:
    """The oracle's trips that this run learns from."""
    size = context.config.size
    return [trips.make_trips(level, context.seed, ORACLE_TICKS[size]) for level in LEVELS[size]]


def lesson_trips(context: Context) -> list[trips.Trips]:
    """What the lesson shows: ways joined from pieces of those trips."""
    return [join_trip(context, trip) for trip in oracle_trips(context)]


def join_trip(context: Context, trip: trips.Trips) -> trips.Trips:
    """What the lesson shows of one maze."""
    return trips.join_trips(trip, JOINED[context.config.size], numpy_rng(context.seed, "joined", trip.maze))


def lesson(context: Context) -> Lesson:
    """The lesson as data."""
    size = context.config.size
    rows, rate = context.changed("route", ROWS[size], LEARNING_RATE)

    def learner(agent: Agent, context: Context) -> RouteLearner:
        return RouteLearner(agent, loss, seed=context.seed, learning_rate=rate, trains=parts.trained_weights(agent))

    def batches(agent: Agent, context: Context, steps: int) -> Batches:
        ways = lesson_trips(context)

        def make(update: int) -> dict[str, Any]:
            rng = numpy_rng(context.seed, "route", update)
            asked = context.rows(ASKED[size])
            return trips.batch(ways, TICKS, context.rows(rows), asked, rng, parts.HORIZONS[size])

        return Batches(make, steps, prefetch=True)

    return Lesson("route", learner, batches, STEPS[size], MINUTES, rehearsed=True, skills=("route",))


def loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Losses of noised trajectories, masked symbols, commands, and strides that can be walked."""
    output: Any = agent.forward({name: value for name, value in batch.items() if name != "asked"}, [parts.ROUTE])
    output_route, learned = output[parts.ROUTE], batch["learned"].to(agent.device)
    asked = {name: value.to(agent.device) for name, value in batch["asked"].items()}
    of = {
        name: torch.cat((batch[name].to(agent.device)[learned], asked[name]))
        for name in ("plan", "symbols", "ahead", "walk")
    }
    thought = output_route.head.thinking(asked["body"], asked["goal"], asked["maze"])
    losses = output_route.rows(learned).and_of(thought).losses(of)
    return sum_losses(losses)
