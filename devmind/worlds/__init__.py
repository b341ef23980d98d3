"""Worlds, the environments of an agent. Simulated, live and replayed ones all give Moments of the standard senses."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    from devmind.worlds.adapter import VectorWorld


def make(name: str, level: str, seeds: np.ndarray | list[int], n: int | None = None) -> VectorWorld:
    """N children of the world `name` at `level`, already reset to `seeds` (int64 [N]).

    Args:
        name: an entry of the plugin group `worlds`; its class takes the level.
        level: one of that world's levels.
        seeds: one seed a child; lessons use seeds below a million, exams the others.
        n: number of children; by default the number of seeds.

    Raises:
        WorldError: unknown world or level, or `n` is not the number of seeds.
    """
    from devmind.errors import WorldError
    from devmind.worlds.adapter import VectorWorld
    from devmind.worlds.rules import rules_of

    count = len(seeds) if n is None else n
    if count != len(seeds):
        raise WorldError(f"Expected one seed for each of {count} children; got {len(seeds)} seeds.")
    world = VectorWorld(rules_of(name, level), count)
    world.begin(seeds)
    return world


GYMNASIUM_ID = "devmind/Nursery-v0"


def register_gymnasium() -> None:
    """Register the nursery with Gymnasium: the function of the entry point `gymnasium.envs`, called when gymnasium is
    imported, so that `gymnasium.make("devmind/Nursery-v0", level="reach")` works without importing devmind.
    """
    import gymnasium

    gymnasium.register(GYMNASIUM_ID, entry_point="devmind.worlds.adapter:FlatWorld")
