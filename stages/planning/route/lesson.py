"""The lesson route: trips of an oracle, imagined whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from devmind.agent.agent import Agent
from devmind.curriculum.stage import Batches, Context, Lesson
from devmind.learners.muon import MuonLearner
from devmind.seeding import numpy_rng
from stages.planning import parts
from stages.planning.route import trips

STEPS = {"tiny": 20, "nursery": 1000, "child": 6000, "adult": 20_000}
ROWS, ROWS_ELSE = {"tiny": 4}, 6
TICKS = 16
ASKED, ASKED_ELSE = {"tiny": 8}, 640
"""Plans of a batch that are read as numbers alone: without the trunk a plan costs a third."""
MINUTES = 6.5
LEARNING_RATE = 2e-3
LEVELS_ELSE = ("medium", "large")
LEVELS = {"tiny": ("medium",), "child": (*LEVELS_ELSE, "giant"), "adult": (*LEVELS_ELSE, "giant")}
"""Mazes that are learned and examined, by size."""
ORACLE_TICKS = {"tiny": 4_000}
ORACLE_TICKS_ELSE = 50_000
"""Ticks of the oracle in each maze, at most."""
JOINED, JOINED_ELSE = {"tiny": 50}, 12_000
"""Ways that are joined from the trips of each maze."""


class RouteLearner(MuonLearner):
    """Muon on the denoiser's matrices: imagined plans hold after half as many taught ones (docs/log.md, 2026-11-26)."""

    orthogonal: ClassVar[tuple[str, ...]] = (f"heads.{parts.ROUTE}.denoiser.",)
    muon_rate: ClassVar[float] = 0.01


def levels(size: str) -> tuple[str, ...]:
    """Mazes that are learned and examined at a size."""
    return LEVELS.get(size, LEVELS_ELSE)


def shown(context: Context) -> list[trips.Trips]:
    """The oracle's trips that this run learns from."""
    size = context.config.size
    return [trips.made(level, context.seed, ORACLE_TICKS.get(size, ORACLE_TICKS_ELSE)) for level in levels(size)]


def taught(context: Context) -> list[trips.Trips]:
    """What the lesson shows: ways joined from pieces of those trips."""
    return [joined(context, trip) for trip in shown(context)]


def joined(context: Context, trip: trips.Trips) -> trips.Trips:
    """What the lesson shows of one maze."""
    n = JOINED.get(context.config.size, JOINED_ELSE)
    return trips.joined(trip, n, numpy_rng(context.seed, "joined", trip.maze))


def lesson(context: Context) -> Lesson:
    """The lesson as data."""
    size = context.config.size
    rows, rate = context.changed("route", ROWS.get(size, ROWS_ELSE), LEARNING_RATE)

    def learner(agent: Agent, context: Context) -> RouteLearner:
        return RouteLearner(agent, loss, seed=context.seed, learning_rate=rate, trains=parts.trained(agent))

    def batches(agent: Agent, context: Context, steps: int) -> Batches:
        ways = taught(context)

        def make(update: int) -> dict[str, Any]:
            rng = numpy_rng(context.seed, "route", update)
            asked = context.rows(ASKED.get(size, ASKED_ELSE))
            return trips.batch(ways, TICKS, context.rows(rows), asked, rng, parts.horizon(size))

        return Batches(make, steps, prefetch=True)

    return Lesson("route", learner, batches, STEPS[size], MINUTES, rehearsal_every=0, skills=("route",))


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
    return torch.stack(list(losses.values())).sum(), {name: value.detach() for name, value in losses.items()}
