"""Worlds, the environments of an agent. Simulated, live and replayed ones all give Moments of the standard senses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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


def rules_of(name: str, level: str | None = None) -> Any:
    """The rules of the world `name` at `level`, by default the world's own default.

    Raises:
        WorldError: unknown world or level.
    """
    from inspect import signature

    from devmind import plugins
    from devmind.errors import WorldError, nearest

    known = plugins.available("worlds")
    if name not in known:
        raise WorldError(f"There is no world named '{name}'{nearest(name, known)}")
    rules = known[name].load()
    try:
        signature(rules).bind(*(() if level is None else (level,)))
    except TypeError as error:
        raise WorldError(
            f"The world '{name}' cannot be made: {error}. Its class takes one argument, the level, with a default."
        ) from error
    return rules() if level is None else rules(level)
