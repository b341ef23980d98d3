"""What the stage adds to an agent, and the sizes of its heads.

- `route`, the planner: senses `goal`, `maze`, effector `walk`. `judge`: sense `draft`.
- `trade`: senses `returns`, `account`, effector `trade`.
- `instruct`: reads `text` and `board`, acts with `choose`.
- `arrange`: senses `hand`, `things`, `places`, effector `arm`.
- `manipulate`: reads `sight`, `words` and `body` in the nursery, acts with `reach`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from gymnasium import spaces

from devmind.agent.agent import Agent
from devmind.agent.config import AgentConfig, by_size
from devmind.agent.parts import Part, PartSpec, add_all
from devmind.agent.text import add_text
from devmind.learners.gradient import owned_parts
from devmind.worlds.market import SEEN
from devmind.worlds.pointmaze import MAZES
from devmind.worlds.tabletop import PLACES, THINGS
from stages.planning import WORDS
from stages.planning.judge import draft_size

NAME = "planning"
ROUTE, WALK = "route", "walk"
"""The planner's head and effector."""
TRADE, RETURNS, ACCOUNT = "trade", "returns", "account"
"""The effector, and the head, that trades; what it reads of a market."""
TRADE_PLAN = "trade_plan"
"""The head that plans trades, for the same effector; it reads both senses as they are."""
PRICES_TAP = (f"raw:{RETURNS}", f"raw:{ACCOUNT}")
TRADE_PLAN_SIZES: dict[str, dict[str, int]] = {
    "tiny": {"width": 16, "layers": 1, "attention_heads": 2, "steps": 2, "word_steps": 2, "candidates": 4},
    "nursery": {},
    "child": {"width": 96, "layers": 3, "candidates": 16},
    "adult": {"width": 192, "layers": 4, "attention_heads": 8, "steps": 10, "candidates": 64, "follow": 4},
}
JUDGE, DRAFT = "judge", "draft"
"""The head that judges plans, and the sense that holds one."""
INSTRUCT, TEXT, BOARD, LAYOUT, CHOOSE = "instruct", "text", "board", "layout", "choose"
"""The head that is instructed; its senses (`layout`, the reasoning stage's view of the board, in place of `board` where
the agent has it); its effector, MiniGrid's actions."""
VIEW_CELLS = "view_cells"
"""The reasoning stage's head that reads cells of views; `instruct` begins with its weights."""
ARRANGE, ARM = "arrange", "arm"
"""The head that arranges, and its effector."""
TABLE = {"hand": 4, "things": 4 * THINGS, "places": 4 * PLACES}
"""The senses of a table, and the numbers of each."""
TABLE_TAP = (*(f"trunk:{sense}" for sense in TABLE), "trunk", *(f"raw:{sense}" for sense in TABLE))
ARRANGE_SIZES: dict[str, dict[str, int]] = {
    "tiny": {"width": 32, "layers": 1, "attention_heads": 2, "steps": 2, "word_steps": 2, "candidates": 2},
    "nursery": {},
    "child": {"width": 128, "layers": 4},
    "adult": {"width": 256, "layers": 6, "attention_heads": 8, "steps": 20, "candidates": 16},
}
MANIPULATE, REACH, WHEREABOUTS = "manipulate", "reach", "whereabouts"
"""The head that handles things, and its effector; the reflex stage's head whose reading of places it begins with."""
HANDLING = ("sight", "words", "body")
HANDLING_TAP = ("trunk:body", "trunk", "sight", "words", "raw:body")
MANIPULATE_SIZES: dict[str, dict[str, int]] = {
    "tiny": {"width": 32, "layers": 1, "attention_heads": 2, "steps": 2, "word_steps": 2, "candidates": 1},
    "nursery": {},
    "child": {"width": 128, "layers": 4},
    "adult": {"width": 256, "layers": 6, "attention_heads": 8, "steps": 20, "candidates": 8},
}
SENSES = ("body", "goal", "maze")
TAP = ("trunk:body", "trunk:goal", "trunk:maze", "trunk", "raw:body", "raw:goal", "raw:maze")
STRIDE = 16
"""Ticks between two points of a plan."""
HORIZON = 26
"""Points of a plan, enough for the longest ways through the mazes `medium` and `large`."""
HORIZONS = by_size(HORIZON, child=40, adult=40)
"""The same by size: child and adult learn `giant`, whose ways are longer: up to 552 ticks were met."""
SIZES: dict[str, dict[str, int]] = {
    "tiny": {
        "width": 32,
        "layers": 1,
        "attention_heads": 2,
        "memory": 64,
        "candidates": 2,
        "steps": 2,
        "warm_steps": 1,
        "word_steps": 2,
    },
    "nursery": {},
    "child": {"width": 256, "layers": 6, "attention_heads": 8, "candidates": 32, "steps": 10, "warm_steps": 5},
    "adult": {"width": 512, "layers": 8, "attention_heads": 8, "candidates": 50, "steps": 20, "warm_steps": 10},
}


def _pages(agent: Agent) -> None:
    if TEXT not in agent.encoders:
        add_text(agent, stage=NAME)


def _planner(agent: Agent, layers_of: str = "own") -> PartSpec:
    points = HORIZONS[agent.config.size]
    options: dict[str, Any] = {"horizon": points, "stride": STRIDE, "words": len(WORDS), "length": points}
    options |= SIZES[agent.config.size] | ({} if layers_of == "own" else {"layers_of": layers_of})
    return PartSpec(ROUTE, "head.planning-route", TAP, WALK, (2,), options)


def _draft(agent: Agent) -> dict[str, int]:
    """The options of the judge, which say how many numbers a plan has."""
    points = HORIZONS[agent.config.size]
    return {"horizon": points, "length": points, "mazes": len(MAZES)}


def _instruct(agent: Agent) -> PartSpec:
    views = LAYOUT if LAYOUT in agent.encoders else BOARD
    tap, options = (f"trunk:{TEXT}", TEXT, views), {"views": agent.tokens_of(views)}
    return PartSpec(
        INSTRUCT, "head.planning-instruct", tap, CHOOSE, None, options, standby=True, starts_from=VIEW_CELLS
    )


def _numbers(sense: str, size: int) -> PartSpec:
    return PartSpec(sense, space=spaces.Box(-np.inf, np.inf, (size,)))


MAZE_SENSES = (_numbers("body", 2), _numbers("goal", 2), _numbers("maze", len(MAZES)))
PARTS: Sequence[Part] = (
    *MAZE_SENSES,
    _planner,
    PartSpec(RETURNS, "encoder.vector", options={"size": SEEN}),
    PartSpec(ACCOUNT, "encoder.vector", options={"size": 3}),
    PartSpec(TRADE, "head.planning-trade", (RETURNS, f"raw:{ACCOUNT}"), TRADE),
    lambda agent: _numbers(DRAFT, draft_size(**_draft(agent))),
    lambda agent: PartSpec(JUDGE, "head.planning-judge", f"raw:{DRAFT}", options=_draft(agent)),
    # Earlier stages bring pages and boards.
    PartSpec(BOARD),
    _pages,
    _instruct,
    *(PartSpec(sense, "encoder.vector", options={"size": size}) for sense, size in TABLE.items()),
    PartSpec(ARRANGE, "head.planning-arrange", TABLE_TAP, ARM, (3,), sizes=ARRANGE_SIZES),
    # Earlier stages bring its senses, its effector, and a reading of places.
    *(PartSpec(sense) for sense in HANDLING),
    PartSpec(
        MANIPULATE,
        "head.planning-manipulate",
        HANDLING_TAP,
        REACH,
        (4,),
        sizes=MANIPULATE_SIZES,
        standby=True,
        starts_from=WHEREABOUTS,
    ),
    PartSpec(TRADE_PLAN, "head.planning-trade-plan", PRICES_TAP, TRADE, sizes=TRADE_PLAN_SIZES, standby=True),
)


def admit(agent: Agent, layers_of: str = "own") -> None:
    """Add every part that is not there yet.

    Args:
        layers_of: "own", or "trunk": the planner's denoiser runs the trunk's layers in both directions (`PlannerHead`).
    """
    add_all(agent, NAME, (*MAZE_SENSES, partial(_planner, layers_of=layers_of), *PARTS))


def trained_weights(agent: Agent) -> tuple[str, ...]:
    """Prefixes of the weights that lessons change: the stage's own parts. The trunk's features stay as they are.

    No earlier stage uses these parts, and the planner learns as fast as if the trunk learned too (docs/log.md,
    2026-11-25).
    """
    return owned_parts(agent, NAME)


def untrained_agent(agent: Agent) -> Agent:
    """A newborn of the same size and seed that was admitted to the stage and taught nothing."""
    newborn = Agent(AgentConfig(size=agent.config.size, seed=agent.config.seed)).to(agent.device)
    admit(newborn)
    return newborn.eval()
