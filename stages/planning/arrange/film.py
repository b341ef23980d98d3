"""An agent arranges a table, for a page: its first plan while it is denoised, all candidates, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from devmind.acting import Actor, rollout
from devmind.agent.agent import Agent
from devmind.agent.batch import collate_tick
from devmind.algorithms.diffusion.pipeline import SampledPlans
from devmind.worlds import make as make_world
from devmind.worlds.tabletop import KINDS_RGB, PLACE_RADIUS, PLACES, RADIUS, THINGS
from stages.planning.arrange.demonstrations import THERE
from stages.planning.film import fill_page, refuse_gaps
from stages.planning.imagining import HALF
from stages.planning.parts import ARM, ARRANGE

EDGE = 1.1
"""How far a page shows the table, from its middle."""
WORDS = (
    *(f"thing {number + 1}" for number in range(THINGS)),
    *(f"place {number + 1}" for number in range(PLACES)),
    "there",
)


@dataclass
class Arranged:
    """What was imagined for a table and what came of it; places are x, y in -1..1, y upwards.

    Attributes:
        things, places: what lay there at first, by number: float [3] of x, y and kind, -1 or 1.
        frames: for each denoising step the noised key points [N, H, 2] and symbols int64 [N, L].
        drawn: the first plan's candidates; chosen: the one that is followed, whose symbols are surest.
        walked: the hand's places [ticks + 1, 2]. plans: number of plans made. sorted: whether all was, in the end.
        belief: what the agent says of its table at first and in the end (`Arranging.belief`).
    """

    things: dict[int, np.ndarray] = field(default_factory=dict)
    places: dict[int, np.ndarray] = field(default_factory=dict)
    frames: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)
    drawn: SampledPlans | None = None
    chosen: int = 0
    walked: list[np.ndarray] = field(default_factory=list)
    plans: int = 0
    sorted: bool = False
    belief: tuple[str, str] = ("", "")

    @property
    def sure(self) -> np.ndarray:
        """How sure the network was of each candidate's symbols, 0..1, float [N]."""
        assert self.drawn is not None
        return np.exp(self.drawn.log_prob.cpu().numpy())

    @property
    def words(self) -> list[str]:
        """The things and places of the chosen plan, in order."""
        assert self.drawn is not None
        return [WORDS[symbol] for symbol in self.drawn.symbols[self.chosen].tolist() if symbol != THERE]


def arrange_table(agent: Agent, level: str, seed: int) -> Arranged:
    """Let the agent arrange the table of a level and a seed.

    Raises:
        WorldError: there is no such level.
    """
    world = make_world("tabletop", level, [seed])
    actor, film = Actor(agent, 1, effectors=[ARM]), Arranged()

    def going(senses: Mapping[str, Any], first: np.ndarray) -> dict[str, np.ndarray]:
        refuse_gaps(senses)
        output = actor.act(collate_tick(senses, first))
        read: Any = output.outputs[ARRANGE]
        if first.all():
            film.things, film.places = lying(senses["things"][0]), lying(senses["places"][0])
            film.drawn = read.candidates(torch.tensor([0]), torch.tensor([0]), None, watch)
            film.chosen = int(film.drawn.log_prob.argmax())
            film.belief = read.belief(), ""
        film.belief = film.belief[0], read.belief()
        film.plans = int(read.carry["made"][0])
        film.walked.append(senses["hand"][0, :2])
        return {ARM: output.action[ARM].cpu().numpy()}

    def watch(number: int, x: torch.Tensor, clean: torch.Tensor, symbols: torch.Tensor) -> None:
        film.frames.append((x[..., :2].cpu().numpy(), symbols.cpu().numpy()))

    with torch.inference_mode():
        for tick in rollout(going, world):
            film.sorted = bool(tick.reward[0] > 0)
    film.walked.append(world.observe()["hand"][0, :2])
    return film


def lying(row: np.ndarray) -> dict[int, np.ndarray]:
    """The present ones of `things` or `places`, as sensed of one table: [x, y, kind] by number."""
    return {number: one[:3] for number, one in enumerate(row.reshape(-1, 4)) if one[3] > HALF}


def page(film: Arranged) -> str:
    """The whole page: that of a maze, with a table in it."""
    assert film.drawn is not None

    def seen(points: np.ndarray) -> list[Any]:
        coordinates: list[Any] = (points * (1, -1)).round(3).tolist()
        return coordinates

    def discs(of: Mapping[int, np.ndarray], radius: float, ring: bool, offset: int) -> list[dict[str, Any]]:
        return [
            {"at": seen(one[:2]), "r": radius, "ring": ring, "name": WORDS[offset + number],
             "rgb": list(KINDS_RGB[int(one[2] > 0)])}
            for number, one in of.items()
        ]  # fmt: skip

    ticks = f"{len(film.walked) - 1} ticks"
    outcome = f"All is sorted after {ticks}" if film.sorted else f"Not all is sorted after {ticks}"
    return fill_page(
        {
            "box": [-EDGE, -EDGE, 2 * EDGE, 2 * EDGE],
            "unit": 0.05,
            "walls": [],
            "discs": [
                *discs(film.places, PLACE_RADIUS, True, THINGS), *discs(film.things, RADIUS, False, 0),
            ],
            "words": list(WORDS),
            "silent": THERE,
            "frames": [{"places": seen(x), "symbols": words.tolist()} for x, words in film.frames],
            "plans": seen(film.drawn.trajectory[..., :2].cpu().numpy()),
            "symbols": film.drawn.symbols.tolist(),
            "marks": film.sure.round(4).tolist(),
            "marked": "sureness of symbols",
            "chosen": film.chosen,
            "walked": seen(np.stack(film.walked)),
            "came": f"{outcome}, with {film.plans} plan{'' if film.plans == 1 else 's'}. {film.belief[1]}",
            "given": [],
            "kept": [],
        }
    )  # fmt: skip
